"""`PrivilegedText`: the hidden state of an environment in the info, for critics in training."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.wrappers.base import TextWrapper

PRIVILEGED = "privileged"
"""Key of the text in the info."""


class PrivilegedText(TextWrapper):
    """Adds the environment's `privileged_text` to the info.

    **Actions**, **observations**, **rewards**: unchanged.

    **Info**: `privileged`, a text about the hidden state. An agent must not read it.

    Args:
        env: an environment that implements `privileged_text` (see `TextEnv.privileged_text`), or a
            seat of a game with sampled opponents, whose levels the text names.

    Raises:
        ConfigError: if it is another environment.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        inner = env.unwrapped
        game = getattr(inner, "game", None)
        author = type(game if isinstance(game, TextGame) else inner)
        if not (implements(author) or getattr(inner, "samples_opponents", False)):
            raise ConfigError(
                f"{author.__name__} does not implement privileged_text, which describes its "
                "hidden state to critics: see TextEnv.privileged_text."
            )

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        text = self.env.get_wrapper_attr("privileged_text")()
        return observation, {**info, PRIVILEGED: text or ""}


def implements(author: type) -> bool:
    """Returns whether the class of an environment or game implements `privileged_text`."""
    defaults = (None, TextEnv.privileged_text, TextGame.privileged_text)
    return getattr(author, "privileged_text", None) not in defaults
