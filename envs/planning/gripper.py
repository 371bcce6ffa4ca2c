"""Gripper: a robot with two hands brings balls to their rooms."""

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
        Schema("go to the {b}", "a:room b:room", when="at a", then="at b, not at a"),
        Schema(
            "pick up {x} with the {h} hand",
            "x:ball h:hand r:room",
            when="in x r, at r, free h",
            then="carry x h, not in x r, not free h",
        ),
        Schema(
            "drop {x}",
            "x:ball h:hand r:room",
            when="carry x h, at r",
            then="in x r, free h, not carry x h",
        ),
    ),
)


@lru_cache
def world(balls: int, rooms: int) -> World:
    """Returns the world of so many balls and rooms."""
    names = [f"ball{i + 1}" for i in range(balls)]
    return World(DOMAIN, {"ball": names, "room": ROOMS[:rooms], "hand": ("left", "right")})


class Gripper(PlanningEnv):
    """Bring every ball to its room with a robot that has two hands.

    ## Description
    A classic planning domain. Every room can be reached from every other, balls lie about, each
    hand carries one. Single steps are easy; short plans carry two balls at a time and group what
    goes the same way.

    ## Action Space
    Text: `go to the hall`, `pick up ball1 with the left hand`, `drop ball1`.

    ## Observation Space
    Text: the goal, then everything that holds.

    ## Rewards
    1 (term `task`) when the goal holds, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The robot, the balls and their goals are in rooms drawn by the task's name; hands are free.

    ## Episode End
    Termination: the goal holds. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the largest share of the goal's facts that held at one time, as
    AgentBoard counts it.

    ## Arguments
    `balls`: 1 to 8. `rooms`: 2 to 6. `max_turns`: default 6 a ball; a shortest plan takes at most
    4.

    ## Example Transcript
    ```
    Goal: ball1 is in the hall.
    ball1 is in the kitchen.
    you are in the kitchen.
    your left hand is free. your right hand is free.
    > pick up ball1 with the left hand
    Goal: ball1 is in the hall.
    ball1 is in your left hand.
    you are in the kitchen.
    your right hand is free.
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.00, 0 %, progress 0.34; expert (a shortest
    plan, 11.6 turns) 1.00, 100 %.

    ## Registered Configurations
    `Gripper-v0`: 5 balls, 4 rooms.

    ## References
    The domain is of the first International Planning Competition, 1998, with more rooms.
    AgentBoard (arXiv 2401.13178) plays it with language models.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are a robot with a left and a right hand; each holds one ball. From every room you "
        "can go to every other one. With a free hand you can pick up a ball that is in your room; "
        "a ball you hold you can drop in your room. Make all sentences of the goal true. Each "
        "turn, say one action, such as: go to the hall, pick up ball1 with the left hand, drop "
        "ball1."
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
        super().__init__(world=world(balls, rooms), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def place() -> frozenset[tuple[str, ...]]:
            rooms = rng.integers(self.rooms, size=self.balls)
            return frozenset(("in", f"ball{i + 1}", ROOMS[room]) for i, room in enumerate(rooms))

        robot = ROOMS[int(rng.integers(self.rooms))]
        return place() | {("at", robot), ("free", "left"), ("free", "right")}, place()

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts picking up and dropping, and the rooms to go to or, if more, two balls a way."""
        at = {fact[1]: fact[2] for fact in facts if fact[0] == "in"}
        (robot,) = (fact[1] for fact in facts if fact[0] == "at")
        hands, carried, rooms = 0, 0, set()
        for _, ball, room in goal:
            if at.get(ball) != room:
                hands += 2 if ball in at else 1
                rooms |= {at.get(ball, room), room}
                carried += ball in at or room != robot
        return hands + max(len(rooms - {robot}), (carried + 1) // 2)
