"""Grammars of actions: they accept calls that the parser reads, and all calls that are written."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NotRequired, TypedDict, get_args

import gymnasium
import jsonschema
import pytest
from gymnasium.wrappers import TransformAction
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import agentgym
from agentgym import action_grammar, tool
from agentgym.errors import ConfigError
from agentgym.registration.making import author_class
from agentgym.tools import Call, Tool, ToolEnv, read_call, write_call
from agentgym.tools.calls import CallFormat
from agentgym.wrappers import AskExpert, ExtractAction

FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
by_format = pytest.mark.parametrize("call_format", FORMATS)
quick = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


class Leg(TypedDict):
    note: NotRequired[str]
    number: str
    seats: NotRequired[int | None]


@tool
def book(legs: list[Leg], cabin: Literal["first", "a|b", 3, True] = 3, tip: float = 0) -> None: ...


@tool
def stock() -> None: ...


@tool
def find(query: str = "", limit: int = 5, exact: bool = False) -> None: ...


@tool
def store(prices: dict[str, float], more: Any, tags: list | None = None) -> None: ...


TOOLS = {each.name: each for each in (book, stock, find, store)}
GRAMMARS = {name: action_grammar([*TOOLS.values()], call_format=name) for name in FORMATS}
STRINGS = {name: st.from_regex(found.regex, fullmatch=True) for name, found in GRAMMARS.items()}


def check(call: Call | None, tools: dict[str, Tool]) -> None:
    """Fails unless a call is one of a tool with valid arguments."""
    assert call is not None
    tools[call.name].check(call.arguments)


@by_format
@quick
@given(data=st.data())
def test_every_string_of_the_grammar_is_a_valid_call(call_format: CallFormat, data: st.DataObject):
    text = data.draw(STRINGS[call_format])
    try:
        call = read_call(text)
    except ValueError as reason:
        assume("given twice" not in str(reason))  # no regular expression keeps keys apart
        raise
    check(call, TOOLS)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    [
        "a < b",
        "<think>",
        "</think>x",
        "<tool_call>",
        "<p>\n",
        "\\",
        "'\"",
        "\x00\x7f\u2028🙂",
        "```",
    ]
)
integers = st.integers(-(10**17), 10**17)
floats = st.floats(-1e90, 1e90, allow_subnormal=False).filter(lambda x: not 0 < abs(x) < 1e-90)
scalars = st.none() | st.booleans() | integers | floats | texts
lists = lambda inner: st.lists(inner, max_size=3)  # noqa: E731
tables = lambda inner: st.dictionaries(texts, inner, max_size=3)  # noqa: E731
values = scalars | lists(scalars) | tables(scalars)
legs = st.fixed_dictionaries({"number": texts}, optional={"note": texts, "seats": integers})
ARGUMENTS = {
    "book": st.fixed_dictionaries(
        {"legs": lists(legs)},
        optional={"cabin": st.sampled_from(["first", "a|b", 3, True]), "tip": floats | integers},
    ),
    "stock": st.just({}),
    "find": st.fixed_dictionaries(
        {}, optional={"query": texts, "limit": integers, "exact": st.booleans()}
    ),
    "store": st.fixed_dictionaries(
        {"prices": tables(floats), "more": values}, optional={"tags": lists(values) | st.none()}
    ),
}


def ordered(name: str, arguments: dict[str, Any]) -> Call:
    """Returns a call with all keys in their declared order."""
    if "legs" in arguments:
        keys = ("note", "number", "seats")
        legs = [{key: leg[key] for key in keys if key in leg} for leg in arguments["legs"]]
        arguments = {**arguments, "legs": legs}
    known = TOOLS[name].parameters["properties"]
    return Call(name, {key: arguments[key] for key in known if key in arguments})


@by_format
@pytest.mark.parametrize("name", TOOLS)
@quick
@given(data=st.data())
def test_calls_that_are_written_match(call_format: CallFormat, name: str, data: st.DataObject):
    call = ordered(name, data.draw(ARGUMENTS[name]))
    text = write_call(call, call_format)
    assume(depth(call.arguments.get("tags")) <= 2)
    assert re.fullmatch(GRAMMARS[call_format].regex, text)
    assert read_call(text) == call


def depth(value: Any) -> int:
    """Returns the levels of lists and objects in a value."""
    entries = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, entries), default=0) if isinstance(value, dict | list) else 0


@by_format
def test_strings_may_hold_marks_of_the_parser(call_format: CallFormat):
    for mark in ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "```"):
        call = Call("find", {"query": f"a {mark}"})
        assert re.fullmatch(GRAMMARS[call_format].regex, write_call(call, call_format))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "find", "arguments": {"limit": 1.5}}',
        '{"name": "find", "arguments": {"limit": 01}}',
        '{"name": "find", "arguments": {"limit": true}}',
        '{"name": "find", "arguments": {"exact": true, "limit": 1}}',  # another order
        '{"name": "find", "arguments": {, "limit": 1}}',
        '{"name": "find", "arguments": {"limit": 9999999999999999999}}',
        '{"name": "fly", "arguments": {}}',
        '{"name": "book", "arguments": {}}',
        '{"name": "book", "arguments": {"legs": [], "cabin": "second"}}',
        '{"name": "stock", "arguments": {}} ',
        '{"name": "stock", "arguments": {}}{"name": "stock", "arguments": {}}',
        "stock()",
    ],
)
def test_other_texts_do_not_match(text: str):
    assert not re.fullmatch(GRAMMARS["json"].regex, text)


def tool_ids() -> list[str]:
    """The first id of each environment of tools that needs no extra."""
    found = {}
    for entry in agentgym.REGISTRY.values():
        if not entry.multi_agent and entry.extra is None and not entry.files:
            cls = author_class(entry)
            if issubclass(cls, ToolEnv):
                found.setdefault(cls, entry.id)
    return [*found.values()]


@pytest.mark.parametrize("id", tool_ids())
@by_format
def test_the_expert_of_every_environment_of_tools_is_accepted(id: str, call_format: CallFormat):
    env: Any = gymnasium.make(id, call_format=call_format).unwrapped
    grammar = action_grammar(env)
    pattern, calls = re.compile(grammar.regex), 0
    for seed in range(3):
        env.reset(seed=seed)
        over = False
        while not over:
            action = env.expert()
            if call := read_call(action):
                names = env.tools[call.name].parameters["properties"]
                given = {name: call.arguments[name] for name in names if name in call.arguments}
                assert pattern.fullmatch(write_call(Call(call.name, given), call_format)), action
                calls += 1
                if grammar.json_schema is not None:
                    jsonschema.validate(json.loads(action), grammar.json_schema)
            else:
                assert pattern.fullmatch(action) or set(action) & set("{<`("), action
            *_, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    assert calls


DESKS: dict[CallFormat, Any] = {
    name: gymnasium.make("AgentGym/Telecom-v0", call_format=name).unwrapped for name in FORMATS
}
ANSWERS = {
    name: st.from_regex(action_grammar(desk).regex, fullmatch=True) for name, desk in DESKS.items()
}


@by_format
@quick
@given(data=st.data())
def test_a_call_or_a_message_where_messages_are_read(call_format: CallFormat, data: st.DataObject):
    env: Any = DESKS[call_format]
    text = data.draw(ANSWERS[call_format])
    call = env.read_call(text)
    if call is None:
        assert text.strip() and "{" not in text
    else:
        check(call, env.tools)


def test_messages_may_have_parentheses_behind_a_space():
    regex = action_grammar(DESKS["python"]).regex
    assert re.fullmatch(regex, "Do you confirm (yes/no)?")
    assert not re.fullmatch(regex, "confirm(yes='no')")
    assert re.fullmatch(regex, "get_line(line_id='L2000')")


def test_admissible_actions():
    env = gymnasium.make("AgentGym/Blocksworld-v0")
    with pytest.raises(ConfigError, match="Reset the environment"):
        action_grammar(env)
    _, info = env.reset(seed=0)
    grammar = action_grammar(env)
    assert grammar == action_grammar(info["admissible"]) and grammar.json_schema is None
    assert all(re.fullmatch(grammar.regex, action) for action in info["admissible"])
    assert not re.fullmatch(grammar.regex, "fly")
    strange = ("a.c", "(b)", "x|y", "", "[a-z]{2}^$ *\\d?")
    assert [bool(re.fullmatch(action_grammar(strange).regex, each)) for each in strange] == [
        True
    ] * 5
    assert not re.fullmatch(action_grammar(strange).regex, "abc")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.data())
@quick
def test_the_grammar_of_admissible_actions_is_exact(actions: list[str], data: st.DataObject):
    assert data.draw(st.from_regex(action_grammar(actions).regex, fullmatch=True)) in actions


def test_what_has_no_grammar_is_refused():
    maze = gymnasium.make("AgentGym/Maze-v0")
    maze.reset(seed=0)
    sums = gymnasium.make("AgentGym/Arithmetic-v0")
    sums.reset(seed=0)
    wrong: list[Any] = [
        sums,
        ExtractAction(maze, "json"),
        AskExpert(maze),
        TransformAction(maze, str.upper, maze.action_space),
        gymnasium.make("CartPole-v1"),
        [],
        "go",
    ]
    for source in wrong:
        with pytest.raises(ConfigError, match="action_grammar needs"):
            action_grammar(source)
    with pytest.raises(ConfigError, match="call_format"):
        action_grammar([stock], call_format="xml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name of a Python function"):
        action_grammar([Tool(stock.function, name="take stock")], call_format="python")
    assert action_grammar([Tool(stock.function, name="take stock")]).json_schema


class Gbnf:
    """A matcher of the part of llama.cpp's GBNF without references to rules, by sets of ends."""

    def __init__(self, grammar: str):
        name, self.rest = grammar.strip().split(" ::= ", 1)
        assert name == "root"
        self.tree = self.alternatives()
        assert not self.rest

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.match(pattern, self.rest, re.DOTALL)
        self.rest = self.rest[found.end() :] if found else self.rest
        return found

    def alternatives(self) -> Any:
        options = [self.sequence()]
        while self.take(r" *\|"):
            options.append(self.sequence())
        return lambda text, starts: {end for each in options for end in each(text, starts)}

    def sequence(self) -> Any:
        items: list[Any] = []
        while item := self.item():
            low, high = 1, 1
            if found := self.take(r"\*|\?|\{(\d+)(?:,(\d+))?\}"):
                fixed = {"*": (0, 10**9), "?": (0, 1)}
                low, high = fixed.get(found[0]) or (int(found[1]), int(found[2] or found[1]))
            items.append((item, low, high))

        def match(text: str, starts: set[int]) -> set[int]:
            for item, low, high in items:
                reached, ends, count = starts, set(starts) if low == 0 else set(), 0
                while reached and count < high:
                    reached, count = (
                        item(text, reached) - (ends if count >= low else set()),
                        count + 1,
                    )
                    ends |= reached if count >= low else set()
                starts = ends
            return starts

        return match

    def item(self) -> Any:
        if found := self.take(r' *"((?:\\.|[^"\\])*)"'):
            literal = unescaped(found[1])
            return lambda text, starts: {
                s + len(literal) for s in starts if text.startswith(literal, s)
            }
        if found := self.take(r" *\[((?:\\.|[^\]\\])+)\]"):
            charset = re.compile(f"[{found[1]}]", re.DOTALL)
            return lambda text, starts: {s + 1 for s in starts if charset.match(text, s)}
        if self.take(r" *\("):
            inner = self.alternatives()
            assert self.take(r" *\)")
            return inner
        return None

    def matches(self, text: str) -> bool:
        return len(text) in self.tree(text, {0})


