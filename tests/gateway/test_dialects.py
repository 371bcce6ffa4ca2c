"""`/v1/messages` and `/v1/responses`: the same requests and replies in other words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.gateway.chat import read_chat
from agentgym.trainers.gateway.dialect import CHAT, MESSAGES, RESPONSES, Dialect
from agentgym.trainers.gateway.messages import History
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Refused

from .stub_backend import CALL, KEY, StubBackend, post

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from agentgym.trainers.gateway.server import GatewayServer, Limits

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
REPLY = ChatReply("Adding.", "I add.", (CALL,), "tool_calls", 5, 3)
CHAT_BODY = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "Adding.",
            "reasoning_content": "I add.",
            "tool_calls": [
                {
                    "id": CALL.id,
                    "type": "function",
                    "function": {"name": "add", "arguments": CALL.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": CALL.id, "content": "7"},
        {"role": "user", "content": "next"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "add", "description": "d", "parameters": SCHEMA},
        }
    ],
    "max_tokens": 9,
    "temperature": 0.5,
    "stream": True,
}
MESSAGES_BODY = {
    "model": "m",
    "system": [{"type": "text", "text": "Add.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I add.", "signature": ""},
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": CALL.id, "name": "add", "input": {"a": 3, "b": 4}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": CALL.id,
                    "content": [{"type": "text", "text": "7"}],
                },
                {"type": "text", "text": "next"},
            ],
        },
    ],
    "tools": [{"name": "add", "description": "d", "input_schema": SCHEMA}],
    "max_tokens": 9,
    "temperature": 0.5,
    "stream": True,
}
RESPONSES_BODY = {
    "model": "m",
    "instructions": "Add.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "I add."}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Adding.", "annotations": []}],
        },
        {
            "type": "function_call",
            "call_id": CALL.id,
            "name": "add",
            "arguments": '{"a": 3, "b": 4}',
        },
        {"type": "function_call_output", "call_id": CALL.id, "output": "7"},
        {"role": "user", "content": "next"},
    ],
    "tools": [{"type": "function", "name": "add", "description": "d", "parameters": SCHEMA}],
    "max_output_tokens": 9,
    "temperature": 0.5,
    "stream": True,
}


@pytest.mark.parametrize(
    ("dialect", "body"), [(MESSAGES, MESSAGES_BODY), (RESPONSES, RESPONSES_BODY)]
)
def test_every_dialect_reads_the_same_conversation(dialect: Dialect, body: dict[str, Any]):
    found, expected = dialect.read(body), read_chat(CHAT_BODY)
    history = History()
    assert history.chain(found).digest == history.chain(expected).digest
    assert found.messages[2].reasoning == "I add."
    assert (found.max_tokens, found.stream, found.tools) == (9, True, expected.tools)
    assert found.overridden == {"temperature": 0.5}


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize(
    "reply",
    [REPLY, ChatReply("go"), ChatReply(None, calls=(CALL, CALL)), ChatReply("", finish="length")],
)
def test_what_a_reply_writes_is_read_back(dialect: Dialect, reply: ChatReply):
    """A client that returns our reply unchanged returns the text, the thought and the calls."""
    request = read_chat(CHAT_BODY)
    written = dialect.write(reply, request, f"{dialect.prefix}1", 17)
    user = {"role": "user", "content": "go"}
    if dialect is CHAT:
        body = {"messages": [user, written["choices"][0]["message"]]}
    elif dialect is MESSAGES:
        body = {"messages": [user, {"role": "assistant", "content": written["content"]}]}
    else:
        body = {"input": [user, *written["output"]]}
    message = dialect.read(body).messages[1]
    assert (message.text or "", message.reasoning) == (reply.text or "", reply.reasoning)
    assert [(c.id, c.name, json.loads(c.arguments)) for c in message.calls] == [
        (c.id, c.name, json.loads(c.arguments)) for c in reply.calls
    ]


def test_messages_name_the_stop_string_that_ended_a_reply():
    request = MESSAGES.read({**MESSAGES_BODY, "stop_sequences": ["Obs:"]})
    for reply, reason, stop in (
        (ChatReply("go", stop="Obs:"), "stop_sequence", "Obs:"),
        (ChatReply("go"), "end_turn", None),
        (replace(REPLY, stop="Obs:"), "tool_use", None),
    ):
        body = MESSAGES.write(reply, request, "msg_1", 17)
        assert (body["stop_reason"], body["stop_sequence"]) == (reason, stop)
        events = [json.loads(data) for _, data in MESSAGES.events(reply, request, "msg_1", 17)]
        assert events[0]["message"]["stop_sequence"] is None
        assert events[-2]["delta"] == {"stop_reason": reason, "stop_sequence": stop}


BAD: list[tuple[Dialect, dict[str, Any]]] = [
    (MESSAGES, {"messages": []}),
    (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
    (MESSAGES, {"messages": [{"role": "tool", "content": "x"}]}),
    (MESSAGES, {**MESSAGES_BODY, "tools": [{"type": "bash_20250124", "name": "bash"}]}),
    (MESSAGES, {**MESSAGES_BODY, "mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}),
    (RESPONSES, {"input": "go", "previous_response_id": "resp_1"}),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}),
    (RESPONSES, {"input": [{"role": "robot", "content": "x"}]}),
    (RESPONSES, {"input": "go", "tools": [{"type": "web_search"}]}),
    (RESPONSES, {}),
]


def test_the_error_of_a_request_without_input_names_the_field():
    with pytest.raises(Refused, match="input must have") as caught:
        RESPONSES.read({"input": []})
    assert caught.value.param == "input"


@pytest.mark.parametrize(("dialect", "body"), BAD)
def test_a_bad_field_is_refused(dialect: Dialect, body: dict[str, Any]):
    with pytest.raises(Refused) as caught:
        dialect.read(body)
    assert caught.value.status == 400 and dialect.error(caught.value)["error"]["message"]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["user", "text", "tool_use"]),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "type", "content", "text", "input", "id"]), each)
    ),
    max_leaves=9,
)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(["messages", "input", "system", "tools", "stream"]), ANY))
def test_any_body_is_read_or_refused(body: dict[str, Any]):
    for dialect in (MESSAGES, RESPONSES):
        try:
            dialect.read(body)
        except Refused as error:
            assert error.status == 400


@pytest.fixture
def gateway() -> Iterator[tuple[StubBackend, str]]:
    backend = StubBackend()
    backend.reply = lambda _: REPLY
    limits = Limits(comment_seconds=0.05, blank_seconds=0.05)
    with GatewayServer(backend, limits=limits) as server:
        yield backend, server.url


def test_errors_and_counts_of_messages(gateway: tuple[StubBackend, str]):
    _, url = gateway
    status, body, _ = post(url, MESSAGES_BODY, "wrong", "/v1/messages")
    assert (status, body["type"]) == (401, "error")
    assert body["error"]["type"] == "authentication_error"
    path = "/v1/messages/count_tokens"
    status, body, _ = post(url, {"messages": [{"role": "user", "content": "four"}]}, path=path)
    assert (status, body) == (200, {"input_tokens": 4})


def test_a_reply_that_is_to_go_on_from_a_beginning_is_refused(gateway: tuple[StubBackend, str]):
    """Anthropic's last message of the assistant is the beginning of the reply, which is no turn."""
    backend, url = gateway
    begun = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "{"}]
    status, body, _ = post(url, {"messages": begun, "max_tokens": 5}, path="/v1/messages")
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert "user" in body["error"]["message"] and not backend.requests
    path = "/v1/messages/count_tokens"
    assert post(url, {"messages": begun}, path=path)[1] == {"input_tokens": 3}


