"""Gripper: a robot with two hands carries balls between rooms."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Facts, Schema, World

ROOMS = ("kitchen", "hall", "study", "cellar", "attic", "garage")
DOMAIN = Domain(
    sentences={
        "in": "{} is in the {}",
        "carry": "{} is in your {} hand",
        "at": "you are in the {}",
        "free": "your {} hand is free",
    },
    schemas=(
        Schema(
            "go to the {b}",
            "a:room b:room",
            when="at a",
            then="at b, not at a",
            also=("go from {a} to {b}", "move to {b}", "move from {a} to {b}"),
        ),
        Schema(
            "pick up {x} with the {h} hand",
            "x:ball h:hand r:room",
            when="in x r, at r, free h",
            then="carry x h, not in x r, not free h",
            also=(
                "pick {x} up with {h} hand",
                "pick up {x} in {r} with {h} hand",
                "pick up {x} from {r} with {h} hand",
            ),
        ),
        Schema(
            "drop {x}",
            "x:ball h:hand r:room",
            when="carry x h, at r",
            then="in x r, free h, not carry x h",
            also=("drop {x} in {r}", "drop {x} from {h} hand", "drop {x} in {r} with {h} hand"),
        ),
    ),
)


@lru_cache
def world(balls: int, rooms: int) -> World:
    """Returns the world with a number of balls and rooms."""
    names = [f"ball{i + 1}" for i in range(balls)]
    return World(DOMAIN, {"ball": names, "room": ROOMS[:rooms], "hand": ("left", "right")})


class Gripper(PlanningEnv):
    """Carry every ball to its goal room with a robot that has two hands.

    ## Description
    A classic planning domain. The robot can go from any room to any other room, and each hand
    carries one ball. Single steps are easy. Short plans carry two balls at a time and group balls
    with the same route.

    ## Action Space
    Text, one of:

    - `go to the hall`: go to another room.
    - `pick up ball1 with the left hand`: take a ball in the current room with a free hand.
    - `drop ball1`: put a held ball down in the current room.

    ## Observation Space
    Text: the goal, then all facts that currently hold, one sentence per fact.

    ## Rewards
    1 (term `task`) when all goal facts hold, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The rooms of the robot and the balls and the goal rooms are sampled from the task name. Both
    hands are free.

    ## Episode End
    Termination: all goal facts hold. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the maximum so far of the fraction of goal facts that hold, as in
    AgentBoard.

    ## Arguments
    - `balls` (int, default 5): number of balls, 1 to 8.
    - `rooms` (int, default 4): number of rooms, 2 to 6.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 6 per ball. A
      shortest plan takes at most 4 per ball.

    ## References
    The domain of the first International Planning Competition, 1998, with more rooms. AgentBoard
    (arXiv 2401.13178) uses it to evaluate language models.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are a robot with a left and a right hand. Carry balls until every sentence of the "
        "goal is true. Each hand holds one ball.\n"
        "Each turn, reply with one action:\n"
        "- go to the hall: go to another room.\n"
        "- pick up ball1 with the left hand: take a ball in your room. The hand (left or right) "
        "must be free.\n"
        "- drop ball1: put a ball you hold down in your room.\n"
        "The episode ends with a reward of 1 when every sentence of the goal is true."
    )

    def __init__(
        self,
        *,
        balls: int = 5,
        rooms: int = 4,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 1 <= balls <= 8:
            raise ValueError(f"balls must be in [1, 8], got {balls}.")
        if not 2 <= rooms <= len(ROOMS):
            raise ValueError(f"rooms must be in [2, {len(ROOMS)}], got {rooms}.")
        self.balls, self.rooms = balls, rooms
        turns = 6 * balls if max_turns == "auto" else max_turns
        super().__init__(world(balls, rooms), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def place() -> frozenset[tuple[str, ...]]:
            rooms = rng.integers(self.rooms, size=self.balls)
            return frozenset(("in", f"ball{i + 1}", ROOMS[room]) for i, room in enumerate(rooms))

        robot = ROOMS[int(rng.integers(self.rooms))]
        return place() | {("at", robot), ("free", "left"), ("free", "right")}, place()

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts pick-ups, drops and the moves between rooms, with at most two balls per move."""
        at = {fact[1]: fact[2] for fact in facts if fact[0] == "in"}
        (robot,) = (fact[1] for fact in facts if fact[0] == "at")
        hands, carried, rooms = 0, 0, set()
        for _, ball, room in goal:
            if at.get(ball) != room:
                hands += 2 if ball in at else 1
                rooms |= {at.get(ball, room), room}
                carried += ball in at or room != robot
        return hands + max(len(rooms - {robot}), (carried + 1) // 2)
