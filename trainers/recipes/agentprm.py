"""AgentPRM: turn advantages from a process reward model of Monte-Carlo values.

"Process Reward Models for LLM Agents: Practical Framework and Directions" (Choudhury, arXiv
2502.10325). A model Q(s, a) is regressed on the mean discounted outcome of all rollouts of a group
that took the same action in the same state. The advantage of an action is the increase of Q over
the previous action, whose Q is the value of the state.

The policy is updated by the clipped surrogate, or with `--update dpo --normalize-advantages none`
as in the paper, by online DPO: a second action is sampled in states of the rollout, and Q prefers
it or the one played,

    -log sigmoid(beta [log pi/ref (better) - log pi/ref (worse)]).

The paper's reference is the policy of the stage before (`--kl-reference moving:K`). All steps of an
iteration have the weights of pairs under the policy that played (`--epochs 1 --minibatches 1`: one
step of DPO). DPO compares Q of two actions in one state, which needs a far more accurate Q than
gains along an episode do.

Kept: the targets, gamma = 0.95, groups of 16, iterated training, the beta of 0.03. Changed: the
paper's update, `--update dpo --normalize-advantages none --kl-reference moving:K`, is not the
default, outcomes are returns (theirs: -1 for a failure), discounted by the distance to the *end*
(the authors' code counts from the start), a state is its `state_key` (theirs: the whole history),
and gains that vary more than outcomes, which are errors of Q, lower the learning rate
(`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Gt, Le

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, Preference
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.turn_rewards import (
    monte_carlo_values,
    value_gains,
)
from agentgym.trainers.critics.transitions import prompt_of
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.hooks.preferences import action_pairs
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.rollout.branches import single_turn
from agentgym.trainers.settings import (
    CriticConfig,
    GroupRolloutConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    When,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import PolicyGradientConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy_agent.agent import PolicyAgent


@dataclass
class Config(PolicyGradientConfig):
    """Settings of AgentPRM."""

    lacks: ClassVar[tuple[str, ...]] = all_but(CriticConfig, "critic_warmup", "lr_by_reliability")
    conditions: ClassVar[Mapping[str, When]] = dict.fromkeys(
        ("importance_cap", "covariance_clip"), When("update", ("ppo",))
    )

    critic: CriticConfig = defaults(CriticConfig)
    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=16)
    gamma: Annotated[float, Gt(0.0), Le(1.0)] = 0.95
    """Discount of the outcome per turn between an action and the end."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the process reward model."""
    model_epochs: Positive = 2
    """Epochs of the process reward model per iteration."""
    best_of: Positive = 1
    """Actions sampled per turn in evaluations, of which the one with the highest Q is played."""
    update: Literal["ppo", "dpo"] = "ppo"
    """Update of the policy: the clipped surrogate with the gains of Q as advantages ("ppo"), or DPO
    between two actions of a state ("dpo")."""
    beta: Annotated[NonNegative, When("update", ("dpo",))] = 0.03
    """Temperature of the preference loss."""
    paired: Annotated[Positive, When("update", ("dpo",))] = 256
    """Turns per iteration in which a second action is sampled for DPO."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.update == "dpo":
            why = "credit is the gradient of a preference loss"
            self.fixed(why, normalize_advantages="none", aggregation="token")

    @property
    def uses_reference(self) -> bool:
        """Whether the preference loss or a KL penalty compares with the reference policy."""
        return self.update == "dpo" or super().uses_reference


class ProcessReward(TurnJudge):
    """Assigns gains of predicted values as advantages, or preferences between actions.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    whole = True

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, lr=config.model_lr, epochs=config.model_epochs)
        self.gamma, self.best_of, self.paired = config.gamma, config.best_of, config.paired
        self.pairs = config.update == "dpo"

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the model to the rollout, and returns it with the gain of each turn by the model.

        With DPO, it returns actions and their pairs.
        """
        batch = Batch.of(fresh)
        predicted = self._fit(batch, rng)
        if not self.pairs:
            return Learn(fresh, value_gains(batch, predicted, self.gamma))
        turns = [single_turn(t, place) for t in fresh for place in range(len(t.turns))]
        first = [turns[i] for i in rng.permutation(len(turns))[: self.paired]]
        prompts = [prompt_of(trajectory) for trajectory in first]
        actions = [*first, *answer(self.trainer, prompts, rng)]
        values = self.model.predict(Batch.of(actions))
        states = [i % len(first) for i in range(len(actions))]
        return Learn(actions, pairs=action_pairs(states, values.tolist()))

    def _fit(self, batch: Batch, rng: np.random.Generator) -> FloatArray:
        """Fits the model to the outcomes of a batch and returns its values [M]."""
        values = monte_carlo_values(batch, self.gamma)
        error = self.model.fit(batch, values, rng)[-1]
        predicted = self.model.predict(batch)
        spread = float(np.var(values))
        explained = 1 - float(np.var(values - predicted)) / spread if spread > 1e-12 else 0.0
        self.metrics = {"process_loss": error, "process_explained_variance": explained}
        return predicted

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns the policy with best-of-N sampling."""
        return BestOf(policy, self.model, self.best_of) if self.best_of > 1 else policy


def build(config: Config) -> Algorithm:
    """Returns the parts of AgentPRM."""
    signal = PolicyGradient(Given(gamma=config.gamma))
    if config.update == "dpo":
        signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(
        signal,
        seats="shared",
        outcomes="group",
        hooks=lambda trainer: ProcessReward(trainer, config),
    )
