"""Access to the project for the documentation: environments, recipes, measured results.

Everything that the page generators import from the package is imported here.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from agentgym.cli.catalogue import describe as describe
from agentgym.errors import AgentGymError, MissingExtraError
from agentgym.registration.entry import Entry
from agentgym.registration.families import FAMILIES, family_of
from agentgym.registration.ids import TABLE
from agentgym.registration.making import author_class
from agentgym.trainers import recipes
from agentgym.trainers.settings import settings_of
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.kinds import ActorCriticConfig
from benchmarks.figures import grid_tables as grid_tables

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
GOLDEN = ROOT / "tests" / "golden"


@functools.cache
def results(name: str) -> Any:
    """Returns the content of a results file, such as "baselines"."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class EnvironmentClass:
    """An environment class with its registered ids.

    Attributes:
        name: name of the class.
        family: name of its package under `agentgym.envs`.
        source: its module, relative to the root of the repository.
        doc: the class docstring.
        entries: its ids. The first one is the plain id.
        available: whether its module can be imported here.
        instructions: the class attribute of that name, if it is a string.
    """

    name: str
    family: str
    source: Path
    doc: str
    entries: tuple[Entry, ...]
    available: bool
    instructions: str | None = None

    @property
    def title(self) -> str:
        """The plain id without its version."""
        return re.sub(r"-v\d+$", "", self.entries[0].name)

    @property
    def page(self) -> str:
        """Path of its page in the site's sources."""
        return f"environments/{self.family}/{self.name}.md"

    def picture(self, suffix: str) -> str:
        """Returns the path of a picture in the site's sources: ".svg" or ".png"."""
        return self.page.removesuffix(".md") + suffix

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.doc.partition("\n")[0]


@functools.cache
def environment_classes() -> tuple[EnvironmentClass, ...]:
    """Returns all environment classes, ordered by family."""
    by_module: dict[str, list[Entry]] = {}
    for entry in TABLE:
        by_module.setdefault(entry.entry_point, []).append(entry)
    found = [_environment_class(tuple(entries)) for entries in by_module.values()]
    order = list(dict.fromkeys([*FAMILIES, *(cls.family for cls in found)]))
    return tuple(sorted(found, key=lambda cls: order.index(cls.family)))


def _environment_class(entries: tuple[Entry, ...]) -> EnvironmentClass:
    module = entries[0].entry_point.partition(":")[0]
    family, source = family_of(entries[0]), Path("envs", *module.split(".")[2:]).with_suffix(".py")
    try:
        cls = author_class(entries[0])
    except MissingExtraError:
        name, doc, instructions = _parse(ROOT / source, entries[0].entry_point.partition(":")[2])
        return EnvironmentClass(name, family, source, doc, entries, False, instructions)
    doc, instructions = inspect.getdoc(cls) or "", getattr(cls, "instructions", None)
    if not isinstance(instructions, str):
        instructions = None
    return EnvironmentClass(cls.__name__, family, source, doc, entries, True, instructions)


def _parse(file: Path, name: str) -> tuple[str, str, str | None]:
    """Returns name, docstring and literal instructions of a class without importing its module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = next(node for node in classes if node.name == name)
    instructions = None
    for node in found.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "instructions":
            try:
                instructions = str(ast.literal_eval(node.value))
            except ValueError:  # put together at run time
                instructions = None
    return name, ast.get_docstring(found) or "", instructions


def make(entry: Entry) -> Any:
    """Returns the environment of an id without Gymnasium's wrappers, or None if it cannot start.

    An environment of the user's files, or of an extra that is not installed, cannot.
    """
    try:
        return gymnasium.make(entry.id).unwrapped
    except MissingExtraError:
        return None
    except ImportError:
        if entry.extra is None:
            raise
        return None
    except AgentGymError:
        if not entry.files:
            raise
        return None


def arguments(entry: Entry) -> str:
    """Returns the keyword arguments of an id as written in Python."""
    return ", ".join(f"{key}={value!r}" for key, value in (entry.kwargs | entry.seat).items())


def golden_file(entry: Entry) -> Path:
    """Returns the file of the golden transcript of an id."""
    return GOLDEN / f"{entry.name}{'.aec' * entry.multi_agent}.txt"


# Recipes.


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of a recipe.

    Attributes:
        name: name of the field.
        group: name of its group, or "" for a setting outside the groups.
        default: the recipe's default.
        shared: the default that recipes have in common, or `MISSING` for a recipe's own setting.
        help: its description.
    """

    name: str
    group: str
    default: Any
    shared: Any
    help: str

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.name.replace("_", "-")


MISSING: Any = dataclasses.MISSING


def recipe_names() -> tuple[str, ...]:
    """Returns the names of all recipes."""
    return recipes.names()


def recipe_groups() -> dict[str, list[str]]:
    """Returns the names of the recipes by the source of their credit, as in the overview."""
    text = (ROOT / "docs" / "overview.md").read_text(encoding="utf-8")
    rows = text.partition("| credit from | recipes |")[2].partition("\n\n")[0].split("\n")[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {title: re.findall(r"`(\w+)`", listed) for title, listed in cells}


def recipe_module(name: str) -> Any:
    """Returns the module of a recipe, which has `Config` and a docstring."""
    return recipes.load(name)


def recipe_source(name: str) -> Path:
    """Returns the module's file, relative to the root of the repository."""
    file = inspect.getsourcefile(recipe_module(name))
    assert file is not None
    return Path(file).resolve().relative_to(ROOT)


def shared_settings() -> list[Setting]:
    """Returns the settings of recipes with a critic, which are those that recipes share."""
    return [
        Setting(name, each.group, value, value, each.help)
        for name, each, value in _settings(ActorCriticConfig)
    ]


def recipe_settings(name: str) -> list[Setting]:
    """Returns all settings of a recipe, with nested groups flattened."""
    shared = {name: value for name, _, value in _settings(ActorCriticConfig)}
    return [
        Setting(field, each.group, value, shared.get(field, MISSING), each.help)
        for field, each, value in _settings(recipe_module(name).Config)
    ]


def _settings(kind: type[TrainConfig]) -> Iterator[tuple[str, Any, Any]]:
    """Yields (name, setting, default) of every setting of a configuration class."""
    defaults = kind().values()
    for name, setting in settings_of(kind).items():
        yield name, setting, defaults[name]


# Wrappers.


def wrappers() -> dict[str, type]:
    """Returns the public wrappers by name."""
    module = importlib.import_module("agentgym.wrappers")
    public = {name: getattr(module, name) for name in module.__all__}
    return {name: cls for name, cls in public.items() if issubclass(cls, gymnasium.Wrapper)}
