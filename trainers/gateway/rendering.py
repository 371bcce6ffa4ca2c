"""`Rendering`: conversations to tokens by a chat template, with the client's text as plain text.

A template is rendered as it stands, so that everything it does to texts is done. Control tokens in
the client's texts get a guard first, a character that is taken out again before they are encoded:
the template's own control tokens are those without one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.messages import object_of
from agentgym.trainers.gateway.wire import Message, Refused, ToolCall
from agentgym.trainers.policy import chat_template
from agentgym.trainers.policy.chat_template import render, within
from agentgym.trainers.policy.plain_text import PlainText
from agentgym.utils.printable import encodable

_BYTE = r"<0x[0-9A-F]{2}>"
_WORD = re.compile(r"[A-Za-z0-9]{4,}")
_GUARDS = range(0xE000, 0xF900)
"""Code points without a meaning."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A rendered text.

    Attributes:
        text: the text, with guards.
        guard: the character in the control tokens of clients.
    """

    text: str
    guard: str

    def behind(self, index: int) -> Guarded:
        """Returns the text from an index on."""
        return replace(self, text=self.text[index:])


class _ClientText(PlainText):
    """Encodes texts of clients, without the marks around tool calls and results either."""

    def __init__(self, tokenizer: Any, marks: frozenset[int]):
        super().__init__(tokenizer, "observation")
        self._added = marks

    @cached_property
    def control(self) -> frozenset[int]:
        """Ids of the control tokens."""
        return super().control | self._added


class Rendering:
    """Renders conversations by the chat template of a tokenizer.

    Args:
        tokenizer: a `transformers` tokenizer with a chat template.
        kwargs: further arguments of the template.
        probe: a text that the template wrote, whose added tokens are control tokens.
    """

    def __init__(self, tokenizer: Any, kwargs: Mapping[str, Any], probe: str = ""):
        self._tokenizer, self._kwargs = tokenizer, dict(kwargs)
        written = set(self._ids(probe))
        added = tokenizer.added_tokens_decoder
        marks = {i for i in written if i in added and not added[i].content.isspace()}
        self._plain = _ClientText(tokenizer, frozenset(marks))
        contents = [token.content for token in added.values() if not token.content.isspace()]
        self._any_added = _any_of(contents)
        self._outside = self._guarding(self._plain)
        self._replies = self._guarding(PlainText(tokenizer, "action"))
        self._thought_key = _thought_key(tokenizer)

    def _guarding(self, plain: PlainText) -> re.Pattern[str]:
        """Returns the pattern of the starts of the control tokens of a source."""
        added = self._tokenizer.added_tokens_decoder
        named = [added[i].content for i in plain.control if i in added]
        some = "|".join([_BYTE, *(re.escape(text) for text in named if len(text) > 1)])
        return re.compile(f"(?=(?:{some}))(.)", re.DOTALL)

    def text(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> Guarded:
        """Returns a conversation as the template writes it, up to the header of the next reply.

        Args:
            messages: the conversation.
            tools: the tools that the template describes.

        Raises:
            Exception: whatever the template raises.
            ConfigError: if it takes too long.
            Refused: if it leaves out the result of a tool.
        """
        guard = _free_guard([messages, tools])
        safe = [self._message(message, guard) for message in messages]
        kwargs: dict[str, Any] = dict(self._kwargs)
        if tools:
            kwargs["tools"] = _mapped(list(tools), lambda text: self.guarded(text, guard))
        seconds = chat_template.TEMPLATE_SECONDS
        text = within(seconds, lambda: render(self._tokenizer, safe, kwargs))
        for message in messages:
            if message.role == "tool" and _is_missing(message.text or "", text):
                raise Refused(
                    400,
                    "unsupported_message",
                    f"The model's chat template leaves out the result of the call "
                    f"{message.call_id!r:.80}: send results right behind the message with their "
                    "calls.",
                    param="messages",
                )
        return Guarded(text.replace(f"\\u{ord(guard):04x}", guard), guard)

    def guarded(self, text: str, guard: str, reply: bool = False) -> str:
        """Returns a text of a client, or of a reply, with a guard in its control tokens."""
        pattern = self._replies if reply else self._outside
        return pattern.sub(rf"\1{guard}", encodable(text).replace(guard, ""))

    def _message(self, message: Message, guard: str) -> dict[str, Any]:
        """Returns a message in the form of `apply_chat_template`."""
        reply = message.role == "assistant"
        safe: dict[str, Any] = {
            "role": message.role,
            "content": self.guarded(message.text or "", guard, reply),
        }
        if message.reasoning:
            safe[self._thought_key] = self.guarded(message.reasoning, guard, reply)
        if message.calls:
            safe["tool_calls"] = [self._call(call, guard) for call in message.calls]
        if message.call_id:
            safe["tool_call_id"] = self.guarded(message.call_id, guard)
        if message.name:
            safe["name"] = self.guarded(message.name, guard)
        return safe

    def _call(self, call: ToolCall, guard: str) -> dict[str, Any]:
        arguments = _mapped(object_of(call.arguments), lambda text: self.guarded(text, guard))
        function = {"name": self.guarded(call.name, guard), "arguments": arguments}
        return {"type": "function", "id": self.guarded(call.id, guard), "function": function}

    def tokens(self, rendered: Guarded) -> Tokens:
        """Returns the tokens of a rendered text.

        A stretch between two added tokens that holds a guard is encoded apart, as plain text.
        """
        text, guard = rendered.text, rendered.guard
        ids: list[int] = []
        done = at = 0
        ends = [(found.start(), found.end()) for found in self._any_added.finditer(text)]
        for start, stop in [*ends, (len(text), len(text))]:
            if guard in text[at:start]:
                ids += self._ids(text[done:at])
                ids += self._plain(text[at:start].replace(guard, ""))
                done = start
            at = stop
        return np.array(ids + self._ids(text[done:]), np.int32)

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def _is_missing(result: str, rendered: str) -> bool:
    """Whether no word of a result is in a text. Templates may write it as JSON."""
    words = _WORD.finditer(result)  # the first one is nearly always there
    missing = False
    for word in words:
        if word[0] in rendered:
            return False
        missing = True
    return missing


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Returns the pattern of any of some texts, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")


def _free_guard(value: Any) -> str:
    """Returns a character that occurs nowhere in a value, not even as an escape of JSON."""
    shown = repr(value)  # which shows these characters as such escapes
    free = (chr(code) for code in _GUARDS if f"\\u{code:04x}" not in shown)
    return next(free, chr(_GUARDS[0]))


def _mapped(value: Any, change: Any) -> Any:
    """Returns a JSON value with each text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(each, change) for key, each in value.items()}
    return [_mapped(each, change) for each in value] if isinstance(value, list) else value


def _thought_key(tokenizer: Any) -> str:
    """Returns the key from which the template reads the thought of a message."""
    text = json.dumps(getattr(tokenizer, "chat_template", "") or "")
    return next((key for key in ("reasoning_content", "thinking") if key in text), "reasoning")
