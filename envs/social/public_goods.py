"""PublicGoods: who gives to a pot that pays all, and who only takes from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
from agentgym.errors import ConfigError
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, amount, clip, heard, proposal
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import NumberedTasks, Tasks, task_number

MODELS = ("persuadable", "conditional", "altruist", "free_rider")
"""What the expert thinks others may be; of those that explain them alike, the first."""
STEPS = 5
"""The expert considers giving 0, 1, ... fifths of the endowment."""


@dataclass
class State:
    """The rounds to play, and what happened so far.

    Attributes:
        rounds: how many are played.
        gifts: what each player gave in each round.
        asked: the smallest number that anybody named before each round; -1: none.
        talk: what each player said, speaking turn by speaking turn, before this round.
        payoffs: what each has earned so far.
    """

    rounds: int
    gifts: list[list[int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    talk: list[list[str]] = field(default_factory=list)
    payoffs: list[float] = field(default_factory=list)


def earned(gifts: list[int], endowment: int, factor: float) -> list[float]:
    """Returns what each has after a round: what it kept and its part of the multiplied pot."""
    part = factor * sum(gifts) / len(gifts)
    return [endowment - gift + part for gift in gifts]


def wish(level: str, endowment: int, others: list[float], asked: list[int]) -> int:
    """Returns what a scripted player gives.

    Args:
        level: the kind of player.
        endowment: what it could give.
        others: mean gift of the others in every round so far.
        asked: the smallest number named before every round so far and before this one; -1: none.
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
    """Returns the mean gift of the others in every round."""
    return [(sum(given) - given[player]) / (len(given) - 1) for given in gifts]


def kind_of(state: State, player: int, endowment: int) -> str:
    """Returns the scripted player that gives most nearly as this one did."""
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
    """Returns what a player earns who gives something for some rounds and then nothing.

    Args:
        state: what happened so far.
        me: the player, who asks all others to give everything.
        kinds: what all are, as `kind_of` tells them.
        plan: what is given, and in how many of the rounds left.
        endowment: what each could give.
        factor: of the pot.
    """
    asked, total, rivals = list(state.asked), 0.0, len(kinds) - 1
    others = [mean_of_others(state.gifts, i) for i in range(len(kinds))]
    for turn in range(state.rounds - len(state.gifts)):
        # What is to be given now was asked for already.
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


