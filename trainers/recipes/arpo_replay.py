"""Success replay for groups whose episodes all failed (ARPO for GUI agents).

"ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay" (arXiv 2505.16282). A
group whose episodes all fail gives GRPO no gradient. If the task was solved before, that success
replaces one of the failures. Groups with equal returns are dropped afterwards.

Kept: GRPO, the replay of a task's own success, the filter, clip 0.2 / 0.3. Changed: the replayed
success is the latest one (theirs: one of the last eight). Its ratio compares with the policy that
played it (theirs: with the current one). The authors select trainable tasks once in advance.
`curriculum` can do so during training.

With `replay_probability`, replayed actions that the policy finds too likely or too unlikely are not
learned from: the filter by perplexity of "WebRL: Training LLM Web Agents via Self-Evolving Online
Curriculum Reinforcement Learning" (arXiv 2411.02337), whose loss is `--surrogate squared --ratio
turn_product`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rewards.penalties import without_equal_groups
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig
from agentgym.trainers.settings.learning import SAME_RETURNS

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(GroupConfig):
    """Settings of success replay."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups", *SAME_RETURNS.others)

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip_high=0.3)
    replay_probability: tuple[Fraction, Fraction] = (0.0, 1.0)
    """Least and largest mean probability per token of a replayed action under the policy, the
    inverse of its perplexity. Other actions of the episode stay in the prompts, and are not learned
    from (WebRL: 0.5 0.95)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        low, high = self.replay_probability
        if low > high:
            raise ConfigError(
                f"replay_probability must be a lower and an upper bound, such as 0.5 0.95, got "
                f"{low} {high}."
            )


class SuccessReplay(RecipeHooks):
    """Keeps the latest successful episode of every task, for each agent.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config) -> None:
        super().__init__()
        self.trainer, self.outcome = trainer, config.outcome
        self.bounds = config.replay_probability
        self.solved: dict[tuple[str, str], Trajectory] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the rollout, with a failure replaced in each group that failed throughout."""
        last = {trajectory.group: i for i, trajectory in enumerate(fresh)}
        succeeded = {trajectory.group for trajectory in fresh if trajectory.success}
        mixed, used = list(fresh), list[int]()
        for name, i in last.items():
            old = self.solved.get((fresh[i].task, fresh[i].agent))
            if name not in succeeded and old is not None:
                # Its seed may differ: a success of the same task joins the group.
                mixed[i] = dataclasses.replace(old, seed=fresh[i].seed, replayed=True)
                used.append(i)
        if used and self.bounds != (0.0, 1.0):
            for i, masked in zip(used, self._masked([mixed[i] for i in used]), strict=True):
                mixed[i] = masked
        self.solved.update(((t.task, t.agent), t) for t in fresh if t.success)
        self.metrics = {"replayed": float(len(used)), "tasks_solved": float(len(self.solved))}
        return Learn(without_equal_groups(mixed, self.outcome))

    def _masked(self, replayed: list[Trajectory]) -> list[Trajectory]:
        """Returns episodes whose actions outside of the bounds have the weight 0."""
        batch = Batch.of(replayed)
        logprobs = self.trainer.updaters.evaluate_actions(batch, reference=False).logprobs
        assert logprobs is not None
        owner = batch.token_turn[batch.free]
        counts = np.bincount(owner, minlength=batch.num_turns)
        sums = np.bincount(owner, logprobs[batch.free], batch.num_turns)
        likely = np.exp(sums / np.maximum(counts, 1))
        inside = iter((self.bounds[0] <= likely) & (likely <= self.bounds[1]))
        return [
            dataclasses.replace(
                each,
                turns=[
                    turn if next(inside) else dataclasses.replace(turn, weight=0.0)
                    for turn in each.turns
                ],
            )
            for each in replayed
        ]

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
        hooks=lambda trainer: SuccessReplay(trainer, config),
    )