def unescaped(text: str) -> str:
    """The text of a GBNF string."""
    escapes = {"n": "\n", "r": "\r", "t": "\t"}

    def sign(mark: re.Match[str]) -> str:
        code, letter = mark[1], str(mark[2])
        return chr(int(code, 16)) if code else escapes.get(letter, letter)

    return re.sub(r"\\(?:U([0-9A-F]{8})|(.))", sign, text, flags=re.DOTALL)


READERS = {name: Gbnf(found.gbnf) for name, found in GRAMMARS.items()}


@by_format
@quick
@given(data=st.data())
def test_gbnf_accepts_what_the_regular_expression_accepts(
    call_format: CallFormat, data: st.DataObject
):
    text = data.draw(STRINGS[call_format])
    reader, regex = READERS[call_format], GRAMMARS[call_format].regex
    assert reader.matches(text)
    place = data.draw(st.integers(0, len(text)))
    for other in (text[:place], text[:place] + text[place + 1 :], f"{text[:place]}x{text[place:]}"):
        assert reader.matches(other) == bool(re.fullmatch(regex, other)), other


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
@quick
def test_gbnf_of_admissible_actions(actions: list[str]):
    reader = Gbnf(action_grammar(actions).gbnf)
    assert all(reader.matches(action) for action in actions)
    assert not reader.matches("".join(actions) + "?!")


