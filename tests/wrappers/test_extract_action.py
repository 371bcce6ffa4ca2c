from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.wrappers import AdmissibleAction, ExtractAction
from agentgym.wrappers.answer_format import FORMATS

from ..helpers.echo import Echo

GOOD = {
    "thought_action": [
        ("Action: go", "go"),
        ("Thought: I should go.\nAction: go", "go"),
        ("Thought 1: hm\nAction 1: search[red shoes]\nObservation 1: made up", "search[red shoes]"),
        ("**Thought:** hm\n**Action:** go", "go"),
        ("> action : go\nThought: more\nAction: go", "go"),
        ("Action: go\nObservation: made up\nThought: x\nAction: later", "go"),
        ("Action: go<|im_end|>\nAction: later", "go"),
        ("<|im_start|>assistant\nAction： go</s>", "go"),
        ("Action:\n```\nprint(1)\nprint(2)\n```", "print(1)\nprint(2)"),
        ("Action: `go`", "go"),
        ("Action: *", "*"),
        ("<think>\nAction: no\n</think>\nAction: yes", "yes"),
        ("no opening tag, Action: no</think>Action: yes", "yes"),
        ("Action: line one\nline two", "line one\nline two"),
        ("Action: say Action: hello", "say Action: hello"),
        ("Action: go   \r\n", "go"),
    ],
    "tags": [
        ("<action>go</action>", "go"),
        ("text <ACTION>\n go north \n</ACTION> more <action>go north</action>", "go north"),
        ("<action>go</action><|eot_id|><action>later</action>", "go"),
        ("<action>cut by the stop string", "cut by the stop string"),
        ("<think>maybe <action>no</action></think><action>yes</action>", "yes"),
        ("<action>a < b</action>", "a < b"),
    ],
    "json": [
        ('{"action": "go"}', "go"),
        ('{"action": 3}', "3"),
        ('{"action": -0.5}', "-0.5"),
        ('I will. ```json\n{"action": "go"}\n```', "go"),
        ('{"name": "search", "arguments": {"words": "red shoes"}}', "search[red shoes]"),
        ('{"name": "search", "arguments": "{\\"words\\": \\"red\\"}"}', "search[red]"),
        ('{"name": "search", "parameters": "red"}', "search[red]"),
        ('{"tool": "click", "args": ["buy now"]}', "click[buy now]"),
        ('{"name": "move", "arguments": {"x": 1, "y": [2]}}', "move[1, [2]]"),
        ('{"name": "look", "arguments": {}}', "look"),
        ('{"name": "act", "arguments": {"text": " go "}}', "go"),
        ('{"action": {"name": "search", "input": "x"}}', "search[x]"),
        ('{"action": "search", "input": "x"}', "search[x]"),
        ('[{"type": "function", "function": {"name": "go", "arguments": "{}"}}]', "go"),
        ('{"tool_calls": [{"function": {"name": "go", "arguments": {"to": "a"}}}]}', "go[a]"),
        ('<tool_call>\n{"name": "go", "arguments": {"to": "東"}}\n</tool_call>', "go[東]"),
        ("{'action': 'go', 'thought': None,}", "go"),
        ("{“action”: “go”}<|im_end|>", "go"),
        ('{"action": "go", "thought": "hm"}', "go"),
        ('{"thought": "first {"} {"action": "go"}', "go"),
    ],
    "tool_call": [
        ('<tool_call>\n{"name": "act", "arguments": {"action": "go"}}\n</tool_call>', "go"),
        ('I will.<tool_call>{"name": "search", "arguments": {"q": "red"}}', "search[red]"),
        ('<think><tool_call>no</think><tool_call>{"name":"look"}</tool_call>', "look"),
        ('<tool_call>{"name": "say", "arguments": {"text": "</tool_call>"}}', "</tool_call>"),
        ('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call> and', "a[1]"),
        ("<tool_call>{'name': 'act', 'arguments': {'action': 'go'}}</tool_call><|im_end|>", "go"),
        (
            "<tool_call>\n<function=act>\n<parameter=action>\ngo\n</parameter>\n</function>\n"
            "</tool_call>",
            "go",
        ),
        ('<tool_call>{"name": "buy", "arguments": {"n": 2, "now": true}}', "buy[2, true]"),
    ],
    "llama_call": [
        ('{"name": "act", "parameters": {"action": "go"}}', "go"),
        ('\n {"name": "search", "parameters": {"q": "東京"}}\n', "search[東京]"),
        ('So: <|python_tag|>{"name": "act", "parameters": {"action": "go"}}', "go"),
        ('{"name": "a", "parameters": {}}<|eom_id|>{"name": "b", "parameters": {}}', "a"),
        ('<think>{"name": "no"}</think>{"name": "yes", "parameters": null}', "yes"),
    ],
}
MALFORMED = {
    "tool_call": [
        ("<tool_call>", "not valid JSON: Expecting value"),
        ("<tool_call>go</tool_call>", "not valid JSON: Expecting value."),
        ('<tool_call>{"name": "act", "arguments": {"action": "go', "not valid JSON: Unterminated"),
        ("<tool_call>{'name' 'act'}</tool_call>", "not valid JSON: Expecting ':'"),
        ('<tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}</tool_call>', "got several"),
        ('<tool_call>{"name": "act", "arguments": {}, "to": 1}</tool_call>', "unknown key 'to'"),
        ('<tool_call>{"name": "look"}}</tool_call>', "does not end with </tool_call>"),
        ('<tool_call>{"name": "look"} and then', "does not end with </tool_call>"),
        ('<tool_call>{"arguments": {"action": "go"}}</tool_call>', "no name or no action"),
        ('<tool_call>{"name": "act", "arguments": {"action": " "}}', "no name or no action"),
        ('<tool_call>["look"]</tool_call>', "no name or no action"),
        ('<tool_call>{"name": ' + "[" * 100_000, "not valid JSON: it is nested"),
        ('<tool_call>{"name": ' + "1" * 10_000, "not valid JSON"),
    ],
    "llama_call": [
        ("<|python_tag|>", "not valid JSON: Expecting value"),
        ("<|python_tag|>search.call(q=1)", "not valid JSON: Expecting value"),
        ('{"name": "a", "parameters": {}}; {"name": "b", "parameters": {}}', "got several"),
        ('{"name": "act", "parameters": {"action": "go"}', "not valid JSON: Expecting ','"),
        ('{"name": "look", "parameters": {}} is my call', "text after the tool call"),
        ('{"parameters": {"action": "go"}}', "no name or no action"),
    ],
    "json": [
        ('I go. {"plan": {"action": "click[buy now]"}, "action": "search[lamp]",}', "'plan'"),
        ('{broken {"action": "go"}}', "not valid"),
        ('{"action": "go"', "not valid"),
        ('{"action": "go"} or {"action": "stay"}', "got several"),
        ('{"action": "go", "arguments": {}, "action_input": {"x": 1}, "n": 2}', "unknown key 'n'"),
        ('{"action": "go", "action": "stay"}', "given twice"),
        ('{"name": ' + "[" * 100_000, "nested too deeply"),
    ],
    "tags": [("<action>go</action><action>later</action>", "got several")],
    "thought_action": [("Action: go\nThought: more\nAction: later", "got several")],
}
BAD = {
    "thought_action": [
        "",
        "go",
        "Action:",
        "Action:   \nThought: x",
        "inaction: go",
        "Faction: go",
    ],
    "tags": ["", "go", "<action></action>", "<action>  ", "<think><action>no</action>"],
    "json": [
        "",
        "go",
        "{}",
        "[]",
        '{"action": true}',
        '{"action": null}',
        '{"action": ""}',
        '{"name": ""}',
        '{"name": 3, "arguments": {}}',
        '{"a":' * 5000,
        '{"a": {"action": "go"}}',
        "{" * 100_000,
        '{"tool_calls": []}',
        "1" * 10_000,
    ],
    "tool_call": ["", "go", '{"name": "look"}', "<think><tool_call>{}"],
    "llama_call": ["", "go", 'I call {"name": "look"}', "<think>{"],
}


