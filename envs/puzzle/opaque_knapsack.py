"""OpaqueKnapsack: a knapsack problem whose items must be inspected before packing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from agentgym.core import TextEnv, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain

ITEMS = {"easy": (25, 40), "hard": (80, 120)}
"""Minimum and maximum number of items."""
CLASSES = "ABCDEFGHIJ"
ALLOWED = 2
WEIGHTS, VALUES = (1, 20), (1, 50)
CAPACITY = (0.35, 0.6)
"""Minimum and maximum capacity, as a share of the weight of all items of allowed classes."""
LETTERS = "bcdfghjkmnpqrstvwxz23456789"
"""Characters of names, without vowels so that no name is a word."""
ACTION = re.compile(r"\s*(inspect|take)\s+(\w+)\s*", re.ASCII | re.I)


@dataclass(frozen=True)
class Item:
    """An item: weight, value and class."""

    weight: int
    value: int
    kind: str


@dataclass(frozen=True)
class Problem:
    """A task.

    Attributes:
        items: the items by name.
        allowed: the classes that may be packed.
        capacity: maximum total weight.
        budget: maximum number of inspections.
        best: value of the optimal packing.
    """

    items: dict[str, Item]
    allowed: tuple[str, str]
    capacity: int
    budget: int
    best: int


@dataclass
class State:
    """The names of the inspected and of the packed items, in order."""

    inspected: list[str] = field(default_factory=list)
    packed: list[str] = field(default_factory=list)


def best_packing(items: Sequence[tuple[str, Item]], capacity: int) -> list[str]:
    """Returns the names of the items of an optimal packing within a capacity."""
    best = np.zeros((len(items) + 1, capacity + 1), dtype=np.int64)
    for i, (_, item) in enumerate(items):
        best[i + 1] = best[i]
        if item.weight <= capacity:
            with_it = best[i, : capacity + 1 - item.weight] + item.value
            best[i + 1, item.weight :] = np.maximum(best[i, item.weight :], with_it)
    chosen = []
    for i in range(len(items), 0, -1):
        if best[i, capacity] > best[i - 1, capacity]:
            chosen.append(items[i - 1][0])
            capacity -= items[i - 1][1].weight
    return chosen[::-1]


@lru_cache(maxsize=1024)
def make_problem(task: str, difficulty: str) -> Problem:
    """Returns the problem of a task. Its optimum needs several items and none dominates."""
    rng = task_rng(task, f"opaque knapsack {difficulty}")
    low, high = ITEMS[difficulty]
    while True:
        count = int(rng.integers(low, high + 1))
        kinds = rng.choice(list(CLASSES), size=ALLOWED, replace=False).tolist()
        names = ["".join(rng.choice(list(LETTERS), size=4)) for _ in range(count)]
        weights = rng.integers(WEIGHTS[0], WEIGHTS[1] + 1, size=count).tolist()
        values = rng.integers(VALUES[0], VALUES[1] + 1, size=count).tolist()
        classes = rng.choice(list(CLASSES), size=count).tolist()
        items = {
            name: Item(weight, value, kind)
            for name, weight, value, kind in zip(names, weights, values, classes, strict=True)
        }
        fitting = [(name, item) for name, item in items.items() if item.kind in kinds]
        if len(items) < count or len(fitting) < 5:
            continue
        total = sum(item.weight for _, item in fitting)
        capacity = round(total * float(rng.uniform(*CAPACITY)))
        chosen = best_packing(fitting, capacity)
        worth = [items[name].value for name in chosen]
        if len(chosen) < 3 or max(worth) > 0.4 * sum(worth):
            continue
        # Enough to find 1.5 times the capacity on average, and more than the optimum needs.
        found = 1.5 * capacity / (sum(WEIGHTS) / 2) / (ALLOWED / len(CLASSES))
        budget = min(max(math.ceil(max(found, 1.1 * len(chosen))), 5), count)
        first, second = sorted(kinds)
        return Problem(items, (first, second), capacity, budget, sum(worth))


class OpaqueKnapsack(TextEnv):
    """A knapsack problem with hidden items: inspect some of them and pack the most valuable ones.

    ## Description
    The weight, value and class of an item are hidden until it is inspected, and the number of
    inspections is limited. Only items of two of ten classes may be packed.

    ## Action Space
    Text:

    - `inspect x7fd`: shows an item.
    - `take x7fd`: packs an inspected item.
    - `finish`: ends the episode.

    ## Observation Space
    Text: the capacity and its used part, the inspections left, the inspected items, and the names
    of the others.

    ## Rewards
    Term `task`: when an item is packed, its value divided by the value of the optimal packing of
    all items. The return is the score of the original.

    ## Starting State
    Nothing is inspected or packed. The task determines:

    - items with weights from 1 to 20 and values from 1 to 50,
    - a capacity of 35 to 60 % of the weight of all allowed items,
    - a number of inspections that finds, on average, one and a half times the capacity.

    The optimal packing has at least 3 items, none with more than 40 % of its value.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns`.

    ## Information
    The common keys.

    - `success`: at the end, the packing is optimal among all items, inspected or not.
    - `progress`: the packed value as a share of the optimum.

    ## Arguments
    - `difficulty` ("easy" or "hard", default "easy"): 25 to 40 or 80 to 120 items.
    - `max_turns` (int, default twice the largest number of items): turns before truncation.

    ## Notes
    The expert inspects as many items as possible and packs the best of them. No policy has a higher
    expected score.

    ## References
    Opaque Knapsack (arXiv 2603.01209): items, capacity, inspections, conditions on the optimal
    packing, and score. In its code, an item can be taken without inspection, although its rules
    forbid it.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Pack items into a knapsack. Maximise their total value without exceeding the capacity.\n"
        "\n"
        "Rules:\n"
        "- The weight, value and class of an item are hidden until you inspect it.\n"
        "- The number of inspections is limited.\n"
        "- You can only take inspected items of the allowed classes. You cannot put them back.\n"
        "\n"
        "Actions:\n"
        "- inspect NAME, for example: inspect x7fd\n"
        "- take NAME, for example: take x7fd\n"
        "- finish, when you are done\n"
        "\n"
        "Score: the value of your items divided by the best possible value."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.unsolvable_tasks": "success is the optimum of all items, inspected or not",
        "semantic.canary_floor": "packing all that fits earns a large share of the optimum",
    }

    def __init__(self, *, difficulty: str = "easy", max_turns: TurnLimit = "auto", **kwargs):
        if difficulty not in ITEMS:
            hint = did_you_mean(difficulty, ITEMS)
            raise ValueError(f"difficulty must be easy or hard, got {difficulty!r}.{hint}")
        usual = 2 * ITEMS[difficulty][1]
        super().__init__(max_turns=usual if max_turns == "auto" else max_turns, **kwargs)
        self.difficulty = difficulty
        self.tasks = Tasks.generated()

    def _problem(self) -> Problem:
        return make_problem(self.task, self.difficulty)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        if plain(action[:100]) == "finish":
            return self._look(finished=True)
        found = ACTION.fullmatch(plain(action[:100]))
        if found is None:
            return self._invalid(
                "Answer with inspect NAME, take NAME or finish, for example: inspect x7fd"
            )
        verb, name = found[1].lower(), found[2].lower()
        wrong = self._objection(verb, name)
        if wrong:
            return self._invalid(wrong)
        if verb == "inspect":
            self.state.inspected.append(name)
            return self._look()
        self.state.packed.append(name)
        problem = self._problem()
        return self._look(problem.items[name].value / problem.best)

    def _objection(self, verb: str, name: str) -> str:
        """Returns the reason why an item cannot be inspected or taken, or an empty string."""
        state, problem = self.state, self._problem()
        item = problem.items.get(name)
        if item is None:
            return f"There is no item {name[:40]!r}."
        if verb == "inspect":
            if name in state.inspected:
                return f"You have already inspected {name}."
            return "" if len(state.inspected) < problem.budget else "No inspections are left."
        if name not in state.inspected:
            return f"Inspect {name} before you take it."
        if name in state.packed:
            return f"You have already packed {name}."
        if item.kind not in problem.allowed:
            return f"Items of class {item.kind} are not allowed."
        return (
            ""
            if item.weight <= self._room()
            else f"{name} is too heavy for the remaining capacity."
        )

    def _room(self) -> int:
        problem = self._problem()
        return problem.capacity - sum(problem.items[name].weight for name in self.state.packed)

    def _look(self, paid: float = 0.0, finished: bool = False) -> TimeStep:
        state, problem = self.state, self._problem()
        items, room = problem.items, self._room()
        seen, packed = set(state.inspected), set(state.packed)
        left = problem.budget - len(seen)
        unseen = [name for name in items if name not in seen]
        value = sum(items[name].value for name in packed)
        lines = [
            f"Capacity: {problem.capacity}, used: {problem.capacity - room}. Inspections left: "
            f"{left}. Allowed classes: {', '.join(problem.allowed)}.",
            "Inspected:" + " none" * (not seen),
        ]
        for name in state.inspected:
            item, note = items[name], ", packed" * (name in packed)
            lines.append(
                f"{name}: weight {item.weight}, value {item.value}, class {item.kind}{note}"
            )
        lines.append(f"Not inspected: {' '.join(unseen)}")
        takes = [f"take {name}" for name in state.inspected if not self._objection("take", name)]
        inspects = [f"inspect {name}" for name in unseen] if left else []
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": paid},
            terminated=finished,
            success=finished and value == problem.best,
            progress=value / problem.best,
            admissible=() if finished else (*takes, *inspects, "finish"),
            state_key=f"{self.task} {sorted(seen)} {sorted(packed)}",
        )

    def expert(self) -> str | None:
        """Returns an inspection while any is left, then the items of the best known packing."""
        state, problem = self.state, self._problem()
        unseen = (name for name in problem.items if name not in state.inspected)
        name = next(unseen, None)
        if name is not None and len(state.inspected) < problem.budget:
            return f"inspect {name}"
        known = [
            (name, problem.items[name])
            for name in state.inspected
            if name not in state.packed and problem.items[name].kind in problem.allowed
        ]
        chosen = best_packing(known, self._room())
        return f"take {chosen[0]}" if chosen else "finish"
