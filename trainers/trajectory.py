"""Rollout data: `Turn`, `Segment`, `Trajectory`, and `Batch`, a flat view of trajectories.

A *segment* is one contiguous token sequence that was fed to the model. A *turn* is one action and
points at the span of its tokens in a segment. An agent with its whole history as context has one
segment per episode. An agent with only the current observation as context has one segment per turn.
Losses are computed over segments, credit over turns and tokens. Turn boundaries are recorded during
the rollout and never inferred.

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

    A constraint (a trie of candidates), top-k and top-p each restrict sampling to a subset of the
    vocabulary. The policy's distribution at a position is the softmax of its logits over this
    subset.

    Attributes:
        offsets: [L + 1] offsets. Position j allows the tokens `ids[offsets[j]:offsets[j + 1]]`.
        ids: [offsets[-1]] token ids.
    """

    offsets: NDArray[np.int32]
    ids: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(slots=True)
class Segment:
    """One contiguous token sequence that was fed to the model.

    Attributes:
        tokens: [S] token ids, exactly as they were fed and sampled.
    """

    tokens: NDArray[np.int32]


@dataclass(slots=True)
class Turn:
    """One action of the agent and its outcome.

    Attributes:
        segment: index of the turn's segment in the trajectory.
        start: position of the action's first token in the segment.
        stop: position after the action's last token.
        logprobs: [L] behaviour log-probabilities, under the distribution that was sampled from.
        support: the tokens that could have been sampled, or None for the whole vocabulary.
        observation: observation before the action, as text.
        action: the action as text, as passed to the environment.
        reward: the environment's reward for the action.
        reward_terms: components of the reward, by name.
        valid: whether the environment accepted the action.
        progress: progress after the action, in [0, 1].
        state_key: identifies the state in which the action was taken (anchor of step-level groups).
        admissible: the admissible actions, empty for free-form actions.
        choice: index of the action in `admissible` if it was sampled as a whole. Its first token
            then carries the log-probability of the whole action. None if the action was sampled
            token by token.
        recomputed: [L] behaviour log-probabilities from the forward pass of training, computed in
            the iteration of the rollout. None if they were not computed.
        thought: [L] True for the tokens before and after the action in the reply of a model that
            thinks (see `thoughts.thought_mask`). None: all tokens are the action's.
        version: version of the weights that sampled the action (see `LanguageModel.version`), or
            None.
        token_versions: [L] that of each token, if the weights changed within the action. `version`
            is then that of the last token. None: they are all `version`.
        order: turn of the game in which the agent acted, equal for agents that act at once. None:
            the number of its earlier actions.
        clock: turn of the environment in which the agent acted (see `TextGame.clock`), likewise.
        weight: weight of the action's tokens in policy losses. 0: the action is not imitated.
        delayed: (clock, reward, term) of the parts of the reward that were received in other turns
            of the environment than the action's.
        privileged: text about the state before the action that only the critic reads
            (`critic_sees`): the observations of the other agents of a game, or the hidden state of
            an environment. "": not recorded.
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
    recomputed: FloatArray | None = None
    thought: NDArray[np.bool_] | None = None
    version: int | None = None
    token_versions: NDArray[np.int32] | None = None
    order: int | None = None
    clock: int | None = None
    weight: float = 1.0
    delayed: tuple[tuple[int, float, str], ...] = ()
    privileged: str = ""


@dataclass(slots=True)
class Trajectory:
    """One episode of one agent.

    Attributes:
        env_id: id of the environment.
        task: name of the task.
        seed: seed of the episode. Trajectories with equal (env_id, task, seed, agent) start in the
            same state and form a group.
        segments: the token sequences, in order.
        turns: the turns, in order.
        terminated: whether the episode ended in a terminal state, or at a limit that counts as one
            (`turn_limit`, `overflow`), after which the value is 0.
        truncated: whether the episode was cut off, so that the value of the final observation is
            bootstrapped.
        success: whether the task was solved.
        bootstrap: index of the segment that ends with the observation after the last turn, if any.
        final_observation: that observation as text.
        final_privileged: the text for the critic at that time (see `Turn.privileged`).
        agent: name of the agent in a game in which several seats are played, else "".
        role: its role in the game, such as "werewolf". Without roles, the name of the agent.
        opponent: players of the other seats, joined by "+": "self", weights, or a scripted level.
        episode: key of the episode, equal for all agents who played it (empty: one agent alone).
        replayed: whether the policy of an earlier iteration played the episode.
        start_progress: progress before the first turn, in [0, 1].
        extras: statistics of the rollout (token counts, flags) and data kept by a recipe.
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
    final_privileged: str = ""
    agent: str = ""
    role: str = ""
    opponent: str = ""
    episode: tuple[int, ...] = ()
    replayed: bool = False
    start_progress: float = 0.0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of rewards."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def group(self) -> tuple[str, str, int, str]:
        """Key shared by trajectories that start in the same state."""
        return (self.env_id, self.task, self.seed, self.agent)


