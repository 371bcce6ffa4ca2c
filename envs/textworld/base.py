"""Base class of the TextWorld games: engine, observations, game files, snapshots."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.core import TextEnv
from agentgym.errors import DataError, MissingExtraError
from agentgym.tasks import NumberedTasks, Tasks, task_rng, warn_not_held_out
from agentgym.time_step import TimeStep

if TYPE_CHECKING:
    from agentgym.envs.textworld.games import Compiled, Facts

TEST_GAMES = 100
SUFFIXES = (".z8", ".json")
COMMON = (
    "- go north (or south, east, west)\n"
    "- open fridge\n"
    "- close fridge\n"
    "- take knife from table\n"
    "- drop knife\n"
    "- put apple on counter\n"
    "- insert key into box\n"
    "- unlock chest with key\n"
    "- look\n"
    "- inventory\n"
    "\n"
    "Reply with exactly one command per turn."
)
"""The common commands, as the end of the instructions."""


@dataclass
class State:
    """The executed commands, which are replayed to restore a snapshot."""

    commands: list[str] = field(default_factory=list)


class TextWorldGame(TextEnv):
    """Base class of the TextWorld games.

    Args:
        kind: "cooking", "coin" or "treasure".
        settings: settings of the game generator.
        games: number of training games.
        words: "own" or "original".
        files: paths of .z8 or .json files, or of folders of them, to play instead of generated
            games.
        max_turns: turn limit.
        kwargs: further arguments of `TextEnv`.
    """

    goal: ClassVar[str] = ""
    State = State

    def __init__(
        self,
        kind: str,
        settings: dict[str, Any],
        /,
        *,
        games: int,
        words: str,
        files: str | Sequence[str] | None,
        max_turns: int | None,
        **kwargs,
    ):
        state = np.random.get_state()  # `textworld` draws from the global generator when imported
        try:
            import textworld as textworld
        except ImportError as error:
            raise MissingExtraError(type(self).__name__, "textworld", "textworld") from error
        finally:
            np.random.set_state(state)
        super().__init__(max_turns=max_turns, **kwargs)
        if words not in ("own", "original"):
            raise ValueError(f"words must be 'own' or 'original', got {words!r}.")
        if games < 1:
            raise ValueError(f"games must be at least 1, got {games}.")
        self.kind, self.settings, self.words = kind, settings, words
        self._files: dict[str, Path] = {}
        if files is None:
            self.tasks = Tasks(
                NumberedTasks("train/", range(games)), NumberedTasks("test/", range(TEST_GAMES))
            )
        else:
            self.tasks = self._found([files] if isinstance(files, str) else files)
        self._engine: Facts | Compiled | None = None

    def _found(self, files: Sequence[str]) -> Tasks:
        """Lists the files. Every fifth is a test game, and a single file is used for both."""
        paths: list[Path] = []
        for name in files:
            path = Path(name)
            inside = sorted(path.iterdir()) if os.path.isdir(path) else [path]
            # The .json file beside a compiled game describes the same game.
            inside = [p for p in inside if p.suffix in SUFFIXES and os.path.isfile(p)]
            compiled = {p.stem for p in inside if p.suffix == ".z8"}
            paths += [p for p in inside if p.suffix == ".z8" or p.stem not in compiled]
        if not paths:
            raise DataError(f"There are no {' or '.join(SUFFIXES)} files in {list(files)}.")
        if lone := len(paths) == 1:
            warn_not_held_out(f"{paths[0]} is the only game of training and tests")
        numbered = [(i, path) for i, path in enumerate(paths)]
        train = {f"train/{i}/{p.stem}": p for i, p in numbered if i % 5 or lone}
        test = {f"test/{i}/{p.stem}": p for i, p in numbered if i % 5 == 0}
        self._files = {**train, **test}
        return Tasks(tuple(train), tuple(test))

    def _open(self) -> Facts | Compiled:
        """Returns the task's game at its start."""
        from agentgym.envs.textworld.games import Compiled, Facts, kept

        path = self._files.get(self.task)
        if path is None:
            seed = int(task_rng(self.task).integers(2**31))
            path = kept(self.kind, self._settings_of(self.task), seed, self.words == "original")
        return Compiled(path) if path.suffix == ".z8" else Facts(path)

    def _settings_of(self, task: str) -> dict[str, Any]:
        return self.settings

    def _start(self, task: str) -> TimeStep:
        self._engine = self._open()
        self.state = State()
        return self._look(0)

    def _advance(self, action: str) -> TimeStep:
        command = " ".join(action[:200].lower().split())
        assert self._engine is not None
        before = self._engine.score
        if not self._engine.do(command):
            return self._invalid(
                f"{action[:60]!r} is not possible here. Expected a command such as 'go north' or "
                "'take knife from table'."
            )
        self.state.commands.append(command)
        return self._look(self._engine.score - before)

    def _look(self, gained: int) -> TimeStep:
        engine = self._engine
        assert engine is not None
        over = engine.won or engine.lost
        lines = [f"Goal: {self._goal(engine)}", engine.text]
        if over:
            lines.append("You have won." if engine.won else "You have lost.")
        feedback = [engine.said] if engine.said else []
        if gained:
            feedback.append(f"Your score goes up by {gained}.")
        key = hashlib.blake2b(engine.key.encode(), digest_size=16)
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": float(gained)},
            terminated=over,
            success=engine.won,
            progress=1.0 if engine.won else min(max(engine.score / max(engine.most, 1), 0.0), 1.0),
            admissible=() if over else tuple(engine.commands),
            state_key=key.hexdigest(),
            feedback="\n".join(feedback),
        )

    def _goal(self, engine: Facts | Compiled) -> str:
        if self._files:
            return str(engine.game.objective)
        if self.kind != "treasure":
            return self.goal
        from agentgym.envs.textworld.games import treasure_of

        return self.goal.format(treasure_of(engine.game))

    def _restored(self) -> None:
        """Replays the commands of the snapshot."""
        self._replay()

    def _replay(self) -> None:
        self._engine = self._open()
        for command in self.state.commands:
            self._engine.do(command)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()

    def expert(self) -> str | None:
        """Returns the next command of TextWorld's own solution, None if there is none.

        The solution knows the complete state. The expert still reads the cookbook, so that agents
        can learn from its demonstrations.
        """
        engine = self._engine
        if engine is None or self._over:
            return None
        read = "examine cookbook"
        if read in engine.commands and read not in self.state.commands:
            return read
        return next(iter(engine.policy()), None)


def check_mode(mode: str) -> None:
    """Raises ValueError for an unknown mode."""
    if mode not in ("easy", "medium", "hard"):
        raise ValueError(f"mode must be 'easy', 'medium' or 'hard', got {mode!r}.")
