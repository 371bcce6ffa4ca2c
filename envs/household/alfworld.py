"""ALFWorld: the original games, played by TextWorld."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import DataError, MissingExtraError, did_you_mean
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

FOLDERS = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "pick2": "pick_two_obj_and_place",
}
"""The beginning of the folder names of each family's games."""
FOLDER_VARIABLE = "ALFWORLD_DATA"
BANNER = "-= Welcome to TextWorld, ALFRED! =-"
PDDL, ZCODE = ".tw-pddl", ".z8"
_PUT = re.compile(r"put (.+) (?:in/on|in|on|into|onto) (.+)")


@dataclass
class State:
    """The executed commands of the episode, and the score."""

    commands: list[str] = field(default_factory=list)
    score: float = 0.0


def find_games(path: Path) -> dict[str, Path]:
    """Returns the games below a folder (or of a file) by name, selected as in ALFWorld.

    It skips unsolvable games, and games with sliced or movable things.

    Raises:
        DataError: if there is no game.
    """
    if path.is_file():
        return {path.name.removesuffix(PDDL).removesuffix(ZCODE): path}
    games = {}
    for file in sorted(path.rglob("*")):
        place = file.relative_to(path)
        odd = any("movable" in part or "Sliced" in part for part in place.parts)
        if file.name.endswith((PDDL, ZCODE)) and not odd and not unsolvable(file):
            name = place.parent if file.name == f"game{PDDL}" else place.with_suffix("")
            games[name.as_posix()] = file
    if not games:
        raise DataError(
            f"Expected games (*{PDDL} or *{ZCODE}) below {str(path)!r}, found none. Download those "
            "of ALFWorld with: pip install alfworld && alfworld-download"
        )
    return games


