"""Success replay for groups whose episodes all failed (ARPO for GUI agents).

"ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay" (arXiv 2505.16282). A
group whose episodes all fail gives GRPO no gradient. If the task was solved before, that success
replaces one of the failures. Groups with equal returns are dropped afterwards.

Kept: GRPO, the replay of a task's own success, the filter, clip 0.2 / 0.3. Changed: the replayed
success is the latest one (theirs: one of the last eight). Its ratio compares with the policy that
played it (theirs: with the current one). The authors select trainable tasks once in advance.
`curriculum` can do so during training.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rewards.penalties import without_equal_groups
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig
from agentgym.trainers.settings.learning import SAME_RETURNS


@dataclass
class Config(GroupConfig):
    """Settings of success replay."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups", *SAME_RETURNS.others)

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip_high=0.3)


class SuccessReplay(RecipeHooks):
    """Keeps the latest successful episode of every task, for each agent.

    Args:
        outcome: the outcome that is compared, "return" or "success".
    """

    def __init__(self, outcome: str = "return") -> None:
        super().__init__()
        self.outcome = outcome
        self.solved: dict[tuple[str, str], Trajectory] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the rollout, with a failure replaced in each group that failed throughout."""
        last = {trajectory.group: i for i, trajectory in enumerate(fresh)}
        succeeded = {trajectory.group for trajectory in fresh if trajectory.success}
        mixed, used = list(fresh), 0
        for name, i in last.items():
            old = self.solved.get((fresh[i].task, fresh[i].agent))
            if name not in succeeded and old is not None:
                # Its seed may differ: a success of the same task joins the group.
                mixed[i] = dataclasses.replace(old, seed=fresh[i].seed, replayed=True)
                used += 1
        self.solved.update(((t.task, t.agent), t) for t in fresh if t.success)
        self.metrics = {"replayed": float(used), "tasks_solved": float(len(self.solved))}
        return Learn(without_equal_groups(mixed, self.outcome))

    def state_dict(self) -> dict[str, Any]:
        """Returns the successful episodes."""
        return {"solved": pack_all(self.solved.values())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        solved = unpack_all(state["solved"])
        self.solved = {(trajectory.task, trajectory.agent): trajectory for trajectory in solved}


def build(config: Config) -> Algorithm:
    """Returns the parts of success replay."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        outcomes="group",
        hooks=lambda _: SuccessReplay(config.outcome),
    )
