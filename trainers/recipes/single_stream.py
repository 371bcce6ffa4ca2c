"""Single-stream: the outcome of an episode minus a running estimate of its task's success rate.

"Single-stream Policy Optimization" (SPO, arXiv 2509.13232): a baseline per task in place of a group
of episodes, so that a batch has as many tasks as episodes, and no group is wasted because all its
outcomes are equal. The estimate of a task is a Beta distribution with the counts a and b:

    p = a / (a + b)                      A = R - p, standardised over the batch
    D = mean |log pi_then - log pi_now|  over the tokens of the task's last episode
    rho = clip(2^(-D / 0.06), 0.875, 0.96)
    a <- rho a + r,  b <- rho b + 1 - r  with r = R in [0, 1]

The more the policy has moved since it played the task, the more of the estimate is forgotten. The
episode counts after it was compared, so that its baseline does not depend on its own actions. It
counts once for agents with the same role, with their mean. All tokens of an episode share A. No
critic.

It needs tasks that recur: `train_tasks` well below the number of all episodes. In environments of
2^31 tasks no task is met twice otherwise, and only the prior acts. If the start of an episode
depends on its seed, the estimate is the mean over seeds.

Kept: tracker, half-life, bounds, standardisation. Changed: r may be a fraction, because rewards
here are scores, too; a task that was never played starts at the mean of the others in its
environment, with the weight of one episode (theirs: at the mean of several episodes that are
played before training); tasks are drawn uniformly by default (theirs: by sqrt(p (1 - p)) + 0.05,
which is `--curriculum spread`). The name is not SPO, which is another recipe here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.group import trajectory_outcomes
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.replay import members_by_episode
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import EnvironmentConfig, defaults
from agentgym.trainers.settings.kinds import PolicyGradientConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

HALF = 0.06
"""Nats per token by which the policy moves while half of an estimate is forgotten."""
LEAST, MOST = 0.875, 0.96
"""Bounds of the share of an estimate that is kept."""


@dataclass
class Config(PolicyGradientConfig):
    """Settings of single-stream policy optimisation."""

    environment: EnvironmentConfig = defaults(EnvironmentConfig, train_tasks=256)


class Counts(NamedTuple):
    """The counts of a Beta distribution of a task's success rate.

    Attributes:
        wins: the count a.
        losses: the count b.
    """

    wins: float
    losses: float

    @property
    def mean(self) -> float:
        """The estimate of the success rate."""
        return self.wins / (self.wins + self.losses)

    def after(self, outcome: float, moved: float) -> Counts:
        """Returns the counts after an episode.

        Args:
            outcome: its outcome, in [0, 1].
            moved: how far the policy has moved since the last one, in nats per token.
        """
        kept = min(max(2 ** (-moved / HALF), LEAST), MOST)
        return Counts(kept * self.wins + outcome, kept * self.losses + 1 - outcome)


class TaskBaselines(RecipeHooks):
    """Assigns credit with a running estimate of each task's success rate.

    Args:
        run: the run, whose policy scores the last episode of each task again.
        arguments: the arguments of the environments.
    """

    def __init__(self, run: Run, arguments: Mapping[str, Any]):
        super().__init__()
        self._run = run
        self._arguments = json.dumps(arguments, sort_keys=True, default=repr)
        self.counts: dict[str, Counts] = {}
        self._last: dict[str, Trajectory] = {}
        self._all: dict[str, tuple[float, int]] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the advantages, and counts the episodes one after another."""
        batch = Batch.of(fresh)
        keys = [self._key(trajectory) for trajectory in fresh]
        moved = self._moved(keys)
        outcomes, advantages = trajectory_outcomes(batch, "return"), np.zeros(len(fresh))
        won = np.clip(outcomes, 0.0, 1.0)
        for key, members in members_by_episode(fresh, keys):
            last = fresh[members[-1]]
            place, mean = self._place(last), float(won[members].mean())
            before = self.counts.get(key) or self._prior(place)
            advantages[members] = outcomes[members] - before.mean
            self.counts[key] = before.after(mean, moved.pop(key, 0.0))
            total, count = self._all.get(place, (0.0, 0))
            self._all[place] = total + mean, count + 1
            self._last[key] = last
        return Learn(fresh, advantages[batch.turn_trajectory])

    def _moved(self, keys: Sequence[str]) -> dict[str, float]:
        """Returns how far the policy has moved on the last episodes of tasks, in nats per token."""
        known = [key for key in dict.fromkeys(keys) if key in self._last]
        self.metrics = {"seen_tasks": len(known) / len(set(keys))}
        if not known:
            return {}
        batch = Batch.of([self._last[key] for key in known])
        scored = self._run.updater.evaluate_actions(batch, reference=False)
        assert scored.logprobs is not None
        gaps = np.abs(scored.logprobs - batch.logprobs)
        owner = batch.turn_trajectory[batch.token_turn]
        sums, tokens = (np.bincount(owner, each, len(known)) for each in (gaps, np.ones(len(gaps))))
        found = sums / np.maximum(tokens, 1)
        self.metrics["moved"] = float(found.mean())
        return dict(zip(known, found.tolist(), strict=True))

    def _prior(self, place: str) -> Counts:
        """Returns the counts of a task that was never played."""
        total, count = self._all.get(place, (0.0, 0))
        mean = (total + 0.5) / (count + 1)
        return Counts(mean, 1 - mean)

    def _place(self, trajectory: Trajectory) -> str:
        return f"{trajectory.env_id} {self._arguments} {trajectory.role}"

    def _key(self, trajectory: Trajectory) -> str:
        return f"{self._place(trajectory)} {trajectory.task}"

    def state_dict(self) -> dict[str, Any]:
        """Returns the estimates and the last episode of each task."""
        return {
            "counts": {key: tuple(counts) for key, counts in self.counts.items()},
            "all": dict(self._all),
            "tasks": list(self._last),
            "last": pack_all(self._last.values()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.counts = {key: Counts(*counts) for key, counts in state["counts"].items()}
        self._all = dict(state["all"])
        self._last = dict(zip(state["tasks"], unpack_all(state["last"]), strict=True))


def build(config: Config) -> Algorithm:
    """Returns the parts of single-stream policy optimisation."""
    arguments = config.environment.env_kwargs
    return Algorithm(
        PolicyGradient(Given()),
        seats="shared",
        hooks=lambda run: TaskBaselines(run, arguments),
    )
