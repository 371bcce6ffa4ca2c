"""Jericho: interactive fiction from Z-machine story files."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agentgym.core import TextEnv
from agentgym.envs.jericho.emulator import Emulator, EmulatorFailed, EmulatorStopped
from agentgym.errors import ConfigError, DataError, MissingExtraError
from agentgym.tasks import Tasks, warn_not_held_out
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import bare

SUFFIX = re.compile(r"\.z[1-8]")
WON = re.compile(r"\bwon\b|\bthe end\b|victor", re.IGNORECASE)
PROMPT = re.compile(r"\n\s*>[^\n]*\Z")
LONGEST = 150
"""Characters of a command. The emulator accepts at most 198."""


@dataclass
class State:
    """The emulator's seed and the commands so far, which are replayed to restore a snapshot."""

    seed: int
    commands: list[str] = field(default_factory=list)


class Jericho(TextEnv):
    """Play interactive fiction from a Z-machine story file.

    ## Description
    Any story file for the Z-machine (.z1 to .z8), run by Jericho's emulator. Games that Jericho
    supports are scored. For other games, only an ending can be detected.

    ## Action Space
    Text: a game command, for example `open mailbox`, `take lamp` or `go north`: up to 150 printable
    ASCII characters, without backslashes, which start commands of the emulator itself. Anything
    else is an invalid action.

    ## Observation Space
    Text: the game's response, or with `surroundings` the responses to `look` and `inventory`, with
    the response to the command before them.

    ## Rewards
    Term `task`: the increase of the game's score. In a game that Jericho does not support, 1 for an
    ending that reads like a victory.

    ## Starting State
    The start of the story. The emulator's seed is sampled from the episode's generator. Few starts
    exist, one per story, and with a single story the splits share it.

    ## Episode End
    - Termination: the game is over.
    - Truncation: after `max_turns` commands, or after a command that the emulator does not finish
      within 30 seconds. It runs in a separate process, which is then killed.

    ## Information
    The common keys.
    - `progress`: the score divided by the maximum score.
    - `admissible`: empty, or with `list_actions` the commands that Jericho finds to change the
      world.
    - `state_key`: Jericho's hash of the objects in the world. For unsupported games, a hash of the
      emulator's memory.

    ## Arguments
    - `rom` (str, list of str or None, default None): path or paths of story files. Of several
      files, every fifth is for testing. A single file serves both splits. If None, a small
      TextWorld game is generated.
    - `surroundings` (bool, default False): observe `look` and `inventory` every turn, as in
      ArCHer's Detective. This takes no time in the game.
    - `list_actions` (bool, default False): list admissible actions. Works only for supported games,
      requires spaCy's English model, and makes a turn much slower.
    - `max_turns` (int or None, default 60, as in ArCHer's Detective): commands before truncation.

    ## Notes
    - There is no expert and no general baseline, because scores depend on the story. The generated
      TextWorld game can be solved in five commands, which its first observation describes.
    - A snapshot is restored by replaying all commands.

    ## References
    - Interactive Fiction Games: A Colossal Adventure (arXiv 1909.05398).
    - ArCHer (arXiv 2402.19446), for Detective.
    - Jericho comes with the extra `textworld`. Stories are not included.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You play a text adventure. Explore the world, solve the tasks of the story and score as "
        "many points as you can.\n"
        "Answer with exactly one short command, for example:\n"
        "- look, inventory\n"
        "- go north\n"
        "- take lamp, put coin in box\n"
        "- open door, examine letter\n"
        "Each increase of the game's score is rewarded. The episode ends when the story is over, "
        "or after too many commands."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "a single story is shared by the splits",
    }

    def __init__(
        self,
        *,
        rom: str | Sequence[str] | None = None,
        surroundings: bool = False,
        list_actions: bool = False,
        max_turns: int | None = 60,
        **kwargs,
    ):
        if importlib.util.find_spec("jericho") is None:
            raise MissingExtraError("Jericho", "textworld", "jericho")
        super().__init__(max_turns=max_turns, **kwargs)
        paths = [_small_game()] if rom is None else _checked(rom)
        named = list(enumerate(paths))
        lone = len(paths) == 1
        if lone and rom is not None:
            warn_not_held_out(f"{paths[0]} is the only story of training and tests")
        train = {f"train/{i}/{path.stem}": path for i, path in named if i % 5 or lone}
        test = {f"test/{i}/{path.stem}": path for i, path in named if i % 5 == 0}
        self._paths = {**train, **test}
        self.tasks = Tasks(tuple(train), tuple(test))
        self.surroundings, self.list_actions = surroundings, list_actions
        self._emulator: Emulator | None = None

    def _start(self, task: str) -> TimeStep:
        self.state = State(int(self.np_random.integers(1, 2**15)))
        try:
            return self._look(self._open())
        except EmulatorStopped as error:
            raise DataError(f"{str(self._paths[task])!r} cannot be started: {error}.") from error

    def _open(self) -> dict[str, Any]:
        """Starts the story, replays the commands so far, and returns the first text."""
        if self._emulator is None or not self._emulator.alive:
            self._emulator = Emulator()
        # Commands of a snapshot may hold any text.
        return self._ask(
            "open",
            path=str(self._paths[self.task]),
            seed=self.state.seed,
            commands=[command for command in map(_typed, self.state.commands) if command],
            listed=self.list_actions,
            around=self.surroundings,
        )

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._emulator is not None
        try:
            return self._emulator.ask(do, **arguments)
        except EmulatorFailed as error:
            raise DataError(f"Jericho cannot play {self.task!r}: {error}") from error

    def _advance(self, action: str) -> TimeStep:
        lines = bare(action).removeprefix("> ").splitlines()
        command = " ".join(lines[0].split()) if lines else ""
        if not command:
            return self._invalid("Answer with a short command, for example: look.")
        if len(lines) > 1:
            return self._invalid("Answer with one command on one line, for example: look.")
        if _typed(command) != command:
            long = len(command) > LONGEST
            problem = "The command is too long" if long else "A character cannot be typed"
            return self._invalid(
                f"{problem}: a command has at most {LONGEST} plain letters, digits and "
                "punctuation marks, for example: look."
            )
        try:
            if self._emulator is None or not self._emulator.alive:
                self._open()
            step = self._look(self._ask("step", command=command))
        except EmulatorStopped as error:
            self.turn_limit = self._turn + 1  # no game is left: the episode is truncated
            return self._invalid(f"The game has stopped, because {error} after this command.")
        self.state.commands.append(command)
        return step

    def _look(self, facts: dict[str, Any]) -> TimeStep:
        known, over = facts["known"], facts["over"]
        won = facts["won"] if known else WON.search(facts["ending"]) is not None
        most, score = (facts["most"], facts["score"]) if known else (1, int(won))
        shown, feedback = _cleaned(facts["text"]), ""
        if self.surroundings and not over:
            shown, feedback = "\n".join(map(_cleaned, facts["around"])), shown
        return TimeStep(
            text=shown,
            feedback=feedback,
            rewards={"task": float(facts["gained"] if known else won)},
            terminated=over,
            success=won,
            progress=1.0 if won else min(max(score / max(most, 1), 0.0), 1.0),
            admissible=tuple(facts["actions"]),
            state_key=facts["key"],
        )

    def _restored(self) -> None:
        """Replays the commands of the snapshot."""
        self._open()

    def close(self) -> None:
        """Ends the emulator."""
        if self._emulator is not None:
            self._emulator.close()
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the emulator: a copy replays the commands before its next one."""
        return {**self.__dict__, "_emulator": None}


