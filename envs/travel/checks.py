"""Requests, plans and constraints of TravelPlanner."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agentgym.envs.travel.world import DATES, Attraction, Hotel, Restaurant, World

SLOTS = ("transport", "breakfast", "lunch", "dinner", "attractions", "hotel")
MEALS = ("breakfast", "lunch", "dinner")
RIDE = re.compile(
    r"(?:flight (?P<number>\S+)|(?P<car>self-driving|taxi)) from (?P<origin>.+?) to (?P<target>.+)",
    re.ASCII | re.IGNORECASE,
)
SEATS = {"self-driving": 5, "taxi": 4}


@dataclass(frozen=True)
class Request:
    """A requested trip.

    Attributes:
        origin: city of departure and return.
        target: a city for trips of three days, else a state.
        cities: number of cities to visit.
        first: index of the first day in `DATES`.
        days: number of days.
        people: number of people.
        budget: total budget in dollars.
        rule: house rule that hotels must allow, or "".
        room: "shared room", "not shared room", "private room", "entire home" or "".
        cuisines: cuisines of which each is required at least once.
        transport: "no flight", "no self-driving" or "".
    """

    origin: str
    target: str
    cities: int
    first: int
    days: int
    people: int
    budget: int = 0
    rule: str = ""
    room: str = ""
    cuisines: tuple[str, ...] = ()
    transport: str = ""

    def date(self, day: int) -> str:
        """Returns the date of a day of the trip, the first being 0."""
        return DATES[self.first + day]

    def nights(self) -> int:
        """Returns the nights of the trip."""
        return self.days - 1


@dataclass
class Day:
    """The plan of a day, with one entry for each of `SLOTS`. "" means no entry."""

    transport: str = ""
    breakfast: str = ""
    lunch: str = ""
    dinner: str = ""
    attractions: str = ""
    hotel: str = ""

    def entries(self) -> dict[str, str]:
        """Returns the non-empty entries."""
        every = dataclasses.asdict(self)
        return {slot: every[slot] for slot in SLOTS if every[slot]}


@dataclass(frozen=True)
class Ride:
    """The journey of a day by "flight" (with a number), "self-driving" or "taxi"."""

    by: str
    number: str
    origin: str
    target: str


@dataclass
class Trip:
    """A parsed plan. Places are None if they do not exist.

    Attributes:
        request: the request.
        plan: the plan.
        rides: ride of each day.
        cities: cities of each day, casefolded: one, or origin and target of the ride.
        meals: (day, name and city, restaurant).
        sights: (day, name and city, attraction).
        hotels: (name and city, hotel) of each day.
    """

    request: Request
    plan: list[Day]
    world: World

    def __post_init__(self) -> None:
        self.rides = [read_ride(day.transport) for day in self.plan]
        self.cities: list[tuple[str, ...]] = []
        here = self.request.origin.casefold()
        for ride in self.rides:
            if ride is None:
                self.cities.append((here,))
            else:
                here = ride.target.casefold()
                self.cities.append((ride.origin.casefold(), here))
        self.meals: list[tuple[int, tuple[str, str], Restaurant | None]] = []
        self.sights: list[tuple[int, tuple[str, str], Attraction | None]] = []
        self.hotels: list[tuple[tuple[str, str], Hotel | None] | None] = []
        for i, day in enumerate(self.plan):
            for meal in MEALS:
                if text := getattr(day, meal):
                    self.meals.append((i, read_place(text), self._find("restaurant", text)))
            for text in filter(None, map(str.strip, day.attractions.split(";"))):
                self.sights.append((i, read_place(text), self._find("attraction", text)))
            hotel = (read_place(day.hotel), self._find("hotel", day.hotel)) if day.hotel else None
            self.hotels.append(hotel)

    def _find(self, kind: str, text: str) -> Any:
        return self.world.places.get((kind, *read_place(text)))

    def ride_price(self, day: int) -> int | None:
        """Returns the price of a day's ride for all people, or None if there is no such ride."""
        ride, people = self.rides[day], self.request.people
        known = self.world.by_name
        if ride is None or not {ride.origin.casefold(), ride.target.casefold()} <= known.keys():
            return None
        origin, target = known[ride.origin.casefold()].name, known[ride.target.casefold()].name
        if ride.by != "flight":
            price = self.world.road(origin, target, ride.by)
            return None if price is None else price * math.ceil(people / SEATS[ride.by])
        flights = self.world.flights(origin, target, self.request.date(day))
        prices = (flight.price for flight in flights if flight.number == ride.number.upper())
        price = next(prices, None)
        return None if price is None else price * people

    def cost(self) -> int:
        """Returns the cost of the trip in dollars. Places that do not exist cost nothing."""
        people = self.request.people
        rides = sum(self.ride_price(day) or 0 for day in range(len(self.plan)))
        meals = sum(found.price * people for _, _, found in self.meals if found)
        nights = sum(
            stay[1].price * math.ceil(people / stay[1].people)
            for stay in self.hotels
            if stay and stay[1]
        )
        return rides + meals + nights


