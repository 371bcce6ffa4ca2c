"""`ToolEnv`: base class of environments whose actions are tool calls."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import gymnasium

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, did_you_mean
from agentgym.reading.typography import normalized
from agentgym.time_step import TimeStep
from agentgym.tools.calls import HINTS, Call, CallFormat, message_of, read_call, write_call
from agentgym.tools.decorator import Tool, ToolError

_as_json = json.JSONEncoder(ensure_ascii=False).encode
LONGEST_RESULT = 20_000
"""Maximum number of characters of a result. The rest is cut."""


@dataclass(kw_only=True)
class ToolState:
    """The part of the state that all tool environments share.

    Attributes:
        calls: number of valid calls.
        digest: sum of the hashes of all calls and their results, whatever their order.
    """

    calls: int = 0
    digest: int = 0


def as_text(result: Any) -> str:
    """Returns the result of a tool as text: strings as they are, other values as JSON."""
    if result is None:
        return "Done."
    text = result if isinstance(result, str) else _as_json(result)
    if len(text) > LONGEST_RESULT:
        return f"{text[:LONGEST_RESULT]}... ({len(text) - LONGEST_RESULT:,} more characters)"
    return text


class ToolEnv(TextEnv):
    """Base class of environments whose actions are tool calls.

    A subclass decorates methods with `agentgym.tool`, sets `rules` (text for the agent) and
    `tasks`, derives its `State` from `ToolState`, and implements `_begin` and `_judge`. The tools
    read and modify `self.state`. A tool with `final=True` ends the episode.

    Calls are read in all formats of `CallFormat`. A malformed call, an unknown tool or wrong
    arguments are an invalid action. So is a call that raises: the error is the observation. Tools
    must raise before they modify the state.

    Args:
        call_format: format of calls in the instructions and in the expert's actions.
        **kwargs: arguments of `TextEnv`.
    """

    rules: ClassVar[str] = ""
    """Goal and rules. The instructions add the tools and the format of calls."""
    reward_names = ("task", "cost")
    plain_text: bool = False
    """Whether the text of arguments is read in its plain form (see `agentgym.reading.normalized`).

    It suits worlds whose own text is plain. Otherwise, arguments stay as they are written.
    """
    State = ToolState
    state: Any

    def __init__(self, *, call_format: CallFormat = "json", **kwargs):
        super().__init__(**kwargs)
        self.call_format: CallFormat = call_format
        self.tools: dict[str, Tool] = {}
        self._signatures: dict[str, dict[str, Any]] = {}
        self._add_tools(_declared(type(self)))

    def _add_tools(self, tools: Sequence[Tool]) -> None:
        """Offers tools to the agent, in this order, and writes the instructions."""
        for offered in tools:
            if offered.name in self.tools:
                raise ConfigError(f"Two tools are named {offered.name!r}. Set name= of one.")
            self.tools[offered.name] = offered
            self._signatures[offered.name] = offered.parameters.get("properties", {})
        listed = "\n".join(f"- {offered.help}" for offered in self.tools.values())
        self.instructions = f"{self._rules()}\n{HINTS[self.call_format]} Tools:\n{listed}"

    def _rules(self) -> str:
        """Returns the first part of the instructions."""
        return self.rules

    # Implemented by a subclass.

    def _begin(self, task: str) -> str:
        """Sets `self.state` to the start of the task and returns the first observation."""
        raise NotImplementedError

    def _judge(self) -> float:
        """Returns the reward at the end of an episode. 1 or more is a success."""
        raise NotImplementedError

    def _rewards(self) -> dict[str, float]:
        """Returns the reward at the end of an episode by term."""
        return {"task": float(self._judge())}

    def _progress(self) -> float:
        """Returns the progress before the end of the episode, in [0, 1]."""
        return 0.0

    def _changed(self) -> Any:
        """Returns what calls can change, for the state key. The order of changes matters to it."""
        return None

    def _solve(self) -> Call | str | None:
        """Returns the expert's next call (or text, if the environment reads text), if any."""
        return None

    def _message(self, text: str) -> TimeStep:
        """Plays an action that is not a call. Default: an invalid action."""
        return self._invalid(f"Expected a tool call. {HINTS[self.call_format]}")

    @property
    def reads_messages(self) -> bool:
        """Whether an action can be a message instead of a call."""
        return type(self)._message is not ToolEnv._message

    # The rules of all tool environments.

    def _start(self, task: str) -> TimeStep:
        return TimeStep(text=self._begin(task), state_key="start")

    def _parse(self, action: str) -> str:
        return action

    def read_call(self, action: str) -> Call | None:
        """Returns the call in an action, or None if it is plain text: see `tools.read_call`."""
        call = read_call(action, self._signatures)
        return Call(call.name, _plain(call.arguments)) if call and self.plain_text else call

    def _advance(self, action: str) -> TimeStep:
        try:
            call = self.read_call(action)
        except ValueError as problem:
            return self._invalid(str(problem))
        return self._message(message_of(action)) if call is None else self._call(call)

    def _call(self, call: Call) -> TimeStep:
        """Plays a call."""
        offered = self.tools.get(call.name)
        if offered is None:
            hint = did_you_mean(call.name[:40], self.tools)
            return self._invalid(f"There is no tool {call.name[:40]!r}.{hint}")
        try:
            arguments = offered.check(call.arguments)
        except ValueError as problem:
            return self._invalid(str(problem))
        try:
            text = as_text(self._run(offered, arguments))
        except ToolError as error:
            return self._invalid(f"Error: {error}")
        except Exception as error:
            return self._invalid(f"Error: {type(error).__name__}: {error!s:.500}")
        self.state.calls += 1
        self._note(f"{call.name} {arguments} {text}")
        return self._step(text, over=offered.final, cost=offered.cost)

    def _run(self, offered: Tool, arguments: dict[str, Any]) -> Any:
        """Returns the result of a tool."""
        return offered.function(self, **arguments)

    def _note(self, event: str) -> None:
        """Adds an event to the digest of the episode."""
        self.state.digest = (self.state.digest + _hash(event)) % 2**56

    def _step(self, text: str, *, over: bool = False, cost: float = 0.0) -> TimeStep:
        """Returns the step after a valid action."""
        terms = self._rewards() if over else {}
        reward = math.fsum(terms.values())  # weights that sum to 1 reach it
        return TimeStep(
            text=text,
            rewards={**terms, "cost": 0.0 - cost},
            terminated=over,
            success=over and reward >= 1,
            progress=min(1.0, max(0.0, reward)) if over else self._progress(),
            state_key=f"{self.state.digest ^ _hash(repr(self._changed())):x}",
        )

    def _invalid(self, message: str) -> TimeStep:
        """Returns a step whose observation is the message. The state is unchanged."""
        assert self._last is not None
        return dataclasses.replace(self._last, text=message, rewards={}, valid=False)

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Returns the JSON schemas of the tools, as chat templates expect them (`tools=`)."""
        return [offered.schema for offered in self.tools.values()]

    def expert(self) -> str | None:
        """Returns the scripted expert's next action, or None if there is none."""
        action = self._solve()
        return write_call(action, self.call_format) if isinstance(action, Call) else action


