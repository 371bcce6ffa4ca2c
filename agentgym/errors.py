"""Exceptions that AgentGym raises for its callers; what an agent says never raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AgentGymError(Exception):
    """Base class of all errors raised on purpose by AgentGym."""


class DataError(AgentGymError, ValueError):
    """A data file is missing, truncated or of another schema than expected."""


class UnknownTaskError(AgentGymError, ValueError):
    """A task id that the environment does not have."""


class SnapshotError(AgentGymError, ValueError):
    """A snapshot that does not fit the environment it is restored into."""


class ConfigError(AgentGymError, ValueError):
    """A setting, or a combination of settings, that cannot work."""


class UnknownArgumentError(ConfigError, TypeError):
    """An argument, or a render mode, that is not known here; libraries look for a TypeError."""


class CheckpointError(AgentGymError, RuntimeError):
    """A checkpoint or run folder that cannot be read, written or continued."""


class MissingExtraError(AgentGymError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str, package: str | None = None):
        super().__init__(
            f"{what} needs the package {package or extra!r}, which is not installed. "
            f"Install it with: pip install 'agentgym-suite[{extra}]'"
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns " Did you mean: ...?" for the closest known words, or "" if none is close."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names)
    return f" Did you mean: {', '.join(names[name] for name in close)}?" if close else ""
