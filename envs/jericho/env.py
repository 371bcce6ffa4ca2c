"""Jericho: story files of interactive fiction, from Zork to what one compiled oneself."""

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

from agentgym.core import TextEnv, TimeStep
from agentgym.errors import ConfigError, DataError, MissingExtraError
from agentgym.tasks import Tasks

SUFFIX = re.compile(r"\.z[1-8]")
END = re.compile(r"\*\*\*\s*([^*\n]{1,80}?)\s*\*\*\*")
"""How stories say that they are over: *** You have won ***."""
WON = re.compile(r"\bwon\b|\bthe end\b|victor", re.IGNORECASE)
PROMPT = re.compile(r"\n\s*>[^\n]*\Z")


@dataclass
class State:
    """The emulator's seed and what was said so far: it is said again to restore a snapshot."""

    seed: int
    commands: list[str] = field(default_factory=list)


class Jericho(TextEnv):
    """Play interactive fiction from a story file.

    ## Description
    Any story file for the Z-machine (.z1 to .z8), played by Jericho's emulator. Games that Jericho
    knows are scored; of others it can only be told whether they say that they are over.

    ## Action Space
    Text: what one types into such a game: `open mailbox`, `take lamp`, `go north`.

    ## Observation Space
    Text: what the game says; with `surroundings` also what it says to `look` and `inventory`.

    ## Rewards
    Term `task`: how much the game's score rises; in a game that Jericho does not know, 1 for
    an ending that sounds like a victory.

    ## Starting State
    The start of the story; the emulator's seed is drawn by the episode's.

    ## Episode End
    Termination: the game is over. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress`: the score / the largest. `admissible`: empty, or with
    `list_actions` what Jericho finds to change something. `state_key`: Jericho's, of
    the things in the world; of the emulator's whole memory for games it does not know.

    ## Arguments
    `rom`: the path of a story file, or a list of paths; of several files every fifth is for
    testing, a lone one for both. Without it a small game of TextWorld's is made and played.
    `surroundings`: see above, as in ArCHer's Detective; it takes no time in the game; default
    False. `list_actions`: default False; only for games that Jericho knows, needs spaCy's English
    model, and takes up to 0.1 s a turn. `max_turns`: default 60, as in ArCHer's Detective.

    ## Example Transcript
    ```
    -= Cookhouse =-
    You are in a cookhouse. ... There is an exit to the east.
    > go east
    ```

    ## Baselines
    None: what can be scored depends on the story. The small game of TextWorld's is won in five
    commands, which its first text tells. Speed: 1,200 steps/s on one core.

    ## Registered Configurations
    `Jericho-v0`: without `rom`.

    ## References
    Interactive Fiction Games: A Colossal Adventure (arXiv 1909.05398); ArCHer (arXiv 2402.19446)
    for Detective. Comes with the extra `textworld`; stories are not included. Snapshots are
    restored by saying the commands again, which takes 0.2 ms each.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You play a text adventure. Each turn, say a short command, such as: look; inventory; go "
        "north; take lamp; open door; put coin in box; examine letter. Explore, solve what the "
        "story asks of you, and score as many points as you can."
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
        """Starts the story anew and returns what it says."""
        jericho: Any = importlib.import_module("jericho")
        path = str(self._paths[self.task])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it does not know a game
            self._game = jericho.FrotzEnv(path, seed=self.state.seed)
            said, _ = self._game.reset()
        return said

    def _advance(self, action: str) -> TimeStep:
        # The emulator reads the characters of old stories and no more than 198 of them.
        command = "".join(c for c in action[:150] if " " <= c <= "~").strip()
        if not command:
            return self._invalid("Say a command of letters, such as: look.")
        said, gained, over, _ = self._game.step(command)
        self.state.commands.append(command)
        return self._look(said, int(gained), bool(over))

    def _look(self, said: str, gained: int, over: bool) -> TimeStep:
        game = self._game
        known = bool(game.is_fully_supported)
        ending = END.search(said) if self.state.commands else None
        won = bool(game.victory()) if known else ending is not None and bool(WON.search(ending[1]))
        over = over or (not known and ending is not None)
        most = game.get_max_score() if known else 1
        score = game.get_score() if known else int(won)
        listed: tuple[str, ...] = ()
        if self.list_actions and known and not over:
            listed = tuple(sorted(set(game.get_valid_actions(use_parallel=False))))
        text, feedback = _cleaned(said), ""
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
        """What the story says to `look` and `inventory`, which it then forgets."""
        before = self._game.get_state()
        said = [_cleaned(self._game.step(command)[0]) for command in ("look", "inventory")]
        self._game.set_state(before)
        return "\n".join(said)

    def _restored(self) -> None:
        """Plays the commands of the snapshot again."""
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


def _cleaned(said: str) -> str:
    return PROMPT.sub("", said).strip() or "(The story says nothing.)"


def _memory_key(game: Any) -> str:
    """A key of the emulator's memory: of a game that Jericho knows nothing else about."""
    return hashlib.blake2b(game.get_state()[0].tobytes(), digest_size=16).hexdigest()


def _checked(rom: str | Sequence[str]) -> list[Path]:
    """The story files, if they are there and look like some."""
    paths = [Path(path) for path in ([rom] if isinstance(rom, str) else rom)]
    if not paths:
        raise ConfigError("rom must name at least one story file.")
    for path in paths:
        if not path.is_file():
            raise DataError(f"There is no story file {str(path)!r}.")
        version = path.read_bytes()[:1]
        if not SUFFIX.fullmatch(path.suffix.lower()) or not b"\1" <= version <= b"\10":
            raise DataError(f"{str(path)!r} is no story file for the Z-machine (.z1 to .z8).")
    return paths


def _small_game() -> Path:
    """A game made with TextWorld, for whoever has no story file at hand."""
    if importlib.util.find_spec("textworld") is None:
        raise ConfigError(
            "Jericho-v0 needs a story file: rom='path/to/story.z5'. With the extra 'textworld' it "
            "makes a small one itself."
        )
    from agentgym.envs.textworld.games import kept

    return kept("coin", {"mode": "easy", "quest_length": 5}, 0, True)