@pytest.mark.parametrize(
    ("format", "answer", "action"), [(f, *case) for f, cases in GOOD.items() for case in cases]
)
def test_actions_are_found(format: str, answer: str, action: str):
    env = ExtractAction(Echo(), format)
    env.reset(seed=0)
    observation, _, _, _, info = env.step(answer)
    assert (observation, info["action"], info["valid"]) == (action, action, True)


@pytest.mark.parametrize(
    ("format", "answer"),
    [(f, case) for f, cases in BAD.items() for case in cases],
    ids=lambda value: repr(value)[:20],
)
def test_an_answer_without_an_action_is_invalid_and_tells_how(format: str, answer: str):
    env = ExtractAction(Echo(invalid_penalty=1.0), format)
    env.reset(seed=0)
    observation, reward, _, _, info = env.step(answer)
    assert observation.startswith(f"No action was found. {FORMATS[format].hint}")
    assert (reward, info["action"], info["valid"], info["turn"]) == (-1.0, "", False, 1)
    assert env.unwrapped.state.said == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("format", "answer", "reason"), [(f, *case) for f, cases in MALFORMED.items() for case in cases]
)
def test_a_malformed_call_is_invalid_and_the_feedback_has_the_reason(
    format: str, answer: str, reason: str
):
    env = ExtractAction(Echo(invalid_penalty=1.0), format)
    env.reset(seed=0)
    observation, reward, _, _, info = env.step(answer)
    assert reason in observation and FORMATS[format].hint in observation
    assert (reward, info["action"], info["valid"]) == (-1.0, "", False)


