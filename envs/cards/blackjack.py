"""Blackjack: the rules of Gymnasium's `Blackjack-v1` as text, with an exact expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from agentgym.core import TextEnv
from agentgym.rendering import Scene, hand, table
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
CHANCES = {**dict.fromkeys(range(1, 10), 1 / 13), 10: 4 / 13}
"""Probability of each card value. An ace counts 1."""
DEALER_STANDS = 17
BLACKJACK = 22
"""Represents the dealer's 21 with two cards, against which a blackjack draws."""
ACTIONS = {
    **{"hit": "hit", "hit me": "hit", "stand": "stand"},
    **{"stick": "stand", "stay": "stand", "stand pat": "stand"},
}


@dataclass
class State:
    """The cards of the player and of the dealer. One dealer card is visible until the end."""

    player: list[str]
    dealer: list[str]


def points(rank: str) -> int:
    """Returns the points of a card. An ace counts 1."""
    return min(RANKS.index(rank) + 1, 10)


def total(cards: Sequence[str]) -> tuple[int, bool]:
    """Returns the total of a hand, and whether an ace counts 11 in it."""
    hard = sum(map(points, cards))
    soft = "A" in cards and hard + 10 <= 21
    return hard + 10 * soft, soft


def is_blackjack(cards: Sequence[str]) -> bool:
    """Returns whether the hand is an ace and a card that counts 10."""
    return len(cards) == 2 and total(cards)[0] == 21


def score(cards: Sequence[str]) -> int:
    """Returns the final score of a hand: its total, or 0 above 21."""
    count = total(cards)[0]
    return count if count <= 21 else 0


def payoff(player: Sequence[str], dealer: Sequence[str], sab: bool, natural: bool) -> float:
    """Returns the payoff of the player at the end of the game."""
    if sab and is_blackjack(player) and not is_blackjack(dealer):
        return 1.0
    mine, theirs = score(player), score(dealer)
    if mine > theirs and natural and not sab and is_blackjack(player):
        return 1.5
    return float(mine > theirs) - float(mine < theirs)


def with_card(hard: int, ace: bool, card: int) -> tuple[int, bool]:
    """Returns the hard total of a hand and whether it has an ace, after one more card."""
    return hard + card, ace or card == 1


def best_total(hard: int, ace: bool) -> int:
    """Returns the total of a hand, with an ace as 11 if possible."""
    return hard + 10 if ace and hard <= 11 else hard


@cache
def dealer_ends(hard: int, ace: bool, cards: int) -> dict[int, float]:
    """Returns the probabilities of the dealer's final scores (see `score` and `BLACKJACK`)."""
    count = best_total(hard, ace)
    if count == 21 and cards == 2:
        return {BLACKJACK: 1.0}
    if count >= DEALER_STANDS:
        return {count if count <= 21 else 0: 1.0}
    ends: dict[int, float] = {}
    for card, chance in CHANCES.items():
        for end, then in dealer_ends(*with_card(hard, ace, card), cards + 1).items():
            ends[end] = ends.get(end, 0.0) + chance * then
    return ends


@cache
def value_of_standing(count: int, blackjack: bool, shown: int, sab: bool, natural: bool) -> float:
    """Returns the expected payoff of standing on a total against the dealer's visible card."""
    value = 0.0
    for end, chance in dealer_ends(shown, shown == 1, 1).items():
        theirs = min(end, 21)
        if blackjack and sab:
            value += chance * (end != BLACKJACK)
        elif count > theirs:
            value += chance * (1.5 if blackjack and natural else 1.0)
        else:
            value -= chance * (count < theirs)
    return value


@cache
def value_of_hitting(hard: int, ace: bool, shown: int, sab: bool, natural: bool) -> float:
    """Returns the expected payoff of taking a card and playing optimally afterwards."""
    value = 0.0
    for card, chance in CHANCES.items():
        then = with_card(hard, ace, card)
        if then[0] > 21:
            value -= chance
            continue
        stand = value_of_standing(best_total(*then), False, shown, sab, natural)
        value += chance * max(stand, value_of_hitting(*then, shown, sab, natural))
    return value


def values(player: Sequence[str], shown: str, sab: bool, natural: bool) -> dict[str, float]:
    """Returns the expected payoff of each action, with optimal play afterwards."""
    rules = (points(shown), sab, natural)
    return {
        "stand": value_of_standing(total(player)[0], is_blackjack(player), *rules),
        "hit": value_of_hitting(sum(map(points, player)), "A" in player, *rules),
    }


def best_action(player: Sequence[str], shown: str, sab: bool, natural: bool) -> str:
    """Returns the action with the highest expected payoff."""
    worth = values(player, shown, sab, natural)
    return max(worth, key=worth.__getitem__)


