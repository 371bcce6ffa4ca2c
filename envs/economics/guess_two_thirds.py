"""GuessTwoThirds: the player whose number is closest to two thirds of the average wins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import amount
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

DEPTHS = {"level_0": 0, "level_1": 1, "level_2": 2, "level_3": 3, "equilibrium": 99}
"""Steps of reasoning of the scripted players that do not learn. 99 steps lead to the number 0."""
MODELS = ("level_1", "level_0", "level_2", "level_3", "adaptive", "equilibrium")
"""Levels that the expert considers for co-players. The first wins ties."""


@dataclass
class State:
    """State of an episode.

    Attributes:
        rounds: number of rounds to play.
        guesses: the numbers of all players in each round.
        prizes: prizes of each player so far. A tie divides the prize of a round.
    """

    rounds: int
    guesses: list[list[int]] = field(default_factory=list)
    prizes: list[float] = field(default_factory=list)


def shares(guesses: Sequence[int], factor: float) -> list[float]:
    """Returns each player's share of the prize of a round.

    Args:
        guesses: the numbers of all players.
        factor: multiplier of the average.
    """
    aim = factor * sum(guesses) / len(guesses)
    gaps = [abs(guess - aim) for guess in guesses]
    nearest = min(gaps) + 1e-9  # a tie in spite of rounding
    winners = [gap <= nearest for gap in gaps]
    return [won / sum(winners) for won in winners]


@lru_cache(maxsize=4096)
def report(guesses: tuple[int, ...], names: tuple[str, ...], factor: float) -> str:
    """Returns a line about a round: the numbers, the target and the winners.

    Args:
        guesses: the numbers of all players.
        names: their names.
        factor: multiplier of the average.
    """
    told = ", ".join(f"{name} {guess}" for name, guess in zip(names, guesses, strict=True))
    aim = round(factor * sum(guesses) / len(guesses), 2)
    won = [n for n, share in zip(names, shares(guesses, factor), strict=True) if share]
    winners = "all" if len(won) == len(names) else " and ".join(won)
    return f"{told}; target {aim:g}, won by {winners}."


def best_share(others: Sequence[int], largest: int, factor: float) -> tuple[int, float]:
    """Returns the best number against the others' numbers, and its share. The smallest wins ties.

    Args:
        others: the numbers of the co-players.
        largest: the largest number that can be named.
        factor: multiplier of the average.
    """
    # `shares` for all guesses at once: rows are players, the first of which guesses.
    guesses = np.arange(largest + 1)
    rows = np.vstack([guesses, *(np.full_like(guesses, other) for other in others)])
    gaps = np.abs(rows - factor * rows.sum(axis=0) / len(rows))
    winners = gaps <= gaps.min(axis=0) + 1e-9
    gains = winners[0] / winners.sum(axis=0)
    best = int(gains.argmax())
    return best, float(gains[best])


def equilibria(players: int, largest: int, factor: float) -> list[int]:
    """Returns the numbers that form an equilibrium of one round if all players name them.

    No player gains by another number. With whole numbers, 1 is such a number beside 0 if there
    are enough players.

    Args:
        players: number of players.
        largest: the largest number that can be named.
        factor: multiplier of the average.
    """
    return [
        guess
        for guess in range(largest + 1)
        if best_share([guess] * (players - 1), largest, factor)[1] <= 1 / players + 1e-9
    ]


def scripted(level: str, guesses: Sequence[Sequence[int]], largest: int, factor: float) -> int:
    """Returns the number of a scripted player.

    Args:
        level: "adaptive" multiplies the last average by the factor, at first half of `largest`.
            Others multiply half of `largest` as often as they have steps of reasoning.
        guesses: the numbers of all players in each round so far.
        largest: the largest number that can be named.
        factor: multiplier of the average.
    """
    if level != "adaptive":
        return math.floor(largest / 2 * factor ** DEPTHS[level] + 0.5)
    start = sum(guesses[-1]) / len(guesses[-1]) if guesses else largest / 2
    return math.floor(start * factor + 0.5)


def level_of(guesses: Sequence[Sequence[int]], player: int, largest: int, factor: float) -> str:
    """Returns the level that fits a player's numbers best."""
    named = [row[player] for row in guesses]

    def error(level: str) -> int:
        if level == "adaptive":
            fits = [scripted(level, guesses[:t][-1:], largest, factor) for t in range(len(named))]
        else:
            fits = [scripted(level, (), largest, factor)] * len(named)
        return sum([abs(guess - fit) for guess, fit in zip(named, fits, strict=True)])

    return min(MODELS, key=error)


