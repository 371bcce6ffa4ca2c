"""RAE: the return of a seat minus the moving average of the returns in its role, for self-play.

"SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning via Multi-Agent Multi-Turn Reinforcement
Learning" (arXiv 2506.24119): role-conditioned advantage estimation. In a zero-sum game, the mean of
both returns is 0 whatever the policy does, but the two roles can be worth different amounts. Each
role p of a game G has its own baseline:

    A_p = R_p - b[G, p],    then    b[G, p] <- decay b[G, p] + (1 - decay) R_p,    b = 0 at first.

An episode is compared with the baseline before it counts in it: otherwise its advantage would
shrink by the factor `decay`, and its baseline would depend on its own actions. Agents with the same
role in an episode have one baseline, in which their mean return counts once. All tokens of the
episode share A_p, times gamma to the number of turns that are left. No critic, no normalisation.

Kept: the credit, decay 0.95, gamma 1, two epochs and the clipped ratio per token. Changed: there is
one baseline for all processes, which is saved in checkpoints (theirs is one per actor and is lost);
its key holds the arguments of the game as well; turns with advantage 0 are kept, as their gradient
is 0. Their learning rate of 1e-6 is the default for loaded models only. In an environment with a
single agent, there is one role.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.registration.making import short_id
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.group import trajectory_outcomes
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import members_by_episode
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import PolicyGradientConfig


@dataclass
class Config(PolicyGradientConfig):
    """Settings of RAE."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    decay: Fraction = 0.95
    """Decay of the moving average of a role's returns, per episode."""
    gamma: Fraction = 1.0
    """Discount of the advantage per turn that is left in the episode."""


class RoleBaselines(RecipeHooks):
    """Assigns credit with a moving average of the returns for each role of a game.

    Args:
        decay: decay of the averages, per episode.
        gamma: discount of the advantage per turn that is left.
        arguments: the arguments of the games.
        several: whether there are several games, so that metrics are named after them, too.
    """

    def __init__(
        self, decay: float, gamma: float, arguments: Mapping[str, Any], *, several: bool = False
    ):
        super().__init__()
        self.decay, self.gamma = decay, gamma
        self.baselines: dict[str, float] = {}
        self._several = several
        self._arguments = json.dumps(arguments, sort_keys=True, default=repr)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the advantages, and counts the episodes in the baselines one after another."""
        batch = Batch.of(fresh)
        outcomes = trajectory_outcomes(batch, "return")
        advantages = np.zeros(len(fresh))
        names = {self._key(trajectory): self._name(trajectory) for trajectory in fresh}
        for key, members in members_by_episode(fresh, [self._key(each) for each in fresh]):
            before = self.baselines.get(key, 0.0)
            advantages[members] = outcomes[members] - before
            mean = float(outcomes[members].mean())
            self.baselines[key] = self.decay * before + (1 - self.decay) * mean
        self.metrics = {f"baseline/{name}": self.baselines[key] for key, name in names.items()}
        last = batch.turn_offsets[1:][batch.turn_trajectory] - 1
        left = last - np.arange(batch.num_turns)
        return Learn(fresh, self.gamma**left * advantages[batch.turn_trajectory])

    def _key(self, trajectory: Trajectory) -> str:
        return f"{trajectory.env_id} {self._arguments} {trajectory.role}"

    def _name(self, trajectory: Trajectory) -> str:
        """Returns the role, after the game if there are several."""
        role = trajectory.role or "agent"
        return f"{short_id(trajectory.env_id)}/{role}" if self._several else role

    def state_dict(self) -> dict[str, Any]:
        """Returns the baselines."""
        return {"baselines": dict(self.baselines)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.baselines = dict(state["baselines"])


def build(config: Config) -> Algorithm:
    """Returns the parts of RAE."""
    played = config.environment
    arguments, several = played.env_kwargs, len(played.ids) > 1
    return Algorithm(
        PolicyGradient(Given()),
        hooks=lambda _: RoleBaselines(config.decay, config.gamma, arguments, several=several),
    )
