"""What agents write: denials, answers, questions and calls in their usual forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.messages import asks_to_confirm, claims_value, denies, questions
from agentgym.envs.service.proposals import CANCEL
from agentgym.envs.service.retail import Retail
from agentgym.envs.service.tau_desk import TauDesk
from agentgym.envs.service.telecom import Telecom
from agentgym.envs.service.user import Scenario, agrees, codes
from agentgym.tools import write_call

DENIALS = (
    "I am sorry, I cannot do that.",
    "Your order is not eligible for cancellation.",
    "That is not permitted.",
    "It does not qualify for a cancellation.",
    "I can\u2019t cancel it.",
    "This is against our policy.",
    "A cancellation is possible only within 24 hours of the booking.",
    "An order must be pending to be cancelled.",
    "This ticket is non-refundable.",
    "This ticket is non\u2011refundable.",
    "As it has been delivered, it cannot be cancelled or modified at this stage.",
    "I\u2019m afraid I won\u2019t be able to help with that.",
    "I'm unable to cancel this, because of the restrictions of this fare.",
    "Once an order is delivered, it can no longer be cancelled.",
    "Our rules don't allow that.",
    "I have to decline this request.",
    "It is too late to cancel.",
    "I'm afraid not.",
    "No, sorry.",
    "Cancellation is unavailable for this order.",
)
NO_DENIALS = (
    "Can I not cancel it?",
    "If I cannot cancel it, would you like a refund?",
    'You said "I cannot fly".',
    "I cannot find your email address.",
    "I can't wait to help you!",
    "Would you like to know why it cannot be cancelled?",
    "I cannot return the mug, but I have cancelled the order.",
    "Your neighbour said that orders cannot be cancelled.",
    "I am sorry to hear that.",
    "You will not be charged.",
    "I could not locate the reservation.",
    "There is no reason why I cannot cancel it.",
    "I will cancel it. Do you confirm (yes/no)?",
    "It is not impossible.",
    "I cannot proceed without your confirmation. Do you want me to cancel the order?",
    "I won't cancel it until you confirm. Shall I go ahead?",
    "I will cancel your order. This cannot be undone. Do you confirm (yes/no)?",
    "Please note that cancelled orders cannot be restored. Shall I proceed?",
    "Order #W9999999 cannot be cancelled.",
)


@pytest.mark.parametrize("message", DENIALS)
def test_usual_words_deny(message: str):
    assert denies(message, CANCEL, "#W1234567")
    assert denies(f"{message} Is there anything else?", CANCEL, "#W1234567")
    assert denies(f"I have looked at it.\n\n{message}\n\nIf you need more help, just ask!", CANCEL)


@pytest.mark.parametrize("message", NO_DENIALS)
def test_questions_conditions_and_denials_of_something_else_do_not_deny(message: str):
    assert not denies(message, CANCEL, "#W1234567")


ENVS: dict[str, TauDesk] = {name: cls(requests=1) for name, cls in
                            (("Retail", Retail), ("Airline", Airline))}  # fmt: skip


def scenario_of(env: TauDesk, task: str) -> Scenario:
    scenario = env._case(task).scenario
    assert scenario is not None
    return scenario


def refused(env: TauDesk) -> list[str]:
    tasks = [f"train/{i}" for i in range(150)]
    return [task for task in tasks if scenario_of(env, task).requests[0].refused]


def closed_with(env: TauDesk, task: str, message: str, look_up: bool) -> dict[str, Any]:
    """Identifies the user, looks up the records or not, and writes a message."""
    env.reset(seed=0, options={"task": task})
    scenario = scenario_of(env, task)
    env.step("Please tell me your user id, or your email address or name and zip code.")
    calls = (scenario.find, *(scenario.requests[0].look_ups if look_up else ()))
    for call in calls:
        assert call is not None
        env.step(write_call(call))
    info = env.step(message)[-1]
    return info if "outcome" in info or env.state.over else env.step("Anything else?")[-1]


@pytest.mark.parametrize("name", ENVS)
def test_a_denial_counts_after_the_record_was_looked_up(name: str):
    env = ENVS[name]
    tasks = refused(env)
    assert len(tasks) > 5
    for at, message in enumerate(DENIALS[:5]):
        task = tasks[at % len(tasks)]
        if "cancel" not in scenario_of(env, task).requests[0].opening:
            message = DENIALS[0]
        for look_up in (True, False):
            info = closed_with(env, task, message, look_up)
            assert (info["success"], info["policy"]) == (look_up, float(look_up)), message
    assert not closed_with(env, tasks[0], "Is there anything else?", True)["success"]


@pytest.mark.parametrize("name", ENVS)
def test_a_denial_of_something_else_does_not_count(name: str):
    env = ENVS[name]
    for words in ("I cannot find your flight.", "I cannot see your screen.", "I can't wait!"):
        info = closed_with(env, refused(env)[0], f"{words} Is there anything else?", True)
        assert info["policy"] == 0


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("count", [None, 1])
@pytest.mark.parametrize("message", [f"{DENIALS[0]} Is there anything else?", "No."])
def test_an_agent_that_refuses_everything_earns_nothing(name: str, count: int | None, message: str):
    env = type(ENVS[name])(requests=count)
    for i in range(100):
        env.reset(seed=0, options={"task": f"test/{i}"})
        over, reward = False, 0.0
        while not over:
            _, reward, terminated, truncated, _ = env.step(message)
            over = terminated or truncated
        assert reward == 0


@pytest.mark.parametrize("name", ENVS)
def test_the_whole_expert_with_another_denial(name: str):
    env = ENVS[name]
    for at, task in enumerate(refused(env)[:10]):
        env.reset(seed=0, options={"task": task})
        over, info = False, {}
        while not over:
            action = env.expert()
            assert action is not None
            if action.startswith("I am sorry"):
                opening = scenario_of(env, task).requests[0].opening
                about = at % len(DENIALS) if "cancel" in opening else 0
                action = DENIALS[about]
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert info["success"], env.state.conversation


@pytest.mark.parametrize(
    ("message", "claimed"),
    [
        ("$1880", True),
        ("You paid $1,880.00 in total.", True),
        ("The total is one thousand eight hundred eighty dollars.", True),
        ("You paid $1,880 ($1,000 + $880).", True),
        ("Mug: $1,000\nCamera: $880\nTotal: $1,880", True),
        ("You paid \uff041\uff0c880 for order #W1234567.", True),
        ("You paid **$1880** for reservation 8JX2WO on May 13, 2024.", True),
        ("$1880 was charged to your card ending in 1234, and it is not refundable.", True),
        ("$18800", False),
        ("$-1880", False),
        ("\u22121880", False),
        ("It was not 1880.", False),
        ("1, 2, 3, 1880, 1881", False),
        ("1879 1880 1881", False),
        ("Either $1880 or $1990.", False),
        ("It costs more than $1880.", False),
        ("Did you pay $1880?", False),
        ("If you paid $1880, you were lucky.", False),
        ('You wrote "I paid $1880".', False),
        ("Order #W1880 is here.", False),
        ("1880.5", False),
    ],
)
def test_an_output_is_claimed_as_a_value(message: str, claimed: bool):
    assert claims_value(message, "1880") == claimed


@settings(deadline=None)
@given(st.integers(10, 99_999), st.integers(10, 99_999))
def test_only_the_same_value_is_claimed(value: int, other: int):
    for form in ("You paid ${:,}.", "The answer is {}.", "It was {}.00 dollars in total."):
        assert claims_value(form.format(value), str(value))
        assert claims_value(form.format(other), str(value)) == (value == other)
        assert not claims_value(form.format(-value), str(value))


@pytest.mark.parametrize("name", ENVS)
def test_outputs_are_rewarded_by_value(name: str):
    env = ENVS[name]
    tasks = [f"train/{i}" for i in range(150) if env._case(f"train/{i}").outputs]
    for at, task in enumerate(tasks[:8]):
        (output,) = env._case(task).outputs
        numbers = " ".join(str(n) for n in range(1, 900))
        for words, right in (
            (f"You paid ${float(output):,.2f}.", True),
            (f"It was not {output}.", False),
            (f"It was $1{output}.", False),
            (numbers, False),
        ):
            env.reset(seed=0, options={"task": task})
            scenario = scenario_of(env, task)
            env.step("Please tell me your email address, your name or your user id.")
            for call in (scenario.find, *scenario.requests[0].look_ups):
                assert call is not None
                env.step(write_call(call))
            env.step(words[:4000])
            if not env.state.over:
                env.step("Is there anything else?")
            assert env.state.outcome["outputs"] == float(right), (words, at)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("What is your e\u2011mail address?", ["mail"]),
        ("To proceed, I need:\n- your zip code\n- the order number", ["zip", "order number"]),
        ("Could you tell me the reason? And which card?", ["reason", "card"]),
    ],
)
def test_questions_are_found_in_lists_and_sentences(message: str, words: list[str]):
    assert all(word in questions(message) for word in words)


@pytest.mark.parametrize(
    "message",
    [
        "You do not need to tell me your email address.",
        "Never share your zip code with anybody.",
        "I have your address.",
    ],
)
def test_what_is_not_asked_for_is_no_question(message: str):
    assert not questions(message)


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("Do you confirm (yes/no)?", True),
        ("Please confirm with \u201cyes\u201d to proceed.", True),
        ("Shall I go ahead?", True),
        ("Is that correct?", True),
        ("Would you like me to cancel it?", True),
        ("I\u2019ll do that now. Okay?", True),
        ("How would you like to proceed?", False),
        ("To proceed, I need your user id.", False),
        ("Please confirm your email address.", False),
        ("Can I help you with something?", False),
        ("I can confirm that it was sent.", False),
        ("You will receive a confirmation by mail.", False),
        ("Would you like me to transfer you to a human agent?", False),
    ],
)
def test_only_a_question_about_a_change_asks_to_confirm(message: str, asks: bool):
    assert asks_to_confirm(message.replace("\u201c", '"').replace("\u201d", '"')) == asks


@pytest.mark.parametrize(
    ("words", "yes"),
    [
        ("Yes, please.", True),
        ("YES!", True),
        ("\u201cYes\u201d", True),
        ("Yesterday I ordered it.", False),
        ("Yes, but do not cancel it.", False),
        ("No.", False),
    ],
)
def test_only_a_yes_agrees(words: str, yes: bool):
    assert agrees("I will cancel it. Do you confirm?", words) == yes


def test_codes_are_compared_by_value():
    assert codes("order W1234567, born May 3, 1990") == codes("#w1234567 1990-05-03")
    assert codes("$1,880.00") == codes("1880")


CALLS = (
    "Action: get_user_details\nAction Input: {{{args}}}",
    "<function=get_user_details>{{{args}}}</function>",
    "get_user_details('x')",
    "print(get_user_details(user_id='x'))",
    "{{'name': 'get_user_details', 'arguments': {{'user_id': 'x'}}}}",
    "[TOOL_CALLS]get_user_details[ARGS]{{{args}}}",
    '{{"action": "get_user_details", "action_input": {{{args}}}}}',
    '{{"get_user_details": {{{args}}}}}',
    "get_user_details(user_id='x'",
    '```json\n{{"name": "get_user_details", "arguments": {{{args},}}}}\n```',
)


@pytest.mark.parametrize("name", [*ENVS, "Telecom"])
@pytest.mark.parametrize("form", CALLS)
def test_a_call_in_any_format_is_no_message_to_the_user(name: str, form: str):
    env: Any = Telecom() if name == "Telecom" else ENVS[name]
    text = form.format(args='"user_id": "x"')
    if name == "Telecom":
        text = text.replace("get_user_details", "get_customer").replace("user_id", "customer_id")
    env.reset(seed=0, options={"task": "train/0"})
    before = len(env.state.conversation)
    observation, *_, info = env.step(text)
    assert len(env.state.conversation) == before
    assert not info["valid"] and observation
