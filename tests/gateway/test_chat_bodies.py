"""Bodies of chat completions: every field, and what clients make of our replies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.gateway.body import read_object
from agentgym.trainers.gateway.chat import chat_events, read_chat, write_chat, write_error
from agentgym.trainers.gateway.messages import Answered, History, call_ids
from agentgym.trainers.gateway.wire import (
    ChatReply,
    ChatRequest,
    Message,
    Refused,
    TokenLogprob,
    ToolCall,
)

from .stub_backend import ask

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
ID, NEXT = call_ids("episode", 0, 2)
ARGUMENTS = '{"a":3, "b": 3}'
REPLY = ChatReply(" Adding. ", "I add.", (ToolCall(ID, "add", ARGUMENTS),), "tool_calls")


def echoed(**changes: Any) -> dict[str, Any]:
    """The reply as a message of the wire, with changes."""
    call = {"id": ID, "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": " Adding. ", "tool_calls": [call]}
    return {**message, **changes}


def call(arguments: str, id: str = ID, name: str = "add") -> list[dict[str, Any]]:
    return [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]


ECHOES = {
    "openai": echoed(reasoning_content="I add.", refusal=None, annotations=[]),
    "openai-agents": echoed(),
    "langchain": echoed(tool_calls=call('{"a": 3, "b": 3}')),
    "pydantic-ai": echoed(tool_calls=call('{"a":3,"b":3}'), reasoning_content="I add."),
    "litellm": echoed(reasoning_content="I add.", function_call=None),
    "strands": echoed(
        content=[{"type": "text", "text": " Adding. "}], tool_calls=call('{"a": 3, "b": 3}')
    ),
    "ag2": echoed(tool_calls=call('{"b": 3, "a": 3}')),
    "autogen": echoed(name="agent"),
    "crewai": echoed(content=None),
    "stripped": echoed(content="Adding."),
}
FOREIGN = {
    "smolagents": {
        "role": "assistant",
        "content": [{"type": "text", "text": f"Adding.\nCalling tools:\n[{ARGUMENTS}]"}],
    },
    "edited text": echoed(content="Subtracting."),
    "edited arguments": echoed(tool_calls=call('{"a": 4, "b": 3}')),
    "another tool": echoed(tool_calls=call(ARGUMENTS, name="sub")),
    "id of another session": echoed(tool_calls=call(ARGUMENTS, call_ids("other", 0, 1)[0])),
    "a call more": echoed(tool_calls=[*call(ARGUMENTS), *call(ARGUMENTS, NEXT)]),
    "call left out": echoed(tool_calls=[]),
    "other reasoning": echoed(reasoning_content="I subtract."),
}


def history_with(*replies: ChatReply, **settings: Any) -> tuple[History, list[bytes]]:
    history, chains = History(**settings), []
    for number, reply in enumerate(replies):
        chain = history.chain(read_chat(ask(tools=[ADD]))).digest
        tokens = np.array([number], np.int32)
        history.add(Answered(number, chain, tokens, tokens, reply))
        chains.append(chain)
    return history, chains


def with_echo(message: dict[str, Any]) -> ChatRequest:
    body = ask(tools=[ADD])
    return read_chat({**body, "messages": [*body["messages"], message]})


@pytest.mark.parametrize("client", ECHOES)
def test_the_echo_of_a_client_is_our_reply(client: str):
    history, _ = history_with(REPLY)
    chain = history.chain(with_echo(ECHOES[client]))
    assert chain.parent == 1
    assert chain.echoes[1] is not None and chain.echoes[1].number == 0


def test_lossy_echoes_keep_the_chain():
    history, _ = history_with(REPLY)
    assert len({history.chain(with_echo(each)).digest for each in ECHOES.values()}) == 1


@pytest.mark.parametrize("case", FOREIGN)
def test_an_edited_reply_is_foreign(case: str):
    history, _ = history_with(REPLY)
    assert history.chain(with_echo(FOREIGN[case])).parent is None


def test_the_order_of_calls_counts():
    calls = (ToolCall(ID, "add", ARGUMENTS), ToolCall(NEXT, "add", "{}"))
    history, _ = history_with(ChatReply(None, calls=calls, finish="tool_calls"))
    both = [*call(ARGUMENTS), *call("{}", NEXT)]
    assert history.chain(with_echo(echoed(content=None, tool_calls=both))).parent == 1
    swapped = echoed(content=None, tool_calls=both[::-1])
    assert history.chain(with_echo(swapped)).parent is None


def test_of_two_equal_replies_the_one_to_the_same_conversation_is_meant():
    history = History()
    tokens = np.array([0], np.int32)
    one, two = read_chat(ask()), read_chat({"messages": [{"role": "user", "content": "stop"}]})
    for number, request in enumerate((one, two)):
        chain = history.chain(request).digest
        history.add(Answered(number, chain, tokens, tokens, ChatReply("yes ")))
    for number, request in enumerate((one, two)):
        longer = ChatRequest((*request.messages, Message("assistant", "yes")))
        echo = history.chain(longer).echoes[1]
        assert echo is not None and echo.number == number
    moved = ChatRequest((Message("user", "x"), Message("assistant", "yes")))
    found = history.chain(moved)
    assert found.parent is None and found.echoes[1] is not None


def test_dropped_reasoning_is_an_edit_if_asked():
    history, _ = history_with(REPLY, exact_reasoning=True)
    assert history.chain(with_echo(ECHOES["openai"])).parent == 1
    assert history.chain(with_echo(ECHOES["crewai"])).parent is None


def test_other_tools_or_instructions_begin_another_conversation():
    history, _ = history_with(REPLY)
    request = with_echo(ECHOES["openai"])
    without = ChatRequest(request.messages)
    assert history.chain(without).parent is None
    system = ChatRequest((Message("system", "x"), *request.messages), request.tools)
    assert history.chain(system).parent is None


def test_messages_and_tools_are_kept_once_however_often_they_are_sent():
    history = History()
    body = ask(tools=[ADD])
    one = history.shared(read_chat(json.loads(json.dumps(body))))
    two = history.shared(read_chat(json.loads(json.dumps(body))))
    assert two == one and two.tools is one.tools
    assert two.messages[0] is one.messages[0]
    exact = {**ADD, "function": {**ADD["function"], "parameters": {"minimum": 1}}}
    almost = {**ADD, "function": {**ADD["function"], "parameters": {"minimum": True}}}
    for tool in (exact, almost):
        assert str(history.shared(read_chat(ask(tools=[tool]))).tools[0]) == str(
            read_chat(ask(tools=[tool])).tools[0]
        )


def test_every_field_is_read():
    request = read_chat(
        ask(
            messages=[
                {"role": "developer", "content": [{"type": "text", "text": "a"}, "b"]},
                {"role": "user", "content": "go", "name": "ann"},
                {**ECHOES["openai"], "content": None},
                {"role": "tool", "tool_call_id": ID, "content": [{"type": "text", "text": "6"}]},
            ],
            tools=[{"function": {"name": "add", "strict": True}}],
            tool_choice="required",
            parallel_tool_calls=False,
            stop=["a", "b"],
            max_tokens=9,
            max_completion_tokens=7,
            stream=True,
            stream_options={"include_usage": True},
            temperature=0.3,
            seed=4,
            user="u",
            metadata={"a": 1},
            response_format={"type": "json_object"},
            top_logprobs=5,
            reasoning={"effort": "low"},
            chat_template_kwargs={"enable_thinking": False},
            unheard_of=[1],
        )
    )
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "tool"]
    assert (request.messages[0].text, request.messages[3].text) == ("ab", "6")
    assert request.messages[2].reasoning == "I add." and request.messages[2].text is None
    assert (request.stop, request.max_tokens) == (("a", "b"), 7)
    assert (request.stream, request.include_usage, request.parallel) == (True, True, False)
    assert request.tool_choice == "auto"
    assert request.overridden.keys() == {
        "temperature", "seed", "tool_choice", "response_format", "top_logprobs", "reasoning",
        "chat_template_kwargs",
    }  # fmt: skip
    assert request.tools[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_an_empty_list_of_tools_is_none():
    request = read_chat(ask(tools=[], tool_choice="required", parallel_tool_calls=False))
    assert (request.tools, request.overridden, request.parallel) == ((), {}, True)


def tool(argument: Any, **words: Any) -> dict[str, Any]:
    """A tool whose argument has a JSON schema, and words of the schema of them all."""
    parameters = {"properties": {"a": argument}, **words}
    return {"type": "function", "function": {"name": "add", "parameters": parameters}}


def test_words_of_a_schema_that_are_null_are_absent():
    """Some clients write out every word that a schema can have."""
    full = {"type": "string", "enum": None, "anyOf": None, "default": None}
    (read,) = read_chat(ask(tools=[tool(full, required=None)])).tools
    parameters = read["function"]["parameters"]
    assert parameters["properties"] == {"a": {"type": "string", "default": None}}
    assert "required" not in parameters
    nested = {"anyOf": [{"type": None}, True]}
    (read,) = read_chat(ask(tools=[tool(nested)])).tools
    assert read["function"]["parameters"]["properties"] == {"a": {"anyOf": [{}, True]}}


IMAGE = [{"type": "image_url", "image_url": {"url": "data:"}}]
BAD = {
    "messages": [{}, {"messages": []}, {"messages": "go"}, ask(messages=[{"role": "robot"}])],
    "messages[0].content[0]": [ask(messages=[{"role": "user", "content": IMAGE}])],
    "messages[0]": [
        ask(messages=[{"role": "user", "content": None}]),
        ask(messages=[{"role": "tool", "content": "6"}]),
        ask(messages=[echoed(function_call={"name": "add", "arguments": "{}"})]),
    ],
    "n": [ask(n=5), ask(n=True + 1)],
    "stop": [ask(stop=list("abcde")), ask(stop=5), ask(stop="a" * 1000), ask(stop="\ud83d")],
    "max_tokens": [ask(max_tokens=0), ask(max_tokens="5"), ask(max_tokens=True)],
    "stream": [ask(stream="yes")],
    "temperature": [ask(temperature="hot")],
    "tools": [ask(tools=[ADD, ADD]), ask(tools=[ADD] * 300), ask(tools={})],
    "tools[0]": [
        ask(tools=[{"type": "web_search"}]),
        *(ask(tools=[tool(schema)]) for schema in (5, {"type": 5}, {"enum": 5}, {"anyOf": [5]})),
        *(ask(tools=[tool({}, required=each)]) for each in (True, [5], "a")),
        ask(tools=[tool({}, properties=[])]),
    ],
    "tool_choice": [ask(tools=[ADD], tool_choice="maybe")],
    "functions": [ask(functions=[{"name": "add"}])],
    "continue_final_message": [ask(continue_final_message=True)],
}


@pytest.mark.parametrize("field", BAD)
def test_a_bad_field_is_refused_by_name(field: str):
    for body in BAD[field]:
        with pytest.raises(Refused) as caught:
            read_chat(body)
        assert caught.value.status == 400 and not caught.value.retry
        assert caught.value.param.startswith(field)
        assert write_error(caught.value)["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = "messages tools tool_choice n stop max_tokens stream stream_options temperature".split()


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.dictionaries(st.text(max_size=4), JSON))
def test_any_body_is_read_or_refused(fields: dict[str, Any], message: dict[str, Any]):
    keyed = {"role": "assistant", "content": "x", "tool_calls": fields.get("stop"), **message}
    for body in (fields, ask(**fields), ask(messages=[keyed])):
        try:
            request = read_chat(body)
        except Refused as error:
            assert error.status == 400
        else:
            History().chain(request)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a":' * 100000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
    ],
)
def test_a_body_that_is_no_json_object_is_refused(data: bytes):
    with pytest.raises(Refused, match="body") as caught:
        read_object(data)
    assert caught.value.code == "invalid_json"


def test_a_reply_has_all_fields():
    request = read_chat(ask())
    body = write_chat(REPLY, request, "chatcmpl-1", 17)
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == ARGUMENTS
    assert choice["message"]["reasoning_content"] == "I add."
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    empty = write_chat(ChatReply(None), request, "chatcmpl-1", 17)
    assert empty["choices"][0]["message"]["content"] == ""


@pytest.mark.parametrize("text", ["go", "", None])
def test_a_stream_has_the_logprobs_of_all_tokens(text: str | None):
    tokens = tuple(TokenLogprob(token, token.encode(), -0.5) for token in ("<call>", "add"))
    reply = replace(REPLY, text=text, logprobs=tokens)
    request = read_chat(ask(stream=True, logprobs=True))
    *data, _ = chat_events(reply, request, "chatcmpl-1", 17)
    found = [json.loads(each)["choices"][0]["logprobs"] for each in data]
    whole = write_chat(reply, request, "chatcmpl-1", 17)["choices"][0]["logprobs"]
    assert [each for each in found if each] == [whole]


def test_a_stream_adds_up_to_the_reply():
    request = read_chat(ask(stream=True, stream_options={"include_usage": True}))
    *data, end = list(chat_events(REPLY, request, "chatcmpl-1", 17))
    assert end == "[DONE]"
    events = [json.loads(each) for each in data]
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == REPLY.text
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == REPLY.reasoning
    assert [c["index"] for delta in deltas for c in delta.get("tool_calls", ())] == [0]
    assert events[-1]["usage"]["total_tokens"] == 0 and events[-1]["choices"] == []
    assert {event["id"] for event in events} == {"chatcmpl-1"}
