"""`agentgym train RECIPE`: settings from a file and from flags, and the exit code of a run.

The flags are the fields of the recipe's `Config`, flat, and grouped in the help text. `--config
FILE` (YAML, or the folder of a run) replaces defaults, and flags replace both. `python -m
agentgym.trainers RECIPE` is the same command.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import tyro

from agentgym.cli.errors import plain_errors
from agentgym.errors import AgentGymError, ConfigError, did_you_mean
from agentgym.trainers import recipes
from agentgym.utils.masking import masked_text

if TYPE_CHECKING:  # the list of recipes needs no torch
    import yaml

    from agentgym.trainers.settings.config import TrainConfig

_ONE_AT_A_TIME = threading.Lock()
"""tyro empties a cache of its own after each command line."""

# Names of settings in other libraries, for suggestions.
_ALIASES = {
    "learning_rate": "lr",
    "n_epochs": "epochs",
    "num_train_epochs": "epochs",
    "batch_size": "episodes_per_iteration",
    "num_generations": "group_size",
    "clip_range": "clip",
    "cliprange": "clip",
    "ent_coef": "entropy_coef",
    "vf_coef": "value_coef",
    "gae_lambda": "lambda_turn",
    "total_timesteps": "env_steps",
    "max_steps": "iterations",
    "env": "env_id",
    "model_name_or_path": "model",
    "output_dir": "run_dir",
    "lora_r": "lora_rank",
}


def main(argv: Sequence[str]) -> int:
    """Runs `agentgym train` and returns the exit code.

    Args:
        argv: the name of a recipe and its flags. Without a name, the recipes are listed.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0
    recipe, flags = argv[0], argv[1:]
    try:
        if recipe.startswith("-"):
            raise ConfigError(
                "Name a recipe before the options, as in `agentgym train poad "
                f"{recipe} ...`. `agentgym train` lists the recipes."
            )
        config = read_config(recipe, flags)
    except (AgentGymError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    import torch

    from agentgym.trainers.api import train
    from agentgym.trainers.system.signals import Interrupted
    from agentgym.trainers.update.updater import Diverged

    try:
        train(recipe, config)
    except Interrupted as interrupted:
        notes = getattr(interrupted, "__notes__", ())
        print(*notes, _continuation(recipe, flags, config), sep="\n", file=sys.stderr)
        return 128 + int(interrupted.args[0])
    except KeyboardInterrupt:
        note = "Stopped immediately. --resume continues from the last checkpoint."
        print(note, _continuation(recipe, flags, config), sep="\n", file=sys.stderr)
        return 128 + signal.SIGINT
    except (Diverged, torch.OutOfMemoryError) as error:
        print(f"error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        note = "Make room, and continue from the last checkpoint:"
        command = _continuation(recipe, flags, config)
        print(f"error: {error}", note, command, sep="\n", file=sys.stderr)
        return 1
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _continuation(recipe: str, flags: Sequence[str], config: TrainConfig) -> str:
    """Returns the command that continues a run, as far as this process knows how it was started."""
    added = [] if "--resume" in flags else ["--resume"]
    given = {flag.partition("=")[0].replace("_", "-") for flag in flags}
    if added and "--config" in given and "--run-dir" not in given:
        added = ["--run-dir", config.run.run_dir, *added]  # not the folder of the file
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        return f"Start all processes again with {shlex.join(added or ['--resume'])}."
    given_flags = [masked_text(flag) for flag in flags]
    return f"  {shlex.join(['agentgym', 'train', recipe, *given_flags, *added])}"


def overview() -> str:
    """Returns the list of recipes, shown if no recipe is given."""
    width = max(map(len, recipes.names())) + 2
    lines = [f"  {name:{width}}{recipes.summary(name)}" for name in recipes.names()]
    usage = "usage: agentgym train RECIPE [OPTIONS]"
    notes = [
        "`agentgym train RECIPE --help` shows every setting. The name of your own recipe is the",
        "import path of its module: `agentgym train my_lab.my_recipe`.",
    ]
    return "\n".join([usage, "", *lines, "", *notes])


def read_config(recipe: str, argv: Sequence[str]) -> Any:
    """Returns the settings of a file (`--config FILE`) and of flags, which take precedence.

    Raises:
        ConfigError: if the recipe, the file or a value is wrong.
        SystemExit: after the help text or a wrong flag.
    """
    kind = recipes.load(recipe).Config
    if "--" in argv:  # it ends the flags, and the values before it
        raise ConfigError(
            "'--' alone is no value: a value that begins with a dash is the first one and follows "
            "an equals sign, as in --stop=--."
        )
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", type=Path)
    found, flags = finder.parse_known_args(list(argv))
    if found.config is not None:
        resume = "--resume" in flags
        flags = [*flags_of_file(kind, recipe, found.config, resume=resume), *flags]
    with _ONE_AT_A_TIME, plain_errors():
        return tyro.cli(
            kind,
            prog=f"agentgym train {recipe}",
            description=f"{recipes.summary(recipe)} `--config FILE` reads settings from YAML, or "
            "from the folder of a run.",
            args=flags,
            config=(tyro.conf.OmitArgPrefixes,),
        )


def flags_of_file(
    kind: type[TrainConfig], recipe: str, path: Path, *, resume: bool = False
) -> list[str]:
    """Returns the settings of a YAML file, or of a run's folder or `config.json`, as flags.

    Args:
        kind: the type of the settings.
        recipe: name of the recipe.
        path: the file or folder.
        resume: whether a run is to be continued. Then `run_dir` is the folder of the run.

    Raises:
        ConfigError: if it cannot be read, names an unknown setting or is of another recipe.
    """
    import yaml

    if path.is_dir():
        path /= "config.json"
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), _unique_loader()) or {}
    except OSError as error:
        where = "" if path.is_absolute() else f" in the folder {str(Path.cwd())!r}"
        raise ConfigError(
            f"Cannot read the settings in {str(path)!r}: {error.strerror}{where}."
        ) from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read the settings in {str(path)!r}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold `name: value` lines, got {type(found).__name__}.")
    if isinstance(run := found.get("config"), dict):
        found = dict(run)
        if (own := found.pop("recipe", recipe)) != recipe:
            raise ConfigError(f"{path} is of a run of {own}: use `agentgym train {own}`.")
        found.pop("resume", None)  # of an older version: the command decides
        if resume:  # the folder of the file may have a template as its name, or have moved
            found["run_dir"] = str(path.parent).replace("{", "{{").replace("}", "}}")
    defaults = kind().as_dict()
    names = list(defaults)
    flags = []
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in names:
            alias = _ALIASES.get(name, "")
            hint = f" Did you mean {alias}?" if alias in names else did_you_mean(name, names)
            raise ConfigError(f"{path} sets {key!r}, which {recipe} does not have.{hint}")
        flag = name.replace("_", "-")
        default = defaults[name]
        if default is not None and isinstance(default, bool) != isinstance(value, bool):
            choices = "of true or false" if isinstance(default, bool) else f"such as {default!r}"
            raise ConfigError(f"{path} sets {key!r} to {value!r}, expected a value {choices}.")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        words = _words(f"{path} sets {key!r}", value, optional=_takes_none(kind, name))
        flags += [f"--{flag}={words[0]}", *words[1:]] if words else [f"--{flag}"]
    return flags


def _unique_loader() -> type[yaml.SafeLoader]:
    """Returns a loader that refuses a name that is given twice, which YAML forbids."""
    import yaml

    class Unique(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [key.value for key, _ in node.value]
            if twice := [name for name in names if names.count(name) > 1]:
                raise yaml.YAMLError(f"{twice[0]!r} is given twice.")
            return super().construct_mapping(node, deep)

    return Unique


def _takes_none(kind: type[TrainConfig], name: str) -> bool:
    from agentgym.trainers.settings import group_of, groups_of

    owner = groups_of(kind).get(group_of(kind).get(name, ""), kind)
    return type(None) in get_args(get_type_hints(owner)[name])


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
