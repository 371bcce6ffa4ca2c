"""`OwnStart`: episodes that start where earlier ones had different returns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from agentgym.data.episode import RecordedEpisode
from agentgym.data.reading import read_episodes
from agentgym.errors import DataError
from agentgym.utils.file_cache import cached_by_files
from agentgym.wrappers.middle_start import _MiddleStart


@dataclass
class _Start:
    """A history that recorded episodes begin with.

    Attributes:
        episode: one of them.
        turns: number of turns of the history.
        returns: the returns of all of them.
    """

    episode: RecordedEpisode
    turns: int
    returns: list[float] = field(default_factory=list)


class OwnStart(_MiddleStart):
    """Starts episodes of training tasks in the middle of recorded ones, where their returns differ.

    A history of observations and actions that several recorded episodes share, and after which
    their returns differ, is a state in which the policy can learn. A start is sampled from the
    histories of the task, in proportion to the standard deviation of the returns after them. This
    grows the space of tasks by the policy's own partial solutions ("Bootstrapping Task Spaces for
    Self-Improvement", arXiv 2509.04575). Record the episodes with several per task:
    `agentgym eval ID --agent policy:RUN --split train --episodes 200 --save own.jsonl`.

    Episodes with the same task and seed have the same start, so those of a group can be compared.

    **Actions**: unchanged.

    **Observations**: text, unchanged. The first one is that of the start. To show the turns before
    it, apply `HistoryObservation` on the inside.

    **Rewards**: unchanged. Those of the turns before the start are not part of the episode.

    **Episode end**: unchanged. The turns before the start count for the turn limit.

    **Info**: `own_turns` (int: number of turns before the start) is added. `turn` includes them. At
    the start, `valid` is True and `reward_terms` are 0.

    Tasks that are not in the training split, or also in the test split, start at the beginning, as
    do those without such a history.

    Args:
        env: an environment with text observations and actions, and AgentGym's info keys.
        file: recorded episodes of the environment (see `agentgym.data.reading.read_episodes`).
        share: probability of a start in the middle.

    Raises:
        ConfigError: if observations or actions are not text, or `share` is not in [0, 1].
        DataError: if the file holds no episodes. From `reset`: if an episode plays otherwise here
            than it was recorded.
    """

    turns_key = "own_turns"

    def __init__(self, env: gymnasium.Env[Any, Any], file: str, *, share: float = 0.8):
        super().__init__(env, file=file, share=share)
        self.file = str(Path(file).absolute())
        self._starts = starts_of(self.file)

    def _can_start(self, task: str) -> bool:
        return task in self._starts

    def _start(
        self, task: str, seed: int, options: dict[str, Any] | None, rng: np.random.Generator
    ) -> tuple[str, dict[str, Any], int]:
        starts = self._starts[task]
        spreads = np.array([np.std(start.returns) for start in starts])
        start = starts[int(rng.choice(len(starts), p=spreads / spreads.sum()))]
        options = {**(options or {}), "task": task}
        observation, info = self.env.reset(seed=start.episode.seed, options=options)
        ended = False
        for turn, following in zip(
            start.episode.turns[: start.turns], start.episode.turns[1:], strict=False
        ):
            if ended:
                break
            observation, _, terminated, truncated, info = self.env.step(turn.action)
            ended = terminated or truncated or observation != following.observation
        if ended:
            raise DataError(
                f"{self.file}: the episode of task {start.episode.task!r} with seed "
                f"{start.episode.seed} plays otherwise here. Record it with the same arguments "
                "of the environment and the same wrappers."
            )
        return observation, info, start.turns


@cached_by_files("file", maxsize=8)
def starts_of(file: str) -> dict[str, list[_Start]]:
    """Returns the histories after which returns differ, by task.

    Raises:
        DataError: if the file holds no episodes.
    """
    episodes = read_episodes(file)
    found: dict[str, dict[tuple[str, ...], _Start]] = defaultdict(dict)
    for episode in episodes:
        history: tuple[str, ...] = ()
        for turns, turn in enumerate(episode.turns):
            if turns:  # without turns, it is the beginning
                before = episode.turns[turns - 1]
                history = (*history, before.observation, before.action)
                key = (*history, turn.observation)
                start = found[episode.task].setdefault(key, _Start(episode, turns))
                start.returns.append(episode.reward)
    return {
        task: differing
        for task, starts in found.items()
        if (differing := [each for each in starts.values() if np.std(each.returns) > 0])
    }