class GuessTwoThirds(TextGame):
    """Guess a fraction of the average: the closest number to two thirds of the mean wins.

    ## Description
    In every round all players name a whole number at the same time. The number closest to two
    thirds of the average wins the prize, and a tie divides it. A player who expects an average of
    50 names 33, a player who expects others to reason so names 22, and so on. The only number that
    survives all steps of reasoning is 0 (`equilibria` lists the symmetric equilibria of a round
    exactly). Against players who reason less far, a larger number is better.

    ## Action Space
    Text: a whole number from 0 to `largest`. With `action_mode="discrete"`: the number.

    ## Observation Space
    Text: the round, and the numbers, the target and the winners of all previous rounds.

    ## Rewards
    Term `task`, after each round: the player's share of the prize, divided by the number of rounds.
    The returns of all players sum to 1.

    ## Starting State
    No rounds have been played. The task is the number of rounds, which is known to all. Even
    numbers from 4 to 20 are training tasks, odd numbers from 5 to 19 are test tasks.

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid numbers in a row the player's number is sampled at random.

    ## Information
    The common keys. `success`: all rounds are played and the agent won more than half of the
    prizes. `progress`: the share of all prizes won so far.

    ## Arguments
    - `num_players` (int, default 4): number of players, from 2 to 10.
    - `largest` (int, default 100): the largest number, from 2 to 1,000.
    - `factor` (float, default 2/3): multiplier of the average, more than 0 and less than 1.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid numbers in a row that lead to a random one.

    As a single seat:

    - `seat` (str or None, default None): the agent's name, such as "player_0", or None to sample
      one at each reset.
    - `opponents` (str or dict, default "level_1"): the co-players' policy.
        - "level_0": names half of `largest`.
        - "level_1", "level_2", "level_3": multiply half of `largest` by the factor once, twice,
          three times.
        - "adaptive": multiplies the last average by the factor, at first half of `largest`.
        - "equilibrium": names 0.
        - "best_response": infers the level of each co-player from its numbers and names the best
          number against them.
        - "random": uniformly random numbers.
        - "unknown": one of the levels except "random", sampled at each reset.

    ## Notes
    The expert is "best_response". It knows the co-players' levels unless they are "unknown".

    ## References
    Nagel, Unraveling in Guessing Games: An Experimental Study, American Economic Review 85 (1995):
    the game and levels of reasoning. Camerer, Ho and Chong, A
    Cognitive Hierarchy Model of Games, Quarterly Journal of Economics 119 (2004).

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        NumberedTasks("rounds/", range(4, 21, 2)), NumberedTasks("rounds/", range(5, 20, 2))
    )
    players = range(2, 11)
    State = State
    state: State
    levels = ("random", *DEPTHS, "adaptive", "best_response")
    expert_level = "best_response"
    default_opponents = "level_1"

    def __init__(
        self, *, num_players: int = 4, largest: int = 100, factor: float = 2 / 3, **kwargs
    ):
        super().__init__(num_players=num_players, **kwargs)
        if not 2 <= largest <= 1000:
            raise ConfigError(f"largest must be from 2 to 1,000, got {largest}.")
        if not 0 < factor < 1:
            raise ConfigError(f"factor must be more than 0 and less than 1, got {factor}.")
        self.largest, self.factor = largest, float(factor)
        self.actions = tuple(str(number) for number in range(largest + 1))
        part = "two thirds" if abs(factor - 2 / 3) < 1e-9 else f"{factor:g} times"
        self.part = f"{part} of the average" if part == "two thirds" else f"{part} the average"
        self.instructions = (
            f"You are one of {num_players} players of a guessing game of several rounds. Win as "
            "many prizes as you can.\n"
            "Rules:\n"
            f"- In every round all players name a whole number from 0 to {largest} at the same "
            "time.\n"
            f"- The player whose number is closest to {self.part} of all numbers wins the prize of "
            "the round. Players with equally close numbers share it.\n"
            "- After each round all players see all numbers.\n"
            f"Action: a whole number from 0 to {largest}, such as {largest // 4}"
        )

    def _start(self, task: str) -> None:
        self.state = State(task_number(task), prizes=[0.0] * len(self.possible_agents))

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.guesses) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, over = self.state, not self._acting()
        me = self.possible_agents.index(agent)
        names = *self.possible_agents[:me], "you", *self.possible_agents[me + 1 :]
        lines = [
            "The game is over."
            if over
            else f"Round {len(state.guesses) + 1} of {state.rounds}. Name a whole number from 0 to "
            f"{self.largest}."
        ]
        for number, row in enumerate(state.guesses, 1):
            lines.append(f"Round {number}: {report(tuple(row), names, self.factor)}")
        return TimeStep(
            text="\n".join(lines),
            success=over and state.prizes[me] > state.rounds / 2 + 1e-9,
            progress=min(1.0, state.prizes[me] / state.rounds),
            admissible=self.actions,
        )

    def _parse(self, agent: str, action: str) -> str:
        return amount(action, self.largest)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        row = [int(moves[agent]) for agent in self.possible_agents]
        state.guesses.append(row)
        gains = shares(row, self.factor)
        state.prizes = [sum(pair) for pair in zip(state.prizes, gains, strict=True)]
        return self._pay(gain / state.rounds for gain in gains)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if level == "best_response":
            return self._respond(agent, {})
        return str(scripted(level, self.state.guesses, self.largest, self.factor))

    def _respond(self, agent: str, known: Mapping[str, str]) -> str:
        """Returns the best number against co-players, whose levels may be known."""
        guesses, others = self.state.guesses, []
        for i, name in enumerate(self.possible_agents):
            if name != agent:
                level = known.get(name, "")
                if level not in MODELS:
                    level = level_of(guesses, i, self.largest, self.factor)
                others.append(scripted(level, guesses, self.largest, self.factor))
        return str(best_share(others, self.largest, self.factor)[0])

    def expert(self, agent: str) -> str | None:
        """Returns the number of "best_response", given the co-players' levels if they are known."""
        return self._respond(agent, self.opponents) if agent in self.acting else None


env, raw_env, parallel_env = make_pettingzoo(GuessTwoThirds)
