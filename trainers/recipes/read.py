"""ReAd: sequential advantages of the agents of a team, and weak actions asked for again.

"Towards Efficient LLM Grounding for Embodied Multi-Agent Collaboration" (arXiv 2405.14314). The
agents i = 1..n of a team act one after another. A critic is regressed on the team's returns, and an
agent is credited with the change of the expected return by its own action:

    A_i = Q(s, a_1..a_i) - Q(s, a_1..a_{i-1}),    sum_i A_i = the advantage of the joint action.

The policy moves towards pi exp(A_i / beta) / Z by advantage-weighted regression, with the weights
min(exp(A_i / beta), 20). When it is used, an action with an advantage below a threshold is refused
and asked for again (see `ReAsk`).

An agent's prompt holds the actions before its own, as in `Team-Countdown-v0`. Q(s, a_1..a_i) is
therefore read after the action in the prompt, and Q(s, a_1..a_{i-1}) after an empty action, for
which the critic is regressed on the same return. Agents that act at once do not see each other:
the others' actions are then averaged out of both terms. With a single agent, A is Q - V.

Kept: the critic on Monte-Carlo returns, the sequential advantage, the empty action for none, the
threshold. Changed: the critic is a copy of the policy, trained alone for `critic_warmup` iterations
and then beside the policy (theirs: once, on plans of a language model). The policy is trained by
the regression that the paper derives, with a clipped ratio, where its planner is prompted with the
advantages and is not trained. Weights are standardised over the batch: their mean is a baseline,
which leaves the direction of the expected gradient unchanged. A refused action is sampled anew
(theirs: it and its advantage are added to the prompt), in evaluations only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.turn_rewards import weights_of
from agentgym.trainers.critics.transitions import say
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.policy_agent.best_of import ReAsk
from agentgym.trainers.settings import (
    CriticConfig,
    Fraction,
    NonNegative,
    Positive,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import PolicyGradientConfig
from agentgym.trainers.update.metrics import explained_variance

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy_agent.agent import PolicyAgent


@dataclass
class Config(PolicyGradientConfig):
    """Settings of ReAd."""

    lacks: ClassVar[tuple[str, ...]] = all_but(CriticConfig, "critic_warmup")

    critic: CriticConfig = defaults(CriticConfig, critic_warmup=1)
    gamma: Fraction = 0.99
    """Discount between turns of the environment. There is none between agents of one turn."""
    beta: Annotated[float, Gt(0.0)] = 0.1
    """Temperature of the weights exp(A / beta). Smaller values imitate the best actions only."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the critic."""
    model_epochs: Positive = 4
    """Epochs of the critic per iteration."""
    attempts: Positive = 3
    """Times that evaluations ask for an action while its advantage is below `threshold` (1: an
    action is never refused)."""
    threshold: float = 0.0
    """Advantage below which an action is refused."""


class SequentialAdvantages(TurnJudge):
    """Weighs actions by what they change in the expected return of the team.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, lr=config.model_lr, epochs=config.model_epochs)
        self.config = config

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the critic to the rollout and returns it with the weight of each turn."""
        batch = Batch.of(fresh)
        joint = Joint.of(batch)
        returns = np.empty(batch.num_turns, np.float32)
        returns[joint.turns] = joint.returns(self.config.gamma)
        both = Batch.of([*batch.trajectories, *self._without_actions(batch)])
        error = self.model.fit(both, np.tile(returns, 2), rng)[-1]
        q, before = np.split(self.model.predict(both), 2)
        weights = weights_of(q - before, 1 / self.config.beta)
        self.metrics = {
            "critic_loss": error,
            "critic_explained_variance": explained_variance(q, returns),
            "refused": float((q - before < self.config.threshold).mean()),
        }
        return Learn(fresh, weights)

    def _without_actions(self, batch: Batch) -> list[Trajectory]:
        """Returns the prompt of each turn with an empty action."""
        segments = [each.segments for each in batch.trajectories]
        return [
            say(self.model.trunk, (segments[n][turn.segment].tokens[: turn.start], ()), "")
            for n, turn in zip(batch.turn_trajectory, batch.turns, strict=True)
        ]

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns the policy, which is asked again for actions with a low advantage."""
        if self.config.attempts == 1:
            return policy
        return ReAsk(policy, self.model, self.config.attempts, self.config.threshold)


def build(config: Config) -> Algorithm:
    """Returns the parts of ReAd."""
    return Algorithm(
        PolicyGradient(Given()),
        seats="shared",
        outcomes="team",
        hooks=lambda trainer: SequentialAdvantages(trainer, config),
    )
