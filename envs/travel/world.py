"""A fictional country: cities, hotels, restaurants, attractions, flights and roads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from agentgym.tasks import task_rng

STATES = (
    *("Ardenia", "Borell", "Caldria", "Dorvania", "Estmark", "Fennland"),
    *("Galdor", "Hestria", "Ivoria", "Jutmark", "Kordia", "Lunavia"),
)
CITIES_IN_A_STATE = 5
BEGINNINGS = (
    *("Al", "Bren", "Cor", "Dal", "El", "Far", "Gren", "Hol", "Is", "Jor", "Kel", "Lor", "Mar"),
    *("Nor", "Or", "Pel", "Quen", "Ros", "Sel", "Tar", "Ul", "Ver", "Wes", "Yar", "Zel"),
)
ENDINGS = ("burg", "dale", "ford", "haven", "mere", "mont", "port", "ridge", "stad", "vale", "wick")
CUISINES = ("American", "Chinese", "French", "Indian", "Italian", "Mediterranean", "Mexican")
EXTRAS = ("Bakery", "Barbecue", "Seafood", "Tea", "Vegan")
FIRST = (
    *("Copper", "Golden", "Old", "Quiet", "Red", "Silver", "Sunny", "Velvet", "Wild", "Blue"),
    *("Hidden", "Little", "Royal", "Green", "Lucky", "Merry"),
)
TABLES = ("Lantern", "Fork", "Garden", "Kettle", "Table", "Olive", "Pepper", "Spoon", "Hearth")
SIGHTS = ("Museum", "Park", "Castle", "Gallery", "Market", "Tower", "Bridge", "Theatre", "Zoo")
ROOMS = ("entire home", "private room", "shared room")
HOUSES = ("Loft", "Cottage", "Villa", "Studio", "Inn", "Terrace", "Lodge", "House", "Nest")
RULES = ("parties", "smoking", "children under 10", "pets", "visitors")
DATES = tuple(f"2024-03-{day:02}" for day in range(1, 32))
LONGEST_DRIVE = 1400
"""Kilometres. Cities that are further apart are not connected by road."""


@dataclass(frozen=True)
class City:
    """A city with its coordinates in km."""

    name: str
    state: str
    x: float
    y: float


@dataclass(frozen=True)
class Hotel:
    """A hotel. `price` is in dollars per night and unit, and `people` is the capacity of a unit."""

    name: str
    city: str
    room: str
    price: int
    people: int
    least_nights: int
    forbids: tuple[str, ...]

    def __str__(self) -> str:
        forbids = f"no {', no '.join(self.forbids)}" if self.forbids else "no house rules"
        return (
            f"{self.name}, {self.city}: {self.room}, ${self.price} a night, up to {self.people} "
            f"people, at least {self.least_nights} nights, {forbids}"
        )


@dataclass(frozen=True)
class Restaurant:
    """A restaurant. `price` is in dollars per meal and person."""

    name: str
    city: str
    cuisines: tuple[str, ...]
    price: int

    def __str__(self) -> str:
        return f"{self.name}, {self.city}: {', '.join(self.cuisines)}, ${self.price}"


@dataclass(frozen=True)
class Attraction:
    """An attraction, without an entrance fee."""

    name: str
    city: str

    def __str__(self) -> str:
        return f"{self.name}, {self.city}"


@dataclass(frozen=True)
class Flight:
    """A flight. `price` is in dollars per person."""

    number: str
    origin: str
    target: str
    date: str
    leaves: str
    price: int

    def __str__(self) -> str:
        return f"{self.number} from {self.origin} to {self.target}, {self.leaves}, ${self.price}"


Place = Hotel | Restaurant | Attraction


class World:
    """The country: 60 cities in 12 states, 2,700 places, and the flights of a month.

    Names are case-insensitive. Flights are generated on demand from their cities and date.

    Args:
        seed: seed of the country.
    """

    def __init__(self, seed: int):
        self.seed = seed
        rng = task_rng(f"world/{seed}", "travel")
        self.cities = _cities(rng)
        self.by_name = {city.name.casefold(): city for city in self.cities}
        self.states = {state.casefold(): state for state in STATES}
        self.hotels = {c.name: _hotels(rng, c.name) for c in self.cities}
        self.restaurants = {c.name: _restaurants(rng, c.name) for c in self.cities}
        self.attractions = {
            c.name: [Attraction(name, c.name) for name in _names(rng, SIGHTS, 10)]
            for c in self.cities
        }

    @cached_property
    def places(self) -> dict[tuple[str, str, str], Place]:
        """All places by kind ("hotel", "restaurant", "attraction"), name and city, casefolded."""
        kinds = (
            ("hotel", self.hotels),
            ("restaurant", self.restaurants),
            ("attraction", self.attractions),
        )
        return {
            (kind, place.name.casefold(), city.casefold()): place
            for kind, by_city in kinds
            for city, there in by_city.items()
            for place in there
        }

    def in_state(self, state: str) -> list[str]:
        """Returns the names of the cities of a state."""
        return [city.name for city in self.cities if city.state == state]

    def kilometres(self, origin: str, target: str) -> int:
        """Returns the distance by road between two cities."""
        a, b = self.by_name[origin.casefold()], self.by_name[target.casefold()]
        return round(1.2 * math.hypot(a.x - b.x, a.y - b.y))

    def road(self, origin: str, target: str, by: str) -> int | None:
        """Returns the price of a car ("self-driving" or "taxi"), or None if there is no road."""
        length = self.kilometres(origin, target)
        if origin == target or length > LONGEST_DRIVE:
            return None
        return length if by == "taxi" else math.ceil(0.05 * length)

    def flights(self, origin: str, target: str, date: str) -> tuple[Flight, ...]:
        """Returns the flights between two cities on one of `DATES`."""
        return _flights(self, origin, target, date)


@lru_cache(maxsize=8)
def world(seed: int) -> World:
    """Returns the world of a seed."""
    return World(seed)


@lru_cache(maxsize=1 << 15)
def _flights(world: World, origin: str, target: str, date: str) -> tuple[Flight, ...]:
    if origin == target:
        return ()
    rng = task_rng(f"{world.seed}/{origin}/{target}/{date}", "flights")
    numbers = {city.name: i for i, city in enumerate(world.cities)}
    found = []
    for i in range(int(rng.choice(5, p=[0.1, 0.2, 0.3, 0.25, 0.15]))):
        minutes = 5 * int(rng.integers(72, 264))
        price = 40 + 0.09 * world.kilometres(origin, target) * rng.uniform(0.6, 1.6)
        found.append(
            Flight(
                number=f"F{date[-2:]}{numbers[origin]:02}{numbers[target]:02}{i}",
                origin=origin,
                target=target,
                date=date,
                leaves=f"{minutes // 60:02}:{minutes % 60:02}",
                price=round(price),
            )
        )
    return tuple(found)


def _names(rng: np.random.Generator, nouns: tuple[str, ...], count: int) -> list[str]:
    """Samples distinct names."""
    chosen = rng.choice(len(FIRST) * len(nouns), size=count, replace=False)
    return [f"{FIRST[int(i) // len(nouns)]} {nouns[int(i) % len(nouns)]}" for i in chosen]


def _cities(rng: np.random.Generator) -> list[City]:
    chosen = rng.choice(
        len(BEGINNINGS) * len(ENDINGS), size=len(STATES) * CITIES_IN_A_STATE, replace=False
    )
    names = iter(
        BEGINNINGS[int(i) // len(ENDINGS)] + ENDINGS[int(i) % len(ENDINGS)] for i in chosen
    )
    cities = []
    for i, state in enumerate(STATES):
        centre = np.array([600.0 * (i % 4), 600.0 * (i // 4)])
        for _ in range(CITIES_IN_A_STATE):
            x, y = centre + rng.uniform(-250, 250, size=2)
            cities.append(City(next(names), state, float(x), float(y)))
    return cities


def _hotels(rng: np.random.Generator, city: str) -> list[Hotel]:
    hotels = []
    for name in _names(rng, HOUSES, 15):
        kind = int(rng.choice(3, p=[0.4, 0.4, 0.2]))
        low, high = ((90, 350), (45, 160), (20, 70))[kind]
        hotels.append(
            Hotel(
                name=name,
                city=city,
                room=ROOMS[kind],
                price=int(rng.integers(low, high)),
                people=int(rng.integers(1, (7, 4, 3)[kind])),
                least_nights=int(rng.choice([1, 2, 3, 4], p=[0.4, 0.35, 0.15, 0.1])),
                forbids=tuple(rule for rule in RULES if rng.random() < 0.3),
            )
        )
    return hotels


def _restaurants(rng: np.random.Generator, city: str) -> list[Restaurant]:
    kinds = CUISINES + EXTRAS
    restaurants = []
    for name in _names(rng, TABLES, 20):
        count = int(rng.integers(1, 4))
        chosen = sorted(int(i) for i in rng.choice(len(kinds), size=count, replace=False))
        cuisines = tuple(kinds[i] for i in chosen)
        restaurants.append(Restaurant(name, city, cuisines, int(rng.integers(10, 90))))
    return restaurants
