"""The kinds of recipes: each has the settings that act in its loss and in its rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.settings import (
    CriticConfig,
    EndConfig,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    OptimisationConfig,
    RewardConfig,
    RolloutConfig,
    When,
    defaults,
)
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.schema import all_but

GAMES = ("game", "eval_partners", "eval_exploitability")
"""Settings of games with several agents, for `lacks` of recipes of a single agent."""
RATIO = ("ratio", "clip", "clip_high", "surrogate", "dual_clip", "target_kl", "max_kl")
"""Settings of a loss with a probability ratio."""
SAMPLED = (
    "max_staleness",
    "cross_policy",
    "importance_cap",
    "check_logprobs",
)
"""Settings for actions that the policy, or an older one, has sampled as they are."""
OFFLINE = (
    "curriculum",
    "horizons",
    "adaptive_groups",
    "filter_groups",
    "group_size",
    "kl_in",
    "epsilon",
    "program",
    *SAMPLED,
    *GAMES,
)
"""Settings of episodes that the policy plays in every iteration, for `lacks` of offline recipes."""
SHAPING = "shape_progress"
"""Changes the returns of all episodes from a state equally, for `lacks` of recipes that compare
episodes with the same start only."""
ADVANTAGES = (
    *("normalize_advantages", "covariance_clip", "thought_credit"),
    *("importance_cap", "mask_truncated", "trained_turns"),
)
"""Settings of advantages, and of the samples that enter the expectation of their gradient."""


@dataclass
class PolicyGradientConfig(TrainConfig):
    """Settings of a recipe with a policy gradient, whose hooks assign credit."""

    described: ClassVar[str] = "recipes with a policy gradient, such as poad and turn"


@dataclass
class RewardedConfig(PolicyGradientConfig):
    """Settings of a recipe that assigns credit from the rewards of turns."""

    described: ClassVar[str] = "recipes that assign credit from rewards, such as poad and turn"

    reward: RewardConfig = defaults(RewardConfig)


@dataclass
class ActorCriticConfig(RewardedConfig):
    """Settings of a recipe with a critic."""

    described: ClassVar[str] = "recipes with a critic, such as poad and turn"

    critic: CriticConfig = defaults(CriticConfig)
    ends: EndConfig = defaults(EndConfig)


@dataclass
class GroupConfig(RewardedConfig):
    """Settings of a recipe that compares the outcomes of episodes with the same start."""

    described: ClassVar[str] = "recipes that compare groups of episodes, such as grpo and rloo"
    lacks: ClassVar[tuple[str, ...]] = (
        "thought_credit",  # a turn has one advantage
        SHAPING,
    )
    conditions: ClassVar[Mapping[str, When]] = dict.fromkeys(
        all_but(RewardConfig, SHAPING, "group_weight"), When("outcome", ("return",))
    )

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    scale: bool = True
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""

    @property
    def compared_outcome(self) -> Literal["return", "success"]:
        """The setting `outcome`."""
        return self.outcome


@dataclass
class ImitationConfig(TrainConfig):
    """Settings of a recipe that imitates actions, all tokens with the same weight."""

    described: ClassVar[str] = "recipes that imitate actions, such as bc and filtered_bc"
    lacks: ClassVar[tuple[str, ...]] = ADVANTAGES


@dataclass
class PreferenceConfig(TrainConfig):
    """Settings of a recipe whose credit is the gradient of DPO."""

    described: ClassVar[str] = "recipes that learn from preferences, such as dpo and eto"
    lacks: ClassVar[tuple[str, ...]] = (*ADVANTAGES, "aggregation")

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1, minibatches=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", aggregation="constant")
    beta: NonNegative = 0.1
    """Temperature of the preference loss. Smaller values allow a larger KL to the reference."""

    @property
    def uses_reference(self) -> bool:
        """True: the preference loss compares the policy with the reference."""
        return True
