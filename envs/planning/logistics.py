"""Logistics: deliver parcels by truck within cities and by plane between them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.core import TurnLimit
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.strips import Domain, Fact, Facts, Schema, World

CITIES = ("arden", "belmont", "corin")
PLACES = ("airport", "depot", "market", "station")
LOADED = ("load {x} onto {t}", "load {x} into {t} at {p}", "load {x} onto {t} at {p}")
UNLOADED = ("unload {x} from {t}", "unload {x} at {p}", "unload {x} from {t} at {p}")
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
            also=LOADED,
        ),
        Schema(
            "load {x} into {t}",
            "x:parcel t:plane p:place",
            when="at x p, plane t p, airport p",
            then="inside x t, not at x p",
            also=LOADED,
        ),
        Schema(
            "unload {x}",
            "x:parcel t:truck p:place",
            when="inside x t, truck t p, serves t p",
            then="at x p, not inside x t",
            also=UNLOADED,
        ),
        Schema(
            "unload {x}",
            "x:parcel t:plane p:place",
            when="inside x t, plane t p, airport p",
            then="at x p, not inside x t",
            also=UNLOADED,
        ),
        Schema(
            "drive {t} to {b}",
            "t:truck a:place b:place",
            when="truck t a, serves t a, serves t b",
            then="truck t b, not truck t a",
            also=("drive {t} from {a} to {b}",),
        ),
        Schema(
            "fly {t} to {b}",
            "t:plane a:place b:place",
            when="plane t a, airport a, airport b",
            then="plane t b, not plane t a",
            also=("fly {t} from {a} to {b}",),
        ),
    ),
)


@lru_cache
def world(cities: int, places: int, parcels: int, planes: int) -> World:
    """Returns the world with these numbers of objects. `places` is per city."""
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
    """Deliver parcels with one truck per city and planes between the airports.

    ## Description
    A classic planning domain. A parcel for another city takes up to three legs: by truck to the
    airport, by plane, and by truck again. Short plans collect parcels before they drive and fly.

    ## Action Space
    Text, one of:

    - `load parcel1 into arden-truck`: load a parcel into a truck or plane at the same place.
    - `unload parcel1`: unload a parcel from its truck or plane.
    - `drive arden-truck to arden-depot`: drive a truck within its city.
    - `fly plane1 to belmont-airport`: fly a plane to another airport.

    ## Observation Space
    Text: the goal, then all facts that currently hold, one sentence per fact.

    ## Rewards
    1 (term `task`) when all goal facts hold, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The places of the parcels, trucks (within their cities) and planes (at airports) and the goal
    places are sampled from the task name.

    ## Episode End
    Termination: all goal facts hold. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the maximum so far of the fraction of goal facts that hold, as in
    AgentBoard.

    ## Arguments
    - `cities` (int, default 2): number of cities, 1 to 3.
    - `places` (int, default 3): number of places per city, 2 to 4.
    - `parcels` (int, default 3): number of parcels, 1 to 5.
    - `planes` (int, default 1): number of planes, 1 or 2.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 15 per parcel. A
      shortest plan takes at most 12 per parcel.

    ## References
    Veloso, Learning by analogical reasoning in general problem solving, 1992, in the typed form of
    the International Planning Competition, 2000.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Deliver parcels until every sentence of the goal is true. Trucks drive between the places "
        "of their own city, planes fly between airports, and both hold any number of parcels.\n"
        "Each turn, reply with one action:\n"
        "- load parcel1 into arden-truck: load a parcel into a truck or plane at the same place.\n"
        "- unload parcel1: unload a parcel at the place of its truck or plane.\n"
        "- drive arden-truck to arden-airport: drive a truck to a place in its city.\n"
        "- fly plane1 to belmont-airport: fly a plane to another airport.\n"
        "The episode ends with a reward of 1 when every sentence of the goal is true."
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
            f"{type(self).instructions}\nCities: {', '.join(CITIES[:cities])}. "
            f"Places in each city: {', '.join(PLACES[:places])}."
        )
        super().__init__(world(cities, places, parcels, planes), max_turns=turns, **kwargs)

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
        """Counts loadings, unloadings and the places that trucks and planes must go to."""
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
