"""Groups of settings shared by all recipes.

Each group is a dataclass. `TrainConfig` nests the groups, and their flags on the command line are
flat. Bounds of numbers are annotations of the fields (`annotated_types`). Choices are `Literal`s.
The docstring of a field is its help text.
"""

from __future__ import annotations

from agentgym.trainers.settings.credit import CriticConfig, EndConfig, RewardConfig
from agentgym.trainers.settings.fields import (
    BY_MODEL,
    ByModel,
    Count,
    EnvIds,
    Fraction,
    KeyNumbers,
    KeyValues,
    NonNegative,
    Normalize,
    Opponents,
    Positive,
    Seed,
)
from agentgym.trainers.settings.learning import CloningConfig, LossConfig, OptimisationConfig
from agentgym.trainers.settings.playing import (
    EnvironmentConfig,
    GameConfig,
    GroupRolloutConfig,
    RolloutConfig,
)
from agentgym.trainers.settings.program import ProgramConfig
from agentgym.trainers.settings.running import EvaluationConfig, ModelConfig, RunConfig
from agentgym.trainers.settings.schema import (
    When,
    all_but,
    defaults,
    group_of,
    groups_of,
    needs,
    settings_of,
)

__all__ = [
    "BY_MODEL",
    "ByModel",
    "CloningConfig",
    "Count",
    "CriticConfig",
    "EndConfig",
    "EnvIds",
    "EnvironmentConfig",
    "EvaluationConfig",
    "Fraction",
    "GameConfig",
    "GroupRolloutConfig",
    "KeyNumbers",
    "KeyValues",
    "LossConfig",
    "ModelConfig",
    "NonNegative",
    "Normalize",
    "Opponents",
    "OptimisationConfig",
    "Positive",
    "ProgramConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "Seed",
    "When",
    "all_but",
    "defaults",
    "group_of",
    "groups_of",
    "needs",
    "settings_of",
]
