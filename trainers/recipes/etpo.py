"""ETPO: entropy-regularised token-level policy optimisation (Wen et al., arXiv 2402.06700).

"Entropy-Regularized Token-Level Policy Optimization for Language Agent Reinforcement". The reward
of every token is charged with what it diverges from a frozen reference rho, the policy as it was
before learning from reward, and both are backed up token by token:

    V(s) = E_{w ~ pi} [Q(s, w)] - beta KL(pi(.|s) || rho(.|s)),    s = (o, w_<j)
    Q(s, w_j) <- V(s, w_j) inside an action,   r + gamma V(o') at its end

whose optimum is pi*(w|s) ~ rho(w|s) exp(Q(s, w) / beta): so the policy cannot forget the language
it started from, however long it is trained.

Kept: the soft backup without a discount inside an action. Changed: V is learnt instead of Q over
the whole vocabulary, and the step towards pi* is a clipped policy gradient on soft advantages
(whose expectation is that of the KL projection); the divergence is that of the sampled tokens.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.recipes import poad
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, Values
from agentgym.trainers.update.learner import Reading


@dataclass
class Config(poad.Config):
    """Settings of ETPO."""

    beta: float = 0.01
    """Price of a nat of divergence from the starting policy."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.beta <= 0:
            raise ConfigError(f"beta must be above 0, got {self.beta}; without it this is poad.")


class SoftBackup(Experience):
    """Charges every token for its divergence from the reference; also the credit function."""

    needs_reference = True

    def __init__(self, config: Config):
        super().__init__()
        self.beta = config.beta
        self.estimator = two_clock.poad(config.gamma, config.lambda_turn, config.lambda_token)
        self._charges: FloatArray | None = None

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Notes what each token costs; the turns keep their rewards."""
        assert reading is not None and reading.reference is not None
        divergence = reading.logprobs - reading.reference
        self.metrics = {"divergence": float(divergence.mean())}
        self._charges = -self.beta * divergence
        return batch

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Estimates soft advantages and soft value targets."""
        return self.estimator(batch, values, token_rewards=self._charges)


def main(config: Config) -> list[Report]:
    """Trains a policy with ETPO; returns its evaluations."""
    soft = SoftBackup(config)
    return Trainer(
        "etpo",
        config,
        credit=soft.credit,
        critic=value_head(TokenValueHead, config),
        experience=lambda _: soft,
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("etpo", sys.argv[1:]))
