"""`Monologue`: the agent writes a thought before each action, in turns of its own."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.multiagent.messages import clip
from agentgym.wrappers.base import TextWrapper

THINK = "Write one line that you will read before you act."
ACT = "Now act."


class Monologue(TextWrapper):
    """Lets the agent talk to itself: each action follows a thought that it has written.

    The monologue of LTC ("Adapting LLM Agents Through Communication", arXiv 2310.01444): one agent
    plays the parts of a thinker and of an actor in turn. Thoughts are actions, so recipes assign
    credit to them as to any other turn. The other patterns of LTC are teams of several agents (see
    `agentgym.envs.team.team.TeamGame`).

    **Actions**: text. A thought, which is put on one line and cut, and an action of the environment
    in turn. A thought takes no turn in the environment.

    **Observations**: text. The observation of the environment, a request for a thought, and then
    the observation again with the thought.

    **Rewards**: unchanged, and 0 for thoughts.

    **Info**: the admissible actions are none while a thought is asked for.

    Args:
        env: an environment with text observations and actions.
        length: maximum number of characters of a thought.

    Raises:
        ConfigError: if observations or actions are not text, or `length` is below 1.
    """

    own_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], length: int = 200):
        super().__init__(env, length=length)
        self._need_text("observations")
        self._need_text("actions")
        if length < 1:
            raise ConfigError(f"length must be at least 1, got {length}.")
        self.length = length
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for thoughts."""
        hint = f"Before each action, write a thought of at most {self.length} characters."
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{hint}"

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Notes a thought, or plays an action: see `TextEnv.step`."""
        self._check_turn(action)
        if self._thought is not None:
            self._thought = None
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._over = terminated or truncated
            observation, info = self._view(observation, info)
            return observation, float(reward), terminated, truncated, info
        self._thought = clip(action, self.length)
        observation, info = self._current
        observation, info = self._view(observation, self._idle(info))
        return observation, 0.0, False, False, info

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._current = observation, self._kept(info)
        info = self._keyed(info, self._thought)
        if self._over:
            return observation, {**info}
        if self._thought is None:
            return f"{observation}\n{THINK}", {**info, "admissible": ()}
        return f"{observation}\nYour thought: {self._thought or '(none)'}\n{ACT}", {**info}

    def _begin(self) -> None:
        self._thought: str | None = None
        self._over = False
        self._current: tuple[Any, dict[str, Any]] = "", {}

    def _memory(self) -> dict[str, Any]:
        return {"thought": self._thought, "over": self._over}

    def _remember(self, memory: dict[str, Any]) -> None:
        thought = memory["thought"]
        if thought is not None and not isinstance(thought, str):
            raise ValueError(f"expected a thought, got {thought!r:.80}")
        self._thought, self._over = thought, bool(memory["over"])
