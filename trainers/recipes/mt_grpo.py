"""MT-GRPO: a turn-level advantage from process scores beside the one of the outcome, in groups.

"Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" (Zeng et al.,
arXiv 2505.11821). No critic. The return of an episode is compared with its group, as in GRPO, and
the score of turn t with the scores of turn t of the group:

    A_t = A_O + omega A_T(t) for all turns but the last, which gets A_O alone,

each (x - mean) / std. The sources of scores are those of `--process-reward` without a model.

Kept: both comparisons, the weight of 1, the outcome alone for the last turn. Changed: episodes have
any number of turns (the authors' code: a call of a tool and an answer), and scores come from the
environment or a function (theirs: format and result of the call). The outcome is the return, in
which rewards of all turns count (theirs: those of the answer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.group import members_of, trajectory_outcomes
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.rewards.model_judge import PREFIX
from agentgym.trainers.rewards.shaping import scorer, turn_scores
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of MT-GRPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING, "filter_groups")

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    turn_score: str = "progress"
    """Score of a turn: "progress" (1 if the turn raises the progress), "valid" (1 for a valid
    action), a reward term of the environment, or module:function, which maps a trajectory to scores
    in [0, 1]."""
    omega: NonNegative = 1.0
    """Weight of the turn-level advantage."""
    scale: bool = True
    """Divide by the standard deviation."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.turn_score.startswith(PREFIX):
            raise ConfigError(
                f"turn_score takes no judge:FOLDER, got {self.turn_score!r}: name it in "
                "process_reward."
            )
        scorer(self.turn_score, option="turn_score")

    @property
    def score_sources(self) -> dict[str, str]:
        """Those of all recipes, and `turn_score`."""
        return {**super().score_sources, "turn_score": self.turn_score}


@dataclass(frozen=True)
class TurnGroups:
    """The advantages of MT-GRPO, shared by the tokens of a turn.

    Attributes:
        source: source of the scores (see `shaping.turn_scores`).
        omega: weight of the turn-level advantage.
        scale: divides by the sample standard deviation (n - 1).
        epsilon: added to the standard deviation (the authors' code: 1e-4).
    """

    source: str = "progress"
    omega: float = 1.0
    scale: bool = True
    epsilon: float = 1e-4

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        return self.compare(batch, turn_scores(batch, self.source))

    def compare(self, batch: Batch, scores: Float64) -> Credit:
        """Returns advantages.

        Args:
            batch: the trajectories.
            scores: [M] scores of the turns.
        """
        outcomes = trajectory_outcomes(batch, "return")
        groups, owner = members_of(batch.groups), batch.turn_trajectory
        outcome = groups.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        place = np.arange(batch.num_turns) - batch.turn_offsets[owner]
        together = members_of(groups.group[owner] * (place.max() + 1) + place)
        turn = together.compare(scores, scale=self.scale, epsilon=self.epsilon)
        turn[batch.turn_offsets[1:] - 1] = 0.0
        metrics = groups.metrics("group", outcomes) | together.metrics("turn", scores)
        return Credit(broadcast(outcome[owner] + self.omega * turn, batch), metrics=metrics)


def build(config: Config) -> Algorithm:
    """Returns the parts of MT-GRPO."""
    return Algorithm(
        PolicyGradient(TurnGroups(config.turn_score, config.omega, config.scale)), outcomes="group"
    )
