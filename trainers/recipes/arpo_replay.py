"""Success replay for groups in which everything failed (ARPO, arXiv 2505.16282).

"ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay". A group whose episodes
all fail teaches GRPO nothing; if the task was solved before, that success takes the place of one of
the failures. Groups that are all equal even so are left out.

Kept: GRPO, the replay of a task's own success, the filter. Changed: the authors choose trainable
tasks once, beforehand; here `curriculum` can, while training.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.base import Experience, pack, unpack
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Trajectory
from agentgym.trainers.update.penalties import without_equal_groups


@dataclass
class Config(grpo.Config):
    """Settings of success replay."""

    clip_high: float | None = 0.3
    """Upper clip; None: the same as `clip`."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("groups are filtered after old successes came in", filter_groups=False)


class SuccessReplay(Experience):
    """The latest success of every task."""

    def __init__(self) -> None:
        super().__init__()
        self.solved: dict[str, Trajectory] = {}

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the round with failures replaced where a group has nothing else."""
        last = {trajectory.group: i for i, trajectory in enumerate(fresh)}
        succeeded = {trajectory.group for trajectory in fresh if trajectory.success}
        mixed, used = list(fresh), 0
        for name, i in last.items():
            old = self.solved.get(fresh[i].task)
            if name not in succeeded and old is not None:
                # It may have started from another seed; the group is that of the task.
                mixed[i] = dataclasses.replace(old, seed=fresh[i].seed)
                used += 1
        self.solved.update((t.task, t) for t in fresh if t.success)
        self.metrics = {"replayed": float(used), "tasks_solved": float(len(self.solved))}
        return without_equal_groups(mixed)

    def state_dict(self) -> dict[str, Any]:
        """Returns the successes."""
        return {"solved": [pack(trajectory) for trajectory in self.solved.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.solved = {packed["task"]: unpack(packed) for packed in state["solved"]}


def main(config: Config) -> list[Report]:
    """Trains a policy with success replay; returns its evaluations."""
    return Trainer(
        "arpo_replay",
        config,
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        experience=lambda _: SuccessReplay(),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("arpo_replay", sys.argv[1:]))
