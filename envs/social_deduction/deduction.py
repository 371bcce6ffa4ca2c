"""Inference in Werewolf: odds over all deals, given talk, votes and deaths."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import permutations

import numpy as np

from agentgym.envs.social_deduction.talk import opinions, stated
from agentgym.reading import find_clauses

PLAYERS = tuple(f"player_{i}" for i in range(7))
WOLF, SEER, DOCTOR, VILLAGER = "werewolf", "seer", "doctor", "villager"
ROLES = (WOLF, SEER, DOCTOR, VILLAGER)
HAND = (0, 0, 1, 2, 3, 3, 3)
"""The dealt roles, as indices of `ROLES`."""

Event = tuple[str, int, int]
"""A public event: kind, actor, and the player it is about (-1 for nobody).

Kinds: "claim" (the actor claims to be the seer), "finds" and "clears" (as the seer, it reports that
a player is or is not a werewolf), "suspect" and "trust" (opinions without a claim), "vote", and
"dead" (the actor's role, given as the third entry, is revealed).
"""

QUIET = "I have nothing to say."
CLAIM = re.compile(r"\bi(?: am|'m) (?:(?:really|indeed) )?the seer(?![\w'-])")
VERDICT = re.compile(
    r"(?<!or )(?<!nor )(?<!of )(?<!\w)player_([0-6])"
    r"(?:(?: is|'s) (not an? |not the |no |an? |the |not )?| (isn't (?:an? |the )?))"
    r"(?:(were)?wol(?:f|ves)|(innocent|good|human))(?![\w'-])(?! (?:or|hunter|if)\b)"
)

# Likelihood of a statement or action given the role of the actor. Only ratios matter. The values
# are rough guesses of our own: villagers hardly ever lie about roles, wolves often do.
CLAIMS = {WOLF: 0.25, SEER: 1.0, DOCTOR: 0.03, VILLAGER: 0.03}
VERDICTS = {
    # (true report, false report) for "finds" and "clears"
    "finds": {WOLF: (0.05, 0.4), SEER: (1.0, 0.001), DOCTOR: (0.05, 0.05), VILLAGER: (0.05, 0.05)},
    "clears": {WOLF: (0.2, 0.4), SEER: (1.0, 0.001), DOCTOR: (0.05, 0.05), VILLAGER: (0.05, 0.05)},
}
OPINIONS = {
    # wolf about wolf, wolf about other, other about wolf, other about other
    "suspect": (0.4, 1.0, 1.1, 1.0),
    "trust": (1.1, 1.0, 0.9, 1.0),
    "vote": (0.5, 1.0, 1.25, 1.0),
}


@cache
def deals() -> np.ndarray:
    """Returns all deals of the roles as indices of `ROLES`, shape (420, 7)."""
    return np.array(sorted(set(permutations(HAND))), dtype=np.int8)


@cache
def _indicators() -> np.ndarray:
    """Returns the deals as one-hot arrays, shape (420, 7, 4)."""
    return (deals()[:, :, None] == np.arange(len(ROLES))).astype(float)


@lru_cache(maxsize=4096)
def _statements(text: str) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for clause in stated(text):
        claim = CLAIM.search(clause.text)
        if claim and not (clause.negated and _denied(clause.text[: claim.start()])):
            found.append(("claim", -1))
        verdicts = [*VERDICT.finditer(clause.text)]
        denials = [(said[2] or "").startswith("no") or bool(said[3]) for said in verdicts]
        if (clause.negated and not any(denials)) or _denied(VERDICT.sub("", clause.text)):
            continue  # "I do not think that player_3 is a werewolf"
        for said, denied in zip(verdicts, denials, strict=True):
            wolf = (said[5] is None) != denied
            found.append(("finds" if wolf else "clears", int(said[1])))
        found += [(kind, player) for kind, player in opinions(clause) if player < len(PLAYERS)]
    return tuple(found)


def _denied(text: str) -> bool:
    """Returns whether a clause without its verdicts has a negation left."""
    return any(clause.negated for clause in find_clauses(text))


_NAMED = re.compile("player|seer", re.IGNORECASE)


def statements(text: str) -> list[tuple[str, int]]:
    """Returns the statements in a message: pairs of event kind and player.

    Denials ("I do not suspect player_3"), questions, conditions, quotations and reports of what
    others claim are no statements.
    """
    return list(_statements(text)) if _NAMED.search(text) else []


@cache
def sentence(kind: str, about: int = -1) -> str:
    """Returns the sentence for an event kind, in the form parsed by `statements`."""
    name = PLAYERS[about]
    return {
        "claim": "I am the seer.",
        "finds": f"I am the seer. {name} is a werewolf.",
        "clears": f"I am the seer. {name} is not a werewolf.",
        "suspect": f"I suspect {name}.",
        "trust": f"I trust {name}.",
    }.get(kind, QUIET)


@cache
def likelihood(event: Event) -> np.ndarray:
    """Returns the likelihood of an event under each deal, shape (420,)."""
    kind, who, about = event
    actor = deals()[:, who]
    if kind == "dead":
        return (actor == about).astype(float)
    if kind == "claim":
        return np.array([CLAIMS[role] for role in ROLES])[actor]
    if about < 0 or about == who:
        return np.ones(len(actor))
    wolf = deals()[:, about] == 0
    if kind in VERDICTS:
        odds = np.array([VERDICTS[kind][role] for role in ROLES])
        return odds[actor, (wolf != (kind == "finds")).astype(int)]
    odds = np.array(OPINIONS[kind])
    return odds[2 * (actor != 0) + ~wolf]


@lru_cache(maxsize=64)
def public_odds(events: tuple[Event, ...]) -> np.ndarray:
    """Returns the odds of all deals given public events, shape (420,).

    Repeated events count once.
    """
    odds = np.ones(len(deals()))
    for event in dict.fromkeys(events):
        odds = odds * likelihood(event)
    return odds


def chances(odds: np.ndarray, known: dict[int, str], innocent: tuple[int, ...] = ()) -> np.ndarray:
    """Returns the probability of each role for each player, shape (7, 4).

    Args:
        odds: odds of all deals, shape (420,).
        known: roles known for certain.
        innocent: players known to be no werewolves.
    """
    table = _indicators()
    for who, role in known.items():
        odds = odds * table[:, who, ROLES.index(role)]
    for who in innocent:
        odds = odds * (1 - table[:, who, 0])
    total = odds.sum()
    assert total > 0, "the known roles must be consistent with the true deal"
    found = (odds @ table.reshape(len(table), -1)).reshape(table.shape[1:]) / total
    return found.round(9)  # reproducible ties across machines
