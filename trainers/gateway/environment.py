"""`HeldEnv`: the environment of a session, which its program plays through the gateway.

The trainer resets it. The program takes actions or calls tools, and reads observations. Rewards and
success go to the trainer alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from agentgym.registration.mixture import id_in_play
from agentgym.serving.protocol import (
    EXECUTION_ERROR,
    SESSION_ERROR,
    VALIDATION_ERROR,
    ProtocolError,
)
from agentgym.time_limits import (
    NOT_STARTED,
    BoundedCalls,
    CallTimeout,
    timed_out_info,
    unstarted_info,
)
from agentgym.tools.calls import Call, write_call
from agentgym.tools.env import callable_tools
from agentgym.trainers.gateway.task_file import TaskFile
from agentgym.trainers.gateway.wire import ToolCall
from agentgym.trainers.rollout.env_pool import instructions_of, turns_of

SHOWN = ("task", "turn", "valid", "admissible")
"""Parts of the info that a program sees."""
ACT = {
    "type": "object",
    "properties": {"action": {"type": "string", "description": "the action or message"}},
    "required": ["action"],
    "additionalProperties": False,
}
"""Arguments of the tool `act`, in environments without tools or that read messages."""
OnStep = Callable[..., None]
"""Takes reward, terminated, truncated, `info` and, as `call`, the tool call of a step."""


class HeldEnv:
    """The environment of an episode. Its methods may be called by any thread.

    Args:
        env: the environment.
        task: name of the task. "": one that the seed draws.
        seed: seed of the episode.
        max_turns: turn limit of the episode. None: that of the environment.
        calls: runs calls into the environment with a time limit. None: there is no limit.

    Attributes:
        env_id: id of the environment.
        observation: the last observation.
        info: the last `info`.
        instructions: the instructions of the environment.
        tools: its tools as in a chat completion, without `act`.
        data: the line of the task in a file of tasks. Otherwise empty.
        error: what the environment raised, None if nothing.
        timed_out: description of the call that took too long, "" without one.
        steps: number of steps.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        task: str,
        seed: int,
        max_turns: int | None = None,
        calls: BoundedCalls | None = None,
    ):
        self._env, self._calls, self._lock = env, calls, threading.Lock()
        self._on_step: OnStep | None = None
        self._begun = self._over = False
        self.error: Exception | None = None
        self.timed_out, self.steps = "", 0
        options: dict[str, Any] = {"task": task} if task else {}
        if max_turns is not None:
            options["max_turns"] = max_turns
        self.info: Mapping[str, Any] = unstarted_info(task)
        self.observation = NOT_STARTED
        try:
            self.observation, self.info = self._call(lambda: env.reset(seed=seed, options=options))
        except CallTimeout as error:
            self._time_out(f"reset {error}.")
        self.env_id, self.instructions = id_in_play(env), instructions_of(env)
        inner = env.unwrapped
        self.data: Mapping[str, Any] = inner.data if isinstance(inner, TaskFile) else {}
        known, self._format, texts = callable_tools(env)
        own = {
            name: {"name": name, "description": tool.description, "parameters": tool.parameters}
            for name, tool in known.items()
        }
        self._schemas = {name: tool["parameters"] for name, tool in own.items()}
        self.tools = tuple({"type": "function", "function": tool} for tool in own.values())
        act = {"name": "act", "description": "Plays one turn.", "parameters": ACT}
        self.mcp_tools = [*([act] if texts and "act" not in own else []), *own.values()]

    def attach(self, on_step: OnStep) -> None:
        """Sets the function that takes the results of steps."""
        self._on_step = on_step

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self._over

    @property
    def turns(self) -> int:
        """The number of turns that the environment has counted, 0 if it does not."""
        return turns_of(self._env)

    def close(self) -> None:
        """Refuses all further actions, after the one in progress."""
        with self._lock:
            self._over, self._on_step = True, None

    def reset(self) -> dict[str, Any]:
        """Returns the first observation. The trainer has reset the environment.

        Raises:
            ProtocolError: if it was asked for before.
        """
        with self._lock:
            if self._begun or self.steps:
                raise ProtocolError(
                    EXECUTION_ERROR,
                    "This episode has begun, and a program plays one: take the next action.",
                )
            self._begun = True
            return self._shown({"instructions": self.instructions})

    def state(self) -> dict[str, Any]:
        """Returns the task and the number of turns played."""
        return {"step_count": self.info.get("turn", 0), "task": self.info.get("task", "")}

    def step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Takes an action.

        Args:
            data: the action, with the key `text`.

        Raises:
            ProtocolError: if it is no text, or the episode is over.
        """
        text = data.get("text")
        if not isinstance(text, str):
            raise ProtocolError(
                VALIDATION_ERROR, f'An action is {{"text": "..."}}, got {dict(data)!r:.80}.'
            )
        with self._lock:
            return self._step(text, None)

    def call(self, name: Any, arguments: Any) -> dict[str, Any]:
        """Calls a tool. A call that the environment does not accept is played as an invalid one.

        Raises:
            ProtocolError: for an unknown tool, arguments that are no object, or if the episode is
                over.
        """
        arguments = {} if arguments is None else arguments
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ProtocolError(
                VALIDATION_ERROR,
                f"A call is a name and an object of arguments, got {name!r:.80} {arguments!r:.80}.",
            )
        if name == "act" and name not in self._schemas:
            text = arguments.get("action")
            if not isinstance(text, str) or len(arguments) > 1:
                raise ProtocolError(
                    VALIDATION_ERROR, f'act takes {{"action": "..."}}, got {arguments!r:.80}.'
                )
            with self._lock:
                return self._step(text, _tool_call(name, arguments))
        if name not in self._schemas:
            known = ", ".join(each["name"] for each in self.mcp_tools)
            raise ProtocolError(VALIDATION_ERROR, f"There is no tool {name!r:.80}, only {known}.")
        with self._lock:
            text = write_call(Call(name, arguments), self._format)
            return self._step(text, _tool_call(name, arguments))

    def _step(self, text: str, call: ToolCall | None) -> dict[str, Any]:
        if self._over:
            raise ProtocolError(EXECUTION_ERROR, "The episode is over: end the program.")
        self._begun = True
        try:
            self.observation, reward, terminated, truncated, self.info = self._call(
                lambda: self._env.step(text)
            )
        except CallTimeout as error:
            self._time_out(f"step {error}, after the action {text!r:.300}.")
            reward, terminated, truncated = 0.0, False, True
            self.info = timed_out_info(self.info)
        except Exception as error:
            self._over, self.error = True, error
            raise ProtocolError(SESSION_ERROR, "The environment has failed.") from error
        self.steps += 1
        self._over = bool(terminated or truncated)
        if self._on_step is not None:
            self._on_step(float(reward), bool(terminated), bool(truncated), self.info, call=call)
        return self._shown({})

    def _call(self, call: Callable[[], Any]) -> Any:
        return call() if self._calls is None else self._calls(call)

    def _time_out(self, problem: str) -> None:
        self.timed_out = f"{id_in_play(self._env)}, task {self.info.get('task')!r}: {problem}"
        self._over = True

    def _shown(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the observation in OpenEnv's protocol, without the reward."""
        info = {name: self.info[name] for name in SHOWN if name in self.info}
        observation = {"text": str(self.observation), **info, **more, "metadata": {}}
        return {"observation": observation, "reward": None, "done": self._over}


def _tool_call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall("", name, json.dumps(arguments))
