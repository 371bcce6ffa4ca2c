"""Goods, offers to exchange them, and the scripted players that make and answer offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from agentgym.reading import NotUnderstood, find_clauses, normalized, read_counts

PRICES = {"salt": 5, "grain": 10, "cloth": 15, "copper": 25, "silver": 40}
"""Usual value of a piece of each good."""
GOODS = tuple(PRICES)
LEAST, MOST = 5, 25
"""Range of the pieces of each good that a player has at the start."""
CHEAPEST, DEAREST = 5, 40
"""Range of the value of a piece to a player."""
SAMPLES = 200
SLIP = 0.05
"""Likelihood of an answer that contradicts the model of a player."""

Pieces = list[int]
"""Number of pieces of each good, in the order of GOODS."""

_ACCEPT = re.compile(r"\[\s*accept\s*\]", re.IGNORECASE)
_DENY = re.compile(r"\[\s*(?:deny|reject)\s*\]", re.IGNORECASE)
_OFFER = re.compile(r"\[\s*offer\b\s*:?([^\[\]]*)\]", re.IGNORECASE)
_TAG = re.compile(r"\[[^\[\]]*\]")
_MEANT = re.compile(
    r"\[\s*(?:accept|den[iy]|reject|offer|counter|trade|propos)[^\[\]]*\]", re.IGNORECASE
)
_CONDITION = re.compile(r"\s*,?\s*(?:only )?(?:if|unless|provided|when|once)\b", re.IGNORECASE)
_AMOUNT = re.compile(rf"\d ?(?:units? of |x )?(?:{'|'.join(PRICES)})")
_EARLIER = re.compile(r"\byour\b|\byou (?:offer|said|propos|want|ask|would|just|have)|\blast\b")
_ASKED = re.compile(r"[*_`\s]*\?")
_ARROW = re.compile(r"-{1,2}>|=>|\u2192|\u27a1|\u21d2")
_PARTS = re.compile(r"[,;&+]|\b(?:and|plus)\b")
_MOST = 10_000
"""More pieces than any player can have."""


@dataclass
class Offer:
    """The pieces a player offers to give, and the pieces it wants."""

    gives: Pieces
    wants: Pieces

    def net(self) -> Pieces:
        """Returns the net change of the co-player's stock."""
        return [a - b for a, b in zip(self.gives, self.wants, strict=True)]