def read_ride(text: str) -> Ride | None:
    """Parses "flight F0102030 from A to B", "self-driving from A to B" or "taxi from A to B"."""
    found = RIDE.fullmatch(text)
    if found is None:
        return None
    by = (found["car"] or "flight").lower()
    return Ride(by, found["number"] or "", found["origin"].strip(), found["target"].strip())


def read_place(text: str) -> tuple[str, str]:
    """Parses "name, city" into casefolded parts."""
    name, _, city = text.casefold().rpartition(",")
    return " ".join(name.split()), " ".join(city.split())


def _sandbox(trip: Trip) -> str:
    for i, ride in enumerate(trip.rides):
        if ride is not None and trip.ride_price(i) is None:
            return f"day {i + 1}: there is no {trip.plan[i].transport} on that date"
    places = [*trip.meals, *trip.sights]
    places += [(i, *stay) for i, stay in enumerate(trip.hotels) if stay]
    for day, (name, city), found in places:
        if found is None:
            return f"day {day + 1}: there is no such place: {name}, {city}"
    return ""


def _complete(trip: Trip) -> str:
    request = trip.request
    home = request.origin.casefold()
    if len({city for cities in trip.cities for city in cities} - {home}) != request.cities:
        return f"the number of cities visited must be {request.cities}"
    for i, day in enumerate(trip.plan):
        travels = trip.rides[i] is not None
        if not travels and not (day.attractions and all(getattr(day, meal) for meal in MEALS)):
            return f"day {i + 1} needs three meals and an attraction, as it has no journey"
        if i < request.nights() and not day.hotel:
            return f"day {i + 1} needs a hotel"
    if 2 * sum(len(day.entries()) for day in trip.plan) < len(SLOTS) * request.days:
        return "more than half of the entries are missing"
    return ""


def _current_city(trip: Trip) -> str:
    for day, (name, city), _ in (*trip.meals, *trip.sights):
        if city not in trip.cities[day]:
            return f"day {day + 1}: {name} is not in a city of that day"
    for i, stay in enumerate(trip.hotels):
        if stay and stay[0][1] != trip.cities[i][-1]:
            return f"day {i + 1}: the hotel is not where the day ends"
    return ""


def _route(trip: Trip) -> str:
    request, world = trip.request, trip.world
    home = here = request.origin.casefold()
    if trip.rides[0] is None:
        return "day 1 must start with a journey"
    if trip.cities[-1][-1] != home:
        return f"the trip must end in {request.origin}"
    targets = [request.target] if request.days <= 3 else world.in_state(request.target)
    allowed = {name.casefold() for name in targets}
    seen: set[str] = set()
    for i, ride in enumerate(trip.rides):
        if ride is None:
            continue
        if ride.origin.casefold() != here:
            return f"day {i + 1} must start where the day before ended"
        here = ride.target.casefold()
        if i == request.days - 1:
            break
        if here not in allowed:
            return f"day {i + 1}: {ride.target} is not in {request.target}"
        if here in seen:
            return f"{ride.target} is visited twice"
        seen.add(here)
    return ""


def _diverse_restaurants(trip: Trip) -> str:
    names = [name for _, name, _ in trip.meals]
    return "" if len(set(names)) == len(names) else "a restaurant is visited twice"


def _diverse_attractions(trip: Trip) -> str:
    names = [name for _, name, _ in trip.sights]
    return "" if len(set(names)) == len(names) else "an attraction is visited twice"


