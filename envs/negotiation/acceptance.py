"""Messages that accept a proposal and say nothing else."""

from __future__ import annotations

import re

from agentgym.reading import normalized
from agentgym.utils.marks import without_bold

_BEFORE = (
    r"(?:(?:yes|yeah|ok|okay|alright|all right|sure|great|good|fine|perfect|thanks|thank you|well"
    r"|(?:that )?sounds (?:good|great|fair|fine))\b[ ,.!;-]{0,3}){0,4}"
)
_WHAT = (
    r"(?: (?:it|that|this|(?:the|your|this|that)(?: (?:last|new|latest|current|final))?"
    r" (?:offer|trade|deal|proposal|split|terms|suggestion)))"
)
_CORE = (
    r"(?:(?:(?:it|that)(?:'s| is) |(?:we|you)(?: have|'ve got) )?(?:a )?deal(?: accepted)?"
    rf"|(?:i(?:'ll| will| can|'m (?:happy|glad) to| am (?:happy|glad) to)? )?accept{_WHAT}?"
    rf"|accepted|agreed|i agree(?: (?:to|with){_WHAT})?|that works(?: for me)?|it works for me"
    r"|let's (?:do (?:it|that)|make (?:the|this|that) deal))"
)
_BEHIND = r"(?:[ ,.!;-]{1,3}(?:then|thanks|thank you|please|great|deal))?[ .!]*"
_ACCEPTED = re.compile(_BEFORE + _CORE + _BEHIND, re.IGNORECASE)


def accepts_in_words(message: str) -> bool:
    """Whether a message accepts a proposal in usual words, as in "I accept your offer".

    A question, a condition or any other word beside them makes it another message.
    """
    text = without_bold(normalized(message[:200])).strip(" *_`\"'\n")
    return len(message) <= 200 and _ACCEPTED.fullmatch(text) is not None
