"""Ferry: ship cars between ports, one at a time."""

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
        Schema("sail to {b}", "a:port b:port", when="ferry a", then="ferry b, not ferry a"),
        Schema(
            "board {x}",
            "x:car p:port",
            when="in x p, ferry p, empty",
            then="aboard x, not in x p, not empty",
        ),
        Schema(
            "debark {x}",
            "x:car p:port",
            when="aboard x, ferry p",
            then="in x p, empty, not aboard x",
        ),
    ),
)


@lru_cache
def world(cars: int, ports: int) -> World:
    """Returns the world of so many cars and ports."""
    return World(DOMAIN, {"car": [f"car{i + 1}" for i in range(cars)], "port": PORTS[:ports]})


class Ferry(PlanningEnv):
    """Ship every car to its port with a ferry that holds one car.

    ## Description
    A classic planning domain. The ferry sails from every port to every other one. Short plans take
    the cars in an order in which the ferry hardly ever sails empty.

    ## Action Space
    Text: `sail to ashport`, `board car1`, `debark car1`.

    ## Observation Space
    Text: the goal, then everything that holds.

    ## Rewards
    1 (term `task`) when the goal holds, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The ferry, the cars and their goals are in ports drawn by the task's name; the ferry is empty.

    ## Episode End
    Termination: the goal holds. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the largest share of the goal's facts that held at one time, as
    AgentBoard counts it.

    ## Arguments
    `cars`: 1 to 8. `ports`: 2 to 6. `max_turns`: default 6 a car; a shortest plan takes at most 4.

    ## Example Transcript
    ```
    Goal: car1 is in ashport.
    car1 is in birchport.
    the ferry is in birchport.
    the ferry is empty.
    > board car1
    Goal: car1 is in ashport.
    car1 is on the ferry.
    the ferry is in birchport.
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.00, 0 %, progress 0.33; expert (a shortest
    plan, 13.1 turns) 1.00, 100 %.

    ## Registered Configurations
    `Ferry-v0`: 5 cars, 4 ports.

    ## References
    A domain of the planning literature since the 1990s, here without a fixed goal port.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You command a ferry that holds one car. It can sail from every port to every other one. "
        "When it is empty, a car in its port can board; the car on it can debark in its port. Make "
        "all sentences of the goal true. Each turn, say one action, such as: sail to ashport, "
        "board car1, debark car1."
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
        super().__init__(world=world(cars, ports), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def place() -> frozenset[tuple[str, ...]]:
            ports = rng.integers(self.ports, size=self.cars)
            return frozenset(("in", f"car{i + 1}", PORTS[port]) for i, port in enumerate(ports))

        ferry = PORTS[int(rng.integers(self.ports))]
        return place() | {("ferry", ferry), ("empty",)}, place()

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts boarding and debarking, and sailing: once a car and to where none comes from."""
        at = {fact[1]: fact[2] for fact in facts if fact[0] == "in"}
        (ferry,) = (fact[1] for fact in facts if fact[0] == "ferry")
        away = {car: port for _, car, port in goal if at.get(car) != port}
        handling = sum(2 if car in at else 1 for car in away)
        sails = sum(car in at or port != ferry for car, port in away.items())
        # Ports that cars leave but none arrives in are sailed to empty, unless the ferry is there.
        sources = {at[car] for car in away if car in at}
        return handling + sails + len(sources - set(away.values()) - {ferry})
