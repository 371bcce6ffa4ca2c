"""The rules of Hanabi, as in the Hanabi Learning Environment.

Colors and ranks are indices from 0. Hands are ordered from the oldest to the newest card.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

COLORS = ("red", "yellow", "green", "white", "blue")


@dataclass(frozen=True)
class Sizes:
    """The size of a game: numbers of colors, ranks, cards in a hand, hint and fuse tokens."""

    colors: int
    ranks: int
    hand: int
    hints: int
    fuses: int

    @property
    def best(self) -> int:
        """The perfect score."""
        return self.colors * self.ranks

    def copies(self, rank: int) -> int:
        """Returns the number of cards of a rank in each color: 3, 2, ..., 2, 1."""
        return 3 if rank == 0 else 1 if rank == self.ranks - 1 else 2

    def deck(self) -> list[tuple[int, int]]:
        """Returns all cards (color, rank)."""
        ranks = [rank for rank in range(self.ranks) for _ in range(self.copies(rank))]
        return [(color, rank) for color in range(self.colors) for rank in ranks]


@dataclass
class Card:
    """A card in a hand and its holder's knowledge of it.

    Attributes:
        color: the color.
        rank: the rank.
        colors: the colors that it can have by all hints.
        ranks: the ranks that it can have by all hints.
    """

    color: int
    rank: int
    colors: list[int]
    ranks: list[int]

    def name(self) -> str:
        """Returns the card in words, such as "red 1"."""
        return f"{COLORS[self.color]} {self.rank + 1}"


@dataclass
class State:
    """The state of a game.

    Attributes:
        deck: the cards (color, rank) left. The last one is dealt next.
        hands: the hand of each player.
        fireworks: number of cards played per color.
        hints: hint tokens left.
        fuses: fuse tokens left.
        turns: turns left, counted once the deck is empty.
        player: index of the player to act.
        discards: the cards that were discarded or misplayed.
        log: one line per turn.
    """

    deck: list[tuple[int, int]]
    hands: list[list[Card]]
    fireworks: list[int]
    hints: int
    fuses: int
    turns: int
    player: int = 0
    discards: list[tuple[int, int]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def start(sizes: Sizes, players: int, rng: np.random.Generator) -> State:
    """Returns the start of a game with a shuffled deck."""
    cards = sizes.deck()
    deck = [cards[i] for i in rng.permutation(len(cards))]
    state = State(
        deck, [[] for _ in range(players)], [0] * sizes.colors, sizes.hints, sizes.fuses, players
    )
    for hand in state.hands:
        for _ in range(sizes.hand):
            draw(state, sizes, hand)
    return state


def draw(state: State, sizes: Sizes, hand: list[Card]) -> None:
    """Deals a card, if any is left."""
    if state.deck:
        card = state.deck.pop()
        hand.append(Card(*card, [*range(sizes.colors)], [*range(sizes.ranks)]))


def over(state: State, sizes: Sizes) -> bool:
    """Returns whether the game is over: no fuses, no turns left, or all fireworks completed."""
    return state.fuses == 0 or state.turns == 0 or sum(state.fireworks) == sizes.best


def moves(state: State, sizes: Sizes, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the legal moves of the player to act, in words.

    A discard needs a spent hint token. A hint needs a hint token and at least one matching card.
    """
    me, found = state.player, []
    for other, hand in enumerate(state.hands):
        if other != me and state.hints:
            found += [f"hint {names[other]} {COLORS[c]}" for c in sorted({x.color for x in hand})]
            found += [f"hint {names[other]} {r + 1}" for r in sorted({x.rank for x in hand})]
    places = range(1, len(state.hands[me]) + 1)
    found += [f"play {i}" for i in places]
    if state.hints < sizes.hints:
        found += [f"discard {i}" for i in places]
    return tuple(found)


def move(state: State, sizes: Sizes, names: tuple[str, ...], words: str) -> None:
    """Plays a legal move of the player to act.

    The last card of a firework returns a hint token. Once the deck is empty, each player has one
    more turn.
    """
    kind, *rest = words.split()
    me, last = state.player, not state.deck
    if kind == "hint":
        seen = hint(state.hands[names.index(rest[0])], rest[1])
        state.hints -= 1
        result = f"cards {', '.join(map(str, seen))}" if len(seen) > 1 else f"card {seen[0]}"
    else:
        card = state.hands[me].pop(int(rest[0]) - 1)
        result = card.name()
        if kind == "play" and state.fireworks[card.color] == card.rank:
            state.fireworks[card.color] += 1
            full = card.rank == sizes.ranks - 1
            state.hints = min(sizes.hints, state.hints + full)
        else:
            state.discards.append((card.color, card.rank))
            state.hints += kind == "discard"
            state.fuses -= kind == "play"
            result += ", a mistake" if kind == "play" else ""
        draw(state, sizes, state.hands[me])
    state.log.append(f"{names[me]}: {words} ({result})")
    state.turns -= last
    state.player = (me + 1) % len(names)


def hint(hand: list[Card], about: str) -> list[int]:
    """Updates the knowledge of a hand by a hint and returns the places (from 1) it points at."""
    seen = []
    for place, card in enumerate(hand, 1):
        told, known = (
            (COLORS.index(about), card.colors) if about in COLORS else (int(about) - 1, card.ranks)
        )
        matches = told == (card.color if about in COLORS else card.rank)
        known[:] = [value for value in known if (value == told) == matches]
        if matches:
            seen.append(place)
    return seen
