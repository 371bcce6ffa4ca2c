"""Generated TextWorld games, kept in the user's cache, and the engines that play them.

Import this module only if TextWorld is installed.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import hashlib
import importlib
import json
import re
import warnings
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from textworld.challenges import (  # pyright: ignore[reportMissingImports]
    coin_collector,
    cooking,
    treasure_hunter,
)
from textworld.generator import (  # pyright: ignore[reportMissingImports]
    QuestGenerationError,
    compile_game,
)
from textworld.generator.data import KnowledgeBase  # pyright: ignore[reportMissingImports]
from textworld.generator.game import (  # pyright: ignore[reportMissingImports]
    Game,
    GameOptions,
    GameProgression,
)
from textworld.generator.inform7 import Inform7Game  # pyright: ignore[reportMissingImports]
from textworld.generator.maker import GameMaker  # pyright: ignore[reportMissingImports]

from agentgym.envs.textworld.words import Fact, describe, recipe
from agentgym.errors import ConfigError, DataError
from agentgym.utils.cache import built, cache_root
from agentgym.utils.file_cache import cached_by_files

textworld: Any = importlib.import_module("textworld")

FORMAT = 1  # raise with every change of the generated games: part of the cache key
ATTEMPTS = 50
MODES = ("easy", "medium", "hard")


def generate(kind: str, settings: dict[str, Any], seed: int) -> Game:
    """Returns the game of a kind ("cooking", "coin" or "treasure") and a seed."""
    for attempt in range(ATTEMPTS):
        options = GameOptions()
        options.seeds = (seed + attempt) % 2**31
        try:
            with _quiet():
                return _make(kind, settings, seed, options)
        except QuestGenerationError:
            continue  # some maps have no room for a quest of that length
    raise ConfigError(f"TextWorld found no {kind} game with {settings}: use a shorter quest.")


def _make(kind: str, settings: dict[str, Any], seed: int, options: GameOptions) -> Game:
    if kind == "cooking":
        whole: Any = {**settings, "recipe_seed": seed % 2**31}
        return cooking.make(whole, options)
    if kind == "coin":
        level = 100 * MODES.index(settings["mode"]) + settings["quest_length"]
        chosen: Any = {"level": level}
        return coin_collector.make(chosen, options)
    options.kb = _Parsed.load(treasure_hunter.KB_PATH)
    options.nb_rooms, options.quest_length = settings["rooms"], settings["quest_length"]
    return treasure_hunter.make_game(settings["mode"], options)


class _Parsed:
    """The rules and the grammars of folders, which are parsed once in a process."""

    @staticmethod
    def load(*args: str, **kwargs: str) -> KnowledgeBase:
        return copy.deepcopy(_parsed(args, tuple(kwargs.items())))


@cache
def _parsed(args: tuple[str, ...], kwargs: tuple[tuple[str, str], ...]) -> KnowledgeBase:
    return KnowledgeBase.load(*args, **dict(kwargs))


class _Maker(GameMaker):
    """Makes the games of TextWorld, without a compiler: it plays their solutions by their facts."""

    def set_walkthrough(self, commands: list[str]) -> None:
        """Tells each event of a quest the actions that lead to it."""
        game = Game.deserialize(self.build().serialize())
        progression, words = GameProgression(game), Inform7Game(game)
        events = {event: event.copy() for quest in self.quests for event in quest.win_events}
        awaited = [event for quest in progression.quest_progressions for event in quest.win_events]
        actions: list[Any] = [None]
        for count, command in enumerate(commands, 1):
            if progression.done:
                raise ValueError("Game has ended before finishing playing all commands.")
            before = [event.triggered for event in awaited]
            # Of several actions with this name, the engine takes the one with most conditions.
            valid = sorted(progression.valid_actions, key=lambda each: -len(each.preconditions))
            names = words.gen_commands_from_actions(valid)
            action = valid[names.index(command)] if command in names else None
            if action is not None:
                progression.update(action)
            actions.append(action or actions[-1])  # without an effect: the last one that had one
            for event, triggered in zip(awaited, before, strict=True):
                if event.triggered and not triggered:
                    events[event.event].actions = actions[1:]
                    events[event.event].commands = commands[:count]
        for event, found in events.items():
            event.actions, event.commands = found.actions, found.commands


class _TextWorld:
    """The package as the modules of the challenges see it."""

    GameMaker = _Maker

    def __getattr__(self, name: str) -> Any:
        return getattr(textworld, name)


# The same games, faster: the compiler takes half a second for each, parsing a quarter.
cooking.textworld = coin_collector.textworld = _TextWorld()
cooking.KnowledgeBase = coin_collector.KnowledgeBase = _Parsed


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences warnings about missing adjectives and games unknown to the emulator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kept(kind: str, settings: dict[str, Any], seed: int, compiled: bool) -> Path:
    """Returns the file of a generated game, created on the first call and kept in the cache."""
    key = json.dumps([FORMAT, textworld.__version__, kind, settings, seed, compiled])
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    target = cache_root() / "textworld" / f"{FORMAT}-{name}"

    def build(folder: Path) -> None:
        game = generate(kind, settings, seed)
        if compiled:
            options = GameOptions()
            options.path, options.file_ext = str(folder / "game.z8"), ".z8"
            compile_game(game, options)
            return
        data = json.dumps(game.serialize()).encode()
        (folder / "game.json.gz").write_bytes(gzip.compress(data, mtime=0))

    return built(target, build) / ("game.z8" if compiled else "game.json.gz")


@cached_by_files("path", maxsize=64)
def load(path: Path) -> Game:
    """Returns the game of a file (.json or .json.gz)."""
    try:
        data = path.read_bytes()
        return Game.deserialize(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{str(path)!r} is no TextWorld game: {error!r}") from error


@cached_by_files("path", maxsize=64)
def _start(path: Path) -> GameProgression:
    """Returns the start of a game, which nobody changes."""
    return GameProgression(load(path), track_quests=True)


@lru_cache(maxsize=512)
def _reached(start: GameProgression, commands: tuple[str, ...]) -> list[GameProgression]:
    """Returns a list for what is reached from the start, which nobody changes: empty at first.

    Searches, snapshots and repeated episodes reach the same again and again. Finding all actions
    that are possible there takes TextWorld milliseconds.
    """
    return []


def _copied(progression: GameProgression) -> GameProgression:
    """Returns a copy to be changed. TextWorld's own finds all actions first, and builds trees."""

    def event(each: Any) -> Any:
        found = copy.copy(each)
        if not each.done:
            found._tree = each._tree.copy()
        return found

    whole = copy.copy(progression)
    whole.state, whole.quest_progressions = progression.state.copy(), []
    for each in progression.quest_progressions:
        quest = copy.copy(each)
        quest.win_events = [*map(event, each.win_events)]
        quest.fail_events = [*map(event, each.fail_events)]
        whole.quest_progressions.append(quest)
    return whole


