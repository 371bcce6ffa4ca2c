"""`Algorithm`: the parts of a recipe. It needs no torch, so that `--help` of a recipe is fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentgym.trainers.data.batch import CreditFn

if TYPE_CHECKING:
    from torch import nn

    from agentgym.trainers.critics.heads import ValueHead
    from agentgym.trainers.hooks.base import RecipeHooks
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.settings.config import TrainConfig


@dataclass(frozen=True)
class Algorithm:
    """The parts of a recipe.

    Attributes:
        credit: maps trajectories and values to advantages and value targets. None: the hooks
            assign credit, and penalties on rewards (`kl_in reward`, `overlong_margin`) are refused.
        critic: makes the critic of a policy. None: the credit function needs no values.
        hooks: makes the recipe's hooks, given the trainer. They are made after behaviour cloning,
            so copies of the policy in them are the policy before RL.
        trains_policy: whether the hooks train the policy. Its weights are then not sharded (FSDP2).
    """

    credit: CreditFn | None = None
    critic: Callable[[Policy], nn.Module] | None = None
    hooks: Callable[[Run], RecipeHooks] | None = None
    trains_policy: bool = False


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
