"""`CodeAction`: actions are Python programs that call the tools of an environment."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.sandbox import Cell, check_sandbox, run_calls
from agentgym.tools import Call, Tool, write_call
from agentgym.utils.action_parsing import code_blocks
from agentgym.wrappers.base import TextWrapper

ACT = "act"
"""Function of programs in environments without tools."""


class CodeAction(TextWrapper):
    """Takes Python programs that call the environment's tools.

    A program can call several tools, pass the result of one to the next, and use loops and
    conditions, as in CodeAct ("Executable Code Actions Elicit Better LLM Agents", arXiv
    2402.01030). It runs in a sandbox that interprets a subset of Python (extra `code`).

    **Actions**: text. The code blocks in it are a program, in which each tool of a `ToolEnv` is a
    function. In other environments, `act(action)` plays an action and returns the observation. Each
    call is a turn of the environment. A call that is an invalid action raises an error in the
    program. Text without a code block is passed on as it is.

    **Observations**: the output of the program, with the value of its last expression and its error
    if any. Without output: the result of the last call.

    **Rewards**: the sum over the calls of a program.

    **Info**: that of the last call, with `reward_terms` summed over the calls, and `valid` False if
    the program ended with an error. `calls` (int) is added: the number of calls of the last action.

    Args:
        env: an environment with text actions and observations.
        persistent: whether variables are kept from program to program.
        max_calls: maximum number of calls in a program, at least 1. Further calls raise an error.
        max_turns: number of actions after which the episode is truncated. The turn limit of the
            environment counts calls.

    Raises:
        ConfigError: if actions or observations are not text, or for a limit below 1.
        MissingExtraError: if the sandbox is not installed.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        persistent: bool = True,
        max_calls: int = 20,
        max_turns: int = 30,
    ):
        super().__init__(env, persistent=persistent, max_calls=max_calls, max_turns=max_turns)
        self._need_text("actions")
        self._need_text("observations")
        for name, value in (("max_calls", max_calls), ("max_turns", max_turns)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}.")
        check_sandbox("monty")
        self.persistent, self.max_calls, self.max_turns = persistent, max_calls, max_turns
        tools: dict[str, Tool] = getattr(env.unwrapped, "tools", {})
        self._tools = dict(tools)
        self._begin()
        self._over = True  # until `reset`

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by those for programs."""
        functions = (
            "Each tool is a function."
            if self._tools
            else f"{ACT}(action) plays an action and returns the observation."
        )
        kept = "are kept from program to program" if self.persistent else "are not kept"
        return (
            f"{self.env.get_wrapper_attr('instructions')}\n\nInstead of a single action, you can "
            f"reply with a Python program in a code block. {functions} Print what you need to see. "
            f"Variables {kept}.\n```python\nprint({self._example()})\n```"
        )

    def _example(self) -> str:
        return next(iter(self._tools), "") + "(...)" if self._tools else f'{ACT}("...")'

    def _begin(self) -> None:
        self._cells: tuple[Cell, ...] = ()
        self._text: str | None = None
        self._turn = self._calls = 0
        self._over = False
        self._reward, self._terms = 0.0, dict[str, float]()
        self._last: tuple[Any, float, bool, bool, dict[str, Any]] | None = None

    def _memory(self) -> dict[str, Any]:
        cells = [[cell.code, list(cell.answers)] for cell in self._cells]
        places = {"turn": self._turn, "calls": self._calls, "over": self._over}
        return {"cells": cells, "text": self._text, **places}

    def _remember(self, memory: dict[str, Any]) -> None:
        names = tuple(self._functions())
        self._cells = tuple(Cell(code, tuple(a), names) for code, a in memory["cells"])
        self._text, self._turn = memory["text"], int(memory["turn"])
        self._calls, self._over = int(memory["calls"]), bool(memory.get("over", False))

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._idle_info = self._kept(info)  # of an action without calls
        programs = [[cell.code, cell.answers] for cell in self._cells] if self.persistent else []
        info = self._keyed({**info, "calls": self._calls}, programs, self._text)
        return observation if self._text is None else self._text, info

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one action: see `TextEnv.step`."""
        self._check_turn(action)
        unread = isinstance(action, UnreadableAction)
        code = "" if unread else "\n".join(code_blocks(action))
        self._calls, self._last, self._text = 0, None, None
        if code.strip():
            observation, reward, terminated, truncated, info = self._run(code)
        else:
            observation, reward, terminated, truncated, info = super().step(action)
        self._turn += 1
        truncated = truncated or (not terminated and self._turn >= self.max_turns)
        self._over = terminated or truncated
        return observation, reward, terminated, truncated, info

    def _run(self, code: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays a program."""
        self._reward, self._terms = 0.0, dict[str, float]()
        before = self._cells if self.persistent else ()
        outcome, cell = run_calls(before, code, self._functions())
        self._cells = (*before, cell)
        if self._last is None:
            text, terminated, truncated = "There is no output.", False, False
            info = self._idle(self._idle_info)
        else:
            text, _, terminated, truncated, info = self._last
            info = {**info, "reward_terms": self._terms}
        self._text = outcome.text or text
        info["valid"] = not outcome.error
        observation, info = self._view(self._text, info)
        return observation, self._reward, terminated, truncated, info

    def _functions(self) -> dict[str, Any]:
        """Returns the functions of programs by name."""

        def function(name: str) -> Any:
            return lambda args, kwargs: self._call(name, args, kwargs)

        return {name: function(name) for name in self._tools or (ACT,)}

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Plays a call as a turn of the environment and returns its result.

        Raises:
            ValueError: for an invalid action, after the end, and beyond `max_calls`.
        """
        if self._last is not None and (self._last[2] or self._last[3]):
            raise ValueError("The episode is over.")
        if self._calls >= self.max_calls:
            raise ValueError(f"A program can make at most {self.max_calls} calls.")
        action = self._written(name, args, kwargs)
        self._calls += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._last = observation, float(reward), terminated, truncated, info
        self._reward += float(reward)
        for term, value in info["reward_terms"].items():
            self._terms[term] = self._terms.get(term, 0.0) + value
        if not info["valid"]:
            raise ValueError(observation)
        return self._value(name, observation)

    def _written(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
        """Returns a call as an action of the environment."""
        names = [*self._tools[name].parameters["properties"]] if self._tools else ["action"]
        if len(args) > len(names):
            raise ValueError(f"{name} has {len(names)} arguments, got {len(args)}.")
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        if self._tools:
            return write_call(Call(name, arguments))
        if list(arguments) != ["action"] or not isinstance(arguments["action"], str):
            raise ValueError(f"{ACT} needs one argument, the action as a text.")
        return arguments["action"]

    def _value(self, name: str, observation: str) -> Any:
        """Returns the result of a call: text for functions that return text, else the value."""
        if not self._tools or get_type_hints(self._tools[name].function).get("return") is str:
            return observation
        try:
            return json.loads(observation)
        except ValueError:
            return observation

    def expert(self) -> str | None:
        """Returns the expert's action as a program, or as text if it is not a call."""
        action = self.env.get_wrapper_attr("expert")()
        if action is None:
            return None
        if not self._tools:
            return f"```python\nprint({ACT}({action!r}))\n```"
        call = self.env.unwrapped.read_call(action)  # type: ignore[attr-defined]  # it has tools
        return action if call is None else f"```python\nprint({write_call(call, 'python')})\n```"
