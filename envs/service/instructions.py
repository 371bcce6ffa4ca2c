"""Instructions for the user's phone in the words of service agents.

An instruction is carried out only if it is one: not under a negation, a condition or a quotation,
not a question about the past, and not an action of somebody else. An action that is named in
another way is unclear, and the user asks about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentgym.envs.service.phone import (
    ACCESS,
    AUTOMATIC,
    CALLS,
    CHANGES,
    CHECKS,
    MESSAGING,
    NETWORK,
    PAY,
    PERMIT,
    RESEAT,
    RESET,
    RESTART,
    SIM,
    STATUS,
    SWITCHES,
    switch,
)
from agentgym.reading import Clause, find_clauses, normalized

Kind = Literal["do", "ask", "skip", "past", "after"]
"""Whether an action is an instruction, unclear, none at all, asked about as done before, or the
time of another one."""


@dataclass(frozen=True)
class Instructions:
    """The actions of a message, each one of `CHECKS` or `CHANGES`.

    Attributes:
        steps: actions in order, each with "do", "ask" (unclear) or "after" (it is presupposed).
        past: actions about which the message asks whether they were done.
        spans: where the words of the actions start and stop in `plain_words` of the message.
    """

    steps: tuple[tuple[str, Kind], ...] = ()
    past: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def clear(self) -> list[str]:
        """The instructions alone."""
        return [action for action, kind in self.steps if kind == "do"]


@dataclass(frozen=True, slots=True)
class _Found:
    """An action in a text, and where its words start and stop."""

    action: str
    start: int
    stop: int


_NAMES = {
    "airplane mode": r"(?:air ?plane|flight|aeroplane)[ -]mode",
    "mobile data": r"(?:mobile|cellular) data",
    "data roaming": r"(?:data )?roaming",
    "data saver": r"data[ -]saver(?: mode)?",
    "the VPN": r"vpn",
    "Wi-Fi calling": r"wi-?fi[ -]calling",
}
_SEEN_IN = {
    "airplane mode": STATUS, "the VPN": STATUS, "mobile data": NETWORK, "data roaming": NETWORK,
    "data saver": NETWORK, "Wi-Fi calling": CALLS,
}  # fmt: skip
_NOUNS = {
    STATUS: r"status bar",
    SIM: r"sim\b(?: card| tray)?",
    NETWORK: r"network settings",
    ACCESS: r"(?:apn\b|access point)(?: settings)?",
    MESSAGING: r"messag(?:ing|es?) app\b",
    CALLS: r"call settings",
    "run a speed test": r"speed test",
}
_THE = r"(?:both )?(?:the |your |a )?(?:phone's |device's )?"
_NEAR = r"[^.?!,;\n]{0,40}?"


def _any(words: dict[str, str], group: str) -> str:
    """Returns a pattern of one of the words, in groups of this name and a number."""
    return "(?:" + "|".join(f"(?P<{group}{i}>{p})" for i, p in enumerate(words.values())) + ")"


def _which(match: re.Match[str], words: dict[str, str], group: str) -> str:
    """Returns the word that `_any` has matched."""
    return next(w for i, w in enumerate(words) if match[f"{group}{i}"] is not None)


_NAME, _NOUN = _any(_NAMES, "n"), _any(_NOUNS, "c")
_STATE = r"(?:turned |switched )?(?P<state>on|off|enabled|disabled|active|deactivated)\b"
_SWITCH = re.compile(
    r"\b(?:(?:turn|switch)(?:ing)? (?P<first>on|off) |(?:turn|switch)(?:ing)? |toggl(?:e|ing) "
    r"(?P<toggled>on |off )?|(?P<on>enabl(?:e|ing)|activat(?:e|ing))|"
    r"(?P<off>disabl(?:e|ing)|deactivat(?:e|ing)|disconnect(?:ing)?)|"
    rf"(?P<sure>make sure|ensure)(?: that)?) ?(?:from )?{_THE}{_NAME}"
    rf"(?: (?P<last>on|off)\b| (?:is|are|stays?|remains?) {_STATE})?"
)
_IT = re.compile(r"\b(?:turn|switch)(?:ing)? (?:it|this|that) (?:back )?(?P<state>on|off)\b|"
                 r"\b(?P<on>enable|activate) it\b|\b(?P<off>disable|deactivate) it\b")  # fmt: skip
_MORE = re.compile(
    rf"(?:,| and|, and| &| as well as| plus) (?:also |then )?{_THE}{_NAME}(?: (?P<last>on|off)\b)?"
)
_BACK = re.compile(
    r"[^.?!\n]{0,30}?\b(?:and|then)(?: then)?(?: (?:turn|switch) it)?(?: back)? (?P<state>on|off)\b"
)
_CHECK = re.compile(
    r"\b(?:check(?:ing)?|look(?:ing)?|open(?:ing)?|read|see|view|tell|what|which|inspect|examine|"
    rf"verify|describe|report|go to|run(?:ning)?|do|perform|start|try|how is)\b{_NEAR}{_NOUN}"
)
_MORE_CHECKS = re.compile(rf"(?:,| and|, and| &) (?:also |then )?{_THE}{_NOUN}")
_IS_ON = re.compile(
    rf"\b(?:(?:check|see|tell me|verify|confirm|know|look)(?:ing)? )?(?:is|are|whether|that) "
    rf"{_THE}{_NAME}(?: is| are)? {_STATE}"
)
_END = (
    r"(?=\s*(?:$|[.,;:!?)\n]|(?:now|again|please|once|and|then|first|before|after|if|when|or)\b))"
)
_OTHERS: dict[str, str] = {
    AUTOMATIC: rf"\b(?:set|setting|chang(?:e|ing)|switch(?:ing)?|put)\b{_NEAR}network "
    rf"(?:mode|type){_NEAR}automatic",
    RESEAT: rf"\b(?:tak(?:e|ing)|remov(?:e|ing)|eject(?:ing)?)\b{_NEAR}\bsim\b(?: card)?(?: out)?"
    r"(?: and (?:then )?(?:put|insert|push) it(?: back)?(?: in)?\b)?|"
    rf"\bre-?(?:seat|insert)(?:ing)?\b{_NEAR}\bsim\b",
    RESET: rf"\breset(?:ting)?\b{_NEAR}\bapn\b(?: settings)?",
    RESTART: rf"\b(?:restart|reboot|power[ -]?cycl(?:e|ing))(?:ing)?\b(?:{_NEAR}\b(?:phone|"
    rf"device|it)\b|"
    rf"{_END})|\bturn(?:ing)? {_THE}(?:phone|device|it) off and (?:then )?(?:back )?on"
    rf"|\b(?:turn|power|switch|shut)(?:ing)? {_THE}(?:phone|device) (?:off|down)[^.?!\n]{{0,40}}?\b"
    rf"(?:(?:turn|power|switch)(?:ing)? it (?:back )?on\b|(?:and|then) (?:back )?on{_END})",
    PERMIT: rf"\b(?:grant(?:ing)?|allow(?:ing)?|giv(?:e|ing))\b{_NEAR}\bpermissions?",
    PAY: rf"\bpay(?:ing)?\b{_NEAR}\bbills?\b|\baccept(?:ing)?\b{_NEAR}\bpayment(?: request)?"
    r"|\bmak(?:e|ing) (?:the|your) payment\b(?! request)",
}
_RESET_IT = re.compile(r"\breset(?:ting)? (?:it|them|these)\b")
_OTHER = re.compile("|".join(f"(?P<o{i}>{pattern})" for i, pattern in enumerate(_OTHERS.values())))
assert {*CHANGES, *CHECKS} == {
    *(switch(name, on) for name in SWITCHES for on in (True, False)), *_OTHERS, *_NOUNS,
}  # fmt: skip


def _is_on(state: str) -> bool:
    return state.strip() in ("on", "enabled", "active")


def _switches(text: str) -> Iterator[_Found]:
    """Yields the changes of switches. "" as the action: it is not clear to which state."""
    for match in _SWITCH.finditer(text):
        name, words = _which(match, _NAMES, "n"), match.groupdict()
        state = words["first"] or words["toggled"] or words["last"] or words["state"]
        state = state or ("on" if words["on"] else "off" if words["off"] else "")
        if (not state or words["sure"]) and not words["state"] and not words["last"]:
            if match[0].startswith("toggl"):
                yield _Found(f"? {name}", *match.span())
            continue
        yield _Found(switch(name, _is_on(state)), *match.span())
        stop = match.end()
        while more := _MORE.match(text, stop):
            other = _which(more, _NAMES, "n")
            yield _Found(switch(other, _is_on(more["last"] or state)), stop, more.end())
            stop, name, state = more.end(), other, more["last"] or state
        if back := _BACK.match(text, stop):
            yield _Found(switch(name, _is_on(back["state"])), back.start("state"), back.end())
    for match in _IT.finditer(text):
        named = list(re.finditer(_NAME, text[: match.start()]))
        if named:
            state = match["state"] or ("on" if match["on"] else "off")
            yield _Found(switch(_which(named[-1], _NAMES, "n"), _is_on(state)), *match.span())


def _checks(text: str) -> Iterator[_Found]:
    for match in _CHECK.finditer(text):
        yield _Found(_which(match, _NOUNS, "c"), *match.span())
        stop = match.end()
        while more := _MORE_CHECKS.match(text, stop):
            yield _Found(_which(more, _NOUNS, "c"), stop, more.end())
            stop = more.end()
    for match in _IS_ON.finditer(text):
        yield _Found(_SEEN_IN[_which(match, _NAMES, "n")], *match.span())


def _actions(text: str) -> list[_Found]:
    """Returns the actions in a text, in order, those of other words than checks first."""
    others = (
        _Found(action, *match.span())
        for match in _OTHER.finditer(text)
        for i, action in enumerate(_OTHERS)
        if match[f"o{i}"] is not None
    )
    again = (
        _Found(RESET, *m.span()) for m in _RESET_IT.finditer(text) if "apn" in text[: m.start()]
    )
    found: list[_Found] = []
    for each in (*others, *again, *_switches(text), *_checks(text)):
        if all(each.stop <= f.start or f.stop <= each.start for f in found):
            found.append(each)
    return sorted(found, key=lambda action: action.start)


# Which of them are instructions.

_WHETHER = re.compile(r"\b(check|see|tell me|verify|confirm|know|look)(?:ing)? if\b")
_SHOULD_YOU = re.compile(r"(?:(?<=[.!?] )|(?<=\n)|^)should you (?=[^.?!\n]*, )")
_ASKED_PAST = re.compile(r"\b(?:have|has|had|did) you\b[^.?!\n]*")
_PARTICIPLE = re.compile(
    r"\b(?:restarted|rebooted|turned|switched|checked|paid|taken|took|removed|granted|enabled|"
    r"disabled|activated|deactivated|changed|opened|ejected|reinserted|reseated|looked)\b"
)
_IRREGULAR = {
    "paid": "pay", "taken": "take", "took": "take", "removed": "remove", "enabled": "enable",
    "disabled": "disable", "activated": "activate", "deactivated": "deactivate",
    "changed": "change",
}  # fmt: skip
_LEAD = (
    r"(?:(?:and|then|so|now|next|first|firstly|second|secondly|third|finally|lastly|also|please|"
    r"kindly|just|simply|ok|okay|alright|great|thanks|thank you|sorry|instead|after that|"
    r"afterwards|again|well|hello|hi|sure|step \w+|\d{1,2}[.)]|to (?:start|begin)(?: with)?|for "
    r"now|"
    r"carefully|quickly|manually|fully|temporarily|you|from there|from it|followed by)[\s,:.*-]+)*"
)
_MODAL = (
    r"(?:(?:can|could|would|will) you|you (?:should|must|can|could|need to|have to|may|might|"
    r"might want to|may want to|ought to|will need to|will have to|are going to need to)|"
    r"you'll (?:need|have) to|let's|let us|go ahead and|try to|try and|try|make sure(?: to| you| "
    r"that "
    r"you)?|be sure to|remember to|(?:do not|don't) forget to|i (?:need|want|would like|ask|"
    r"recommend|suggest|advise)(?: that)? you(?: to)?|i'd (?:like|recommend|suggest)(?: that)?"
    r"(?: you)?(?: to)?|i (?:recommend|suggest)|why don't you|would you mind|how about|"
    r"(?:start|begin) (?:by|with)|by|feel free to|the next step is to|it is time to)"
)
_INSTRUCTS = re.compile(rf"^[\s\W]*{_LEAD}(?:{_MODAL}[\s,]+{_LEAD})?$")
_JOINED = re.compile(
    rf"^.*?(?:^|[,;:&]|->|\band\b|\bthen\b)[\s\W]*{_LEAD}(?:{_MODAL}[\s,]+{_LEAD})?$"
)
_OWN = re.compile(
    r"^[\s\W]*(?:(?:and|then|so|now|next|if you agree) )*(?:(?:i|we)(?:'ll|'m|'re|'ve|'d)?\b(?! "
    r"(?:need|"
    r"have to|must|should|can\b|recommend|suggest|advise))|i\b(?! (?:recommend|suggest|advise)))"
    r"(?!.*\byou\b)|\b(?:shall|should|may|can|could) i\b|\byou (?:like|want|wish) (?:me|us) to\b|"
    r"\blet me\b"
)
_OUR_SIDE = re.compile(r"\b(?:your|the) (?:line|account|plan)\b|\bour (?:side|end|system)\b")
_GERUND = re.compile(r"\w+ing\b")
_TAKES_GERUND = re.compile(r"\b(?:try|by|with|mind|recommend|suggest|advise|about|and|then)\W*$")
_PAST = re.compile(r"\b(?:have|had|did|has|were) you\b|\byou(?:'ve| have)? (?:already|just)\b")
_FORMER = re.compile(r"\b(?:before|prior to|until|till)\b|\bno need to\b|\bnever\b|\brefrain\w* "
    r"from\b|"
                     r"\b(?:avoid|stop|skip)\b|\bagainst\b|\bneedless\b|\bunlike\b")  # fmt: skip
_LATER = re.compile(r"\b(?:after|once|when|whenever|as soon as)\b")
_OR = re.compile(r"\bor\b[^.?!\n]{0,9}$")
_POSTPONED = re.compile(r"\b(?:later|tomorrow|not now|not yet|tonight|next (?:week|time))\b")


def plain_words(message: str) -> str:
    """Returns a message in lower case, as its instructions are read.

    "See if" becomes "see whether", "should you see" "if you see", and "have you restarted"
    "have you restart".
    """
    text = normalized(message).lower().replace("**", "")
    if " if" in text:
        text = _WHETHER.sub(r"\1 whether", text)
    if "should you " in text:
        text = _SHOULD_YOU.sub("if you ", text)
    if " you" in text:
        text = _ASKED_PAST.sub(lambda asked: _PARTICIPLE.sub(_present, asked[0]), text)
    return text


def _present(verb: re.Match[str]) -> str:
    return _IRREGULAR.get(verb[0]) or verb[0].removesuffix("ed")


@lru_cache(maxsize=1024)
def read_instructions(message: str) -> Instructions:
    """Returns the actions of the phone that a message of an agent names."""
    text = plain_words(message)
    found = _actions(text)
    if not found:
        return Instructions()
    clauses = find_clauses(text)
    steps: list[tuple[str, Kind]] = []
    past: list[str] = []
    spans: list[tuple[int, int]] = []
    for at, each in enumerate(found):
        clause = next((c for c in clauses if c.start <= each.start < c.stop), clauses[-1])
        kind = _kind(text, clause, found, at, steps[-1][1] if steps else "do")
        if kind == "do" and _depends(text, clauses, clause):
            kind = "ask"
        if kind != "skip":
            spans.append((each.start, each.stop))
        if kind == "past":
            past.append(each.action)
        elif kind == "ask" and _OR.search(text[: each.start][-12:]) and steps:
            steps[-1] = steps[-1][0], "ask"  # two alternatives
            steps.append((each.action, kind))
        elif kind != "skip" and (not steps or steps[-1] != (each.action, kind)):
            steps.append((each.action, kind))
    return Instructions(_settled(steps), tuple(past), tuple(spans))


def _settled(found: list[tuple[str, Kind]]) -> tuple[tuple[str, Kind], ...]:
    """Returns actions without the presupposed ones that the same message asks for."""
    asked: list[str] = []
    steps: list[tuple[str, Kind]] = []
    for action, kind in found:
        if kind == "after" and action in asked:
            continue
        asked.append(action)
        steps.append((action, "ask" if action.startswith("?") else kind))
    return tuple(steps)


def _kind(text: str, clause: Clause, found: list[_Found], at: int, before: Kind) -> Kind:
    """Returns how a clause names an action.

    Args:
        text: the message.
        clause: the clause in which the action starts.
        found: the actions of the message.
        at: index of the action.
        before: kind of the previous action.
    """
    action = found[at]
    last = found[at - 1] if at and found[at - 1].stop > clause.start else None
    governor = text[last.stop if last else clause.start : action.start]
    words = text[clause.start : action.start]
    if clause.quoted or clause.replaced or _FORMER.search(governor):
        return "skip"
    if clause.negated and not (last and not _denies(governor)):
        return "skip"
    if _PAST.search(words) or (clause.past and clause.question):
        return "past"
    if _LATER.search(governor):
        return "after"
    if clause.conditional or _POSTPONED.search(clause.text) or _awaits(text, clause, action):
        return "ask"
    if _OWN.search(words) or (action.action not in CHECKS and _OUR_SIDE.search(clause.text)):
        return "skip"
    if (last and last.stop == action.start) or (last and not governor.strip(" ,")):
        return before  # a further object of the same verb
    if re.search(r"\bor\b", governor) and last:
        return "ask"
    if not last and text[: clause.start].rstrip().endswith(" or"):
        return "ask"
    gerund = _GERUND.match(text, action.start) and not _TAKES_GERUND.search(governor)
    check = action.action in CHECKS
    if not gerund and (_JOINED if last else _INSTRUCTS).match(governor):
        return "do"
    if (
        check
        and clause.question
        and not re.search(r"\b(?:do|did|should|shall) (?:you|i|we)\b|\byou (?:like|want)\b", words)
    ):
        return "do"
    return "ask"


def _awaits(text: str, clause: Clause, action: _Found) -> bool:
    """Whether an action is to be done at a later time, as in "pay the bill once you have it"."""
    rest = text[action.stop : clause.stop]
    return not rest.strip() and bool(
        re.match(r"\W*(?:once|when|as soon as)\b", text[clause.stop :])
    )


def _depends(text: str, clauses: list[Clause], clause: Clause) -> bool:
    """Whether a clause follows one such as "when you see an airplane" in its sentence."""
    before = [c for c in clauses if c.start < clause.start]
    return (
        bool(before)
        and before[-1].marker in ("when", "whenever", "once", "as soon as")
        and not re.search(r"[.?!;\n]", text[before[-1].start : clause.start])
    )


def _denies(words: str) -> bool:
    return re.search(r"\b(?:not|never|no|without)\b|n't\b", words) is not None


def instructions(text: str) -> list[str]:
    """Returns the checks and changes that a message asks for, in its order."""
    return read_instructions(text).clear
