"""Instructions to the phone: carried out in order if they are instructions, else not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.service.caller import CallerState, ScriptedCaller
from agentgym.envs.service.device_lines import ALONE
from agentgym.envs.service.instructions import instructions, read_instructions
from agentgym.envs.service.phone import (
    ACCESS,
    AUTOMATIC,
    CHANGES,
    CHECKS,
    NETWORK,
    PAY,
    PERMIT,
    RESET,
    RESTART,
    SIM,
    STATUS,
    Network,
    Phone,
)
from agentgym.envs.service.telecom import Telecom
from agentgym.tools import Call, write_call
from tests.envs.service.test_telecom import CALLER, UP

ACTIONS = (*CHECKS, *CHANGES)
actions = st.sampled_from(ACTIONS)
INSTRUCTS = (
    "Please {}.",
    "{}",
    "Could you please {}?",
    "1. {}",
    "First, {}, please.",
    "I’d like you to {}.",
    "Now you need to {}.",
    "Thank you. Next, please {} and tell me the result.",
    "Great! Let’s {}.",
    "- **{}**",
    "Don't forget to {}.",
    "Would you be so kind? Please\u00a0{}.",
)
NONE = (
    "Please do not {}.",
    "You should never {}.",
    "Don’t {}, please.",
    "There is no need to {}.",
    "My colleague told you to {}.",
    'Somebody wrote "{}".',
    "Your neighbour said to {}.",
    "I will {} for your line.",
    "Let us talk about it before you {}.",
    "You do not have to {}.",
    "Did you {}?",
    "Have you ever tried to {}?",
)
UNCLEAR = (
    "If the light is red, {}.",
    "Unless it works, {}.",
    "Should you see an error, {}.",
    "Most customers {} every week.",
    "Please {} tomorrow.",
    "Would you like to {}?",
)


@settings(deadline=None)
@given(st.data())
def test_usual_words_instruct(data: st.DataObject):
    action, form = data.draw(actions), data.draw(st.sampled_from(INSTRUCTS))
    assert read_instructions(form.format(action)).steps == ((action, "do"),)


@settings(deadline=None)
@given(actions, st.sampled_from(NONE))
def test_negations_questions_about_the_past_and_reports_instruct_nothing(action: str, form: str):
    assert not instructions(form.format(action)), form


@settings(deadline=None)
@given(actions, st.sampled_from(UNCLEAR))
def test_conditions_and_other_mentions_instruct_nothing(action: str, form: str):
    assert not instructions(form.format(action)), form


@settings(deadline=None)
@given(actions, st.sampled_from(CHANGES))
def test_only_the_main_clause_instructs(action: str, other: str):
    for form in ("Instead of {0}, please {1}.", "Before you {2}, please {1}.",
                 "Please {1}, but do not {2}.", "Please {1} before you {2}."):  # fmt: skip
        verb, _, rest = other.partition(" ")
        gerund = {"set": "setting", "take": "taking", "reset": "resetting"}.get(verb, f"{verb}ing")
        message = form.format(f"{gerund} {rest}", action, other)
        assert instructions(message) == [action], message


@settings(deadline=None)
@given(st.lists(actions, min_size=2, max_size=4, unique=True), st.sampled_from(
    ("Please {}.", "{}", "Could you {}?")), st.sampled_from((". Please ", ", then ", ". Then ",
                                                             " and ", "\n- ", "; ")))  # fmt: skip
def test_all_instructions_are_followed_in_order(listed: list[str], form: str, joint: str):
    message = form.format(joint.join(listed))
    assert instructions(message) == listed, message


@pytest.mark.parametrize(
    ("message", "steps"),
    [
        ("Turn off data saver and the VPN.", ["turn off data saver", "turn off the VPN"]),
        ("Turn off both data saver and VPN.", ["turn off data saver", "turn off the VPN"]),
        ("Check the APN settings, then reset them.", [ACCESS, RESET]),
        ("Power your phone off and back on.", [RESTART]),
        ("Turn your phone off, wait 10 seconds and turn it on again.", [RESTART]),
        ("Turn your phone off, then turn on mobile data.", ["turn on mobile data"]),
        ("Set your preferred network type to Automatic (5G/4G).", [AUTOMATIC]),
        ("A request has been sent; please make the payment.", [PAY]),
        ("Check the SIM card and the status bar.", [SIM, STATUS]),
        ("Turn airplane mode off and mobile data on.",
         ["turn off airplane mode", "turn on mobile data"]),
        ("Turn airplane mode on and then off again.",
         ["turn on airplane mode", "turn off airplane mode"]),
        ("Airplane mode is on. Please turn it off.", ["turn off airplane mode"]),
        ("Please make sure that mobile data is on.", ["turn on mobile data"]),
        ("Is airplane mode turned on?", [STATUS]),
        ("Please check if data roaming is enabled.", [NETWORK]),
        ("Try restarting your phone.", [RESTART]),
        ("I recommend rebooting the device.", [RESTART]),
        ("Power\u2011cycle your phone.", [RESTART]),
        ("Without restarting the phone, check the SIM card.", [SIM]),
        ("Restart the phone. After restarting it, check the status bar.", [RESTART, STATUS]),
        ("Don\u2019t turn off mobile data; just reset the APN settings.", [RESET]),
        ("You restarted the phone, right?", []),
        ("Restart the router.", []),
        ("Open the messaging app and grant it all permissions.",
         ["check the messaging app", PERMIT]),
    ],
)  # fmt: skip
def test_several_objects_and_wordings(message: str, steps: list[str]):
    assert instructions(message) == steps


def caller(phone: Phone | None = None, network: Network = UP) -> ScriptedCaller:
    return ScriptedCaller(
        replace(CALLER, mood="polite"), CallerState(), phone or Phone(), network, lambda: 0
    )


def test_the_user_asks_about_what_is_not_clear():
    user = caller(Phone(airplane=True, data=False))
    reply = user.reply("Turn on mobile data. If you see an airplane, turn off airplane mode.")
    assert reply.text == "Mobile data is on now. Shall I turn off airplane mode now?"
    assert user.phone.airplane
    assert user.reply("Yes, please.").text == "Airplane mode is off now."
    assert not user.phone.airplane
    assert user.reply("Yes, please.").text.startswith("I do not understand")
    assert user.reply("Toggle airplane mode.").text == "Shall I turn airplane mode on or off?"
    both = user.reply("Turn off mobile data or reset the APN.").text
    assert both == "Shall I turn off mobile data, and then reset the APN settings now?"
    assert user.phone.data


def test_the_user_remembers_what_it_has_done():
    user = caller()
    assert (
        user.reply("Have you already restarted the phone?").text == "No, I have not done that yet."
    )
    assert user.reply("After you restart the phone, check the status bar.").text.startswith(
        "Shall I"
    )
    user.reply("Please restart the phone.")
    assert user.reply("Did you restart the phone?").text == "Yes, I have done that."
    assert "status bar" in user.reply("After you restart the phone, check the status bar.").text


def test_the_user_answers_all_of_a_message():
    user = caller(Phone(data=False))
    reply = user.reply("What is your name? And please turn on mobile data. Does it work now?")
    assert reply.text.startswith("Mobile data is on now. I am Ada Holt. It works now.")
    user = caller(Phone(airplane=True))
    text = user.reply("Please check the SIM card and let me know if it works now.").text
    assert text == "The SIM card is active. There is still no mobile data."


@pytest.mark.parametrize(
    ("message", "agreed"),
    [
        ("I will sell you 2 GB for $6.00. Do you confirm?", True),
        ("I can add 2 gigabytes for 6 dollars. Shall I go ahead?", True),
        ("May I sell you two GB for \uff04\uff16?", True),
        ("Your plan has 5 GB, which are used up. I will sell you 2 GB for $6. Is this okay?", True),
        ("I will sell you 2 GB for $6 ($3 per GB). Do you confirm?", True),
        ("I will sell you 2 GB for $60. Do you confirm?", False),
        ("I will sell you 2 GB for $6 or $7. Do you confirm?", False),
        ("I will sell you 12 GB for $6. Do you confirm?", False),
        ("I will not sell you 2 GB for $6. Is that correct?", False),
        ('You wrote "sell me 2 GB for $6". Is that correct?', False),
        ("If you were abroad, I would sell you 2 GB for $6. Do you confirm?", False),
        ("I will send a payment request of $41.00. Do you confirm?", True),
        ("I will send a payment request of $41 and $7. Do you confirm?", False),
        ("I will not send a payment request of $41. Is this right?", False),
        ("Shall I enable roaming for your line?", True),
        ("Please turn on data roaming and confirm when it is done.", False),
        ("I will not enable roaming. Do you confirm?", False),
    ],
)
def test_proposals_are_judged_by_value(message: str, agreed: bool):
    assert caller().reply(message).confirmed == agreed


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 99))
def test_only_the_right_price_is_agreed_to(gigabytes: int, price: int):
    reply = caller().reply(f"I will sell you {gigabytes} GB for ${price}. Do you confirm?")
    assert reply.confirmed == ((gigabytes, price) == (2, 6))


@pytest.mark.parametrize(
    ("words", "report"),
    [
        ("PHONE: check the SIM card", "The SIM card is active."),
        ("PHONE: do not restart the phone", "The phone cannot do that."),
        ("PHONE: turn off the VPN and restart the phone", "The phone does one thing at a time."),
        ("PHONE: if it rains, restart the phone", "The phone cannot do that."),
        ("**PHONE: check the SIM card**", "The SIM card is active."),
        ("**PHONE:** check the SIM card.", "The SIM card is active."),
        ("Phone: check the SIM card", "The SIM card is active."),
        ("PHONE check the SIM card", "The SIM card is active."),
        ("I look.\nPHONE: check the SIM card", ALONE),
        ("PHONE: check the SIM card\nWhat now?", ALONE),
        ("PHONE: check the SIM card\nPHONE: restart the phone", ALONE),
    ],
)
def test_a_line_to_the_phone_is_one_action(words: str, report: str):
    env = Telecom()
    env.reset(seed=0, options={"task": task_with(env, "active")})
    assert env.use_device(words) == report


@pytest.mark.parametrize(
    "words",
    [
        "Phone: 555-011234",
        "My phone is new.",
        "Phones are nice.",
        "Phone",
        "phone: no",
        "Phone: turn off airplane mode?",
        "Phone number: 555-011234, restart the phone",
        "Phone restart the phone again? It did nothing.",
        "Phone, check the SIM card",
    ],
)
def test_other_words_about_phones_are_messages(words: str):
    env = Telecom()
    env.reset(seed=0)
    assert env.use_device(words) is None


def task_with(env: Telecom, sim: str) -> str:
    return next(f"train/{i}" for i in range(100) if env._case(f"train/{i}").caller.phone.sim == sim)


MARKS = ({"'": "\u2019"}, {"-": "\u2011"}, {" ": "\u00a0"}, {":": "\uff1a", "?": "\uff1f"},
         {"$": "\uff04", "0": "\uff10", "1": "\uff11", "2": "\uff12"})  # fmt: skip


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("name", ["Retail", "Airline", "Telecom"])
def test_messages_of_the_expert_have_the_same_effect_in_other_typography(
    name: str, marks: dict[str, str]
):
    from agentgym.envs.service.airline import Airline
    from agentgym.envs.service.retail import Retail

    env = {"Retail": Retail, "Airline": Airline, "Telecom": Telecom}[name]()
    for i in range(12):
        env.reset(seed=0, options={"task": f"test/{i}"})
        over, info = False, {}
        while not over:
            step = env._solve()
            assert step is not None
            if isinstance(step, Call):
                words = write_call(step)
            else:
                words = "".join(marks.get(char) or char for char in step)
            _, _, terminated, truncated, info = env.step(words)
            over = terminated or truncated
        assert info["success"], env.state.conversation


def test_paying_waits_for_the_request():
    assert read_instructions("Please pay the bill once you have the request.").steps == (
        (PAY, "ask"),
    )
