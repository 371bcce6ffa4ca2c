"""The dialect of `/v1/chat/completions`: bodies to `ChatRequest`, `ChatReply` to bodies."""

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
    joined_text,
    list_of,
    name_of,
    object_in,
    refuse,
    stops_of,
    text_of,
)
from agentgym.trainers.gateway.wire import (
    ChatReply,
    ChatRequest,
    Message,
    Refused,
    Role,
    ToolCall,
    ToolChoice,
)

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
"""Roles of the wire -> roles of messages."""
WISHES = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "logit_bias", "reasoning_effort", "verbosity", "reasoning",
    "top_logprobs", "chat_template_kwargs",
)  # fmt: skip
"""Fields that the settings of the run stand above."""
CONTINUED = (
    "The reply cannot go on from the text of the last message: ask for its beginning in a message "
    "of the user."
)
Body = dict[str, Any]


def read_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Returns the request of a body.

    Raises:
        Refused: with the field at fault.
    """
    if body.get("functions"):
        refuse("functions is not supported: send the functions in tools.", "functions")
    if body.get("n") not in (None, 1):
        refuse(f"n must be 1, got {body['n']!r:.80}. Send several requests.", "n")
    if body.get("continue_final_message"):
        refuse(CONTINUED, "continue_final_message")
    tools = distinct([_tool(t, i) for i, t in enumerate(list_of(body, "tools", MOST_TOOLS))])
    messages = list_of(body, "messages", MOST_MESSAGES)
    choice, wishes = read_choice(body, bool(tools))
    limits = [count_of(body, name) for name in ("max_tokens", "max_completion_tokens")]
    stream = flag_of(body, "stream")
    return ChatRequest(
        messages=check_messages([_message(m, f"messages[{i}]") for i, m in enumerate(messages)]),
        tools=tools,
        model=text_of(body, "model")[:1000],
        tool_choice=choice,
        parallel=flag_of(body, "parallel_tool_calls", True) or not tools,
        stop=stops_of(body, "stop"),
        max_tokens=min((n for n in limits if n is not None), default=None),
        stream=stream,
        include_usage=stream and flag_of(object_in(body, "stream_options"), "include_usage"),
        logprobs=flag_of(body, "logprobs"),
        overridden=wishes_of(body) | wishes,
    )


def wishes_of(body: Mapping[str, Any]) -> Body:
    """Returns the fields of a body that the run's settings replace, as sent."""
    found = {name: body[name] for name in WISHES if body.get(name) is not None}
    for name in ("temperature", "top_p"):
        if isinstance(found.get(name, 0), bool) or not isinstance(found.get(name, 0), int | float):
            refuse(f"{name} must be a number, got {found[name]!r:.80}.", name)
    form = object_in(body, "response_format")
    return found | ({"response_format": form} if form.get("type", "text") != "text" else {})


def read_choice(body: Mapping[str, Any], tools: bool) -> tuple[ToolChoice, Body]:
    """Returns how the model may call tools, and the client's wish if it is another."""
    choice = body.get("tool_choice")
    if choice is None or choice == "auto" or not tools:
        return "auto", {}
    if choice == "none":
        return "none", {}
    if choice != "required" and not isinstance(choice, dict):
        refuse(
            f"tool_choice must be auto, none, required or an object, got {choice!r:.80}.",
            "tool_choice",
        )
    return "auto", {"tool_choice": choice}


def _tool(tool: Mapping[str, Any], index: int) -> Body:
    where = f"tools[{index}]"
    kind = tool.get("type", "function")
    if kind != "function" or not isinstance(tool.get("function"), dict):
        refuse(
            f"{where} must have the type function and an object function, got the type "
            f"{kind!r:.80}. Tools that a server runs are not supported.",
            where,
            "unsupported_tool",
        )
    return function_tool(tool["function"], f"{where}.function")


