"""CoMAS: a team that rewards itself, the solver by a score and its critics by the opposite.

"CoMAS: Co-Evolving Multi-Agent Systems via Interaction Rewards" (arXiv 2510.08529). A solver
answers, an evaluator criticises the answer, and a scorer reads both and gives a score s of 1, 2 or
3. Solver and evaluator play for opposite scores, and the scorer has to keep its format:

    r(solver) = (s - 1) / 2,    r(evaluator) = 1 - r(solver),
    r(scorer) = -1 for a reply that is no score, else 0.

There is no reward from outside. The authors train by REINFORCE++: PPO without a critic, with
standardised rewards as advantages. The team is `env_kwargs roles=solver-evaluator-scorer`, for
example of `Team-Countdown-v0`. All roles but "solver" and "scorer" are evaluators.

Kept: the rewards, a reward of its own for each output, the clipped ratio per token. Changed: an
agent has one role, where the authors' agents take all roles in turn, in several rounds of
discussion (`roles shared`: one policy has all roles). Advantages are standardised for each agent
(theirs: over the outputs of an agent in all roles), so that the scorer's penalties are not on the
scale of scores. The answer is played in the environment, whose reward is added with `task_coef`.
There is no KL penalty by default. An answer without a valid score has no reward. In an environment
with a single agent, rewards are those of the environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from agentgym.envs.team.roles import SCORES
from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.returns import ReturnToGo
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Turn
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, LossConfig, NonNegative, When, defaults
from agentgym.trainers.settings.kinds import RewardedConfig
from agentgym.utils.action_parsing import match_action

if TYPE_CHECKING:
    from agentgym.trainers.update.learner import ForwardPass

SOLVER, SCORER = "solver", "scorer"


@dataclass
class Config(RewardedConfig):
    """Settings of CoMAS."""

    conditions: ClassVar[Mapping[str, When]] = {"reward_constraints": When("task_coef")}

    loss: LossConfig = defaults(LossConfig, normalize_advantages="agent")
    gamma: Fraction = 0.0
    """Discount of later rewards between an agent's turns (0: every output has its own reward)."""
    task_coef: NonNegative = 0.0
    """Weight of the environment's reward beside the interaction reward."""


class InteractionRewards(RecipeHooks):
    """Rewards the roles of a team by the scores of one of them.

    Args:
        task_coef: weight of the environment's reward.
    """

    def __init__(self, task_coef: float):
        super().__init__()
        self.task_coef = task_coef

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with interaction rewards, unchanged for a single agent.

        Raises:
            ConfigError: if several agents act and none of them is a scorer.
        """
        if not any(trajectory.agent for trajectory in batch.trajectories):
            return batch
        roles = np.array([trajectory.role for trajectory in batch.trajectories])
        if SCORER not in roles:
            raise ConfigError(
                f"CoMAS rewards a team by the scores of its role {SCORER!r}, and the trained roles "
                f"are {sorted(set(roles.tolist()))}: set env_kwargs roles=solver-evaluator-scorer."
            )
        roles, shared = roles[batch.turn_trajectory], Joint.of(batch).shared_turn
        given = np.array([score_of(turn) for turn in batch.turns])
        valid = (roles == SCORER) & ~np.isnan(given)
        scores = np.full(shared.max() + 1, np.nan)
        scores[shared[valid]] = given[valid]
        self.metrics = {"invalid_scores": float(1 - valid.sum() / np.sum(roles == SCORER))}
        if valid.any():
            self.metrics["score"] = float(given[valid].mean())
        score = scores[shared]
        rewards = np.where(roles == SOLVER, score, 1 - score)
        rewards[roles == SCORER] = -np.isnan(given[roles == SCORER]).astype(np.float64)
        return batch.with_rewards(np.nan_to_num(rewards) + self.task_coef * batch.rewards)


def score_of(turn: Turn) -> float:
    """Returns the score in [0, 1] that an action gives, or NaN if it is no score."""
    text = match_action(turn.action, SCORES)
    return math.nan if text is None else SCORES.index(text) / (len(SCORES) - 1)


def build(config: Config) -> Algorithm:
    """Returns the parts of CoMAS."""
    return Algorithm(
        PolicyGradient(ReturnToGo(config.gamma)),
        hooks=lambda _: InteractionRewards(config.task_coef),
    )
