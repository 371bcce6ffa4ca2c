"""`AdmissibleAction`: a `Discrete` action space over the admissible actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.utils.action_parsing import numbered
from agentgym.wrappers.base import TextWrapper


class AdmissibleAction(TextWrapper):
    """Selects an admissible action by its index, for libraries that need `Discrete` actions.

    **Actions**: `Discrete(max_actions)`. Index i stands for `info["admissible"][i]`. An index
    without an action is an invalid action. It is reported in the next observation and never raises.

    **Rewards**: unchanged.

    **Observations**: unchanged, or `{"observation", "action_mask"}` if `observe_mask` is True, as
    in PettingZoo's classic games.

    **Info**: `action_mask`, int8 (max_actions,), is added. It is 1 at each index that has an action
    and all zeros after a terminal state. If `overflow` is "first", `admissible` is cut to the
    first `max_actions` actions.

    Args:
        env: an environment that lists its admissible actions.
        max_actions: size of the action space.
        overflow: behaviour if more than `max_actions` actions are admissible. "error" raises.
            "first" keeps the first `max_actions` in the environment's order, so that the solution
            can become unreachable.
        observe_mask: whether observations include the mask.

    Raises:
        ConfigError: from `reset`, if the environment lists no admissible actions. From `reset` and
            `step`, if more than `max_actions` actions are admissible and `overflow` is "error".
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        max_actions: int,
        *,
        overflow: str = "error",
        observe_mask: bool = False,
    ):
        super().__init__(env, max_actions=max_actions, overflow=overflow, observe_mask=observe_mask)
        self._need_text("actions")
        if max_actions < 1:
            raise ConfigError(f"max_actions must be at least 1, got {max_actions}.")
        if overflow not in ("error", "first"):
            raise ConfigError(f"overflow must be 'error' or 'first', got {overflow!r}.")
        self.max_actions = max_actions
        self.overflow = overflow
        self.observe_mask = observe_mask
        self.action_space = Discrete(max_actions)
        if observe_mask:
            mask = Box(0, 1, (max_actions,), np.int8)
            self.observation_space = Dict(
                {"observation": env.observation_space, "action_mask": mask}
            )
        self._admissible: tuple[str, ...] = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = super().reset(seed=seed, options=options)
        if not self._admissible:
            raise ConfigError(
                f"AdmissibleAction needs info['admissible'], but {self.env.unwrapped} lists no "
                "admissible actions: its actions are free text. TokenAction takes these."
            )
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays the admissible action with this index."""
        return super().step(self.action_text(action))

    def action_text(self, action: Any) -> str:
        """Returns the admissible action with this index, or an `UnreadableAction`.

        Args:
            action: an integer.

        Raises:
            TypeError: if it is not an integer.
        """
        number = numbered(action)
        if 0 <= number < len(self._admissible):
            return self._admissible[number]
        return UnreadableAction(
            f"#{number}",
            f"Invalid action number {number}: there are {len(self._admissible)} actions, numbered "
            "from 0.",
        )

    def action_masks(self) -> np.ndarray:
        """Returns the action mask, bool (max_actions,), for `sb3_contrib.MaskablePPO`."""
        return np.arange(self.max_actions) < len(self._admissible)

    def expert(self) -> int | None:
        """Returns the index of the expert's action, or None if there is none."""
        text = self.env.get_wrapper_attr("expert")()
        return self._admissible.index(text) if text in self._admissible else None

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        admissible = tuple(info.get("admissible", ()))
        if len(admissible) > self.max_actions:
            if self.overflow == "error":
                raise ConfigError(
                    f"{len(admissible)} actions are admissible, but max_actions is "
                    f"{self.max_actions}. Increase it, or pass overflow='first' to keep the first "
                    f"{self.max_actions}."
                )
            admissible = admissible[: self.max_actions]
        self._admissible = admissible
        mask = self.action_masks().astype(np.int8)
        if self.observe_mask:
            observation = {"observation": observation, "action_mask": mask.copy()}
        return observation, {**info, "admissible": admissible, "action_mask": mask}
