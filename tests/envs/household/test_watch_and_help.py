"""WatchAndHelp: goals, the partner, the speed-up, and two people who share a home."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.envs.household.rules import HAND, State, apply, commands, refusal
from agentgym.envs.household.shared_home import OTHER, act, alone, make_chores, missing, plan
from agentgym.envs.household.things import kind_of
from agentgym.envs.household.watch_and_help import WatchAndHelp

NUMBERS = st.integers(0, 10_000)


def play(env: WatchAndHelp, act: Callable[[], Any]) -> tuple[float, int, dict[str, Any]]:
    total, turns = 0.0, 0
    while True:
        _, reward, terminated, truncated, info = env.step(act())
        total, turns = total + reward, turns + 1
        if terminated or truncated:
            return total, turns, info


@given(NUMBERS)
@settings(deadline=None, max_examples=40)
def test_the_goal_can_be_read_from_the_watched_commands_and_reached_alone(number: int):
    chores = make_chores(f"train/{number}")
    put = [
        (kind_of(thing), kind_of(place)) for verb, thing, place in chores.watched if verb == "put"
    ]
    assert sorted(put) == sorted(
        (kind, to) for kind, to, count in chores.goals for _ in range(count)
    )
    state = State("", dict(chores.level.places))
    assert sum(count for *_, count in missing(chores.goals, state)) == len(put)
    for command in alone(chores.level, chores.goals):
        assert not refusal(chores.level, state, command)
        apply(state, command)
    assert not missing(chores.goals, state) and len(put) < chores.alone < 60


@given(NUMBERS)
@example(1019)
@settings(deadline=None, max_examples=20)
def test_looking_is_no_help_and_the_expert_is(number: int):
    env = WatchAndHelp()
    chores = make_chores(f"test/{number}")
    env.reset(seed=0, options={"task": f"test/{number}"})
    gain, turns, info = play(env, lambda: "look")
    assert (gain, turns, info["success"]) == (0.0, chores.alone, False)
    assert info["progress"] == 1
    env.reset(seed=0, options={"task": f"test/{number}"})
    gain, turns, info = play(env, lambda: env.expert())
    # It rarely gets in the way of the partner, as in test/1019.
    assert gain == pytest.approx(max(0, chores.alone / turns - 1)) and info["progress"] == 1
    assert info["success"] == (gain > 0)


@given(NUMBERS, st.lists(st.integers(0, 99), max_size=40))
@settings(deadline=None, max_examples=40)
def test_two_people_never_hold_the_same_thing(number: int, choices: list[int]):
    chores = make_chores(f"train/{number}")
    me, partner = (State("", dict(chores.level.places)) for _ in range(2))
    for choice in choices:
        possible = commands(chores.level, me)
        for mover, other, command in (
            (me, partner, possible[choice % len(possible)]),
            (partner, me, None),
        ):
            command = command or plan(chores.level, partner, chores.goals)
            assert not refusal(chores.level, mover, command)
            act(mover, other, command)
        assert me.opened == partner.opened
        swap = {HAND: OTHER, OTHER: HAND}
        assert {t: swap.get(p, p) for t, p in me.places.items()} == partner.places
        assert list(me.places.values()).count(HAND) <= 1
        assert list(partner.places.values()).count(HAND) <= 1


def test_goals_of_test_tasks_are_new():
    goals = [
        {
            frozenset((kind, target) for kind, target, _ in make_chores(f"{split}/{i}").goals)
            for i in range(60)
        }
        for split in ("train", "test")
    ]
    assert not goals[0] & goals[1] and min(map(len, goals)) > 30
    assert all(len(pairs) == 2 for pairs in goals[0] | goals[1])


def test_a_helper_that_keeps_a_needed_thing_makes_the_partner_wait():
    env = WatchAndHelp(max_turns=60)
    env.reset(seed=0, options={"task": "train/0"})
    while not env.state.me.held:
        env.step(str(env.expert()))
    kept = env.state.me.held
    gain, _, info = play(env, lambda: "look")
    assert gain == 0 and not info["success"] and 0 < info["progress"] < 1
    assert env.state.me.held == kept and env.state.last == "look"


def test_invalid_commands_are_explained_and_change_nothing():
    env = WatchAndHelp()
    env.reset(seed=0, options={"task": "train/0"})
    for action, message in (
        ("dance", "Unknown command"),
        ("go to moon 1", "There is no moon 1"),
        ("put mug 9 in/on shelf 1", "There is no|not at"),
    ):
        before = env.state.partner.at
        text, _, _, _, info = env.step(action)
        assert not info["valid"] and env.state.partner.at == before
        assert any(part in text for part in message.split("|"))


def test_hidden_things_are_not_shown():
    env = WatchAndHelp()
    text, _ = env.reset(seed=0, options={"task": "train/1"})
    assert "Goal" not in text
    here = text.partition("Around you")[2]
    assert not any(thing in here for thing in env.state.me.places)
    for kind, target, count in env.chores.goals:
        assert f"{count} {kind}" in (goal := env.privileged_text()) and target in goal
