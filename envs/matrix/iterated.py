"""Iterated two-player matrix games, with or without messages, and planning in them.

`IteratedGame` implements the rules. `best_plan` infers the co-player's policy from its choices and
plans against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip, refuse_messages
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

EXPECTED_ROUNDS = 10
"""Planning horizon if the number of rounds is not announced."""

History = list[tuple[str, str]]
Payoffs = Mapping[tuple[str, str], tuple[float, float]]
"""Payoffs of both players by their choices."""
Strategy = Callable[[str, list[str], list[str]], str]
"""Maps a level, the player's choices and the co-player's choices to the next choice."""
Plan = Callable[[int, list[str], list[str]], str]
"""Maps the rounds since the plan was made and the choices of both players to the next choice."""


def symmetric(gains: Mapping[tuple[str, str], float]) -> Payoffs:
    """Returns the payoffs of a symmetric game.

    Args:
        gains: payoff of a player by its own choice and the co-player's choice.
    """
    return {(mine, theirs): (gain, gains[theirs, mine]) for (mine, theirs), gain in gains.items()}


def switch(first: str, then: str, rounds: int) -> Plan:
    """Returns the plan that makes one choice for some rounds and another one afterwards."""
    return lambda turn, mine, theirs: then if turn >= rounds else first


def imitate(strategy: Strategy, level: str) -> Plan:
    """Returns the plan that follows a scripted policy."""
    return lambda turn, mine, theirs: strategy(level, mine, theirs)


def exploit(strategy: Strategy, level: str, choices: Sequence[str], payoff: Payoffs) -> Plan:
    """Returns the plan that plays the myopic best response to a scripted player in each round."""

    def plan(turn: int, mine: list[str], theirs: list[str]) -> str:
        answer = strategy(level, theirs, mine)
        return max(choices, key=lambda choice: payoff[choice, answer][0])

    return plan


def usual_plans(
    strategy: Strategy, models: Sequence[str], choices: Sequence[str], payoff: Payoffs, left: int
) -> list[Plan]:
    """Returns the plans with at most one switch of choice and those that exploit a level."""
    plans = [
        switch(a, b, k) for a in choices for b in choices if a != b for k in range(left, 0, -1)
    ]
    return plans + [exploit(strategy, m, choices, payoff) for m in models if m != "random"]


def external_regret(
    payoff: Payoffs, choices: Sequence[str], mine: Sequence[str], theirs: Sequence[str]
) -> float:
    """Returns how much more the best single choice would have paid per round, 0 without rounds.

        max_a sum_t [u(a, b_t) - u(a_t, b_t)] / T

    with the co-player's choices b_t as they were, even if they respond to the player's. It is
    negative if no single choice pays as much as the player's choices a_t. Source: "Approximation to
    Bayes Risk in Repeated Play" (Hannan, 1957).

    Args:
        payoff: payoffs of both players by their choices.
        choices: all choices.
        mine: the player's choices in T rounds.
        theirs: the co-player's choices in these rounds.
    """
    gain = sum(payoff[pair][0] for pair in zip(mine, theirs, strict=True))
    best = max(sum(payoff[choice, other][0] for other in theirs) for choice in choices)
    return float(best - gain) / max(len(mine), 1)


def likelihoods(
    strategy: Strategy, models: Sequence[str], choices: Sequence[str], mine: list[str],
    theirs: list[str],
) -> list[float]:  # fmt: skip
    """Returns the likelihood of the co-player's choices for each level, with 5 % random errors."""
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
    """Returns the next choice of the best plan and the plan's expected payoff per round.

    The posterior over levels is proportional to the likelihood of the co-player's choices so far.

    Args:
        plans: the plans considered.
        strategy: the scripted policies.
        models: levels of `strategy` that the co-player may have, and "random".
        choices: all choices.
        payoff: payoffs of both players by their choices.
        mine: the player's choices so far.
        theirs: the co-player's choices so far.
        left: number of remaining rounds, or its estimate.
    """
    weights = likelihoods(strategy, models, choices, mine, theirs)
    mean = {own: sum(payoff[own, a][0] for a in choices) / len(choices) for own in choices}

    def worth(plan: Plan) -> float:
        total = 0.0
        for model, weight in zip(models, weights, strict=True):
            ours, others = list(mine), list(theirs)
            for turn in range(left):
                choice = plan(turn, ours, others)
                if model == "random":
                    gain, answer = mean[choice], choices[turn % len(choices)]
                else:
                    answer = strategy(model, others, ours)
                    gain = payoff[choice, answer][0]
                total += weight * gain
                ours.append(choice)
                others.append(answer)
        return total

    worths = [worth(plan) for plan in plans]
    best = max(worths)
    return plans[worths.index(best)](0, mine, theirs), best / (sum(weights) * left)


@dataclass
class State:
    """State of an iterated game.

    Attributes:
        rounds: number of rounds to play.
        history: choices of both players in the rounds played.
        talk: messages of both players in the current round.
        payoffs: sums of the payoffs so far.
    """

    rounds: int
    history: History = field(default_factory=list)
    talk: History = field(default_factory=list)
    payoffs: tuple[float, float] = (0.0, 0.0)


