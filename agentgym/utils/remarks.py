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
    r"|as long as|condition\w*|only|chang\w+|alternat\w+|kidding|joking|delete|strike|never ?mind"
    r"|forget\w*|regret\w*|hold|pause|delay\w*|postpone\w*|pending|pass|abort|stop|undecided|torn"
    r"|hesitant|doubtful|guess\w*|random|whatever|any|his|her|their|your|he|she|they|you|tell|ask"
    r"|suppose|imagine|in case|as soon as|tomorrow|eventually|someday|hypothetical\w*|in theory"
    r"|part(?:ly|ially)|a bit|a little|slightly|forever|keep|continu\w+|as far as|to the end"
    r"|los(?:es?|ing)|unwise|stupid|useless|pointless|closed|locked|occupied|taken|unreachable"
    r"|prohibited|disallowed|hits|crash\w*|kills|dies|reverse|inverse|backwards|option|plan)\b"
    r"|\w's (?:move|action|turn|choice|plan|idea)\b)"
)
"""A note that doubts the action before it, adds one, or tells of one at another time."""
ARTICLES = frozenset(("the", "a", "an"))
_NO_LONGER = re.compile(r"\bno longer \w{1,30}")
_NO_WORD = re.compile(r"\W+")
LEAD = re.compile(r"[.!?;]\s|\n\s{0,9}\n|,\s{0,9}(?:so|thus|therefore|hence)\b")
"""Before the words that lead to a marked answer."""
_NOUN = (
    r"(?:answer|action|command|move|query|choice|decision|step|solution|response|statement|code)"
)
_VERB = (
    r"(?:check|list|look|search|run|try|open|read|count|find|get|us|explor|inspect|query|mov|go|tak"
    r"|select|start|show|play|do|examine|examining|execute|executing)"
)
_LEADING = re.compile(
    r"[\W_]{0,9}(?:\d{1,3}[.)] )?(?:(?:thought|reasoning|analysis|step)(?: \d{1,3})?: )?"
    r"(?:(?:first(?: of all)?|now|next|so|thus|therefore|hence|ok|okay|sure|alright|great|good|well"
    r"|yes)[,!:.]? ){0,3}(?:"
    r"(?:(?:to|in order to|since|because|given|with|for|before|based on|from) [^:\n]{1,300}?, )?"
    r"(?:(?:i|we)(?:'ll|'m|'re)?|let me|let us|let's) "
    r"(?!.*\b(?:hat(?:e|ing)|hesitat\w+|den(?:y|ies)|declin\w+|forg[eo]\w+|regret\w*|wonder\w*"
    r"|doubt\w*|stop\w*|quit\w*|skip\w*|dislike|fear|cancel\w*|undo|revers\w+|repeat\w*|keep|asks?"
    r"|tell|suppose|imagine|imagining|remember|recall|consider\w*|(?!need\b)(?<=\bi )\w+ed"
    r"|ran|chose|went|took|made|found|thought|was|were|you|he|she|him)\b)"
    r"|(?:(?:here (?:is|are)|here's|this is) )?(?:(?:my|the|a|an|our|next|final|best|first"
    r"|following|correct|right|new|updated|corrected|sql|bash|shell|complete|single|simple) ){1,5}"
    rf"{_NOUN}(?: (?:is|to|for|that|which|will|below|here|now|i|we|\w+s)\b[^:\n]{{0,300}})?[:.]$"
    rf"|{_VERB}(?:e|ning|ing|ying)? )"
)
"""A sentence that leads to an action: of a speaker who acts now, or about the action itself."""
_SPOKEN = re.compile(r"(?:I|We|Let)(?:'\w{1,2})?(?: [\w',-]{1,30}){2,99}")
"""A sentence that is no command, also without a mark at its end."""
_TOLD = re.compile(
    rf"\b(?:{_DOUBTED}|did|had|said|says|told|tells|asked|wrote|got|saw|gave|returned"
    r"|printed|showed|played|what if)\b"
)
"""Words of what happens at another time."""
_SHOWN = re.compile(r"(?:i|we) (?:see|have|know|hear|note)(?: this)?[:.]$")
_GOES_ON = re.compile(
    r"[\W_]{0,9}(?:this|it|that|the|these|here|i|we|with|because|since|now|explanation|note|reason"
    r"|reasoning|rationale|thought|each|all|there|my|\w+ing)\b"
)
"""The start of sentences that explain an action."""
_DENIED = re.compile(
    r"n't\b|\b(?:not|never|no|nope|cannot|wrong|bad|fail(?:s|ed)?|mistake|illegal|impossible"
    r"|invalid|instead|rather|better|worse|worst|second thought|reject\w*|discard\w*|example"
    r"|opponent\w*|did"
    r"|was|were|had|trap|los(?:es?|ing)|doubt\w*|unsure|dangerous|avoid|kidding|joking|ignore|forget"
    r"|scratch|cancel|undo|strike|mind|hold on|wait|actually|twice|thrice|times|repeat\w*|again"
    r"|then|next|afterwards|followed|alternatively|quote|unless|only if|provided|assuming)\b"
)
"""Words that take an action back, or add another one."""
_LATER = re.compile(r"(?:if|when|once|after)\b.*,")
_SENTENCE = re.compile(r"[.!;\n]\s{0,9}([^.!;\n]{1,999})")
_QUOTE = re.compile(r"(?<!\w)'|'(?!\w)")
_CODE = re.compile(
    r"\b(?:run|runs|running|type|execute|use|try|do|enter|call|command|action)\b[^`\n]{0,20}"
    r"`([^`\n]{1,999})`"
)
"""Another command in a sentence, not the name of a file."""
_PLANNED = re.compile(
    r"\b(?:see|check|test|verify|look|find out) (?:if|whether)\b|\b(?:i|we) should\b"
)
"""Words of a plan, which are neither conditions nor doubts."""
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
    now = _NO_LONGER.sub("", text)
    if "?" in text or not _LETTERS.search(text) or UNMEANT.search(now):
        return answer
    if _AMOUNT.match(text) or _WEAKENED.match(now):
        return answer
    known = [_known_words(each) for each in actions]
    commands = {each.partition(" ")[0] for each in known if " " in each}
    if _words(text).partition(" ")[0] in commands or _names_other(text, action, known):
        return answer
    return action


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
    return " ".join(word for word in words if word not in ARTICLES) or " ".join(words)


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
    written = LEAD.split(before)[-1].split("\n")[-1]
    last = written.casefold()
    if before:
        ends = len(last.split()) > 1 and before.endswith((".", ":", "!"))  # "submit:" is a command
        if not ends and not _SPOKEN.fullmatch(written):
            return False
        if not _LEADING.match(last) or UNMEANT.search(_PLANNED.sub("", last)) or _TOLD.search(last):
            return False
        if _SHOWN.match(last) or "<<" in before:
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
    """Whether sentences behind an action take it back, and do not only explain it."""
    text = after.casefold()
    sentences = (found[1] for found in _SENTENCE.finditer(f"\n{text}"))
    clauses = (each.partition(",")[0] for each in sentences if not _LATER.match(each))
    return not _GOES_ON.match(text) or any(map(_DENIED.search, clauses))