class Blackjack(TextEnv):
    """Blackjack against a dealer: get closer to 21 than the dealer without going over.

    ## Description
    Blackjack as in Sutton and Barto and in Gymnasium: one player against a dealer who stands on 17,
    an infinite deck, no doubling, splitting or insurance.

    ## Action Space
    Text: `hit` or `stand` (or `stick`, `stay`).

    ## Observation Space
    Text: the player's cards, their total, and the dealer's visible card.

    ## Rewards
    Term `task`: 1 for a win, 0 for a draw, -1 for a loss. See also `natural`. An invalid action
    costs `invalid_penalty`, by default as much as a loss: a hand that is never played is no draw.

    ## Starting State
    The player's two cards and the dealer's visible card are sampled from the task's name, all other
    cards from the episode's seed. Few starts exist, 2,197, and the splits share them: training and
    test tasks differ in name only.

    ## Episode End
    - Termination: the player stands or goes over 21.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: the player wins. `progress`: 1 for a win, 0.5 for a draw, otherwise
    0. `state_key`: a digest of the player's total, whether an ace counts 11 in it, whether the hand
    is a blackjack, and the points of the dealer's visible card.

    ## Arguments
    - `sab` (bool, default True): whether the player's blackjack (an ace and a 10) beats a 21 of
      more cards, as in Sutton and Barto.
    - `natural` (bool, default False): whether a win with a blackjack pays 1.5. Has no effect with
      `sab`.
    - `invalid_penalty` (float, default 1): cost of an invalid action.
    - `max_turns` (int or None, default 20): number of turns after which the episode is truncated.
      No hand reaches the default.

    ## Notes
    The expert is an optimal policy. The house has an edge: even optimal play loses on average.

    ## References
    Sutton and Barto, Reinforcement Learning: An Introduction, example 5.1. Rules, payoffs and the
    arguments `sab` and `natural` are those of Gymnasium's `Blackjack-v1`.

    ## Version History
    v0: first version.
    """

    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "three cards have few starts: the seed makes games new",
    }

    def __init__(
        self,
        *,
        sab: bool = True,
        natural: bool = False,
        max_turns: int | None = 20,
        invalid_penalty: float = 1.0,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, invalid_penalty=invalid_penalty, **kwargs)
        self.sab, self.natural = sab, natural
        self.tasks = Tasks.generated()
        scoring, special = "1 for a win", ""
        blackjack = "a blackjack (only an ace and a card that counts 10)"
        if sab:
            special = f"- Your {blackjack[2:]} beats any dealer hand except a blackjack.\n"
        elif natural:
            scoring = f"1 for a win, 1.5 for a win with {blackjack}"
        self.instructions = (
            "You play Blackjack against a dealer. Get a higher total than the dealer without "
            "going over 21.\n"
            "Rules:\n"
            "- Number cards count their number. J, Q and K count 10. An ace counts 11, or 1 if 11 "
            "would bring the hand over 21.\n"
            "- If your total is over 21, you lose at once.\n"
            "- When you stand, the dealer takes cards until its total is 17 or more. If it is over "
            "21, you win. Otherwise the higher total wins, and equal totals are a draw.\n"
            f"{special}"
            "- Cards are dealt from an infinite deck.\n"
            "Actions:\n"
            "- hit: take a card\n"
            "- stand: take no more cards\n"
            f"Scoring: {scoring}, 0 for a draw, -1 for a loss, {-self.invalid_penalty:g} for an "
            "invalid action."
        )

    def _draw(self) -> str:
        return RANKS[int(self.np_random.integers(len(RANKS)))]

    def _start(self, task: str) -> TimeStep:
        first, second, shown = map(int, task_rng(task, "blackjack").integers(len(RANKS), size=3))
        self.state = State([RANKS[first], RANKS[second]], [RANKS[shown]])
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        chosen = ACTIONS.get(plain(undressed(action)))
        player, dealer = self.state.player, self.state.dealer
        if chosen is None:
            return self._invalid(f"Invalid action {action[:40]!r}. Expected: hit or stand.")
        if chosen == "hit":
            player.append(self._draw())
            return self._end(-1.0) if score(player) == 0 else self._look()
        while len(dealer) < 2 or total(dealer)[0] < DEALER_STANDS:
            dealer.append(self._draw())
        return self._end(payoff(player, dealer, self.sab, self.natural))

    def _look(self) -> TimeStep:
        player, shown = self.state.player, self.state.dealer[0]
        count, soft = total(player)
        return TimeStep(
            text=f"You have {_hand(player)}. The dealer shows {shown}.",
            admissible=("hit", "stand"),
            state_key=f"{count} {soft} {is_blackjack(player)} {points(shown)}",
        )

    def _frame(self) -> Scene:
        player, dealer = self.state.player, self.state.dealer
        shown = [*dealer, None] if len(dealer) == 1 else dealer  # the dealer has a hidden card
        return table([hand("dealer", shown), hand("you", player)], columns=7)

    def _end(self, paid: float) -> TimeStep:
        player, dealer = self.state.player, self.state.dealer
        reason = f"The dealer has {_hand(dealer)}." if len(dealer) > 1 else "You are over 21."
        outcome = "win" if paid > 0 else "lose" if paid < 0 else "draw"
        return TimeStep(
            text=f"You have {_hand(player)}. {reason} You {outcome}.",
            rewards={"task": paid},
            terminated=True,
            success=paid > 0,
            progress=1.0 if paid > 0 else 0.5 if paid == 0 else 0.0,
        )

    def privileged_text(self) -> str:
        """Returns the cards, and the payoff of optimal play in expectation."""
        player, dealer = self.state.player, self.state.dealer
        if len(dealer) > 1 or score(player) == 0:
            worth = payoff(player, dealer, self.sab, self.natural)
        else:
            worth = max(values(player, dealer[0], self.sab, self.natural).values())
        return f"You: {_hand(player)}. Dealer: {_hand(dealer)}. Expected payoff: {worth:.2f}."

    def expert(self) -> str | None:
        """Returns the action with the highest expected payoff."""
        return best_action(self.state.player, self.state.dealer[0], self.sab, self.natural)


def _hand(cards: Sequence[str]) -> str:
    return f"{' '.join(cards)} (total {total(cards)[0]})"
