"""Types of arguments, exit statuses and the console of the commands."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Annotated

import tyro
from rich.console import Console

from agentgym.errors import ConfigError

INTERRUPTED = 130
WRONG_USE = 2
BROKEN_PIPE = 141

KeyValues = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")
]
Wrappers = Annotated[
    tuple[str, ...],
    tyro.conf.arg(metavar="[NAME[:ARG=VALUE,...] ...]", help_behavior_hint=""),
]
Id = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ID")]]


def check_repeats(words: Iterable[str], names: Collection[str]) -> None:
    """Checks that options with several values are given once.

    Args:
        words: a command line.
        names: the names of the options, with underscores.

    Raises:
        ConfigError: if one is repeated. Parsers would drop all but its last values.
    """
    flags = (word[2:].partition("=")[0] for word in words if word.startswith("--"))
    counts = Counter(flag.replace("-", "_") for flag in flags)
    for name in names:
        if counts[name] > 1:
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{flag} is given twice, and only the last one would count: give it once, with all "
                "of its values."
            )


def on_terminal() -> bool:
    """Returns whether standard output is a terminal."""
    return sys.stdout.isatty()


class _Output(Console):
    """A console that raises BrokenPipeError when its reader has left. rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raises the error."""
        raise BrokenPipeError


def standard_output() -> Console:
    """Returns standard output. A pipe or a file is 160 columns wide unless COLUMNS is set."""
    fits = on_terminal() or "COLUMNS" in os.environ
    return _Output(highlight=False, width=None if fits else 160)
