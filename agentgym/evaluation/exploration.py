"""How an agent explores: coverage, greed, habit, and the gap between knowing and doing.

The measures of "LLMs are Greedy Agents: Effects of RL Fine-tuning on Decision-Making Abilities"
(arXiv 2504.16078), and the regret curve of "EVOLvE: Evaluating and Optimizing LLMs For Exploration"
(arXiv 2410.06238), for tasks whose actions are the same in every turn and pay at once, such as
`Bandit-v0`. They are computed from the episodes that `agentgym eval --save` writes. `agentgym eval`
prints the means over episodes of such an environment, which has an attribute `stationary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.utils.action_parsing import match_action

Turn = Mapping[str, Any]


def exploration(episodes: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Returns measures of exploration over all turns of episodes. NaN: no turn to measure.

    - coverage: share of the admissible actions that an episode takes at least once.
    - greedy: share of turns that take an action with the highest mean reward so far, of the turns
      before which an action was taken.
    - habit: share of turns that take the most frequent action so far, of the turns before which
      this is not the one with the highest mean reward (frequency bias).
    - knowing: share of turns whose thought names the action with the highest mean reward so far,
      and no other one after it, of the turns with a thought that names an action.
    - knowing_doing_gap: share of turns that take another action, of the turns that know.

    The thought is the reply up to the action (see `ExtractAction`). Without that wrapper there is
    none, and nothing is known of what the agent knows.

    Args:
        episodes: lines of a saved evaluation, with "transcript".
    """
    counts = {name: [0, 0] for name in ("greedy", "habit", "knowing", "knowing_doing_gap")}
    coverage = []

    def count(name: str, hit: bool) -> None:
        counts[name][0] += hit
        counts[name][1] += 1

    for episode in episodes:
        paid: dict[str, list[float]] = {}
        turns = episode["transcript"]
        listed = {action for turn in turns for action in turn["admissible"]}
        for turn in turns:
            thought, action = _parts(turn)
            if paid:
                best = _highest({name: float(np.mean(all)) for name, all in paid.items()})
                most = _highest({name: len(all) for name, all in paid.items()})
                count("greedy", action in best)
                if not most & best:
                    count("habit", action in most)
                if named := _last_named(thought, listed):
                    count("knowing", named in best)
                    if named in best:
                        count("knowing_doing_gap", action not in best)
            if turn["valid"]:
                paid.setdefault(action, []).append(turn["reward"])
        if listed:
            coverage.append(len(paid.keys() & listed) / len(listed))
    shares = {name: hits / n if n else float("nan") for name, (hits, n) in counts.items()}
    return {"coverage": float(np.mean(coverage)) if coverage else float("nan"), **shares}


def _parts(turn: Turn) -> tuple[str, str]:
    """Returns the thought of a reply, and the admissible action that it takes."""
    reply, span = turn["action"], turn.get("action_span")
    action = turn.get("extracted", reply)
    thought = reply[: span[0]] if span else ""
    return thought, match_action(action, turn["admissible"]) or action


def _highest(values: Mapping[str, float]) -> set[str]:
    top = max(values.values())
    return {name for name, value in values.items() if value == top}


def _last_named(thought: str, actions: Iterable[str]) -> str:
    """Returns the action whose name ends last in a thought, the longest such, "" without any."""
    ends = {action: thought.rfind(action) + len(action) for action in actions if action in thought}
    return max(ends, key=lambda action: (ends[action], len(action)), default="")


def regret_exponent(regrets: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns (C, a) of the fit C t^a to the mean cumulative regret after t turns.

    It is the line of least squares in logarithms. a is 1 for an agent that never learns, and near 0
    for one that soon always takes the best action.

    Args:
        regrets: cumulative regret after each turn, of episodes of equal length.

    Raises:
        ValueError: if fewer than two turns have a positive mean regret.
    """
    mean = np.mean(np.asarray(regrets, np.float64), 0)
    time = np.arange(1, len(mean) + 1)
    positive = mean > 0
    if positive.sum() < 2:
        raise ValueError(
            f"The fit needs two turns with a positive regret, got {int(positive.sum())}."
        )
    exponent, constant = np.polyfit(np.log(time[positive]), np.log(mean[positive]), 1)
    return float(np.exp(constant)), float(exponent)
