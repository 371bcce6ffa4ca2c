"""Telecom: the phone is hidden, instructions are followed one by one, causes must be found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.envs.service.caller import Caller, CallerState, ScriptedCaller
from agentgym.envs.service.instructions import instructions
from agentgym.envs.service.phone import (
    AUTOMATIC,
    CHANGES,
    CHECKS,
    DIAGNOSIS,
    FAULTS,
    MESSAGING,
    PERMIT,
    RESEAT,
    RESET,
    RESTART,
    SIM,
    STATUS,
    SYMPTOMS,
    Network,
    Phone,
    change,
    faults,
)
from agentgym.envs.service.telecom import Telecom
from agentgym.envs.service.telecom_tasks import LOST
from agentgym.tools import Call, write_call

UP = Network(active=True, roaming=True, quota=True)
BROKEN = {
    "airplane": Phone(airplane=True),
    "loose SIM": Phone(sim="loose"),
    "locked SIM": Phone(sim="locked"),
    "data off": Phone(data=False),
    "roaming off": Phone(abroad=True),
    "wrong APN": Phone(apn="wrong"),
    "old network": Phone(mode="2G only"),
    "saver": Phone(saver=True),
    "VPN": Phone(vpn=True),
    "permissions": Phone(permitted=False),
    "Wi-Fi calling": Phone(calling=True),
}
CALLER = Caller(
    customer="C1000",
    line="L2000",
    mood="curt",
    symptom="data",
    opening="No data.",
    facts={"name": "I am Ada Holt.", "gigabytes": "I would pay for 2 GB."},
    gigabytes=2,
    price="$6",
    bills=("$41",),
    phone=Phone(),
    changes={},
    causes=1,
    lost="",
)


def test_every_cause_is_revealed_by_its_check_and_repaired_by_its_change():
    assert {*BROKEN} == {name for name, fault in FAULTS.items() if fault.check}
    for name, phone in BROKEN.items():
        fault = FAULTS[name]
        for symptom in fault.symptoms:
            assert faults(phone, UP, symptom) == [name]
        assert any(fault.check in DIAGNOSIS[symptom] for symptom in fault.symptoms)
        well = Phone(abroad=phone.abroad, roaming=True)
        look = CHECKS[fault.check]
        if fault.change:
            mended = replace(phone)
            assert change(mended, UP, fault.change)
            assert name not in faults(mended, UP, fault.symptoms[0])
            well = mended if name != "wrong APN" else well
        assert look(phone, UP) != look(well, UP)


def test_a_resumed_line_and_a_reset_take_effect_at_a_restart():
    phone = Phone(apn="wrong", registered=False)
    change(phone, UP, RESET)
    assert faults(phone, UP, "data") == ["unregistered", "APN not loaded"]
    change(phone, UP, RESTART)
    assert not faults(phone, UP, "data")


@pytest.mark.parametrize(
    ("message", "actions"),
    [
        ("Please turn off airplane mode.", ["turn off airplane mode"]),
        ("Could you switch flight mode off?", ["turn off airplane mode"]),
        ("Disable the VPN and then reboot your phone.", ["turn off the VPN", RESTART]),
        ("Activate roaming, please.", ["turn on data roaming"]),
        ("Deactivate data saver.", ["turn off data saver"]),
        ("What does the status bar show?", [STATUS]),
        ("Remove and re-insert the SIM card", [RESEAT]),
        ("Set your preferred network mode to automatic", [AUTOMATIC]),
        ("Give the messaging app its permissions", [PERMIT]),
        ("Check the messaging app.", [MESSAGING]),
        ("Bananas.", []),
    ],
)
def test_instructions_are_understood_in_several_wordings(message: str, actions: list[str]):
    assert instructions(message.lower()) == actions


def test_the_words_of_the_manual_are_understood():
    for action in (*CHECKS, *CHANGES):
        assert instructions(f"please {action}.".lower()) == [action]


def talk(phone: Phone, *messages: str, caller: Caller = CALLER) -> list[str]:
    user = ScriptedCaller(caller, CallerState(), phone, UP, lambda: 0)
    return [user.reply(message).text for message in messages]


def test_the_user_carries_out_all_instructions_in_order_and_loses_patience():
    phone = Phone(data=False, saver=True)
    first, *_, last = talk(
        phone,
        "Turn on mobile data and turn off data saver.",
        *["Turn on airplane mode.", "Turn off airplane mode.", "Reset the APN."],
        "Restart the phone.",
    )
    assert first == "Mobile data is on now. Data saver is off now."
    # Turning airplane mode off and loading the APN repair something.
    assert "###STOP###" not in last
    assert "###STOP###" in talk(phone, *["Turn off the VPN."] * 4)[-1]


def test_the_user_agrees_to_complete_proposals_only():
    user = ScriptedCaller(CALLER, CallerState(), Phone(), UP, lambda: 0)
    replies = [
        user.reply(message)
        for message in (
            "I will sell you more GB. Do you confirm?",
            "I will sell you 2 GB for $60. Do you confirm?",
            "I will sell you 2 GB for $6. Do you confirm?",
            "I will send a payment request of $4. Do you confirm?",
            "I will send a payment request of $41.00. Do you confirm?",
            "I will resume your line. Do you confirm?",
        )
    ]
    assert [reply.confirmed for reply in replies] == [False, False, True, False, True, True]


def play(env: Telecom, task: str) -> dict[str, float]:
    """Plays the expert and returns the last info."""
    env.reset(seed=0, options={"task": task})
    while True:
        action = env.expert()
        assert action is not None
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_expert_solves_generated_tasks(split: str):
    env = Telecom()
    for i in range(60):
        assert play(env, f"{split}/{i}")["success"], f"{split}/{i}"
    callers = [env._case(f"{split}/{i}").caller for i in range(300)]
    assert {caller.symptom for caller in callers} == {*SYMPTOMS}
    assert {caller.lost for caller in callers} == {"", *(c for lost in LOST.values() for c in lost)}
    assert {caller.causes for caller in callers} == {1, 2, 3}


def test_causes_and_only_they_break_the_phone():
    env = Telecom()
    for i in range(100):
        env.reset(seed=0, options={"task": f"train/{i}"})
        caller = env.caller
        assert len(env._causes()) == caller.causes
        assert env.state.phone == caller.phone and env.state.phone is not caller.phone


def test_train_and_test_tasks_have_different_customers():
    env = Telecom()
    customers = {
        split: {env._case(f"{split}/{i}").caller.customer for i in range(200)}
        for split in ("train", "test")
    }
    assert not customers["train"] & customers["test"]


def first_task(env: Telecom, lost: str = "", call: str = "") -> str:
    for i in range(500):
        case = env._case(f"train/{i}")
        if case.caller.lost == lost and (
            not call or (case.calls[:1] and case.calls[0].name == call)
        ):
            return f"train/{i}"
    raise AssertionError("no such task")


TRANSFER = write_call(Call("transfer_to_human_agents", {"summary": ""}))


def test_a_transfer_needs_its_reason():
    env = Telecom()
    task = first_task(env, "locked SIM")
    for message, policy in (("Bananas.", 0.0), ("Please check the SIM card.", 1.0)):
        env.reset(seed=0, options={"task": task})
        env.step(message)
        info = env.step(TRANSFER)[-1]
        assert (info["solved"], info["policy"], info["success"]) == (1.0, policy, policy == 1)
    env.reset(seed=0, options={"task": first_task(env)})
    assert env.step(TRANSFER)[-1]["solved"] == 0


def test_a_line_is_resumed_after_its_bills_are_paid():
    env = Telecom(causes=1)
    env.reset(seed=0, options={"task": first_task(env, call="send_payment_request")})
    env.step(write_call(Call("find_customer_by_phone", {"phone_number": line_of(env)})))
    env.step("I will resume your line. Do you confirm?")
    env.step(write_call(Call("resume_line", {"line_id": env.caller.line})))
    assert env.state.violations == ["resume a line after its bills are paid"]
    env.step("Please restart the phone.")
    _, _, terminated, _, info = env.step("Does it work now?")
    assert terminated
    assert (info["solved"], info["database"], info["policy"]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("proposal", "policy"),
    [
        ("I will resume your line. Do you confirm?", 0.0),
        ("I will enable roaming, and sell you 2 GB. Do you confirm?", 0.0),
        ("I will sell you {gb} GB for {price}. Do you confirm?", 1.0),
        ("I will enable roaming, and sell you {gb} GB for {price}. Do you confirm?", 1.0),
    ],
)
def test_the_user_pays_only_for_what_was_proposed(proposal: str, policy: float):
    env = Telecom(causes=1)
    env.reset(seed=0, options={"task": first_task(env, call="refuel_data")})
    caller = env.caller
    env.step(write_call(Call("find_customer_by_phone", {"phone_number": line_of(env)})))
    env.step(proposal.format(gb=caller.gigabytes, price=caller.price))
    assert env.state.confirmed
    bought = {"line_id": caller.line, "gigabytes": caller.gigabytes}
    env.step(write_call(Call("refuel_data", bought)))
    info = env.step("Does it work now?")[-1]
    assert (info["solved"], info["database"], info["policy"]) == (1.0, 1.0, policy)


def line_of(env: Telecom) -> str:
    return env._record("lines", env.caller.line, "line")["phone_number"]


def test_a_function_uses_the_phone_unseen():
    heard: list[str] = []

    def user(instruction: str, conversation: list[list[str]]) -> str:
        heard.append(conversation[-1][1])
        speaker = conversation[-1][0]
        if len(conversation) > 1 and speaker == "agent":
            return "PHONE: check the SIM card"
        return "It is active, I think." if speaker == "phone" else "Help!"

    env = Telecom(user=user)
    assert env.reset(seed=0, options={"task": first_task(env, "locked SIM")})[0] == "Help!"
    assert env.step("How is the SIM card?")[0] == "It is active, I think."
    assert heard[-1] == "The SIM card is locked. The phone asks for its PUK."
    assert SIM in env.state.caller.done


def test_the_number_of_causes_is_checked():
    with pytest.raises(ValueError, match="causes must be None or 1 to 3"):
        Telecom(causes=4)