class IteratedGame(TextGame):
    """Rounds of simultaneous choices, optionally with cheap talk before each.

    A subclass declares `choices`, `phrases`, `promise` and the scripted players (`levels` between
    "random" and "best_response", `strategy`), and defines success (`_succeeds`).

    Args:
        payoff: payoffs of both players by their choices.
        rules: goal, choices and payoffs, for the instructions.
        messages: number of messages each player sends per round.
        announce_rounds: whether the observation shows the number of rounds.
        **kwargs: see `TextGame`.
    """

    tasks = Tasks(
        NumberedTasks("rounds/", range(4, 21, 2)), NumberedTasks("rounds/", range(5, 20, 2))
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.canary_floor": "one of two or three choices alone can be the best plan",
        "semantic.nonsense_floor": "invalid actions lead to random moves, which can be good ones",
    }
    state: State
    choices: ClassVar[tuple[str, ...]]
    """The admissible choices."""
    phrases: ClassVar[Mapping[str, tuple[str, str]]]
    """Verb phrases of each choice, in the second and in the third person."""
    cooperative: ClassVar[str | None] = None
    """The cooperative choice, if the game is a social dilemma."""
    promise: ClassVar[str]
    """The message of every scripted player. Not all of them keep it."""
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
        action = f"Action: {self.options}"
        if messages:
            action = (
                "Actions:\n"
                f"- When asked for a message: any text, {MAX_MESSAGE} characters at most. Both "
                "players send their messages at the same time.\n"
                f"- When asked to choose: {self.options}"
            )
        unknown = "" if announce_rounds else ", which you do not know"
        end = f"The game ends after a fixed number of rounds{unknown}."
        self.instructions = f"{rules}\n{end}\n{action}"
        payoffs = sorted(pay for pair in payoff.values() for pay in pair)
        self.extremes = payoffs[0], payoffs[-1]

    @staticmethod
    def strategy(level: str, mine: list[str], theirs: list[str]) -> str:
        """Returns the next choice of a scripted player, given all previous choices."""
        raise NotImplementedError

    def _succeeds(self, gain: float) -> bool:
        """Returns whether a sum of payoffs over all rounds is a success."""
        raise NotImplementedError

    def _plans(self, left: int) -> list[Plan]:
        """Returns the plans that "best_response" considers for the remaining rounds."""
        return usual_plans(self.strategy, self.models, self.choices, self.payoff, left)

    def _best(self, models: Sequence[str], mine: list[str], theirs: list[str]) -> tuple[str, float]:
        """Returns the best choice against possible co-players and its expected payoff per round.

        Args:
            models: levels the co-player may have, of `self.models`.
            mine: the player's choices so far.
            theirs: the co-player's choices so far.
        """
        left = self.state.rounds - len(mine) if self.announce_rounds else EXPECTED_ROUNDS
        return best_plan(
            self._plans(left), self.strategy, models, self.choices, self.payoff, mine, theirs, left
        )

    def _respond(
        self, models: Sequence[str], mine: list[str], theirs: list[str], rng: np.random.Generator
    ) -> str:
        """Returns the choice of "best_response" (see `_best`)."""
        return self._best(models, mine, theirs)[0]

    def _start(self, task: str) -> None:
        self.state = State(task_number(task))

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields the start of the shortest training task.

        Raises:
            ConfigError: if there are messages.
        """
        refuse_messages(type(self).__name__, self.messages)
        yield 1.0, State(task_number(self.tasks.train[0]))

    def cooperation(self, agent: str) -> tuple[float, ...] | None:
        """Returns 1 for each cooperative choice and 0 for each other one."""
        if self.cooperative is None:
            return None
        return tuple(float(choice == self.cooperative) for choice in self._choices_of(agent)[0])

    def measures(self, agent: str) -> dict[str, float]:
        """Returns the agent's external regret so far."""
        return {"regret": external_regret(self.payoff, self.choices, *self._choices_of(agent))}

    def _talking(self) -> bool:
        return len(self.state.talk) < self.messages

    def _acting(self) -> tuple[str, ...]:
        return self.possible_agents if len(self.state.history) < self.state.rounds else ()

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        played, over = len(state.history), not self._acting()
        limit = f" of {state.rounds}" * self.announce_rounds
        asks = f"Choose: {self.options}."
        if self._talking():
            asks = "Send a message to the other player."
        lines = ["The game is over." if over else f"Round {played + 1}{limit}. {asks}"]
        lines += [
            f"Round {i}: you {self.phrases[pair[me]][0]}, "
            f"the other player {self.phrases[pair[1 - me]][1]}."
            for i, pair in enumerate(state.history, 1)
        ]
        for pair in state.talk:
            lines += [f"You said: {pair[me]}", f"The other player said: {pair[1 - me]}"]
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
        """Returns the choice of "best_response", given the co-player's level if it is known."""
        (other,) = (name for name in self.possible_agents if name != agent)
        level = self.opponents.get(other)
        if agent not in self.acting or self._talking() or level not in self.models:
            return super().expert(agent)
        return self._respond((level,), *self._choices_of(agent), self._aside(agent))

    def _choices_of(self, agent: str) -> tuple[list[str], list[str]]:
        """Returns the choices of the agent and of its co-player so far."""
        me = self.possible_agents.index(agent)
        return [pair[me] for pair in self.state.history], [p[1 - me] for p in self.state.history]
