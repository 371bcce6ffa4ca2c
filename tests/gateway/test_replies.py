"""Replies of models: thoughts, and tool calls in the syntax of every family."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.gateway.rendering import Rendering
from agentgym.trainers.gateway.replies import Reading, read_reply, signatures
from agentgym.trainers.gateway.wire import Message, ToolCall

from ..helpers.tool_templates import ENDS, tool_tokenizer

TOOLS = {
    "add": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "note": {"text": {"type": "string"}, "loud": {"type": "boolean"}},
}
ADD = ("add", {"a": 3, "b": 4})
NOTE = ("note", {"text": "go 17", "loud": True})
BOTH = [
    pytest.param(text, id=name)
    for name, text in {
        "hermes": '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>\n'
        '<tool_call>\n{"name": "note", "arguments": {"text": "go 17", "loud": true}}\n</tool_call>',
        "qwen3.5": "<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n<parameter=b>\n4\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=note>\n<parameter=text>\n"
        "go 17\n</parameter>\n<parameter=loud>\ntrue\n</parameter>\n</function>\n</tool_call>",
        "lfm2": "<|tool_call_start|>[add(a=3, b=4), note(text='go 17', loud=True)]"
        "<|tool_call_end|>",
        "glm": "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>3</arg_value>\n<arg_key>b"
        "</arg_key>"
        "\n<arg_value>4</arg_value>\n</tool_call>\n<tool_call>note\n<arg_key>text</arg_key>\n"
        "<arg_value>go 17</arg_value>\n<arg_key>loud</arg_key>\n<arg_value>true</arg_value>\n"
        "</tool_call>",
        "gemma": "<|tool_call>call:add{a:3,b:4}<tool_call|>"
        '<|tool_call>call:note{text:<|"|>go 17<|"|>,loud:true}<tool_call|>',
        "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"a": 3, "b": 4}}, '
        '{"name": "note", "arguments": {"text": "go 17", "loud": true}}]',
        "mistral-args": '[TOOL_CALLS]add[ARGS]{"a": 3, "b": 4}'
        '[TOOL_CALLS]note[ARGS]{"text": "go 17", "loud": true}',
        "deepseek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 3, "b": 4}'
        '<｜tool▁call▁end｜><｜tool▁call▁begin｜>note<｜tool▁sep｜>{"text": "go 17", "loud": true}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
        '<|tool_call_argument_begin|>{"a": 3, "b": 4}<|tool_call_end|><|tool_call_begin|>'
        'functions.note:1<|tool_call_argument_begin|>{"text": "go 17", "loud": true}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        "llama": '{"name": "add", "parameters": {"a": 3, "b": 4}}; '
        '{"name": "note", "parameters": {"text": "go 17", "loud": true}}',
        "llama4": '[add(a=3, b=4), note(text="go 17", loud=True)]',
        "claude": '<function_calls>\n<invoke name="add">\n<parameter name="a">3</parameter>\n'
        '<parameter name="b">4</parameter>\n</invoke>\n<invoke name="note">\n'
        '<parameter name="text">go 17</parameter>\n<parameter name="loud">true</parameter>\n'
        "</invoke>\n</function_calls>",
        "list": '[{"name": "add", "arguments": {"a": 3, "b": 4}}, '
        '{"name": "note", "arguments": {"text": "go 17", "loud": true}}]',
    }.items()
]


def calls_of(reading: Reading) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in reading.calls]


@pytest.mark.parametrize("text", BOTH)
def test_two_calls_are_read(text: str):
    reading = read_reply(text, TOOLS)
    assert calls_of(reading) == [ADD, NOTE]
    assert reading.text is None


@pytest.mark.parametrize("text", BOTH)
def test_thought_and_text_stand_apart_from_calls(text: str):
    reading = read_reply(f"<think>\nI add.\n</think>\n\nNow:\n{text}", TOOLS)
    assert (reading.text, reading.reasoning) == ("Now:", "I add.")
    assert calls_of(reading) in ([ADD, NOTE], [NOTE])  # one line without marks is the end of a text
    behind = read_reply(f"I add.</think>{text}", TOOLS, thinking=True)
    assert (behind.reasoning, calls_of(behind)) == ("I add.", [ADD, NOTE])


@pytest.mark.parametrize("text", BOTH)
def test_without_tools_calls_are_text(text: str):
    assert read_reply(text, {}) == Reading(text)


@pytest.mark.parametrize("name", [*sorted(set(ENDS) - {"deepseekv3"}), "qwen3", "gptoss"])
def test_the_call_that_a_template_writes_is_read(name: str):
    about = {"description": "Does it."}
    tools = [
        {"function": {"name": name, **about, "parameters": {"properties": schemas}}}
        for name, schemas in TOOLS.items()
    ]
    call = ToolCall("abcdefghi", "note", '{"text": "go 17", "loud": true}')
    rendering = Rendering(tool_tokenizer(name), {})
    history = [Message("user", "go"), Message("assistant", calls=(call,))]
    result = Message("tool", "RESULT", call_id="abcdefghi", name="note")
    whole = rendering.text([*history, result], tools).text
    reply = whole[whole.rindex("go", 0, whole.rindex("go 17")) + 2 : whole.rindex("RESULT")]
    end = min(
        at for at in (reply.find(end, reply.find("go 17")) for end in ends_of(name)) if at > 0
    )
    reading = read_reply(reply[:end].rpartition("assistant\n")[2], signatures(tools))
    assert calls_of(reading) == [NOTE]


def ends_of(name: str) -> list[str]:
    own = {"qwen3": "<|im_end|>", "gptoss": "<|call|>", "glm4moe": "<|observation|>"}
    return [own.get(name) or ENDS[name], "<|tool_response>"]


def test_harmony_has_thought_text_and_call():
    text = (
        "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>Adding.<|end|><|start|>assistant to=functions.add<|channel|>commentary json"
        '<|message|>{"a":3, "b": 4}'
    )
    reading = read_reply(text, TOOLS)
    assert reading == Reading("Adding.", "I add.", (("add", '{"a":3, "b": 4}'),))  # type: ignore[arg-type]
    final = read_reply("<|channel|>final<|message|>Done.", TOOLS)
    assert final == Reading("Done.")


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 3,"b":4}', '{ "b" : 4, "a" : 3.0 }', '{"a": 3, "b": [1, {"c": "\\u00e9"}]}'],
)
def test_arguments_stay_as_the_model_wrote_them(arguments: str):
    for text in (
        f'<tool_call>{{"name": "add", "arguments": {arguments}}}</tool_call>',
        f'{{"name": "add", "parameters": {arguments}}}',
        f"[TOOL_CALLS]add[ARGS]{arguments}",
    ):
        assert read_reply(text, TOOLS).calls == (("add", arguments),)


def test_slips_in_json_are_read_and_written_as_json():
    reading = read_reply(
        "<tool_call>{'name': 'add', 'arguments': {'a': 3, 'b': 4,}}</tool_call>", TOOLS
    )
    assert calls_of(reading) == [ADD]


def test_values_have_the_types_of_the_schema():
    text = (
        "<tool_call><function=note><parameter=text>17</parameter><parameter=loud>false</parameter>"
        "</function></tool_call>"
    )
    assert calls_of(read_reply(text, TOOLS)) == [("note", {"text": "17", "loud": False})]


def test_a_number_that_json_cannot_hold_is_text():
    text = "<function=note><parameter=loud>-1e999</parameter></function>"
    assert calls_of(read_reply(text, TOOLS)) == [("note", {"loud": "-1e999"})]


MALFORMED = [
    '<tool_call>\n{"name": "add", "arguments": {"a": 3',
    '<tool_call>{"arguments": {}}</tool_call>',
    "<tool_call>\n<function=add>\n<parameter=a>\n3",
    "<|tool_call_start|>[add(a=3",
    "<|tool_call>call:add{a:3",
    "[TOOL_CALLS]",
    '<tool_call>{"name": "add", "arguments": {"a": 1e999, "b": 4}}</tool_call>',
    "<tool_call>" * 20,
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_call_stays_in_the_text(text: str):
    assert read_reply(text, TOOLS) == Reading(text)


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_call_behind_a_good_one_stays_in_the_text(text: str):
    good = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>'
    reading = read_reply(good + text, TOOLS)
    assert calls_of(reading) == [ADD]
    assert reading.text == text


def test_prose_about_a_tool_is_no_call():
    for text in ("I would call add(a=1, b=2) now.", 'Use {"name": "add"} if you must.', "{}", "[]"):
        assert read_reply(text, TOOLS) == Reading(text)


def test_calls_of_unknown_tools_need_marks():
    marked = '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'
    assert calls_of(read_reply(marked, TOOLS)) == [("fly", {})]
    bare = '{"name": "fly", "arguments": {}}'
    assert read_reply(bare, TOOLS) == Reading(bare)


def test_a_code_block_with_a_call_is_a_call():
    reading = read_reply(
        'Now:\n```json\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n```', TOOLS
    )
    assert (reading.text, calls_of(reading)) == ("Now:", [ADD])


def test_a_thought_that_is_cut_off_is_all_thought():
    assert read_reply("<think>\nI will", TOOLS) == Reading("", "I will")
    assert read_reply("I will", TOOLS, thinking=True) == Reading("", "I will")


PARTS = st.sampled_from(
    [
        *"""<think> </think> <tool_call> </tool_call> {"name":"add","arguments": { } go </function>
        {"a":3,"b":4} <function=add> <parameter=a> </parameter> 3 <|tool_call_start|>[ , ] ( ```
        add(a=3,b=4) <|tool_call_end|> " ' <|tool_call>call:add{ a:3 <tool_call|> <|"|> [ARGS]
        [TOOL_CALLS] <|channel|>analysis<|message|> <|end|>""".split(),
        "<|start|>assistant to=functions.add",
        "\n",
        "\ud800",
    ]
)


@settings(deadline=None, max_examples=150)
@given(st.lists(PARTS | st.text(max_size=4), max_size=12).map("".join), st.booleans())
def test_no_reply_raises_and_no_word_is_lost(text: str, thinking: bool):
    marked = text.replace("go", "word0")
    words = [f"word{i}" for i in range(marked.count("word0"))]
    for word in words[1:]:
        marked = marked[::-1].replace("0drow", word[::-1], 1)[::-1]
    reading = read_reply(marked, TOOLS, thinking=thinking)
    whole = f"{reading.text} {reading.reasoning} {reading.calls}"
    assert all(word in whole for word in words)
    for call in reading.calls:
        assert isinstance(json.loads(call.arguments), dict)


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_ordinary_text_stays_as_it_is(text: str):
    assert read_reply(text, {}).text == text or "think" in text.lower() or "<|" in text
