"""Optima: imitation of a team's best episodes, ranked by success, brevity and readability.

"Optima: Optimizing Effectiveness and Efficiency for LLM-Based Multi-Agent System" (arXiv
2410.08115), its supervised variant iSFT: generate, rank, select, train. In every iteration the
team plays `group_size` episodes from each start, which are ranked by

    R = return - token_coef (tokens / most tokens of the group)
        + readability_coef exp(-loss of the least readable output).

The loss of an output is minus the mean log-probability of its tokens under the reference policy.
The return is the mean over the agents, and tokens are those that the agents generate. The best
episode of each start is a candidate if R exceeds `min_reward`, and the best `top_fraction` of the
candidates are cloned, with the outputs of all agents.

Kept: the three terms, their coefficients (0.6 and 1 in the code), the best episode of a task, the
readability of the worst output. Changed: readability is exp(-loss), which is bounded (theirs: 1 /
loss, of the output without its prompt), groups have 8 episodes (theirs: 10), and training goes on
from the current policy with a clipped ratio (theirs: from the base model in each iteration). Left
out: the variants with preferences, for which `malt` has a tree of outputs, and prompts that vary
the format of messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.group import starts_of
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, IntArray, episode_numbers
from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(TrainConfig):
    """Settings of Optima."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    token_coef: NonNegative = 0.6
    """Weight of the number of generated tokens, relative to the longest episode of the group."""
    readability_coef: NonNegative = 1.0
    """Weight of the readability under the reference policy."""
    min_reward: float | None = None
    """Reward R that a cloned episode must exceed (None: none)."""
    top_fraction: Fraction = 0.7
    """Share of the candidates that are cloned."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed(
            "every cloned token has the same weight",
            normalize_advantages="none",
            covariance_clip=0.0,
        )

    @property
    def team_credit(self) -> bool:
        """True: agents are credited with the team's return."""
        return True


class Ranked(RecipeHooks):
    """Gives the tokens of the best episodes an equal weight, and all others none.

    Args:
        config: the settings.
    """

    needs_reference = True

    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def rewards(
        self, batch: Batch, episode: IntArray, start: IntArray, reference: FloatArray
    ) -> Float64:
        """Returns R of each episode [E].

        Args:
            batch: the trajectories.
            episode: [N] index of the episode of each trajectory.
            start: [E] index of the start of each episode.
            reference: [K] log-probabilities under the reference policy.
        """
        owner = episode[batch.turn_trajectory]
        lengths = np.diff(batch.token_offsets)
        tokens = np.bincount(owner, lengths)
        longest, worst = np.zeros(start.max() + 1), np.zeros(len(tokens))
        np.maximum.at(longest, start, tokens)
        losses = -np.bincount(batch.token_turn, reference, minlength=len(lengths))
        np.maximum.at(worst, owner, losses / np.maximum(lengths, 1))
        returns = [each.episode_return for each in batch.trajectories]
        task = np.bincount(episode, returns) / np.bincount(episode)
        self.metrics = {"tokens": float(tokens.mean()), "readability": float(np.exp(-worst).mean())}
        brevity = self.config.token_coef * tokens / np.maximum(longest[start], 1)
        return task - brevity + self.config.readability_coef * np.exp(-worst)

    def chosen(self, rewards: Float64, start: IntArray) -> NDArray[np.bool_]:
        """Returns whether each episode is cloned [E]: the best one of all at least."""
        ranked = np.argsort(-rewards, kind="stable")
        best = ranked[np.sort(np.unique(start[ranked], return_index=True)[1])]
        low = -math.inf if self.config.min_reward is None else self.config.min_reward
        count = math.ceil(self.config.top_fraction * np.sum(rewards[best] > low))
        kept = np.zeros(len(rewards), bool)
        kept[best[: max(1, count)]] = True
        return kept

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns equal weights, with mean 1, for the tokens of the cloned episodes."""
        assert forward is not None and forward.reference is not None
        episode = np.array(episode_numbers(batch.trajectories), np.int64)
        start = starts_of(batch)[np.unique(episode, return_index=True)[1]]
        rewards = self.rewards(batch, episode, start, forward.reference)
        kept = self.chosen(rewards, start)
        self.metrics |= {"imitated": float(kept.sum()), "reward": float(rewards.mean())}
        turns = kept[episode][batch.turn_trajectory]
        share = turns[batch.token_turn].mean()
        return turn_credit(turns / max(share, 1e-9), batch)


def build(config: Config) -> Algorithm:
    """Returns the parts of Optima."""
    return Algorithm(hooks=lambda _: Ranked(config))