CALLS = ["tool_call", "llama_call"]


@pytest.mark.parametrize("format", CALLS)
@given(action=st.text(min_size=1, max_size=20).map(str.strip).filter(bool), data=st.data())
def test_a_call_that_is_cut_off_is_no_action(format: str, action: str, data: Any):
    answer = FORMATS[format].write(action)
    if "</think>" in answer or "<think>" in answer:
        return
    env = ExtractAction(Echo(), format)
    assert env.extract(answer) == action
    cut = answer[: data.draw(st.integers(0, answer.rindex("}")))]
    assert isinstance(env.extract(cut), UnreadableAction)
    assert env.action_span(cut) is None


@pytest.mark.parametrize("format", CALLS)
@given(data=st.data())
def test_no_damage_to_a_call_raises(format: str, data: Any):
    answer = FORMATS[format].write('say "hello" 東')
    at = data.draw(st.integers(0, len(answer)))
    gone = data.draw(st.integers(0, 6))
    answer = (
        answer[:at] + data.draw(st.text('{}[]",:\\u\ud800 1e', max_size=6)) + answer[at + gone :]
    )
    env = ExtractAction(Echo(), format)
    extracted, span = env.extract(answer), env.action_span(answer)
    assert isinstance(extracted, UnreadableAction) == (span is None)
    assert extracted.strip()


@pytest.mark.parametrize(
    ("format", "answer", "action"),
    [
        ("tags", "I go. <action> go </action> bye", "<action> go </action>"),
        ("tags", "<think>x</think>hm <action>go", "<action>go"),
        ("thought_action", "Thought: x\nAction: go\nThought: y", "Action: go\n"),
        ("json", 'so {"a": 1} {"action": "go"} or', '{"action": "go"}'),
        ("json", 'so {"action": "go<|im_end|>"}<|im_end|>', '{"action": "go<|im_end|>"}'),
        ("tool_call", 'a<tool_call>{"name": "b"}\n', '<tool_call>{"name": "b"}'),
        ("llama_call", '<think>a</think> {"name": "b"}<|eot_id|>', '{"name": "b"}'),
        ("llama_call", 'a<|python_tag|>{"name": "b"}', '<|python_tag|>{"name": "b"}'),
    ],
)  # fmt: skip
def test_the_span_of_an_action_holds_its_marks(format: str, answer: str, action: str):
    env = ExtractAction(Echo(), format)
    span = env.action_span(answer)
    assert span is not None
    assert answer[slice(*span)].strip() == action.strip()
    assert env.extract(answer[slice(*span)]) == env.extract(answer)


def test_a_blank_line_ends_an_action_where_actions_are_listed():
    answer = "Thought: x\nAction: look\n\nThis should work."
    free, listed = ExtractAction(Echo()), ExtractAction(Echo(admissible=("look", "go")))
    for env, action in ((free, "look\n\nThis should work."), (listed, "look")):
        env.reset(seed=0)
        assert env.step(answer)[4]["action"] == action
        span = env.action_span(answer)
        assert span is not None and answer[slice(*span)] == f"Action: {action}"


def test_a_missing_action_costs_the_format_penalty_and_an_invalid_action_does_not():
    env = ExtractAction(Echo(invalid_penalty=1.0), "tags", format_penalty=0.25)
    assert env.reset(seed=0)[1]["reward_terms"] == {"task": 0.0, "invalid": 0.0, "format": 0.0}
    terms = [env.step(text)[4]["reward_terms"] for text in ("x", "<action>nonsense</action>")]
    assert terms[0] == {"task": 0.0, "invalid": -1.0, "format": -0.25}
    assert terms[1] == {"task": 0.0, "invalid": -1.0, "format": 0.0}
    assert env.step("x")[1] == -1.25