def test_gbnf_of_messages():
    grammar = action_grammar(DESKS["python"])
    reader = Gbnf(grammar.gbnf)
    for text in (
        "Do you confirm (yes/no)?",
        "get_line(line_id='L2000')",
        "",
        " x",
        "\u2003x",
        "a{",
    ):
        assert reader.matches(text) == bool(re.fullmatch(grammar.regex, text))


def test_schemas_of_other_servers_may_leave_out_keys():
    """FastMCP, for example, lists no required arguments where there are none."""
    other = Tool(stock.function)
    kinds: dict[str, Any] = {"words": {"type": "array"}, "more": {"type": "object"}, "any": True}
    kinds |= {"open": {"type": "object", "additionalProperties": True}}
    kinds |= {"fixed": {"const": "x"}, "several": {"type": ["integer", "null"]}}
    other.parameters = {"type": "object", "properties": kinds}
    grammar = action_grammar([other])
    for arguments in (
        {},
        {"words": ["a", 1], "more": {"b": None}, "any": 2, "open": {"c": "d"}},
        {"fixed": "x", "several": None},
        {"several": 3},
    ):
        text = write_call(Call("stock", arguments))
        assert re.fullmatch(grammar.regex, text), text
    for arguments in ({"fixed": "y"}, {"several": "3"}, {"words": "a"}):
        assert not re.fullmatch(grammar.regex, write_call(Call("stock", arguments)))
