"""`agentgym train RECIPE`: settings from a file and from flags, and the exit code of a run.

The flags are the fields of the recipe's `Config`, flat, and grouped in the help text. `--config
FILE` (YAML, or the folder of a run) replaces defaults, and flags replace both. `python -m
agentgym.trainers RECIPE` is the same command.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.cli.command_line import check_repeats
from agentgym.errors import AgentGymError, ConfigError, with_notes
from agentgym.registration.making import full_id, split_id
from agentgym.trainers import recipes
from agentgym.trainers.policy.model_defaults import check_model_name
from agentgym.utils.masking import masked_text

if TYPE_CHECKING:  # the list of recipes needs no package of the extra
    from agentgym.trainers.settings.config import TrainConfig


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
        check_names(flags)  # before the recipe loads PyTorch, which takes seconds
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
        print(f"error: {with_notes(error)}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        note = "Make room, and continue from the last checkpoint:"
        command = _continuation(recipe, flags, config)
        print(f"error: {error}", note, command, sep="\n", file=sys.stderr)
        return 1
    except AgentGymError as error:
        print(f"error: {with_notes(error)}", file=sys.stderr)
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
        "`agentgym train RECIPE --help` shows the settings that matter most, and --help-all all of",
        "them. The name of your own recipe is the import path of its module, as in",
        "`agentgym train my_lab.my_recipe`.",
    ]
    return "\n".join([usage, "", *lines, "", *notes])


def check_names(flags: Sequence[str]) -> None:
    """Checks the environments and the model that flags name, without loading PyTorch.

    Raises:
        ConfigError: for an unknown environment or a model folder that does not exist.
    """
    for id in (*_values(flags, "env_id"), *_values(flags, "eval_env_id")):
        full_id(split_id(id)[0])
    for model in _values(flags, "model"):
        check_model_name(model)


def _values(flags: Sequence[str], name: str) -> list[str]:
    """Returns the values of a flag."""
    found: list[str] = []
    inside = False
    for word in flags:
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            inside = flag.replace("-", "_") == name
            found += [value] if inside and equals else []
        elif inside:
            found.append(word)
    return found


def read_config(recipe: str, argv: Sequence[str]) -> Any:
    """Returns the settings of a file (`--config FILE`) and of flags, which take precedence.

    Raises:
        ConfigError: if the recipe, the file or a value is wrong.
        SystemExit: after the help text or a wrong flag.
    """
    from agentgym.trainers.cli.flags import parse_flags, with_known_names
    from agentgym.trainers.cli.settings_file import flags_of_file
    from agentgym.trainers.settings.effects import IdleSettingError
    from agentgym.trainers.settings.schema import settings_of

    kind = recipes.load(recipe).Config
    if "--" in argv:  # it ends the flags, and the values before it
        raise ConfigError(
            "'--' alone is no value: a value that begins with a dash is the first one and follows "
            "an equals sign, as in --stop=--."
        )
    several = [name for name, setting in settings_of(kind).items() if setting.several]
    check_repeats(argv, ["config", *several])
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", type=Path)
    found, flags = finder.parse_known_args(list(argv))
    flags = with_known_names(kind, flags)
    if found.config is None:
        return parse_flags(kind, recipe, flags)
    file = flags_of_file(kind, recipe, found.config, resume="--resume" in flags)
    while True:  # a flag may switch off what settings of the file belong to
        try:
            return parse_flags(kind, recipe, [*chain(*file.values()), *flags])
        except IdleSettingError as error:
            if error.setting not in file or not flags:
                raise
            del file[error.setting]
