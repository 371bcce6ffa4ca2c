"""`TextArena`: the games of the package TextArena as text environments."""

from __future__ import annotations

import contextlib
import io
import math
import numbers
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.agents import View, make_agent
from agentgym.core import TextEnv
from agentgym.errors import ConfigError, SnapshotError, did_you_mean, needs_extra
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep


@dataclass
class State:
    """The actions of all players, from which the game is replayed."""

    seed: int
    played: list[str] = field(default_factory=list)


class TextArena(TextEnv):
    """Play a game of TextArena ("TextArena", arXiv 2504.11442) in one seat.

    Observations are the messages since the last action, and the reward at the end is that of the
    game. The global random generators, which TextArena seeds, are restored after every call.
    Snapshots replay the actions. If the package raises an error at an action, or returns a reward
    that is no number, the action is invalid and ends the episode without reward, and the
    observation names the error.

        gymnasium.make("AgentGym/TextArena-v0", game="TowerOfHanoi-v0")

    Args:
        game: id of TextArena.
        num_players: number of players.
        seat: number of the seat to play.
        opponents: player of the other seats, (observation) -> action, or an agent in words, such as
            "chat:MODEL@URL". Needed for more than one player.
        **kwargs: arguments of `TextEnv`.

    Raises:
        MissingExtraError: without the package textarena.
        ConfigError: for an unknown game, or one that cannot be made or started (some need word
            lists of NLTK, which `nltk.download` fetches).
    """

    State = State
    state: State
    cased = True
    instructions = "Play the game. Its rules come with the first message."

    def __init__(
        self,
        *,
        game: str,
        num_players: int = 1,
        seat: int = 0,
        opponents: Callable[[str], str] | str | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        with needs_extra("AgentGym/TextArena-v0", "textarena"):
            import textarena
            from textarena.envs.registration import ENV_REGISTRY  # pyright: ignore[reportMissingImports]
        if game not in ENV_REGISTRY:
            raise ConfigError(f"TextArena has no game {game!r}.{did_you_mean(game, ENV_REGISTRY)}")
        if not 0 <= seat < num_players:
            raise ConfigError(f"seat must be in [0, {num_players}), got {seat}.")
        if num_players > 1 and opponents is None:
            raise ConfigError(f"{game} for {num_players} players needs opponents.")
        self.game, self.num_players, self.seat = game, num_players, seat
        self._opponents = _from_words(opponents) if isinstance(opponents, str) else opponents
        self.tasks = Tasks.generated()
        self._rng: Any = None
        try:
            with _own_random(0):
                self._make = lambda: textarena.make(game)  # pyright: ignore[reportAttributeAccessIssue]
                self._make()
        except (LookupError, OSError, ValueError) as error:
            reason = str(error).strip(" *\n").partition("\n")[0]
            raise ConfigError(f"TextArena cannot make {game}: {reason}") from error

    def _start(self, task: str) -> TimeStep:
        self.state = State(int(self.np_random.integers(2**31)))
        self._begin()
        return self._look(self._until_mine())

    def _begin(self) -> None:
        """Starts the game of the task."""
        self._ended, self._seen, self._failure = False, "", ""
        level = int(task_rng(self.task, f"textarena/{self.state.seed}").integers(2**31))
        try:
            with self._random(level):
                self._game = self._make()
                self._game.reset(num_players=self.num_players, seed=level)
        except Exception as error:
            raise ConfigError(
                f"TextArena cannot start {self.game} with num_players={self.num_players}: "
                f"{error!r:.200}"
            ) from error

    def _until_mine(self) -> str:
        """Lets the opponents act, and returns the new messages."""
        text = ""
        while not self._ended:
            with self._guarded(), self._random():
                player, text = self._game.get_observation()
            if self._ended or player == self.seat:
                break
            assert self._opponents is not None
            self._play(self._opponents(str(text)))
        if self._ended:
            return ""
        new, self._seen = str(text).removeprefix(self._seen), str(text)
        return new.strip()

    def _play(self, action: str) -> None:
        self.state.played.append(action)
        self._move(action)

    def _move(self, action: str) -> None:
        with self._guarded(), self._random():
            self._ended, _ = self._game.step(action)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Ends the episode at an error of the package, whatever the action was."""
        try:
            yield
        except Exception as error:
            self._ended = True
            self._failure = f"TextArena's game {self.game} raised an error: {error!r:.200}"

    def _advance(self, action: str) -> TimeStep:
        errors = self._errors
        self._play(action)
        valid = self._errors <= errors
        return self._look(self._until_mine(), valid)

    def _parse(self, action: str) -> str:
        return action

    @property
    def _errors(self) -> int:
        """The number of invalid actions in a row, of the player whose turn it is."""
        return int(getattr(self._game.state, "error_count", 0))

    def _look(self, text: str, valid: bool = True) -> TimeStep:
        if not self._ended:
            return TimeStep(text=text, valid=valid, state_key=self._seen)
        reward, info = 0.0, {}
        if not self._failure:
            with self._guarded(), self._random():
                rewards, infos = self._game.close()
                reward = _number((rewards or {}).get(self.seat, 0.0))
                info = dict((infos or {}).get(self.seat) or {})
        if self._failure:
            text = f"{self._failure}. The episode is over."
            return TimeStep(text=text, terminated=True, valid=False, state_key="over")
        success = reward >= 1 if self.num_players == 1 else reward > 0
        return TimeStep(
            text=str(info.get("reason", "The game is over.")),
            rewards={"task": reward},
            terminated=True,
            valid=valid and not info.get("invalid_move", False),
            success=success,
            progress=1.0 if success else min(1.0, max(0.0, reward)),
            state_key="over",
        )

    def _restored(self) -> None:
        """Replays the recorded actions.

        Raises:
            SnapshotError: if the game ends before all of them are played.
        """
        self._begin()
        for action in self.state.played:
            if self._ended:
                raise SnapshotError("The game of the snapshot ended before its last action.")
            self._move(action)
        if not self._ended:
            with self._random():
                _, text = self._game.get_observation()
            self._seen = str(text)

    @contextlib.contextmanager
    def _random(self, seed: int | None = None) -> Iterator[None]:
        """Runs TextArena with random generators of its own, without its output."""
        with _own_random(self._rng if seed is None else seed) as after:
            yield
        self._rng = after[0]


def _number(reward: Any) -> float:
    """Returns a reward that is a finite number."""
    if not isinstance(reward, numbers.Real) or not math.isfinite(reward):
        raise TypeError(f"the reward is {reward!r:.100}")
    return float(reward)


Generators = tuple[Any, Any]
_LOCK = threading.RLock()
"""Held while the global generators are replaced: games may run on several threads."""


@contextlib.contextmanager
def _own_random(start: int | Generators) -> Iterator[list[Generators]]:
    """Replaces the global random generators. Yields a list that receives their last states."""
    after: list[Generators] = []
    with _LOCK:
        before = random.getstate(), np.random.get_state()
        if isinstance(start, int):
            random.seed(start)
            np.random.seed(start % 2**32)
        else:
            random.setstate(start[0])
            np.random.set_state(start[1])
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield after
        finally:
            after.append((random.getstate(), np.random.get_state()))
            random.setstate(before[0])
            np.random.set_state(before[1])


def _from_words(words: str) -> Callable[[str], str]:
    """Returns a player that is an agent in words."""
    agent = make_agent(words)
    return lambda text: agent.act([View.of_text("Play the game.", text)])[0]
