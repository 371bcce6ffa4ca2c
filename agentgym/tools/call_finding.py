"""Finds the calls of tools in a text: in marks, code blocks, lines and objects, each once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agentgym.reading.clauses import find_clauses
from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import object_stop, read_json
from agentgym.tools.call_code import FINAL, WHOLE, NoCall, call_stop, read_code
from agentgym.tools.call_markup import MARKS, invalid, object_arguments, skip
from agentgym.tools.call_objects import NAMES, Call, Signatures, call_of, canonical, typed

_MAX_TRIES = 64
_BRACE = r"(?P<brace>\{|\[\s{0,99}\{)"
_FENCE = r"(?P<fence>```[ \t]?(?:python|py|tool_code|tool_call|tool_calls|code)?[ \t]*\n|<code>)"
_ACTION = (
    r"(?P<action>^[ \t>*_#-]{0,9}(?:action|(?:tool|function)(?:[ _](?:name|call))?)"
    r"(?:[ \t]?\d{1,3})?[ \t*_]{0,9}[:\uff1a][*_ \t`\"]{0,9}"
    r"(?P<named>[A-Za-z_][\w.-]{0,100})[`\"*_]{0,3}[ \t]{0,9}$)"
)
_INPUT = re.compile(
    r"\s{0,99}^[ \t>*_#-]{0,9}(?:(?:(?:action|tool|function)[ _])?"
    r"(?:input|arguments?|args|parameters|params))(?:[ \t]?\d{1,3})?"
    r"[ \t*_]{0,9}[:\uff1a][*_ \t]{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
_INPUT_END = re.compile(
    r"^[ \t>*_#-]{0,9}(?:thought|observation|action|final answer)\b[^\n]{0,20}:|\n\s*\n",
    re.IGNORECASE | re.MULTILINE,
)
_OPENERS = "|".join(f"(?P<mark{i}>{pattern})" for i, (pattern, _) in enumerate(MARKS))
_KEY = re.compile(
    r"[\"'“”‘’](?:name|tool|tool_name|function|function_name|action|arguments|parameters|args|kwargs|"
    r"tool_calls?|function_call|action_input|tool_input)[\"'“”‘’]\s{0,9}[:\uff1a]",
    re.IGNORECASE,
)


# A class of characters first, which `re` finds fast.
_SIGN = re.compile(r"[{<`=\[(\"'](?:(?<=[{<`=\[])|(?<=\w\()|(?<=[\"'])\s?[,:])")
_WORDS = re.compile(
    r"(?:action|tool|function|call|name|to|recipient)\b[^\n]{0,12}[:\uff1a]", re.IGNORECASE
)
_LONGEST_LABEL = len("recipient") + 12
_COLON = re.compile("[:\uff1a]")
_LABELS = re.compile(r"action|tool|function|[^\x00-\x7f]", re.IGNORECASE)
_ONE_NAME = re.compile(r"\W{0,9}\w{1,100}\W{0,9}")
_OPENING = re.compile(r"[{<`\[(](?:(?<=[{<`\[])|(?<=\S\())")


def _gate(text: str) -> bool:
    """Whether a text has a part that every call has: a mark, a name, or a word before a colon."""
    if "_" in text or (len(text) < 120 and _ONE_NAME.fullmatch(text)):
        return True
    return _SIGN.search(text) is not None or any(
        _WORDS.search(text, max(0, colon.start() - _LONGEST_LABEL), colon.end())
        for colon in _COLON.finditer(text)
    )


def _begins(text: str) -> bool:
    """Whether a text has a part that every match of `_pattern` has. It is much faster."""
    return bool(_OPENING.search(text)) or _LABELS.search(text) is not None


@dataclass
class _Search:
    """A search for calls in a text.

    Attributes:
        text: the text.
        tools: the known tools.
        found: the calls.
        mentions: calls within sentences, None if they cannot be read, and how many calls precede.
        reasons: why they cannot be read.
    """

    text: str
    tools: Signatures | None
    found: list[Call] = field(default_factory=list)
    mentions: list[tuple[Call | None, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    tries: int = 0


def find_calls(text: str, tools: Signatures | None = None) -> list[Call]:
    """Returns the calls in a text without thoughts and end marks, in order.

    Raises:
        NotUnderstood: for a malformed call, or text that looks like a call of a known tool.
    """
    if not _gate(text):
        return []
    if WHOLE.fullmatch(text):
        try:
            return [read_code(text, tools)]
        except NoCall:
            pass
    search = _Search(text, tools)
    pattern, at, begins = _pattern(_names(tools)), 0, _begins(text)
    while begins and (match := pattern.search(text, at)):
        at = max(_at_match(search, match), match.start() + 1)
        search.tries += 1
        if search.tries > _MAX_TRIES:
            raise NotUnderstood("The action has too many braces and code marks to be read.")
    return _accounted(search)


def _names(tools: Signatures | None) -> tuple[str, ...]:
    return () if tools is None else (*tools, FINAL)


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns the pattern of everything that can begin a call."""
    parts = [_OPENERS, _FENCE, _ACTION, _BRACE]
    if names:
        known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        spaces = r"(?:functions\.|tools\.|default_api\.)?"
        parts.append(rf"(?P<code>(?<![\w.\"'<=/-]){spaces}(?:{known})\()")
        parts.append(
            rf"(?P<object>^[ \t>*_#-]{{0,9}}`?{spaces}(?P<tool>{known})"
            r"[`*_]{0,3}:?[`*_ \t]{0,3}\s{0,9}(?:```(?:json)?\s{0,9})?(?=\{))"
        )
    return re.compile("|".join(parts), re.IGNORECASE | re.MULTILINE)


