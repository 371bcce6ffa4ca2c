"""SPEAR: self-imitation of good episodes with group-relative credit.

"Self-imitation with Progressive Exploration for Agentic Reinforcement Learning" (arXiv 2509.22601).
Episodes that exceed their group enter a buffer and are replayed in later iterations, with an
advantage over the *current* median of recent returns. Only positive advantages count, and their
weight grows from 0 to 1 along a cosine, so early successes do not end exploration. A bonus for tool
calls, which are the valid actions, falls to 0 along a cosine. The fresh episodes use GRPO without a
standard deviation, a higher upper clip, the covariance clip that keeps entropy up, and no void
turns: invalid, cut-off, repetitive or unreadable actions (the paper's "Dr.BoT").

Kept: buffer size, age limit, P50 baseline, cosines, clip 0.2 / 0.28, masking 2 % by covariance, a
bonus of 0.1 per tool call up to 1, the filters. Changed: void turns have the advantage 0 instead of
no weight in the loss. Groups are filtered by `filter_groups` (theirs: the 75 % with the largest
standard deviation), and the median is that of returns (their code: of the mean returns of groups).
Episodes of different iterations are compared by the environment's rewards alone, as bonuses and
penalties change over a run.
Advantages of fresh episodes are standardised over these (`normalize_advantages none`: not, as
theirs). Those of replayed ones are R - P50 as in the paper, without a standard deviation. As in the
paper, replayed episodes are no part of the statistics of fresh ones. With `outcome success`,
successes take the place of returns, and the bonus is added to them.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.trajectory import Trajectory, Turn
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import LossConfig, NonNegative, Positive, defaults
from agentgym.trainers.settings.kinds import GroupConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(GroupConfig):
    """Settings of SPEAR."""

    # Episodes are replayed for the returns that they had, with the weights of their time.
    lacks: ClassVar[tuple[str, ...]] = (*GroupConfig.lacks, "reward_constraints")

    loss: LossConfig = defaults(LossConfig, clip_high=0.28, covariance_clip=0.02)
    scale: bool = False
    """Divide by the group's standard deviation."""
    buffer_size: Positive = 2048
    """Capacity of the buffer in episodes."""
    max_age: Positive = 5
    """Iterations after which an episode is dropped."""
    replayed: Positive = 64
    """Maximum number of replayed episodes per iteration."""
    ramp: Positive = 100
    """Iterations in which the weight of replayed episodes grows from 0 to 1."""
    tool_bonus: NonNegative = 0.1
    """Reward per valid action in the comparison of returns, at most 1 per episode."""
    tool_bonus_iterations: Positive = 200
    """Iterations in which the bonus falls from its full size to 0."""
    filter_void: bool = True
    """Leave out invalid, cut-off, repetitive and unreadable actions."""


@dataclass(frozen=True)
class FreshBaseline(group.GroupBaseline):
    """Group-relative credit of the fresh episodes. That of replayed ones is 0."""

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        credit = super().__call__(fresh_part(batch))
        advantages = np.zeros(batch.num_tokens, np.float32)
        advantages[batch.fresh] = credit.advantages
        return replace(credit, advantages=advantages)


