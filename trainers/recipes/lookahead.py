"""Lookahead: POAD with values of tokens from trying the likely listed actions for one step.

A critic of tokens hardly tells the words of an action apart, since it has seen few outcomes of the
same state. An environment that can be restored shows them. Every likely listed action a of a turn
is tried for one step, and a critic of states values where it leads:

    Q(o, a)  = r(o, a) + gamma V(o')
    V(o, w)  = sum of pi(a | o) Q(o, a) / sum of pi(a | o)    over all a that begin with w

These are the values of the Bellman backup with action decomposition of POAD, "Reinforcing LLM
Agents via Policy Optimization with Action Decomposition" (arXiv 2405.15821), with an exact mean
over the actions in place of a learned one. GAE over tokens and turns follows as there. The mean
over actions is that of "Mean Actor-Critic" (arXiv 1709.00503), and its use as a baseline for the
action taken that of COMA, "Counterfactual Multi-Agent Policy Gradients" (arXiv 1705.08926).

The recipe is this library's own. It needs admissible actions and a constrained policy. A turn costs
one environment step per action tried, a forward pass of the policy over its prompt, and one of the
critic over each prompt that follows. To try an action, an environment repeats those before it,
which equals a snapshot and works with any wrapper. The critic has a trunk of its own. With
`lambda_token` = 0, no observed return enters the credit of a choice, so the critic must be good
before the policy moves: fit it first (`critic_episodes`, `critic_warmup`). Advantages that vary
more than returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.two_clock import TwoClockGAE
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.settings import CriticConfig, Fraction, RolloutConfig, defaults
from agentgym.trainers.settings.config import UNCHANGED_REWARDS, TrainConfig


@dataclass
class Config(TrainConfig):
    """Settings of the recipe."""

    rollout: RolloutConfig = defaults(RolloutConfig, constrain=True)
    critic: CriticConfig = defaults(CriticConfig, critic_trunk="own")
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    lambda_token: Fraction = 0.0
    """GAE lambda between the tokens of an action. 0: the change of the value by each token. 1: the
    lambda-return after the turn minus the value before each token."""
    least_probability: Fraction = 0.02
    """The smallest probability of an action that is tried, besides the one taken."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("actions are tried for the rewards of the environment", **UNCHANGED_REWARDS)
        self.fixed("the states after actions need a critic of their own", critic_trunk="own")
        if not self.rollout.constrain:
            raise ConfigError("lookahead tries admissible actions: set constrain.")


@dataclass(frozen=True)
class TokenCredit:
    """Advantages from values of tokens, where there are, and targets of a critic of states.

    Attributes:
        tokens: the estimator with values of tokens.
        turns: the estimator with values of states.
    """

    tokens: TwoClockGAE
    turns: TwoClockGAE

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages of tokens [K] and targets of turns [M]."""
        credit = self.turns(batch, values)
        if values is None or values.tokens is None:
            return credit
        return replace(credit, advantages=self.tokens(batch, values).advantages)


def build(config: Config) -> Algorithm:
    """Returns the parts of the recipe."""
    from agentgym.trainers.hooks.lookahead import Lookahead

    gamma, lambda_turn = config.gamma, config.lambda_turn
    return Algorithm(
        PolicyGradient(
            TokenCredit(
                two_clock.poad(gamma, lambda_turn, config.lambda_token),
                two_clock.turn(gamma, lambda_turn),
            ),
            critic=value_head("turns", config),
        ),
        seats="one",
        hooks=lambda trainer: Lookahead(
            trainer, least=config.least_probability, gamma=config.gamma
        ),
    )
