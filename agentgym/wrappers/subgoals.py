"""`Subgoals`: the next subgoal in every observation, and a reward for reaching it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import load_env_creator

from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper

SUBGOAL = "subgoal"
"""Name of the reward term, and key of the subgoal in the info."""


class Subgoals(TextWrapper):
    """Shows the next subgoal of a task, and rewards the turn that reaches it.

    **Actions**: unchanged.

    **Observations**: end with `Subgoal: TEXT` if there is a subgoal.

    **Rewards**: `bonus` more when a subgoal is reached, once for each text in an episode.

    **Info**: `subgoal`, the text, and the reward term `subgoal`.

    A function proposes subgoals. It is called with the environment after every turn, and a subgoal
    is reached when it proposes another one. It may ask a language model, if it remembers the
    answers. It should depend only on the state of the environment, so that episodes are
    reproducible.

    Args:
        env: a text environment.
        propose: maps the environment to a text, "" if no subgoal is left, or module:function.
        bonus: reward of a reached subgoal.

    Raises:
        ConfigError: if there is no such function. From `reset` and `step`: if it returns no text.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        propose: str | Callable[[gymnasium.Env[Any, Any]], str],
        bonus: float = 1.0,
    ):
        super().__init__(env, propose=propose, bonus=bonus)
        self.bonus = bonus
        self.propose: Callable[[Any], str] = (
            _loaded(propose) if isinstance(propose, str) else propose
        )
        self._subgoal, self._gained = "", 0.0
        self._reached: list[str] = []

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._advance()
        observation, info = self._view(observation, info)
        return observation, float(reward) + self._gained, terminated, truncated, info

    def _begin(self) -> None:
        self._subgoal, self._reached = "", []
        self._advance()

    def _advance(self) -> None:
        """Asks for the next subgoal. Another one means that the one before is reached."""
        before, self._subgoal = self._subgoal, self.propose(self.env)
        if not isinstance(self._subgoal, str):
            raise ConfigError(
                f"A subgoal must be a text, '' if none is left, got {self._subgoal!r:.80}."
            )
        self._gained = 0.0
        if before not in ("", self._subgoal, *self._reached):
            self._reached.append(before)
            self._gained = self.bonus

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        terms = {**info.get("reward_terms", {}), SUBGOAL: self._gained}
        if self._subgoal:
            observation = f"{observation}\nSubgoal: {self._subgoal}"
        info = {**info, SUBGOAL: self._subgoal, "reward_terms": terms}
        return observation, self._keyed(info, self._subgoal, sorted(self._reached))

    def _memory(self) -> dict[str, Any]:
        return {
            "subgoal": self._subgoal,
            "gained": self._gained,
            "reached": list(self._reached),
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        self._subgoal, self._gained = memory["subgoal"], memory["gained"]
        self._reached = list(memory["reached"])


def _loaded(name: str) -> Callable[[Any], str]:
    try:
        return cast(Callable[[Any], str], load_env_creator(name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"propose must be module:function, got {name!r}: {error}.") from error
