"""An environment written with OpenEnv's own classes."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State  # pyright: ignore


class Say(Action):
    message: str


class Heard(Observation):
    echoed: str


class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id="", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Heard:
        self._state = State(episode_id=episode_id, step_count=0)
        return Heard(echoed=f"hello {seed}", reward=None, done=False)

    def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Heard:  # type: ignore
        self._state.step_count += 1
        over = action.message == "bye"
        return Heard(echoed=action.message, reward=float(over), done=over)

    @property
    def state(self) -> State:
        return self._state
