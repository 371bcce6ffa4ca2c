"""Iterated games of two players with a table of payoffs, with or without talk; how to plan in them.

`IteratedGame` plays them. `best_plan` guesses who the other is from its choices and plans against
that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from agentgym.core import TimeStep
from agentgym.errors import ConfigError
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.tasks import NumberedTasks, Tasks, task_number

EXPECTED_ROUNDS = 10
"""What a plan reckons with where the number of rounds is not told."""

History = list[tuple[str, str]]
Payoffs = Mapping[tuple[str, str], tuple[float, float]]
"""What both get, by the choices of both."""
Strategy = Callable[[str, list[str], list[str]], str]
"""The next choice of a scripted player by its level, its own choices so far, and the other's."""
Plan = Callable[[int, list[str], list[str]], str]
"""The next choice, by the rounds gone since the plan was made, own choices and the other's."""


def symmetric(gains: Mapping[tuple[str, str], float]) -> Payoffs:
    """Returns the payoffs of a game in which both get the same for the same choices.

    Args:
        gains: what a player gets, by its own choice and the other's.
    """
    return {(mine, theirs): (gain, gains[theirs, mine]) for (mine, theirs), gain in gains.items()}


def switch(first: str, then: str, rounds: int) -> Plan:
    """Returns the plan to make a choice for some rounds and another one ever after."""
    return lambda turn, mine, theirs: then if turn >= rounds else first


def imitate(strategy: Strategy, level: str) -> Plan:
    """Returns the plan to choose as a scripted player does."""
    return lambda turn, mine, theirs: strategy(level, mine, theirs)


def exploit(strategy: Strategy, level: str, choices: Sequence[str], payoff: Payoffs) -> Plan:
    """Returns the plan to choose in each round what pays best in it against a scripted player."""

    def plan(turn: int, mine: list[str], theirs: list[str]) -> str:
        answer = strategy(level, theirs, mine)
        return max(choices, key=lambda choice: payoff[choice, answer][0])

    return plan


def usual_plans(
    strategy: Strategy, models: Sequence[str], choices: Sequence[str], payoff: Payoffs, left: int
) -> list[Plan]:
    """Returns plans worth considering: one choice, or two with a switch at any time; exploiting."""
    plans = [
        switch(a, b, k) for a in choices for b in choices if a != b for k in range(left, 0, -1)
    ]
    return plans + [exploit(strategy, m, choices, payoff) for m in models if m != "random"]


def likelihoods(
    strategy: Strategy, models: Sequence[str], choices: Sequence[str], mine: list[str],
    theirs: list[str],
) -> list[float]:  # fmt: skip
    """Returns how likely each level makes the other's choices so far, with one slip in twenty."""
    slip = 0.05 / (len(choices) - 1)
    found = []
    for model in models:
        weight = 1.0
        for t, choice in enumerate(theirs):
            agrees = model != "random" and strategy(model, theirs[:t], mine[:t]) == choice
            weight *= 1 / len(choices) if model == "random" else 0.95 if agrees else slip
        found.append(weight)
    return found


def best_plan(
    plans: Sequence[Plan], strategy: Strategy, models: Sequence[str], choices: Sequence[str],
    payoff: Payoffs, mine: list[str], theirs: list[str], left: int,
) -> tuple[str, float]:  # fmt: skip
    """Returns the next choice of the plan that pays best, and what it pays in a round.

    Every scripted player is as likely to be the other as it explains its choices so far.

    Args:
        plans: the plans considered.
        strategy: the scripted players.
        models: levels of `strategy` that the other may be, and "random".
        choices: all choices.
        payoff: payoffs of both by their choices.
        mine: choices so far.
        theirs: the other's.
        left: rounds to be played, or to be expected.
    """
    weights = likelihoods(strategy, models, choices, mine, theirs)

    def worth(plan: Plan) -> float:
        total = 0.0
        for model, weight in zip(models, weights, strict=True):
            ours, others = list(mine), list(theirs)
            for turn in range(left):
                choice = plan(turn, ours, others)
                answers = choices if model == "random" else (strategy(model, others, ours),)
                total += weight * sum(payoff[choice, a][0] for a in answers) / len(answers)
                ours.append(choice)
                others.append(answers[turn % len(answers)])
        return total

    best = max(plans, key=worth)
    return best(0, mine, theirs), worth(best) / (sum(weights) * left)


@dataclass
class State:
    """The rounds to play, the choices of both in the rounds played, and what was said in this one.

    `payoffs` are the sums so far.
    """

    rounds: int
    history: History = field(default_factory=list)
    talk: History = field(default_factory=list)
    payoffs: tuple[float, float] = (0.0, 0.0)


