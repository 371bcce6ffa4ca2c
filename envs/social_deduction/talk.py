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
_RANK = "(?:top|main|prime|primary|biggest|strongest|number one|second|secondary|other|current)"
_LABEL = (
    rf"(?P<verb>{_RANK} suspects?|(?:town|village|villager|good)[ -](?:lean|read)s?)"
    rf"[*_ ]{{0,4}}(?::|is|are|remains?)[*_ ]{{0,4}}"
)
OPINIONS = (
    OPINION,
    re.compile(rf"^[-*_#\d.) ]{{0,9}}(?:my )?{_LABEL}(?P<names>{_NAMES})(?P<rest>.*)", re.DOTALL),
    re.compile(
        rf"^(?P<names>{_NAMES}) (?:is|are|remains?) (?:still )?my (?P<verb>{_RANK} suspects?)"
        rf"(?P<rest>[.!]?)$"
    ),
    re.compile(
        rf"^(?:i am|i'm) (?:(?:very|really|highly|most|still|deeply|also) ){{0,2}}"
        rf"(?P<verb>suspicious) of (?P<names>{_NAMES})(?P<rest>.*)",
        re.DOTALL,
    ),
)
"""Opinions in words ("I suspect player_3", "I am suspicious of player_3"), and in a list of reads
("Top suspect: player_3", "Town-lean: player_4")."""
# "I trust player_3 is a werewolf" and "I suspect player_3 or player_4" are no opinions on player_3.
_OTHER_REST = re.compile(
    r"\s*(?:['/]|(?:is|are|was|has|will|to|or|nor|about|as|less|more|than|would|may|might|could|only"
    r"|when|says|said)\b|and \d)"
)
_SPACED = re.compile(r"\bplayer[ -]?(\d)(?!\w)")
_PAIR = re.compile(r"\bplayers? (\d) and (\d)(?=\s*(?:[.,;:!?\n]|$))")
KINDS = {"accuse": "suspect", "suspicious": "suspect", "believe": "trust"}


def stated(text: str) -> list[Clause]:
    """Returns the clauses that the sender of a message states, denials among them.

    Questions, conditions, quotations, reports of others and the past are left out.
    """
    text = _PAIR.sub(r"player_\1 and player_\2", text.casefold())
    return [
        clause
        for clause in find_clauses(_SPACED.sub(r"player_\1", text))
        if not (clause.question or clause.conditional or clause.quoted or clause.replaced)
        and not clause.past
    ]


@lru_cache(maxsize=4096)
def heard(text: str) -> tuple[tuple[str, int], ...]:
    """Returns all opinions that the sender of a message states: see `opinions`."""
    if "player" not in text.casefold():
        return ()
    return tuple(opinion for clause in stated(text) for opinion in opinions(clause))


def opinions(clause: Clause) -> Iterator[tuple[str, int]]:
    """Yields the opinions of a stated clause: "suspect" or "trust" and the number of a player.

    "I suspect player_3 and player_4" are two. A denied or ambiguous opinion is none.
    """
    searched = () if clause.negated else OPINIONS
    found = next(filter(None, (each.search(clause.text.strip()) for each in searched)), None)
    if found and not _OTHER_REST.match(found["rest"]) and "player_" not in found["rest"]:
        kind = "suspect" if "suspect" in found["verb"] else "trust"
        for number in re.findall(r"player_(\d)", found["names"]):
            yield KINDS.get(found["verb"], kind), int(number)
