"""Logistics: parcels go by truck within cities and by plane between them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Fact, Facts, Schema, World

CITIES = ("arden", "belmont", "corin")
PLACES = ("airport", "depot", "market", "station")
DOMAIN = Domain(
    sentences={
        "at": "{} is at {}",
        "truck": "{} is at {}",
        "plane": "{} is at {}",
        "inside": "{} is in {}",
    },
    schemas=(
        Schema(
            "load {x} into {t}",
            "x:parcel t:truck p:place",
            when="at x p, truck t p, serves t p",
            then="inside x t, not at x p",
        ),
        Schema(
            "load {x} into {t}",
            "x:parcel t:plane p:place",
            when="at x p, plane t p, airport p",
            then="inside x t, not at x p",
        ),
        Schema(
            "unload {x}",
            "x:parcel t:truck p:place",
            when="inside x t, truck t p, serves t p",
            then="at x p, not inside x t",
        ),
        Schema(
            "unload {x}",
            "x:parcel t:plane p:place",
            when="inside x t, plane t p, airport p",
            then="at x p, not inside x t",
        ),
        Schema(
            "drive {t} to {b}",
            "t:truck a:place b:place",
            when="truck t a, serves t a, serves t b",
            then="truck t b, not truck t a",
        ),
        Schema(
            "fly {t} to {b}",
            "t:plane a:place b:place",
            when="plane t a, airport a, airport b",
            then="plane t b, not plane t a",
        ),
    ),
)


@lru_cache
def world(cities: int, places: int, parcels: int, planes: int) -> World:
    """Returns the world of these sizes."""
    sites = {city: [f"{city}-{place}" for place in PLACES[:places]] for city in CITIES[:cities]}
    fixed: list[Fact] = [("airport", there[0]) for there in sites.values()]
    fixed += [("serves", f"{city}-truck", place) for city in sites for place in sites[city]]
    objects = {
        "parcel": [f"parcel{i + 1}" for i in range(parcels)],
        "truck": [f"{city}-truck" for city in sites],
        "plane": [f"plane{i + 1}" for i in range(planes)],
        "place": [place for there in sites.values() for place in there],
    }
    return World(DOMAIN, objects, fixed)


def city(name: str) -> str:
    """Returns the city of a place or a truck."""
    return name.partition("-")[0]


class Logistics(PlanningEnv):
    """Deliver parcels with a truck in each city and planes between the airports.

    ## Description
    A classic planning domain. A parcel to another city takes three legs: by truck to the airport,
    by plane, by truck again. Short plans collect before they drive and fly.

    ## Action Space
    Text: `load parcel1 into arden-truck`, `unload parcel1`, `drive arden-truck to arden-depot`,
    `fly plane1 to belmont-airport`.

    ## Observation Space
    Text: the goal, then everything that holds.

    ## Rewards
    1 (term `task`) when the goal holds, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Parcels, their goals, trucks (in their city) and planes are at places drawn by the task's name.

    ## Episode End
    Termination: the goal holds. Truncation: after `max_turns` turns.

    ## Information
    The common keys; `progress` is the largest share of the goal's facts that held at one time, as
    AgentBoard counts it.

    ## Arguments
    `cities`: 1 to 3. `places` in each: 2 to 4. `parcels`: 1 to 5. `planes`: 1 or 2. `max_turns`:
    default 15 a parcel; a shortest plan takes at most 12.

    ## Example Transcript
    ```
    Goal: parcel1 is at arden-depot.
    parcel1 is at arden-airport.
    arden-truck is at arden-airport.
    plane1 is at arden-airport.
    > load parcel1 into arden-truck
    Goal: parcel1 is at arden-depot.
    arden-truck is at arden-airport.
    plane1 is at arden-airport.
    parcel1 is in arden-truck.
    ```

    ## Baselines
    200 test tasks, mean return and success: random 0.00, 0 %, progress 0.26; expert (a shortest
    plan, 14.6 turns) 1.00, 100 %.

    ## Registered Configurations
    `Logistics-v0`: 2 cities of 3 places, 3 parcels, 1 plane.

    ## References
    Veloso, Learning by analogical reasoning in general problem solving, 1992; the typed form of
    the International Planning Competition, 2000.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You deliver parcels. Each city has one truck, which drives between the places of its city "
        "only; planes fly between the airports of the cities. A parcel can be loaded into a truck "
        "or plane that is at the same place, and unloaded where that is. Vehicles hold any number "
        "of parcels. Make all sentences of the goal true. Each turn, say one action, such as: load "
        "parcel1 into arden-truck, unload parcel1, drive arden-truck to arden-airport, fly plane1 "
        "to belmont-airport."
    )

    def __init__(
        self,
        *,
        cities: int = 2,
        places: int = 3,
        parcels: int = 3,
        planes: int = 1,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        for name, value, low, high in (
            ("cities", cities, 1, len(CITIES)),
            ("places", places, 2, len(PLACES)),
            ("parcels", parcels, 1, 5),
            ("planes", planes, 1, 2),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} must be in [{low}, {high}], got {value}.")
        turns = 15 * parcels if max_turns == "auto" else max_turns
        self.cities, self.places, self.parcels, self.planes = cities, places, parcels, planes
        self.instructions = (
            f"{type(self).instructions} Cities: {', '.join(CITIES[:cities])}. Places in each city: "
            f"{', '.join(PLACES[:places])}."
        )
        super().__init__(world=world(cities, places, parcels, planes), max_turns=turns, **kwargs)

    def _draw(self, rng: np.random.Generator) -> tuple[Facts, Facts]:
        def anywhere(cities: range) -> str:
            town = CITIES[cities[int(rng.integers(len(cities)))]]
            return f"{town}-{PLACES[int(rng.integers(self.places))]}"

        parcels = [f"parcel{i + 1}" for i in range(self.parcels)]
        everywhere = range(self.cities)
        facts: list[Fact] = [("at", parcel, anywhere(everywhere)) for parcel in parcels]
        for i in everywhere:
            facts.append(("truck", f"{CITIES[i]}-truck", anywhere(range(i, i + 1))))
        for i in range(self.planes):
            facts.append(("plane", f"plane{i + 1}", f"{city(anywhere(everywhere))}-airport"))
        goal = frozenset(("at", parcel, anywhere(everywhere)) for parcel in parcels)
        return frozenset(facts), goal

    @staticmethod
    def estimate(facts: Facts, goal: Facts) -> int:
        """Counts loading and unloading, and places that each truck and the planes must go to."""
        where = {fact[1]: fact[2] for fact in facts}
        vehicles = {fact[1] for fact in facts if fact[0] in ("truck", "plane")}
        handling = 0
        visits: set[str] = set()
        flights: set[str] = set()
        for _, parcel, target in goal:
            at, inside = where[parcel], ""
            if at in vehicles:
                inside, at = at, where[at]
                handling += 1
            if not inside and at == target:
                continue
            flown = inside.startswith("plane")
            home, airport = f"{city(at)}-airport", f"{city(target)}-airport"
            if flown or city(at) != city(target):
                if not flown:
                    handling += 2 + (not inside and at != home) * 2
                    visits |= {at, home} if inside or at != home else set()
                    flights.add(home)
                flights.add(airport)
                handling += 2 * (target != airport)
                visits |= {airport, target} if target != airport else set()
            else:
                handling += 0 if inside else 2
                visits |= {target} if inside else {at, target}
        trucks = {where[name] for name in vehicles if not name.startswith("plane")}
        planes = {where[name] for name in vehicles if name.startswith("plane")}
        return handling + len(visits - trucks) + len(flights - planes)
