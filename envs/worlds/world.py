"""Worlds: rules with layers of words, observations and rewards, which are checked exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from agentgym.envs.worlds.kinds import KINDS
from agentgym.envs.worlds.rules import Rules, Values, load_rules
from agentgym.errors import DataError
from agentgym.tasks import draw_level, is_test_level, task_rng
from agentgym.utils.file_cache import cached_by_files

DRAWN = "drawn"
WORDS = ("told", "named", "invented", "inverse")
OBSERVATIONS = ("full", "changes", "hidden")
REWARDS = ("goal", "progress", "price")
LAYERS = {"words": WORDS, "observation": OBSERVATIONS, "reward": REWARDS}
"""The choices of each layer but the dynamics."""
STATES = (6, 5000)
"""Least and largest number of states of a world."""
DISTANCE = (2, 8)
"""Least and largest number of actions to the goal of a level."""
LUCK = 0.5
"""Largest probability that random actions reach the goal of a level within the turn limit."""
SYLLABLES = ("ba", "do", "fe", "gi", "ku", "lo", "mi", "ne", "pu", "ra", "so", "tu", "va", "ze")
TRIES = 200
"""Draws of a world until one passes."""
LEVELS = (5, 100)
"""Least number of levels that a number of draws has to give."""


@dataclass(frozen=True)
class World:
    """A world: its rules and layers.

    Attributes:
        rules: the dynamics.
        names: the actions by the names that the agent sees.
        words: what is said about actions: their effect is "told", their names say it ("named"),
            their names are "invented", or each has the name of another one ("inverse").
        observation: "full", "changes" (variables that the last action changed), or "hidden" (all
            but one variable).
        reward: "goal" (1 at the goal), "progress" (the share of the distance, at each action) or
            "price" (1 at the goal, minus a price per action).
        hidden: the hidden variable, if any.
    """

    rules: Rules
    names: dict[str, str]
    words: str = "told"
    observation: str = "full"
    reward: str = "goal"
    hidden: str = ""

    @cached_property
    def states(self) -> list[Values]:
        """The states that the first one leads to, at most one more than are allowed."""
        found = [(0,) * len(self.rules.variables)]
        known = {*found}
        for state in found:
            for action in self.rules.actions:
                after = self.rules.move(state, action)
                if after not in known and len(found) <= STATES[1]:
                    known.add(after)
                    found.append(after)
        return found

    @cached_property
    def places(self) -> dict[Values, int]:
        """The place of each state in `states`."""
        return {state: i for i, state in enumerate(self.states)}

    @cached_property
    def moves(self) -> np.ndarray:
        """The state that each action leads to: integers (actions, states)."""
        moves = [
            [self.places[self.rules.move(state, action)] for state in self.states]
            for action in self.rules.actions
        ]
        return np.array(moves, dtype=np.int64)

    @cached_property
    def _values(self) -> np.ndarray:
        """The states as integers (states, variables)."""
        return np.array(self.states, dtype=np.int64)

    def distances(self, reached: np.ndarray) -> np.ndarray:
        """Returns the least number of actions from each state to a set of states, -1 if none.

        Args:
            reached: whether each state is in the set.
        """
        left = np.where(reached, 0, -1)
        for step in range(len(self.states)):
            near = ((left == step)[self.moves].any(0)) & (left < 0)
            if not near.any():
                break
            left[near] = step + 1
        return left

    def met(self, goal: Mapping[str, str]) -> np.ndarray:
        """Returns whether each state meets a goal."""
        variables = [*self.rules.variables]
        places = [variables.index(name) for name in goal]
        wanted = [self.rules.variables[name].index(value) for name, value in goal.items()]
        return (self._values[:, places] == wanted).all(1)

    def luck(self, start: int, reached: np.ndarray, turns: int, enough: float = 1.0) -> float:
        """Returns the exact probability that random actions reach a set of states.

        Args:
            start: the first state.
            reached: whether each state is in the set.
            turns: number of actions.
            enough: a larger probability is not counted to its end.
        """
        at = np.zeros(len(self.states))
        at[start] = 1.0
        won = 0.0
        moves, share = self.moves.ravel(), np.empty(self.moves.shape)
        for _ in range(turns):
            if won > enough:
                break
            share[:] = at / len(self.moves)
            at = np.bincount(moves, share.ravel(), len(self.states))
            won += float(at[reached].sum())
            at[reached] = 0.0
        return won

    def level(self, task: str, turns: int) -> Level:
        """Returns the level of a task in a world that passes `check_world`.

        Its goal is 2 to 8 actions away, no more than the turn limit, and random actions reach it
        in at most half of the episodes.

        Args:
            task: the task.
            turns: the turn limit.
        """
        rng = task_rng(task, "level of a world")

        def draw() -> Level:
            while True:
                if (found := self.draw(rng, turns)) is not None:
                    return found

        return draw_level(task, draw)

    def draw(self, rng: np.random.Generator, turns: int) -> Level | None:
        """Draws two states, and returns their level, or None if it is too easy or too long."""
        start, end = (int(i) for i in rng.integers(len(self.states), size=2))
        last = dict(zip(self.rules.variables, self.states[end], strict=True))
        goal = {name: self.rules.variables[name][last[name]] for name in self.rules.goal}
        reached = self.met(goal)
        least, largest = DISTANCE
        if not least <= self.distances(reached)[start] <= min(largest, turns):
            return None
        lucky = self.luck(start, reached, turns, LUCK) > LUCK
        return None if lucky else Level(self.states[start], goal)


@dataclass(frozen=True)
class Level:
    """A level of a world: its first state, and the values that the goal asks for."""

    start: Values
    goal: dict[str, str]


def check_world(world: World, turns: int) -> list[str]:
    """Returns what is wrong with a world, in words, [] if nothing is.

    All states are visited, so that the answers are exact.

    Args:
        world: the world.
        turns: the turn limit of its episodes.
    """
    count = len(world.states)
    if not STATES[0] <= count <= STATES[1]:
        bound = f"more than {STATES[1]}" if count > STATES[1] else str(count)
        return [f"it has {bound} states, not {STATES[0]} to {STATES[1]}"]
    problems = []
    for action, after in zip(world.rules.actions, world.moves, strict=True):
        if (after == np.arange(count)).all():
            problems.append(f"the action {action!r} never changes anything")
    if len({after.tobytes() for after in world.moves}) < len(world.moves):
        problems.append("two actions always do the same")
    first = np.arange(count) == 0
    if stuck := int((world.distances(first) < 0).sum()):
        problems.append(f"there is no way back to the first state from {stuck} of {count} states")
    for i, name in enumerate(world.rules.variables):
        if len({state[i] for state in world.states}) < 2:
            problems.append(f"the variable {name!r} never changes")
    if world.hidden and len(world.rules.variables) < 2:
        problems.append("its only variable is hidden")
    if not problems:
        (least, draws), rng = LEVELS, np.random.default_rng(0)
        levels = (True for _ in range(draws) if world.draw(rng, turns) is not None)
        found = len([*islice(levels, least)])  # no more are needed
        if found < least:
            problems.append(
                f"{found} of {draws} pairs of states make a level, not {least}: its goal must be "
                f"{DISTANCE[0]} to {min(DISTANCE[1], turns)} actions away, and random actions may "
                f"reach it in at most {LUCK:.0%} of the episodes"
            )
    return problems


def difficulty(rules: Rules, turns: int = 30, levels: int = 40) -> float:
    """Returns the mean number of actions that the levels of some rules need.

    Args:
        rules: rules that pass `check_world`.
        turns: turn limit of the levels.
        levels: number of levels.
    """
    world = World(rules, {name: name for name in rules.actions})
    found = [world.level(f"train/{i}", turns) for i in range(levels)]
    needed = [world.distances(world.met(x.goal))[world.places[x.start]] for x in found]
    return float(np.mean(needed))


@cached_by_files("dynamics", maxsize=256)
def make_world(
    name: str, turns: int, dynamics: str, words: str, observation: str, reward: str
) -> World:
    """Returns a world that passes `check_world`.

    Drawn worlds of test tasks and other worlds differ in more than names (see `Rules.content`). The
    rules of a file are those of all tasks.

    Args:
        name: name of the world, which seeds all that is drawn: a task, or "world/" and a number.
        turns: the turn limit.
        dynamics: a key of `KINDS`, "drawn", or a file of rules that ends in .json.
        words: one of `WORDS`, or "drawn", and so on for each layer.
        observation: the layer of observations.
        reward: the layer of rewards.

    Raises:
        DataError: if the rules of a file do not pass.
    """
    rng = task_rng(name, "world")
    chosen = {"dynamics": dynamics, "words": words, "observation": observation, "reward": reward}
    for layer, choices in {"dynamics": tuple(KINDS), **LAYERS}.items():
        drawn = choices[int(rng.integers(len(choices)))]  # always, so that other layers stay equal
        if chosen[layer] == DRAWN:
            chosen[layer] = drawn
    kind = chosen.pop("dynamics")
    problems = ["none belongs to its split"]
    for _ in range(TRIES if kind in KINDS else 1):
        rules = KINDS[kind](rng) if kind in KINDS else load_rules(kind)
        if kind in KINDS and is_test_level(rules.content()) != name.startswith("test/"):
            continue
        world = _with_layers(rules, task_rng(name, "layers"), **chosen)
        if not (problems := check_world(world, turns)):
            return world
    raise DataError(f"The rules of {kind} make no good world: {'; '.join(problems)}.")


def _with_layers(
    rules: Rules, rng: np.random.Generator, words: str, observation: str, reward: str
) -> World:
    actions = list(rules.actions)
    names = list(actions)
    if words == "invented":
        made: dict[str, None] = {}
        while len(made) < len(names):
            made["".join(rng.choice(SYLLABLES, 2))] = None
        names = list(made)
    elif words == "inverse":
        turn = 1 + int(rng.integers(max(1, len(names) - 1)))
        names = names[turn:] + names[:turn]
    hidden = ""
    if observation == "hidden":
        hidden = [*rules.variables][int(rng.integers(len(rules.variables)))]
    return World(rules, dict(zip(names, actions, strict=True)), words, observation, reward, hidden)
