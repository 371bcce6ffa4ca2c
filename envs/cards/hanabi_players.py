"""Scripted players of Hanabi: ordered lists of rules over the knowledge of a player."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from agentgym.envs.cards.hanabi_rules import COLORS, Card, Sizes, State

SAFE = 0.6
"""Least probability at which "piers" plays a card while it can afford a mistake."""

Knowledge = tuple[tuple[int, ...], tuple[int, ...]]
"""Possible colors and ranks of a card."""


@dataclass(frozen=True)
class View:
    """The knowledge of the player to act.

    Attributes:
        sizes: the size of the game.
        state: the state of the game. Of the player's own cards and of the deck, only `own` and the
            number of cards are used.
        names: the names of all players.
        moves: the legal moves.
    """

    sizes: Sizes
    state: State
    names: tuple[str, ...]
    moves: tuple[str, ...]

    @cached_property
    def own(self) -> list[Knowledge]:
        """The player's knowledge of its own cards, from the oldest to the newest."""
        return [(tuple(c.colors), tuple(c.ranks)) for c in self.state.hands[self.state.player]]

    @cached_property
    def others(self) -> list[tuple[int, list[Card]]]:
        """The other players in the order of their turns, with their hands."""
        state, count = self.state, len(self.names)
        order = [(state.player + step) % count for step in range(1, count)]
        return [(player, state.hands[player]) for player in order]

    @cached_property
    def public(self) -> Counter[tuple[int, int]]:
        """Numbers of copies of each card that are neither played nor discarded."""
        left = Counter(self.sizes.deck())
        left.subtract(self.state.discards)
        left.subtract((c, r) for c, top in enumerate(self.state.fireworks) for r in range(top))
        return left

    @cached_property
    def unseen(self) -> Counter[tuple[int, int]]:
        """Numbers of copies that the player does not see: its hand and the deck."""
        left = Counter(self.public)
        left.subtract((card.color, card.rank) for _, hand in self.others for card in hand)
        return left

    def playable(self, color: int, rank: int) -> bool:
        """Returns whether a card would be played without a mistake."""
        return self.state.fireworks[color] == rank

    def useless(self, color: int, rank: int) -> bool:
        """Returns whether a card is played already or can never be played."""
        top = self.state.fireworks[color]
        return rank < top or any(self.public[color, lower] == 0 for lower in range(top, rank))

    def chance(
        self,
        known: Knowledge,
        holds: Callable[[int, int], bool],
        left: Counter[tuple[int, int]] | None = None,
    ) -> float:
        """Returns the probability that a card has a property.

        Args:
            known: the knowledge of the card.
            holds: the property of a color and rank.
            left: copies of each card that it can be. None: all cards the player does not see.
        """
        left = self.unseen if left is None else left
        total = good = 0
        for color in known[0]:
            for rank in known[1]:
                total += left[color, rank]
                good += left[color, rank] * holds(color, rank)
        return good / total if total else 0.0

    def hints(self) -> Iterator[tuple[str, int, list[Card], str]]:
        """Yields the legal hints: the move, the player, its hand, and the color or rank."""
        for move in self.moves:
            kind, *rest = move.split()
            if kind == "hint":
                player = self.names.index(rest[0])
                yield move, player, self.state.hands[player], rest[1]


Rule = Callable[[View, np.random.Generator], str | None]
"""Returns a move, or None if the rule does not apply."""


def after(card: Card, about: str) -> Knowledge:
    """Returns the holder's knowledge of a card after a hint."""
    if about in COLORS:
        told = COLORS.index(about)
        colors = [c for c in card.colors if (c == told) == (card.color == told)]
        return tuple(colors), tuple(card.ranks)
    told = int(about) - 1
    ranks = [r for r in card.ranks if (r == told) == (card.rank == told)]
    return tuple(card.colors), tuple(ranks)


def play_above(least: float, spare: bool = False) -> Rule:
    """Returns the rule: play the card most likely to be playable, from a probability on.

    Args:
        least: the least probability.
        spare: whether the rule needs a fuse token to spare.
    """

    def rule(view: View, rng: np.random.Generator) -> str | None:
        if spare and view.state.fuses < 2:
            return None
        chances = [view.chance(known, view.playable) for known in view.own]
        best = int(np.argmax(chances))
        return f"play {best + 1}" if chances[best] >= least - 1e-12 else None

    return rule


def last_chance(view: View, rng: np.random.Generator) -> str | None:
    """Plays the most promising card once the deck is empty, with a fuse token to spare."""
    return play_above(1e-9, spare=True)(view, rng) if not view.state.deck else None


def tell_playable(view: View, rng: np.random.Generator) -> str | None:
    """Gives the hint that makes a playable card of the nearest player most likely to be played."""
    for player, hand in view.others:
        best, most = None, 0.0
        for move, whom, _, about in view.hints():
            if whom != player:
                continue
            for card in hand:
                before = (tuple(card.colors), tuple(card.ranks))
                known = after(card, about)
                if not view.playable(card.color, card.rank) or known == before:
                    continue
                chance = view.chance(known, view.playable, view.public)
                if view.chance(before, view.playable, view.public) < 1 and chance > most:
                    best, most = move, chance
        if best:
            return best
    return None


def tell_useless(view: View, rng: np.random.Generator) -> str | None:
    """With few hint tokens, gives a hint after which a card is known to be useless."""
    if view.state.hints >= min(4, view.sizes.hints):
        return None
    for move, _, hand, about in view.hints():
        for card in hand:
            before = (tuple(card.colors), tuple(card.ranks))
            if (
                view.chance(after(card, about), view.useless, view.public) == 1
                and view.chance(before, view.useless, view.public) < 1
            ):
                return move
    return None


def discard_useless(view: View, rng: np.random.Generator) -> str | None:
    """Discards a card that is known to be useless."""
    for place, known in enumerate(view.own, 1):
        move = f"discard {place}"
        if move in view.moves and view.chance(known, view.useless) == 1:
            return move
    return None


def discard_oldest(view: View, rng: np.random.Generator) -> str | None:
    """Discards the oldest card."""
    return "discard 1" if "discard 1" in view.moves else None


def tell_anything(view: View, rng: np.random.Generator) -> str | None:
    """Gives a random hint."""
    hints = [move for move, *_ in view.hints()]
    return hints[int(rng.integers(len(hints)))] if hints else None


PLAYERS: dict[str, Sequence[Rule]] = {
    "cautious": (
        play_above(1.0),
        tell_playable,
        discard_useless,
        discard_oldest,
        tell_anything,
    ),
    "piers": (
        last_chance,
        play_above(1.0),
        play_above(SAFE, spare=True),
        tell_playable,
        tell_useless,
        discard_useless,
        discard_oldest,
        tell_anything,
    ),
}
"""The rules of each level, in order."""


def choose(level: str, view: View, rng: np.random.Generator) -> str:
    """Returns the move of the first rule that applies, or a random legal move."""
    for rule in PLAYERS[level]:
        move = rule(view, rng)
        if move is not None:
            return move
    return view.moves[int(rng.integers(len(view.moves)))]
