"""`PlanningEnv`: a STRIPS domain as a text environment."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.core import TextEnv
from agentgym.envs.planning.strips import Action, Fact, Facts, World, plan
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep

LONGEST = 200


@dataclass
class State:
    """The current facts and the goal.

    Attributes:
        facts: facts that hold.
        goal: facts that must hold.
        best: maximum so far of the fraction of goal facts that hold.
    """

    facts: frozenset[Fact]
    goal: frozenset[Fact]
    best: float = 0.0


class PlanningEnv(TextEnv):
    """Base class of planning domains.

    A subclass passes the world and implements `_draw` (task generation) and `estimate` (a lower
    bound of the distance to the goal). Training and test tasks share no pair of start and goal.

    Args:
        world: the domain and its objects.
        max_turns: turn limit.
        **kwargs: arguments of `TextEnv`.
    """

    State = State
    state: State

    def __init__(self, world: World, /, *, max_turns: int | None, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)
        self.world = world
        self.tasks = Tasks.generated()
        self._ways: dict[tuple[Facts, Facts], str] = {}

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        """Samples the initial facts and a goal that is reachable from them."""

    @staticmethod
    @abstractmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Returns a lower bound of the number of actions to the goal."""

    def _start(self, task: str) -> TimeStep:
        self.state = self._begin(task)
        self._ways.clear()
        return self._look()

    def _begin(self, task: str) -> State:
        rng = task_rng(task, type(self).__name__)
        facts, goal = draw_level(task, lambda: self._puzzle(rng))
        return State(facts, goal)

    def _puzzle(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        """Samples tasks until the goal does not hold in the initial state."""
        while True:
            facts, goal = self._draw(rng)
            if not goal <= facts:
                return facts, goal

    def _advance(self, action: str) -> TimeStep:
        candidates = self.world.named.get(action) or self.world.read(action[:LONGEST])
        if not candidates:
            example = self.world.possible(self.state.facts)[0].text
            return self._invalid(f"Unknown action {action[:40]!r}. A valid action is: {example}")
        for choice in candidates:
            if choice.needs <= self.state.facts:
                self.state.facts = choice(self.state.facts)
                return self._look()
        if any(choice.adds <= self.state.facts for choice in candidates):
            return self._invalid("This is already the case.")
        return self._invalid(f"Not possible now. Required: {self._missing(candidates)}.")

    def _missing(self, candidates: list[Action]) -> str:
        """Describes the unmet preconditions of the action that has the fewest of them."""
        missing = min((action.needs - self.state.facts for action in candidates), key=len)
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

    def achieved(self) -> Facts | None:
        """Returns the current facts of the goal's predicate as an alternative goal, or None.

        Returns None if the goal has several predicates, if the number of facts differs from that of
        the goal (an object is in a hand or vehicle), or if all of them held in the initial state.
        """
        facts, goal = self.state.facts, self.state.goal
        kinds = {fact[0] for fact in goal}
        reached = frozenset(fact for fact in facts if fact[0] in kinds)
        if len(kinds) > 1 or len(reached) != len(goal) or reached == goal:
            return None
        return None if reached <= self._begin(self.task).facts else reached

    def pursue(self, goal: Facts) -> tuple[str, dict[str, Any]]:
        """Replaces the goal of an episode that has just begun."""
        self.state = State(self.state.facts, goal)
        self._last = self._look()
        return self._last.observation, self._info(self._last)

    def privileged_text(self) -> str:
        """Returns the number of unmet goal facts and a lower bound of the distance to the goal."""
        facts, goal = self.state.facts, self.state.goal
        return f"Unmet: {len(goal - facts)} of {len(goal)}. Actions: {self.estimate(facts, goal)}."

    def expert(self) -> str | None:
        """Returns the next action of a plan (a shortest one unless the search is too long)."""
        facts, goal = self.state.facts, self.state.goal
        if (facts, goal) not in self._ways:
            way = plan(self.world, facts, goal, self.estimate)
            self._ways.update({(at, goal): action.text for at, action in way or ()})
        return self._ways.get((facts, goal))
