"""Blocksworld: build towers with a hand that holds one block."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Fact, Facts, Schema, World
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, BROWN, GOLD, GREEN, PINK, PURPLE, RED

DOMAIN = Domain(
    sentences={
        "on": "{} is on {}",
        "table": "{} is on the table",
        "clear": "{} is clear",
        "holding": "you hold {}",
        "empty": "your hand is empty",
    },
    schemas=(
        Schema(
            "pick up {x}",
            "x:block",
            when="clear x, table x, empty",
            then="holding x, not clear x, not table x, not empty",
            also=(
                "pick {x} up",
                "pick up {x} from table",
                "pick {x} up from table",
                "unstack {x} from table",
            ),
        ),
        Schema(
            "put down {x}",
            "x:block",
            when="holding x",
            then="clear x, table x, empty, not holding x",
            also=(
                "put {x} down",
                "put down {x} on table",
                "put down {x} onto table",
                "put {x} down on table",
                "put {x} down onto table",
                "put {x} on table",
                "place {x} on table",
                "stack {x} on table",
            ),
        ),
        Schema(
            "unstack {x} from {y}",
            "x:block y:block",
            when="on x y, clear x, empty",
            then="holding x, clear y, not on x y, not clear x, not empty",
            also=(
                "unstack {x} from on top of {y}",
                "unstack {x} from top of {y}",
                "unstack {x} {y}",
                "pick up {x} from {y}",
                "pick up {x} from on top of {y}",
            ),
        ),
        Schema(
            "stack {x} on {y}",
            "x:block y:block",
            when="holding x, clear y",
            then="on x y, clear x, empty, not holding x, not clear y",
            also=(
                "stack {x} on top of {y}",
                "stack {x} onto {y}",
                "stack {x} {y}",
                "put {x} on {y}",
                "put {x} on top of {y}",
                "put down {x} on {y}",
                "put down {x} on top of {y}",
                "place {x} on {y}",
                "place {x} on top of {y}",
            ),
        ),
    ),
)


MYSTERY = Domain(
    sentences={
        "on": "{} craves {}",
        "table": "{} is a planet",
        "clear": "{} is a province",
        "holding": "{} is in pain",
        "empty": "there is harmony",
    },
    schemas=tuple(
        replace(schema, text=text, also=(text.replace(" from", ""),))
        for schema, text in zip(
            DOMAIN.schemas,
            ("attack {x}", "succumb {x}", "feast {x} from {y}", "overcome {x} from {y}"),
            strict=True,
        )
    ),
)
"""The same domain under names that say nothing about it."""


@lru_cache
def world(blocks: int, mystery: bool = False) -> World:
    """Returns the world with a number of blocks."""
    names = [f"b{i + 1}" for i in range(blocks)]
    return World(MYSTERY if mystery else DOMAIN, {"block": names})


def towers(rng: np.random.Generator, blocks: int) -> list[Fact]:
    """Samples towers: in random order, each block goes on the last one or starts a new tower."""
    facts: list[Fact] = [("empty",)]
    last = ""
    for number in rng.permutation(blocks):
        block = f"b{number + 1}"
        new = not last or rng.random() < 0.35
        facts.append(("table", block) if new else ("on", block, last))
        if new and last:
            facts.append(("clear", last))
        last = block
    return [*facts, ("clear", last)]


MYSTERY_INSTRUCTIONS = (
    "Act until every sentence of the goal is true.\n"
    "Each turn, reply with one action:\n"
    "- attack b1: needs that b1 is a province and a planet, and harmony. Afterwards b1 is in pain, "
    "and these no longer hold.\n"
    "- succumb b1: needs that b1 is in pain. Afterwards b1 is a province and a planet, there is "
    "harmony, and b1 is not in pain.\n"
    "- feast b1 from b2: needs that b1 craves b2, b1 is a province, and harmony. Afterwards b1 is "
    "in pain, b2 is a province, and the needs no longer hold.\n"
    "- overcome b1 from b2: needs that b1 is in pain and b2 is a province. Afterwards b1 craves "
    "b2, b1 is a province, there is harmony, and the needs no longer hold.\n"
    "The episode ends with a reward of 1 when every sentence of the goal is true."
)


def _block(name: str) -> Cell:
    color = (RED, GOLD, GREEN, BLUE, PURPLE, PINK)[int(name[1:]) % 6]
    return Cell(shape="box", color=color, label=name, width=0.96)


class Blocksworld(PlanningEnv):
    """Rearrange blocks into goal towers, moving one block at a time.

    ## Description
    The classic planning domain. Blocks stand on a table or on each other, and a hand moves one
    block at a time from and to the top of a tower. Obstructing blocks have to be moved in the right
    order. Acting greedily on one goal often destroys another.

    ## Action Space
    Text, one of:

    - `pick up b1`: take a clear block from the table with an empty hand.
    - `unstack b1 from b2`: take a clear block off another block with an empty hand.
    - `put down b1`: put the held block on the table.
    - `stack b1 on b2`: put the held block on a clear block.

    ## Observation Space
    Text: the goal, then all facts that currently hold, one sentence per fact.

    ## Rewards
    1 (term `task`) when all goal facts hold, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Towers and goal towers sampled from the task name. The hand is empty.

    ## Episode End
    Termination: all goal facts hold. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the maximum so far of the fraction of goal facts that hold, as in
    AgentBoard.

    ## Arguments
    - `blocks` (int, default 5): number of blocks, 2 to 12.
    - `mystery` (bool, default False): whether facts and actions have names that do not fit blocks:
      `attack b1` picks up, `succumb b1` puts down, `feast b1 from b2` unstacks, `overcome b1 from
      b2` stacks.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 5 per block. A
      shortest plan takes fewer than 4 per block.

    ## References
    Gupta and Nau, On the complexity of blocks-world planning, 1992, in the four-operator form of
    the planning competitions. AgentBoard (arXiv 2401.13178) uses it to evaluate language models.
    Mystery Blocksworld: Valmeekam et al., On the Planning Abilities of Large Language Models: A
    Critical Investigation, arXiv 2305.15771.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Move blocks until every sentence of the goal is true. Your hand holds one block at a "
        "time. A block is clear if no block is on it and you do not hold it.\n"
        "Each turn, reply with one action:\n"
        "- pick up b1: take the clear block b1 from the table. Your hand must be empty.\n"
        "- unstack b1 from b2: take the clear block b1 off b2. Your hand must be empty.\n"
        "- put down b1: put the block you hold on the table.\n"
        "- stack b1 on b2: put the block you hold on the clear block b2.\n"
        "The episode ends with a reward of 1 when every sentence of the goal is true."
    )

    def __init__(
        self, *, blocks: int = 5, mystery: bool = False, max_turns: TurnLimit = "auto", **kwargs
    ):
        if not 2 <= blocks <= 12:
            raise ValueError(f"blocks must be in [2, 12], got {blocks}.")
        self.blocks = blocks
        turns = 5 * blocks if max_turns == "auto" else max_turns
        super().__init__(world(blocks, mystery), max_turns=turns, **kwargs)
        if mystery:
            self.instructions = MYSTERY_INSTRUCTIONS

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        goal: Facts = frozenset()
        while not goal:
            goal = frozenset(fact for fact in towers(rng, self.blocks) if fact[0] == "on")
        return frozenset(towers(rng, self.blocks)), goal

    def _frame(self) -> Scene:
        facts, blocks = self.state.facts, self.blocks
        upper = {fact[2]: fact[1] for fact in facts if fact[0] == "on"}
        columns = []
        for number in range(blocks):
            tower = [f"b{number + 1}"] if ("table", f"b{number + 1}") in facts else []
            while tower and tower[-1] in upper:
                tower.append(upper[tower[-1]])
            columns.append([*map(_block, tower), *[Cell()] * (blocks - len(tower))])
        held = [_block(fact[1]) for fact in facts if fact[0] == "holding"]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return Scene([held, *reversed(rows), [Cell(BROWN)] * blocks], lines=False)

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts two actions per block that has to move, and one for a held block."""
        under = {fact[1]: fact[2] for fact in facts if fact[0] == "on"}
        wanted = {fact[1]: fact[2] for fact in goal}
        wanted_on = {fact[2]: fact[1] for fact in goal}
        held = next((fact[1] for fact in facts if fact[0] == "holding"), None)
        stays: dict[str, bool] = {}

        def settled(block: str) -> bool:
            if block not in stays:
                below = under.get(block)
                right = wanted.get(block, below) == below
                if below is not None:
                    right = right and wanted_on.get(below, block) == block and settled(below)
                stays[block] = right
            return stays[block]

        moves = sum(not settled(fact[1]) for fact in facts if fact[0] in ("on", "table"))
        return 2 * moves + (held is not None and (held in wanted or moves > 0))
