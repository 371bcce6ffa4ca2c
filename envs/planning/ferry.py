"""Ferry: ship cars between ports, one car at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Facts, Schema, World

PORTS = ("ashport", "birchport", "cedarport", "elmport", "firport", "oakport")
DOMAIN = Domain(
    sentences={
        "in": "{} is in {}",
        "aboard": "{} is on the ferry",
        "ferry": "the ferry is in {}",
        "empty": "the ferry is empty",
    },
    schemas=(
        Schema(
            "sail to {b}",
            "a:port b:port",
            when="ferry a",
            then="ferry b, not ferry a",
            also=("sail from {a} to {b}",),
        ),
        Schema(
            "board {x}",
            "x:car p:port",
            when="in x p, ferry p, empty",
            then="aboard x, not in x p, not empty",
            also=("board {x} at {p}", "board {x} in {p}"),
        ),
        Schema(
            "debark {x}",
            "x:car p:port",
            when="aboard x, ferry p",
            then="in x p, empty, not aboard x",
            also=("debark {x} at {p}", "debark {x} in {p}"),
        ),
    ),
)


@lru_cache
def world(cars: int, ports: int) -> World:
    """Returns the world with a number of cars and ports."""
    return World(DOMAIN, {"car": [f"car{i + 1}" for i in range(cars)], "port": PORTS[:ports]})


class Ferry(PlanningEnv):
    """Ship every car to its port with a ferry that holds one car.

    ## Description
    A classic planning domain. The ferry can sail between any two ports. Short plans order the cars
    such that the ferry rarely sails empty.

    ## Action Space
    Text, one of:

    - `sail to ashport`: sail to another port.
    - `board car1`: load a car in the current port onto the empty ferry.
    - `debark car1`: unload the car in the current port.

    ## Observation Space
    Text: the goal, then all facts that currently hold, one sentence per fact.

    ## Rewards
    1 (term `task`) when all goal facts hold, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The ports of the ferry and the cars and the goal ports are sampled from the task name. The ferry
    is empty.

    ## Episode End
    Termination: all goal facts hold. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the maximum so far of the fraction of goal facts that hold, as in
    AgentBoard.

    ## Arguments
    - `cars` (int, default 5): number of cars, 1 to 8.
    - `ports` (int, default 4): number of ports, 2 to 6.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 6 per car. A shortest
      plan takes at most 4 per car.

    ## References
    A domain of the planning literature since the 1990s, here with one goal port per car.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Ship cars with a ferry until every sentence of the goal is true. The ferry holds one car "
        "and can sail between any two ports.\n"
        "Each turn, reply with one action:\n"
        "- sail to ashport: sail to another port.\n"
        "- board car1: load a car in the ferry's port. The ferry must be empty.\n"
        "- debark car1: unload the car on the ferry in the ferry's port.\n"
        "The episode ends with a reward of 1 when every sentence of the goal is true."
    )

    def __init__(
        self,
        *,
        cars: int = 5,
        ports: int = 4,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 1 <= cars <= 8:
            raise ValueError(f"cars must be in [1, 8], got {cars}.")
        if not 2 <= ports <= len(PORTS):
            raise ValueError(f"ports must be in [2, {len(PORTS)}], got {ports}.")
        self.cars, self.ports = cars, ports
        turns = 6 * cars if max_turns == "auto" else max_turns
        super().__init__(world(cars, ports), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def place() -> frozenset[tuple[str, ...]]:
            ports = rng.integers(self.ports, size=self.cars)
            return frozenset(("in", f"car{i + 1}", PORTS[port]) for i, port in enumerate(ports))

        ferry = PORTS[int(rng.integers(self.ports))]
        return place() | {("ferry", ferry), ("empty",)}, place()

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts boardings, debarkings, one sailing per car and sailings to fetch cars."""
        at = {fact[1]: fact[2] for fact in facts if fact[0] == "in"}
        (ferry,) = (fact[1] for fact in facts if fact[0] == "ferry")
        away = {car: port for _, car, port in goal if at.get(car) != port}
        handling = sum(2 if car in at else 1 for car in away)
        sails = sum(car in at or port != ferry for car, port in away.items())
        # An empty ferry has to sail to ports from which cars leave but where none arrives.
        sources = {at[car] for car in away if car in at}
        return handling + sails + len(sources - set(away.values()) - {ferry})
