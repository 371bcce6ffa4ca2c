"""Making the PettingZoo environments of a multi-agent id: `make_aec` and `make_parallel`."""

from __future__ import annotations

from typing import Any

from agentgym.errors import ConfigError
from agentgym.registration import find


def make_aec(id: str, **kwargs: Any) -> Any:
    """Makes the AEC (turn-by-turn) PettingZoo environment of a multi-agent id.

    Args:
        id: the id, with or without the namespace.
        **kwargs: arguments of the game and of `PettingZooMixin`, such as `action_mode`.

    Raises:
        ConfigError: for an unknown or single-agent id, or an invalid argument.
        MissingExtraError: if the game needs an optional dependency that is not installed.
    """
    return _game_module(id).env(**_arguments(id, kwargs))


def make_parallel(id: str, **kwargs: Any) -> Any:
    """Makes the parallel PettingZoo environment of a multi-agent id.

    Arguments and errors are those of `make_aec`.
    """
    return _game_module(id).parallel_env(**_arguments(id, kwargs))


def _arguments(id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**find(id).kwargs, **kwargs}


def _game_module(id: str) -> Any:
    entry = find(id)
    if not entry.multi_agent:
        raise ConfigError(f"{entry.id} is a single-agent environment: use gymnasium.make.")
    return entry.load()
