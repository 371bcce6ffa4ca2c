"""Measures of exploration: golden episodes, and bandits with known regret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.agents import View
from agentgym.evaluation.exploration import exploration, regret_exponent
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.transcripts import read_saved


def turn(action: str, reward: float, thought: str = "", valid: bool = True) -> dict[str, Any]:
    """A turn of a saved episode with three arms, whose reply begins with a thought."""
    reply = f"{thought} <action>{action}</action>"
    found = {"action_span": [len(thought) + 1, len(reply)], "extracted": action}
    return {
        **(found if thought else {"action_span": None}),
        "action": reply if thought else action,
        "admissible": ["red", "blue", "green"],
        "reward": reward,
        "valid": valid,
    }


def test_golden_exploration():
    turns = [
        turn(" Red.", 0.0, "red?"),  # nothing is known yet
        turn("blue", 1.0, "blue, no: red."),  # knows red, the only one tried, and takes another
        turn("purple", 0.0, valid=False),  # neither greedy nor counted
        turn("red", 0.0, "blue is better than red"),  # names red last: does not know
        turn("red", 0.0, "Certainly blue."),  # knows, and takes the most frequent one
        turn("blue", 0.0, "So blue."),  # knows and does
    ]
    found = exploration([{"transcript": turns}])
    assert found == pytest.approx(
        {
            "coverage": 2 / 3,
            "greedy": 1 / 5,
            "habit": 1 / 2,  # red is more frequent than blue before the last two turns
            "knowing": 3 / 4,
            "knowing_doing_gap": 2 / 3,
        }
    )


def test_without_turns_to_measure_there_is_no_number():
    found = exploration([{"transcript": [turn("red", 1.0)]}])
    assert found.pop("coverage") == 1 / 3
    assert all(map(math.isnan, found.values()))


def test_the_exponent_of_a_power_is_found():
    time = np.arange(1, 50)
    constant, exponent = regret_exponent([(3 * time**0.5).tolist(), (time**0.5).tolist()])
    assert (constant, exponent) == pytest.approx((2.0, 0.5))
    with pytest.raises(ValueError, match="two turns with a positive regret, got 0"):
        regret_exponent([[0.0, 0.0]])


class Thinker:
    """Names the first button in its thought, and presses it in the first two rounds only."""

    name, wrap = "thinker", ("ExtractAction",)

    def act(self, views: Sequence[View]) -> list[str]:
        return [
            f"I press {(a := view.info['admissible'])[0]}.\nAction: {a[len(view.history) > 1]}"
            for view in views
        ]


def test_bandits_report_exploration_per_episode(tmp_path: Path):
    """The means over the episodes that have a number, in the report, its table and its file."""
    arms = {"arms": 2, "rounds": 4}
    file = tmp_path / "thinker.jsonl"
    report = evaluate("Bandit-v0", Thinker(), tasks=12, env_kwargs=arms, save=file)
    alone = [exploration([episode]) for episode in read_saved(file)]
    found = {k: v for k, v in report.aggregate().items() if k.startswith("exploration/")}
    assert {k.removeprefix("exploration/") for k in found} == set(alone[0])
    for name, estimate in found.items():
        some = [each[name.removeprefix("exploration/")] for each in alone]
        some = [value for value in some if not math.isnan(value)]
        assert estimate.mean == pytest.approx(np.mean(some)), name
    assert found["exploration/coverage"].mean == 1 and found["exploration/knowing"].mean > 0.5
    assert 0.3 < found["exploration/knowing_doing_gap"].mean < 0.8
    line = " ".join(str(report).split())
    assert "thinker on Bandit-v0" in line and ", exploration: coverage 1.00, greedy 0." in line
    assert "knowing doing gap 0." in line
    again = evaluate("Bandit-v0", Thinker(), tasks=12, env_kwargs=arms, save=file, resume=True)
    assert again.aggregate() == report.aggregate()


@pytest.mark.parametrize("env", ["NumberLine-v0", "ContextualBandit-v0", "RockPaperScissors-v0"])
def test_actions_whose_payoff_depends_on_the_state_have_no_measures_of_exploration(env: str):
    report = evaluate(env, "random", tasks=2)
    assert not any(name.startswith("exploration/") for name in report.aggregate())
    assert "exploration:" not in str(report)


def test_regret_is_reported_and_saved(tmp_path: Path):
    found = {}
    for agent in ("random", "expert"):
        file = tmp_path / f"{agent}.jsonl"
        report = evaluate("Bandit-v0", agent, tasks=20, save=file)
        episodes = read_saved(file)
        regrets = [[each["regret"] for each in episode["transcript"]] for episode in episodes]
        mean = report.aggregate()["cost/regret"].mean
        assert mean == pytest.approx(np.mean([each[-1] for each in regrets]))
        found[agent] = (mean, regret_exponent(regrets)[1], exploration(episodes)["greedy"])
    (random, straight, _), (expert, bent, greedy) = found["random"], found["expert"]
    assert expert < random / 2
    assert straight == pytest.approx(1, abs=0.1) and bent < 0.8
    assert greedy > 0.5


def test_regret_is_averaged_over_the_episodes_that_measure_it():
    bandits, others = (evaluate(env, "random", tasks=4) for env in ("Bandit-v0", "NumberLine-v0"))
    searched = [replace(each, costs={"searches": 2.0}) for each in others.episodes]
    mixed = replace(bandits, episodes=[*bandits.episodes, *searched], planned=8).aggregate()
    assert mixed["cost/regret"] == bandits.aggregate()["cost/regret"]
    assert mixed["cost/searches"].mean == 1.0, "an episode without searches had none"
