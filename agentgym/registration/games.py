"""Games by id: `make_aec` and `make_parallel` make them, `register_game` registers a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import parse_env_id

from agentgym.errors import ConfigError
from agentgym.registration.entry import NAMESPACE, SINGLE_SEAT, Entry
from agentgym.registration.registry import REGISTRY, find

if TYPE_CHECKING:
    from agentgym.core import TextEnv
    from agentgym.multiagent.game import TextGame
    from agentgym.multiagent.pettingzoo import Maker


def make_aec(id: str, **kwargs: Any) -> Any:
    """Makes the AEC (turn-by-turn) PettingZoo environment of a multi-agent id.

    Args:
        id: the id, with or without the namespace. "module:id" imports the module first.
        **kwargs: arguments of the game and of `PettingZooMixin`, such as `action_mode`.

    Raises:
        ConfigError: for an unknown or single-agent id, or an invalid argument.
        MissingExtraError: if the game needs an optional dependency that is not installed.
    """
    env, _, _ = _makers(id)
    return env(**_arguments(id, kwargs))


def make_parallel(id: str, **kwargs: Any) -> Any:
    """Makes the parallel PettingZoo environment of a multi-agent id.

    Arguments and errors are those of `make_aec`.
    """
    _, _, parallel_env = _makers(id)
    return parallel_env(**_arguments(id, kwargs))


def register_game(id: str, game: type[TextGame] | Callable[[], TextEnv], **kwargs: Any) -> None:
    """Registers a game of your own, or one of PettingZoo or OpenSpiel.

    `gymnasium.make(id)` then makes one seat of it (`SingleSeat`), and `make_aec` and
    `make_parallel` make its PettingZoo environments. All commands and functions that take the id of
    a game take "module:id", where the module registers the game when it is imported.

    Args:
        id: the id, such as "Mine/Nim-v0".
        game: the class of the game, or a function that returns `agentgym.textify(game)`, a new one
            at each call, for all seats of a PettingZoo AEC game or a game of OpenSpiel.
        **kwargs: arguments of the game that differ from its defaults, as JSON. Those of a function
            are `zero_sum` (whether rewards sum to 0), `common_reward` (whether they are equal) and
            the arguments of `TextGame`.

    Raises:
        ConfigError: for an invalid id, class or argument.
        UnknownArgumentError: for an unknown argument.
    """
    from agentgym.multiagent.game import TextGame
    from agentgym.multiagent.pettingzoo import make_pettingzoo
    from agentgym.utils.arguments import check_arguments, keyword_parameters, optional

    try:
        namespace, _, version = parse_env_id(id)
    except gymnasium.error.Error:
        namespace = version = None
    if version is None or ":" in id or namespace == NAMESPACE:
        raise ConfigError(
            f"Expected an id such as Mine/Nim-v0, with a version and outside of {NAMESPACE}/, got "
            f"{id!r}."
        )
    if callable(game) and not isinstance(game, type):
        from agentgym.textify.all_seats import all_seats

        game = all_seats(game, id.rpartition("/")[2].rpartition("-v")[0], game.__doc__)
    if not (isinstance(game, type) and issubclass(game, TextGame)):
        raise ConfigError(
            f"game must be a subclass of TextGame, got {game!r:.80}. For a game of PettingZoo or "
            "OpenSpiel, give a function that returns agentgym.textify(game)."
        )
    check_arguments(id, optional(keyword_parameters(game)), kwargs)
    make_pettingzoo(game)  # checks its levels
    REGISTRY[id] = Entry(
        id.rpartition("/")[2],
        f"{game.__module__}:{game.__qualname__}",
        kwargs,
        namespace=namespace,
        game=game,
    )
    gymnasium.register(id, entry_point=SINGLE_SEAT, kwargs={"game": id, **kwargs})


def _arguments(id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**find(id).kwargs, **kwargs}


def _makers(id: str) -> tuple[Maker, Maker, Maker]:
    """Returns the constructors `env`, `raw_env` and `parallel_env` of a game."""
    from agentgym.multiagent.pettingzoo import make_pettingzoo
    from agentgym.registration.making import author_class

    entry = find(id)
    if not entry.multi_agent:
        raise ConfigError(
            f"{entry.id} is a single-agent environment: use gymnasium.make, or evaluate."
        )
    return make_pettingzoo(author_class(entry))
