"""Exceptions raised by AgentGym. Invalid actions of agents never raise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class AgentGymError(Exception):
    """Base class of all errors raised on purpose by AgentGym."""


class DataError(AgentGymError, ValueError):
    """A data file is missing, is truncated or has an unexpected schema."""


class UnknownTaskError(AgentGymError, ValueError):
    """The environment has no such task."""


class SnapshotError(AgentGymError, ValueError):
    """A snapshot is damaged or does not match the environment that restores it."""


class ConfigError(AgentGymError, ValueError):
    """An invalid setting or combination of settings."""


class UnknownArgumentError(ConfigError, TypeError):
    """An unknown argument or render mode. It is also a TypeError, which other libraries expect."""


class CheckpointError(AgentGymError, RuntimeError):
    """A checkpoint or run folder cannot be read, written or resumed."""


class BaseModelError(CheckpointError, ConfigError):
    """The base model of an adapter cannot be opened. The adapter itself may be intact."""


class LogitsError(AgentGymError, ArithmeticError):
    """A language model's logits are NaN or infinite, so that no token can be sampled."""


class SandboxError(AgentGymError, RuntimeError):
    """No sandbox is available in which untrusted programs could run."""


TORCH = (
    "\nPyPI's build of PyTorch for Linux is for GPUs and takes gigabytes. For CPUs, install it "
    "first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
)
"""Advice before the extra `train` is installed."""


class MissingExtraError(AgentGymError, ImportError):
    """An optional dependency is not installed.

    Args:
        what: the feature that needs it.
        extra: the extra that installs it.
        package: the package, if its name is another one.
        command: the command that installs a package without an extra.
    """

    def __init__(
        self, what: str, extra: str, package: str | None = None, command: str | None = None
    ):
        install = command or f"pip install 'agentgym-suite[{extra}]'"
        advice = TORCH if extra == "train" and not _installed("torch") else ""
        super().__init__(
            f"{what} needs the package {package or extra!r}, which is not installed. "
            f"Install it with: {install}{advice}"
        )
        self._arguments = what, extra, package, command

    def __reduce__(
        self,
    ) -> tuple[type[MissingExtraError], tuple[str, str, str | None, str | None]]:
        return type(self), self._arguments


@contextmanager
def naming(place: Callable[[], str]) -> Iterator[None]:
    """Returns a context whose exceptions get a note that names where they were raised.

    Args:
        place: returns the note.
    """
    try:
        yield
    except Exception as error:
        error.add_note(place())
        raise


def with_notes(error: BaseException) -> str:
    """Returns the message of an error, with its notes in lines of their own."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:  # an import hook may refuse it
        return False


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Returns a context for the imports of an optional dependency.

    Args:
        what: the feature that needs it, for the message.
        extra: the extra that installs it.

    Raises:
        MissingExtraError: if a package other than AgentGym is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("agentgym"):
            raise
        raise MissingExtraError(what, extra, error.name) from error


def module_hint(module: str) -> str:
    """Returns what to do about a module that is missing: " Did you mean: ...?" for a file name."""
    there = "Start in the folder that holds it, or install it."
    parts = re.split(r"[/\\]", module.removesuffix(".py")) if module.endswith(".py") else []
    elsewhere = ".." in parts or parts[:1] == [""]  # no folder below this one
    named = [part for part in parts if part.strip(".")][-1 if elsewhere else 0 :]
    if named:
        hint = f" Did you mean: {'.'.join(named)}? A module is written as in an import."
        return f"{hint} {there}" if elsewhere else hint
    return f" {there}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns " Did you mean: ...?" for the closest known words, or "" if none is close."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names)
    return f" Did you mean: {', '.join(names[name] for name in close)}?" if close else ""