def _typed(command: str) -> str:
    """Returns the characters that stories know. The emulator itself reads a backslash."""
    return "".join(c for c in command[:LONGEST] if " " <= c <= "~" and c != "\\").strip()


def _cleaned(response: str) -> str:
    return PROMPT.sub("", response).strip() or "(No response.)"


def _checked(rom: str | Sequence[str]) -> list[Path]:
    """Returns the paths of the story files, or raises an error if one is missing or invalid."""
    paths = [Path(path).absolute() for path in ([rom] if isinstance(rom, str) else rom)]
    if not paths:
        raise ConfigError("rom must name at least one story file.")
    for path in paths:
        if not os.path.isfile(path):
            raise DataError(f"There is no story file {str(path)!r}.")
        version = path.read_bytes()[:1]
        if not SUFFIX.fullmatch(path.suffix.lower()) or not b"\1" <= version <= b"\10":
            raise DataError(f"{str(path)!r} is not a Z-machine story file (.z1 to .z8).")
    return paths


def _small_game() -> Path:
    """Returns the path of a small game generated with TextWorld."""
    if importlib.util.find_spec("textworld") is None:
        raise ConfigError(
            "Jericho-v0 needs a story file: rom='path/to/story.z5'. With the extra 'textworld', a "
            "small game is generated instead."
        )
    from agentgym.envs.textworld.games import kept

    return kept("coin", {"mode": "easy", "quest_length": 5}, 0, True)
