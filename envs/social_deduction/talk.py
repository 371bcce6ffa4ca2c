"""Reads opinions about players in messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from agentgym.reading import Clause, find_clauses

_NAMES = r"player_\d(?!\w)(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)player_\d(?!\w))*"
OPINION = re.compile(
    rf"\bi (?:(?:really|strongly|also|still|do|fully|now) ){{0,2}}"
    rf"(?P<verb>suspect|accuse|trust|believe) (?P<names>{_NAMES})(?P<rest>.*)",
    re.DOTALL,
)
# "I trust player_3 is a werewolf" and "I suspect player_3 or player_4" are no opinions on player_3.
_OTHER_REST = re.compile(
    r"\s*(?:['/]|(?:is|are|was|has|will|to|or|nor|about|as|less|more|than|would|may|might|could|only"
    r"|when|says|said)\b)"
)
KINDS = {"suspect": "suspect", "accuse": "suspect", "trust": "trust", "believe": "trust"}


def stated(text: str) -> list[Clause]:
    """Returns the clauses that the sender of a message states, denials among them.

    Questions, conditions, quotations, reports of others and the past are left out.
    """
    return [
        clause
        for clause in find_clauses(text.casefold())
        if not (clause.question or clause.conditional or clause.quoted or clause.replaced)
        and not clause.past
    ]


@lru_cache(maxsize=4096)
def heard(text: str) -> tuple[tuple[str, int], ...]:
    """Returns all opinions that the sender of a message states: see `opinions`."""
    if "player_" not in text.casefold():
        return ()
    return tuple(opinion for clause in stated(text) for opinion in opinions(clause))


def opinions(clause: Clause) -> Iterator[tuple[str, int]]:
    """Yields the opinions of a stated clause: "suspect" or "trust" and the number of a player.

    "I suspect player_3 and player_4" are two. A denied or ambiguous opinion is none.
    """
    found = None if clause.negated else OPINION.search(clause.text)
    if found and not _OTHER_REST.match(found["rest"]) and "player_" not in found["rest"]:
        for number in re.findall(r"player_(\d)", found["names"]):
            yield KINDS[found["verb"]], int(number)
