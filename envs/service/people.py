"""Names, addresses and payment methods of generated customers."""

from __future__ import annotations

from typing import Any

import numpy as np

FIRST = (
    *("Ada", "Ben", "Cleo", "Dina", "Emil", "Faye", "Gus", "Hana", "Ivo", "Jana", "Kofi", "Lena"),
    *("Milo", "Nora", "Otis", "Pia", "Quinn", "Rosa", "Seth", "Tara", "Uma", "Vito", "Wren", "Zoe"),
)
LAST = (
    *("Abbott", "Barlow", "Castle", "Dalton", "Easton", "Fisher", "Garner", "Holt", "Ingram"),
    *("Jarvis", "Keller", "Lowell", "Mercer", "Norton", "Osborn", "Palmer", "Quigley", "Rowan"),
    *("Sutton", "Tucker", "Upton", "Vance", "Walker", "York"),
)
STREETS = ("Oak Street", "Mill Road", "Hill Lane", "Lake Avenue", "Park Drive", "Elm Court")
CITIES = (
    *(("Ashford", "OR", "972"), ("Brookfield", "WI", "530"), ("Cedarville", "OH", "453")),
    *(("Dunmore", "PA", "185"), ("Eastport", "ME", "046"), ("Fairmont", "WV", "265")),
    *(("Glenwood", "CO", "816"), ("Harwick", "MA", "026"), ("Irondale", "AL", "352")),
)


def draw_name(rng: np.random.Generator) -> dict[str, str]:
    """Returns a random name."""
    return {"first_name": _choice(rng, FIRST), "last_name": _choice(rng, LAST)}


def draw_address(rng: np.random.Generator) -> dict[str, str]:
    """Returns a random address."""
    city, state, zip = CITIES[int(rng.integers(len(CITIES)))]
    return {
        "address1": f"{int(rng.integers(1, 999))} {_choice(rng, STREETS)}",
        "address2": f"Suite {int(rng.integers(1, 99))}",
        "city": city,
        "country": "USA",
        "state": state,
        "zip": f"{zip}{int(rng.integers(10, 99))}",
    }


def draw_birthday(rng: np.random.Generator) -> str:
    """Returns a random date of birth."""
    year, month, day = (int(rng.integers(*b)) for b in ((1950, 2004), (1, 13), (1, 29)))
    return f"{year}-{month:02}-{day:02}"


def draw_number(rng: np.random.Generator, digits: int = 7) -> str:
    """Returns a random number of a length as text."""
    return str(int(rng.integers(10 ** (digits - 1), 10**digits)))


def draw_card(rng: np.random.Generator) -> dict[str, Any]:
    """Returns a random credit card."""
    return {
        "source": "credit_card",
        "brand": _choice(rng, ("visa", "mastercard")),
        "last_four": draw_number(rng, 4),
        "id": f"credit_card_{draw_number(rng)}",
    }


def user_key(rng: np.random.Generator, name: dict[str, str], taken: dict[str, Any]) -> str:
    """Returns a new user id, such as "ada_holt_1234"."""
    while True:
        key = f"{name['first_name']}_{name['last_name']}_{draw_number(rng, 4)}".lower()
        if key not in taken:
            return key


def _choice(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