class IteratedGame(TextGame):
    """Rounds of simultaneous choices, optionally with cheap talk before each.

    A subclass declares `choices`, `phrases`, `promise` and the simple players (`levels` between
    "random" and "best_response", `strategy`), and says what success is (`_succeeds`).

    Args:
        payoff: what both get by their choices.
        rules: what the choices are and what they pay, for the instructions.
        messages: how many times per round both may speak.
        announce_rounds: whether the number of rounds is told.
        **kwargs: see `TextGame`.
    """

    tasks = Tasks(
        NumberedTasks("rounds/", range(4, 21, 2)), NumberedTasks("rounds/", range(5, 20, 2))
    )
    State = State
    state: State
    choices: ClassVar[tuple[str, ...]]
    """What can be chosen."""
    phrases: ClassVar[Mapping[str, tuple[str, str]]]
    """How a choice is told: what "you" do, what "the other" does."""
    promise: ClassVar[str]
    """What every scripted player says: some mean it."""
    expert_level = "best_response"

    def __init__(
        self,
        payoff: Payoffs,
        rules: str,
        /,
        *,
        messages: int = 0,
        announce_rounds: bool = True,
        **kwargs,
    ):
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}.")
        super().__init__(**kwargs)
        self.payoff = payoff
        self.models = (*self.levels[1:-1], "random")
        self.messages = messages
        self.announce_rounds = announce_rounds
        self.actions = () if messages else self.choices
        *most, last = self.choices
        self.options = f"{', '.join(most)} or {last}"
        self.instructions = (
            f"{rules} Get as much as you can. "
            + "Before you choose, you can say something to each other: write it as it is, "
            f"{MAX_MESSAGE} characters at most. "
            * bool(messages)
            + f"When asked to choose, say only {self.options}."
        )
        payoffs = sorted(pay for pair in payoff.values() for pay in pair)
        self.extremes = payoffs[0], payoffs[-1]

    @staticmethod
    def strategy(level: str, mine: list[str], theirs: list[str]) -> str:
        """Returns the next choice of a simple player after these choices in the rounds so far."""
        raise NotImplementedError

    def _succeeds(self, gain: float) -> bool:
        """Returns whether the payoffs of all rounds, summed, are a success."""
        raise NotImplementedError

    def _plans(self, left: int) -> list[Plan]:
        """Returns the plans that "best_response" considers for the rounds left."""
        return usual_plans(self.strategy, self.models, self.choices, self.payoff, left)

    def _best(self, models: Sequence[str], mine: list[str], theirs: list[str]) -> tuple[str, float]:
        """Returns the choice that pays best against what the other may be, and what it pays.

        Args:
            models: who the other may be, of `self.models`.
            mine: choices so far.
            theirs: the other's.
        """
        left = self.state.rounds - len(mine) if self.announce_rounds else EXPECTED_ROUNDS
        return best_plan(
            self._plans(left), self.strategy, models, self.choices, self.payoff, mine, theirs, left
        )

    def _respond(
        self, models: Sequence[str], mine: list[str], theirs: list[str], rng: np.random.Generator
    ) -> str:
        """Returns what "best_response" chooses: see `_best`."""
        return self._best(models, mine, theirs)[0]

    def _start(self, task: str) -> None:
        self.state = State(task_number(task))

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.history) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        played, over = len(state.history), not self._acting()
        limit = f" of {state.rounds}" * self.announce_rounds
        asks = "Say something to the other." if self._talking() else f"Choose: {self.options}."
        lines = ["The game is over." if over else f"Round {played + 1}{limit}. {asks}"]
        lines += [
            f"Round {i}: you {self.phrases[pair[me]][0]}, "
            f"the other {self.phrases[pair[1 - me]][1]}."
            for i, pair in enumerate(state.history, 1)
        ]
        lines += [f"You said: {pair[me]}\nThe other said: {pair[1 - me]}" for pair in state.talk]
        low, high = (extreme * state.rounds for extreme in self.extremes)
        gain = state.payoffs[me]
        return TimeStep(
            text="\n".join(lines),
            success=over and self._succeeds(gain),
            progress=min(1.0, max(0.0, (gain - low) / (high - low))),
            admissible=() if self._talking() else self.choices,
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        first, second = (moves[agent] for agent in self.possible_agents)
        if self._talking():
            state.talk.append((clip(first), clip(second)))
            return {}
        state.history.append((first, second))
        state.talk.clear()
        gains = self.payoff[first, second]
        state.payoffs = (state.payoffs[0] + gains[0], state.payoffs[1] + gains[1])
        return self._pay(gain / state.rounds for gain in gains)

    def _fallback(self, agent: str) -> str:
        return "" if self._talking() else super()._fallback(agent)

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        return self.promise if self._talking() else super()._random(agent, rng)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if self._talking():
            return self.promise
        mine, theirs = self._choices_of(agent)
        if level == self.expert_level:
            return self._respond(self.models, mine, theirs, rng)
        return self.strategy(level, mine, theirs)

    def expert(self, agent: str) -> str | None:
        """Returns what "best_response" chooses, knowing who the other is where it is scripted."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or self._talking() or level not in self.models:
            return super().expert(agent)
        return self._respond((level,), *self._choices_of(agent), self._aside(agent))

    def _choices_of(self, agent: str) -> tuple[list[str], list[str]]:
        """Returns the agent's choices so far, and the other's."""
        me = self.possible_agents.index(agent)
        return [pair[me] for pair in self.state.history], [p[1 - me] for p in self.state.history]