def unsolvable(file: Path) -> bool:
    """Returns whether a game is marked as unsolvable."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 65536))  # the mark follows the long texts
        return re.search(rb'"solvable":\s*false', stream.read()) is not None


def split_games(names: list[str], test_games: str) -> Tasks:
    """Returns the tasks: ALFWorld's splits if the folders exist, else the last tenth for tests."""
    train = tuple(name for name in names if name.startswith("train/"))
    test = tuple(name for name in names if name.startswith(f"{test_games}/"))
    if train or test:
        return Tasks(train or test, test or train)
    held_out = max(1, len(names) // 10)
    return Tasks(tuple(names[:-held_out] or names), tuple(names[-held_out:]))


def readable(ids: list[str]) -> dict[str, str]:
    """Returns ALFWorld's name of each object of a game: "mug 2"."""
    ids = sorted(ids)
    kinds = {id: id.split("_bar_")[0] + "basin" * ("basin" in id) for id in ids if "_bar_" in id}
    left = Counter(kinds.values())
    names = {}
    for id in ids:  # numbered backwards, as in ALFWorld
        names[id] = f"{kinds[id]} {left[kinds[id]]}" if id in kinds else id
        left.subtract([kinds.get(id, "")])
    return names


def clean(text: str) -> str:
    """Returns the output of a game without its banner and status line."""
    return re.sub(r"\n>[^\n]*\Z", "", text.replace(BANNER, "").rstrip()).strip()


def textworld() -> Any:
    """Imports TextWorld, which plays the games.

    Raises:
        MissingExtraError: if TextWorld or its planner is not installed.
    """
    try:
        importlib.import_module("fast_downward")
        return importlib.import_module("textworld")
    except ImportError as error:
        raise MissingExtraError("AgentGym/ALFWorld-v0", "alfworld", "textworld[pddl]") from error


@contextlib.contextmanager
def arguments_kept() -> Iterator[None]:
    """Restores `sys.argv`, which the planner's translator overwrites."""
    kept = list(sys.argv)
    try:
        yield
    finally:
        sys.argv[:] = kept


class ALFWorld(TextEnv):
    """The original games of ALFWorld, from your own files. Needs the extra `alfworld`.

    ## Description
    Household chores in text, as in the published results on ALFWorld: find, carry, clean, heat and
    cool things and put them somewhere, in rooms observed piece by piece. TextWorld plays the files
    that ALFWorld distributes. The files are not part of this package. `Household-v0` is the same
    game with generated homes. It needs no files and is much faster. Other games of TextWorld
    (`.z8`) can be played too.

    Play only files that you trust: TextWorld evaluates expressions in the texts of a game as
    Python.

    ## Action Space
    Text: the commands of the game.

    - `go to desk 1`
    - `open drawer 2`, `close drawer 2`
    - `take mug 1 from desk 1`
    - `move mug 1 to shelf 2` (or `put mug 1 in/on shelf 2`)
    - `clean mug 1 with sinkbasin 1`, `heat mug 1 with microwave 1`, `cool mug 1 with fridge 1`
    - `use desklamp 1`, `examine mug 1`, `inventory`, `look`, `help`

    ## Observation Space
    Text: the output of the game, and the task.

    ## Rewards
    Term `task`: the increase of the score as a share of the maximum score. The sum over a game that
    is won is 1.

    ## Starting State
    The start of the game. A task is a game, named by its folder:
    `train/pick_and_place_simple-.../trial_...`.

    ## Episode End
    - Termination: the game is won or lost.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the maximum score. `state_key` is a digest of all
    facts of the game (of the text for `.z8`). Commands that are not admissible are invalid and
    change nothing. In `.z8` games all commands are valid.

    ## Arguments
    - `path` (path, default None): a game, or a folder with games (such as ALFWorld's
      `json_2.1.1`). None: the folder in the environment variable ALFWORLD_DATA. Folders without
      `train` keep their last tenth for testing.
    - `test_games` (str, default "valid_seen"): "valid_seen" or "valid_unseen".
    - `family` (str, default "all"): "all", "pick", "look", "clean", "heat", "cool" or "pick2".
    - `max_turns` (int or None, default 50): turn limit.

    ## Notes
    The expert is the planner of the game, which knows the complete state.

    ## References
    ALFWorld (arXiv 2010.03768), ALFRED (arXiv 1912.01734), TextWorld (arXiv 1806.11532). Things are
    numbered as in ALFWorld without its shuffling.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a room with numbered receptacles and things. Do the task that the observation "
        "names.\n"
        "\n"
        "Rules:\n"
        "- You see only the things in or on the receptacle where you are. Go to other receptacles "
        "to search them, and open the closed ones.\n"
        "- You can hold one thing at a time.\n"
        "- Hold a thing to clean it at a sinkbasin, heat it at a microwave or cool it at a "
        "fridge.\n"
        "- To look at a thing under a lamp, hold it, go to the lamp and use the lamp.\n"
        "- The game ends when the task is done or you run out of turns.\n"
        "\n"
        "Commands, with the numbers of things and receptacles:\n"
        "- go to desk 1\n"
        "- open drawer 2\n"
        "- close drawer 2\n"
        "- take mug 1 from desk 1\n"
        "- move mug 1 to shelf 2\n"
        "- clean mug 1 with sinkbasin 1\n"
        "- heat mug 1 with microwave 1\n"
        "- cool mug 1 with fridge 1\n"
        "- use desklamp 1\n"
        "- examine mug 1\n"
        "- inventory\n"
        "- look\n"
        "- help\n"
        "\n"
        "Reply with exactly one command per turn."
    )
    State = State

    def __init__(
        self,
        *,
        path: str | os.PathLike[str] | None = None,
        test_games: str = "valid_seen",
        family: str = "all",
        max_turns: int | None = 50,
        **kwargs: Any,
    ):
        textworld()  # before looking for games to play with it
        if test_games not in ("valid_seen", "valid_unseen"):
            raise ValueError(
                f"test_games must be 'valid_seen' or 'valid_unseen', got {test_games!r}."
            )
        if family not in ("all", *FOLDERS):
            hint = did_you_mean(family, ("all", *FOLDERS))
            known = ", ".join(("all", *FOLDERS))
            raise ValueError(f"family must be one of {known}, got {family!r}.{hint}")
        super().__init__(max_turns=max_turns, **kwargs)
        self.games = find_games(where(path))
        names = [name for name in self.games if FOLDERS.get(family, "") in name]
        if not names:
            raise DataError(f"None of the {len(self.games)} games is of the family {family!r}.")
        self.tasks = split_games(names, test_games)
        self._engine: Any = None
        self._loaded = ""
        self._played: tuple[str, list[str]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_played": None}

    # The engine plays one game at a time. Another game is opened again and replayed.

    def _open(self, task: str) -> Any:
        """Returns the first state of a game."""
        file = self.games[task]
        pddl = file.name.endswith(PDDL)
        with arguments_kept():
            if self._engine is None or not (pddl and self._loaded.endswith(PDDL)):
                wanted = ("won", "lost", "score", "max_score", "admissible_commands", "feedback")
                infos = textworld().EnvInfos(**dict.fromkeys(wanted, True))
                if pddl:
                    self._engine = textworld().envs.PddlEnv(infos)
                else:
                    self._engine = textworld().start(str(file), infos)
                    self._engine.seed(0)
                self._loaded = ""
            if pddl and str(file) != self._loaded:  # one engine for all games
                self._engine.load(json.loads(file.read_text(encoding="utf-8")))
            self._loaded = str(file)
            if pddl:
                entities = self._engine._entity_infos
                for id, name in readable(list(entities)).items():
                    entities[id].name = name
            game = self._engine.reset()
        self._played = (task, [])
        self._first = game
        return game

    def _catch_up(self) -> None:
        """Brings the engine to the current state."""
        if self._played != (self.task, self.state.commands):
            self._open(self.task)
            for command in self.state.commands:
                self._engine.step(command)
            self._played = (self.task, list(self.state.commands))

    # The rules.

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        game = self._open(task)
        return self._told(game, clean(game.feedback))

    def _advance(self, action: str) -> TimeStep:
        assert self._last is not None
        command = self._command(action)
        if not command:
            return self._invalid("Nothing happens.")
        self._catch_up()
        game = self._engine.step(command)[0]
        self.state.commands.append(command)
        self._played = (self.task, list(self.state.commands))
        return self._told(game, f"{clean(game.feedback)}{self._goal()}")

    def _command(self, action: str) -> str:
        """Returns the command in an action, "" if there is none."""
        command = " ".join(action.split()) if len(action) <= 500 else ""
        if not command.isascii() or not command.isprintable():
            return ""
        assert self._last is not None
        possible = self._last.admissible
        if not self.games[self.task].name.endswith(PDDL):
            return command
        command = command.lower()
        moved = _PUT.fullmatch(command)
        if command not in possible and moved:
            command = f"move {moved[1]} to {moved[2]}"
        return command if command in possible else ""

    def _goal(self) -> str:
        """Returns the task from the first text of the game, as a last line."""
        found = re.search(r"Your task is to: .*", self._first.feedback)
        return f"\n\n{found[0]}" if found else ""

    def _told(self, game: Any, text: str) -> TimeStep:
        highest = float(game.get("max_score") or 1)
        gain = float(game.get("score") or 0) - self.state.score
        self.state.score += gain
        won, lost = bool(game.get("won")), bool(game.get("lost"))
        return TimeStep(
            text=text,
            rewards={"task": gain / highest},
            terminated=won or lost,
            success=won,
            progress=min(1.0, max(0.0, self.state.score / highest)),
            admissible=() if won or lost else tuple(game.get("admissible_commands") or ()),
            state_key=self._key(game),
        )

    def _key(self, game: Any) -> str:
        """Returns a digest of all facts, except for the agent's memory."""
        facts = game.get("_facts") if self._loaded.endswith(PDDL) else None
        if facts is None:
            return ""
        true = sorted(str(f) for f in facts if not f.name.startswith(("not_", "checked")))
        return hashlib.sha256("\n".join([self.task, *true]).encode()).hexdigest()[:32]

    def expert(self) -> str | None:
        """Returns the first command of the planner's solution, None if it finds none."""
        assert self._last is not None
        if self._last.terminated or not self.games[self.task].name.endswith(PDDL):
            return None
        self._catch_up()
        plan = self._engine._pddl_state.replan(self._engine._entity_infos)
        return plan[0] if plan else None


def where(path: str | os.PathLike[str] | None) -> Path:
    """Returns the folder or file with the games.

    Raises:
        DataError: if it does not exist, or no path is given.
    """
    given = path if path is not None else os.environ.get(FOLDER_VARIABLE)
    if given is None:
        raise DataError(
            "ALFWorld-v0 plays the games of ALFWorld, which are not part of AgentGym. Download "
            "them (pip install alfworld && alfworld-download) and pass their folder as path=..., "
            f"or set the environment variable {FOLDER_VARIABLE}. Household-v0 needs no files."
        )
    found = Path(given)
    if not os.path.exists(found):
        raise DataError(f"Expected ALFWorld's games at {str(found)!r}, which does not exist.")
    inner = found / "json_2.1.1"
    return inner if inner.is_dir() else found