class Facts:
    """Plays a game by the facts of its world, without compiling it. The texts are our own.

    Args:
        path: the game's .json file.
    """

    def __init__(self, path: Path):
        self._start = self._progression = _start(path)
        self._commands: tuple[str, ...] = ()
        self.game = self._start.game
        self._inform = Inform7Game(self.game)
        self._names = {
            str(name): str(info.name) for name, info in self.game.infos.items() if info.name
        }
        self._read = False
        self._list()

    def _list(self) -> None:
        actions = list(self._progression.valid_actions)
        commands = self._inform.gen_commands_from_actions(actions)
        # Several actions may have the same name. They have the same effect.
        named = {str(c): action for c, action in zip(commands, actions, strict=True)}
        self._actions = dict(sorted(named.items(), key=lambda item: item[0]))

    def do(self, command: str) -> bool:
        """Executes a command if it is possible, and returns whether it was."""
        action = self._actions.get(command)
        if action is None:
            return False
        self._read = self._read or command == "examine cookbook"
        self._commands += (command,)
        reached = _reached(self._start, self._commands)
        if not reached:
            following = _copied(self._progression)
            following.update(action)
            reached.append(following)
        self._progression = reached[0]
        self._list()
        return True

    @property
    def commands(self) -> list[str]:
        """Commands that change the state, or reveal facts that the text leaves out."""
        idle = ("look", "inventory")
        return [
            command
            for command in self._actions
            if command not in idle
            and (not command.startswith("examine ") or command == "examine cookbook")
        ]

    @property
    def text(self) -> str:
        """The observation of the room, with the recipe after it was read."""
        text = describe(self.facts, self._names)
        ingredients = self.game.metadata.get("ingredients")
        return f"{text}\n{recipe(ingredients)}" if self._read and ingredients else text

    said = ""

    @property
    def facts(self) -> list[Fact]:
        """All facts of the world."""
        facts = self._progression.state.facts
        # Sampled names are NumPy strings if TextWorld generated the game in this process.
        return [(str(f.name), *(str(v.name) for v in f.arguments)) for f in facts]

    @property
    def key(self) -> str:
        """Equal iff the state is equal."""
        return repr((sorted(self.facts), self.score, self._read))

    @property
    def score(self) -> int:
        """Points so far."""
        return int(self._progression.score)

    @property
    def most(self) -> int:
        """Maximum number of points."""
        return int(self.game.max_score)

    @property
    def won(self) -> bool:
        """Whether the game is won."""
        return self._progression.completed

    @property
    def lost(self) -> bool:
        """Whether the game is lost."""
        return self._progression.failed

    def policy(self) -> list[str]:
        """Returns commands that win from the current state, empty if there are none."""
        policy = self._progression.winning_policy or []
        return [str(command) for command in self._inform.gen_commands_from_actions(policy)]


