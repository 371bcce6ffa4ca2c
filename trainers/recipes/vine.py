"""VinePPO: turn-level PPO with Monte-Carlo values from continuations instead of a critic.

"VinePPO: Refining Credit Assignment in RL Training of LLMs" (Kazemnejad et al., ICML 2025, arXiv
2410.01679). The policy continues K times from the state before each turn. The mean return of the
continuations is the value of the state, without bias, and an action is credited with

    A_t = r_t + gamma V(o_{t+1}) - V(o_t)

Kept: values from on-policy continuations, no discount, one-step advantages, the clipped ratio of
tokens. Changed: a step is a turn instead of a sentence of a chain of thought. K is 4 (theirs: 9).
The turn limit ends an episode with value 0, so values and returns have the same horizon. A
continuation repeats the actions before it in its environment, which equals a snapshot and works
with any wrapper. It draws the same random numbers as the episode after them. As they do not depend
on the action, the gradient stays unbiased, with less variance. The logged explained variance of a
stochastic environment therefore includes its luck. States that a group shares are continued once.
There is no KL penalty (theirs: `kl_coef` 1e-4).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.hooks.continuations import Continuations
from agentgym.trainers.settings import Fraction, Positive
from agentgym.trainers.settings.config import TrainConfig


@dataclass
class Config(TrainConfig):
    """Settings of VinePPO."""

    continuations: Positive = 4
    """Continuations per state, K."""
    gamma: Fraction = 1.0
    """Discount between turns."""
    lambda_turn: Fraction = 0.0
    """GAE lambda between turns. 0: the paper's one-step advantage."""


def build(config: Config) -> Algorithm:
    """Returns the parts of VinePPO."""
    return Algorithm(
        PolicyGradient(Given()),
        seats="mirror",
        hooks=lambda trainer: Continuations(
            trainer,
            count=config.continuations,
            gamma=config.gamma,
            lambda_turn=config.lambda_turn,
        ),
    )
