"""The dialect of `/v1/responses`: items of input and output, without state on the server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentgym.trainers.gateway.body import (
    MOST_MESSAGES,
    MOST_TOOLS,
    check_messages,
    count_of,
    distinct,
    flag_of,
    function_tool,
    joined_text,
    list_of,
    name_of,
    object_in,
    refuse,
    text_of,
)
from agentgym.trainers.gateway.chat import ROLES, Body, message_body, read_choice, wishes_of
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, ToolCall

ITEMS = ("message", "function_call", "function_call_output", "reasoning")
"""Types of the items of input."""


def read_responses(body: Mapping[str, Any]) -> ChatRequest:
    """Returns the request of a body.

    Raises:
        Refused: with the field at fault.
    """
    for name in ("previous_response_id", "conversation", "background", "prompt"):
        if body.get(name):
            refuse(
                f"{name} needs a server that keeps responses: send the whole conversation in input "
                "(store=False).",
                name,
                "unsupported_parameter",
            )
    tools = distinct([_tool(t, i) for i, t in enumerate(list_of(body, "tools", MOST_TOOLS))])
    choice, wishes = read_choice(body, bool(tools))
    form = object_in(object_in(body, "text"), "format", "text.")
    if form.get("type", "text") != "text":
        wishes = {**wishes, "response_format": form}
    return ChatRequest(
        messages=check_messages(_messages(body), "input"),
        tools=tools,
        model=text_of(body, "model")[:1000],
        tool_choice=choice,
        parallel=flag_of(body, "parallel_tool_calls", True) or not tools,
        max_tokens=count_of(body, "max_output_tokens"),
        stream=flag_of(body, "stream"),
        overridden=wishes_of(body) | wishes,
    )


def _tool(tool: Mapping[str, Any], index: int) -> Body:
    where = f"tools[{index}]"
    if tool.get("type", "function") != "function":
        refuse(
            f"{where} has the type {tool['type']!r:.80}. Tools that a server runs are not "
            "supported: use the type function.",
            where,
            "unsupported_tool",
        )
    return function_tool(tool, where)


def _messages(body: Mapping[str, Any]) -> list[Message]:
    """Returns instructions and input as messages."""
    instructions = text_of(body, "instructions")
    found = [Message("system", instructions)] if instructions else []
    given = body.get("input")
    if isinstance(given, str):
        return [*found, Message("user", given)]
    for i, item in enumerate(list_of(body, "input", MOST_MESSAGES)):
        message = _item(item, f"input[{i}]")
        joined = _join(found[-1], message) if found else None
        found[-1:] = [*found[-1:], message] if joined is None else [joined]
    return found


def _item(item: Mapping[str, Any], where: str) -> Message:
    """Returns an item as a message. Thought, text and calls of a reply are one item each."""
    kind = item.get("type", "message")
    if kind not in ITEMS:
        refuse(
            f"{where} has the type {kind!r:.80}. Known are {', '.join(ITEMS)}.",
            where,
            "unsupported_content",
        )
    if kind == "message":
        role = ROLES.get(str(item.get("role")))
        if role is None or role == "tool":
            refuse(f"{where}.role must not be {item.get('role')!r:.80}.", f"{where}.role")
        return Message(role, joined_text(item.get("content"), f"{where}.content") or "")
    if kind == "function_call":
        name, arguments = name_of(item, "name", f"{where}."), text_of(item, "arguments", "{}")
        call = ToolCall(name_of(item, "call_id", f"{where}."), name, arguments)
        return Message("assistant", calls=(call,))
    if kind == "function_call_output":
        text = joined_text(item.get("output"), f"{where}.output") or ""
        return Message("tool", text, call_id=name_of(item, "call_id", f"{where}."))
    parts = [*list_of(item, "content", 99, f"{where}."), *list_of(item, "summary", 99, f"{where}.")]
    texts = [text_of(part, "text", where=f"{where}.") for part in parts]
    return Message("assistant", reasoning="\n".join(texts))


def _join(before: Message, message: Message) -> Message | None:
    """Returns two items of one reply as a message, or None if a new one begins."""
    if before.role != "assistant" or message.role != "assistant" or message.reasoning:
        return None
    if message.text is not None:
        new = before.text is not None or before.calls
        return None if new else replace(before, text=message.text)
    return replace(before, calls=before.calls + message.calls)


def reply_items(message: Mapping[str, Any], id: str) -> list[Body]:
    """Returns a reply in the form of chat completions as items, named after an id."""
    items: list[Body] = []
    thought, text, calls = (
        message.get(name) for name in ("reasoning_content", "content", "tool_calls")
    )
    if thought:
        parts = [{"type": "reasoning_text", "text": thought}]
        items.append({"id": f"rs_{id}", "type": "reasoning", "summary": [], "content": parts})
    if text or not calls:
        part = {"type": "output_text", "text": text or "", "annotations": [], "logprobs": []}
        items.append({"id": f"msg_{id}", "type": "message", "role": "assistant", "content": [part]})
    for number, call in enumerate(calls or ()):
        items.append(
            {
                "id": f"fc_{id}_{number}",
                "type": "function_call",
                "call_id": call["id"],
                **call["function"],
            }
        )
    return [{**item, "status": "completed"} for item in items]


def write_response(reply: ChatReply, request: ChatRequest, id: str, created: int) -> Body:
    """Returns the body of a reply."""
    cut = reply.finish == "length"
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "max_output_tokens": request.max_tokens,
        "metadata": {},
        "model": request.model or reply.model,
        "output": reply_items(message_body(reply), id.removeprefix("resp_")),
        "parallel_tool_calls": request.parallel,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": request.tool_choice,
        "tools": [
            {**tool["function"], "type": "function", "strict": False} for tool in request.tools
        ],
        "top_p": None,
        "truncation": "disabled",
        "usage": {
            "input_tokens": reply.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": reply.cached_tokens,
                "cache_write_tokens": 0,
            },
            "output_tokens": reply.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        },
    }


def response_events(
    reply: ChatReply, request: ChatRequest, id: str, created: int
) -> Iterator[tuple[str, str]]:
    """Yields name and data of the events of a stream."""
    number = itertools.count()

    def event(kind: str, **fields: Any) -> tuple[str, str]:
        kind = f"response.{kind}"
        return kind, json.dumps({"type": kind, "sequence_number": next(number), **fields})

    whole = write_response(reply, request, id, created)
    empty = {**whole, "status": "in_progress", "output": [], "usage": None}
    empty["incomplete_details"] = None
    yield event("created", response=empty)
    yield event("in_progress", response=empty)
    for index, item in enumerate(whole["output"]):
        yield event("output_item.added", output_index=index, item=_begun(item))
        for kind, fields in _parts(item):
            yield event(kind, output_index=index, item_id=item["id"], **fields)
        yield event("output_item.done", output_index=index, item=item)
    yield event(whole["status"], response=whole)


def _begun(item: Body) -> Body:
    """Returns an item as it is before its content."""
    empty = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return {**item, **empty, "status": "in_progress"}


def _parts(item: Body) -> Iterator[tuple[str, Body]]:
    """Yields the events of the content of an item."""
    if item["type"] == "function_call":
        text = item["arguments"]
        yield "function_call_arguments.delta", {"delta": text}
        yield "function_call_arguments.done", {"arguments": text, "name": item["name"]}
        return
    (part,) = item["content"]
    at = {"content_index": 0}
    kind = part["type"]
    further = {"logprobs": []} if kind == "output_text" else {}
    yield "content_part.added", {**at, "part": {**part, "text": ""}}
    yield f"{kind}.delta", {**at, "delta": part["text"], **further}
    yield f"{kind}.done", {**at, "text": part["text"], **further}
    yield "content_part.done", {**at, "part": part}
