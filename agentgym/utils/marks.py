"""The marks around an action in a model's reply: labels, boxes, tags and bold type."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
CLOSING = " \t\r\n.!$*_`\"')]}"
"""Marks behind an answer that do not change it."""
_NOTE = re.compile(r"\s{0,9}([^()\n]{1,300}?)[ \t]{1,9}\(([^()\n]{1,300})\)[.!*_:;, \t\n]{0,9}$")
_HEAD = re.compile(
    r"\s{0,9}\*\*([^*\n]{1,300})\*\*(?:[ \t]{0,9}:|[ \t]{1,9}[-\u2013\u2014])[ \t]{1,9}"
    r"([^\n]{1,999})\s{0,9}$"
)
"""The action and the note behind it."""
_REMARK = re.compile(
    r"^(?!.*\b(?:times|twice|thrice|x ?\d|\d ?x|then|next|afterwards|followed)\b).*[^\W\d_]{2}"
)
"""A note that gives no amount, and no action to follow."""
_NO_WORD = re.compile(r"\W+")
_LEAD = re.compile(r"[.!?;]\s|\n\s{0,9}\n|,\s{0,9}(?:so|thus|therefore|hence)\b")
"""Before the words that lead to a marked answer."""
_DISMISSED = re.compile(
    r"\b(?:(?:do|will|would|should|must|can|could|may) not|\w+n't|dont|cant|wont|cannot|never|avoid"
    r"|not (?:to )?(?:run|use|execute|play|do|go|take|move)|refuse|reject|instead of|rather than"
    r"|wrong|incorrect|illegal|impossible|invalid|failed|example|e\.g|format|template"
    r"|instructions?|rules?|could|might|maybe|perhaps|you (?:can|may|should)|if you|unless"
    r"|whether|opponents?|previous|last (?:command|action|move|time|turn))\b"
)
"""Words of denials, doubts, other turns and quoted instructions before a code block.

Sentences before a block are longer than those before an answer: "let me see if it is not empty".
"""
_SENTENCE = re.compile(r"[A-Z][\w'-]{0,30}(?: [\w',-]{1,30}){3,99}")
_TAKEN_BACK = re.compile(
    r"\W{0,9}(?:no|not|wait|actually|instead|oops|sorry|correction|hm+|but|or|alternatively|then|next"
    r"|afterwards|and)\b",
    re.IGNORECASE,
)
_UNMEANT = re.compile(
    r"\b(?:not|no|never|cannot|can't|cant|don't|dont|won't|wont|neither|nor|without|except|but"
    r"|instead|rather|other|avoid|refuse|reject|wrong|bad|illegal|impossible|invalid|false|format"
    r"|example|e\.g|instructions?|rules?|template|if|unless|whether|would|could|might|maybe|perhaps"
    r"|should|opponents?|previous|last)\b|n't\b"
)
"""Words of denials, doubts, other turns and quoted instructions before a marked answer."""


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


def without_note(answer: str, actions: Iterable[str]) -> str:
    """Returns a reply of one line without a note behind its action.

    The note is in parentheses, as in "left (towards the door)", or follows an action in bold type,
    as in "**left**: the door is there". It stays if it denies or doubts the action, gives an
    amount, as in "left (twice)", or names another action, as in "left (then up)".

    Args:
        answer: a reply.
        actions: the known actions.
    """
    if len(answer) > LONGEST:
        return answer
    note = (_HEAD.match(answer) if "**" in answer else None) or (
        _NOTE.match(answer) if ")" in answer[-20:] else None
    )
    if note is None:
        return answer
    action, text = note[1], normalized(note[2]).casefold()
    if "?" in text or _UNMEANT.search(text.replace("no longer", "")) or not _REMARK.search(text):
        return answer
    meant, inner = _words(action), f" {_words(text)} "
    known = (_words(each) for each in actions)
    return answer if any(each != meant and f" {each} " in inner for each in known) else action


def _words(text: str) -> str:
    return " ".join(_NO_WORD.sub(" ", text.casefold()).split())


def leads_to(before: str, after: str = "") -> bool:
    """Whether the sentences around an action in a mark of its own lead to it.

    Args:
        before: the text before the mark. It is empty, or its last sentence neither denies nor
            doubts. A sentence ends in a mark, or has four words and begins with a capital.
        after: the text behind the mark, which takes nothing back and adds nothing.
    """
    before, after = normalized(before).strip().rstrip("*_ "), normalized(after).strip()
    last = _LEAD.split(before)[-1].split("\n")[-1]
    ends = len(last.split()) > 1 and before.endswith((".", ":", "!"))  # "submit:" is a command
    if before and not ends and not _SENTENCE.fullmatch(last):
        return False
    return not (_DISMISSED.search(last.casefold()) or _TAKEN_BACK.match(after))


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