def _plain(value: Any) -> Any:
    """Returns a JSON value with the plain form of each text."""
    if isinstance(value, str):
        return normalized(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _hash(text: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    )


def _declared(cls: type) -> list[Tool]:
    """Returns the tools among the attributes of a class, those of its bases last."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            found.setdefault(name, value)
    return [value for value in found.values() if isinstance(value, Tool)]


def action_readers(
    env: gymnasium.Env[Any, Any],
) -> Iterator[tuple[gymnasium.Wrapper[Any, Any, Any, Any], bool]]:
    """Yields the wrappers that read actions of their own, and whether they pass others on."""
    while env is not env.unwrapped:
        if not isinstance(env, gymnasium.Wrapper):  # a `Mixture`
            env = env.get_wrapper_attr("playing")
            continue
        own = isinstance(env, gymnasium.ActionWrapper) or getattr(env, "own_actions", False)
        if own:
            yield env, own == "also"
        env = env.env


class CallableTools(NamedTuple):
    """What a client can call in an environment.

    Attributes:
        tools: the tools that calls reach, by name. There are none in an environment without tools,
            and in a wrapper that would read a call as an answer, a thought or the action of another
            task.
        format: how calls are written.
        texts: whether actions may be other texts: messages, notes, or all of them without tools.
    """

    tools: dict[str, Tool]
    format: CallFormat
    texts: bool


def callable_tools(env: gymnasium.Env[Any, Any]) -> CallableTools:
    """Returns what a client can call in an environment."""
    inner, readers = env.unwrapped, [*action_readers(env)]
    if not isinstance(inner, ToolEnv) or not all(passes for _, passes in readers):
        return CallableTools({}, "json", True)
    texts = inner.reads_messages or bool(readers) or not inner.tools
    return CallableTools(dict(inner.tools), inner.call_format, texts)