def _at_match(search: _Search, match: re.Match[str]) -> int:
    """Reads what a match begins, and returns the index behind it."""
    kind = str(match.lastgroup)
    if match.groupdict().get("action") is not None:
        return _action(search, match)
    if kind == "brace":
        return _brace(search, match.start())
    if kind == "fence":
        return _fence(search, match)
    if kind == "code":
        return _mention(search, match)
    if match.groupdict().get("object") is not None:
        return _named_object(search, match)
    reader = MARKS[int(kind.removeprefix("mark"))][1]
    call, stop = reader(search.text, match.end(), search.tools)
    search.found.append(call)
    return _and_further(search, stop)


def _and_further(search: _Search, at: int) -> int:
    """Refuses brackets that close nothing behind a call."""
    text, behind = search.text, skip(search.text, at)
    if text.startswith("}", behind) or (text.startswith("]", behind) and "[" not in text[:at]):
        raise invalid("it closes more brackets than it opens")
    return at


def _brace(search: _Search, at: int) -> int:
    """Reads an object. One that is no call, or is rejected, is skipped as a whole."""
    text = search.text
    required = at == 0
    try:
        value, stop = read_json(text, at)
    except NotUnderstood as reason:
        stop = object_stop(text, text.index("{", at))
        if required or _KEY.search(text, at, stop) or _quotes_tool(search, at, stop):
            raise invalid(reason) from None
        return stop
    call = call_of(value, search.tools)
    if call is None:
        if required or _has_arguments(value, search.tools):
            raise invalid(_without_call(value))
        return stop
    if _within_sentence(text, at, stop):
        search.mentions.append((call, len(search.found)))
        search.reasons.append(_ALONE.format(name=call.name))
        return stop
    search.found.append(call)
    return _and_further(search, stop)


def _has_arguments(value: Any, tools: Signatures | None) -> bool:
    """Whether a JSON value holds the arguments of a known tool and nothing else."""
    known = (tools or {}).values()
    return isinstance(value, dict) and value != {} and any(value.keys() <= set(s) for s in known)


