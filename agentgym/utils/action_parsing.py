"""How forgiving an action is read, by single-agent environments and games alike.

Agents write capitals, blanks, a full stop, quotes, code marks and fences, "Action:". None of these
makes a difference between what was said and an action that is listed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

LONGEST = 10_000
"""Characters of what an agent says that are read; what comes after them is not."""

# Quantifiers are bounded so that no answer, however strange, takes more than linear time.
_LABEL = r"^[ \t>*_#]{0,9}%s[ \t*_]{0,9}\d{0,9}[ \t*_]{0,9}:(?:\*\*|__)?[ \t]{0,9}"
_ACTION_LABEL = re.compile(_LABEL % "action", re.IGNORECASE | re.MULTILINE)
_ANY_LABEL = re.compile(_LABEL % "(?:thought|action|observation)", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"```[\w-]{0,20}\n(.*?)\n?```", re.DOTALL)
_AROUND = "\"'`“”‘’«»*_"  # these quotes are meant
_BEHIND = _AROUND + ".,;:!?…"


def labelled(answer: str) -> str:
    """Returns what follows the first label "Action:", up to the next label, "" if there is none.

    The format of ReAct (arXiv 2210.03629); what a model invents after its action is ignored.
    """
    label = _ACTION_LABEL.search(answer)
    if label is None:
        return ""
    following = _ANY_LABEL.search(answer, label.end())
    return answer[label.end() : following.start() if following else None].strip()


def unfenced(text: str) -> str:
    """Returns text without the code fence around all of it, if there is one."""
    fence = _FENCE.fullmatch(text) if text.startswith("```") else None
    return fence[1].strip() if fence else text


def plain(text: str, *, cased: bool = False) -> str:
    """Returns the form in which actions are compared: what is forgiven is left out.

    A text that would be left with nothing, such as "*", keeps its marks.

    Args:
        text: what was said, or an action.
        cased: whether capitals are kept.
    """
    before, text = None, text[:LONGEST].strip()
    while text != before:
        before = text
        text = unfenced((":" in text and labelled(text)) or text)
        text = text.lstrip(_AROUND).rstrip(_BEHIND).strip() or text
    return " ".join((text if cased else text.casefold()).split())


def match_action(said: str, actions: Sequence[str], *, cased: bool = False) -> str | None:
    """Returns which of the actions was meant, None if none was or it is not clear which.

    Args:
        said: what was said.
        actions: what could be meant.
        cased: whether capitals tell actions apart.
    """
    if said in actions:
        return said
    words = plain(said, cased=cased)
    found = [action for action in actions if plain(action, cased=cased) == words]
    return found[0] if len(found) == 1 else None


def numbered(action: Any) -> int:
    """Returns the number of a numbered action: any integer of Python, NumPy or PyTorch.

    Raises:
        TypeError: if it is none.
    """
    try:
        return operator.index(action)
    except TypeError:
        raise TypeError(
            f"Actions are numbers here: expected one integer, got {type(action).__name__}: "
            f"{action!r:.80}."
        ) from None
