"""ETPO: token-level credit with a KL penalty per token (entropy-regularised backup).

"Entropy-Regularized Token-Level Policy Optimization for Language Agent Reinforcement" (Wen et al.,
arXiv 2402.06700). Every token is charged for its KL to a frozen reference policy rho, the policy
before RL, and rewards and KL are backed up token by token:

    V(s) = E_{w ~ pi} [Q(s, w)] - beta KL(pi(.|s) || rho(.|s)),    s = (o, w_<j)
    Q(s, w_j) <- V(s, w_j) inside an action,   r + gamma V(o') at its end

The optimum is pi*(w|s) proportional to rho(w|s) exp(Q(s, w) / beta), which keeps the policy close
to the language of the reference throughout training.

Kept: the backup without a discount inside an action, the penalty per token. Changed: V is learned
instead of Q over the whole vocabulary, and the step towards pi* is a clipped policy gradient on
soft advantages (its expectation is that of the KL projection). The KL is estimated from the sampled
tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, Values
from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(TrainConfig):
    """Settings of ETPO."""

    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    lambda_token: Fraction = 1.0
    """GAE lambda between the tokens of an action."""
    beta: Annotated[float, Gt(0.0)] = 0.01
    """KL penalty coefficient of the soft backup. Near 0 this is `poad`."""


class SoftBackup(RecipeHooks):
    """Computes the KL penalty of every token. Its `estimate` is the credit function.

    Args:
        config: the settings.
    """

    needs_reference = True

    def __init__(self, config: Config):
        super().__init__()
        self.beta = config.beta
        self.estimator = two_clock.poad(config.gamma, config.lambda_turn, config.lambda_token)
        self._penalties: FloatArray | None = None

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Stores the penalty of each token and returns the batch unchanged."""
        assert forward is not None and forward.reference is not None
        divergence = forward.logprobs - forward.reference
        self.metrics = {"divergence": float(divergence.mean())}
        self._penalties = -self.beta * divergence
        return batch

    def estimate(self, batch: Batch, values: Values | None) -> Credit:
        """Estimates soft advantages and soft value targets."""
        return self.estimator(batch, values, token_rewards=self._penalties)


def build(config: Config) -> Algorithm:
    """Returns the parts of ETPO."""
    soft = SoftBackup(config)
    return Algorithm(
        credit=soft.estimate,
        critic=value_head(TokenValueHead, config),
        hooks=lambda _: soft,
    )
