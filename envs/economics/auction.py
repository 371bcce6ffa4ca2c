"""Auction: sealed bids with private values, at the first or the second price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import amount
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

BIDDERS = ("equilibrium", "half", "truthful")
"""Levels that the expert considers for co-players. The first wins ties."""
SLIP = 0.01
"""Assumed probability that a co-player bids a random amount."""
FORESEEN = 10
"""Largest number of rounds whose values a critic reads."""
MOST_STARTS = 10_000
"""Exact evaluation enumerates at most so many combinations of values."""


@dataclass
class State:
    """State of an episode.

    Attributes:
        values: the values of all players in each round.
        bids: the bids of all players in each round played.
        gains: sums of each player's gains so far.
    """

    values: list[list[int]]
    bids: list[list[int]] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)


def outcome(values: Sequence[int], bids: Sequence[int], price: str) -> tuple[list[float], int]:
    """Returns each player's gain in a round, and the price.

    A tie of k highest bids is settled by lot. Its gains are the expected ones: 1 / k each.

    Args:
        values: value of the object for each player.
        bids: bid of each player.
        price: "first": the winner pays its bid. "second": it pays the highest bid of the others.
    """
    *_, second, first = sorted(bids)
    paid = first if price == "first" else second
    winners = sum(bid == first for bid in bids)
    return [
        (value - paid) / winners if bid == first else 0.0
        for value, bid in zip(values, bids, strict=True)
    ], paid


def scripted_bid(level: str, value: int, players: int, price: str) -> int:
    """Returns the bid of a scripted player.

    Args:
        level: "truthful": the value. "half": half of it. "equilibrium": the value at the second
            price, the fraction (n - 1) / n of it at the first price, with n players.
        value: value of the object for the player.
        players: number of players.
        price: "first" or "second".
    """
    if level == "half":
        return value // 2
    if level == "truthful" or price == "second":
        return value
    return math.floor(value * (players - 1) / players + 0.5)


def bid_chances(level: str, largest: int, players: int, price: str) -> np.ndarray:
    """Returns the probabilities of the bids 0 to `largest` of a scripted player, with slips.

    The player's value is uniformly distributed.
    """
    chances = np.zeros(largest + 1)
    for value in range(largest + 1):
        chances[scripted_bid(level, value, players, price)] += 1 / (largest + 1)
    return (1 - SLIP) * chances + SLIP / (largest + 1)


def expected_gains(value: int, rivals: Sequence[np.ndarray], price: str) -> np.ndarray:
    """Returns the exact expected gain of each bid from 0 to the largest.

    Args:
        value: value of the object for the bidder.
        rivals: the probabilities of the bids of each co-player, independent of each other.
        price: "first" or "second".
    """
    largest = len(rivals[0]) - 1
    below = [np.concatenate([[0.0], np.cumsum(rival)[:-1]]) for rival in rivals]
    ties = np.zeros(
        (len(rivals) + 1, largest + 1)
    )  # number of rivals with the bid, if none is above
    ties[0] = 1.0
    for less, equal in zip(below, rivals, strict=True):
        ties[1:] = ties[1:] * less + ties[:-1] * equal
        ties[0] *= less
    bids = np.arange(largest + 1)
    won = ties[0]
    tied = (ties[1:] / np.arange(2, len(rivals) + 2)[:, None]).sum(axis=0)
    if price == "first":
        return (value - bids) * (won + tied)
    top = ties[1:].sum(axis=0)  # probability that the highest rival bid is b
    return np.concatenate([[0.0], np.cumsum((value - bids) * top)[:-1]]) + (value - bids) * tied


class Auction(TextGame):
    """Sealed-bid auctions with independent private values.

    ## Description
    In every round an object is sold. Its value differs between players: each knows its own, and all
    values from 0 to `largest` are equally likely. All players bid at the same time, and the highest
    bid wins. At the first price the winner pays its own bid, so that the equilibrium of n players
    is to bid (n - 1) / n of the value. At the second price the winner pays the highest bid of the
    others, and to bid the value is a dominant strategy. Other players deviate from these
    strategies, and all bids are shown after each round.

    ## Action Space
    Text: a whole number from 0 to `largest`. With `action_mode="discrete"`: the number.

    ## Observation Space
    Text: the round, the player's value, all bids of previous rounds, their winners and prices, and
    the player's gains. The values of other players are never shown.

    ## Rewards
    Term `task`, after each round: value minus price for the winner, divided by `largest` and the
    number of rounds. Equal highest bids share the gain, which is the expected gain of a lot. A
    winner that pays more than its value loses.

    ## Starting State
    The values of all rounds are sampled from the task name.

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid bids in a row the bid is sampled at random.

    ## Information
    The common keys. `success`: all rounds are played and the agent gained at least as much as the
    equilibrium strategy would have gained against the same bids. `progress`: the gains so far,
    divided by the gains of a player that wins each round in which it has the highest value at half
    of this value, in [0, 1].

    ## Arguments
    - `num_players` (int, default 3): number of players, from 2 to 10.
    - `price` (str, default "first"): "first" or "second".
    - `rounds` (int, default 10): number of rounds, from 1 to 100.
    - `largest` (int, default 100): the largest value and bid, from 2 to 1,000.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid bids in a row that lead to a random one.

    As a single seat:

    - `seat` (str or None, default None): the agent's name, such as "player_0", or None to sample
      one at each reset.
    - `opponents` (str or dict, default "equilibrium"): the co-players' policy.
        - "truthful": bids its value.
        - "half": bids half of its value.
        - "equilibrium": bids (n - 1) / n of its value, at the second price its value.
        - "best_response": infers these policies from the bids of each co-player and bids the amount
          with the highest expected gain against them.
        - "random": uniformly random bids.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-players' levels unless they are "unknown", and
    computes expected gains exactly. With few values (`largest=4, num_players=2`) the first round
    has an exact evaluation: `agentgym.evaluation.exploitability.nashconv`.

    ## References
    Vickrey, Counterspeculation, Auctions, and Competitive Sealed Tenders, Journal of Finance 16
    (1961): both auctions and their equilibria.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(2, 11)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.canary_floor": "a bid of nothing loses nothing, and chance overbids",
    }
    state: State
    levels = ("random", *BIDDERS, "best_response")
    expert_level = "best_response"
    default_opponents = "equilibrium"

    def __init__(
        self,
        *,
        num_players: int = 3,
        price: Literal["first", "second"] = "first",
        rounds: int = 10,
        largest: int = 100,
        **kwargs,
    ):
        super().__init__(num_players=num_players, **kwargs)
        if not 1 <= rounds <= 100:
            raise ConfigError(f"rounds must be from 1 to 100, got {rounds}.")
        if not 2 <= largest <= 1000:
            raise ConfigError(f"largest must be from 2 to 1,000, got {largest}.")
        self.price, self.rounds, self.largest = price, rounds, largest
        self.stages = rounds
        self.actions = tuple(str(number) for number in range(largest + 1))
        self._chances = {
            level: bid_chances(level, largest, num_players, price) for level in BIDDERS
        }
        pays = "its own bid" if price == "first" else "the highest bid of the other players"
        self.instructions = (
            f"You are one of {num_players} bidders in {rounds} auctions. Gain as much as you can "
            "in all of them together.\n"
            "Rules:\n"
            "- In every round an object is sold. Each player is told its own value of the object. "
            f"All values from 0 to {largest} are equally likely.\n"
            "- All players bid at the same time. The highest bid wins, and equal bids share the "
            "gain.\n"
            f"- The winner pays {pays} and gains its value minus this price, which may be "
            "negative. The others gain nothing.\n"
            "- After each round all players see all bids, but not the values of others.\n"
            f"Action: your bid, a whole number from 0 to {largest}, such as {largest // 4}"
        )

    def _start(self, task: str) -> None:
        size = (self.rounds, len(self.possible_agents))
        values = task_rng(task, "Auction").integers(self.largest + 1, size=size)
        self.state = self._fresh(values.tolist())

    def _fresh(self, values: list[list[int]]) -> State:
        return State(values, gains=[0.0] * len(self.possible_agents))

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields all combinations of values of the first round.

        Raises:
            ConfigError: if there are too many.
        """
        players = len(self.possible_agents)
        count = (self.largest + 1) ** players
        if count > MOST_STARTS:
            raise ConfigError(
                f"Exact evaluation enumerates {count:,} combinations of values, more than "
                f"{MOST_STARTS:,}: choose a smaller `largest`, for example 4."
            )
        for row in itertools.product(range(self.largest + 1), repeat=players):
            yield 1 / count, self._fresh([list(row)] * self.rounds)

    def stage(self) -> int:
        """Returns the number of finished rounds."""
        return len(self.state.bids)

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.bids) < self.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, over = self.state, not self._acting()
        me, played = self.possible_agents.index(agent), len(self.state.bids)
        lines = ["The game is over."]
        if not over:
            lines = [
                f"Round {played + 1} of {self.rounds}. Your value is {state.values[played][me]}. "
                f"Bid a whole number from 0 to {self.largest}."
            ]
        names = ["you" if i == me else name for i, name in enumerate(self.possible_agents)]
        for number, row in enumerate(state.bids, 1):
            told = ", ".join(f"{name} {bid}" for name, bid in zip(names, row, strict=True))
            gains, paid = outcome(state.values[number - 1], row, self.price)
            won = " and ".join(n for n, bid in zip(names, row, strict=True) if bid == max(row))
            mine = f"; your value was {state.values[number - 1][me]}, you gained {gains[me]:.4g}"
            lines.append(f"Round {number}: {told}; won by {won} at {paid}{mine}.")
        return TimeStep(
            text="\n".join(lines),
            success=over and state.gains[me] >= self._reference(me) - 1e-9,
            progress=self._progress(me),
            admissible=self.actions,
        )

    def privileged_text(self, agent: str) -> str:
        """Returns the rounds left, and the values of all players in this and the next rounds."""
        played = len(self.state.bids)
        values = "; ".join(
            ", ".join(
                f"{name} {value}" for name, value in zip(self.possible_agents, row, strict=True)
            )
            for row in self.state.values[played : played + FORESEEN]
        )
        return f"You are {agent}. Rounds left: {self.rounds - played}. Values: {values or 'none'}."

    def _reference(self, me: int) -> float:
        """Returns the gains of the equilibrium strategy against the bids of the others."""
        total = 0.0
        for values, bids in zip(self.state.values, self.state.bids, strict=False):
            bid = scripted_bid("equilibrium", values[me], len(bids), self.price)
            total += outcome(values, [*bids[:me], bid, *bids[me + 1 :]], self.price)[0][me]
        return total

    def _progress(self, me: int) -> float:
        most = sum(row[me] / 2 for row in self.state.values if row[me] == max(row))
        return min(1.0, max(0.0, self.state.gains[me] / most)) if most else 0.0

    def _parse(self, agent: str, action: str) -> str:
        return amount(action, self.largest)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        row = [int(moves[agent]) for agent in self.possible_agents]
        gains, _ = outcome(state.values[len(state.bids)], row, self.price)
        state.bids.append(row)
        state.gains = [sum(pair) for pair in zip(state.gains, gains, strict=True)]
        return self._pay(gain / (self.largest * self.rounds) for gain in gains)

    def _value(self, agent: str) -> int:
        return self.state.values[len(self.state.bids)][self.possible_agents.index(agent)]

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if level == "best_response":
            return self._respond(agent, {})
        players = len(self.possible_agents)
        return str(scripted_bid(level, self._value(agent), players, self.price))

    def _forecast(self, player: int, level: str | None) -> np.ndarray:
        """Returns the probabilities of a co-player's next bid, given its bids so far."""
        if level is not None:
            return self._chances[level]
        logs = {
            kind: sum(math.log(chances[row[player]]) for row in self.state.bids)
            for kind, chances in self._chances.items()
        }
        most = max(logs.values())
        weights = {kind: math.exp(log - most) for kind, log in logs.items()}
        total = sum(weights.values())
        parts = [weight / total * self._chances[kind] for kind, weight in weights.items()]
        return np.sum(parts, axis=0)

    def _respond(self, agent: str, known: dict[str, str]) -> str:
        """Returns the bid with the highest expected gain. The lowest wins ties."""
        rivals = [
            self._forecast(i, known.get(name))
            for i, name in enumerate(self.possible_agents)
            if name != agent
        ]
        gains = expected_gains(self._value(agent), rivals, self.price)
        return str(int(np.argmax(gains > gains.max() - 1e-12)))

    def expert(self, agent: str) -> str | None:
        """Returns the bid of "best_response", given the co-players' levels if they are known."""
        if agent not in self.acting:
            return None
        opponents = self.opponents.items()
        return self._respond(agent, {name: lvl for name, lvl in opponents if lvl in BIDDERS})


env, raw_env, parallel_env = make_pettingzoo(Auction)
