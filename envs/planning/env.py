"""`PlanningEnv`: a STRIPS domain as a text environment."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from agentgym.core import TextEnv, TimeStep
from agentgym.envs.planning.strips import Action, Fact, Facts, World, plan
from agentgym.tasks import Tasks, draw_level, task_rng

LONGEST = 200


@dataclass
class State:
    """Where things are and should be.

    Attributes:
        facts: what holds.
        goal: what must hold.
        best: the largest share of the goal that has held so far.
    """

    facts: frozenset[Fact]
    goal: frozenset[Fact]
    best: float = 0.0


class PlanningEnv(TextEnv):
    """A planning domain: an author gives the world, draws tasks and bounds the distance.

    No start and goal of a test task are those of a training task.

    Args:
        world: the domain and its objects.
        max_turns: turns after which the episode is truncated.
        **kwargs: those of `TextEnv`.
    """

    State = State
    state: State

    def __init__(self, *, world: World, max_turns: int | None, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)
        self.world = world
        self.tasks = Tasks.generated()
        self._ways: dict[tuple[Facts, Facts], str] = {}

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        """Returns a start and a goal that can be reached from it."""

    @staticmethod
    @abstractmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Returns a lower bound of the number of actions to the goal."""

    def _start(self, task: str) -> TimeStep:
        rng = task_rng(task, type(self).__name__)
        facts, goal = draw_level(task, lambda: self._puzzle(rng))
        self.state = State(facts, goal)
        self._ways.clear()
        return self._look()

    def _puzzle(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        """Draws until the goal does not hold at the start."""
        while True:
            facts, goal = self._draw(rng)
            if not goal <= facts:
                return facts, goal

    def _advance(self, action: str) -> TimeStep:
        said = " ".join(action[:LONGEST].lower().split()).rstrip(".")
        meant = self.world.named.get(said)
        if meant is None:
            example = self.world.possible(self.state.facts)[0].text
            return self._invalid(f"There is no action {action[:40]!r}. Say for example: {example}")
        for choice in meant:
            if choice.needs <= self.state.facts:
                self.state.facts = choice(self.state.facts)
                return self._look()
        if any(choice.adds <= self.state.facts for choice in meant):
            return self._invalid("That is so already.")
        return self._invalid(f"Not possible now: it needs that {self._lacks(meant)}.")

    def _lacks(self, meant: list[Action]) -> str:
        """Says what the action that is closest to being possible lacks."""
        missing = min((action.needs - self.state.facts for action in meant), key=len)
        return " and ".join(self.world.sentence(fact) for fact in sorted(missing))

    def _look(self) -> TimeStep:
        state = self.state
        met = len(state.goal & state.facts) / len(state.goal)
        state.best = max(state.best, met)
        done = met == 1.0
        goal = self.world.describe(state.goal).replace("\n", " ")
        possible = () if done else self.world.possible(state.facts)
        return TimeStep(
            text=f"Goal: {goal}\n{self.world.describe(state.facts)}",
            rewards={"task": float(done)},
            terminated=done,
            success=done,
            progress=state.best,
            admissible=tuple(action.text for action in possible),
        )

    def expert(self) -> str | None:
        """Returns the next action of a plan from here: a shortest one unless that takes long."""
        facts, goal = self.state.facts, self.state.goal
        if (facts, goal) not in self._ways:
            way = plan(self.world, facts, goal, self.estimate)
            self._ways.update({(at, goal): action.text for at, action in way or ()})
        return self._ways.get((facts, goal))
