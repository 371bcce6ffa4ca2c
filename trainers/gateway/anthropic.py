"""The dialect of Anthropic's `/v1/messages`: blocks of content in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.trainers.gateway.body import (
    MOST_MESSAGES,
    MOST_TOOLS,
    check_messages,
    count_of,
    distinct,
    flag_of,
    function_tool,
    list_of,
    name_of,
    object_in,
    refuse,
    stops_of,
    text_of,
)
from agentgym.trainers.gateway.chat import Body, wishes_of
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, Refused, ToolCall

_STOPS = {
    "stop": "end_turn",
    "sequence": "stop_sequence",
    "length": "max_tokens",
    "tool_calls": "tool_use",
}
_ERRORS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def read_messages(body: Mapping[str, Any]) -> ChatRequest:
    """Returns the request of a body.

    Raises:
        Refused: with the field at fault.
    """
    if body.get("mcp_servers"):
        refuse(
            "mcp_servers is not supported: connect to them, and send their tools in tools.",
            "mcp_servers",
        )
    tools = distinct([_tool(t, i) for i, t in enumerate(list_of(body, "tools", MOST_TOOLS))])
    choice = object_in(body, "tool_choice")
    kind = text_of(choice, "type", "auto", "tool_choice.")
    wishes = wishes_of(body)
    if kind not in ("auto", "none") and tools:
        wishes["tool_choice"] = choice
    if object_in(body, "thinking"):
        wishes["thinking"] = body["thinking"]
    system = _joined(body.get("system"), "system")
    messages = [Message("system", system)] if system else []
    for i, each in enumerate(list_of(body, "messages", MOST_MESSAGES)):
        messages += _read_message(each, f"messages[{i}]")
    return ChatRequest(
        messages=check_messages(messages),
        tools=tools,
        model=text_of(body, "model")[:1000],
        tool_choice="none" if kind == "none" else "auto",
        parallel=not (tools and flag_of(choice, "disable_parallel_tool_use")),
        stop=stops_of(body, "stop_sequences"),
        max_tokens=count_of(body, "max_tokens"),
        stream=flag_of(body, "stream"),
        overridden=wishes,
    )


def _tool(tool: Mapping[str, Any], index: int) -> Body:
    where = f"tools[{index}]"
    if tool.get("type") not in (None, "custom"):
        refuse(
            f"{where} has the type {tool['type']!r:.80}. Tools that a server runs are not "
            "supported: send its name, description and input_schema.",
            where,
            "unsupported_tool",
        )
    return function_tool(tool, where, "input_schema")


def _blocks(content: Any, where: str) -> list[Mapping[str, Any]]:
    """Returns content, a string or blocks, as blocks."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        refuse(f"{where} must be a string or a list of blocks, got {content!r:.80}.", where)
    return content


def _joined(content: Any, where: str) -> str:
    """Returns the text of blocks, one below the other."""
    blocks = _blocks(content, where)
    return "\n".join(_text(block, f"{where}[{i}]") for i, block in enumerate(blocks))


def _text(block: Mapping[str, Any], where: str) -> str:
    if block.get("type") != "text":
        refuse(
            f"{where} is a block of the type {block.get('type')!r:.80}. The model reads text only: "
            "leave it out.",
            where,
            "unsupported_content",
        )
    return text_of(block, "text", where=f"{where}.")


def _read_message(message: Mapping[str, Any], where: str) -> list[Message]:
    """Returns the messages in one of Anthropic's, whose blocks can be results of tools and text."""
    role, blocks = message.get("role"), _blocks(message.get("content"), f"{where}.content")
    if role == "assistant":
        return [_assistant(blocks, f"{where}.content")]
    if role not in ("user", "system"):
        refuse(f"{where}.role must be user, assistant or system, got {role!r:.80}.", where)
    found: list[Message] = []
    texts: list[str] = []
    for i, block in enumerate(blocks):
        place = f"{where}.content[{i}]"
        if block.get("type") == "tool_result":
            call_id = name_of(block, "tool_use_id", f"{place}.")
            found.append(
                Message("tool", _joined(block.get("content"), f"{place}.content"), call_id=call_id)
            )
        else:
            texts.append(_text(block, place))
    if texts or not found:
        found.append(Message("system" if role == "system" else "user", "\n".join(texts)))
    return found


def _assistant(blocks: list[Mapping[str, Any]], where: str) -> Message:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for i, block in enumerate(blocks):
        place, kind = f"{where}[{i}]", block.get("type")
        if kind == "thinking":
            thoughts.append(text_of(block, "thinking", where=f"{place}."))
        elif kind == "tool_use":
            arguments = json.dumps(object_in(block, "input", f"{place}."), ensure_ascii=False)
            call_id = name_of(block, "id", f"{place}.")
            calls.append(ToolCall(call_id, name_of(block, "name", f"{place}."), arguments))
        elif kind != "redacted_thinking":
            texts.append(_text(block, place))
    text = "\n".join(texts) if texts else None
    return Message("assistant", text, "\n".join(thoughts), tuple(calls))


def _content(reply: ChatReply) -> list[Body]:
    """Returns the blocks of a reply."""
    blocks: list[Body] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
    if reply.text or not reply.calls:
        blocks.append({"type": "text", "text": reply.text or ""})
    for call in reply.calls:
        value = json.loads(call.arguments)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": value})
    return blocks


def write_messages(reply: ChatReply, request: ChatRequest, id: str, created: int) -> Body:
    """Returns the body of a reply."""
    stopped = reply.finish == "stop" and reply.stop
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": request.model or reply.model,
        "content": _content(reply),
        "stop_reason": _STOPS["sequence" if stopped else reply.finish],
        "stop_sequence": reply.stop if stopped else None,
        "usage": {
            "input_tokens": reply.prompt_tokens - reply.cached_tokens,
            "output_tokens": reply.completion_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.cached_tokens,
        },
    }


def message_events(
    reply: ChatReply, request: ChatRequest, id: str, created: int
) -> Iterator[tuple[str, str]]:
    """Yields name and data of the events of a stream."""

    def event(kind: str, **fields: Any) -> tuple[str, str]:
        return kind, json.dumps({"type": kind, **fields})

    whole = write_messages(reply, request, id, created)
    usage = whole["usage"]
    start = {
        **whole,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 0},
    }
    yield event("message_start", message=start)
    for index, block in enumerate(whole["content"]):
        empty, deltas = _deltas(block)
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    delta = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    yield event("message_delta", delta=delta, usage=usage)
    yield event("message_stop")


def _deltas(block: Body) -> tuple[Body, list[Body]]:
    """Returns a block without its content, and the deltas that add it."""
    if block["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return {**block, "input": {}}, [delta]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return {**block, "thinking": ""}, [thought, {"type": "signature_delta", "signature": ""}]
    return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def write_messages_error(error: Refused) -> Body:
    """Returns the body of an error."""
    usual = "invalid_request_error" if error.status < 500 else "api_error"
    kind = _ERRORS.get(error.status, usual)
    return {"type": "error", "error": {"type": kind, "message": error.message}}
