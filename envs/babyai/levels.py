"""Levels of minigrid's BabyAI, played without images.

Import this module only if minigrid is installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from itertools import product
from typing import Any

import gymnasium

with contextlib.redirect_stdout(io.StringIO()):  # pygame prints a greeting
    import minigrid as minigrid  # registers the levels

from agentgym.envs.babyai.view import (
    DOORS,
    DROP,
    EMPTY,
    MARGIN,
    PICKUP,
    TOGGLE,
    WALL,
    Map,
    code,
)
from agentgym.errors import ConfigError, did_you_mean

PREFIX = "BabyAI-"
DIRECTIONS = ("right", "down", "left", "up")


def known_levels() -> dict[str, str]:
    """Returns the ids of minigrid's BabyAI levels by name, each in its latest version."""
    ids = sorted(id for id in gymnasium.registry if id.startswith(PREFIX))
    return {id.removeprefix(PREFIX).rpartition("-v")[0]: id for id in ids}


def check_level(name: str) -> str:
    """Returns the name of a level without prefix and version.

    Raises:
        ConfigError: if minigrid has no such level.
    """
    short = name.removeprefix(PREFIX).rpartition("-v")[0] or name.removeprefix(PREFIX)
    known = known_levels()
    if short not in known:
        raise ConfigError(f"minigrid has no BabyAI level {name!r}.{did_you_mean(short, known)}")
    return short


MOST_DRAWS = 100_000
"""Random numbers drawn before minigrid's generator is stopped. Levels usually need some hundred."""


def _unseen() -> None:
    """Replaces the level's own observation, which takes most of the time of a step."""


class Level:
    """A level of BabyAI and its map.

    Args:
        name: the name of the level, as in `known_levels`.
    """

    def __init__(self, name: str):
        self.name = name
        # The wrappers of `gymnasium.make` are not needed.
        self.env: Any = gymnasium.make(known_levels()[name], disable_env_checker=True).unwrapped
        self.env.gen_obs = _unseen
        self._draw = self.env._rand_int
        self._draws = 0
        self.env._rand_int = self._counted
        self.map = Map(0, bytearray())

    def reset(self, seed: int) -> str:
        """Generates the level of a seed and returns its mission."""
        self._draws = 0
        with contextlib.redirect_stdout(io.StringIO()):  # minigrid prints the levels it rejects
            self.env.reset(seed=seed)
        grid = self.env.grid
        width = grid.width + 2 * MARGIN
        self.map = Map(width, bytearray([WALL]) * (width * (grid.height + 2 * MARGIN)))
        for y in range(grid.height):
            for x in range(grid.width):
                self.map.cells[self.map.index(x, y)] = _code(grid.get(x, y))
        self._place()
        return self.env.mission

    def _counted(self, low: int, high: int) -> int:
        """Draws an integer, unless a try to generate the level goes on for ever.

        minigrid looks for a cell where the agent faces nothing, also in rooms without such a cell.

        Raises:
            RecursionError: which tells minigrid to try again, with the numbers that follow.
        """
        self._draws += 1
        if self._draws > MOST_DRAWS:
            self._draws = 0
            raise RecursionError(f"no level after {MOST_DRAWS:,} random numbers")
        return self._draw(low, high)

    def before_carrying(self) -> Map:
        """Returns the map with the thing carried at the place where the level first put it."""
        cells = bytearray(self.map.cells)
        cells[self.map.index(*map(int, self.env.carrying.init_pos))] = self.map.carrying
        return dataclasses.replace(self.map, cells=cells)

    def step(self, primitive: int) -> tuple[float, bool]:
        """Takes one primitive step. Returns the reward and whether the mission is over."""
        _, reward, over, _, _ = self.env.step(primitive)
        if primitive in (PICKUP, DROP, TOGGLE):
            self.map.cells[self.map.ahead] = _code(self.env.grid.get(*self.env.front_pos))
        self._place()
        return float(reward), bool(over)

    def _place(self) -> None:
        x, y = self.env.agent_pos
        self.map.position = self.map.index(int(x), int(y))
        self.map.direction = int(self.env.agent_dir)
        self.map.carrying = _code(self.env.carrying)

    def described(self) -> str:
        """Describes the whole level, with the things except walls in order of their distance.

        Positions are columns and rows. A star marks a thing that the mission is about.
        """
        env, goals = self.env, _goals(self.env.instrs)
        x, y = map(int, env.agent_pos)
        things = [("carried", env.carrying)]
        cells = product(range(env.grid.width), range(env.grid.height))
        for i, j in sorted(cells, key=lambda cell: abs(cell[0] - x) + abs(cell[1] - y)):
            things.append((f"at {i} {j}", env.grid.get(i, j)))
        shown = [
            f"{_named(thing)}{'*' * (id(thing) in goals)} {where}"
            for where, thing in things
            if thing is not None and thing.type != "wall"
        ]
        return (
            f"Level: {self.name}. Mission: {env.mission}. At {x} {y}, facing "
            f"{DIRECTIONS[env.agent_dir]}. Steps: {env.step_count} of {env.max_steps}. "
            f"Things: {', '.join(shown)}."
        )

    def done_parts(self) -> tuple[str, float]:
        """Returns the parts of the mission that are done, as a key and as a share of all parts."""
        flags = _flags(self.env.instrs)
        return "".join("01"[flag] for flag in flags), sum(flags) / len(flags)


def _code(thing: Any) -> int:
    return EMPTY if thing is None else code(*thing.encode())


def _named(thing: Any) -> str:
    """Returns the name of a thing, with the state of a door and the content of a box."""
    if thing.type == "door":
        return f"{thing.color} {DOORS[thing.encode()[2]]} door"
    inside = getattr(thing, "contains", None)
    return f"{thing.color} {thing.type}" + ("" if inside is None else f" with {_named(inside)}")


def _goals(instruction: Any) -> set[int]:
    """Returns the identities of the things that an instruction is about."""
    if hasattr(instruction, "instr_a"):
        return _goals(instruction.instr_a) | _goals(instruction.instr_b)
    names = ("desc", "desc_move", "desc_fixed")
    sets = [getattr(instruction, name).obj_set for name in names if hasattr(instruction, name)]
    return {id(thing) for things in sets for thing in things}


def _flags(instruction: Any, done: bool = False) -> list[bool]:
    """Returns for each single instruction of a compound instruction whether it is done."""
    if not hasattr(instruction, "instr_a"):
        return [done]
    parts = []
    for part in "ab":
        part_done = done or getattr(instruction, f"{part}_done", False) == "success"
        parts += _flags(getattr(instruction, f"instr_{part}"), part_done)
    return parts
