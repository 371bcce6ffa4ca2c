"""VSC-RL: returns that end with each subgoal, regression on them, and a pull to the first policy.

"VSC-RL: Advancing Autonomous Vision-Language Agents with Variational Subgoal-Conditioned
Reinforcement Learning" (Wu et al., arXiv 2502.07949). A long task is divided into subgoals, which
the prompt shows. The objective is a lower bound of the original one, of each subgoal sg and goal g,

    E[log p(O | tau, sg)] - KL(pi(. | sg) || pi_ref(. | g)),

the return that is conditioned on the subgoal, and the divergence from a reference policy. Credit is
the turn-level GAE of an episode that ends where the subgoal is reached. The policy is updated by
advantage-weighted regression, exp(beta A), and the KL penalty.

Subgoals and their rewards are those of the wrapper `Subgoals`:

    agentgym train vsc_rl --wrap Subgoals:propose=my_module:next_subgoal ...

Kept: the returns per subgoal, the regression, the KL to the policy before RL. Changed: a function
proposes subgoals and decides whether they are reached (the paper: a vision-language model), and the
reference reads the same prompt, subgoal included. One critic values turns (theirs: two critics
that classify, of instructions and of steps, on data from before).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.scan import reverse_scan
from agentgym.trainers.credit.turn_rewards import weights_of
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, require_values
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, LossConfig, NonNegative, defaults
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, Values
from agentgym.wrappers.subgoals import SUBGOAL


@dataclass
class Config(TrainConfig):
    """Settings of VSC-RL."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", kl_coef=0.01)
    gamma: Fraction = 0.95
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    beta: NonNegative = 5.0
    """Inverse temperature of the weights exp(beta A)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        why = "every turn has a weight of regression"
        self.fixed(why, normalize_advantages="none", covariance_clip=0.0)


@dataclass(frozen=True)
class SubgoalGAE:
    """Turn-level GAE that ends with each subgoal, at the turns with a positive subgoal reward.

    Attributes:
        gamma: discount per turn.
        lambda_: GAE lambda per turn.
    """

    gamma: float = 0.95
    lambda_: float = 0.95

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        check_fraction("lambda_", self.lambda_)

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a turn-level critic.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, "turns")
        value = np.asarray(values.turns, np.float64)
        last = batch.turn_offsets[1:] - 1
        following = np.append(value[1:], 0.0)
        following[last] = np.where(batch.terminated, 0.0, values.bootstrap)
        goes_on = np.array([turn.reward_terms.get(SUBGOAL, 0.0) <= 0 for turn in batch.turns])
        decay = np.where(goes_on, self.gamma * self.lambda_, 0.0)
        decay[last] = 0.0
        deltas = batch.rewards + self.gamma * np.where(goes_on, following, 0.0) - value
        advantages = reverse_scan(deltas, decay)
        return Credit(broadcast(advantages, batch), (advantages + value).astype(np.float32))


class Regression(RecipeHooks):
    """Turns advantages into the weights exp(beta A) of advantage-weighted regression.

    Args:
        beta: inverse temperature.
    """

    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the weights as advantages."""
        ends = [turn.reward_terms.get(SUBGOAL, 0.0) > 0 for turn in batch.turns]
        self.metrics = {"subgoals": float(np.sum(ends)) / len(batch.trajectories)}
        return replace(credit, advantages=weights_of(credit.advantages, self.beta))


def build(config: Config) -> Algorithm:
    """Returns the parts of VSC-RL."""
    return Algorithm(
        credit=SubgoalGAE(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
        hooks=lambda _: Regression(config.beta),
    )