def _message(message: Mapping[str, Any], where: str) -> Message:
    role = ROLES.get(str(message.get("role")))
    if role is None:
        refuse(
            f"{where}.role must be one of {', '.join(ROLES)}, got {message.get('role')!r:.80}.",
            f"{where}.role",
        )
    text = joined_text(message.get("content"), f"{where}.content")
    name = text_of(message, "name", where=f"{where}.")
    if role == "assistant":
        if message.get("function_call"):
            refuse(f"{where}.function_call is not supported: send it in tool_calls.", where)
        calls = list_of(message, "tool_calls", MOST_TOOLS, f"{where}.")
        return Message(
            role,
            text,
            _reasoning(message),
            tuple(_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)),
            name=name,
        )
    if text is None:
        refuse(f"{where}.content must be a string or a list of parts, got null.", where)
    call_id = text_of(message, "tool_call_id", where=f"{where}.") if role == "tool" else ""
    if role == "tool" and not call_id:
        refuse(f"{where}.tool_call_id must name the call that it answers.", where)
    return Message(role, text, call_id=call_id, name=name)


def _reasoning(message: Mapping[str, Any]) -> str:
    """Returns the thought in an assistant message, under any of its usual names."""
    named = [message.get(name) for name in ("reasoning_content", "reasoning", "thinking")]
    return next((each for each in named if isinstance(each, str) and each), "")


def _call(call: Mapping[str, Any], where: str) -> ToolCall:
    function = object_in(call, "function", f"{where}.")
    arguments = function.get("arguments", "{}")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        refuse(f"{where}.function.arguments must be a string of JSON.", where)
    name = name_of(function, "name", f"{where}.function.")
    return ToolCall(text_of(call, "id", where=f"{where}."), name, arguments)


def usage_of(reply: ChatReply) -> Body:
    """Returns the numbers of tokens, with all the objects that clients read."""
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def write_chat(reply: ChatReply, request: ChatRequest, id: str, created: int) -> Body:
    """Returns the body of a reply.

    Args:
        reply: the reply.
        request: the request that it answers.
        id: identifies the reply.
        created: its time in seconds since 1970.
    """
    choice = {
        "index": 0,
        "message": {"refusal": None, **message_body(reply)},
        "finish_reason": reply.finish,
        "logprobs": _logprobs(reply, request),
    }
    head = _head(reply, request, id, created, "chat.completion")
    return {**head, "choices": [choice], "usage": usage_of(reply)}


def message_body(message: Message | ChatReply) -> Body:
    """Returns a message in the form of the wire."""
    role = message.role if isinstance(message, Message) else "assistant"
    body: Body = {"role": role, "content": message.text}
    if message.text is None and not message.calls:
        body["content"] = ""
    if message.reasoning:
        body["reasoning_content"] = message.reasoning
    if message.calls:
        body["tool_calls"] = [_written(call) for call in message.calls]
    if isinstance(message, Message) and message.call_id:
        body["tool_call_id"] = message.call_id
    if isinstance(message, Message) and message.name:
        body["name"] = message.name
    return body


def chat_events(reply: ChatReply, request: ChatRequest, id: str, created: int) -> Iterator[str]:
    """Yields the data of the events of a stream: the parts of a reply as deltas, and the end."""
    head = _head(reply, request, id, created, "chat.completion.chunk")

    def event(delta: Body, finish: str | None = None, logprobs: Any = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
        return json.dumps({**head, "choices": [choice]})

    logprobs = _logprobs(reply, request)  # of all tokens, also if they are no text
    yield event({"role": "assistant", "content": ""}, logprobs=None if reply.text else logprobs)
    if reply.reasoning:
        yield event({"reasoning_content": reply.reasoning})
    if reply.text:
        yield event({"content": reply.text}, logprobs=logprobs)
    for index, call in enumerate(reply.calls):
        yield event({"tool_calls": [{"index": index, **_written(call)}]})
    yield event({}, reply.finish)
    if request.include_usage:
        yield json.dumps({**head, "choices": [], "usage": usage_of(reply)})
    yield "[DONE]"


def _head(reply: ChatReply, request: ChatRequest, id: str, created: int, kind: str) -> Body:
    model = request.model or reply.model
    return {"id": id, "object": kind, "created": created, "model": model}


def _written(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _logprobs(reply: ChatReply, request: ChatRequest) -> Body | None:
    if not request.logprobs:
        return None
    entries = [
        {"token": t.token, "bytes": list(t.data), "logprob": t.logprob, "top_logprobs": []}
        for t in reply.logprobs
    ]
    return {"content": entries, "refusal": None}


def write_error(error: Refused) -> Body:
    """Returns the body of an error."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.param or None,
            "code": error.code,
        }
    }
