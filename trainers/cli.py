"""`agentgym train RECIPE`: settings from a file and from flags, and what a run's end looks like.

Settings are read from the dataclass of the recipe; `--config FILE` (YAML) replaces defaults, flags
replace both. `python -m agentgym.trainers.RECIPE` is the same command.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tyro

from agentgym.cli_errors import plain_errors
from agentgym.errors import AgentGymError, ConfigError, did_you_mean

RECIPES = {
    "poad": "token-level credit with action decomposition",
    "ntpo": "token-level credit with a discount at every token",
    "etpo": "token-level credit that charges for leaving the starting policy",
    "nlpo": "token-level credit, drawn among what a lagged policy finds probable",
    "bilevel": "token-level credit in two passes, over turns and inside them",
    "turn": "turn-level credit from a critic of observations",
    "vl_dac": "turn-level credit, clipped token by token",
    "twosome": "turn-level credit for a softmax over listed actions, scored by words",
    "glam": "turn-level credit for a softmax over listed actions, scored by sums",
    "chunk": "credit for several turns at once, between turn and trajectory",
    "grpo": "trajectory-level credit from groups with the same start",
    "rloo": "trajectory-level credit, each episode against the others of its group",
    "loop": "trajectory-level credit, each episode against the others, tight clip, two passes",
    "flow_grpo": "trajectory-level credit from success alone",
    "gigpo": "trajectory-level and turn-level credit from groups and from states they share",
    "hgpo": "turn-level credit from states and histories that a group shares",
    "spa": "turn rewards from a model that splits the return into contributions",
    "istar": "turn rewards from a model that prefers a group's better episodes",
    "agentprm": "turn values from a model of what the same actions led to",
    "orm": "episode returns from a model that saw only some of them",
    "dpo": "a group's better episodes against its worse ones",
    "eto": "the expert's episodes against the policy's failures",
    "archer": "turn-level critic off-policy, token-level actor on its advantages",
    "archer_iql": "the same from a fixed data set, by implicit Q-learning",
    "sac_glam": "turn-level critic of all listed actions off-policy, with hindsight",
    "digi_q": "turn-level critic off-policy, the best of several answers imitated",
    "ilql": "a fixed data set, imitated; Q of every token steers decoding",
    "mc": "a fixed data set, imitated by Monte-Carlo advantage",
    "bc": "the expert's episodes, imitated",
    "filtered_bc": "one's own best episodes, imitated",
    "spear": "group-relative credit, and a buffer of one's own good episodes",
    "arpo_replay": "group-relative credit, with an old success where everything fails",
    "arpo_entropy": "group-relative credit over episodes that branch where the policy is unsure",
    "aepo": "the same with a budget of branches that follows the uncertainty",
}


def main(recipe: str | None, argv: Sequence[str]) -> int:
    """Runs a recipe and returns the exit code.

    Args:
        recipe: a name of `RECIPES`; None lists them.
        argv: its flags.
    """
    if recipe is None:
        asked = not argv or argv[0] in ("-h", "--help")
        print(overview(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        module = load_recipe(recipe)
        config = read_config(module.Config, recipe, argv)
    except (AgentGymError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from agentgym.trainers.stopping import Interrupted
    from agentgym.trainers.update import Diverged

    try:
        module.main(config)
    except Interrupted as interrupted:
        print(*getattr(interrupted, "__notes__", ()), file=sys.stderr)
        return 128 + int(interrupted.args[0])
    except KeyboardInterrupt:
        print("Stopped at once; --resume continues from the last checkpoint.", file=sys.stderr)
        return 128 + signal.SIGINT
    except Diverged as error:
        print(f"error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def overview() -> str:
    """Returns what `agentgym train` says before a recipe is chosen."""
    lines = [f"  {name:14}{what}" for name, what in RECIPES.items()]
    usage = "usage: agentgym train RECIPE [OPTIONS]"
    return "\n".join([usage, "", *lines, "", "`agentgym train RECIPE --help` shows every setting."])


def load_recipe(name: str) -> Any:
    """Returns the module of a recipe: it has `Config` and `main`.

    Raises:
        ConfigError: if there is no such recipe.
    """
    if name not in RECIPES:
        known = ", ".join(RECIPES)
        raise ConfigError(f"Unknown recipe {name!r}.{did_you_mean(name, RECIPES)} Known: {known}.")
    return importlib.import_module(f"agentgym.trainers.{name}")


def read_config(kind: Callable[..., Any], recipe: str, argv: Sequence[str]) -> Any:
    """Returns the settings in a file (`--config FILE`) and flags; flags win.

    Raises:
        ConfigError: if the file or a value is wrong.
        SystemExit: after the help text or a flag that is wrong, as command lines do.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", type=Path)
    found, flags = finder.parse_known_args(list(argv))
    if found.config is not None:
        flags = [*flags_of_file(kind, recipe, found.config), *flags]
    about = f"{recipe}: {RECIPES[recipe]}. --config FILE reads settings from YAML first."
    with plain_errors():
        return tyro.cli(kind, prog=f"agentgym train {recipe}", description=about, args=flags)


def flags_of_file(kind: Callable[..., Any], recipe: str, path: Path) -> list[str]:
    """Returns the settings in a YAML file as flags.

    Raises:
        ConfigError: if it cannot be read or names a setting that there is not.
    """
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"The settings in {str(path)!r} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold `name: value` lines, got {type(found).__name__}.")
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    flags = []
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigError(f"{path} sets {key!r}, which {recipe} does not have.{hint}")
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        items = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            items = [f"{inner}={_word(item)}" for inner, item in value.items()]
        flags += [f"--{flag}", *map(_word, items)]
    return flags


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "None" if value is None else json.dumps(value)
