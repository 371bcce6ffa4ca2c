"""The scalars of a rollout, and its trajectories by environment and by role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.registration.making import short_id
from agentgym.trainers.data.trajectory import Trajectory


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the rollout metrics of trajectories, `action_coverage` only if actions are listed."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    lengths = [turn.stop - turn.start for turn in turns]

    def share(values: Sequence[Any]) -> float:
        return float(np.mean(values)) if len(values) else 0.0

    found = {
        "return": share([t.episode_return for t in trajectories]),
        "success": share([t.success for t in trajectories]),
        "progress": share([t.turns[-1].progress for t in trajectories]),
        "turns": share([len(t.turns) for t in trajectories]),
        "valid": share([turn.valid for turn in turns]),
        "truncated": share([t.truncated or t.stats.at_limit for t in trajectories]),
        "action_tokens": share(lengths),
        "thought_tokens": share([0 if t.thought is None else t.thought.sum() for t in turns]),
        "prompt_tokens": sum(t.stats.read_tokens for t in trajectories) / len(turns),
        "context_overflows": float(sum(t.stats.overflow for t in trajectories)),
        "timeouts": float(sum(t.stats.timed_out for t in trajectories)),
        "turns_left_out": float(sum(t.stats.left_out for t in trajectories)),
        "observations_cut": float(sum(t.stats.cut for t in trajectories)),
    }
    covered = [c for c in map(action_coverage, trajectories) if c is not None]
    return found | ({"action_coverage": share(covered)} if covered else {})


def action_coverage(trajectory: Trajectory) -> float | None:
    """Returns the share of an episode's admissible actions that were taken at least once.

    None if none were listed. Source: "LLMs are Greedy Agents" (arXiv 2504.16078).
    """
    listed = {action for turn in trajectory.turns for action in turn.admissible}
    taken = {turn.action for turn in trajectory.turns}
    return len(taken & listed) / len(listed) if listed else None


def by_env_id(trajectories: Sequence[Trajectory]) -> list[tuple[str, list[Trajectory]]]:
    """Returns the trajectories of each environment, with its id without namespace."""
    found: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        found.setdefault(short_id(trajectory.env_id), []).append(trajectory)
    return sorted(found.items())


def by_role(trajectories: Sequence[Trajectory]) -> list[tuple[str, list[Trajectory]]]:
    """Returns the trajectories of each role of a game, none of single-agent environments."""
    found: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.role:
            found.setdefault(trajectory.role, []).append(trajectory)
    return sorted(found.items())
