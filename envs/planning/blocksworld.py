"""Blocksworld: build towers with a hand that holds one block."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Fact, Facts, Schema, World

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
        ),
        Schema(
            "put down {x}",
            "x:block",
            when="holding x",
            then="clear x, table x, empty, not holding x",
        ),
        Schema(
            "unstack {x} from {y}",
            "x:block y:block",
            when="on x y, clear x, empty",
            then="holding x, clear y, not on x y, not clear x, not empty",
        ),
        Schema(
            "stack {x} on {y}",
            "x:block y:block",
            when="holding x, clear y",
            then="on x y, clear x, empty, not holding x, not clear y",
        ),
    ),
)


@lru_cache
def world(blocks: int) -> World:
    """Returns the world of so many blocks."""
    return World(DOMAIN, {"block": [f"b{i + 1}" for i in range(blocks)]})


def towers(rng: np.random.Generator, blocks: int) -> list[Fact]:
    """Draws towers: each block in a random order goes on the last one or starts a new tower."""
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


class Blocksworld(PlanningEnv):
    """Build the towers that are asked for, moving one block at a time.

    ## Description
    The classic planning domain: blocks stand on a table or on each other, and a hand moves one at
    a time, only from and to the top of a tower. Undoing what is in the way, in the right order, is
    all there is to it; acting greedily on one goal often destroys another.

    ## Action Space
    Text: `pick up b1`, `put down b1`, `unstack b1 from b2`, `stack b1 on b2`.

    ## Observation Space
    Text: the goal, then everything that holds.

    ## Rewards
    1 (term `task`) when the goal holds, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Towers drawn by the task's name, and other towers as the goal; the hand is empty.

    ## Episode End
    Termination: the goal holds. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the largest share of the goal's facts that held at one time, as
    AgentBoard counts it.

    ## Arguments
    `blocks`: 2 to 12. `max_turns`: default 5 a block; a shortest plan takes less than 4.

    ## Example Transcript
    ```
    Goal: b1 is on b2.
    b2 is on b1.
    b1 is on the table.
    b2 is clear.
    your hand is empty.
    > unstack b2 from b1
    Goal: b1 is on b2.
    b1 is on the table.
    b1 is clear.
    you hold b2.
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.05, 5 %, progress 0.29; expert (a shortest
    plan, 9.2 turns) 1.00, 100 %.

    ## Registered Configurations
    `Blocksworld-v0`: 5 blocks.

    ## References
    Gupta and Nau, On the complexity of blocks-world planning, 1992; the four-operator form of the
    planning competitions. AgentBoard (arXiv 2401.13178) plays it with language models.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Blocks stand on a table or on each other. You have one hand, which holds one block at a "
        "time. A block is clear when nothing is on it and you do not hold it. With an empty hand "
        "you can pick up a clear block from the table or unstack a clear block from another one. "
        "What you hold you can put down on the table or stack on a clear block. Make all "
        "sentences of the goal true. Each turn, say one action, such as: pick up b1, put down b1, "
        "unstack b1 from b2, stack b1 on b2."
    )

    def __init__(self, *, blocks: int = 5, max_turns: TurnLimit = "auto", **kwargs):
        if not 2 <= blocks <= 12:
            raise ValueError(f"blocks must be in [2, 12], got {blocks}.")
        self.blocks = blocks
        turns = 5 * blocks if max_turns == "auto" else max_turns
        super().__init__(world=world(blocks), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        goal: Facts = frozenset()
        while not goal:
            goal = frozenset(fact for fact in towers(rng, self.blocks) if fact[0] == "on")
        return frozenset(towers(rng, self.blocks)), goal

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts two actions for every block that has to move, and one for the one in the hand."""
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
