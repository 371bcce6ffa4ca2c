"""The notes and sentences around an action in a model's reply: whether they change its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from agentgym.reading.typography import normalized

_NOTE = re.compile(r"\s{0,9}([^()\n]{1,300}?)[ \t]{1,9}\(([^()\n]{1,300})\)[.!*_:;, \t\n]{0,9}$")
_HEAD = re.compile(
    r"\s{0,9}\*\*([^*\n]{1,300})\*\*(?:[ \t]{0,9}:|[ \t]{1,9}[-\u2013\u2014])[ \t]{1,9}"
    r"([^\n]{1,999})\s{0,9}$"
)
"""The action and the note behind it."""
_NUMBER = (
    r"(?:\d{1,9}|one|two|three|four|five|six|seven|eight|nine|ten|a couple|(?:a )?few|several|many"
    r"|some|half|double)"
)
_AMOUNT = re.compile(
    rf"\W*{_NUMBER}\b"
    rf"|.*\b(?:(?:{_NUMBER}[ -](?:(?:of|more|single|whole|full) )?"
    r"(?:times|them|steps?|turns?|squares?|cells?|spaces?|moves?|rounds?|tiles?|fields?|rows?"
    r"|columns?)|times|twice|thrice|x ?\d|\d ?x|all the way)\b)"
)
_DOUBTED = (
    r"reject\w*|discard\w*|dismiss\w*|mistake\w*|fail(?:s|ed|ing)?|unsure|uncertain|either|oops"
    r"|hm+|opposite|second thought|scratch that|when|once|later|until|till?|twice|thrice"
    rf"|{_NUMBER} times|repeatedly"
)
_WEAKENED = re.compile(
    r"\W*(?:and|plus|also)\b|.*(?:[.!;]\s|\b(?:"
    rf"{_DOUBTED}|then|next|first|afterwards|followed|before|after|skip\w*|undo|cancel\w*"
    r"|ignor\w+|old|earlier|previously|already|done|else|or|optional\w*|probably|possibly|likely"
    r"|unlikely|(?:i|we) (?:think|guess|suppose|believe)|correction|worse|worst|better|error\w*"
    r"|wait|blocked|again|repeat\w*|consider\w*|dangerous|risky|trap|forbidden|provided|assuming"
    r"|as long as|condition\w*|only|chang\w+|alternat\w+)\b)"
)
"""A note that doubts the action before it, adds one, or tells of one at another time."""
_NO_WORD = re.compile(r"\W+")
LEAD = re.compile(r"[.!?;]\s|\n\s{0,9}\n|,\s{0,9}(?:so|thus|therefore|hence)\b")
"""Before the words that lead to a marked answer."""
_TAKEN_BACK = re.compile(
    r"\W{0,9}(?:no|not|wait|actually|instead|oops|sorry|correction|hm+|but|or|alternatively|then"
    r"|next|afterwards|and|on second thought)\b",
    re.IGNORECASE,
)
_TOLD = re.compile(
    rf"\b(?:{_DOUBTED}|was|were|did|had|said|says|told|tells|asked|wrote|got|saw|gave|returned"
    r"|printed|showed|played|after (?:that|this|which)"
    r"|(?:possible|available|legal|allowed|admissible)"
    r" (?:moves?|actions?|commands?|options?|choices))\b"
    r"|^\W{0,9}(?:(?:is|are|does|do|can|has|have|may|shall) (?:it|this|that|these|i|we|you|he|she"
    r"|they|there|the)|what|which|who|where|why|how)\b"
    r"|^\W{0,9}(?:\w{1,20} ){0,3}(?:outputs?|errors?|results?|state|board|map|grid|maze|scene|rules"
    r"|help|manual|prompt|input|log|schema|observation|history)(?: (?:is|now|so far))?:$"
)
"""Sentences that ask, tell what happens at another time, or name what is no action."""
_SHOWN = re.compile(r"(?<!what )\b(?:is|are|see|has|have)(?: (?:this|these|now))?:$")
_CHOSEN = re.compile(
    r"\b(?:answer|action|command|move|query|choice|decision|step|plan|solution|statement)\b"
)
_DENIED = re.compile(
    r"n't\b|\b(?:not|never|no|cannot|wrong|bad|fail(?:s|ed)?|mistake|illegal|impossible|invalid"
    r"|instead|rather|better|second thought|reject\w*|discard\w*|example|opponent\w*|did|was|were"
    r"|had)\b"
)
_LATER = re.compile(r"(?:if|when|once|after)\b")
_CLAUSE = re.compile(r"[.!;\n]\s{0,9}([^,.!;\n]{1,999})")
_QUOTE = re.compile(r"(?<!\w)'|'(?!\w)")
_CODE = re.compile(r"`([^`\n]{1,999})`")
_LIST = " \t*_#>-("
_LETTERS = re.compile(r"[^\W\d_]{2}")
UNMEANT = re.compile(
    r"\b(?:not|no|never|cannot|can't|cant|don't|dont|won't|wont|neither|nor|without|except|but"
    r"|instead|rather|other|avoid|refuse|reject|wrong|bad|illegal|impossible|invalid|false|format"
    r"|example|e\.g|instructions?|rules?|template|if|unless|whether|would|could|might|maybe|perhaps"
    r"|should|opponents?|previous|last)\b|n't\b"
)
"""Words of denials, doubts, other turns and quoted instructions before a marked answer."""


def without_note(answer: str, actions: Iterable[str]) -> str:
    """Returns a reply of one line without a note behind its action.

    The note is in parentheses, as in "left (towards the door)", or follows an action in bold type,
    as in "**left**: the door is there". It stays if it denies or doubts the action, gives an
    amount, as in "left (twice)", or names another action or begins as one, as in "left (then up)".

    Args:
        answer: a reply.
        actions: the known actions.
    """
    note = (_HEAD.match(answer) if "**" in answer else None) or (
        _NOTE.match(answer) if ")" in answer[-20:] else None
    )
    if note is None:
        return answer
    action, text = note[1], normalized(note[2]).casefold()
    if "?" in text or not _LETTERS.search(text) or UNMEANT.search(text.replace("no longer", "")):
        return answer
    if _AMOUNT.match(text) or _WEAKENED.match(text):
        return answer
    known = [_known_words(each) for each in actions]
    commands = {each.partition(" ")[0] for each in known if " " in each}
    if _words(text).partition(" ")[0] in commands or _names_other(text, action, known):
        return answer
    return action


_ARTICLES = frozenset(("the", "a", "an"))


def _names_other(text: str, action: str, actions: Iterable[str]) -> bool:
    """Whether a text names another one of some actions, or has no words but some of it.

    Args:
        text: a note, or a sentence around an action.
        action: the action.
        actions: the known actions.
    """
    said, meant = _words(text), _words(action)
    inner, words, own = f" {said} ", set(said.split()), set(meant.split())
    for each in map(_known_words, actions):
        if each != meant and (f" {each} " in inner or words <= set(each.split()) - own):
            return True
    return False


def _words(text: str) -> str:
    words = _NO_WORD.sub(" ", text.casefold()).split()
    return " ".join(word for word in words if word not in _ARTICLES) or " ".join(words)


_known_words = lru_cache(maxsize=4096)(_words)


def leads_to(before: str, after: str = "", action: str = "", actions: Iterable[str] = ()) -> bool:
    """Whether the sentences around an action in a mark of its own lead to it.

    Args:
        before: the text before the mark: empty, or sentences of which the last one is of two words
            at least, neither denies nor doubts nor asks, and tells of nothing else.
        after: the text behind the mark: empty, or sentences that take nothing back and add nothing.
        action: the action in the mark.
        actions: the known actions, of which neither may name another one.
    """
    before, after = normalized(before).strip().rstrip("*_ "), normalized(after).strip()
    last = LEAD.split(before.casefold())[-1].split("\n")[-1]
    if before:
        if len(last.split()) < 2 or not before.endswith((".", ":", "!")):
            return False  # "submit:" is a command
        if UNMEANT.search(last) or _TOLD.search(last) or "<<" in before:
            return False
        if _SHOWN.search(last) and not _CHOSEN.search(last):
            return False
        if any(each not in action for each in _CODE.findall(before.rpartition("\n")[2])):
            return False  # "I run `ls`." is another one
        if before.count('"') % 2 or len(_QUOTE.findall(before)) % 2:  # it is part of a command
            return False
    if after and ("?" in after or not after.lstrip(_LIST)[:1].isupper() or _takes_back(after)):
        return False
    said = filter(None, (last, after))
    return not (actions and any(_names_other(each, action, actions) for each in said))


def _takes_back(after: str) -> bool:
    """Whether a sentence behind an action takes it back. Clauses such as "if it fails" do not."""
    clauses = (found[1].casefold() for found in _CLAUSE.finditer(f"\n{after}"))
    denied = any(_DENIED.search(each) and not _LATER.match(each) for each in clauses)
    return denied or _TAKEN_BACK.match(after) is not None
