"""SPAG: self-play in which only the winner of a game learns, most from its last turns.

"Self-playing Adversarial Language Game Enhances LLM Reasoning" (arXiv 2404.10642). An agent has won
an episode if its return is positive. Turn k = 1..T of a winner has the advantage

    A_k = decay^(T - k) / sum_j decay^(T - j) * n / (n_roles n_p)

with n won episodes, n_p of them by the winner's role p, so that all roles that win count the same.
Turns of the others have advantage 0. There is one ratio per turn, the geometric mean over its
tokens, and a KL penalty to the reference policy.

Kept: the credit of the authors' code, decay 0.8, clip 0.2, KL coefficient 0.2, the ratio. Changed:
episodes are played in every iteration, and the ratio refers to the policy that played them (theirs
are played once, by the reference policy, to which the ratio refers); the KL penalty is a term of
the loss for all turns (theirs is in the advantage of the winners' turns); there is no loss on
instruction data (theirs: coefficient 0.5), and imitation ends where RL begins
(`bc_demonstrations`). In an environment with a single agent, there is one role.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.group import trajectory_outcomes
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import PolicyGradientConfig


@dataclass
class Config(PolicyGradientConfig):
    """Settings of SPAG."""

    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", ratio="turn", aggregation="turn", kl_coef=0.2
    )
    decay: Annotated[float, Gt(0.0), Le(1.0)] = 0.8
    """Decay of the advantage per turn that is left in the episode."""


@dataclass(frozen=True)
class WinnersCredit:
    """Divides an advantage of 1 over the turns of each winner, most of it over the last ones.

    Attributes:
        decay: decay of the advantage per turn that is left.
    """

    decay: float = 0.8

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        owner = batch.turn_trajectory
        left = batch.turn_offsets[1:][owner] - 1 - np.arange(batch.num_turns)
        parts = self.decay**left
        parts /= np.bincount(owner, parts)[owner]
        won = winners(batch)
        return Credit(broadcast(parts * won[owner], batch), metrics={"won": float(won.mean())})


class EqualRoles(RecipeHooks):
    """Weighs the advantages of winners such that all roles that have won count the same."""

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the weighted advantages."""
        won = winners(batch)
        keys = [f"{t.env_id} {t.role}" for t in batch.trajectories]
        roles = np.unique(keys, return_inverse=True)[1]
        wins = np.bincount(roles, won)
        shares = won.sum() / (max(1, np.count_nonzero(wins)) * np.maximum(wins, 1))
        weights = shares[roles][batch.turn_trajectory[batch.token_turn]]
        return replace(credit, advantages=(credit.advantages * weights).astype(np.float32))


def winners(batch: Batch) -> NDArray[np.bool_]:
    """Returns whether the return of each trajectory is positive [N]."""
    return trajectory_outcomes(batch, "return") > 1e-9


def build(config: Config) -> Algorithm:
    """Returns the parts of SPAG."""
    return Algorithm(PolicyGradient(WinnersCredit(config.decay)), hooks=lambda _: EqualRoles())
