"""SPO: the share of its group that an episode beats, as its reward.

"A Minimaximalist Approach to Reinforcement Learning from Human Feedback" (Swamy et al., arXiv
2401.04056). Self-play with a preference needs no reward model: the reward of an episode is its mean
probability of winning against the other episodes of its group, and 1/2 is the value of the game,

    A_i = 1 / (n - 1) sum_{j != i} P(i beats j) - 1/2.

All tokens of an episode share A_i. The result does not depend on the scale of the returns, and it
is the Minimax Winner where preferences are not transitive.

Kept: the win rate as reward. Changed: episodes are compared with their group (the paper in control:
with a queue of the latest ones), and the advantage enters a clipped ratio per token without a
critic (theirs: PPO or SAC). The default preference is that of the higher return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.group import members_of, trajectory_outcomes
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.turn_rewards import episode_credit
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    RewardConfig,
    RolloutConfig,
    When,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig
from agentgym.utils.importing import imported


@dataclass
class Config(RewardedConfig):
    """Settings of SPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)
    conditions: ClassVar[Mapping[str, When]] = dict.fromkeys(
        all_but(RewardConfig, SHAPING, "group_weight"), When("preference", ("return",))
    )

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    preference: str = "return"
    """Preference between two episodes: the higher "return", "success", or module:function, which
    maps trajectories a and b to the probability that a beats b."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.preference not in ("return", "success"):
            imported(self.preference, "preference")

    @property
    def compared_outcome(self) -> Literal["return", "success"]:
        """What `preference` compares: the returns, if it is a function."""
        return "success" if self.preference == "success" else "return"


@dataclass(frozen=True)
class WinRate:
    """Trajectory-level advantage: the mean probability of beating the others of the group - 1/2.

    A trajectory that is alone in its group gets advantage 0.

    Attributes:
        preference: "return" or "success" (a tie counts 1/2), or "module:function".
    """

    preference: str = "return"

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used.

        Raises:
            ConfigError: if the function returns anything other than a number in [0, 1].
        """
        members = members_of(batch.groups)
        advantages = np.zeros(len(batch.trajectories))
        for group in range(members.group.max() + 1):
            which = np.flatnonzero(members.group == group)
            if len(which) > 1:
                wins = self._wins(batch, which)
                advantages[which] = wins.sum(1) / (len(which) - 1) - 0.5
        return episode_credit(advantages, batch)

    def _wins(self, batch: Batch, which: np.ndarray) -> Float64:
        """Returns the probabilities that row beats column [n, n], 0 on the diagonal."""
        if self.preference in ("return", "success"):
            outcomes = trajectory_outcomes(batch, self.preference)[which]  # type: ignore[arg-type]
            ahead = np.round(outcomes[:, None] - outcomes, 9)  # equal sums may be rounded apart
            wins = (np.sign(ahead) + 1) / 2
        else:
            prefer = imported(self.preference, "preference")
            some = [batch.trajectories[i] for i in which]
            wins = np.array([[a is not b and prefer(a, b) for b in some] for a in some], np.float64)
        if not ((wins >= 0) & (wins <= 1)).all():
            raise ConfigError(
                f"The preference {self.preference!r} must return probabilities in [0, 1], got "
                f"{wins[~((wins >= 0) & (wins <= 1))][0]}."
            )
        np.fill_diagonal(wins, 0.0)
        return wins


def build(config: Config) -> Algorithm:
    """Returns the parts of SPO."""
    return Algorithm(PolicyGradient(WinRate(config.preference)), outcomes="group")
