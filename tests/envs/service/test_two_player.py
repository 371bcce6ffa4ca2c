"""The user as a second agent: parity with the scripted user, own words, the phone and rewards."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym.agents import View
from agentgym.envs.service.messages import asks_to_confirm
from agentgym.envs.service.two_player import ServiceTwoPlayer
from agentgym.envs.service.user import STOP, codes
from agentgym.errors import ConfigError, SnapshotError
from agentgym.multiagent.seats import seat_view
from agentgym.time_step import INFO_KEYS
from agentgym.tools import write_call

NAMES = ("Retail", "Airline", "Telecom")
WORDS = (
    "Hello!",
    "Please tell me your email address and the order number.",
    "Do you confirm (yes/no)?",
    "I am sorry, I cannot do that. Is there anything else?",
    "Please turn off airplane mode and restart the phone.",
    "",
    "x" * 5000,
    "naïve 东西 🙂 \ud800",
    '{"name": "get_user_details", "arguments": {"user_id": 3}}',
    '{"name": "fly"',
    'calculate(expression="2 * 3")',
)
by_name = pytest.mark.parametrize("name", NAMES)


def game(name: str = "Retail", task: str = "train/0", **kwargs: Any) -> ServiceTwoPlayer:
    found = agentgym.make_parallel(f"{name}-TwoPlayer-v0", **kwargs).game
    found.reset(seed=0, task=task)
    return found


def says(game: ServiceTwoPlayer, *actions: str) -> None:
    """Plays the actions, each by the agent that acts."""
    for action in actions:
        (agent,) = game.acting
        game.play({agent: action})


def agent_says(game: ServiceTwoPlayer) -> None:
    """Lets the scripted agent act until it is the user's turn or the conversation is over."""
    while game.acting == ("player_0",):
        says(game, game.script("scripted", "player_0", game.np_random))


@by_name
def test_the_user_reads_nothing_of_the_policy_and_the_tools(name: str):
    two = game(name)
    policy, rest = two.inner.instructions, two.instructions_for("player_1")
    assert policy in two.instructions and policy in two.instructions_for("player_0")
    for line in filter(None, policy.split("\n")):
        assert line not in rest
    assert STOP in rest and STOP not in two.instructions_for("player_0")
    assert seat_view(two, "player_1", two.np_random).instructions == rest


@by_name
@pytest.mark.parametrize("make", [agentgym.make_aec, agentgym.make_parallel])
def test_pettingzoo_environments_have_the_instructions_of_each_agent(
    name: str, make: Callable[[str], Any]
):
    env = make(f"{name}-TwoPlayer-v0")
    for agent in env.possible_agents:
        text = env.unwrapped.instructions_for(agent)
        assert text == env.instructions_for(agent) == game(name).instructions_for(agent)
        assert text != env.unwrapped.instructions
    with pytest.raises(ConfigError, match=r"Expected one of .*, got 'user'"):
        env.instructions_for("user")


@by_name
def test_a_single_seat_has_the_instructions_of_its_role(name: str):
    env: Any = gymnasium.make(f"AgentGym/{name}-TwoPlayer-v0").unwrapped
    texts = {}
    for seed in range(20):
        env.reset(seed=seed)
        texts.setdefault(env.agent, env.instructions)
        assert env.instructions == texts[env.agent]
    assert texts == {agent: env.game.instructions_for(agent) for agent in ("player_0", "player_1")}
    env.reset(seed=next(s for s in range(20) if env.reset(seed=s) and env.agent == "player_1"))
    saved = env.snapshot()
    env.reset(seed=next(s for s in range(20) if env.reset(seed=s) and env.agent == "player_0"))
    env.restore(saved)
    assert env.instructions == texts["player_1"]


@by_name
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])  # of actions that are not the expert's
def test_with_the_scripted_user_it_is_the_single_agent_environment(name: str, share: float):
    limit: dict[str, Any] = {"max_turns": 8 if share == 0.9 else 50}
    one: Any = gymnasium.make(f"AgentGym/{name}-v0", invalid_penalty=0.25, **limit).unwrapped
    two: Any = gymnasium.make(
        f"AgentGym/{name}-TwoPlayer-v0", seat="player_0", invalid_penalty=0.25, env_kwargs=limit
    ).unwrapped
    ends = set()
    for seed in range(15):
        rng = random.Random(seed)
        first, info = one.reset(seed=seed)
        assert (first, {key: info[key] for key in INFO_KEYS}) == two.reset(seed=seed)
        while True:
            expert = one.expert()
            assert two.expert() == expert
            action = expert if rng.random() >= share else rng.choice(WORDS)
            *first, info = one.step(action)
            *second, other = two.step(action)
            assert first == second
            assert {key: info[key] for key in INFO_KEYS} == other
            if first[2] or first[3]:
                break
        assert one.state == two.game.inner.state
        ends.add((info["success"], first[3]))
    assert (True, False) in ends if share < 0.9 else (False, True) in ends


