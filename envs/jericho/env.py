"""Jericho: interactive fiction from Z-machine story files."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, DataError, MissingExtraError
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

SUFFIX = re.compile(r"\.z[1-8]")
END = re.compile(r"\*\*\*\s*([^*\n]{1,80}?)\s*\*\*\*")
"""The usual last line of a story: *** You have won ***."""
WON = re.compile(r"\bwon\b|\bthe end\b|victor", re.IGNORECASE)
PROMPT = re.compile(r"\n\s*>[^\n]*\Z")


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
    Text: a game command, for example `open mailbox`, `take lamp` or `go north`. Only the printable
    ASCII characters among the first 150 are used.

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
    - Truncation: after `max_turns` commands.

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
        train = {f"train/{i}/{path.stem}": path for i, path in named if i % 5 or lone}
        test = {f"test/{i}/{path.stem}": path for i, path in named if i % 5 == 0}
        self._paths = {**train, **test}
        self.tasks = Tasks(tuple(train), tuple(test))
        self.surroundings, self.list_actions = surroundings, list_actions
        self._game: Any = None

    def _start(self, task: str) -> TimeStep:
        self.state = State(int(self.np_random.integers(1, 2**15)))
        return self._look(self._open(), 0, False)

    def _open(self) -> str:
        """Restarts the story and returns its first text."""
        jericho: Any = importlib.import_module("jericho")
        path = str(self._paths[self.task])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about unsupported games
            self._game = jericho.FrotzEnv(path, seed=self.state.seed)
            text, _ = self._game.reset()
        return text

    def _advance(self, action: str) -> TimeStep:
        # The emulator accepts the characters of old stories, and at most 198 of them.
        command = "".join(c for c in action[:150] if " " <= c <= "~").strip()
        if not command:
            return self._invalid("Answer with a short command, for example: look.")
        response, gained, over, _ = self._game.step(command)
        self.state.commands.append(command)
        return self._look(response, int(gained), bool(over))

    def _look(self, response: str, gained: int, over: bool) -> TimeStep:
        game = self._game
        known = bool(game.is_fully_supported)
        ending = END.search(response) if self.state.commands else None
        won = bool(game.victory()) if known else ending is not None and bool(WON.search(ending[1]))
        over = over or (not known and ending is not None)
        most = game.get_max_score() if known else 1
        score = game.get_score() if known else int(won)
        listed: tuple[str, ...] = ()
        if self.list_actions and known and not over:
            listed = tuple(sorted(set(game.get_valid_actions(use_parallel=False))))
        text, feedback = _cleaned(response), ""
        if self.surroundings and not over:
            text, feedback = self._around(), text
        return TimeStep(
            text=text,
            feedback=feedback,
            rewards={"task": float(gained if known else won)},
            terminated=over,
            success=won,
            progress=1.0 if won else min(max(score / max(most, 1), 0.0), 1.0),
            admissible=listed,
            state_key=game.get_world_state_hash() if known else _memory_key(game),
        )

    def _around(self) -> str:
        """Returns the responses to `look` and `inventory`, and undoes both commands."""
        before = self._game.get_state()
        texts = [_cleaned(self._game.step(command)[0]) for command in ("look", "inventory")]
        self._game.set_state(before)
        return "\n".join(texts)

    def _restored(self) -> None:
        """Replays the commands of the snapshot."""
        self._replay()

    def _replay(self) -> None:
        self._open()
        for command in self.state.commands:
            self._game.step(command)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_game": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "state"):
            self._replay()


def _cleaned(response: str) -> str:
    return PROMPT.sub("", response).strip() or "(No response.)"


def _memory_key(game: Any) -> str:
    """Returns a hash of the emulator's memory, for games that Jericho does not support."""
    return hashlib.blake2b(game.get_state()[0].tobytes(), digest_size=16).hexdigest()


def _checked(rom: str | Sequence[str]) -> list[Path]:
    """Returns the paths of the story files, or raises an error if one is missing or invalid."""
    paths = [Path(path) for path in ([rom] if isinstance(rom, str) else rom)]
    if not paths:
        raise ConfigError("rom must name at least one story file.")
    for path in paths:
        if not path.is_file():
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