@pytest.mark.parametrize(
    ("format", "answer", "score"),
    [
        ("tags", "<think>x</think>hm <action>go</action>\n", 0.5),
        ("tags", "hm <action>go", 0.5),  # before a stop string
        ("tags", "<action>go</action> bye", 0.0),
        ("tags", "<action>go</action><action>later</action>", -0.25),
        ("tags", "<action>go</action><|im_end|>", 0.5),
        ("tags", "<action>go</action><think>hm", 0.0),
        ("tags", "<think>hm <action>go</action>", -0.25),
        ("tags", "go", -0.25),
        ("thought_action", "Thought: x\nAction: go", 0.5),
        ("thought_action", "Thought: x\nAction: go\nObservation: y", 0.0),
        ("json", 'so {"action": "go"}', 0.5),
        ("json", '{"action": "go"} or not', 0.0),
        ("tool_call", 'so <tool_call>{"name": "go"}</tool_call>', 0.5),
        ("llama_call", '{"name": "go"}; {"name": "c"}', -0.25),
    ],
)
def test_an_answer_that_ends_with_its_action_gets_the_format_reward(
    format: str, answer: str, score: float
):
    env = ExtractAction(Echo(), format, format_penalty=0.25, format_reward=0.5)
    assert env.reset(seed=0)[1]["reward_terms"]["format"] == 0.0
    _, reward, _, _, info = env.step(answer)
    assert info["reward_terms"]["format"] == score
    assert reward == sum(info["reward_terms"].values())


@pytest.mark.parametrize("name", ["format_penalty", "format_reward"])
def test_scores_of_the_format_are_not_negative(name: str):
    with pytest.raises(ConfigError, match=f"{name} must be at least 0"):
        ExtractAction(Echo(), **{name: -1.0})  # type: ignore[arg-type]


@given(
    st.sampled_from(list(FORMATS)),
    st.text(st.sampled_from('{}[]<>/:"`*\n Aactionhk\ud800'), max_size=80),
)
def test_no_answer_raises(format: str, answer: str):
    assert isinstance(ExtractAction(Echo(), format).extract(answer), str)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "pattern", ["Action:", " ", "*", "<action>", "<think>", "```\n", '{"a":[', "Action 1 ", "\n"]
)
def test_long_answers_take_no_longer_than_their_length(format: str, pattern: str):
    # A quadratic search would not finish on this input.
    ExtractAction(Echo(), format).extract(pattern * (3_000_000 // len(pattern)))


@pytest.mark.parametrize("format", FORMATS)
@given(action=st.text(min_size=1, max_size=20).map(str.strip).filter(bool))
def test_what_the_expert_writes_is_read_back(format: str, action: str):
    env = ExtractAction(Echo(), format)
    if any(mark in action.lower() for mark in ("`", "<", ":")):
        return
    assert env.extract(FORMATS[format].write(action)) == action


def test_calls_read_as_the_environment_wants():
    env = ExtractAction(Echo(), "json", call_format="{name} {arguments}")
    assert env.extract('{"name": "take", "arguments": {"what": "apple"}}') == "take apple"


def test_instructions_say_the_format():
    env = ExtractAction(Echo(), "tags")
    assert env.instructions == f"{Echo.instructions}\n\n{FORMATS['tags'].hint}"


def test_what_is_unreadable_already_stays_so():
    env = ExtractAction(Echo(admissible=("<action>a</action>",)), "tags")
    numbered = AdmissibleAction(env, 3)
    numbered.reset(seed=0)
    assert numbered.step(0)[4]["action"] == "a"
    assert "Invalid action number 2" in numbered.step(2)[0]
    assert isinstance(env.extract(UnreadableAction("<action>x</action>")), UnreadableAction)


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match=r"got 'tag'\. Did you mean: tags"):
        ExtractAction(Echo(), "tag")
    with pytest.raises(ConfigError, match="call_format may only contain"):
        ExtractAction(Echo(), "json", call_format="{verb}")
    with pytest.raises(TypeError, match="An answer is a str"):
        ExtractAction(Echo()).extract(3)  # type: ignore[arg-type]