class Compiled:
    """Plays a compiled game with its original texts. TextWorld tracks the state.

    Args:
        path: the game's .z8 file, with its .json file beside it.
    """

    def __init__(self, path: Path):
        if not path.with_suffix(".json").exists():
            raise DataError(
                f"{str(path)!r} has no .json file beside it, so TextWorld did not create it. Play "
                "other story files with AgentGym/Jericho-v0."
            )
        wanted = ("description", "inventory", "admissible_commands", "score", "max_score", "won")
        infos = textworld.EnvInfos(
            **dict.fromkeys((*wanted, "lost", "policy_commands", "facts"), True)
        )
        with _quiet():
            self._env: Any = textworld.start(str(path), infos)
            self._state: Any = self._env.reset()
        self.said = ""
        self.game = load(path.with_suffix(".json"))
        self.commands: list[str] = list(self._state.admissible_commands)

    def do(self, command: str) -> bool:
        """Executes a command if it is admissible, and returns whether it was."""
        known = command in self.commands
        if not known:
            return False
        self._state, _, _ = self._env.step(command)
        # The story file adds a prompt and a status line.
        self.said = re.split(r"\n\s*>", self._state.feedback)[0].strip()
        self.commands = list(self._state.admissible_commands)
        return True

    @property
    def text(self) -> str:
        """The room and the inventory, in the game's words."""
        return f"{self._state.description.strip()}\n\n{self._state.inventory.strip()}"

    @property
    def key(self) -> str:
        """Equal iff the state is equal."""
        return repr((sorted(map(str, self._state.facts)), self.score))

    @property
    def score(self) -> int:
        """Points so far."""
        return int(self._state.score or 0)

    @property
    def most(self) -> int:
        """Maximum number of points."""
        return int(self._state.max_score or 1)

    @property
    def won(self) -> bool:
        """Whether the game is won."""
        return bool(self._state.won)

    @property
    def lost(self) -> bool:
        """Whether the game is lost."""
        return bool(self._state.lost)

    def policy(self) -> list[str]:
        """Returns commands that win from the current state, empty if there are none."""
        return list(self._state.policy_commands or [])


def treasure_of(game: Game) -> str:
    """Returns the name of the thing that wins a treasure hunt."""
    conditions = game.quests[0].win_events[0].condition.preconditions
    taken = next(c.arguments[0].name for c in conditions if c.name == "in")
    return str(game.infos[taken].name)
