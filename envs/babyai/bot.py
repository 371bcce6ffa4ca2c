"""The expert of BabyAI-Text: minigrid's bot, with its steps combined into macro actions."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from minigrid.utils.baby_ai_bot import BabyAIBot, DisappearedBoxError

from agentgym.envs.babyai.levels import Level
from agentgym.envs.babyai.view import Map, Scene, move

LONGEST = 1000
"""Steps after which a plan is abandoned."""

SEARCHES = 200
"""Path searches in one step after which the bot is considered stuck."""

STUCK = (AssertionError, AttributeError, DisappearedBoxError, IndexError, RuntimeError, TypeError)
"""Errors of the bot in states that it cannot handle: an assertion, an error of its own, the search
limit, or the use of a cell or a path that is None."""

Place = tuple[int, int, int, bytes]


class Bot(BabyAIBot):
    """minigrid's bot with a limit on path searches, which can otherwise go on forever."""

    searches = 0

    def replan(self, action_taken: Any = None) -> Any:
        """Returns the next step after the one taken."""
        self.searches = 0
        return super().replan(action_taken)

    def _breadth_first_search(self, *args: Any, **kwargs: Any) -> Any:
        self.searches += 1
        if self.searches > SEARCHES:
            raise RuntimeError("The bot is stuck.")
        return super()._breadth_first_search(*args, **kwargs)


@dataclass
class Plan:
    """The course of the game if the bot plays on.

    Attributes:
        places: the state of the map before the first step and after each step.
        parts: the parts of the mission that are done at each place.
        solves: whether the mission is over at the end. If not, the bot is stuck there.
    """

    places: list[Place]
    parts: list[str]
    solves: bool = False


def place(grid: Map) -> Place:
    """Returns the current state of a map."""
    return grid.position, grid.direction, grid.carrying, bytes(grid.cells)


def foresee(level: Level) -> Plan:
    """Returns the bot's plan from the current state, without changing the level."""
    level = copy.deepcopy(level)
    plan = Plan([place(level.map)], [level.done_parts()[0]])
    bot = action = None
    while len(plan.places) < LONGEST and not plan.solves:
        try:
            bot = bot or Bot(level.env)
            action = bot.replan(action)
        except STUCK:
            break
        if action == level.env.actions.done:
            break
        _, plan.solves = level.step(int(action))
        plan.places.append(place(level.map))
        plan.parts.append(level.done_parts()[0])
    return plan


def next_macro(scene: Scene, grid: Map, plan: Plan) -> str:
    """Returns the first of the actions that get furthest along the rest of a plan.

    Args:
        scene: the things in view and the admissible actions.
        grid: the map.
        plan: the bot's plan, whose first place is the current one.
    """
    hint = "" if plan.solves else _beyond_the_bot(scene)
    if hint:
        return hint
    # The action must not skip a part of the mission that the plan completes on the way.
    within = next((i for i, p in enumerate(plan.parts) if p != plan.parts[0]), len(plan.parts) - 1)
    index = {where: i for i, where in enumerate(plan.places[: within + 1])}
    best, chosen = 0, "turn left"
    for name, primitives in scene.actions.items():
        reached = index.get(_outcome(grid, primitives), 0)
        if reached > best:
            best, chosen = reached, name
    return chosen


def _outcome(grid: Map, primitives: list[int]) -> Place:
    """Returns the place where a macro action ends: it stops if a step does not change the view."""
    after = Map(grid.width, bytearray(grid.cells), *place(grid)[:3])
    view = after.view()
    for primitive in primitives:
        move(after, primitive)
        before, view = view, after.view()
        if view == before:
            break
    return place(after)


def _beyond_the_bot(scene: Scene) -> str:
    """Returns an action that the bot never plans: drop a thing, go to a box or open it."""
    if "drop" in scene.actions:
        return "drop"
    for name, way in scene.actions.items():
        if name.startswith("go to") and " box " in name:
            return name if way else "toggle" if "toggle" in scene.actions else ""
    return ""
