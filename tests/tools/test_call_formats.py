"""Calls in the formats of model families: each is read as a whole, or refused with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentgym.reading import normalized
from agentgym.tools import Call, read_call
from agentgym.tools.calls import message_of

TOOLS: dict[str, dict[str, Any]] = {
    "search": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "finish": {"answer": {"type": "string"}},
    "look": {},
    "open_page": {"title": {"type": "string"}},
}


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def harmony(call: Call) -> str:
    return (
        "<|channel|>analysis<|message|>Which one?<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.{call.name} <|constrain|>json<|message|>{dumps(call.arguments)}<|call|>"
    )


def qwen_coder(call: Call) -> str:
    given = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else dumps(value)}\n</parameter>\n"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>\n<function={call.name}>\n{given}</function>\n</tool_call><|im_end|>"


def glm(call: Call) -> str:
    given = "".join(
        f"\n<arg_key>{key}</arg_key>\n"
        f"<arg_value>{value if isinstance(value, str) else dumps(value)}</arg_value>"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}{given}\n</tool_call><|observation|>"


def claude(call: Call) -> str:
    given = "".join(
        f'<parameter name="{key}">{value if isinstance(value, str) else dumps(value)}</parameter>\n'
        for key, value in call.arguments.items()
    )
    return f'<function_calls>\n<invoke name="{call.name}">\n{given}</invoke>\n</function_calls>'


def python(call: Call) -> str:
    return f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"


def body(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments}


JSON: dict[str, Callable[[Call], str]] = {
    "json": lambda c: dumps(body(c)),
    "anthropic": lambda c: dumps(
        {"type": "tool_use", "id": "toolu_1", "name": c.name, "input": c.arguments}
    ),
    "openai": lambda c: dumps(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function",
         "function": {"name": c.name, "arguments": dumps(c.arguments)}}]}
    ),
    "langchain json": lambda c: dumps({"action": c.name, "action_input": c.arguments}),
    "multi_tool_use": lambda c: dumps(
        {"tool_uses": [{"recipient_name": f"functions.{c.name}", "parameters": c.arguments}]}
    ),
    "flat": lambda c: dumps({"tool": c.name, **c.arguments}),
    "by name": lambda c: dumps({c.name: c.arguments}),
    "hermes": lambda c: f"<tool_call>\n{dumps(body(c))}\n</tool_call>",
    "fence": lambda c: f"I look.\n```json\n{dumps(body(c))}\n```\nThen we see.",
    "thoughts": lambda c: f"<think>{{f(x)}}</think>\n\n{dumps(body(c))}<|eot_id|>",
    "python dict": lambda c: f"I look: {body(c)!r}",
    "trailing comma": lambda c: dumps(body(c)).replace("}}", ",},}") if c.arguments else "",
    "curly quotes": lambda c: re.sub(r'"([^"]*)"', r"“\1”", dumps(body(c))),
}  # fmt: skip


def gemma(call: Call, mark: str) -> str:
    given = ",".join(
        f"{key}:{mark + value + mark if isinstance(value, str) else dumps(value)}"
        for key, value in call.arguments.items()
    )
    return f"call:{call.name}{{{given}}}"


MARKUP: dict[str, Callable[[Call], str]] = {
    "mistral": lambda c: f"[TOOL_CALLS] [{dumps({**body(c), 'id': 'a1b2'})}]</s>",
    "mistral v11": lambda c: f"[TOOL_CALLS]{c.name}[ARGS]{dumps(c.arguments)}</s>",
    "mistral v13": lambda c: f"[TOOL_CALLS]{c.name}[CALL_ID]a1[ARGS]{dumps(c.arguments)}</s>",
    "deepseek v3": lambda c: (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
        f"{c.name}\n```json\n{dumps(c.arguments)}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek v3.1": lambda c: (
        f"<｜tool▁call▁begin｜>{c.name}<｜tool▁sep｜>{dumps(c.arguments)}"
        "<｜tool▁call▁end｜><｜end▁of▁sentence｜>"
    ),
    "kimi": lambda c: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{c.name}:0"
        f"<|tool_call_argument_begin|>{dumps(c.arguments)}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    ),
    "gpt-oss": harmony,
    "gpt-oss v2": lambda c: (
        f"<|start|>assistant to=functions.{c.name}<|channel|>commentary json"
        f"<|message|>{dumps(c.arguments)}<|call|>"
    ),
    "llama": lambda c: f"<|python_tag|>{dumps({'name': c.name, 'parameters': c.arguments})}",
    "llama custom": lambda c: f"<function={c.name}>{dumps(c.arguments)}</function><|eom_id|>",
    "named object": lambda c: f"I look.\n\n{c.name}\n{dumps(c.arguments)}",
    "named fence": lambda c: f"I look.\n{c.name}\n```json\n{dumps(c.arguments)}\n```",
    "colon": lambda c: f"I look.\n{c.name}: {dumps(c.arguments)}",
    "labels": lambda c: f"I look.\n**Tool:** {c.name}\n**Arguments:** {dumps(c.arguments)}",
    "name attribute": lambda c: f'<function name="{c.name}">{dumps(c.arguments)}</function>',
    "react": lambda c: f"Thought: x\nAction: {c.name}\nAction Input: {dumps(c.arguments)}\n",
    "lfm": lambda c: f"<|tool_call_start|>[{python(c)}]<|tool_call_end|>",
    "functiongemma": lambda c: f"<start_function_call>{gemma(c, '<escape>')}<end_function_call>",
    "gemma 4": lambda c: "<|tool_call>" + gemma(c, '<|"|>') + "<tool_call|>",
    "olmo": lambda c: f"<function_calls>\n{python(c)}\n</function_calls>",
    "llama 4": lambda c: f"<|python_start|>[{python(c)}]<|python_end|>",
    "bedrock": lambda c: dumps(
        {"toolUse": {"toolUseId": "t1", "name": c.name, "input": c.arguments}}
    ),
    "command r": lambda c: f"<|START_ACTION|>[{dumps(body(c))}]<|END_ACTION|>",
}
CODE: dict[str, Callable[[Call], str]] = {
    "python": python,
    "list": lambda c: f"[{python(c)}]",
    "print": lambda c: f"print({python(c)})",
    "smolagents": lambda c: f"Thought: x\nCode:\n```py\nr = {python(c)}\nprint(r)\n```<end_code>",
    "tags": lambda c: f"Thought: x\n<code>\n{python(c)}\n</code>",
    "label": lambda c: f"Thought: x\nAction: {python(c)}\n",
    "function call": lambda c: f"Function call: `{python(c)}`",
    "line": lambda c: f"I look now.\n{python(c)}\nThat is it.",
    "object in parentheses": lambda c: f"{c.name}({c.arguments or ''})",
    "positional": lambda c: f"{c.name}({', '.join(map(repr, c.arguments.values()))})",
}
XML: dict[str, Callable[[Call], str]] = {"qwen3-coder": qwen_coder, "glm": glm, "claude": claude}
FORMATS = {**JSON, **MARKUP, **CODE, **XML}
CALLS = (
    Call("search", {"query": "red shoes", "limit": 3}),
    Call("finish", {"answer": 'It\'s "5" {x}, \\n\nno [1]'}),
    Call("look", {}),
)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_format_is_read(form: str, call: Call):
    text = FORMATS[form](call)
    if form in ("curly quotes", "trailing comma") and call.name != "search":
        pytest.skip("other quotes in the value, or nothing to change")
    assert read_call(text, TOOLS) == call


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=12)
SAFE = WORDS.filter(
    lambda text: not set(text) & set("<>\\'\"`“”„‟«»＂[]{}()") and text == text.strip()
)
CALL = st.one_of(
    st.builds(lambda q, n: Call("search", {"query": q, "limit": n}), SAFE, st.integers(-99, 99)),
    st.builds(lambda a: Call("finish", {"answer": a}), SAFE),
)


@settings(deadline=None, max_examples=200)
@given(CALL, st.sampled_from(sorted(FORMATS)))
def test_every_call_is_read_in_every_format(call: Call, form: str):
    assume("\u2028" not in str(call) and not (form == "curly quotes" and '"' in str(call)))
    assert read_call(FORMATS[form](call), TOOLS) == call


CALL_NAMES = st.sampled_from(sorted(FORMATS))


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(CALLS),
    CALL_NAMES,
    st.sampled_from(CALLS),
    CALL_NAMES,
    st.sampled_from(["\n", "\nThen:\n", "; ", "\n\nand\n\n"]),
)
def test_two_calls_are_never_one(first: Call, form: str, second: Call, other: str, joint: str):
    cut = ("<|im_end|>", "</s>", "<|eot_id|>", "<|eom_id|>", "<|call|>", "<|observation|>",
           "<｜end▁of▁sentence｜>")  # fmt: skip
    text = FORMATS[form](first)
    assume(text and FORMATS[other](second))
    assume(not any(mark in text for mark in cut))  # the rest is of another turn
    assume("think>" not in FORMATS[other](second))  # the first one is a thought
    assume(first != second or form not in CODE)  # a thought can name the call that follows
    with pytest.raises(ValueError):
        read_call(text + joint + FORMATS[other](second), TOOLS)


KEYS = st.sampled_from(["x", "extra", "options", "query2", "to", "value", "config"])


@settings(deadline=None)
@given(st.sampled_from(CALLS), KEYS, st.sampled_from([1, "y", {"a": 1}, [1], True]))
def test_an_unread_key_is_named(call: Call, key: str, value: Any):
    for given_body in (body(call), {"function": {**body(call)}}):
        with pytest.raises(ValueError, match=f"unknown key '{key}'"):
            read_call(dumps({**given_body, key: value}), TOOLS)


@pytest.mark.parametrize(
    "key",
    ["arguments", "parameters", "args", "input", "kwargs", "params", "action_input", "tool_input",
     "Arguments", "toolInput", "function_args", "Action Input"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["name", "action", "tool", "tool_name", "function", "Name"])
def test_synonyms_of_keys_are_read(name: str, key: str):
    given_body = {name: "finish", key: {"answer": "x"}}
    assert read_call(dumps(given_body)) == Call("finish", {"answer": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "finish", "args": {"answer": "x"}, "input": {"answer": "y"}}', "two keys"),
        ('{"name": "look", "tool": "finish"}', "two keys"),
        ('{"name": "finish", "arguments": {"answer": "x", "answer": "y"}}', "given twice"),
        ("{'name': 'finish', 'arguments': {'answer': 'it's'}}", "not valid"),
        ('Go: {"plan": {"name": "finish", "arguments": {"answer": ""}}', "not valid"),
        ('{"name": "look"}}', "closes more brackets"),
        ('{"name": "serch", "query": "a"}', "no tool"),
        ("<tool_use><name>search</name></tool_use>", "looks like a call"),
        ('search query="a"', "looks like a call"),
        ("search(q)", "not clear"),
        ("search('a', 'b', 'c')", "not clear"),
        ("search('a', query='b')", "not clear"),
        ("for i in (1, 2):\n    look()", "not clear"),
        ("I will look() and finish.", "alone"),
        ("search[red shoes]", "looks like a call"),
        ("/open_page 5", "looks like a call"),
        ("I look it up: open_page", "looks like a call"),
        ("open_page: red shoes", "looks like a call"),
        ("`look`", "looks like a call"),
        ('<tool name="search"><query>a</query></tool>', "looks like a call"),
        ('I look it up: {"query": "a"}', 'no "name"'),
        ('Use {"name": "finish"} only at the end.', "alone"),
        ('I will not call {"name": "finish"}', "alone"),
        ('Should I call {"name": "finish"}?', "alone"),
        ("name: search\narguments:\n  query: a", "looks like a call"),
        ("**name:** `search`\n**arguments:** a", "looks like a call"),
        ("<search>red</search>", "looks like a call"),
        ("Action: search[red]", "looks like a call"),
        ("Action: search\nAction Input: red shoes", "not a JSON object"),
        ("<tool_call>look</tool_call> <tool_call>look</tool_call>", "several"),
        ("<function=search><parameter=query>a</parameter><parameter=query>b</parameter></function>",
         "twice"),
        ("<invoke name=\"finish\"><parameter name=\"answer\">a", "does not end"),
        ("final_answer('x')", "not clear"),
        ("[TOOL_CALLS]finish x", "not valid"),
        ("<|channel|>commentary to=functions.finish<|message|>x<|call|>", "not valid"),
    ],
)  # fmt: skip
def test_a_call_of_a_known_tool_that_cannot_be_read_is_no_message(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        read_call(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    ["Shall I proceed (yes/no)?", "Dear {customer}, all is done.", "Your order is {\"id\": 5}.",
     "I searched for it, and I will look again: nothing.", "The total is $5 (incl. tax).",
     "Look: here it is. Finish [1] is better.", "I called open_page, and it shows it.",
     "a < b and c > d", "Use `look` to see it."],
)  # fmt: skip
def test_messages_stay_messages(text: str):
    assert read_call(text, TOOLS) is None
    assert message_of(text) == text


def test_an_inner_object_of_a_rejected_one_is_never_a_call():
    text = 'I plan {"name": "plan", "arguments": {"next": {"name": "finish", "arguments": {}}},}'
    assert read_call(text) == Call("plan", {"next": {"name": "finish", "arguments": {}}})
    for broken in ('{broken {"name": "look"}}', '{"a": {"name": "look"}, "b" 1}'):
        with pytest.raises(ValueError, match="not valid"):
            read_call(f"so {broken}", TOOLS)
    assert read_call('so {"data": {"name": "look"}}', TOOLS) is None


def test_types_of_xml_parameters_follow_the_tool():
    call = Call("search", {"query": "5", "limit": 5})
    for form in XML.values():
        assert read_call(form(call), TOOLS) == call


def test_thoughts_and_marks_are_no_part_of_a_message():
    assert message_of("<think>hm</think>Hello.<|im_end|>\nuser") == "Hello."
    assert message_of("<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final"
                      "<|message|>Hello.<|return|>") == "Hello."  # fmt: skip


def test_a_label_is_no_part_of_a_message():
    for label in ("Action:", "action\uff1a", "**Action:**", "<think>hm</think>\nAction:"):
        assert message_of(f"{label} Please pay the bill.") == "Please pay the bill."
    for text in ("My next action: none.", "Actions: none."):
        assert message_of(text) == text


VARIANTS = {
    "-": "\u2212",
    "'": "\u2019",
    '"': "\u201c",
    " ": "\u00a0",
    ":": "\uff1a",
    "5": "\uff15",
}


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(CALLS), st.sampled_from(sorted(FORMATS)), st.sampled_from(sorted(VARIANTS)))
def test_a_typographic_variant_is_the_same_call_or_refused(call: Call, form: str, mark: str):
    text = FORMATS[form](call).replace(mark, VARIANTS[mark])
    try:
        found = read_call(text, TOOLS)
    except ValueError:
        return
    if found is not None:
        plain = {k: normalized(v) if isinstance(v, str) else v for k, v in found.arguments.items()}
        assert Call(found.name, plain) == call


@pytest.mark.parametrize(
    "piece",
    ["{", '{"a":', "<tool_call>", "[TOOL_CALLS]", "search(", "search('", "look()", "Action: look\n",
     "<function=search>", '<invoke name="a">', "```py\n", "<|message|>", "to=x<|message|>{", "“",
     "<start_function_call>call:f{", "<function_calls>f(", "<escape>", "<|python_start|>",
     "<think>", "[{", "<parameter=x>", 'look"', "{'a': '", "{“"],
)  # fmt: skip
def test_hostile_texts_are_read_in_linear_time(piece: str):
    try:
        read_call(piece * (99_000 // len(piece)), TOOLS)
    except ValueError as reason:
        assert str(reason)


@pytest.mark.parametrize("between", ["\n", "; ", ", ", " "])
@pytest.mark.parametrize(
    "form",
    ["<function_calls>\n{}\n</function_calls>", "<|python_start|>{}<|python_end|>",
     "<|python_tag|>{}", "<|tool_call_start|>{}<|tool_call_end|>"],
)  # fmt: skip
def test_the_first_of_several_marked_calls_is_never_taken(form: str, between: str):
    with pytest.raises(ValueError, match="got several"):
        read_call(form.format(f"f(x=1){between}g(x=2)"))


PARTS = st.sampled_from(
    ["{", "}", '"', "name", ":", "look", "(", ")", "<tool_call>", "</tool_call>", "Action:", "\n",
     "[TOOL_CALLS]", "[", "]", "'", "search", ",", "```py\n", "```", "<|message|>", "to=look", "=",
     "<function=look>", "</function>", "<think>", "</think>", "<|im_end|>",
     " "]
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(st.lists(PARTS, max_size=20))
def test_any_text_is_a_call_or_text_or_explained(parts: list[str]):
    for tools in (TOOLS, None):
        try:
            read_call("".join(parts), tools)
        except ValueError as reason:
            assert str(reason).endswith(".")
