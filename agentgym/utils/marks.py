"""What stands around an action in a model's reply: labels, boxes, tags, bold type and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from agentgym.reading.typography import normalized

LONGEST = 10_000
"""Maximum number of characters of an action that are compared. The rest is ignored."""

_BOLD_PART = re.compile(r"(?<![\w*])\*\*([^\s*](?:[^*\n]*[^\s*])?)\*\*(?![\w*])")
_ESCAPED = re.compile(r"\\([_*\[\]()<>#|~`.!+-])")
_ENCLOSED = re.compile(
    r"\\(?:boxed|fbox|text|mathrm|textbf|mathbf)[ ]?\{([^{}\n]+)\}|\$([^$\n]+)\$|\[([^\[\]\n]+)\]"
    r"|<(answer|final_answer|action|move|command|choice)>\s{0,9}([^<>\n]+?)\s{0,9}</\4>",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"[>*_# ]{0,9}(?:(?:so|my|the|our|final|next|best|chosen) ){0,3}"
    r"(?:(?:answer|action|move|choice|decision|vote|bid|guess|command|response|reply|question|clue"
    r"|proposal|description|expression|task|message|draft)(?:[ *_]{0,4}\d{1,3})?"
    r"|pick|selection|word|card|column|cell|position|square|number|amount|team|target|victim|film"
    r"|title|player)"  # without a number: "Player 2: fold" is about another
    r"[ *_]{0,4}(?::|=|\bis\b:?)[ *_]{0,4}([^\n]+)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|will|would|has|have|what|which|who|where|when|how"
    r"|why)\b",
    re.IGNORECASE,
)
"""The beginning of an action that is a question, as in "My guess: Is it a potato?"."""
_PAIRED = ("**", "*", "`", '"', "'")
_LEAD = re.compile(r"[.!?;]\s|\n\s{0,9}\n|,\s{0,9}(?:so|thus|therefore|hence)\b")
"""Before the words that lead to a marked answer."""
_UNMEANT = re.compile(
    r"\b(?:not|no|never|cannot|can't|cant|don't|dont|won't|wont|neither|nor|without|except|but"
    r"|instead|rather|other|avoid|refuse|reject\w*|wrong|bad|illegal|impossible|invalid|false|format"
    r"|example|e\.g|instructions?|rules?|template|if|unless|whether|would|could|might|maybe|perhaps"
    r"|should|opponents?|previous|last)\b|n't\b"
)
"""Words of denials, doubts, other turns and quoted instructions."""
_NOTE = re.compile(r"\s{0,9}([^()\n]{1,300}?)[ \t]{1,9}\(([^()\n]{1,300})\)[.!*_:;, \t\n]{0,9}$")
_HEAD = re.compile(
    r"\s{0,9}\*\*([^*\n]{1,300})\*\*(?:[ \t]{0,9}:|[ \t]{1,9}[-\u2013\u2014])[ \t]{1,9}"
    r"([^\n]{1,999})\s{0,9}$"
)
"""The action and the note behind it."""
_CHANGES = re.compile(
    r"\W*(?:and|plus|also)\b|.*\b(?:x?\d+x?|one|two|three|four|five|several|few|many|half|twice"
    r"|thrice|times|again|repeat\w*|then|or|else|after|before|until|till|later|first|next|wait|skip"
    r"|undo|opposite|only|all the way|to the end|couple|double|bit|slightly|part(?:ly|ially)"
    r"|forever|keep|continu\w+|every|each|when|once|as (?:soon|long|far)|provided|assuming"
    r"|cancel\w*|ignor\w+|mistake|scratch|kidding|joking|correction|oops|hmm+|unsure|uncertain"
    r"|i guess|either|probably|possibly|undecided|alternat\w+|reverse|backwards)\b"
)
"""Words of a note that may take back the action before it, or add another one or a condition."""
_NO_LONGER = re.compile(r"\bno longer \w{1,30}")
_NO_WORD = re.compile(r"\W+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
ARTICLES = frozenset(("the", "a", "an"))
CLOSING = " \t\r\n.!$*_`\"')]}"
"""Marks behind an answer that do not change it."""


def without_bold(text: str) -> str:
    """Returns a text without the marks of bold type in it. Powers such as "2**3" stay."""
    return _BOLD_PART.sub(r"\1", text) if "**" in text else text


def undressed(text: str) -> str:
    r"""Returns a reply of one line without all that surrounds its action.

    That is a label ("My move: e4", "The answer is e4"), a box or brackets (`\boxed{e4}`, `[e4]`), a
    tag (`<move>e4</move>`), bold type, and Markdown's backslash before marks. Only marks around the
    whole line are left out, so that every word beside them is kept. A label stays before a question
    about the answer, as in "The answer is e4?".
    """
    text, before = normalized(text[:LONGEST]).strip(), None
    while text != before:
        before = text
        for mark in _PAIRED:
            inner = text.removeprefix(mark).removesuffix(mark)
            if len(text) == len(inner) + 2 * len(mark) and mark not in inner:
                text = inner.strip() or text
        if enclosed := _ENCLOSED.fullmatch(text):
            text = (enclosed[1] or enclosed[2] or enclosed[3] or enclosed[5]).strip()
        elif named := _NAMED.fullmatch(text):
            label, rest = text[: named.start(1)], named[1].strip()
            if rest.rstrip(CLOSING).endswith("?") and not _ASKS.match(rest):
                if "question" not in label.lower():  # "The answer is up?" asks
                    break
            opened = label.count("**") % 2 and rest.count("**") == 1  # "**Answer: up**."
            text = rest.replace("**", "") if opened else rest
    return _ESCAPED.sub(r"\1", text)


def last_answer(answer: str) -> str:
    """Returns the marked answer at the end of a reply, "" if it marks none or several.

    It is also "" if the words before it deny or doubt it.
    """
    from agentgym.reading.answers import find_answer_text  # takes long, and few replies need it

    text = normalized(answer)
    marked = {each.casefold(): each for each in find_answer_text(text) if each}
    end = text.rstrip(CLOSING).removesuffix("</answer>").rstrip(CLOSING).casefold()
    if len(marked) != 1 or not end.endswith(tuple(marked)):
        return ""
    ((folded, found),) = marked.items()
    return "" if _UNMEANT.search(_LEAD.split(end.removesuffix(folded))[-1]) else found


def without_note(answer: str, actions: Iterable[str]) -> str:
    """Returns a reply of one line without a note behind its action.

    The note is in parentheses, as in "left (towards the door)", or follows an action in bold type,
    as in "**left**: the door is there". It stays if it has a word that may deny, doubt or change
    the action, as in "left (twice)", or names another one or begins as one, as in "left (go up)".

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
    now = _NO_LONGER.sub("", text)
    if "?" in text or not _LETTERS.search(text) or _UNMEANT.search(now) or _CHANGES.match(now):
        return answer
    known = [_known_words(each) for each in actions]
    said, meant = _words(text), _words(action)
    commands = {each.partition(" ")[0] for each in known if " " in each}
    words, own = set(said.split()), set(meant.split())
    others = (each for each in known if each != meant)
    named = any(f" {each} " in f" {said} " or words <= set(each.split()) - own for each in others)
    return answer if named or said.partition(" ")[0] in commands else action


def _words(text: str) -> str:
    words = _NO_WORD.sub(" ", text.casefold()).split()
    return " ".join(word for word in words if word not in ARTICLES) or " ".join(words)


_known_words = lru_cache(maxsize=4096)(_words)