def _within_sentence(text: str, start: int, stop: int) -> bool:
    """Whether a call is a word of a sentence, or follows one that does not ask for it.

    Examples are "Use {...} only at the end." and "I will not call {...}".
    """
    line, end = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    before = _TAGS.sub("", text[line:start])
    if not _UNFINISHED.search(before):
        return False
    after = _TAGS.sub("", text[stop : end if end >= 0 else len(text)])
    if _PROSE.search(after) or after.lstrip().startswith("?"):
        return True
    last = find_clauses(before)[-1]
    return last.negated or last.conditional


def _without_call(value: Any) -> str:
    """Returns why a JSON value is no call."""
    named = isinstance(value, dict) and any(canonical(key) in NAMES for key in value)
    return "its name is no tool, and it has no arguments" if named else 'it has no "name"'


def _quotes_tool(search: _Search, start: int, stop: int) -> bool:
    inner = search.text[start:stop]
    return any(f'"{name}"' in inner or f"'{name}'" in inner for name in search.tools or ())


def _fence(search: _Search, match: re.Match[str]) -> int:
    """Reads a code block: Python if it parses, else its content is read as text."""
    close = "</code>" if match[0].lower() == "<code>" else "```"
    stop = search.text.find(close, match.end())
    code = search.text[match.end() : stop if stop >= 0 else len(search.text)]
    if code.lstrip()[:1] in ("{", "<") or code.lstrip()[:2] == "[{":
        return match.end()  # JSON and tags are found as such
    try:
        search.found.append(read_code(code.strip(), search.tools))
    except NoCall:
        return match.end()
    return stop + len(close) if stop >= 0 else len(search.text)


def _action(search: _Search, match: re.Match[str]) -> int:
    """Reads "Action: f" with the line "Action Input: ..." behind it, as in ReAct."""
    text, name = search.text, match["named"]
    given = _INPUT.match(text, match.end())
    known = search.tools is not None and name in search.tools
    if given is None:
        if known:
            search.found.append(Call(name, {}))
        return match.end()
    at = given.end()
    fence = re.compile(r"```\w{0,10}\s{0,9}").match(text, at)
    at = fence.end() if fence else at
    if text[at : at + 1] == "{":
        call, stop = object_arguments(text, at, name)
        search.found.append(call)
        return _and_further(search, stop)
    end = _INPUT_END.search(text, at)
    stop = end.start() if end else len(text)
    search.found.append(Call(name, _plain_input(search, name, text[at:stop].strip())))
    return stop


def _named_object(search: _Search, match: re.Match[str]) -> int:
    """Reads the name of a tool with the object of its arguments behind it, or on the next line."""
    call, stop = object_arguments(search.text, match.end(), match["tool"])
    search.found.append(call)
    return _and_further(search, stop)


def _plain_input(search: _Search, name: str, text: str) -> dict[str, Any]:
    """Returns the arguments of an input that is no object: that of the only parameter."""
    if text in ("", "None", "null", "N/A"):
        return {}
    schemas = (search.tools or {}).get(name) or {}
    if len(schemas) != 1:
        raise invalid("its Action Input is not a JSON object")
    ((parameter, schema),) = schemas.items()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return {parameter: typed(text, schema)}


def _mention(search: _Search, match: re.Match[str]) -> int:
    """Reads a call in Python, on lines of its own or within a sentence."""
    text, opening = search.text, match.end() - 1
    if not search.mentions:  # the first one: is the whole text a program?
        try:
            search.found.append(read_code(text, search.tools))
            return len(text)
        except NoCall:
            pass
    stop = call_stop(text, opening)
    line = text.rfind("\n", 0, match.start()) + 1
    before = text[line : match.start()].strip(" \t>`*[")
    if stop < 0:
        search.mentions.append((None, 0))
        search.reasons.append(f"The call of {match[0][:-1]} has no closing parenthesis.")
        return match.end()
    end = text.find("\n", stop)
    after = text[stop : end if end >= 0 else len(text)].strip(" \t`*;])")
    alone = not after and (not before or _LEAD.fullmatch(before) is not None)
    code = text[match.start() : stop]
    try:
        call = read_code(code, search.tools)
    except (NoCall, NotUnderstood) as reason:
        search.mentions.append((None, 0))
        search.reasons.append(str(reason) or f"The call {code[:40]!r} is not clear.")
        return match.end()
    if alone:
        search.found.append(call)
    else:
        search.mentions.append((call, len(search.found)))
        search.reasons.append(_ALONE.format(name=call.name))
    return stop


