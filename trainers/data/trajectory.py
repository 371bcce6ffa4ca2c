"""Rollout data: `Segment`, `Turn` and `Trajectory`.

A *segment* is one contiguous token sequence that was fed to the model. A *turn* is one action and
points at the span of its tokens in a segment. An agent with its whole history as context has one
segment per episode. An agent with only the current observation as context has one segment per turn.
Losses are computed over segments, credit over turns and tokens. Turn boundaries are recorded during
the rollout and never inferred.

Shapes: N trajectories, S tokens of a segment, L tokens of an action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
Tokens = NDArray[np.int32]
"""Token ids."""


@dataclass(frozen=True, slots=True)
class Support:
    """The tokens that could have been sampled at each position of an action, in ragged form.

    A constraint (a trie of candidates), top-k and top-p each restrict sampling to a subset of the
    vocabulary. The policy's distribution at a position is the softmax of its logits over this
    subset.

    Attributes:
        offsets: [L + 1] offsets. Position j allows the tokens `ids[offsets[j]:offsets[j + 1]]`, and
            the whole vocabulary if there are none.
        ids: [offsets[-1]] token ids. A position that allows most tokens lists the others, token t
            as `~t`, below 0.
    """

    offsets: NDArray[np.int32]
    ids: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def counts(self, vocabulary: int) -> NDArray[np.int64]:
        """Returns the number [L] of allowed tokens of each position, of V in the vocabulary."""
        counts = np.diff(self.offsets).astype(np.int64)
        return np.where(self._listed, counts, vocabulary - counts)

    @property
    def forced(self) -> NDArray[np.bool_]:
        """[L] True where a single token is allowed."""
        return self._listed & (np.diff(self.offsets) == 1)

    @property
    def _listed(self) -> NDArray[np.bool_]:
        """[L] True where the allowed tokens are listed, not the others."""
        first = np.append(self.ids, -1)[self.offsets[:-1]]
        return (first >= 0) & (np.diff(self.offsets) > 0)


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
class RolloutStats:
    """Statistics of the rollout of an episode.

    Attributes:
        read_tokens: number of prompt tokens, over all turns.
        overflow: whether the context had no room for another turn.
        at_limit: whether the context or the turn limit ended the episode.
        timed_out: whether the environment took too long.
        unjudged: whether the verdict of a judge, which decides the outcome, is unreadable.
        left_out: whether earlier turns were left out of a prompt.
        cut: whether an observation was shortened.
        env_turns: turns that the environment has counted at the end, as its turn limit does. An
            action can be several of them, as in a plan. 0: not recorded.
    """

    read_tokens: int = 0
    overflow: bool = False
    at_limit: bool = False
    timed_out: bool = False
    unjudged: bool = False
    left_out: bool = False
    cut: bool = False
    env_turns: int = 0


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
        final_state_key: identifies the state after the last turn, also of a terminated episode (see
            `Turn.state_key`). "": not recorded.
        final_privileged: the text for the critic at that time (see `Turn.privileged`).
        agent: name of the agent in a game in which several seats are played, else "".
        role: its role in the game, such as "werewolf". Without roles, the name of the agent.
        opponent: players of the other seats, joined by "+": "self", weights, or a scripted level.
        episode: key of the episode, equal for all agents who played it (empty: one agent alone).
        replayed: whether the policy of an earlier iteration played the episode.
        start_progress: progress before the first turn, in [0, 1].
        stats: statistics of the rollout.
        explorer: the only agent of a game that explored, if there is one.
        result: result against frozen policies: 1 (win), 1/2 (draw) or 0. It compares the rewards of
            the game, without penalties. None: there are none.
        actors: the agent of each turn of a joint trajectory, by its role if it has one (see
            `credit.joint`).
        instructions: the instructions of the environment that the agent read, of its seat alone in
            a game. "": not recorded.
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
    final_state_key: str = ""
    final_privileged: str = ""
    agent: str = ""
    role: str = ""
    opponent: str = ""
    episode: tuple[int, ...] = ()
    replayed: bool = False
    start_progress: float = 0.0
    stats: RolloutStats = field(default_factory=RolloutStats)
    explorer: str = ""
    result: float | None = None
    actors: tuple[str, ...] = ()
    instructions: str = ""

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of rewards."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def group(self) -> tuple[str, str, int, str]:
        """Key shared by trajectories that start in the same state."""
        return (self.env_id, self.task, self.seed, self.agent)


def rules_of(trajectory: Trajectory, known: Mapping[str, str]) -> str:
    """Returns the instructions for a model that reads the episode of an agent.

    In a game, they are those of its seat: other seats can have rules that it must not know.

    Args:
        trajectory: the episode.
        known: instructions of environments by id, for episodes that record none, such as those
            that a program played.
    """
    return trajectory.instructions or known.get(trajectory.env_id, "")


def is_judged(members: Sequence[Trajectory]) -> bool:
    """Whether an episode, given by the trajectories of its agents, has no unreadable verdict."""
    return not any(each.stats.unjudged for each in members)


def judged_ones(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Returns the trajectories without those on which the verdict of a judge is unreadable.

    Raises:
        ConfigError: if no verdict can be read.
    """
    judged = [each for each in trajectories if not each.stats.unjudged]
    if trajectories and not judged:
        raise ConfigError(
            f"Expected verdicts of the judge, and none on {len(trajectories)} episodes can be "
            "read. Give another judge, or look at its replies."
        )
    return judged


def episode_numbers(trajectories: Sequence[Trajectory]) -> list[int]:
    """Returns the index of the episode of each trajectory [N], equal for agents who played it."""
    numbers: dict[tuple[str, object], int] = {}
    keys = [(t.env_id, t.episode or str(n)) for n, t in enumerate(trajectories)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def equal_tokens(one: Tokens, other: Tokens, most: int) -> int:
    """Returns how many of the first `most` tokens are equal, up to the first difference."""
    differs = one[:most] != other[:most]
    first = int(differs.argmax()) if most > 0 else 0
    return first if most > 0 and differs[first] else most
