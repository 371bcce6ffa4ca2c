"""VSC-RL: turn-level returns that end with each subgoal, near the policy before RL.

"VSC-RL: Advancing Autonomous Vision-Language Agents with Variational Subgoal-Conditioned
Reinforcement Learning" (Wu et al., arXiv 2502.07949). A long task is divided into subgoals, which
the prompt shows. The objective is a lower bound of the original one, of each subgoal sg and goal g,

    E[log p(O | tau, sg)] - KL(pi(. | sg) || pi_ref(. | g)),

the return that is conditioned on the subgoal, and the divergence from a reference policy. Credit is
the turn-level GAE of an episode that ends where the subgoal is reached, and the KL penalty is the
second term. Subgoals and their rewards are those of the wrapper `Subgoals`:

    agentgym train vsc_rl --wrap Subgoals:propose=my_module:next_subgoal ...

Kept: the returns per subgoal, the KL to the policy before RL. Changed: a function or a language
model proposes subgoals and decides whether they are reached (the paper: a vision-language model),
and the reference reads the same prompt, subgoal included. The policy is updated by the clipped
surrogate, with one critic of turns (theirs: advantage-weighted regression, with two critics that
classify instructions and steps, from logged data on). Advantages that vary more than returns lower
the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.scan import reverse_scan
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, require_values
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig
from agentgym.wrappers.subgoals import SUBGOAL


@dataclass
class Config(ActorCriticConfig):
    """Settings of VSC-RL."""

    lacks: ClassVar[tuple[str, ...]] = ("shape_progress",)  # returns end with a subgoal

    loss: LossConfig = defaults(LossConfig, ratio="turn", kl_coef=0.01)
    gamma: Fraction = 0.95
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


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
        targets = (advantages + value).astype(np.float32)
        ending = np.where(goes_on, self.gamma, 0.0)
        ending[last] = 0.0
        returns = reverse_scan(batch.rewards, ending)
        return Credit(broadcast(advantages, batch), targets, returns=returns)


def build(config: Config) -> Algorithm:
    """Returns the parts of VSC-RL."""
    return Algorithm(
        PolicyGradient(
            SubgoalGAE(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        )
    )