_ALONE = "Write the call of {name} alone, without text on its line."
_TAGS = re.compile(r"<[^<>\n]{0,99}>|```\w{0,10}")
_UNFINISHED = re.compile(r"[^\W\d_]{2}.{0,999}[\w,'\"`(][ \t`*_\"'(]{0,9}$")
_PROSE = re.compile(r"[^\W\d_]{2}")
_LEAD = re.compile(
    r"(?:print|await|return|[\w]{1,40}\s?="
    r"|(?:final )?(?:action|code|call|tool|tool call|function|function call)"
    r"(?: ?\d{1,3})?\s?[:\uff1a][`*\s]{0,5}|[-*]|\d{1,2}\.|\(|\s){1,6}",
    re.IGNORECASE,
)


def _accounted(search: _Search) -> list[Call]:
    """Returns the calls, once mentions and other forms of calls are accounted for."""
    if not search.found:
        if search.mentions:
            raise NotUnderstood(search.reasons[0])
        if search.tools and (shape := _shape(search.text, tuple(search.tools))):
            raise NotUnderstood(
                f"{shape[0][:60]!r} looks like a call of a tool that cannot be read. Expected "
                '{"name": "TOOL", "arguments": {"ARGUMENT": VALUE}}.'
            )
        return []
    first = search.found[0]
    others = [call for call, at in search.mentions if call and (at or call.key != first.key)]
    return [*search.found, *others]  # a thought can name the call that follows


def _shape(text: str, names: tuple[str, ...]) -> re.Match[str] | None:
    """Returns the part of a text that looks like a call of a known tool in an unknown format."""
    if text.isascii():
        lower = text.lower()
        if not any(name in lower for name in _lowered(names)):
            return None
    return _shapes(names).search(text)


@lru_cache(maxsize=256)
def _lowered(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


@lru_cache(maxsize=256)
def _shapes(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns the pattern of texts that look like a call of a known tool in an unknown format."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    names_alone = "|".join(re.escape(name) for name in names if "_" in name) or r"(?!)"
    return re.compile(
        rf"\A[\s`*/]{{0,9}}(?-i:{known})[\s`*.]{{0,9}}\Z"
        rf"|(?:^|[:.!?-] )[ \t>*_`/#-]{{0,9}}(?:functions\.)?(?-i:{names_alone})"
        rf"(?:[`*_: \t]{{1,9}}[#\d\"'\[(]|:|[`*_ \t]{{0,9}}$)"
        rf"|<\w{{1,20}}\s+name\s?=\s?[\"']?(?:{known})\b"
        rf"|</?(?:{known})\b[^>\n]{{0,99}}>|\b(?:to|call|recipient)\s?[=:]\s?(?:functions\.)?(?:{known})\b"
        rf"|^[ \t>*_#-]{{0,9}}(?:action|tool|tool call|function|function call|tool name|call)"
        rf"[ \t*_]{{0,9}}[:\uff1a][*_ \t`\"]{{0,9}}(?:{known})(?![\w ])"
        rf"|<\w{{1,20}}>\s{{0,9}}(?:{known})\s{{0,9}}</|^\s{{0,9}}(?-i:{known})\s\w{{1,30}}\s?="
        rf"|^[ \t>*_#-]{{0,9}}name[ \t*_]{{0,9}}[:\uff1a][*_ \t`\"]{{0,9}}(?:{known})"
        rf"[ \t*_`\"]{{0,9}}$"
        rf"|(?<![\w.])(?-i:{known})(?:\[|[ \t:]{{0,3}}\{{)|[\"'](?:{known})[\"']\s?[,:]",
        re.IGNORECASE | re.MULTILINE,
    )
