"""The messages of service agents: their questions, denials and claims, by the shared readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from agentgym.envs.service.database import plain_key
from agentgym.reading.clause_patterns import WORD
from agentgym.reading.clauses import Clause, find_clauses
from agentgym.reading.numbers import Number, exact, find_numbers
from agentgym.reading.typography import folds_plainly, normalized

_POLITE = re.compile(
    r",? ?\bif (?:you|this|that|it|everything|all|these|there)\b[^,.?!\n]{0,60}\b(?:confirm|agree|"
    r"proceed|go ahead|correct|right|ok|okay|fine|sure|like(?! to)|accept\w*|approve|else|"
    r"further|more|other)\b(?: (?:with|to|for|about|questions|help|"
    r"assistance)\b[^,.?!\n]{0,60})?,?",
    re.IGNORECASE,
)
"""Conditions that no statement depends on, such as "if that is fine with you"."""


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str] | None:
    """Returns the words of a text, without capitals, or None if patterns may find others."""
    return frozenset(WORD.findall(text.lower())) if folds_plainly(text) else None


def _may_hold(text: str, words: frozenset[str], starts: tuple[str, ...] = ()) -> bool:
    """Whether a text can have one of some words, or one that starts so. It is much faster."""
    found = _words(text)
    if found is None or not found.isdisjoint(words):
        return True
    return bool(starts) and any(word.startswith(starts) for word in found)


def plain(message: str) -> str:
    """Returns a message of an agent in the form in which the functions of this module read it."""
    return normalized(message).replace("**", "")


def without_polite(text: str) -> str:
    """Returns a text without polite conditions, such as "if you agree"."""
    return _POLITE.sub(" ", text) if " if " in f" {text.lower()}" else text


def sentences(text: str) -> list[str]:
    """Returns the sentences and lines of a message, with their end marks."""
    return [part for part in re.split(r"(?<=[.?!])\s+|\n+", text) if part.strip()]


# Questions.

_ASKS = re.compile(
    r"\b(?:please|kindly|provide|tell|give|share|send|specify|state|let (?:me|us) know|need|"
    r"require[ds]?|may i|can i have|could|would|what|which|when|where|why|how|who|whose|enter|"
    r"confirm|verify)\b|\?",
    re.IGNORECASE,
)
_ASK_WORDS = frozenset(
    "please kindly provide tell give share send specify state let need require required requires "
    "may can could would what which when where why how who whose enter confirm verify".split()
)
"""Words, one of which each match of `_ASKS` but "?" starts with."""
_NOT_ASKED = re.compile(
    r"(?:\bnot\b|n't\b|\bnever\b|\bno need\b|\bwithout\b)[^,.?!\n]{0,20}\b(?:need|have to|tell|"
    r"telling|give|giving|provide|providing|share|sharing|send|sending|ask|asking|require)\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,2}[.)]|[a-d][.)])\s")
_QUOTED = re.compile(r"\b(?:you|he|she|they|your \w+) (?:said|wrote|told|asked|mentioned)\b")


@lru_cache(maxsize=1024)
def questions(text: str) -> str:
    """Returns the parts of a message that ask for something, in lower case.

    The items of a list belong to the line above it.
    """
    if "?" not in text and not _may_hold(text, _ASK_WORDS):
        return ""
    found, heading = [], False
    for line in text.split("\n"):
        item = bool(_ITEM.match(line))
        if not line.strip():
            continue
        heading = heading and item
        for sentence in sentences(line):
            asks = bool(_ASKS.search(sentence)) and not _NOT_ASKED.search(sentence)
            if heading or (asks and not _QUOTED.search(sentence.lower())):
                found.append(sentence)
        heading = heading or (line.rstrip().endswith(":") and bool(_ASKS.search(line)))
    return "\n".join(found).lower()


_CONFIRM = re.compile(
    r"\bconfirm\b|\byour (?:confirmation|approval|consent|permission|go-ahead)\b|"
    r"\b(?:shall|should|may|can|could) (?:i|we) (?:now |then )?(?!have|get|ask|know|help|assist|"
    r"please|see|suggest|offer|look|check|find|transfer|be\b|do\b)|"
    r"\b(?:would|do) you (?:like|want|wish|prefer) (?:me|us) to (?!transfer|check|look|connect|"
    r"search|find|know|provide|explain|help|assist|escalate|tell|try)|"
    r"\b(?:would|do) you (?:like|want|wish) to (?:proceed|go ahead|continue|cancel|return|exchange)"
    r"|\b(?:ready|okay|ok|happy|like|want|wish|agree) (?:for me |with me )?to (?:proceed|go ahead)|"
    r"\bproceed(?: with (?:this|that|it|the)[^?.]{0,60})?\s*\?|\bgo ahead\s*\?|"
    r"\b(?:is|are|does|do) (?:this|that|it|these|those|they|everything|all(?: of (?:this|that))?|"
    r"the above|the details)(?: \w+){0,4} (?:correct|right|okay|ok|fine|good|acceptable|alright)\b|"
    r"\b(?:correct|right|agreed|okay|ok|alright|sounds? good)\s*\?|\bdo (?:you|we) agree|"
    r"\b(?:does|do) (?:this|that|it|these) (?:work|sound|look)\b|"
    r"\bare you (?:okay|ok|fine|happy|sure|certain)\b|\byes or no\b|\byes ?/ ?no\b|\by/n\b|"
    r"\b(?:reply|respond|answer|say|type|write|with)(?: with)?:? [\"']?yes\b"
)
_CONFIRM_WORDS = frozenset(
    "confirm your shall should may can could would do ready okay ok happy like want wish agree "
    "proceed go is are does correct right agreed alright sound sounds yes y reply respond answer "
    "say type write with".split()
)
"""Words, one of which each match of `_CONFIRM` starts with."""
_NO_CONFIRM = re.compile(
    r"^(?:how|what|which|when|where|who|why)\b|(?:\bnot\b|n't|\bno need\b)[^.]{0,20}\bconfirm|"
    r"\bdid you\b|\b(?:i|we)(?: can| will|'ll|'d like to| just| hereby)? confirm\b|"
    r"\b(?:confirm|verify)(?: (?:me|us|with me))?,? (?:which|what|how|when|where|who|whose|your "
    r"(?!request|choice|decision|approval|agreement|cancel|booking|return|exchange|wish|consent|"
    r"change|order #|reservation [a-z0-9]{6}\b)|the (?:reason|e-?mail|zip|name|user|number of|"
    r"date of birth|payment method|order (?:id|number)|reservation (?:id|number|"
    r"code))(?![^.?]{0,30}"
    r"\d))|\bwhether you\b|\b(?:transfer|human agent)"
)


@lru_cache(maxsize=1024)
def asks_to_confirm(text: str) -> bool:
    """Returns whether a message asks the user to confirm a change, not a fact of the user."""
    return _may_hold(text, _CONFIRM_WORDS) and any(
        _CONFIRM.search(sentence) and not _NO_CONFIRM.search(sentence)
        for sentence in sentences(text.lower())
    )


# Claims.

_MORE = re.compile(
    r"(?:any|some)thing (?:else|more|further)|else (?:i|we) can|further (?:help|questions|"
    r"requests)|"
    r"(?:any )?other (?:questions|requests|concerns|issues|things?)\b"
)
_DONE = re.compile(
    r"\b(?:done|complete[d]?|successful(?:ly)?|(?:has|have) been|is now|are now|i(?:'ve| have) "
    r"(?!sent|found|looked|located|verified|authenticated|checked|retrieved)\w{1,12}ed|"
    r"cancell?ed|updated|processed|booked|all set|went through)\b"
)


def offers_more(text: str) -> bool:
    """Returns whether a message asks for the user's next request."""
    return _MORE.search(text.lower()) is not None


