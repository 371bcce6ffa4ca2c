"""Gops: the game of pure strategy (Goofspiel), in which cards are bid for prizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np

from agentgym.envs.cards.gops_form import GopsForm
from agentgym.envs.cards.gops_rules import State, after, hand_of, infosets, position, scripted
from agentgym.envs.cards.gops_solver import Cards, Gains, GopsSolver, Position
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import Scene, hand, table
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep

CARDS = range(2, 7)
MOST_INFOSETS = 100_000
"""Largest number of information sets that `starts` allows."""
ORDERS = {
    "random": "The prizes are revealed in random order.",
    "ascending": "The prizes are revealed in ascending order.",
    "descending": "The prizes are revealed in descending order.",
}
TIES = {
    "discard": "If the bids are equal, nobody gets the prize.",
    "carry": "If the bids are equal, the prize is added to the next one. After the last round it "
    "is lost.",
}

solver = cache(GopsSolver)
"""The solution by number of cards, order of the prizes, and whether tied prizes are carried."""


class Gops(TextGame):
    """GOPS (Goofspiel) for two players: simultaneous bids for prizes, with each card used once.

    ## Description
    Both players hold the cards 1 to n, and a deck holds the prizes 1 to n. In each round a prize is
    revealed and both players bid one of their cards at the same time. The higher card wins the
    prize. Both cards are discarded. The player with more points wins. Equilibria are mixed and
    exact.

    ## Action Space
    Text: a card of the hand, such as `3`. With `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the round, the prize, the prizes left, the hands and points of both players and all
    previous bids.

    ## Rewards
    Term `task`, after each round: the points won minus the points won by the opponent, divided by
    the sum of all prizes. Zero-sum. An invalid action costs `invalid_penalty`.

    ## Starting State
    Full hands and a full deck. The task, for example `train/0` or `test/0`, determines the order of
    the prizes. Few starts exist, 120 with five cards, and no order is in both splits.

    ## Episode End
    - Termination: all cards are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid actions in a row the bid is sampled at random.

    ## Information
    The common keys. `success`: the game is over and the agent has more points. `progress`: the
    difference of points, scaled to [0, 1] (0.5: even).

    ## Arguments
    - `cards` (int, default 5): number of cards and prizes, from 2 to 6.
    - `order` (str, default "random"): order of the prizes, "random", "ascending" or "descending".
    - `ties` (str, default "discard"): a tied prize is lost ("discard") or added to the next one
      ("carry"). Splitting a prize would give the same difference of points as losing it.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lead to a random bid.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "match"): the opponent's policy.
        - "random": uniformly random bids.
        - "highest": always bids its highest card.
        - "match": bids the value of the prize. No strategy gains more against "random" if tied
          prizes are lost (Ross).
        - "raise": bids its lowest card above the prize, or its lowest card. It beats "match".
        - "equilibrium": an exact equilibrium. Its expected gain against any opponent is at least 0.

    ## Notes
    The expert is a best response to the opponent's policy, and plays an equilibrium if the opponent
    does or is unknown. All values maximise the expected difference of points, not the probability
    to win. The game is solved at the first use of an exact level, which takes a second with 5 cards
    and up to 10 seconds with 6.

    ## References
    - Ross, Goofspiel: The Game of Pure Strategy, Journal of Applied Probability 8 (1971).
    - Rhoads and Bartholdi, Computer Solution to the Game of Pure Strategy, Games 3 (2012): the
      dynamic program.
    - Light et al., Strategist (arXiv 2408.10635): language models play GOPS.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    State = State
    state: State
    zero_sum = True
    levels = ("random", "highest", "match", "raise", "equilibrium")
    expert_level = "equilibrium"
    default_opponents = "match"

    def __init__(self, *, cards: int = 5, order: str = "random", ties: str = "discard", **kwargs):
        if cards not in CARDS:
            raise ConfigError(f"cards must be from {CARDS[0]} to {CARDS[-1]}, got {cards}.")
        for name, value, known in (("order", order, ORDERS), ("ties", ties, TIES)):
            if value not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
        super().__init__(**kwargs)
        self.cards, self.order, self.carry = cards, order, ties == "carry"
        self.total = cards * (cards + 1) // 2
        self.actions = tuple(str(card) for card in range(1, cards + 1))
        self.instructions = (
            f"You and another player bid for prizes in {cards} rounds. Get more points than the "
            "other player.\n"
            "Rules:\n"
            f"- Both players hold the cards 1 to {cards}. A deck holds the prizes 1 to {cards}. "
            f"{ORDERS[order]}\n"
            "- In each round, a prize is revealed and both players bid one card at the same time. "
            "Both cards are then discarded.\n"
            "- The higher card wins the prize, which counts as many points as its number. "
            f"{TIES[ties]}\n"
            "Action: only the number of a card in your hand, for example: 3\n"
            "Score: the points you win minus the points the other player wins, divided by "
            f"{self.total}."
        )

    def _start(self, task: str) -> None:
        prizes = list(range(1, self.cards + 1))
        if self.order == "random":
            rng = task_rng(task, "gops")
            prizes = draw_level(task, lambda: rng.permutation(prizes).tolist())
        self.state = State(prizes[::-1] if self.order == "descending" else prizes)

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields all orders of the prizes, equally likely.

        Raises:
            ConfigError: if the game has too many information sets.
        """
        count = infosets(self.cards, self.order)
        if count > MOST_INFOSETS:
            fixed = ' or order="ascending"' * (self.order == "random" and self.cards < 6)
            raise ConfigError(
                f"Exact evaluation of Gops with {self.cards} cards and order={self.order!r} needs "
                f"{count:,} information sets, more than {MOST_INFOSETS:,}: choose fewer cards, for "
                f"example cards=4{fixed}. Scripted players alone are evaluated with more cards."
            )
        prizes = range(1, self.cards + 1)
        orders = [prizes] if self.order == "ascending" else [prizes[::-1]]
        if self.order == "random":
            orders = list(itertools.permutations(prizes))
        for deck in orders:
            yield 1 / len(orders), State(list(deck))

    def scripted_form(self, limit: int) -> GopsForm:
        """Returns the positions as information sets, for exact evaluation of scripted players.

        Raises:
            ConfigError: if there are more than `limit`.
        """
        return GopsForm(self, self.cards, self.order, self.carry, limit)

    def _frame(self, agent: str | None) -> Scene:
        state, played = self.state, len(self.state.bids)
        rows = [hand("prize", map(str, state.prizes[played : played + 1]))]
        rows += [
            hand(name, map(str, self._hand(number)))
            for number, name in enumerate(self.possible_agents)
        ]
        caption = f"round {min(played + 1, self.cards)} of {self.cards}, points "
        points = " to ".join(map(str, state.points))
        return table(rows, caption + points, columns=1 + self.cards)

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.bids) < self.cards else ()

    def _hand(self, player: int) -> Cards:
        return hand_of(self.state, self.cards, player)

    def _position(self, agent: str) -> Position:
        return position(self.state, self.cards, self.possible_agents.index(agent))

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        mine, theirs = state.points[me], state.points[1 - me]
        played = len(state.bids)
        lines = ["The game is over."]
        if played < self.cards:
            prize = state.prizes[played]
            carried = f" (with {state.pot} carried over: {prize + state.pot})" if state.pot else ""
            to_come = ", ".join(str(p) for p in sorted(state.prizes[played + 1 :])) or "none"
            lines = [
                f"Round {played + 1} of {self.cards}. The prize is {prize}{carried}. "
                f"Prizes to come: {to_come}.",
                f"Your cards: {', '.join(map(str, self._hand(me)))}. "
                f"Cards of the other player: {', '.join(map(str, self._hand(1 - me)))}.",
            ]
        lines.append(f"Your points: {mine}. Points of the other player: {theirs}.")
        lines += [
            f"Round {i}: prize {prize}, you bid {pair[me]}, the other player {pair[1 - me]}."
            for i, (prize, pair) in enumerate(zip(state.prizes, state.bids, strict=False), 1)
        ]
        return TimeStep(
            text="\n".join(lines),
            success=played == self.cards and mine > theirs,
            progress=0.5 + (mine - theirs) / (2 * self.total),
            admissible=tuple(map(str, self._hand(me))) if played < self.cards else (),
        )

    def privileged_text(self, agent: str) -> str:
        """Returns the hands, the prizes left in their order, the carried prize and the points."""
        state, me = self.state, self.possible_agents.index(agent)
        prizes = state.prizes[len(state.bids) :]
        mine, theirs, left = (
            " ".join(map(str, cards)) or "none"
            for cards in (self._hand(me), self._hand(1 - me), prizes)
        )
        return (
            f"Your cards: {mine}. Cards of the other player: {theirs}. Prizes in order: {left}. "
            f"Carried over: {state.pot}. Points: {state.points[me]} to {state.points[1 - me]}."
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        before = self.state.points
        first, second = (int(moves[agent]) for agent in self.possible_agents)
        self.state = after(self.state, first, second, self.carry)
        gains = [now - past for now, past in zip(self.state.points, before, strict=True)]
        difference = (gains[0] - gains[1]) / self.total
        return self._pay((difference, -difference))

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's bids, which depend on its position."""
        here = self._position(agent)
        hand, _, _, prize, _ = here
        if level == "equilibrium":
            chances = solver(self.cards, self.order, self.carry).equilibrium(*here)
        else:
            chances = scripted(level, hand, prize)
        return chances / chances.sum()

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        hand = self._hand(self.possible_agents.index(agent))
        return str(hand[int(rng.choice(len(hand), p=self.script_probabilities(level, agent)))])

    def expert(self, agent: str) -> str | None:
        """Returns a best response to the opponent's policy if known, otherwise equilibrium play."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other, "equilibrium")
        if agent not in self.acting or level == "equilibrium":
            return super().expert(agent)
        here = self._position(agent)
        gains = responses(self.cards, self.order, self.carry, level)(*here)
        return str(here[0][int(np.argmax(gains))])


@cache
def responses(cards: int, order: str, carry: bool, level: str) -> Gains:
    """Returns the expected gains of best responses to a scripted level, by position."""
    return solver(cards, order, carry).responses(lambda hand, prize: scripted(level, hand, prize))


env, raw_env, parallel_env = make_pettingzoo(Gops)
