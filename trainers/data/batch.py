"""`Batch`, a flat view of trajectories, with the values and the credit of its turns and tokens.

Shapes: N trajectories, M turns, K action tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.trajectory import FloatArray, IntArray, Trajectory, Turn


class Delayed(NamedTuple):
    """A part of the reward of a turn that was received in another turn of the environment.

    Attributes:
        turn: index of the turn whose action earned it.
        clock: turn of the environment in which it was received.
        reward: the part.
        term: name of its reward term.
    """

    turn: int
    clock: int
    reward: float
    term: str


@dataclass(frozen=True)
class Batch:
    """Trajectories as flat arrays, with action tokens in the order trajectory, turn, token.

    It holds the inputs of credit assignment, without token ids or a model.

    Attributes:
        trajectories: the N trajectories.
        turn_offsets: [N + 1] offsets. Trajectory n has turns `turn_offsets[n]:turn_offsets[n + 1]`.
        token_offsets: [M + 1] offsets. Turn m has tokens `token_offsets[m]:token_offsets[m + 1]`.
        rewards: [M] reward of each turn.
        delayed: the parts of these rewards that were received in other turns of the environment.
        terminated: [N] whether the trajectory reached a terminal state. If False, bootstrap.
        logprobs: [K] behaviour log-probabilities.
        groups: [N] group index, equal for trajectories that start in the same state.
        sampler_logprobs: [K] log-probabilities recorded in the rollout, if `logprobs` are those of
            the forward pass of training (None: `logprobs` are recorded ones).
        given: [M] or [K] advantages or weights that the hooks gave (see `Learn.weights`).
        pairs: the preferences that the hooks gave (see `Learn.pairs`).
    """

    trajectories: Sequence[Trajectory]
    turn_offsets: IntArray
    token_offsets: IntArray
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    logprobs: FloatArray
    groups: IntArray
    sampler_logprobs: FloatArray | None = None
    delayed: tuple[Delayed, ...] = ()
    given: NDArray[np.floating] | None = None
    pairs: Sequence[Pair] | None = None

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory]) -> Batch:
        """Builds a batch from trajectories.

        Raises:
            ValueError: if a trajectory has no turns.
        """
        for trajectory in trajectories:
            if not trajectory.turns:
                raise ValueError(f"A trajectory of {trajectory.task!r} has no turns.")
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        numbers: dict[tuple[str, str, int, str], int] = {}
        groups = [numbers.setdefault(t.group, len(numbers)) for t in trajectories]
        return cls(
            trajectories=trajectories,
            turn_offsets=_offsets([len(t.turns) for t in trajectories]),
            token_offsets=_offsets([turn.stop - turn.start for turn in turns]),
            rewards=np.array([turn.reward for turn in turns], np.float64),
            terminated=np.array([t.terminated for t in trajectories], bool),
            logprobs=np.concatenate([turn.logprobs for turn in turns] or [np.zeros(0)]).astype(
                np.float32
            ),
            groups=np.array(groups, np.int64),
            delayed=tuple(
                Delayed(m, *part) for m, turn in enumerate(turns) for part in turn.delayed
            ),
        )

    @classmethod
    def to_learn(cls, learn: Learn) -> Batch:
        """Builds a batch from trajectories, with the credit that the hooks gave them.

        Raises:
            ValueError: if a trajectory has no turns, or for weights that are not one per turn or
                one per token.
        """
        return cls.of(learn.trajectories).with_given(learn.weights, learn.pairs)

    def with_given(self, weights: ArrayLike | None, pairs: Sequence[Pair] | None = None) -> Batch:
        """Returns a copy with the weights [M] or [K] and the preferences that the hooks gave.

        Raises:
            ValueError: for another number of weights.
        """
        given = None if weights is None else np.asarray(weights)
        if given is not None and given.shape not in ((self.num_turns,), (self.num_tokens,)):
            raise ValueError(
                f"Expected {self.num_turns} weights, one per turn, or {self.num_tokens}, one per "
                f"token, got shape {given.shape}."
            )
        return replace(self, given=given, pairs=pairs)

    @cached_property
    def turns(self) -> list[Turn]:
        """The M turns, in order."""
        return [turn for trajectory in self.trajectories for turn in trajectory.turns]

    @property
    def num_turns(self) -> int:
        """Number of turns, M."""
        return int(self.turn_offsets[-1])

    @property
    def num_tokens(self) -> int:
        """Number of action tokens, K."""
        return int(self.token_offsets[-1])

    @cached_property
    def turn_trajectory(self) -> IntArray:
        """[M] index of the trajectory of each turn."""
        return np.repeat(np.arange(len(self.trajectories)), np.diff(self.turn_offsets))

    @cached_property
    def segment_turns(self) -> dict[tuple[int, int], list[int]]:
        """The indices of the turns of each (trajectory, segment) that has some."""
        found: dict[tuple[int, int], list[int]] = {}
        for m, (n, turn) in enumerate(zip(self.turn_trajectory.tolist(), self.turns, strict=True)):
            found.setdefault((n, turn.segment), []).append(m)
        return found

    @cached_property
    def spans(self) -> IntArray:
        """[M, 2] start and stop of the action of each turn in its segment."""
        spans = [(turn.start, turn.stop) for turn in self.turns]
        return np.array(spans, np.int64).reshape(-1, 2)

    @cached_property
    def token_turn(self) -> IntArray:
        """[K] index of the turn of each action token."""
        return np.repeat(np.arange(self.num_turns), np.diff(self.token_offsets))

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """[K] False for forced tokens, which were the only legal continuation."""
        free = np.ones(self.num_tokens, bool)
        for m, turn in enumerate(self.turns):
            if turn.support is not None:
                start, stop = self.token_offsets[m : m + 2]
                free[start:stop] = ~turn.support.forced
            if turn.choice is not None:
                free[self.token_offsets[m]] = len(turn.admissible) > 1
        return free

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """[K] False for tokens of replayed trajectories."""
        fresh = np.array([not t.replayed for t in self.trajectories], bool)
        return fresh[self.turn_trajectory[self.token_turn]]

    @property
    def recorded_logprobs(self) -> FloatArray:
        """[K] log-probabilities recorded in the rollout."""
        return self.logprobs if self.sampler_logprobs is None else self.sampler_logprobs

    @cached_property
    def thought(self) -> NDArray[np.bool_]:
        """[K] True for thought tokens, which are not part of the action of a reply."""
        thought = np.zeros(self.num_tokens, bool)
        for m, turn in enumerate(self.turns):
            if turn.thought is not None:
                thought[slice(*self.token_offsets[m : m + 2])] = turn.thought
        return thought

    def weights(self, thought_coef: float = 1.0) -> FloatArray:
        """Returns the weight of each token in the policy loss [K].

        It is 0 for forced tokens, `thought_coef` for other thought tokens, and 1 otherwise, times
        the weight of the turn.
        """
        turns = np.array([turn.weight for turn in self.turns], np.float32)[self.token_turn]
        return np.where(self.thought, np.float32(thought_coef), np.float32(1)) * self.free * turns

    def select(self, chosen: IntArray) -> Batch:
        """Returns the batch of some trajectories, without the credit that the hooks gave.

        Args:
            chosen: their indices, in ascending order.
        """
        if len(chosen) == len(self.trajectories):
            return self
        turns = np.isin(self.turn_trajectory, chosen)
        tokens = turns[self.token_turn]
        sampled, numbers = self.sampler_logprobs, np.cumsum(turns) - 1
        return replace(
            Batch.of([self.trajectories[n] for n in chosen]),
            rewards=self.rewards[turns],
            delayed=tuple(
                part._replace(turn=int(numbers[part.turn]))
                for part in self.delayed
                if turns[part.turn]
            ),
            logprobs=self.logprobs[tokens],
            sampler_logprobs=None if sampled is None else sampled[tokens],
        )

    def with_rewards(self, rewards: ArrayLike) -> Batch:
        """Returns a copy with other rewards [M]. The trajectories keep the environment's rewards.

        Raises:
            ValueError: if the shape is not [M].
        """
        rewards = np.asarray(rewards, np.float64)
        if rewards.shape != (self.num_turns,):
            raise ValueError(
                f"Expected {self.num_turns} rewards, one per turn, got shape {rewards.shape}."
            )
        return replace(self, rewards=rewards)


@dataclass(frozen=True)
class Values:
    """A critic's value estimates for a batch.

    Attributes:
        tokens: [K] value before each action token, V(o_t, w_<j), or None for a turn-level critic.
        turns: [M] value of the observation before each action, V(o_t).
        bootstrap: [N] value of the observation after the last turn. Unused if terminated.
    """

    tokens: FloatArray | None
    turns: FloatArray
    bootstrap: FloatArray


@dataclass(frozen=True)
class Credit:
    """Advantages and value targets of a batch.

    Attributes:
        advantages: [K] advantage of every action token.
        targets: value targets, [K] for a token-level critic, [M] for a turn-level critic, None
            without a critic.
        metrics: metrics that are logged under `credit/`.
        returns: [M] discounted return from each turn on, to which the spread of the advantages is
            compared (see `credit.normalize.reliability`). None: the advantages are trusted.
        chunks: [M] index of the chunk of each turn, which are decided as one and lie in one
            trajectory. None: there are no chunks.
    """

    advantages: FloatArray
    targets: FloatArray | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    returns: NDArray[np.float64] | None = None
    chunks: IntArray | None = None


def checked(found: Any, batch: Batch) -> Credit:
    """Returns the credit that a recipe assigned, if its arrays fit the batch.

    Raises:
        TypeError: if it is no `Credit`, or an array is none.
        ValueError: for an array of another shape.
    """
    if not isinstance(found, Credit):
        raise TypeError(f"A credit function must return a Credit, got {type(found).__name__}.")
    tokens = {"K, one per action token": (batch.num_tokens,)}
    turns = {"M, one per turn": (batch.num_turns,)}
    for name, fitting in (
        ("advantages", tokens),
        ("targets", tokens | turns),
        ("returns", turns),
        ("chunks", turns),
    ):
        array = getattr(found, name)
        if array is None and name != "advantages":
            continue
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} must be a NumPy array, got {type(array).__name__}.")
        if array.shape not in fitting.values():
            expected = " or ".join(f"{shape} ({words})" for words, shape in fitting.items())
            hint = ""
            if name == "advantages" and array.shape in turns.values():
                hint = " `advantages[batch.token_turn]` gives each token the value of its turn."
            raise ValueError(f"{name} must have shape {expected}, got {array.shape}.{hint}")
    return found


def _offsets(lengths: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)


CreditFn = Callable[[Batch, Values | None], Credit]