class SelfImitation(RecipeHooks):
    """Replays good episodes with their advantage over recent returns.

    Args:
        config: the settings.
        finished: whether an action with these tokens has ended by itself (see `Ending.reached`).
    """

    def __init__(self, config: Config, finished: Callable[[list[int]], bool]):
        super().__init__()
        self.config, self.finished = config, finished
        self.buffer = ReplayBuffer(config.buffer_size)
        self.recent: deque[float] = deque(
            maxlen=max(256, 4 * config.rollout.episodes_per_iteration)
        )

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Stores the good episodes of the rollout and adds good earlier ones to it."""
        self.recent.extend(self._outcome(trajectory) for trajectory in fresh)
        usual = float(np.median(self.recent))
        old = self.buffer.since(iteration - self.config.max_age)
        good = [trajectory for trajectory in old if self._outcome(trajectory) > usual]
        if len(good) > self.config.replayed:
            chosen = rng.choice(len(good), self.config.replayed, replace=False)
            good = [good[i] for i in np.sort(chosen)]
        baseline = group.GroupBaseline(outcome=self.config.outcome)
        advantages = baseline(batch := Batch.of(fresh)).advantages
        first = advantages[batch.token_offsets[batch.turn_offsets[:-1]]]
        self.buffer.add((t for t, a in zip(fresh, first, strict=True) if a > 0), iteration)
        self.metrics = {
            "replayed": float(len(good)),
            "replay_weight": self._weight(iteration),
            "usual_return": usual,
        }
        return Learn(fresh + [replace(trajectory, replayed=True) for trajectory in good])

    def _outcome(self, trajectory: Trajectory) -> float:
        success = self.config.outcome == "success"
        return float(trajectory.success) if success else trajectory.episode_return

    def _weight(self, iteration: int) -> float:
        return rising(iteration, self.config.ramp)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Adds the bonus for valid actions to the last turn of every episode.

        With `outcome success`, the success of an episode takes the place of its rewards.
        """
        left = 1 - rising(iteration, self.config.tool_bonus_iterations)
        valid = np.array([turn.valid for turn in batch.turns], np.float64)
        calls = np.add.reduceat(valid, batch.turn_offsets[:-1])
        rewards, last = batch.rewards.copy(), batch.turn_offsets[1:] - 1
        if self.config.outcome == "success":
            rewards[:] = 0.0
            rewards[last] = group.trajectory_outcomes(batch, "success")
        rewards[last] += left * np.minimum(1, self.config.tool_bonus * calls)
        self.metrics["bonus_weight"] = left
        return batch.with_rewards(rewards)

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Sets the advantages of replayed episodes and of void turns.

        Replayed ones have the outcome minus the median of recent outcomes, void turns have 0. The
        others are standardised again, over the fresh episodes alone.
        """
        per, thought = self.config.loss.normalize_advantages, self.config.loss.thought_coef
        fresh = Credit(credit.advantages[batch.fresh])
        if per != "none":
            fresh = normalize_advantages(fresh, fresh_part(batch), per, thought_coef=thought)
        outcomes = np.array([self._outcome(trajectory) for trajectory in batch.trajectories])
        gain = outcomes - np.median(self.recent)
        owner = batch.turn_trajectory[batch.token_turn]
        advantages = self._weight(iteration) * np.maximum(gain, 0.0)[owner]
        advantages[batch.fresh] = fresh.advantages
        if self.config.filter_void:
            turns = turns_with_tokens(batch)
            void = np.array([is_void(*each) or self._is_cut(each[1]) for each in turns])
            advantages = np.where(void[batch.token_turn], 0.0, advantages)
            self.metrics["void_turns"] = float(void.mean())
        return replace(credit, advantages=advantages.astype(np.float32))

    def _is_cut(self, tokens: list[int]) -> bool:
        return len(tokens) >= self.config.rollout.max_new_tokens and not self.finished(tokens)

    def state_dict(self) -> dict[str, Any]:
        """Returns the buffer and the recent outcomes."""
        return {"buffer": self.buffer.state_dict(), "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.buffer.load_state_dict(state["buffer"])
        self.recent.extend(state["recent"])


def fresh_part(batch: Batch) -> Batch:
    """Returns the batch of the trajectories that are not replayed."""
    return batch.select(np.flatnonzero([not t.replayed for t in batch.trajectories]))


def rising(iteration: int, length: int) -> float:
    """Returns a weight that grows from 0 to 1 along a cosine in `length` iterations."""
    return 0.5 * (1 - math.cos(math.pi * min(1.0, iteration / length)))


def turns_with_tokens(batch: Batch) -> Iterator[tuple[Turn, list[int]]]:
    """Yields each turn with the token ids of its action."""
    for trajectory in batch.trajectories:
        for turn in trajectory.turns:
            yield turn, trajectory.segments[turn.segment].tokens[turn.start : turn.stop].tolist()


def is_void(turn: Turn, tokens: list[int]) -> bool:
    """Returns whether an action is invalid, repetitive or unreadable.

    It is repetitive if a sequence of 20 tokens occurs more than 10 times.

    Args:
        turn: the turn.
        tokens: token ids of its action.
    """
    sequences = Counter(tuple(tokens[i : i + 20]) for i in range(len(tokens) - 19))
    repetitive = max(sequences.values(), default=0) > 10
    return not turn.valid or repetitive or "\ufffd" in turn.action


def build(config: Config) -> Algorithm:
    """Returns the parts of SPEAR."""

    def hooks(trainer: Run) -> SelfImitation:
        from agentgym.trainers.policy.request_state import Ending

        return SelfImitation(config, Ending(trainer.policy, config.rollout.stop).reached)

    # Rewards hold the outcome: see `on_rewards`.
    return Algorithm(
        PolicyGradient(FreshBaseline(scale=config.scale)), outcomes="group", hooks=hooks
    )
