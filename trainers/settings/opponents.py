"""The setting `opponents`: players of the other seats of a game, mixed by weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentgym.agents.scaffolds import SCAFFOLDS, SEATED
from agentgym.errors import ConfigError, did_you_mean
from agentgym.evaluation.meta_games import META_STRATEGIES

POOLS = ("past", "winrate", "league", "psro")
"""Kinds that play against members of the pool: frozen copies of the policy of earlier iterations.

- "past:K": uniform over the last K members.
- "winrate:R": uniform over all members. A policy that wins at the rate R becomes a member.
- "league": prioritised fictitious self-play.
- "psro", "psro:META": a meta-strategy of the payoff matrix of the members.
"""
AUTO = "=auto"
"""The weight of a pool whose share the alarms of self-play set."""
OUTSIDE = ("chat", *SEATED)
"""Kinds that `make_agent` makes: served models, and agents around an agent."""
FORMS = {
    "scripted": "scripted or scripted:LEVEL",
    "mirror": "mirror",
    "past": "past:K with a number K of members, at least 1, such as past:5",
    "winrate": "winrate:R with a win rate R between 0 and 1, such as winrate:0.7",
    "league": "league",
    "psro": f"psro or psro:META with META one of {', '.join(META_STRATEGIES)}",
    "policy": "policy:FOLDER",
    "chat": "chat:MODEL@URL",
    **{name: f"{name}:AGENT" for name in SEATED},
}
"""How an opponent of each kind is written."""


@dataclass(frozen=True)
class Opponent:
    """One component of a mixture of opponents.

    Attributes:
        kind: a key of `FORMS`. That of an agent around another one may have options, such as
            "adapt,depth=2".
        argument: the text after the colon, or "".
        weight: the share of episodes against it, relative to the other components. With 0, a pool
            grows that is never played against.
        automatic: whether the alarms of self-play set the share of a pool, which starts at 0. The
            other components divide the rest.
    """

    kind: str
    argument: str = ""
    weight: float = 1.0
    automatic: bool = False

    @property
    def outside(self) -> bool:
        """Whether `make_agent` makes the player."""
        return self.kind.partition(",")[0] in OUTSIDE

    @property
    def word(self) -> str:
        """The opponent without its weight."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


def parse_opponents(words: str | Sequence[str]) -> tuple[Opponent, ...]:
    """Returns the components of a mixture of opponents.

    Args:
        words: one opponent or several, each with or without a weight, such as "mirror" or
            ("mirror=0.5", "past:5=0.3", "scripted=0.2"). The weight of a pool may be "auto", beside
            mirror: ("mirror", "past:5=auto").

    Raises:
        ConfigError: for an unknown kind, a wrong argument or wrong weights.
    """
    words = (words,) if isinstance(words, str) else tuple(words)
    automatic = {word.removesuffix(AUTO) for word in words if word.endswith(AUTO)}
    split = [_split(word.removesuffix(AUTO)) for word in words]
    if len({weight is None for word, weight in split if word not in automatic}) > 1:
        raise ConfigError(
            f"opponents: give each one a weight, such as mirror=0.5, or none, got {list(words)}."
        )
    weights = {word: 1.0 if weight is None else weight for word, weight in split}
    found = [
        _automatic(word) if word in automatic else _opponent(word, weights[word])
        for word, _ in split
    ]
    if len({each.word for each in found}) < len(found):
        raise ConfigError(f"opponents: name each one once, with its weight, got {list(words)}.")
    if not sum(each.weight for each in found) > 0:
        raise ConfigError(f"opponents: at least one weight must be above 0, got {list(words)}.")
    pools = [each.word for each in found if each.kind in POOLS]
    if len(pools) > 1:
        raise ConfigError(
            f"opponents: a run has one pool, got {' and '.join(pools)}. Use one of {list(POOLS)}."
        )
    mirrored = any(each.kind == "mirror" and each.weight > 0 for each in found)
    if automatic and not mirrored:
        raise ConfigError(
            "opponents: the share of past opponents replaces a part of self-play, so that =auto "
            f"needs mirror beside it, as in mirror past:5=auto, got {list(words)}."
        )
    return tuple(found)


def _automatic(word: str) -> Opponent:
    """Returns a pool whose share the alarms of self-play set."""
    opponent = _opponent(word, 0.0)
    kinds = [kind for kind in POOLS if kind != "winrate"]  # which grows by its own games
    if opponent.kind not in kinds:
        raise ConfigError(f"opponents: =auto is the weight of one of {kinds}, got {word!r}.")
    return replace(opponent, automatic=True)


def _split(word: str) -> tuple[str, float | None]:
    """Returns an opponent and its weight, if it has one."""
    head, equals, number = word.rpartition("=")
    try:
        weight = float(number) if equals else None
    except ValueError:
        weight = None  # an equals sign in a folder or an address
    if weight is None:
        return word, None
    if not 0 <= weight < math.inf:
        raise ConfigError(f"opponents: a weight must be at least 0 and finite, got {word!r}.")
    return head, weight


def _opponent(word: str, weight: float) -> Opponent:
    kind, _, argument = word.partition(":")
    name, comma, _ = kind.partition(",")
    if name in SCAFFOLDS and name not in SEATED:
        can = ", ".join(FORMS[each] for each in ("policy", *OUTSIDE))
        raise ConfigError(
            f"opponents: {name} cannot be an opponent, because it makes several attempts at a "
            f"task. Agents that can: {can}."
        )
    if name not in FORMS or (comma and name not in SEATED):
        known = ", ".join(FORMS.values())
        hint = did_you_mean(name, FORMS)
        raise ConfigError(f"opponents: unknown kind {kind!r}.{hint} Known: {known}.")
    if not _fits(name, argument) or (":" in word and not argument):
        hint = did_you_mean(argument, META_STRATEGIES) if kind == "psro" else ""
        raise ConfigError(f"opponents: expected {FORMS[name]}, got {word!r}.{hint}")
    return Opponent(kind, argument, weight)


def _fits(kind: str, argument: str) -> bool:
    """Returns whether an argument is of the form that its kind needs."""
    checks: dict[str, Callable[[], bool]] = {
        "past": lambda: argument.isdecimal() and int(argument) >= 1,
        "winrate": lambda: 0 < float(argument) < 1,
        "psro": lambda: argument in ("", *META_STRATEGIES),
        "scripted": lambda: True,
        "policy": lambda: bool(argument),
        **dict.fromkeys(OUTSIDE, lambda: bool(argument)),
    }
    try:
        return checks.get(kind, lambda: not argument)()
    except ValueError:  # no number
        return False