def _transport_fits(trip: Trip) -> str:
    kinds = {ride.by for ride in trip.rides if ride}
    if trip.rides[0] is None:
        return "day 1 needs transport"
    clash = "self-driving" in kinds and len(kinds) > 1
    return "self-driving cannot be combined with flights or taxis" if clash else ""


def _least_nights(trip: Trip) -> str:
    for name, nights in groupby(trip.hotels, key=lambda stay: stay and stay[0]):
        stays = list(nights)
        hotel = stays[0] and stays[0][1]
        if name and hotel and len(stays) < hotel.least_nights:
            return f"{hotel.name} requires at least {hotel.least_nights} nights"
    return ""


def _budget(trip: Trip) -> str:
    cost = trip.cost()
    return "" if cost <= trip.request.budget else f"the trip costs ${cost:,}"


def allows(request: Request, hotel: Hotel) -> bool:
    """Whether the house rules of a hotel satisfy a request."""
    return not request.rule or request.rule not in hotel.forbids


def right_room(request: Request, hotel: Hotel) -> bool:
    """Whether the room type of a hotel satisfies a request."""
    if request.room == "not shared room":
        return hotel.room != "shared room"
    return request.room in ("", hotel.room)


def _room_rule(trip: Trip) -> str:
    bad = [
        stay[1] for stay in trip.hotels if stay and stay[1] and not allows(trip.request, stay[1])
    ]
    return f"{bad[0].name} does not allow {trip.request.rule}" if bad else ""


def _room_type(trip: Trip) -> str:
    hotels = [stay[1] for stay in trip.hotels if stay and stay[1]]
    bad = [hotel for hotel in hotels if not right_room(trip.request, hotel)]
    return f"{bad[0].name} is a {bad[0].room}" if bad else ""


def _cuisine(trip: Trip) -> str:
    home = trip.request.origin
    had = {kind for _, _, at in trip.meals if at and at.city != home for kind in at.cuisines}
    missing = [kind for kind in trip.request.cuisines if kind not in had]
    return f"no {missing[0]} meal away from home" if missing else ""


def _transport_wish(trip: Trip) -> str:
    banned = trip.request.transport.removeprefix("no ")
    used = banned in {ride.by for ride in trip.rides if ride}
    return f"the request excludes {banned}" if used else ""


Check = Callable[[Trip], str]
COMMONSENSE: dict[str, Check] = {
    "within sandbox": _sandbox,
    "complete information": _complete,
    "within current city": _current_city,
    "reasonable city route": _route,
    "diverse restaurants": _diverse_restaurants,
    "diverse attractions": _diverse_attractions,
    "non-conflicting transportation": _transport_fits,
    "minimum nights stay": _least_nights,
}
HARD: dict[str, Check] = {
    "budget": _budget,
    "room rule": _room_rule,
    "room type": _room_type,
    "cuisine": _cuisine,
    "transportation": _transport_wish,
}


def hard_constraints(request: Request) -> list[str]:
    """Returns the names of the hard constraints that a request has."""
    wishes = {
        "budget": True,
        "room rule": request.rule,
        "room type": request.room,
        "cuisine": request.cuisines,
        "transportation": request.transport,
    }
    return [name for name, wish in wishes.items() if wish]


def check(world: World, request: Request, plan: list[Day]) -> dict[str, str]:
    """Checks a plan against all constraints (TravelPlanner, arXiv 2402.01622, table 1).

    As in the code of the benchmark, a plan that is not within the sandbox or not complete meets no
    hard constraint. A plan without any entry for some day counts as not delivered and meets no
    constraint.

    Returns:
        Violation by constraint name, "" if the constraint is met.
    """
    hard = hard_constraints(request)
    empty = [i + 1 for i, day in enumerate(plan) if not day.entries()]
    if empty:
        return dict.fromkeys([*COMMONSENSE, *hard], f"nothing is planned for day {empty[0]}")
    trip = Trip(request, plan, world)
    faults = {name: test(trip) for name, test in COMMONSENSE.items()}
    unfit = faults["within sandbox"] or faults["complete information"]
    return faults | {name: unfit or HARD[name](trip) for name in hard}
