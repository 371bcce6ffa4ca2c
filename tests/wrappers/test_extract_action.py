from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.wrappers import AdmissibleAction, ExtractAction
from agentgym.wrappers.extract_action import FORMATS

from ..helpers.echo import Echo

GOOD = {
    "thought_action": [
        ("Action: go", "go"),
        ("Thought: I should go.\nAction: go", "go"),
        ("Thought 1: hm\nAction 1: search[red shoes]\nObservation 1: made up", "search[red shoes]"),
        ("**Thought:** hm\n**Action:** go", "go"),
        ("> action : go\nThought: more\nAction: later", "go"),
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
        ("text <ACTION>\n go north \n</ACTION> more <action>later</action>", "go north"),
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
        ('{broken {"action": "go"}', "go"),
        ('{"thought": "first {"} {"action": "go"}', "go"),
    ],
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
        '{"action": "go"',
        '{"a":' * 5000,
        '{"name": ' + "[" * 100_000,
        "{" * 100_000,
        '{"tool_calls": []}',
        "1" * 10_000,
    ],
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
