"""Alarms of self-play: one for each cause, and none for an equilibrium."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.evaluation import nashconv
from agentgym.evaluation.best_response import exploitability_bound
from agentgym.evaluation.report import Estimate
from agentgym.trainers.data.run_state import RunState, SelfPlayHistory
from agentgym.trainers.run.diagnostics import Watch
from agentgym.trainers.run.evaluation import is_best
from agentgym.trainers.run.exploitability import Measured
from agentgym.trainers.run.self_play_alarms import (
    BEATEN,
    CYCLING,
    PATIENCE,
    RISING,
    WORSE,
    self_play_alarms,
)


def measured(value: float, half: float = 0.0, **changes: Any) -> Measured:
    fields: dict[str, Any] = {
        "exact": not half, "players": 2, "random": 0.5, "margins": {}, "scale": 4.0,
        "zero_sum": True,
    }  # fmt: skip
    return Measured(Estimate(value, value - half, value + half), **fields | changes)


def causes(values: Sequence[float], half: float = 0.0, **changes: Any) -> list[set[str]]:
    """Returns the causes after each evaluation."""
    history = SelfPlayHistory()
    return [{*self_play_alarms(history, measured(value, half, **changes))} for value in values]


def test_exploitability_that_rises_is_an_alarm():
    assert causes([0.3, 0.2, 0.21, 0.3, 0.2]) == [set(), set(), set(), {RISING}, set()]
    assert causes([0.1, 0.3])[-1] == set()  # too early
    assert causes([0.3, 0.2, 0.3], half=0.2)[-1] == set()  # within the intervals
    assert causes([0.3, 0.2, 0.3], zero_sum=False)[-1] == set()
    assert causes([0.3, 0.2, 0.3], scale=20.0)[-1] == set()  # half a percent of the returns


def test_an_alarm_names_numbers_and_remedies():
    history = SelfPlayHistory()
    for value in (0.3, 0.2):
        self_play_alarms(history, measured(value))
    text = self_play_alarms(history, measured(0.45))[RISING]
    assert "0.200 to 0.450" in text and "0 by construction" in text
    assert "mirror past:5=auto" in text and "--kl-reference" in text


def test_a_policy_worse_than_random_is_an_alarm():
    assert causes([0.8] * PATIENCE)[-1] == {WORSE}
    assert causes([0.8, 0.4, 0.8])[-1] == {RISING}  # not in all of the last evaluations
    assert causes([0.8] * PATIENCE, random=0.0, half=1.0)[-1] == set()


def test_a_deterministic_policy_with_flat_exploitability_is_an_alarm():
    history = SelfPlayHistory()
    for entropy in (1.0, 0.01, 0.01):
        history.observe(entropy)
        found = self_play_alarms(history, measured(0.3))
    assert {*found} == {CYCLING} and "league:RUN" in found[CYCLING]
    history = SelfPlayHistory()
    history.observe(0.5)
    assert all(not self_play_alarms(history, measured(0.3)) for _ in range(5))  # it explores
    history.observe(0.0)
    assert all(not self_play_alarms(history, measured(0.02)) for _ in range(5))  # it is fine


def test_a_member_that_was_beaten_and_wins_is_an_alarm():
    history = SelfPlayHistory()

    def after(**margins: float) -> set[str]:
        found = {int(k[1:]): Estimate(x, x - 0.05, x + 0.05) for k, x in margins.items()}
        return {*self_play_alarms(history, measured(0.2, margins=found))}

    assert after(m0=0.3) == set()  # it has never been beaten
    assert after(m0=-0.05, m5=0.0) == set()  # within the interval
    assert after(m0=0.3) == set()
    assert after(m0=-0.3) == set()
    assert after(m0=0.3, m5=0.0) == {BEATEN}
    assert history.beaten == [0]


def test_an_equilibrium_never_alarms():
    """In 20 evaluations with other deals each, beside members that it beats, and exactly."""
    kwargs, history, exact = {"hands": 1}, SelfPlayHistory(), SelfPlayHistory()
    value = nashconv("KuhnPoker-v0", "equilibrium", env_kwargs=kwargs).exploitability
    for seed in range(20):
        found = exploitability_bound(
            "KuhnPoker-v0", "equilibrium", games=320, seed=seed, env_kwargs=kwargs
        )
        margins = {number: found.margins[name] for number, name in enumerate(found.margins)}
        for each in (history, exact):
            each.observe(0.6 - 0.03 * seed)
        now = Measured(found.exploitability, False, 2, 0.46, margins, found.scale, zero_sum=True)
        assert self_play_alarms(history, now) == {}
        assert self_play_alarms(exact, measured(value)) == {}


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.floats(0.0, 0.4), min_size=1, max_size=8))
def test_a_policy_that_never_gets_worse_raises_no_alarm(values: list[float]):
    assert not any(causes(sorted(values, reverse=True)))


def test_the_watch_warns_once_per_cause():
    watch, alarms = Watch(), {RISING: "It rises.", WORSE: "It is worse."}
    row = {"eval/reward": 0.0, "eval/exploitability": 1.0}
    assert watch.warnings(row, {RISING: "It rises."}) == ["It rises."]
    assert watch.warnings(row, alarms) == ["It is worse."]
    assert watch.warnings(row, alarms) == []


def test_the_best_policy_is_the_least_exploitable_one():
    state = RunState()
    chosen = [
        is_best(state, reward, None if value is None else measured(value))
        for reward, value in ((0.5, None), (0.4, None), (0.1, 0.3), (0.9, 0.4), (0.0, 0.2))
    ]
    assert chosen == [True, False, True, False, True]
    assert (state.best_reward, state.best_exploitability) == (0.0, 0.2)
    team = measured(0.0, zero_sum=False)  # any equilibrium of a team has none
    assert is_best(state, 0.5, team) and state.best_exploitability is None
    assert not is_best(state, 0.5, team)


@pytest.mark.parametrize("half", [0.0, 0.1])
def test_the_scalars_say_whether_the_value_is_exact(half: float):
    found = measured(0.3, half).metrics()
    names = {"nashconv"} if not half else {"exploitability_low", "exploitability_high"}
    names |= {"exploitability", "exploitability_random"}
    assert {*found} == {f"eval/{name}" for name in names}
    assert found["eval/exploitability"] == 0.3 and found.get("eval/nashconv", 0.6) == 0.6