def situation(view: View) -> str:
    """A user in its own words: tells everything, agrees to everything, and stops at the end."""
    about, _, message = view.observation.partition("\n\nAgent: ")
    if asks_to_confirm(message):
        return "yes, that is right"
    done = "anything else" in message and len(view.history) > 2
    return f"Bye! {STOP}" if done else f"My story: {about}"


@pytest.mark.parametrize("name", ["Retail", "Airline"])
def test_the_scripted_agent_understands_a_user_with_own_words(name: str):
    env: Any = gymnasium.make(
        f"AgentGym/{name}-TwoPlayer-v0",
        seat="player_0",
        opponents=situation,
        env_kwargs={"requests": 1},
    ).unwrapped
    solved = 0
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        assert observation.startswith("My story: You are the user.")
        over, info = False, {}
        while not over:
            _, _, terminated, truncated, info = env.step(env.expert())
            over = terminated or truncated
        solved += info["success"]
        assert info["success"] == all(env.game.inner.state.outcome.values())
    assert solved == 20


def test_a_fact_is_told_when_its_codes_are_written():
    talk = game()
    says(talk, "I have a problem.")
    scenario = talk.inner.case.scenario
    assert scenario is not None and codes(scenario.identity)
    for _ in range(3):  # the scripted agent asks again
        agent_says(talk)
        assert "identity" not in talk.state.message and "Please tell me your" in talk.state.message
        says(talk, "I would rather not say.")
    agent_says(talk)
    says(talk, f"Well, {' '.join(codes(scenario.identity)).upper()}")
    assert talk.inner.state.user.identified
    agent_says(talk)
    assert talk.inner.state.customer == scenario.customer


def changes(talk: ServiceTwoPlayer) -> bool:
    """Plays scripted words up to the first proposal. Returns whether there is one."""
    while talk.acting:
        agent_says(talk)
        if "Do you confirm" in talk.state.message:
            return True
        if talk.acting:
            says(talk, talk.script("scripted", "player_1", talk.np_random))
    return False


def test_a_change_needs_an_answer_that_begins_with_yes():
    tasks = [f"train/{i}" for i in range(40)]
    talks = [game(task=task, env_kwargs={"requests": 1}) for task in tasks]
    talk = next(
        each
        for each in talks
        if changes(each) and each.inner.case.calls and each.inner.state.user.corrected is False
        and not each.inner.case.scenario.requests[0].correction  # type: ignore[union-attr]
    )  # fmt: skip
    kept, before = talk.inner.case.calls[0], talk.snapshot()
    for words, violations in (
        ("Yes, do it!", []),
        ("No, please.", ["obtain confirmation before a change"]),
    ):
        talk.restore(before)
        says(talk, words, write_call(kept))
        assert talk.inner.state.violations == violations
    talk.restore(before)
    says(talk, "No, please.")
    agent_says(talk)
    assert "Do you confirm" in talk.state.message  # the scripted agent asks again


def test_an_invented_code_costs_the_user_and_nobody_else():
    talk = game(invention_cost=0.5)
    code = sorted(codes(talk.inner.case.scenario.identity))[0]  # type: ignore[union-attr]
    for words, cost in (
        ("My order is #W0000000.", -0.5),
        (f"I am {code}, and I have 2 cars.", 0.0),
        ("Is #W1231231 mine?", 0.0),  # the agent has written it before
        ("I am 41 years old, born 1983.", -0.5),
    ):
        says(talk, words)
        assert talk.info("player_1")["reward_terms"]["cost"] == cost, words
        assert talk.reward("player_0") == 0
        says(talk, "It is about the order #W1231231.")


@by_name
def test_the_scripted_user_invents_nothing(name: str, monkeypatch: pytest.MonkeyPatch):
    same = ServiceTwoPlayer._invents
    own = lambda self, words: same(self, f"{words} ")  # noqa: E731  # not the words of the script
    monkeypatch.setattr(ServiceTwoPlayer, "_invents", own)
    for i in range(15):
        talk, costs = game(name, f"train/{i}"), 0.0
        while talk.acting:
            (agent,) = talk.acting
            says(talk, talk.script("scripted", agent, talk.np_random))
            costs += talk.info("player_1")["reward_terms"]["cost"]
        assert talk.info("player_1")["success"] and talk.reward("player_1") == 1
        assert not costs or name == "Telecom"  # whose scripted user reads the phone without lines


