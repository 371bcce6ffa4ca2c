"""`Session`: one client's environment, driven by the messages of OpenEnv's protocol.

A message is `{"type": "reset" | "step" | "state" | "close", "data": {...}}`. The reply is
`{"type": "observation" | "state", "data": {...}}` or
`{"type": "error", "data": {"message": ..., "code": ...}}`. The protocol is that of `openenv` 0.10.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from gymnasium.error import ResetNeeded

from agentgym.errors import AgentGymError
from agentgym.registration.making import TextGym
from agentgym.time_limits import TIMED_OUT, limit_env
from agentgym.time_step import INFO_KEYS

INVALID_JSON, UNKNOWN_TYPE = "INVALID_JSON", "UNKNOWN_TYPE"
VALIDATION_ERROR, EXECUTION_ERROR = "VALIDATION_ERROR", "EXECUTION_ERROR"
CAPACITY_REACHED, SESSION_ERROR = "CAPACITY_REACHED", "SESSION_ERROR"

RESET: dict[str, type] = {"seed": int, "episode_id": str, "task": str, "max_turns": int}
"""The arguments of a reset and their types. Each may be left out or null."""
LARGEST_SEED = 2**63 - 1


class ProtocolError(Exception):
    """A message that cannot be answered.

    Args:
        code: one of OpenEnv's error codes.
        message: description of the problem.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code

    def reply(self) -> dict[str, Any]:
        """Returns the message to send."""
        return {"type": "error", "data": {"message": str(self), "code": self.code}}


def read_message(text: str | bytes) -> dict[str, Any]:
    """Returns the JSON object in a message or a body.

    Raises:
        ProtocolError: if it is not one.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(INVALID_JSON, f"Invalid JSON: {error!s:.200}") from error
    if not isinstance(message, dict):
        raise ProtocolError(
            VALIDATION_ERROR, f"Expected a JSON object, got {type(message).__name__}."
        )
    return message


class Session:
    """The environment of one client. Only one call may run at a time.

    Args:
        make: makes the environment.
        seconds: time limit of a reset or a step, which truncates the episode.

    Attributes:
        id: a random name that cannot be guessed.
    """

    def __init__(self, make: Callable[[], TextGym], seconds: float | None = None):
        self.id = secrets.token_hex(16)
        self._env = limit_env(make, seconds)()
        self._episode = ""
        self._info: Mapping[str, Any] = {}

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the reply to a message, None for "close".

        Raises:
            ProtocolError: if there is none.
        """
        kind, data = message.get("type"), message.get("data", {})
        if not isinstance(data, dict):
            raise ProtocolError(
                VALIDATION_ERROR, f"data must be an object, got {type(data).__name__}."
            )
        match kind:
            case "reset":
                return {"type": "observation", "data": self.reset(data)}
            case "step":
                return {"type": "observation", "data": self.step(data)}
            case "state":
                return {"type": "state", "data": self.state()}
            case "close":
                return None
        raise ProtocolError(UNKNOWN_TYPE, f"Unknown message type: {kind!r:.80}")

    def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Starts an episode and returns its first observation.

        Raises:
            ProtocolError: for an unknown argument, or a value that the environment refuses.
        """
        for name, value in data.items():
            if name not in RESET:
                known = ", ".join(RESET)
                raise ProtocolError(VALIDATION_ERROR, f"reset takes {known}, got {name!r:.80}.")
            wrong = not isinstance(value, RESET[name]) or isinstance(value, bool)
            if value is not None and wrong:
                raise ProtocolError(
                    VALIDATION_ERROR,
                    f"{name} must be {RESET[name].__name__} or null, got {value!r:.80}.",
                )
        seed = data.get("seed")
        if seed is not None and not 0 <= seed <= LARGEST_SEED:
            raise ProtocolError(VALIDATION_ERROR, f"seed must be in [0, 2**63), got {seed!s:.80}.")
        given = {name: data.get(name) for name in ("task", "max_turns")}
        options = {name: value for name, value in given.items() if value is not None}
        try:
            text, self._info = self._env.reset(seed=seed, options=options)
        except (AgentGymError, ValueError) as error:
            raise ProtocolError(VALIDATION_ERROR, f"{error!s:.500}") from error
        self._episode = data.get("episode_id") or secrets.token_hex(8)
        instructions = {"instructions": self._env.get_wrapper_attr("instructions")}
        return self._observation(text, None, False, False, instructions)

    def step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Plays a turn. `data` is the action, with the key `text`.

        Raises:
            ProtocolError: if the action is not text, or there is no episode in progress.
        """
        text = data.get("text")
        if not isinstance(text, str) or data.keys() - {"text", "metadata"}:
            raise ProtocolError(
                VALIDATION_ERROR, f'An action is {{"text": "..."}}, got {dict(data)!r:.80}.'
            )
        try:
            observation, reward, terminated, truncated, self._info = self._env.step(text)
        except ResetNeeded as error:
            raise ProtocolError(EXECUTION_ERROR, str(error)) from error
        return self._observation(observation, float(reward), terminated, truncated, {})

    def state(self) -> dict[str, Any]:
        """Returns the state that clients may see: the episode, its task and the turns played."""
        turn, task = self._info.get("turn", 0), self._info.get("task", "")
        return {"episode_id": self._episode, "step_count": turn, "task": task}

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def _observation(
        self,
        text: str,
        reward: float | None,
        terminated: bool,
        truncated: bool,
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        info = {name: self._info[name] for name in (*INFO_KEYS, TIMED_OUT) if name in self._info}
        ends = {"terminated": bool(terminated), "truncated": bool(truncated) and not terminated}
        return {
            "observation": {"text": text, **info, **ends, **more, "metadata": {}},
            "reward": reward,
            "done": bool(terminated or truncated),
        }
