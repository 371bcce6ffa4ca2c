"""`TemplateFacts`: what a chat template does with tools, found by rendering a short dialogue."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.errors import ConfigError
from agentgym.trainers.gateway.rendering import Guarded, Rendering
from agentgym.trainers.gateway.wire import Message, ToolCall
from agentgym.trainers.policy.chat_template import TEMPLATE_SECONDS, render, within

_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "probe about",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "probe word"}},
            "required": ["word"],
        },
    },
}
_SYSTEM = Message("system", "probe system")
_LATER = Message("system", "probe later")
_FIRST = Message("user", "probe first")
_CALL = Message(
    "assistant",
    "",
    "probe thought",
    (ToolCall("probecall", "probe_tool", '{"word": "probe argument"}'),),
)
_TWO = Message(
    "assistant",
    calls=(
        ToolCall("probecall", "probe_tool", '{"word": "probe argument"}'),
        ToolCall("probenext", "probe_tool", '{"word": "probe other"}'),
    ),
)
_RESULT = Message("tool", "probe result", call_id="probecall", name="probe_tool")
_ANSWER = Message("assistant", "probe answer")
_SECOND = Message("user", "probe second")


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What a chat template writes.

    Attributes:
        system: it has a system role.
        mid_system: it writes a later system message in its place.
        tools: it describes the tools.
        calls: it writes tool calls.
        results: it writes the results of tools.
        several: it writes several calls of one message.
        thoughts: it writes the thought before a tool call while the results come in.
        old_thoughts: it still writes it when a new user message has come.
        text_arguments: it writes arguments alike, whether they are given as text or as an object.
        null_text: it takes a message of null text beside tool calls.
    """

    system: bool
    mid_system: bool
    tools: bool
    calls: bool
    results: bool
    several: bool
    thoughts: bool
    old_thoughts: bool
    text_arguments: bool
    null_text: bool

    @property
    def native(self) -> bool:
        """Whether the template can hold a dialogue with tools."""
        return self.tools and self.calls and self.results

    def describe(self) -> str:
        """Returns the facts as sentences for the log of a run."""
        if not self.native:
            missing = [name for name in ("tools", "calls", "results") if not getattr(self, name)]
            return (
                f"The chat template does not write {', '.join(missing)} of a dialogue with tools: "
                "tools are described in the instructions, and results are user messages."
            )
        kept = "keeps" if self.old_thoughts else "drops" if self.thoughts else "never writes"
        alike = "alike" if self.text_arguments else "unlike those of an object"
        null = "takes" if self.null_text else "does not take"
        return (
            f"The chat template {kept} earlier thoughts, writes arguments of a text {alike}, and "
            f"{null} null text beside calls. Arguments are passed as objects, null as empty text."
        )


def probe(tokenizer: Any, kwargs: Mapping[str, Any]) -> tuple[Rendering, TemplateFacts]:
    """Returns the renderer of a tokenizer's chat template, and what the template does.

    Args:
        tokenizer: a `transformers` tokenizer with a chat template.
        kwargs: further arguments of the template.

    Raises:
        ConfigError: if the template takes too long.
    """
    bare = Rendering(tokenizer, kwargs)

    def shown(*messages: Message, tools: Sequence[Mapping[str, Any]] = ()) -> Guarded:
        try:
            return bare.text(messages, tools)
        except ConfigError:
            raise
        except Exception:  # a template raises whatever it likes
            return Guarded("", "")

    loop = shown(_FIRST, _CALL, _RESULT, tools=[_TOOL]).text
    later = shown(_FIRST, _CALL, _RESULT, _ANSWER, _SECOND, tools=[_TOOL]).text
    mid = shown(_SYSTEM, _FIRST, _ANSWER, _LATER, _SECOND).text
    places = [mid.find(message.text or "") for message in (_ANSWER, _LATER, _SECOND)]
    plain = _render_raw(tokenizer, kwargs)
    facts = TemplateFacts(
        system="probe system" in shown(_SYSTEM, _FIRST).text,
        mid_system=-1 < places[0] < places[1] < places[2],
        tools="probe about" in shown(_FIRST, tools=[_TOOL]).text,
        calls="probe argument" in loop,
        results="probe result" in loop,
        several="probe other" in shown(_FIRST, _TWO, _RESULT, tools=[_TOOL]).text,
        thoughts="probe thought" in loop,
        old_thoughts="probe thought" in later,
        text_arguments=bool(plain("", '{"word": "probe argument"}'))
        and plain("", '{"word": "probe argument"}') == plain("", {"word": "probe argument"}),
        null_text=bool(plain(None, {})) and plain(None, {"word": "x"}) == plain("", {"word": "x"}),
    )
    return Rendering(tokenizer, kwargs, loop + later if facts.native else ""), facts


def _render_raw(tokenizer: Any, kwargs: Mapping[str, Any]) -> Callable[[Any, Any], str]:
    """Returns a function that renders a call with some text and arguments, "" if it raises."""

    def raw(text: str | None, arguments: Any) -> str:
        function = {"name": "probe_tool", "arguments": arguments}
        call = {"type": "function", "id": "probecall", "function": function}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "probe first"},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "probecall", "name": "probe_tool", "content": "x"},
        ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tools = {**kwargs, "tools": [_TOOL]}
                return within(TEMPLATE_SECONDS, lambda: render(tokenizer, messages, tools))
        except ConfigError:
            raise
        except Exception:  # a template raises whatever it likes
            return ""

    return raw
