"""PublicGoods: the public goods game with messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import (
    MAX_MESSAGE,
    amount,
    clip,
    heard,
    proposal,
    refuse_messages,
)
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

MODELS = ("persuadable", "conditional", "altruist", "free_rider")
"""Levels that the expert considers for co-players. The first wins ties."""
MOST_PLAYS = 100_000
"""Largest number of sequences of contributions that exact evaluation enumerates."""
STEPS = 5
"""The expert considers contributions of 0, 1, ... fifths of the endowment."""


@dataclass
class State:
    """State of an episode.

    Attributes:
        rounds: number of rounds to play.
        gifts: contribution of each player in each round.
        asked: the smallest number in the messages before each round, or -1.
        talk: messages of all players before this round, one list per message turn.
        payoffs: earnings of each player so far.
    """

    rounds: int
    gifts: list[list[int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    talk: list[list[str]] = field(default_factory=list)
    payoffs: list[float] = field(default_factory=list)


def earned(gifts: list[int], endowment: int, factor: float) -> list[float]:
    """Returns the earnings of a round: kept tokens plus the share of the multiplied pot."""
    part = factor * sum(gifts) / len(gifts)
    return [endowment - gift + part for gift in gifts]


def wish(level: str, endowment: int, others: list[float], asked: list[int]) -> int:
    """Returns the contribution of a scripted player.

    Args:
        level: the scripted player's level.
        endowment: tokens per round.
        others: mean contribution of the co-players in every round so far.
        asked: the smallest number named before every round, this one included, or -1.
    """
    if level == "altruist":
        return endowment
    if level == "free_rider":
        return 0
    last = others[-1] if others else endowment / 2
    if level == "conditional":
        return min(endowment, int(last + 0.5))
    let_down = any(gift < 0.8 * number for gift, number in zip(others, asked, strict=False))
    return min(endowment, asked[-1]) if asked[-1] >= 0 and not let_down else int(0.8 * last)


def mean_of_others(gifts: list[list[int]], player: int) -> list[float]:
    """Returns the mean contribution of the co-players in every round."""
    return [(sum(given) - given[player]) / (len(given) - 1) for given in gifts]


def kind_of(state: State, player: int, endowment: int) -> str:
    """Returns the level whose contributions are closest to those of a player."""
    others = mean_of_others(state.gifts, player)
    errors = dict.fromkeys(MODELS, 0)
    for t, given in enumerate(state.gifts):
        for level in MODELS:
            expected = wish(level, endowment, others[:t], state.asked[: t + 1])
            errors[level] += abs(given[player] - expected)
    return min(MODELS, key=lambda level: errors[level])


def forecast(
    state: State, me: int, kinds: list[str], plan: tuple[int, int], endowment: int, factor: float
) -> float:
    """Returns the predicted earnings of a player that contributes for some rounds, then nothing.

    Args:
        state: the state of the episode.
        me: the player, which asks all co-players to contribute everything.
        kinds: level of every player (see `kind_of`).
        plan: the contribution, and the number of rounds in which it is made.
        endowment: tokens per round.
        factor: multiplier of the pot.
    """
    asked, total, rivals = list(state.asked), 0.0, len(kinds) - 1
    others = [mean_of_others(state.gifts, i) for i in range(len(kinds))]
    for turn in range(state.rounds - len(state.gifts)):
        # The messages for this round have been sent already.
        asked.append(_asked(state) if turn == 0 else endowment)
        given = [
            plan[0] * (turn < plan[1]) if i == me else wish(kind, endowment, others[i], asked)
            for i, kind in enumerate(kinds)
        ]
        pot = sum(given)
        for gift, means in zip(given, others, strict=True):
            means.append((pot - gift) / rivals)
        total += endowment - given[me] + factor * pot / len(given)
    return total


def _asked(state: State) -> int:
    number = proposal([words for said in state.talk for words in said])
    return -1 if number is None else number


def rounds_from(least: int) -> Tasks:
    """Returns the tasks with at least some number of rounds: even to train, odd to test."""
    even, odd = range(least + least % 2, 21, 2), range(least + 1 - least % 2, 20, 2)
    return Tasks(NumberedTasks("rounds/", even), NumberedTasks("rounds/", odd))


class PublicGoods(TextGame):
    """Public goods game: players contribute to a common pot that is multiplied and shared equally.

    ## Description
    In every round four players have 20 tokens each and contribute some of them to a pot, which is
    multiplied by 1.6 and divided equally. A contributed token returns 0.4 to its giver and 1.6 to
    all players together. Contributing nothing is the dominant choice of a single player, but
    contributing everything maximises the total payoff.

    ## Action Space
    Text: before each round any message, which is put on one line and cut after 280 characters, then
    a whole number from 0 to the endowment. With `messages=0` and `action_mode="discrete"`: the
    number.

    ## Observation Space
    Text: the round, all previous contributions, the agent's earnings per round, and the messages
    before this round.

    ## Rewards
    Term `task`, after each round: the earnings, divided by the endowment and the number of rounds.
    The return is 1 if nobody ever contributes and `factor` (1.6) if all contribute everything.

    ## Starting State
    No rounds have been played. The task is the number of rounds, which is known to all:
    `rounds/10`, the value of the reference, and even numbers up to 20 are training tasks, odd
    numbers from 9 to 19 are test tasks (see `min_rounds`).

    ## Episode End
    - Termination: all rounds are played.
    - Truncation: after `max_turns` turns.

    After `max_invalid` invalid amounts in a row the contribution is sampled at random.

    ## Information
    The common keys. `success`: all rounds are played and the agent earned at least the mean of the
    earnings without contributions and those with full contributions. `progress`: the earnings so
    far, divided by the total earnings under full contributions, at most 1.

    ## Arguments
    - `num_players` (int, default 4): number of players, from 2 to 10.
    - `endowment` (int, default 20): tokens per player and round, from 1 to 1,000.
    - `factor` (float, default 1.6): multiplier of the pot, more than 1 and less than the number of
      players.
    - `messages` (int, default 1): number of messages each player sends before a round.
    - `min_rounds` (int, default 9): smallest number of rounds of a task, from 1 to 19.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid amounts in a row that lead to a random
      one.

    As a single seat:

    - `seat` (str or None, default None): the agent's name, such as "player_0", or None to sample
      one at each reset.
    - `opponents` (str or dict, default "persuadable"): the co-players' policy.
        - "free_rider": contributes nothing.
        - "conditional": contributes the co-players' mean contribution of the last round, half of
          the endowment in the first round.
        - "persuadable": contributes the smallest number named in a message. Once the co-players
          contribute less than 80 % of such a number, or without one, it contributes 80 % of their
          mean contribution of the last round.
        - "altruist": contributes everything.
        - "best_response": infers which of these policies the co-players follow and plans against
          them.
        - "random": uniformly random contributions.

    ## Notes
    The expert is "best_response". Behaviour cloning alone nearly matches it. To compare learning
    methods, use `CommonsHarvest-v0`.

    ## References
    Fehr and Gaechter, Cooperation and Punishment in Public Goods Experiments, American Economic
    Review 90 (2000): four players, 20 tokens, a return of 0.4, ten rounds (here without
    punishment). Fischbacher, Gaechter and Fehr, Economics Letters 71 (2001): conditional
    cooperation.

    ## Version History
    v0: first version.
    """

    tasks = rounds_from(9)
    players = range(2, 11)
    State = State
    state: State
    levels = ("random", "free_rider", "conditional", "persuadable", "altruist", "best_response")
    expert_level = "best_response"
    default_opponents = "persuadable"

    def __init__(
        self,
        *,
        num_players: int = 4,
        endowment: int = 20,
        factor: float = 1.6,
        messages: int = 1,
        min_rounds: int = 9,
        **kwargs,
    ):
        if not 1 <= endowment <= 1000:
            raise ConfigError(f"endowment must be from 1 to 1,000, got {endowment}.")
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        if not 1 <= min_rounds <= 19:
            raise ConfigError(f"min_rounds must be from 1 to 19, got {min_rounds}.")
        super().__init__(num_players=num_players, **kwargs)
        if not 1 < factor < num_players:
            raise ConfigError(
                f"factor must be more than 1 and less than the {num_players} players, got "
                f"{factor}: otherwise there is no dilemma."
            )
        self.tasks = rounds_from(min_rounds)
        self.endowment, self.factor, self.messages = endowment, float(factor), messages
        self.amounts = tuple(str(number) for number in range(endowment + 1))
        self.actions = () if messages else self.amounts
        self.instructions = (
            f"You are one of {num_players} players who share a pot in several rounds. Get as many "
            "tokens as you can over all rounds.\n"
            "Rules:\n"
            f"- In every round each player gets {endowment} tokens and decides, at the same time "
            "as the others, how many of them to put into the pot. You keep the rest.\n"
            f"- The pot is multiplied by {factor:g} and divided equally among all players, "
            "regardless of their contributions.\n"
            "- After each round all players see all contributions.\n"
            + "- Before each round all players exchange messages.\n" * bool(messages)
            + "Actions:\n"
            + f"- When asked for a message: any text, {MAX_MESSAGE} characters at most.\n"
            * bool(messages)
            + f"- When asked how many tokens you give: a whole number from 0 to {endowment}"
        )

    def _start(self, task: str) -> None:
        self.state = State(task_number(task), payoffs=[0.0] * len(self.possible_agents))

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields the start of the shortest training task.

        Raises:
            ConfigError: if there are messages or too many sequences of contributions.
        """
        refuse_messages("PublicGoods", self.messages)
        rounds, players = task_number(self.tasks.train[0]), len(self.possible_agents)
        if len(self.amounts) ** (players * rounds) > MOST_PLAYS:
            raise ConfigError(
                "Exact evaluation of PublicGoods enumerates at most "
                f"{MOST_PLAYS:,} sequences of contributions, got {len(self.amounts)} to the power "
                f"of {players * rounds} (endowment {self.endowment}, {players} players, {rounds} "
                "rounds): choose fewer, for example endowment=5, num_players=2 and min_rounds=2."
            )
        yield 1.0, State(rounds, payoffs=[0.0] * players)

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.gifts) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, over = self.state, len(self.state.gifts) == self.state.rounds
        me = self.possible_agents.index(agent)
        asks = (
            "Send a message to the other players."
            if self._talking()
            else "How many tokens do you give? Answer with a whole number from 0 to "
            f"{self.endowment}."
        )
        lines = [f"Round {len(state.gifts) + 1} of {state.rounds}. {asks}"]
        if over:
            lines = ["The game is over."]
        names = ["you" if i == me else name for i, name in enumerate(self.possible_agents)]
        for number, given in enumerate(state.gifts, 1):
            gave = ", ".join(f"{name} {gift}" for name, gift in zip(names, given, strict=True))
            mine = earned(given, self.endowment, self.factor)[me]
            lines.append(f"Round {number}: {gave}; you earned {round(mine, 2):.10g}.")
        lines += heard(state.talk, names)
        together = self.factor * self.endowment * state.rounds
        alone = self.endowment * state.rounds
        return TimeStep(
            text="\n".join(lines),
            success=over and state.payoffs[me] >= (together + alone) / 2 - 1e-9,
            progress=min(1.0, state.payoffs[me] / together),
            admissible=() if self._talking() else self.amounts,
        )

    def _parse(self, agent: str, action: str) -> str:
        if self._talking():
            return clip(action)
        return amount(action, self.endowment)

    def cooperation(self, agent: str) -> tuple[float, ...]:
        """Returns the share of the endowment that the agent contributed in each round."""
        me = self.possible_agents.index(agent)
        return tuple(given[me] / self.endowment for given in self.state.gifts)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        said = [moves[agent] for agent in self.possible_agents]
        if self._talking():
            state.talk.append(said)
            return {}
        state.asked.append(_asked(state))
        state.gifts.append([int(words) for words in said])
        state.talk.clear()
        gains = earned(state.gifts[-1], self.endowment, self.factor)
        state.payoffs = [sum(pair) for pair in zip(state.payoffs, gains, strict=True)]
        worth = self.endowment * state.rounds
        return self._pay(gain / worth for gain in gains)

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        return "" if self._talking() else str(int(rng.integers(self.endowment + 1)))

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, me = self.state, self.possible_agents.index(agent)
        if self._talking():
            return {
                "conditional": "I will give as much as you give.",
                "persuadable": "I will contribute if all of us do.",
            }.get(level, f"Let us all give {self.endowment}.")
        if level == "best_response":
            return str(self._best(me))
        others, asked = mean_of_others(state.gifts, me), [*state.asked, _asked(state)]
        return str(wish(level, self.endowment, others, asked))

    def _best(self, me: int) -> int:
        """Returns the contribution with the highest predicted earnings against the co-players."""
        state, players = self.state, range(len(self.possible_agents))
        kinds = [kind_of(state, i, self.endowment) if i != me else "" for i in players]
        left = state.rounds - len(state.gifts)
        gifts = sorted({self.endowment * step // STEPS for step in range(STEPS + 1)})
        plans = [(0, 0), *((gift, rounds) for rounds in range(1, left + 1) for gift in gifts[1:])]
        best = max(plans, key=lambda p: forecast(state, me, kinds, p, self.endowment, self.factor))
        return best[0]


env, raw_env, parallel_env = make_pettingzoo(PublicGoods)
