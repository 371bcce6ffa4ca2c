"""The flags of `agentgym train`: one for each setting of a recipe, flat, with help in groups."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Annotated, Any

import tyro

from agentgym.cli.errors import plain_errors
from agentgym.trainers import recipes
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.effects import unknown_setting
from agentgym.trainers.settings.names import RENAMED, with_new_names
from agentgym.trainers.settings.schema import Setting, groups_of, settings_of

_ONE_AT_A_TIME = threading.Lock()
"""tyro empties a cache of its own after each command line."""
SHOWN, LEAST = 25, 12
"""Settings in the short help text, and least number of those that are not the recipe's own."""
FIRST = (
    "env_id model iterations run_dir lr episodes_per_iteration env_kwargs seed constrain "
    "bc_demonstrations context opponents max_new_tokens group_size env_steps kl_coef entropy_coef "
    "epochs eval_episodes num_envs lora_rank minibatches resume engine eval_every clip data device "
    "wrap temperature log_with"
).split()
"""Settings of the short help text, the most important ones first."""


def parse_flags(kind: type[TrainConfig], recipe: str, flags: Sequence[str]) -> TrainConfig:
    """Returns the configuration that flags describe.

    Args:
        kind: the configuration class of the recipe.
        recipe: name of the recipe.
        flags: the flags. --help shows the settings that matter most, --help-all all of them.

    Raises:
        ConfigError: if a value is wrong.
        SystemExit: after the help text or a wrong flag.
    """
    short = any(flag in ("-h", "--help") for flag in flags)
    words = ["--help" if flag == "--help-all" else flag for flag in flags]
    return kind.of(**_parsed(kind, recipe, ("--help",) if short else tuple(words), short))


@lru_cache(maxsize=1024)  # a sweep reads the flags of each run several times
def _parsed(
    kind: type[TrainConfig], recipe: str, words: tuple[str, ...], short: bool
) -> dict[str, Any]:
    """Returns the settings in the words of a command line, by their flat names.

    Args:
        kind: the configuration class of the recipe.
        recipe: name of the recipe.
        words: the flags.
        short: whether the help text shows the settings that matter most.
    """
    notes = "`--config FILE` reads settings from YAML, or from the folder of a run."
    if short:
        notes += " `--help-all` shows every setting, with its bounds."
    names = essential(kind) if short else _named(kind, words)
    with _ONE_AT_A_TIME, plain_errors():
        parsed = tyro.cli(
            _flags(kind, frozenset(names), short),
            prog=f"agentgym train {recipe}",
            description=f"{recipes.summary(recipe)} {notes}",
            args=words,
            # Each flag has its help text: no source is searched for comments.
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.HelptextFromCommentsOff),
        )
    defaults = {name: setting.default for name, setting in settings_of(kind).items()}
    given = [vars(each) for each in vars(parsed).values()]
    return defaults | {name: value for group in given for name, value in group.items()}


def _named(kind: type[TrainConfig], words: Collection[str]) -> Collection[str]:
    """Returns the settings in a command line, all for its help: a parser of few is made fast."""
    known = settings_of(kind)
    if "--help" in words:
        return known
    flags = {word[2:].partition("=")[0].replace("-", "_") for word in words if word[:2] == "--"}
    return (flags | {flag.removeprefix("no_") for flag in flags}) & known.keys()


def essential(kind: type[TrainConfig]) -> list[str]:
    """Returns the names of the settings in the short help text: the recipe's own, and others."""
    known = settings_of(kind)
    own = [name for name in known if name not in settings_of(TrainConfig)]
    own = [name for name in own if known[name].group in ("", "dataset")]
    first = [name for name in FIRST if name in known and not _is_single(known[name])]
    return [*own, *first[: max(LEAST, SHOWN - len(own))]]


def _is_single(setting: Setting) -> bool:
    """Returns whether a setting is the size of groups in a recipe that compares none."""
    return setting.name == "group_size" and setting.default == 1


@lru_cache(maxsize=128)
def _flags(kind: type[TrainConfig], names: Collection[str], short: bool) -> type:
    """Returns a dataclass of the flags, in a nested one for each group.

    Args:
        kind: the configuration class of the recipe.
        names: the settings that have a flag.
        short: whether the help text is the first sentence of a docstring.
    """
    groups: dict[str, list[Setting]] = {group: [] for group in ("", *groups_of(kind))}
    for name, setting in settings_of(kind).items():
        if name in names:
            groups[setting.group].append(setting)
    made = []
    for group, settings in groups.items():
        if settings:
            fields = [_flag(setting, short) for setting in settings]
            title = group or "recipe"
            made.append((title, dataclasses.make_dataclass(title, fields)))
    return dataclasses.make_dataclass(
        "Config", [(name, group, dataclasses.field(default_factory=group)) for name, group in made]
    )


def _flag(setting: Setting, short: bool) -> tuple[str, Any, Any]:
    text = setting.help
    if short:
        text = text.partition(". ")[0].removesuffix(".")
    hint = Annotated[setting.hint, tyro.conf.arg(help=text)]
    default = setting.default
    return setting.name, hint, dataclasses.field(default_factory=lambda: default)


def with_known_names(kind: type[TrainConfig], flags: Sequence[str]) -> list[str]:
    """Returns flags with the new names of older settings.

    Raises:
        UnknownArgumentError: for a setting that the recipe does not have.
    """
    known, found, values = settings_of(kind), [], {}
    for word in map(_chosen, flags):
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--") or name in ("help", "help_all"):
            found.append(values.get(word, word))
            values = {}
            continue
        new, values = RENAMED.get(name, (name, {}))
        if new not in known and new.removeprefix("no_") not in known:
            raise unknown_setting(kind, new)
        value = str(with_new_names({name: value}).get(new, value))
        found.append(f"--{new.replace('_', '-')}{equals}{value}" if new != name else word)
    return found


def _chosen(word: str) -> str:
    """Returns an older switch, on or off, as a value of the setting that replaces it."""
    name = word.removeprefix("--").replace("-", "_")
    switch = name.removeprefix("no_")
    new, values = RENAMED.get(switch, (switch, {}))
    on = name == switch
    return f"--{new}={values[on]}" if word.startswith("--") and on in values else word
