"""Settings in a YAML file, or in the folder of a run, as flags of `agentgym train`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from agentgym.errors import ConfigError
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.effects import settings_of_file, unknown_setting
from agentgym.trainers.settings.schema import Setting, settings_of

if TYPE_CHECKING:
    import yaml

_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?(0|[1-9]\d*)$",
    "tag:yaml.org,2002:float": (
        r"([-+]?(\.\d+|(0|[1-9]\d*)(\.\d*)?)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}
"""The numbers of a file by their tags, whole numbers first."""


def flags_of_file(
    kind: type[TrainConfig], recipe: str, path: Path, *, resume: bool = False
) -> dict[str, list[str]]:
    """Returns the settings of a YAML file, or of a run's folder or `config.json`, as flags by name.

    Args:
        kind: the type of the settings.
        recipe: name of the recipe.
        path: the file or folder.
        resume: whether a run is to be continued. Then `run_dir` is the folder of the run.

    Raises:
        ConfigError: if it cannot be read, names an unknown setting or is of another recipe.
    """
    import yaml

    if folder := path.is_dir():
        path /= "config.json"
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), _loader())
    except OSError as error:
        where = "" if path.is_absolute() else f" in the folder {str(Path.cwd())!r}"
        raise ConfigError(
            f"Cannot read the settings in {str(path)!r}: {error.strerror}{where}."
        ) from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read the settings in {str(path)!r}: {error}") from error
    run = found.get("config") if isinstance(found, dict) else None
    # Else a damaged run would go on as a new one, with the defaults.
    if not isinstance(run, dict) and (folder or (found is None and path.suffix == ".json")):
        raise ConfigError(
            f"{path} holds no settings of a run: it is damaged, or of something else. Name the "
            "folder of another run, or a file with settings."
        )
    found = {} if found is None else found
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold `name: value` lines, got {type(found).__name__}.")
    if isinstance(run, dict):
        found = dict(run)
        if (own := found.pop("recipe", recipe)) != recipe:
            raise ConfigError(f"{path} is of a run of {own}: use `agentgym train {own}`.")
        found.pop("resume", None)  # of an older version: the command decides
        if resume:  # the folder of the file may have a template as its name, or have moved
            found["run_dir"] = str(path.parent).replace("{", "{{").replace("}", "}}")
    known = settings_of(kind)
    flags = {}
    for key, value in settings_of_file(kind, _by_name(path, found)).items():
        if key not in known:
            raise ConfigError(f"{path} sets {key!r}: {unknown_setting(kind, key)}")
        flags[key] = _flag(f"{path} sets {key!r}", known[key], value)
    return flags


def _by_name(path: Path, found: Mapping[Any, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in found.items():
        if (name := str(key).replace("-", "_")) in named:
            raise ConfigError(
                f"Cannot read the settings in {str(path)!r}: {name!r} is given twice."
            )
        named[name] = value
    return named


def _flag(setting: str, known: Setting, value: Any) -> list[str]:
    """Returns the value of a setting in a file as words of a command line.

    Args:
        setting: names the setting, for messages.
        known: the setting.
        value: its value.
    """
    flag, default = known.name.replace("_", "-"), known.default
    if default is not None and isinstance(default, bool) != isinstance(value, bool):
        choices = "of true or false" if isinstance(default, bool) else f"such as {default!r}"
        raise ConfigError(f"{setting} to {value!r}, expected a value {choices}.")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    words = _words(setting, value, optional=takes_none(known.hint))
    return [f"--{flag}={words[0]}", *words[1:]] if words else [f"--{flag}"]


def _loader() -> type[yaml.SafeLoader]:
    """Returns a loader that refuses a name that is given twice, which YAML forbids.

    Its numbers are those of JSON and of the command line: for PyYAML, 1e-5 is a text, 010 is 8, and
    1:30 is 90.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [key.value for key, _ in node.value]
            if twice := [name for name in names if names.count(name) > 1]:
                raise yaml.YAMLError(f"{twice[0]!r} is given twice.")
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] not in _NUMBERS]
        for first, pairs in Loader.yaml_implicit_resolvers.items()
    }
    for tag, pattern in _NUMBERS.items():
        Loader.add_implicit_resolver(tag, re.compile(pattern), list("-+.0123456789"))
    return Loader


def takes_none(hint: Any) -> bool:
    """Returns whether None is a value of a type."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return type(None) in get_args(hint)


def _words(setting: str, value: Any, *, optional: bool) -> list[str]:
    """Returns the value of a setting in a file as words of a command line.

    Args:
        setting: names the setting, for messages.
        value: its value.
        optional: whether None is a value that it takes.

    Raises:
        ConfigError: for a value that a command line cannot hold.
    """
    items = value if isinstance(value, list) else [value]
    if None in items and (items is value or not optional):
        given = "a list with null" if items is value else "null: leave the line out for the default"
        raise ConfigError(f"{setting} to {given}.")
    if any(isinstance(item, str) and item.startswith("-") for item in items[1:]):
        given = ", ".join(map(repr, items))
        raise ConfigError(f"{setting} to {given}: only the first value may begin with a dash.")
    try:
        if isinstance(value, dict):  # as JSON, so that a text of digits stays a text
            return [f"{key}={json.dumps(item)}" for key, item in value.items()]
        return [_word(item) for item in items]
    except TypeError as error:
        raise ConfigError(
            f"{setting} to {value}, which is no text, number or list, but perhaps a date: put "
            "texts in quotes."
        ) from error


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "None" if value is None else json.dumps(value)