def test_paths_that_are_none_have_errors_of_their_dialect(gateway: tuple[StubBackend, str]):
    _, url = gateway
    for path, method in (("/v1/messages/batches", "POST"), (f"/s/{KEY}/v1/messages", "GET")):
        _, body, _ = post(url, {}, path=path, method=method)
        assert body["type"] == "error" and body["error"]["message"]


def test_the_anthropic_client_reads_replies_streams_and_errors(gateway: tuple[StubBackend, str]):
    anthropic = pytest.importorskip("anthropic", reason="runs with `make test-harnesses`")
    backend, url = gateway
    client = anthropic.Anthropic(base_url=url, api_key=KEY)
    asked: Any = {
        key: value for key, value in MESSAGES_BODY.items() if key not in ("stream", "temperature")
    }
    reply = client.messages.create(**asked)
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]
    assert reply.content[2].input == {"a": 3, "b": 4} and reply.stop_reason == "tool_use"
    with client.messages.stream(**asked) as stream:
        assert stream.get_final_message().content[2].input == {"a": 3, "b": 4}
    assert client.messages.count_tokens(**{k: v for k, v in asked.items() if k != "max_tokens"})
    backend.reply = lambda _: Refused(400, "context_length_exceeded", "The prompt is too long.")
    with pytest.raises(anthropic.BadRequestError, match="too long"):
        client.messages.create(**asked)


def test_the_openai_client_reads_responses(gateway: tuple[StubBackend, str]):
    openai = pytest.importorskip("openai", reason="runs with `make test-harnesses`")
    backend, url = gateway
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY)
    asked: Any = {key: value for key, value in RESPONSES_BODY.items() if key != "stream"}
    reply = client.responses.create(**asked)
    assert [item.type for item in reply.output] == ["reasoning", "message", "function_call"]
    assert reply.output_text == "Adding."
    events = list(client.responses.create(**asked, stream=True))
    assert events[-1].type == "response.completed"
    assert events[-1].response.output[2].arguments == CALL.arguments
    assert openai.types.responses.Response.model_validate(events[-1].response.model_dump())
    further = [*asked["input"], *[item.model_dump() for item in reply.output]]
    client.responses.create(**{**asked, "input": further})
    messages = backend.requests[-1][1].messages
    assert messages[-1].calls == (CALL,) and messages[-1].reasoning == "I add."
    gate = threading.Event()

    def held(_: ChatRequest) -> None:
        gate.set()

    backend.reply = held
    late = client.responses.create(**asked, stream=True)
    assert gate.wait(20)
    backend.requests[-1][2].set_exception(RuntimeError("a fault"))
    with pytest.raises(openai.APIError, match="a fault"):
        list(late)
