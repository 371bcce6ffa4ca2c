"""Test environments that return the action as the observation, to send any text through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.spaces import Dict, Discrete

from agentgym import Tasks, TextEnv, TimeStep, UnicodeText


@dataclass
class State:
    """The turn and the last action."""

    said: list[str]


class Echo(TextEnv):
    """Repeats the action, ends at "stop", and samples a number per turn."""

    instructions = "Say anything; stop ends."
    State = State

    def __init__(self, *, admissible: tuple[str, ...] = (), **kwargs: Any):
        super().__init__(**kwargs)
        self.tasks = Tasks.generated(100)
        self.admissible = admissible

    def _start(self, task: str) -> TimeStep:
        self.state = State([])
        return TimeStep(f"start {self.np_random.integers(1000)}", admissible=self.admissible)

    def _advance(self, action: str) -> TimeStep:
        self.state.said.append(action)
        if action == "nonsense":
            return self._invalid("That was nonsense.")
        done = action == "stop"
        return TimeStep(
            text=action,
            rewards={"task": float(len(action))},
            terminated=done,
            success=done,
            progress=float(done),
            admissible=() if done else self.admissible,
        )


class DictEcho(gymnasium.Env[dict[str, Any], str]):
    """Returns the action and its length in a dictionary observation."""

    def __init__(self) -> None:
        self.observation_space = Dict({"text": UnicodeText(), "length": Discrete(1 << 21)})
        self.action_space = UnicodeText()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Returns an empty text."""
        super().reset(seed=seed)
        return {"text": "", "length": 0}, {}

    def step(self, action: str):
        """Returns the action."""
        return {"text": action, "length": len(action)}, 0.0, False, False, {}