def reports_done(text: str) -> bool:
    """Returns whether a message claims that a change was made."""
    return _DONE.search(text.lower()) is not None and any(
        _DONE.search(clause.text.lower())
        for clause in find_clauses(without_polite(text))
        if not (clause.negated or clause.question or clause.conditional or clause.quoted)
    )


_VAGUE = re.compile(
    r"\b(?:less|more|lower|higher|fewer|cheaper|other) than\s*$|\b(?:between|at least|at most|"
    r"up to|under|over|below|above|not|from)\s*$",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"\b(?:total\w*|paid|pay|sum|amount\w*|cost\w*|charged?|comes? to|is|was|were|price\w*|answer|"
    r"bill\w*|spent|owe[ds]?)\b|[:=]",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^\s*(?:,|/|;|-|or|and|,\s*(?:or|and)|to|\s)\s*$", re.IGNORECASE)


@lru_cache(maxsize=1024)
def claims_value(message: str, value: str) -> bool:
    """Returns whether a message claims a value: as a whole number, with its sign, and alone.

    A number in a list of alternatives, under a negation or in a quotation is not claimed.

    Args:
        message: a message of an agent.
        value: the value, such as "1234.5". Any other text must occur as it is.
    """
    wanted, text = _exact(value), without_polite(plain(message))
    if wanted is None:
        return normalized(value).lower() in text.lower()
    numbers = [n for n in find_numbers(text) if n.unit in ("", "$")]
    if all(number.value != wanted for number in numbers):
        return False
    return any(_claims(text, clause, numbers, wanted) for clause in _claimed(text))


_exact = lru_cache(maxsize=4096)(exact)


def _claimed(text: str) -> Iterator[Clause]:
    for clause in find_clauses(text):
        hidden = clause.negated or clause.question or clause.conditional or clause.quoted
        if not (hidden or clause.replaced):
            yield clause


def _claims(text: str, clause: Clause, numbers: list[Number], wanted: Fraction) -> bool:
    """Whether a clause claims a value, one of the numbers of its message."""
    for at, number in enumerate(numbers):
        if not clause.start <= number.start < clause.stop or number.value != wanted:
            continue
        if _VAGUE.search(text[clause.start : number.start]):
            continue
        held = [n for n in numbers if clause.start <= n.start < clause.stop]
        others = [n for n in held if n.value != wanted and n.unit >= number.unit]
        if any(_alternatives(text, *pair) for pair in _neighbours(numbers, at)):
            continue
        cue = list(_CUE.finditer(text, clause.start, number.start))
        before = [n for n in others if cue and cue[-1].end() <= n.start < number.start]
        if not others or (cue and not before):
            return True
    return False


def _neighbours(numbers: list[Number], at: int) -> Iterator[tuple[Number, Number]]:
    if at:
        yield numbers[at - 1], numbers[at]
    if at + 1 < len(numbers):
        yield numbers[at], numbers[at + 1]


def _alternatives(text: str, first: Number, second: Number) -> bool:
    """Whether two numbers are entries of one list, such as "20, 30" or "20 or 30"."""
    return bool(_LISTED.match(text[first.stop : second.start])) and first.value != second.value


def amounts(text: str) -> list[Number]:
    """Returns the amounts of money that a message names in its statements and questions."""
    hidden = [
        (clause.start, clause.stop)
        for clause in find_clauses(text)
        if clause.negated or clause.conditional or clause.quoted or clause.replaced
    ]
    return [
        number
        for number in find_numbers(text)
        if number.unit == "$" and not any(a <= number.start < b for a, b in hidden)
    ]


# Denials.

_NO_DENIAL = re.compile(
    r"\bnot (?:im|un)\w+|\bno reason (?:why |that )?\w+ (?:cannot|can't|can not)|\bnothing "
    r"(?:prevents|stops|speaks against)|\b(?:can't|cannot|can not) wait|\bno problem|"
    r"\bnot only\b|\bwhy not\b|\bno longer (?:need|want)\w*|"
    r"\b(?:can(?:not|'t| not)|won't|will not|not possible to|not) (?:be )?(?:undo(?:ne)?|"
    r"revers(?:e|ed)|revert(?:ed)?|restored?|reinstated?|reactivated?|recovered|taken back)\b|"
    r"\b(?:can(?:not|'t| not)|won't|will not|not able to|unable to)\b[^.!?\n]{0,60}\b"
    r"(?:without|until|unless|before) (?:i have |i get |i receive )?(?:your|you)\b[^.!?\n]{0,60}\b"
    r"(?:confirm\w*|consent|approv\w*|permission|agree\w*|go-ahead|authori[sz]\w+|verif\w+|identi\w+|email|id|zip)\b",
    re.IGNORECASE,
)
_NO_DENIAL_WORDS = frozenset("not no nothing can cannot why won will unable".split())
"""Words, one of which each match of `_NO_DENIAL` starts with."""
_CAN_NOT = r"\b(?:can(?:not|'t| not)|cant|could(?:n't| not)|may not|must not|mustn't)\b"
_WILL_NOT = r"\b(?:won't|wont|will not|would(?:n't| not)|shall not)\b"
_STRONG = re.compile(
    rf"{_CAN_NOT}|{_WILL_NOT}|"
    r"(?:\bnot\b|n't\b|\bno longer\b|\bneither\b|\bnever\b)[^,;]{0,40}\b(?:able|allow\w*|permit\w*|"
    r"eligib\w+|possib\w+|entitle\w*|qualif\w+|authori[sz]\w+|available|refund\w*|cancell?\w*|"
    r"chang\w+|modif\w+|support\w*|accept\w*|meet|meets|within|an option|let)\b|"
    r"\b(?:unable|impossible|ineligible|disallow\w*|prohibit\w*|forbid\w*|forbidden|too late|"
    r"declin\w+|den(?:y|ied|ies)|refus\w+|reject\w*|unfeasible|disqualif\w+)\b|"
    r"\bnon-?(?:refundable|cancell?able|changeable|modifiable|transferable|eligible)\b|"
    r"\b(?:against|violat\w+|contrary to|breach\w*|outside(?: of)?)\b[^.]{0,25}\b(?:polic|rule|"
    r"terms|window|24)|\bpolic\w+[^.]{0,40}\b(?:not|n't|prevents?|forbids?|prohibits?)\b|"
    r"\bprevent\w* (?:me|us|this|that|it)\b|\bno (?:way|option|possibility|cancell?ations?|"
    r"changes?|refunds?|exceptions?|can do)\b|\bnothing (?:i|we) can do\b|"
    r"\b(?:afraid|sorry|unfortunately)[,:]?(?: but)? (?:not|no)\b|\bsay no\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\bonly\b[^.]{0,80}\b(?:within|if|when|while|pending|before|business|insur\w+|24|until|for)\b|"
    r"\b(?:must|has to|have to|needs? to) (?:be|have been)\b|\brequires?\b|\bunavailable\b",
    re.IGNORECASE,
)
_DENIAL_WORDS = frozenset(
    "not t no neither never cannot cant wont unable impossible ineligible unfeasible deny denied "
    "denies too against contrary outside nothing nope nah only must has have need needs require "
    "requires unavailable".split()
)
_DENIAL_STARTS = (
    "disallow", "prohibit", "forbid", "declin", "refus", "reject", "disqualif", "violat",
    "breach", "polic", "prevent", "non",
)  # fmt: skip
"""Words, and starts of words, one of which each match of `_STRONG`, `_WEAK` and `_NO` holds."""
_GENERIC = re.compile(
    r"\b(?:do (?:that|this|it|so)|be able|allow\w*|possible|help|assist|honou?r|approve|grant|"
    r"process|make|go through|proceed|accommodate|fulfil\w*|complete|carry|that|this|it)\b",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"\b(?:find|locate|see|access|look|view|read|open|verify|authenticate|identify|match|wait|"
    r"guarantee|promise|hear|imagine|tell|share|disclose|discuss|explain|believe|remember|recall|"
    r"understand|know|charg\w+|expedite|split|remove|add|return\w*|exchang\w+|deliver\w*|ship\w*|"
    r"bags?|baggage|insurance|certificates?|vouchers?|compensation|gift cards?|address\w*|"
    r"passengers?|payments?|seats?|names?|take|affect|worry|hesitate|need|individual|options?|items?|variants?|inventory|stock|part|"
    r"partial\w*|"
    r"miles|speak|place|book|upgrade\w*|cancel\w*|chang\w+|modif\w+|mov(?:e|ed|ing)|rebook\w*|"
    r"reschedul\w+|switch\w*)\b",
    re.IGNORECASE,
)


_NO = re.compile(r"(?<!/)(?<!\bor )\b(?:no|nope|nah)\b", re.IGNORECASE)
_KEY = re.compile(r"\b(?:[Ww]\d{3,9}|(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6})\b")
"""Numbers of orders and reservations."""


def denies(message: str, topic: str, key: str = "") -> bool:
    """Returns whether a message denies a request, in usual words.

    A denial in a question, a condition or a quotation, or of something else, is none.

    Args:
        message: a message of an agent.
        topic: pattern of the words that name the requested change.
        key: number of the order or reservation. A denial about another one does not count.
    """
    text = without_polite(plain(message))
    if _may_hold(text, _NO_DENIAL_WORDS):
        text = _NO_DENIAL.sub(" ", text)
    if not _may_hold(text, _DENIAL_WORDS, _DENIAL_STARTS):
        return False
    if not (_STRONG.search(text) or _WEAK.search(text) or _NO.search(text)):
        return False
    own, confirms = re.compile(topic, re.IGNORECASE), asks_to_confirm(text)
    for clause in find_clauses(text):
        if clause.question or clause.conditional or clause.quoted or clause.replaced:
            continue
        words, about = clause.text, bool(topic and own.search(clause.text))
        keys = [found.lower() for found in _KEY.findall(words)]
        if keys and key and plain_key(key) not in keys:
            continue
        if clause.answer == "no" or (_WEAK.search(words) and about and not confirms):
            return True
        needs = re.search(_WILL_NOT, words, re.IGNORECASE) and not _GENERIC.search(words)
        if _STRONG.search(words) and (about or not (_OTHERS.search(words) or needs)):
            return True
    return False