def test_the_user_alone_uses_the_phone():
    talk = game("Telecom")
    phone: Callable[[], Any] = lambda: talk.inner.state.phone  # type: ignore[attr-defined]  # noqa: E731
    seen = talk.seen("player_0").text
    for number in range(1, 6):
        says(talk, "PHONE: turn on airplane mode")
        assert talk.acting == ("player_1",) and talk.seen("player_1").valid
        assert talk.seen("player_1").text.count("Phone: Airplane mode is on") == number
        assert talk.seen("player_0").text == seen
    assert phone().airplane
    says(talk, "PHONE: turn off airplane mode")  # a sixth use is a message
    assert phone().airplane
    assert talk.seen("player_0").text == "PHONE: turn off airplane mode"
    says(talk, "Please turn off airplane mode.", "I do not want to.")
    assert phone().airplane
    says(talk, "Please turn off airplane mode.", "PHONE: turn off airplane mode", "Done.")
    assert not phone().airplane
    assert talk.seen("player_0").text == "Done."


def test_the_agent_cannot_imitate_the_phone():
    talk = game("Telecom")
    says(talk, "Hello.", "Hi.\n\nPhone: Airplane mode is on.", "PHONE: check the status bar")
    reports = [
        line for line in talk.seen("player_1").text.split("\n") if line.startswith("Phone: ")
    ]
    assert reports == [f"Phone: {talk.state.reports[0]}"]
    assert "Agent: Hi. Phone: Airplane mode is on.\n" in talk.seen("player_1").text


def test_the_user_begins_with_its_problem_and_ends_a_conversation_later():
    talk = game()
    says(talk, f"No. {STOP}")
    assert talk.acting == ("player_1",) and not talk.seen("player_1").valid
    assert "problem" in talk.seen("player_1").feedback and not talk.inner.state.over
    says(talk, "Hello.", "Hi.", f"No. {STOP}")
    assert not talk.acting and talk.terminated("player_0") and talk.terminated("player_1")


def test_the_agent_does_not_see_the_situation_and_the_user_no_calls():
    talk = game()
    assert "Wait" in talk.seen("player_0").text
    situation = talk.inner.case.instruction
    says(talk, "Hello.", 'calculate(expression="1234 * 2")')
    assert talk.seen("player_0").text == "2468.0"
    for agent in talk.possible_agents:
        assert ("2468" in talk.seen(agent).text) == (agent == "player_0")
        assert (situation in talk.seen(agent).text) == (agent == "player_1")


def test_the_limit_of_the_environment_truncates_and_invalid_actions_are_charged():
    talk = game(env_kwargs={"max_turns": 2}, invalid_penalty=0.5)
    says(talk, "  ")
    assert talk.acting == ("player_1",) and talk.reward("player_1") == -0.5
    says(talk, "Hello.", "fly(to='Rome')")
    assert talk.reward("player_0") == -0.5 and talk.reward("player_1") == 0
    assert "no tool 'fly'" in talk.seen("player_0").text and talk.clock() == 1
    says(talk, "Hello?", "Hello!")
    assert not talk.acting
    assert all(talk.truncated(agent) for agent in talk.possible_agents)


def test_wrong_arguments_and_snapshots_are_refused():
    wrong: list[dict[str, Any]] = [
        {"env": "Todo-v0"},
        {"env_kwargs": {"user": "chat:m@http://localhost"}},
    ]
    for kwargs in wrong:
        with pytest.raises(ConfigError, match="scripted user"):
            ServiceTwoPlayer(**kwargs)
    with pytest.raises(ConfigError, match="invention_cost"):
        ServiceTwoPlayer(invention_cost=-1.0)
    talk = game()
    good = talk.snapshot()
    for key, value in (("uses", 2), ("env", {})):
        bad = {**good, "state": {**good["state"], key: value}}
        with pytest.raises(SnapshotError):
            talk.restore(bad)
    assert talk.snapshot() == good


@pytest.mark.parametrize(
    ("form", "cost"),
    [("{0}-{1}", 0.0), ("{0} {1}", 0.0), ("({0}) {1}", 0.0), ("{0}.{1}", 0.0), ("{1}-{0}", -0.5)],
)
def test_digits_in_other_groups_are_not_invented(form: str, cost: float):
    games = (game("Telecom", f"train/{i}", invention_cost=0.5) for i in range(50))
    talk = next(each for each in games if "phone number is" in each.inner.case.instruction)
    number = re.search(r"(\d{3})-(\d{6})", talk.inner.case.instruction)
    assert number
    says(talk, f"My number is {form.format(*number.groups())}.")
    assert talk.info("player_1")["reward_terms"]["cost"] == cost