def value_range(good: str) -> tuple[int, int]:
    """Returns the range of private values: the price, up to a fifth more or less, 5 to 40."""
    price = PRICES[good]
    return max(CHEAPEST, price - price // 5), min(DEAREST, price + price // 5)


def draw_values(rng: np.random.Generator, count: int) -> np.ndarray:
    """Samples private values of several players: [count, goods]."""
    low, high = np.array([value_range(good) for good in GOODS]).T
    return rng.integers(low, high + 1, size=(count, len(GOODS)))


def describe(pieces: Sequence[int]) -> str:
    """Returns pieces as text: "3 salt, 1 silver"."""
    return ", ".join(f"{n} {good}" for n, good in zip(pieces, GOODS, strict=True) if n)


def written(offer: Offer | None) -> str:
    """Returns the message with which a scripted player makes an offer."""
    if offer is None:
        return "I have nothing to offer."
    return f"[Offer: {describe(offer.gives)} -> {describe(offer.wants)}]"


def accepts(message: str) -> bool:
    """Returns whether a message accepts an offer.

    Raises:
        ValueError: if it also denies, if the tag is denied, quoted, a question or under a
            condition, or if a tag is unknown.
    """
    message = _unescaped(message)
    for tag in _MEANT.finditer(message):
        if not any(known.fullmatch(tag[0]) for known in (_ACCEPT, _DENY, _OFFER)):
            raise ValueError(f"{tag[0][:40]} is none of [Accept], [Deny] and [Offer: ...]")
    found = _ACCEPT.search(message)
    if found is None:
        return False
    if _DENY.search(message):
        raise ValueError("the message has both [Accept] and [Deny]")
    _check_stated(message, found, "[Accept]")
    if _ASKED.match(message, found.end()):
        raise ValueError("[Accept] is a question")
    return True


def offer_in(message: str) -> Offer | None:
    """Parses the offer in a message, if any.

    Raises:
        ValueError: if its format is wrong, there are two, or it is denied, quoted or under a
            condition.
    """
    message = _unescaped(message)
    tags = [*_OFFER.finditer(message)]
    offers = [_offer(found[1]) for found in tags]
    if not offers:
        return None
    if offers.count(offers[0]) < len(offers):
        raise ValueError("a message can have only one offer")
    _check_stated(message, tags[0], "the offer")
    return offers[0]


def lacks_brackets(message: str) -> bool:
    """Whether a message has amounts of goods on both sides of an arrow, but no tag.

    A sentence about an earlier offer ("You offered ...") does not count.
    """
    message = _unescaped(message)
    if any(tag.search(message) for tag in (_ACCEPT, _DENY, _OFFER)):
        return False
    for line in re.split(r"[.!?\n](?=\s|$)", _TAG.sub(" ", message).casefold()):
        sides = _ARROW.split(line)
        if len(sides) == 2 and all(map(_AMOUNT.search, sides)) and not _EARLIER.search(line):
            return True
    return False


def _unescaped(message: str) -> str:
    """Returns the plain form of a message, without Markdown's backslash before brackets."""
    return normalized(message).replace("\\[", "[").replace("\\]", "]")


def _check_stated(message: str, tag: re.Match[str], name: str) -> None:
    """Refuses a tag behind a denial, in a quotation, or with a condition."""
    words = _TAG.sub("", message[: tag.start()])
    if words.strip():
        before = find_clauses(f"{words} x")[-1]  # the clause that the tag ends
        if before.negated or before.conditional or before.quoted:
            raise ValueError(f"{name} stands behind a denial, in a quotation or under a condition")
    if _CONDITION.match(message, tag.end()):
        raise ValueError(f"{name} has a condition")


def _offer(words: str) -> Offer:
    sides = _ARROW.split(words.casefold())
    if len(sides) != 2:
        raise ValueError("the goods given and the goods wanted must be separated by one ->")
    gives, wants = ([*_pieces(side)] for side in sides)
    return Offer(gives, wants)


@lru_cache(maxsize=4096)
def _pieces(words: str) -> tuple[int, ...]:
    """Returns the pieces on one side of an offer, of which every word is understood."""
    pieces = dict.fromkeys(GOODS, 0)
    if re.search(r"\d[.,]\d", words):
        raise ValueError("numbers must be whole, without a sign, a point or a comma")
    for part in filter(str.strip, _PARTS.split(words)):
        try:
            counts = read_counts(part, dict.fromkeys(GOODS, _MOST))
        except NotUnderstood as reason:
            raise ValueError(f"{part.strip()!r} is not understood ({reason})") from reason
        for good, count in counts.items():
            pieces[good] += count
    if not any(pieces.values()) or max(pieces.values()) >= _MOST:
        raise ValueError("each side needs a number and a good, for example 3 salt")
    return tuple(pieces.values())


def has(stock: Sequence[int], pieces: Sequence[int]) -> bool:
    """Returns whether a stock contains the pieces."""
    return all(a >= b for a, b in zip(stock, pieces, strict=True))


STRICTNESS = {"naive": 0, "wary": 1}
"""Weight of the co-player's gain in a scripted player's decisions.

"naive" accepts any exchange that increases the value of its goods. "wary" also counts the
co-player's gain at usual prices as its own loss.
"""


def judge(level: str, values: np.ndarray) -> np.ndarray:
    """Returns the utility of an additional piece for a scripted player: [..., goods]."""
    return values + STRICTNESS[level] * np.array([*PRICES.values()])


@cache
def swaps() -> np.ndarray:
    """Returns the stock changes of all exchanges of one good for another: [exchanges, goods]."""
    found = []
    for gives in range(len(GOODS)):
        for wants in range(len(GOODS)):
            if gives != wants:
                grid = np.mgrid[1 : MOST + 1, 1 : MOST + 1].reshape(2, -1).T
                table = np.zeros((len(grid), len(GOODS)))
                table[:, gives], table[:, wants] = -grid[:, 0], grid[:, 1]
                found.append(table)
    return np.concatenate(found)


@cache
def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """Returns the goods given and wanted, of all pairs of goods in the order of `swaps`."""
    gives, wants = np.nonzero(~np.eye(len(GOODS), dtype=bool))
    return gives, wants


@cache
def _rates() -> tuple[np.ndarray, np.ndarray]:
    """Returns all rates, pieces wanted by pieces given, and the place of each: [given, wanted]."""
    pieces = np.arange(1, MOST + 1)
    rates, places = np.unique(pieces / pieces[:, None], return_inverse=True)
    return rates, places.reshape(MOST, MOST)


@cache
def fair_swaps() -> np.ndarray:
    """Returns the exchanges for at most 5 pieces that cost the co-player nothing at usual prices.

    Every player has at least 5 pieces of each good at the start.
    """
    table = swaps()
    return table[(table.max(axis=1) <= LEAST) & (table @ np.array([*PRICES.values()]) <= 0)]


@cache
def _given() -> np.ndarray:
    """Returns the pieces that are given away in each of `fair_swaps`: [goods, exchanges]."""
    return np.ascontiguousarray(-fair_swaps().T)


@cache
def _ties() -> np.ndarray:
    """Returns a number that breaks ties for each of `fair_swaps`: [exchanges]."""
    return 1e-6 * np.arange(len(fair_swaps()))


def to_offer(net: np.ndarray) -> Offer:
    """Returns the offer that results in a net change of one's own stock."""
    whole = net.astype(int)
    return Offer([int(max(0, -n)) for n in whole], [int(max(0, n)) for n in whole])


def simple_offer(
    level: str, values: Sequence[int], stock: Sequence[int], rng: np.random.Generator
) -> Offer | None:
    """Returns a scripted player's offer, sampled from its ten best possible `fair_swaps`."""
    table = fair_swaps()
    # Ties are broken, so that the ten best are the same on all platforms.
    gains = table @ judge(level, np.array(values)) - _ties()
    for given, pieces in zip(_given(), stock, strict=True):  # faster than `any` over an axis
        gains[given > pieces] = -np.inf
    best = np.argpartition(gains, -10)[-10:]
    best = np.sort(best[gains[best] > -np.inf])
    return to_offer(table[best[int(rng.integers(len(best)))]]) if len(best) else None


def beliefs(
    level: str, answers: Sequence[tuple[Sequence[int], bool]]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns samples of the co-player's values [samples, goods] and their weights [samples].

    Args:
        level: assumed level of the co-player.
        answers: exchanges as net changes of the co-player's stock, each with whether it wanted
            the exchange.
    """
    values = draw_values(np.random.default_rng(0), SAMPLES).astype(float)
    weights = np.ones(SAMPLES)
    for net, wanted in answers:
        agrees = (judge(level, values) @ np.array(net) > 0) == wanted
        weights *= np.where(agrees, 1, SLIP)
    return values, weights / weights.sum()


def best_swap(
    level: str, believed: tuple[np.ndarray, np.ndarray], worth: np.ndarray, stock: Sequence[int],
    flow: Sequence[int],
) -> Offer | None:  # fmt: skip
    """Returns the offer with the highest expected utility, or None if none is positive.

    Args:
        level: assumed level of the co-player.
        believed: samples of the co-player's values and their weights.
        worth: own utility of an additional piece for each of these samples: [samples, goods].
        stock: own pieces.
        flow: net change of the co-player's stock by trade so far.
    """
    gives, wants = _pairs()
    rates, rate = _rates()
    values, weights = believed
    utility = judge(level, values).T
    # A sample of the co-player takes an exchange whose rate is below the one at which it gains
    # nothing. Sums over those who take it are sums over the bins of all rates above it.
    above = np.searchsorted(rates, utility[gives] / utility[wants])
    places = (above + (len(rates) + 1) * np.arange(len(gives))[:, None]).ravel()
    hopes = np.zeros((len(gives), MOST, MOST))
    pieces = np.arange(1, MOST + 1)
    for goods, gained in ((wants, pieces), (gives, -pieces[:, None])):
        sums = np.bincount(
            places, (weights * worth.T[goods]).ravel(), len(gives) * (len(rates) + 1)
        )
        sums = sums.reshape(len(gives), -1)[:, :0:-1].cumsum(axis=1)[:, ::-1]
        hopes += gained * sums[:, rate]
    needed = np.maximum(pieces - np.array(flow)[wants, None], 0)
    enough = np.clip((MOST + 1 - needed) / (MOST + 1 - LEAST), 0, 1)
    hopes = np.round(enough[:, None] * hopes, 6)
    hopes[pieces > np.array(stock)[gives, None]] = -np.inf
    best = int(hopes.argmax())
    return to_offer(swaps()[best]) if hopes.flat[best] > 0 else None
