"""Generation of requests, and a solver that finds cheap plans."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise, permutations

import numpy as np

from agentgym.envs.travel.checks import (
    SEATS,
    Day,
    Request,
    Trip,
    allows,
    check,
    right_room,
)
from agentgym.envs.travel.world import CUISINES, DATES, RULES, STATES, Hotel, Restaurant, World

LEVELS = ("easy", "medium", "hard")
LENGTHS = (3, 5, 7)
SLACK = {"easy": (1.3, 1.6), "medium": (1.2, 1.4), "hard": (1.1, 1.3)}
"""Range of the ratio between the budget and the cost of the solver's plan."""
NIGHTS = 2
"""Nights per city. Trips of 3, 5 and 7 days visit 1, 2 and 3 cities."""
MEALS_AT = ((0, "dinner"), (1, "breakfast"), (1, "lunch"), (1, "dinner"), (2, "breakfast"))
"""Meals in a city, as (days since arrival, meal)."""


def draw_request(rng: np.random.Generator, world: World, days: int, level: str) -> Request:
    """Samples a request as in the benchmark, for which the solver finds a plan."""
    while True:
        request = _wishes(rng, _journey(rng, world, days, level), level)
        plan = solve(world, request)
        if plan is not None:
            cost = Trip(request, plan, world).cost()
            budget = 100 * math.ceil(cost * rng.uniform(*SLACK[level]) / 100)
            return dataclasses.replace(request, budget=budget)


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def _journey(rng: np.random.Generator, world: World, days: int, level: str) -> Request:
    origin = world.cities[int(rng.integers(len(world.cities)))]
    state = _pick(rng, tuple(name for name in STATES if name != origin.state))
    city = _pick(rng, tuple(world.in_state(state)))
    people = 1
    if level != "easy":
        people = 2 if rng.random() < 0.5 else int(rng.integers(3, 9))
    return Request(
        origin=origin.name,
        target=city if days == 3 else state,
        cities=(days - 1) // 2,
        first=int(rng.integers(len(DATES) - days + 1)),
        days=days,
        people=people,
    )


def _wishes(rng: np.random.Generator, request: Request, level: str) -> Request:
    """Adds one wish (medium) or three (hard)."""
    kinds = ["rule", "room", "cuisines", "transport"]
    if level == "easy":
        return request
    if level == "medium":
        chosen = [kinds[int(rng.integers(3))]]
    else:
        chosen = rng.choice(kinds, size=3, replace=False, p=[0.3, 0.3, 0.1, 0.3]).tolist()
    rooms = ("private room", "entire home")
    if request.people <= 2:
        rooms += ("shared room", "not shared room")
    count = 2 if level == "medium" else 4
    cuisines = sorted(rng.choice(CUISINES, size=count, replace=False).tolist())
    wishes = {
        "rule": _pick(rng, RULES),
        "room": _pick(rng, rooms),
        "cuisines": tuple(cuisines),
        "transport": _pick(rng, ("no flight", "no self-driving")),
    }
    return dataclasses.replace(request, **{kind: wishes[kind] for kind in chosen})


def solve(world: World, request: Request) -> list[Day] | None:
    """Finds a cheap plan that meets all constraints except for the budget.

    Journeys and hotels minimise their joint cost. Meals are the cheapest ones with the cuisines.

    Returns:
        The plan of each day, or None if there is none.
    """
    if request.days == 3:
        cities = [request.target]
    else:
        cities = world.in_state(request.target)
    hotels = {city: _hotel(world, request, city) for city in cities}
    routes = []
    for order in permutations(cities, request.cities):
        nights = [hotels[city] for city in order]
        rides = _rides(world, request, order)
        if rides is not None and None not in nights:
            price = rides[0] + NIGHTS * sum(_nightly(request, hotel) for hotel in nights if hotel)
            routes.append((price, order, rides[1]))
    for _, order, rides in sorted(routes):
        meals = _meals(world, request, order)
        if meals is not None:
            plan = _written(world, request, order, rides, hotels, meals)
            faults = check(world, request, plan)
            assert not any(fault for name, fault in faults.items() if name != "budget"), faults
            return plan
    return None


