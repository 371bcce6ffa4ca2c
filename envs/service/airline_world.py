"""The generated airline: flights, users and reservations, in the format of tau-bench."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

import numpy as np

from agentgym.envs.service.airline_tools import AIRPORTS
from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.database import Record, Tables, by_value, plain_key
from agentgym.envs.service.people import (
    draw_address,
    draw_birthday,
    draw_card,
    draw_name,
    draw_number,
    user_key,
)
from agentgym.tasks import task_rng

SERVED = tuple(AIRPORTS)[:8]
DATES = tuple(f"2024-05-{day}" for day in range(16, 28))
PRICES = {"basic_economy": (50, 100), "economy": (110, 200), "business": (260, 500)}
"""Cabin -> lowest and highest price."""
MEMBERSHIPS = ("regular", "silver", "gold")
USERS = 120
RESERVATIONS = 4
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@lru_cache(maxsize=4)
def airline(world: int) -> Tables:
    """Returns the tables of a generated airline.

    Args:
        world: seed of the data.
    """
    rng = task_rng(str(world), "airline_world")
    flights: dict[str, Record] = {}
    for origin, destination in permutations(SERVED, 2):
        for hour in (int(rng.integers(6, 12)), int(rng.integers(13, 20))):
            number = f"AG{len(flights) + 100}"
            flights[number] = _flight(rng, number, origin, destination, hour)
    users: dict[str, Record] = {}
    reservations: dict[str, Record] = {}
    for _ in range(USERS):
        user = _user(rng)
        key = user_key(rng, user["name"], users)
        user["email"] = f"{key.replace('_', '.')}@example.com"
        users[key] = user
        routes = rng.permutation(list(permutations(SERVED, 2))).tolist()[:RESERVATIONS]
        for i, (origin, destination) in enumerate(routes):
            cabin = ("basic_economy", "economy", "economy", "business")[i]
            options = [
                f
                for f in flights.values()
                if (f["origin"], f["destination"]) == (origin, destination)
            ]
            booked = _reservation(rng, key, user, options[int(rng.integers(2))], cabin)
            reservations[booked["reservation_id"]] = booked
            user["reservations"].append(booked["reservation_id"])
    return Tables({"flights": flights, "reservations": reservations, "users": users}, by_value)


@lru_cache(maxsize=4)
def airline_keys(world: int) -> Keys:
    """Returns the known values of the arguments of tools that are keys."""
    tables = airline(world)
    methods = [key for user in tables.records["users"].values() for key in user["payment_methods"]]
    airports = {plain_key(name): code for code, city in AIRPORTS.items() for name in (code, city)}
    return {
        "user_id": tables.keys_by_name("users"),
        "reservation_id": tables.keys_by_name("reservations"),
        "flight_number": tables.keys_by_name("flights"),
        "payment_id": {plain_key(key): key for key in methods},
        **dict.fromkeys(("origin", "destination"), airports),
    }


def _flight(
    rng: np.random.Generator, number: str, origin: str, destination: str, hour: int
) -> Record:
    dates = {}
    for date in DATES:
        if rng.random() < 0.15:
            dates[date] = {"status": "delayed"}
            continue
        dates[date] = {
            "status": "available",
            "available_seats": {cabin: int(rng.integers(3, 15)) for cabin in PRICES},
            "prices": {cabin: int(rng.integers(*bounds)) for cabin, bounds in PRICES.items()},
        }
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": f"{hour:02}:00:00",
        "scheduled_arrival_time_est": f"{hour + int(rng.integers(1, 4)):02}:30:00",
        "dates": dates,
    }


def _user(rng: np.random.Generator) -> Record:
    card = draw_card(rng)
    gift = f"gift_card_{draw_number(rng)}"
    return {
        "name": draw_name(rng),
        "address": draw_address(rng),
        "email": "",
        "dob": draw_birthday(rng),
        "payment_methods": {
            card["id"]: card,
            gift: {"source": "gift_card", "amount": int(rng.integers(20, 300)), "id": gift},
        },
        "saved_passengers": [],
        "membership": MEMBERSHIPS[int(rng.integers(3))],
        "reservations": [],
    }


def _reservation(
    rng: np.random.Generator, user_id: str, user: Record, flight: Record, cabin: str
) -> Record:
    bookable = [date for date, day in flight["dates"].items() if day["status"] == "available"]
    date = bookable[int(rng.integers(len(bookable)))]
    passengers = [{**user["name"], "dob": user["dob"]}]
    if rng.random() < 0.4:
        passengers.append({**draw_name(rng), "dob": draw_birthday(rng)})
    price = flight["dates"][date]["prices"][cabin]
    insurance = bool(rng.random() < 0.4)
    card = next(iter(user["payment_methods"]))
    recent = bool(rng.random() < 0.25)
    return {
        "reservation_id": "".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=6)),
        "user_id": user_id,
        "origin": flight["origin"],
        "destination": flight["destination"],
        "flight_type": "one_way",
        "cabin": cabin,
        "flights": [
            {
                "origin": flight["origin"],
                "destination": flight["destination"],
                "flight_number": flight["flight_number"],
                "date": date,
                "price": price,
            }
        ],
        "passengers": passengers,
        "payment_history": [
            {"payment_id": card, "amount": (price + 30 * insurance) * len(passengers)}
        ],
        "created_at": f"2024-05-{15 if recent else int(rng.integers(10, 14))}T08:15:00",
        "total_baggages": 0,
        "nonfree_baggages": 0,
        "insurance": "yes" if insurance else "no",
    }


def free_bags(membership: str, cabin: str) -> int:
    """Returns the number of free checked bags per passenger."""
    return min(3, MEMBERSHIPS.index(membership) + tuple(PRICES).index(cabin))
