"""Retail: the scripted user, the policy and the reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentgym.agents import View
from agentgym.envs.service.calculator import evaluate
from agentgym.envs.service.cases import Case
from agentgym.envs.service.proposals import CANCEL as CANCEL_TOPIC
from agentgym.envs.service.proposals import Proposal
from agentgym.envs.service.retail import Retail
from agentgym.envs.service.user import Request, Scenario, UserState, first_message, reply
from agentgym.tools import Call, ToolError, write_call

CANCEL = Request(
    opening="I want to cancel my order with the mug.",
    facts={"order": "I do not have the number.", "reason": "I ordered it by mistake."},
    proposal=Proposal(CANCEL_TOPIC, (("order", "#W12"),)),
    calls=(Call("cancel_pending_order", {"order_id": "#W12"}),),
    correction="I want to keep the spoon.",
)
TOTAL = Request(opening="How much was it?", outputs=("1234.5",))
USER = Scenario("ada", "I am Ada Holt, zip code 12345.", None, "curt", (CANCEL, TOTAL))


def talk(*messages: str) -> list[str]:
    user = UserState()
    return [reply(USER, user, message).text for message in messages]


def test_the_user_reveals_facts_when_asked():
    assert first_message(USER) == CANCEL.opening
    assert talk("What is your email address?") == [USER.identity]
    assert talk("Why, and which order number?") == [
        "I do not have the number. I ordered it by mistake."
    ]
    assert talk("Which card should I refund?") == ["I do not know that. Can you look it up?"]
    assert talk("Bananas.") == [f"I do not understand. {CANCEL.opening}"]


def test_the_user_corrects_itself_and_agrees_to_complete_proposals_only():
    cancel = "I will cancel order #W12. Do you confirm?"
    user = UserState()
    replies = [
        reply(USER, user, message)
        for message in (cancel, "Do you confirm?", "Order #W13. Do you confirm?", cancel)
    ]
    assert [r.confirmed for r in replies] == [False, False, False, True]
    assert replies[0].text == "Wait. I want to keep the spoon."
    assert "all details" in replies[1].text
    assert "another order" in replies[2].text


def test_the_user_moves_on_and_stops():
    cancel = "I will cancel order #W12. Do you confirm?"
    replies = talk(cancel, cancel, "It is cancelled.", "It was 1,234.5 dollars.")
    assert replies[2:] == ["There is something else. How much was it?", "No. Bye. ###STOP###"]
    assert "###STOP###" in talk(*["Bananas."] * 5)[-1]


@pytest.mark.parametrize(
    "message",
    [
        "Thank you, your identity has been verified.",
        "Your order was processed yesterday, so I will look it up.",
        "I am sorry to hear that. I will look into it.",
        "Sorry for the trouble. One moment.",
    ],
)
def test_the_user_waits_until_a_request_is_handled(message: str):
    assert talk(message) == [f"I do not understand. {CANCEL.opening}"]


def play(env: Retail, task: str, spoil: str = "") -> dict[str, Any]:
    """Plays the expert, without its actions that contain `spoil`. Returns the last info."""
    env.reset(seed=0, options={"task": task})
    while True:
        action = env.expert()
        assert action is not None
        if spoil and spoil in action:
            action = "Is there anything else?"
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_expert_solves_generated_tasks(split: str):
    env = Retail()
    infos = [play(env, f"{split}/{i}") for i in range(40)]
    assert all(info["success"] for info in infos)
    counts = {len(env._case(f"{split}/{i}").scenario.requests) for i in range(40)}  # type: ignore[union-attr]
    assert counts == {1, 2, 3}


def first_task(env: Retail, fits: Callable[[Case], bool]) -> str:
    tasks = (f"train/{i}" for i in range(200))
    return next(task for task in tasks if fits(env._case(task)))


def test_the_factors_of_the_reward_are_apart():
    env = Retail(requests=1)
    task = first_task(env, lambda case: bool(case.calls))
    info = play(env, task, spoil=env._case(task).calls[0].name)
    assert (info["success"], info["database"], info["outputs"]) == (False, 0.0, 1.0)
    info = play(env, first_task(env, lambda case: bool(case.outputs)), spoil="The answer")
    assert (info["success"], info["database"], info["outputs"]) == (False, 1.0, 0.0)


def test_a_change_without_confirmation_breaks_the_policy():
    env = Retail(requests=1)
    cancels = lambda case: [call.name for call in case.calls] == ["cancel_pending_order"]  # noqa: E731
    task = first_task(env, cancels)
    env.reset(seed=0, options={"task": task})
    scenario = env.case.scenario
    assert scenario is not None and scenario.find is not None
    for call in (scenario.find, env.case.calls[0]):
        env.step(write_call(call))
    assert env.state.violations == ["obtain confirmation before a change"]
    info = env.step("Is there anything else?")[-1]
    assert (info["database"], info["policy"], info["success"]) == (1.0, 0.0, False)


def test_a_request_against_the_policy_must_be_denied():
    env = Retail(requests=1)
    task = first_task(env, lambda case: bool(case.scenario and case.scenario.requests[0].refused))
    assert not play(env, task, spoil="I am sorry")["success"]
    env.reset(seed=0, options={"task": task})
    call = write_call(Call("transfer_to_human_agents", {"summary": ""}))
    assert not env.step(call)[-1]["success"]


def test_train_and_test_tasks_have_different_users():
    env = Retail()
    users = {
        split: {env._case(f"{split}/{i}").scenario.customer for i in range(200)}  # type: ignore[union-attr]
        for split in ("train", "test")
    }
    assert not users["train"] & users["test"]


def test_a_function_can_be_the_user():
    heard = []

    def user(instruction: str, conversation: list[list[str]]) -> str:
        heard.append((instruction, conversation[-1][1]))
        return "Bye. ###STOP###" if len(conversation) > 2 else "Hello."

    env = Retail(user=user)
    assert env.reset(seed=0)[0] == "Hello."
    observation, _, terminated, _, _ = env.step("How can I help?")
    assert (observation, terminated) == ("Bye.", True)
    assert heard[-1][1] == "How can I help?" and "###" not in heard[0][0]


def test_a_chat_model_can_be_the_user():
    class Model:
        def act(self, views: list[View]) -> list[str]:
            [view] = views
            return [f"{len(view.history)} turns before {view.observation!r}"]

    env = Retail(user="chat:m@http://localhost:9/v1")
    env._model = Model()
    assert env.reset(seed=0)[0] == "0 turns before 'Hello, how can I help you today?'"
    assert env.step("Your name?")[0] == "1 turns before 'Your name?'"


@pytest.mark.parametrize(("text", "value"), [("(2 + 3) * 4", 20), ("-1.5/2", -0.75), ("7", 7)])
def test_expressions_are_evaluated(text: str, value: float):
    assert evaluate(text) == value


@pytest.mark.parametrize("text", ["9**9**9**9", "1/0", "(", "", "a", "((" * 90, "1" * 201, "1//2"])
def test_other_expressions_are_refused(text: str):
    with pytest.raises(ToolError):
        evaluate(text)
