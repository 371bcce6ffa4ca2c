"""`Entry`: an environment id with its configuration."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import parse_env_id

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.utils.importing import user_module

NAMESPACE = "AgentGym"
SINGLE_SEAT = "agentgym.registration.single_seat:SingleSeat"
"""The entry point of the Gymnasium ids of games."""
UNKNOWN = "unknown"
"""Value in `opponents` of such an id for a level that is sampled at every reset."""


@dataclass(frozen=True)
class Entry:
    """An environment id and its configuration.

    Attributes:
        name: the id without its namespace, such as "WebShop-v0".
        entry_point: "module:Class" of a `TextEnv`, or a module with `raw_env`, `env` and
            `parallel_env` of a multi-agent game.
        kwargs: JSON-serialisable arguments of the constructor.
        seat: additional arguments of a game's `SingleSeat` environment, such as its opponents.
        extra: the extra that installs its optional dependency, if any
            (`pip install 'agentgym-suite[extra]'`).
        package: import name of the optional dependency.
        files: whether it needs files of the user, given by a constructor argument.
        namespace: the namespace of the id, or None.
        game: the class of a game that was registered by `agentgym.register_game`.
    """

    name: str
    entry_point: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    seat: dict[str, Any] = field(default_factory=dict)
    extra: str | None = None
    package: str | None = None
    files: bool = False
    namespace: str | None = NAMESPACE
    game: type | None = None

    @property
    def id(self) -> str:
        """The full id, such as "AgentGym/WebShop-v0"."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def multi_agent(self) -> bool:
        """Whether this is a PettingZoo game. Its Gymnasium id is a `SingleSeat` environment."""
        return self.game is not None or ":" not in self.entry_point

    def load(self) -> ModuleType:
        """Returns the module of the entry point, imported if necessary.

        Raises:
            MissingExtraError: if it needs an optional dependency that is not installed.
        """
        try:
            return importlib.import_module(self.entry_point.partition(":")[0])
        except ImportError as error:
            if self.extra is None:
                raise
            raise MissingExtraError(self.id, self.extra, self.package) from error


def import_module_of(id: str) -> str:
    """Imports the module of an id of the form "module:id". Returns the id without the module.

    Raises:
        ConfigError: if there is no such module or the id is malformed.
    """
    if ":" not in id:
        return id
    module, _, name = id.partition(":")
    try:
        parse_env_id(name)
        malformed = None if ":" not in name else ValueError("a second colon")
    except gymnasium.error.Error as error:
        malformed = error
    if malformed is not None:
        raise ConfigError(f"Expected module:Name-v0, got {id!r}.") from malformed
    user_module(module, f"that could register {id!r}")
    return name
