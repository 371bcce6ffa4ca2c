"""POAD: token-level GAE without a discount inside an action (action decomposition).

"Reinforcing LLM Agents via Policy Optimization with Action Decomposition" (Wen et al., NeurIPS
2024, arXiv 2405.15821). A critic values the state before every token of an action. Credit flows
between turns with the discount gamma, and inside an action without a discount:

    V(o, w_<j) <- V(o, w_<=j)  inside an action,    r + gamma V(o')  at its end

Values are therefore independent of the lengths of actions, and every token has its own advantage.
The policy is updated with a clipped ratio per token, over the distribution that the token was
sampled from (constraint and temperature included).

Kept: the Bellman backup with action decomposition, the token critic, the clipped token ratio.
Changed: GAE lambda inside an action is 1 by default (the authors' code uses the same lambda as
between turns, and long actions then discount the future). The critic is trained together with the
policy instead of on frozen states (`critic_detach`), without a value clip (theirs: 0.2).
Advantages are standardised over the batch. Entropy bonus and early stopping are off (theirs:
`entropy_coef` 1e-4 to 1e-2, `target_kl` 0.02). Advantages that vary more than returns lower the
learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import Fraction
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of POAD."""

    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    lambda_token: Fraction = 1.0
    """GAE lambda between the tokens of an action."""


def build(config: Config) -> Algorithm:
    """Returns the parts of POAD."""
    return Algorithm(
        PolicyGradient(
            two_clock.poad(config.gamma, config.lambda_turn, config.lambda_token),
            critic=value_head("tokens", config),
        )
    )
