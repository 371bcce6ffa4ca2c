"""`Textified`: the common part of environments that are made into text environments."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, SnapshotError
from agentgym.tasks import Tasks, task_rng
from agentgym.time_limits import MOST_UNPLAYED
from agentgym.time_step import TimeStep
from agentgym.utils.serialization import ADDED

Describe = Callable[[Any, Any], str]
"""(observation, environment) -> text of the observation."""
Opponent = Callable[[Any, np.ndarray, np.random.Generator], int]
"""(observation, numbers of the legal actions, generator) -> one of the numbers."""


@dataclass
class State:
    """The actions of an episode, from which it is replayed.

    Attributes:
        seed: seeds the chance events of the episode.
        played: actions of the wrapped environment, including those of opponents. None for an agent
            that is out of the game.
        early: the reward that the agent received before its first action.
        unplayed: number of invalid actions, which the wrapped environment did not see.
    """

    seed: int
    played: list[int | str | None] = field(default_factory=list)
    early: float = field(default=0.0, metadata=ADDED)
    unplayed: int = field(default=0, metadata=ADDED)


@dataclass
class Look:
    """The state of the wrapped environment as the agent sees it.

    Attributes:
        observation: its observation.
        mask: the legal or advised actions. None: all of them.
        rule: whether an action that the mask excludes is invalid.
        reward: the reward since the agent's last action.
        terminated: whether the environment has terminated.
        truncated: whether it was truncated.
        info: its info.
    """

    observation: Any
    mask: np.ndarray | None = None
    rule: bool = True
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)


class Textified(TextEnv):
    """Base class of the adapters. See `textify` for the arguments."""

    State = State
    state: State

    def __init__(
        self,
        env: Any,
        *,
        describe: Describe,
        success: Callable[[float], bool] | None = None,
        progress: Callable[[Any, Any], float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        try:
            inspect.signature(describe).bind(None, None)
        except TypeError as error:
            raise TypeError(f"describe takes (observation, environment): {error}.") from error
        except ValueError:  # a builtin without a signature
            pass
        self.env = env
        self.tasks = Tasks.generated()
        self._describe, self._success, self._progress = describe, success, progress

    @abstractmethod
    def _begin(self, level: int) -> None:
        """Resets the wrapped environment."""

    @abstractmethod
    def _move(self, action: Any) -> None:
        """Plays one action in the wrapped environment."""

    @abstractmethod
    def _take(self, action: str) -> TimeStep:
        """Plays one turn of the agent, whose game goes on."""

    @abstractmethod
    def _seen(self) -> Look:
        """Returns the current state as the agent sees it."""

    @abstractmethod
    def _admissible(self, now: Look) -> tuple[str, ...]:
        """Returns the admissible actions."""

    def _others(self) -> None:
        """Lets other agents act until it is the agent's turn."""

    def _start(self, task: str) -> TimeStep:
        self.state = State(int(self.np_random.integers(2**31)))
        self._reset_inside()
        self._others()
        step = self._look()
        self.state.early = step.rewards["task"]
        return replace(step, rewards={}, terminated=False, success=False)  # an action ends it

    def _advance(self, action: str) -> TimeStep:
        if self._now.terminated or self._now.truncated:
            return self._time_step(self._now)  # over before the first action, which is ignored
        return self._take(action)

    def _reset_inside(self) -> None:
        self._begin(int(task_rng(self.task, "textify").integers(2**31)))
        self.env.unwrapped.np_random = np.random.default_rng(self.state.seed)

    def _play(self, action: int | str | None) -> None:
        self.state.played.append(action)
        self._move(action)

    def _look(self) -> TimeStep:
        self._now = self._seen()
        self._now.reward += self.state.early
        self.state.early = 0.0
        return self._time_step(self._now)

    def _time_step(self, now: Look) -> TimeStep:
        """Returns the agent's observation of a state."""
        won = now.reward > 0 if self._success is None else self._success(now.reward)
        success = now.terminated and bool(won)
        progress = float(success)
        if self._progress is not None:
            progress = float(self._progress(now.observation, self.env))
        return TimeStep(
            text=self._describe(now.observation, self.env),
            rewards={"task": now.reward},
            terminated=now.terminated,
            success=success,
            progress=progress,
            admissible=() if now.terminated else self._admissible(now),
        )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`. Truncations of the wrapped environment count.

        Without a turn limit, so do `MOST_UNPLAYED` actions that it did not see.
        """
        observation, reward, terminated, truncated, info = super().step(action)
        stuck = self.turn_limit is None and self.state.unplayed == MOST_UNPLAYED
        truncated = truncated or ((self._now.truncated or stuck) and not terminated)
        self._over = terminated or truncated
        return observation, reward, terminated, truncated, info

    def _invalid(self, message: str) -> TimeStep:
        self.state.unplayed += 1
        return super()._invalid(message)

    def reseed(self, seed: int) -> None:
        """Refuses: snapshots replay the chance events of the episode's seed.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"The chance events of {self.env} follow from the episode's seed and cannot be sampled "
            "anew. A search needs future=known here: it is exact if there is no chance, and an "
            "upper bound otherwise."
        )

    def _restored(self) -> None:
        """Replays the recorded actions.

        Raises:
            SnapshotError: if the replay ends in another observation, because the snapshot is of
                another environment, or the environment is not deterministic given its seed.
        """
        assert self._last is not None
        try:
            self._replay()
            text = self._describe(self._now.observation, self.env)
        except Exception as error:  # the wrapped environment may raise anything
            raise SnapshotError(f"The snapshot's actions could not be played: {error!r}") from error
        if text != self._last.text:
            raise SnapshotError(
                "The replay of the snapshot ended in another observation: expected "
                f"{self._last.text!r:.200}, got {text!r:.200}."
            )

    def _replay(self) -> None:
        self._reset_inside()
        for action in self.state.played:
            self._move(action)
        self._now = self._seen()

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Replays the episode in a copy: `EzPickle` copies an environment as a new one."""
        self.__dict__.update(attributes)
        if self._last is not None:
            self._replay()

    def close(self) -> None:
        """Closes the wrapped environment."""
        self.env.close()