class PublicGoods(TextGame):
    """Give to a pot that pays all, or only take from it.

    ## Description
    The public goods game: in every round four players have 20 tokens each and put some of them into
    a pot, which is multiplied by 1.6 and shared alike. A token given returns 0.4 to its giver, so
    that giving nothing pays most, and 1.6 to all together, so that giving everything pays all most.

    ## Action Space
    Text: before each round any text (put on one line and cut after 280 characters), then a whole
    number from 0 to the endowment. With `messages=0` and `action_mode="discrete"`: the number.

    ## Observation Space
    Text: the round, what all gave and what one earned in the rounds so far, and what was said
    before this one.

    ## Rewards
    Term `task`, after each round: what one earned, divided by the endowment and the rounds: 1 if
    nobody ever gives, 1.6 (`factor`) if all give everything.

    ## Starting State
    Nothing has been played. The task is the number of rounds, which all know: `rounds/10`, the
    reference's, and even numbers to 20 are for training, odd ones from 9 to 19 for testing.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid amounts in a row one gives nothing.

    ## Information
    The common keys; `success`: all is played and one earned at least the middle between what nobody
    and what everybody giving yields; `progress`: one's earnings so far as a part of what everybody
    giving everything yields in all rounds.

    ## Arguments
    `num_players`: 2 to 10; default 4. `endowment`: default 20. `factor`: more than 1, less than the
    number of players; default 1.6. `messages`: how many times all may speak before each round;
    default 1. `max_turns`: default None. As a single seat: `seat` and `opponents`: "free_rider"
    (gives nothing), "conditional" (as much as the others gave last time, half at first),
    "persuadable" (the default: the smallest number that anybody named, until the others gave less
    than 80 % of such a number; else 80 % of what the others gave), "altruist" (everything),
    "best_response" (guesses which of these the others are, and plans against that) or "random".

    ## Example Transcript
    ```
    Round 2 of 10. Say something to the others.
    Round 1: you 20, player_1 20, player_2 20, player_3 15; you earned 30.
    > Let us all give 20.
    Round 2 of 10. How many tokens do you give? Say a whole number from 0 to 20.
    ```

    ## Baselines
    Mean return (share of successes) of a single seat, 100 test episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | 1.30 (0.50) | 1.32 (0.50) |
    | free_rider | 0.70 (0.00) | 0.98 (0.00) |
    | conditional | 1.30 (0.50) | 1.48 (1.00) |
    | persuadable | 1.02 (0.00) | 1.98 (1.00) |
    | altruist | 1.90 (1.00) | 1.98 (1.00) |

    The expert is "best_response".

    Imitation alone (300 demonstrations) nearly plays as the expert does (1.96 of 1.98): to compare
    learning methods take `CommonsHarvest-v0` (0.48 of 0.86).

    ## Registered Configurations
    `PublicGoods-v0`.

    ## References
    Fehr and Gaechter, Cooperation and Punishment in Public Goods Experiments, American Economic
    Review 90 (2000): four players, 20 tokens, a return of 0.4, ten rounds (here without
    punishment). Fischbacher, Gaechter and Fehr, Economics Letters 71 (2001): conditional
    cooperation.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        NumberedTasks("rounds/", range(10, 21, 2)), NumberedTasks("rounds/", range(9, 20, 2))
    )
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
        **kwargs,
    ):
        if not 1 <= endowment <= 1000:
            raise ConfigError(f"endowment must be from 1 to 1,000, got {endowment}.")
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        super().__init__(num_players=num_players, **kwargs)
        if not 1 < factor < num_players:
            raise ConfigError(
                f"factor must be more than 1 and less than the {num_players} players, got "
                f"{factor}: otherwise giving pays nobody, or everybody."
            )
        self.endowment, self.factor, self.messages = endowment, float(factor), messages
        self.amounts = tuple(str(number) for number in range(endowment + 1))
        self.actions = () if messages else self.amounts
        self.instructions = (
            f"{num_players} players play a number of rounds. In every round each gets {endowment} "
            "tokens and says, at the same time as the others, how many of them to put into a "
            f"common pot. What is in the pot is multiplied by {factor:g} and shared alike by all, "
            "whoever gave; what you do not give is yours. Get as many tokens as you can over all "
            "rounds. After a round all see who gave what. "
            + "Before they give, all can say something to all others: write it as it is, "
            f"{MAX_MESSAGE} characters at most. "
            * bool(messages)
            + "When asked how much you give, say only a whole number."
        )

    def _start(self, task: str) -> None:
        self.state = State(task_number(task), payoffs=[0.0] * len(self.possible_agents))

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.gifts) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, over = self.state, len(self.state.gifts) == self.state.rounds
        me = self.possible_agents.index(agent)
        asks = (
            "Say something to the others."
            if self._talking()
            else f"How many tokens do you give? Say a whole number from 0 to {self.endowment}."
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

    def _read(self, agent: str, said: str) -> str:
        if self._talking():
            return clip(said)
        return amount(said, self.endowment)

    def _fallback(self, agent: str) -> str:
        return "" if self._talking() else "0"

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
                "conditional": "I give what you give.",
                "persuadable": "I will do my part if all do.",
            }.get(level, f"Let us all give {self.endowment}.")
        if level == "best_response":
            return str(self._best(me))
        others, asked = mean_of_others(state.gifts, me), [*state.asked, _asked(state)]
        return str(wish(level, self.endowment, others, asked))

    def _best(self, me: int) -> int:
        """Returns the gift that pays best in the long run, judged by what the others are."""
        state, players = self.state, range(len(self.possible_agents))
        kinds = [kind_of(state, i, self.endowment) if i != me else "" for i in players]
        left = state.rounds - len(state.gifts)
        gifts = sorted({self.endowment * step // STEPS for step in range(STEPS + 1)})
        plans = [(0, 0), *((gift, rounds) for rounds in range(1, left + 1) for gift in gifts[1:])]
        best = max(plans, key=lambda p: forecast(state, me, kinds, p, self.endowment, self.factor))
        return best[0]


env, raw_env, parallel_env = make_pettingzoo(PublicGoods)
