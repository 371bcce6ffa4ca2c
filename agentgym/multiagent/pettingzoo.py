"""PettingZoo environments of a `TextGame`.

The rules define the agents that act in a turn. `AECGame` collects their actions one by one,
`ParallelGame` all at once. A turn is played when all actions are known, so the same actions have
the same outcome in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from agentgym.errors import ConfigError
from agentgym.multiagent.aec import AECGame
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.parallel import ParallelGame
from agentgym.multiagent.pettingzoo_mixin import SHOWN, Observation, PettingZooMixin
from agentgym.utils.arguments import check_arguments, keyword_parameters, optional

Maker = Callable[..., Any]


def _split(
    game: type[TextGame], arguments: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits arguments into those of `PettingZooMixin` and those of the game."""
    known = {name: keyword_parameters(PettingZooMixin)[name] for name in SHOWN}
    check_arguments(game.__name__, {**optional(keyword_parameters(game)), **known}, arguments)
    shown = {name: value for name, value in arguments.items() if name in known}
    return shown, {name: value for name, value in arguments.items() if name not in known}


def make_pettingzoo(game: type[TextGame]) -> tuple[Maker, Maker, Maker]:
    """Returns the three constructors of a PettingZoo module: `env`, `raw_env`, `parallel_env`.

    They take the arguments of the game and of `PettingZooMixin` as keyword arguments.

    Raises:
        ConfigError: if `levels` does not start with "random", or if the game has scripted levels
            and `default_opponents` is none of them.
    """
    scripted = game.levels[1:]
    if game.levels[:1] != ("random",):
        raise ConfigError(f'{game.__name__}.levels must start with "random", got {game.levels!r}.')
    if scripted and game.default_opponents not in scripted:
        raise ConfigError(
            f"{game.__name__}.default_opponents must be one of the scripted levels {scripted!r}, "
            f"got {game.default_opponents!r}. Declare it in the class, beside `levels`."
        )

    def raw_env(**kwargs: Any) -> AECGame:
        shown, kwargs = _split(game, kwargs)
        return AECGame(game(**kwargs), **shown)

    def env(**kwargs: Any) -> OrderEnforcingWrapper[str, Observation, Any]:
        return OrderEnforcingWrapper(raw_env(**kwargs))

    def parallel_env(**kwargs: Any) -> ParallelGame:
        shown, kwargs = _split(game, kwargs)
        return ParallelGame(game(**kwargs), **shown)

    return env, raw_env, parallel_env
