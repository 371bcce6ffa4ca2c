"""`Algorithm`: everything that a recipe is, in one declaration.

It needs no torch, so that `--help` of a recipe is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from typing import TYPE_CHECKING, Literal

from agentgym.errors import ConfigError
from agentgym.trainers.credit.given import Given, given_credit, preference_credit
from agentgym.trainers.credit.returns import with_critic_lambda
from agentgym.trainers.data.batch import Batch, Credit, CreditFn

if TYPE_CHECKING:
    from torch import nn

    from agentgym.trainers.critics.heads import ValueHead
    from agentgym.trainers.hooks.base import RecipeHooks
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.settings.config import TrainConfig
    from agentgym.trainers.update.learner import ForwardPass

MakeCritic = Callable[["Policy"], "nn.Module"]
"""Makes the critic of a policy."""


@dataclass(frozen=True)
class PolicyGradient:
    """Learns from advantages.

    Attributes:
        credit: maps trajectories and values to advantages and value targets. `Given`: the hooks
            give the advantages, from the rewards of the environment alone.
        critic: makes the critic. None: the credit function needs no values.
        reference: whether the hooks use the reference policy's log-probabilities.
    """

    credit: CreditFn
    critic: MakeCritic | None = None
    reference: bool = False

    def assign(self, batch: Batch, forward: ForwardPass | None) -> Credit:
        """Returns the credit of a batch, given the forward pass before the update.

        Raises:
            ValueError: for weights or pairs that the credit function does not read.
        """
        unread = batch.given is not None and not isinstance(self.credit, Given)
        if unread or batch.pairs is not None:
            raise ValueError(
                "The hooks give weights or pairs, and the signal of the algorithm reads none: take "
                "PolicyGradient(Given()), Imitation or Preference."
            )
        return self.credit(batch, None if forward is None else forward.values)


@dataclass(frozen=True)
class Imitation:
    """Learns to repeat actions, with the weights that the hooks give, or with equal ones.

    Attributes:
        reference: whether the hooks use the reference policy's log-probabilities.
        steered: whether the hooks train Q on the hidden states of the policy, and the policy with
            it, to steer its decoding. Its weights are then not sharded (FSDP2).
    """

    reference: bool = False
    steered: bool = False

    def assign(self, batch: Batch, forward: ForwardPass | None) -> Credit:
        """Returns the weights of the tokens.

        Raises:
            ValueError: for pairs.
        """
        if batch.pairs is not None:
            raise ValueError("The hooks give pairs, and the signal is Imitation: take Preference.")
        return given_credit(batch)


@dataclass(frozen=True)
class Preference:
    """Learns to prefer trajectories to others, by the gradient of DPO (arXiv 2305.18290).

    The hooks give the pairs and, for imitation beside it, weights.

    Attributes:
        beta: temperature of the preference loss.
        mean: compares means over the tokens of trajectories, without forced ones, instead of sums.
        thought_coef: weight of thought tokens in sums and means, as in the loss.
        behaviour: takes the policy that sampled the actions in place of the reference policy.
    """

    beta: float
    mean: bool = False
    thought_coef: float = 1.0
    behaviour: bool = False

    @property
    def reference(self) -> bool:
        """Whether the reference policy's log-probabilities are needed."""
        return not self.behaviour

    def assign(self, batch: Batch, forward: ForwardPass | None) -> Credit:
        """Returns the gradient of the preference loss.

        Raises:
            ValueError: if the hooks give neither pairs nor weights.
        """
        if batch.pairs is None and batch.given is None:
            raise ValueError("The hooks give no pairs: return Learn(trajectories, pairs=...).")
        assert forward is not None
        if self.behaviour:
            forward = replace(forward, reference=batch.recorded_logprobs)
        return preference_credit(
            batch, forward.log_ratio, self.beta, mean=self.mean, thought_coef=self.thought_coef
        )


@dataclass(frozen=True)
class Algorithm:
    """The declaration of a recipe.

    Attributes:
        signal: what the policy learns from.
        data: where the actions come from. "own": the policy has sampled them as they are, possibly
            in an earlier iteration. "foreign": it has not sampled some of them, or after other
            observations. "fixed": a data set of the hooks, and the policy plays no episodes.
        seats: the seats of games that may be trained. "one": episodes of a single agent only.
            "shared": all seats share one policy, which models of the hooks belong to. "mirror":
            the policy plays all seats, so that hooks can play branches of an episode, in which
            other players would not repeat their actions. "any": no limit.
        replays: whether the hooks play episodes again from recorded actions, which those of a
            program of the user do not fit: it has acted on replies in its own way.
        outcomes: the outcomes that credit compares. "own": an agent's with its own. "group": with
            those of all episodes from the same start. "team": the mean over the agents. The last
            two are 0 in zero-sum games whose seats are all trained.
        hooks: makes the hooks. They are made after behaviour cloning, so copies of the policy in
            them are the policy before RL.
    """

    signal: PolicyGradient | Imitation | Preference
    data: Literal["own", "foreign", "fixed"] = "own"
    seats: Literal["any", "shared", "mirror", "one"] = "any"
    replays: bool = False
    outcomes: Literal["own", "group", "team"] = "own"
    hooks: Callable[[Run], RecipeHooks] | None = None

    @property
    def critic(self) -> MakeCritic | None:
        """Makes the critic, if there is one."""
        return self.signal.critic if isinstance(self.signal, PolicyGradient) else None

    @property
    def estimator(self) -> CreditFn | None:
        """The function that credits rewards, if there is one."""
        if not isinstance(self.signal, PolicyGradient) or isinstance(self.signal.credit, Given):
            return None
        return self.signal.credit

    def with_critic_lambda(self, lambda_: float | None) -> Algorithm:
        """Returns the algorithm with a lambda of the critic's targets (None: that of advantages).

        Raises:
            ConfigError: if the estimator has no lambda.
        """
        if lambda_ is None or not isinstance(self.signal, PolicyGradient):
            return self
        if not is_dataclass(self.estimator):
            raise ConfigError(
                "critic_lambda needs an estimator whose lambda can change, and this recipe has "
                "none: leave out critic_lambda."
            )
        own = with_critic_lambda(self.signal.credit, lambda_)
        return replace(self, signal=replace(self.signal, credit=own))

    def recomputes(self, config: TrainConfig) -> bool:
        """Returns whether ratios start from log-probabilities of a pass before the update.

        Those of foreign actions were recorded by another policy, or after other observations.
        """
        foreign = self.data != "own" and config.has_ratios
        compared = isinstance(self.signal, Preference) and self.signal.behaviour
        return foreign or compared or config.recompute_logprobs


def value_head(
    reads: Literal["tokens", "turns"], config: TrainConfig
) -> Callable[[Policy], ValueHead]:
    """Returns a factory of the head that a config describes, for `Algorithm(critic=...)`.

    Args:
        reads: "tokens" for a `TokenValueHead`, "turns" for a `TurnValueHead`.
        config: the settings.
    """

    def make(policy: Policy) -> ValueHead:
        import torch

        from agentgym.trainers.critics.heads import TokenValueHead, TurnValueHead
        from agentgym.trainers.critics.two_hot import BINS

        kind = TokenValueHead if reads == "tokens" else TurnValueHead
        return kind(
            policy.hidden_size,
            config.critic.critic_layers,
            detach=config.critic.critic_detach,
            bins=BINS if config.critic.critic_head == "two_hot" else 1,
            generator=torch.Generator().manual_seed(config.run.seed),
        )

    return make