def _nightly(request: Request, hotel: Hotel) -> int:
    return hotel.price * math.ceil(request.people / hotel.people)


def _hotel(world: World, request: Request, city: str) -> Hotel | None:
    fits = [
        hotel
        for hotel in world.hotels[city]
        if hotel.least_nights <= NIGHTS and allows(request, hotel) and right_room(request, hotel)
    ]
    return min(fits, key=lambda hotel: _nightly(request, hotel), default=None)


def _rides(
    world: World, request: Request, order: tuple[str, ...]
) -> tuple[int, tuple[str, ...]] | None:
    """Returns the price and the texts of the rides on a route, or None if a leg is impossible."""
    legs = list(pairwise((request.origin, *order, request.origin)))
    options = []
    if request.transport != "no self-driving":
        options.append([_car(world, request, *leg, "self-driving") for leg in legs])
    options.append(
        [
            min(filter(None, (_car(world, request, *leg, "taxi"), flight)), default=None)
            for i, leg in enumerate(legs)
            for flight in [_flight(world, request, *leg, NIGHTS * i)]
        ]
    )
    whole = [[leg for leg in legs if leg] for legs in options if None not in legs]
    priced = [(sum(p for p, _ in legs), tuple(text for _, text in legs)) for legs in whole]
    return min(priced, default=None)


def _car(
    world: World, request: Request, origin: str, target: str, by: str
) -> tuple[int, str] | None:
    price = world.road(origin, target, by)
    if price is None:
        return None
    return price * math.ceil(request.people / SEATS[by]), f"{by} from {origin} to {target}"


def _flight(
    world: World, request: Request, origin: str, target: str, day: int
) -> tuple[int, str] | None:
    flights = world.flights(origin, target, request.date(day))
    if not flights or request.transport == "no flight":
        return None
    best = min(flights, key=lambda flight: flight.price)
    return best.price * request.people, f"flight {best.number} from {origin} to {target}"


def _meals(
    world: World, request: Request, order: tuple[str, ...]
) -> dict[str, list[Restaurant]] | None:
    """Returns the restaurants of each city, or None if a cuisine is unavailable."""
    count = len(MEALS_AT)
    chosen: dict[str, list[Restaurant]] = {city: [] for city in order}
    cheapest = sorted((r for city in order for r in world.restaurants[city]), key=lambda r: r.price)
    missing = list(request.cuisines)
    while missing:
        free = [r for r in cheapest if r not in chosen[r.city] and len(chosen[r.city]) < count]
        serves = [r for r in free if missing[0] in r.cuisines]
        if not serves:
            return None
        chosen[serves[0].city].append(serves[0])
        missing = [cuisine for cuisine in missing if cuisine not in serves[0].cuisines]
    for restaurant in cheapest:
        there = chosen[restaurant.city]
        if len(there) < count and restaurant not in there:
            there.append(restaurant)
    return chosen


def _written(
    world: World,
    request: Request,
    order: tuple[str, ...],
    rides: tuple[str, ...],
    hotels: dict[str, Hotel | None],
    meals: dict[str, list[Restaurant]],
) -> list[Day]:
    """Returns the plan in the format of actions."""
    plan = [Day() for _ in range(request.days)]
    for i, ride in enumerate(rides):
        plan[NIGHTS * i].transport = ride
    for i, city in enumerate(order):
        hotel, sights = hotels[city], world.attractions[city]
        assert hotel is not None
        for day in range(NIGHTS):
            plan[NIGHTS * i + day].hotel = f"{hotel.name}, {city}"
            plan[NIGHTS * i + day].attractions = str(sights[day])
        for (day, meal), restaurant in zip(MEALS_AT, meals[city], strict=True):
            setattr(plan[NIGHTS * i + day], meal, f"{restaurant.name}, {city}")
    return plan
