"""The partner as a second agent: parity with the scripted one, the hidden goal, and snapshots."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym.envs.household import watch_and_help
from agentgym.envs.household.shared_home import make_chores
from agentgym.envs.household.two_player import HELPER, PARTNER, WatchAndHelpTwoPlayer
from agentgym.errors import SnapshotError
from agentgym.time_step import INFO_KEYS

ID = "AgentGym/WatchAndHelp-TwoPlayer-v0"
WORDS = (
    *("dance", "", "go to moon 1", "open desk 1", "put mug 9 in/on shelf 1", "x" * 5000, "\ud800"),
    *("Action: LOOK.", "walk to the countertop 1"),
)


def game(task: str = "train/0", **kwargs: Any) -> WatchAndHelpTwoPlayer:
    found = agentgym.make_parallel(ID, **kwargs).game
    found.reset(seed=0, task=task)
    return found


def scripted(game: WatchAndHelpTwoPlayer) -> None:
    """Lets the scripted player act whose turn it is."""
    (agent,) = game.acting
    game.play({agent: game.script("scripted", agent, game.np_random)})


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])  # of actions that are not the expert's
def test_with_the_scripted_partner_it_is_the_single_agent_environment(split: str, share: float):
    limit = 12 if share == 0.3 else 100
    one: Any = gymnasium.make(
        "AgentGym/WatchAndHelp-v0", split=split, max_turns=limit, invalid_penalty=0.25
    ).unwrapped
    two: Any = gymnasium.make(
        ID, seat=HELPER, split=split, horizon=limit, invalid_penalty=0.25
    ).unwrapped
    ends = set()
    for seed in range(10):
        rng = random.Random(seed)
        first = one.reset(seed=seed)
        assert first == two.reset(seed=seed)
        assert one.instructions == two.instructions
        ended = cut = False
        while not (ended or cut):
            expert = one.expert()
            assert two.expert() == expert
            assert two.privileged_text() == one.privileged_text()
            other = rng.choice([*WORDS, *first[-1]["admissible"]])
            action = other if rng.random() < share else expert
            first = *_, ended, cut, info = one.step(action)
            *second, other = two.step(action)
            assert [*first[:-1]] == second and info.keys() == {*INFO_KEYS}
            assert other == (info | {"admissible": ()} if cut else info)
        assert one.state == two.game.inner.state and one.turn_limit == limit
        ends.add(cut)
    assert (share == 0.3) in ends


def test_both_get_the_reward_of_the_single_agent_environment():
    one: Any = gymnasium.make("AgentGym/WatchAndHelp-v0").unwrapped
    for number in range(10):
        two = game(f"test/{number}")
        one.reset(seed=0, options={"task": f"test/{number}"})
        total, ended = 0.0, False
        while not ended:
            _, reward, ended, _, _ = one.step(one.expert())
            total += reward
        while two.acting:
            assert two.reward(HELPER) == two.reward(PARTNER) == 0
            scripted(two)
        assert two.reward(HELPER) == two.reward(PARTNER) == total
        assert all(two.terminated(agent) and two.seen(agent).success for agent in (HELPER, PARTNER))
        assert two.clock() == one._turn


def test_the_goal_is_shown_to_the_partner_only(monkeypatch: pytest.MonkeyPatch):
    one, played = game("train/0"), []
    chores = make_chores("train/0")
    other = replace(chores, goals=tuple((kind, to, n + 1) for kind, to, n in chores.goals))
    while one.acting:
        with monkeypatch.context() as patch:
            patch.setattr(watch_and_help, "make_chores", lambda task: other)
            two = game("train/0")
            for agent, action in played:
                two.play({agent: action})
            theirs = two.steps
        for look in ("text", "admissible", "feedback"):
            assert getattr(one.seen(HELPER), look) == getattr(theirs[HELPER], look)
        assert one.seen(PARTNER).text != theirs[PARTNER].text
        (agent,) = one.acting
        played.append((agent, one.script("scripted", agent, one.np_random)))
        one.play({agent: played[-1][1]})
    assert len(played) > 10
    assert "Your goal" not in one.instructions_for(HELPER) + one.seen(HELPER).text
    assert "In another home, your partner did this" not in one.seen(PARTNER).text


def test_each_sees_the_command_of_the_other_before_its_own():
    two, last = game(), ""
    while two.acting:
        (agent,) = two.acting
        if last:
            assert f"did this: {last}." in two.seen(agent).text
        last = two.script("scripted", agent, two.np_random)
        two.play({agent: last})
        assert two.admissible(agent) == ()


def test_only_a_wrong_command_of_the_helper_takes_a_turn_of_the_home():
    two = game(invalid_penalty=0.5)
    before = two.inner.state.partner.at
    two.play({HELPER: "dance"})
    assert two.acting == (HELPER,) and two.clock() == 1 and two.reward(HELPER) == -0.5
    assert "Unknown command" in two.seen(HELPER).feedback
    assert two.inner.state.partner.at == before
    scripted(two)
    for _ in range(2):
        two.play({PARTNER: "go to moon 1"})
        assert two.acting == (PARTNER,) and two.clock() == 1
        assert two.reward(PARTNER) == -0.5 and two.reward(HELPER) == 0
        assert "There is no moon 1" in two.seen(PARTNER).feedback
    two.play({PARTNER: "go to moon 1"})
    assert two.acting == (HELPER,) and two.clock() == 2
    assert two.inner.state.last == "look" and "did this: look." in two.seen(HELPER).text


def test_the_partner_reaches_the_goal_without_the_scripted_partner():
    seat: Any = gymnasium.make(ID, seat=PARTNER, opponents=lambda view: "look").unwrapped
    _, info = seat.reset(seed=0, options={"task": "train/0"})
    turns, reward, ended = 0, 0.0, False
    while not ended:
        assert seat.role == "partner" and seat.expert() in info["admissible"]
        _, reward, ended, _, info = seat.step(seat.expert())
        turns += 1
    assert turns == make_chores("train/0").alone and reward == 0 and info["progress"] == 1


def test_a_snapshot_between_the_commands_continues_and_a_damaged_one_is_refused():
    one, two = game(), game("train/1")
    for _ in range(7):
        scripted(one)
    assert one.acting == (PARTNER,)
    saved = json.loads(json.dumps(one.snapshot()))
    two.restore(saved)
    bad = json.loads(json.dumps(saved))
    bad["state"]["command"] = "go to moon 1"
    with pytest.raises(SnapshotError):
        two.restore(bad)
    twin = two.copy()
    while one.acting:
        assert one.steps == two.steps == twin.steps
        for each in (one, two, twin):
            scripted(each)
    assert one.steps == two.steps == twin.steps and one.state == two.state
