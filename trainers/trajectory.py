"""What a rollout leaves behind: `Turn`, `Segment`, `Trajectory`; and `Batch`, their flat view.

A *segment* is one contiguous token sequence that the model saw; a *turn* points at the span of its
action in a segment. An agent that keeps its whole history has one segment, one that reads only the
current observation has one a turn. Losses run over segments, credit over turns and tokens; where a
turn ends is recorded, never inferred.

Shapes: N trajectories, M turns, K action tokens, S tokens of a segment, L tokens of an action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Support:
    """The tokens that could have been sampled at each position of an action, in ragged form.

    Constraint (a trie of candidates), top-k and top-p all leave a subset of the vocabulary; the
    policy's distribution at a position is the softmax of its logits over this subset.

    Attributes:
        offsets: [L + 1]; the tokens allowed at position j are `ids[offsets[j]:offsets[j + 1]]`.
        ids: [offsets[-1]] token ids.
    """

    offsets: NDArray[np.int32]
    ids: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(slots=True)
class Segment:
    """One contiguous token sequence that the model saw.

    Attributes:
        tokens: [S] token ids, exactly as they were fed and sampled.
    """

    tokens: NDArray[np.int32]


@dataclass(slots=True)
class Turn:
    """One action of the agent and what it brought.

    Attributes:
        segment: index of its segment in the trajectory.
        start: position of the action's first token in the segment.
        stop: position after the action's last token.
        logprobs: [L] log-probabilities under the distribution that was really sampled from.
        support: the tokens that could have been sampled; None: the whole vocabulary.
        observation: what the agent read.
        action: the text that the environment was given.
        reward: the environment's reward for the action.
        reward_terms: its parts.
        valid: whether the environment understood the action.
        progress: progress after the action, in [0, 1].
        state_key: names the state the action was taken in (the anchor of step groups).
        admissible: the candidates shown to the agent; empty where the set was open.
        choice: place of the action in `admissible` if it was drawn as a whole: then its first token
            carries the log-probability of the action. None: drawn token by token.
    """

    segment: int
    start: int
    stop: int
    logprobs: FloatArray
    support: Support | None
    observation: str
    action: str
    reward: float
    reward_terms: dict[str, float]
    valid: bool
    progress: float
    state_key: str
    admissible: tuple[str, ...] = ()
    choice: int | None = None


@dataclass(slots=True)
class Trajectory:
    """One episode of one agent.

    Attributes:
        env_id: id of the environment.
        task: name of the task.
        seed: seed of the episode; trajectories with equal (env_id, task, seed) began in the same
            state and form a group.
        segments: the token sequences, in order.
        turns: the turns, in order.
        terminated: the game ended; the future is worth 0.
        truncated: it was cut off; the future is worth the value of the last observation.
        success: whether the task was solved.
        bootstrap: index of the segment whose end is the observation after the last turn; None if
            the trajectory terminated.
        final_observation: that observation as text.
        agent: name of the agent in a multi-agent game, else "".
        extras: whatever a recipe wants to keep; numbers of the rollout (seconds, tokens).
    """

    env_id: str
    task: str
    seed: int
    segments: list[Segment]
    turns: list[Turn]
    terminated: bool
    truncated: bool
    success: bool
    bootstrap: int | None = None
    final_observation: str = ""
    agent: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of rewards."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def group(self) -> tuple[str, str, int, str]:
        """What trajectories that began in the same state have in common."""
        return (self.env_id, self.task, self.seed, self.agent)


@dataclass(frozen=True)
class Batch:
    """Trajectories laid out flat: action tokens in the order of trajectory, turn, token.

    Everything that credit assignment needs, as arrays; no token ids, no model.

    Attributes:
        trajectories: the N trajectories.
        turn_offsets: [N + 1]; trajectory n has the turns `turn_offsets[n]:turn_offsets[n + 1]`.
        token_offsets: [M + 1]; turn m has the tokens `token_offsets[m]:token_offsets[m + 1]`.
        rewards: [M] reward of each turn.
        terminated: [N] whether the trajectory ended by itself (False: bootstrap).
        logprobs: [K] behaviour log-probabilities.
        groups: [N] equal numbers for trajectories that began in the same state.
    """

    trajectories: Sequence[Trajectory]
    turn_offsets: IntArray
    token_offsets: IntArray
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    logprobs: FloatArray
    groups: IntArray

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory]) -> Batch:
        """Lays out trajectories; each needs at least one turn."""
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
        )

    @property
    def turns(self) -> list[Turn]:
        """The M turns in order."""
        return [turn for trajectory in self.trajectories for turn in trajectory.turns]

    @property
    def num_turns(self) -> int:
        """M."""
        return int(self.turn_offsets[-1])

    @property
    def num_tokens(self) -> int:
        """K."""
        return int(self.token_offsets[-1])

    @property
    def turn_trajectory(self) -> IntArray:
        """[M] the trajectory of each turn."""
        return np.repeat(np.arange(len(self.trajectories)), np.diff(self.turn_offsets))

    @property
    def token_turn(self) -> IntArray:
        """[K] the turn of each action token."""
        return np.repeat(np.arange(self.num_turns), np.diff(self.token_offsets))

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """[K] False for action tokens that the constraint left no choice about."""
        free = np.ones(self.num_tokens, bool)
        for m, turn in enumerate(self.turns):
            if turn.support is not None:
                start, stop = self.token_offsets[m : m + 2]
                free[start:stop] = np.diff(turn.support.offsets) != 1
            if turn.choice is not None:
                free[self.token_offsets[m]] = len(turn.admissible) > 1
        return free

    def with_rewards(self, rewards: ArrayLike) -> Batch:
        """Returns the batch with other rewards [M]; the trajectories keep the environment's."""
        rewards = np.asarray(rewards, np.float64)
        if rewards.shape != (self.num_turns,):
            raise ValueError(f"Expected {self.num_turns} rewards, one a turn; got {rewards.shape}.")
        return replace(self, rewards=rewards)


@dataclass(frozen=True)
class Values:
    """What a critic says about a batch.

    Attributes:
        tokens: [K] value before each action token, V(o_t, w_<j); None for a turn critic.
        turns: [M] value of the state each action is taken in, V(o_t).
        bootstrap: [N] value of the observation after the last turn; unused where terminated.
    """

    tokens: FloatArray | None
    turns: FloatArray
    bootstrap: FloatArray


@dataclass(frozen=True)
class Credit:
    """What credit assignment says about a batch.

    Attributes:
        advantages: [K] advantage of every action token.
        targets: [K] value targets of a token critic, [M] of a turn critic; None without a critic.
        metrics: numbers worth logging under `credit/`.
    """

    advantages: FloatArray
    targets: FloatArray | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def _offsets(lengths: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)