@dataclass(frozen=True)
class Batch:
    """Trajectories as flat arrays, with action tokens in the order trajectory, turn, token.

    It holds the inputs of credit assignment, without token ids or a model.

    Attributes:
        trajectories: the N trajectories.
        turn_offsets: [N + 1] offsets. Trajectory n has turns `turn_offsets[n]:turn_offsets[n + 1]`.
        token_offsets: [M + 1] offsets. Turn m has tokens `token_offsets[m]:token_offsets[m + 1]`.
        rewards: [M] reward of each turn.
        terminated: [N] whether the trajectory reached a terminal state. If False, bootstrap.
        logprobs: [K] behaviour log-probabilities.
        groups: [N] group index, equal for trajectories that start in the same state.
        sampler_logprobs: [K] log-probabilities recorded in the rollout, if `logprobs` are those of
            the forward pass of training (None: `logprobs` are recorded ones).
    """

    trajectories: Sequence[Trajectory]
    turn_offsets: IntArray
    token_offsets: IntArray
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    logprobs: FloatArray
    groups: IntArray
    sampler_logprobs: FloatArray | None = None

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
        )

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
                free[start:stop] = np.diff(turn.support.offsets) != 1
            if turn.choice is not None:
                free[self.token_offsets[m]] = len(turn.admissible) > 1
        return free

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """[K] False for tokens of replayed trajectories."""
        fresh = np.array([not t.replayed for t in self.trajectories], bool)
        return fresh[self.turn_trajectory[self.token_turn]]

    def staleness(self, version: int) -> IntArray:
        """Returns how many versions older than `version` the weights were that sampled a token [K].

        It is 0 where the version was not recorded.
        """
        turns = [0 if turn.version is None else version - turn.version for turn in self.turns]
        ages = np.array(turns, np.int64)[self.token_turn]
        for m, turn in enumerate(self.turns):
            if turn.token_versions is not None:
                ages[slice(*self.token_offsets[m : m + 2])] = version - turn.token_versions
        return ages

    def with_recomputed(self, logprobs: FloatArray) -> Batch:
        """Returns a copy whose `logprobs` come from the forward pass of training.

        Fresh trajectories get the given ones, and their turns keep them. Replayed trajectories get
        those of the iteration in which they were played, so their ratio still compares the policy
        with the one that played them. If there are none, theirs stay as recorded.

        Args:
            logprobs: [K] log-probabilities under the current policy.
        """
        found = np.where(self.fresh, logprobs, self.logprobs)
        replayed = np.array([t.replayed for t in self.trajectories])[self.turn_trajectory]
        for turn, old, start, stop in zip(
            self.turns, replayed, self.token_offsets, self.token_offsets[1:], strict=False
        ):
            if not old:
                turn.recomputed = found[start:stop].copy()
            elif turn.recomputed is not None:
                found[start:stop] = turn.recomputed
        return replace(self, logprobs=found, sampler_logprobs=self.logprobs)

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
        """Returns the batch of some trajectories.

        Args:
            chosen: their indices, in ascending order.
        """
        if len(chosen) == len(self.trajectories):
            return self
        turns = np.isin(self.turn_trajectory, chosen)
        tokens = turns[self.token_turn]
        sampled = self.sampler_logprobs
        return replace(
            Batch.of([self.trajectories[n] for n in chosen]),
            rewards=self.rewards[turns],
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
            compared (see `credit.reliability`). None: the advantages are trusted.
    """

    advantages: FloatArray
    targets: FloatArray | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    returns: NDArray[np.float64] | None = None


def episode_numbers(trajectories: Sequence[Trajectory]) -> list[int]:
    """Returns the index of the episode of each trajectory [N], equal for agents who played it."""
    numbers: dict[tuple[str, object], int] = {}
    keys = [(t.env_id, t.episode or str(n)) for n, t in enumerate(trajectories)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _offsets(lengths: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)
