"""The generated world of `Workplace`: people, mail, calendar, files and customers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

World = dict[str, dict[str, Any]]
TODAY = date(2025, 6, 2)
"""A Monday."""
TEAMS = ("Sales", "Support", "Design")
STAGES = ("lead", "offer", "won", "lost")
FIRST = (
    *("Anna", "Boris", "Carla", "Dora", "Erik", "Fatma", "Gabor", "Helen"),
    *("Ines", "Jakob", "Klara", "Leon", "Marta", "Nils", "Olga", "Paul"),
)
LAST = (
    *("Archer", "Bishop", "Carter", "Draper", "Farmer", "Glover", "Hunter", "Joiner"),
    *("Mason", "Piper", "Sawyer", "Tanner", "Turner", "Weaver", "Webster", "Wheeler"),
)
COMPANIES = (
    *("Alder Books", "Birch Cafe", "Cedar Toys", "Dune Travel", "Elm Bakery", "Fern Gardens"),
    *("Grove Wines", "Harbor Boats", "Iris Flowers", "Jade Tea", "Kite Sports", "Lark Music"),
)
TOPICS = ("Budget", "Hiring", "Roadmap", "Training", "Move", "Website")
MEETINGS = ("Review", "Planning", "Retrospective", "Standup", "Interview", "Workshop")
SMALL_TALK = (
    "Thank you for lunch yesterday.",
    "The printer on the second floor works again.",
    "Please remember to water the plants.",
    "Have a look at the new chairs.",
)
FIRST_HOUR, LAST_HOUR = 9, 17
PEOPLE, CUSTOMERS = 8, 10


def day(offset: int) -> str:
    """Returns the date some days after today."""
    return str(TODAY + timedelta(days=offset))


def one(rng: np.random.Generator, options: Any) -> Any:
    """Returns a random element of a sequence."""
    return options[int(rng.integers(len(options)))]


def draw_world(rng: np.random.Generator) -> World:
    """Returns people, mails, events, files and customers.

    New records get keys that depend on their content, so that their order does not matter.
    """
    people = _people(rng)
    emails = [person["email"] for person in people.values()]
    return {
        "people": people,
        "mails": _mails(rng, emails),
        "sent": {},
        "events": _events(rng, emails),
        "files": _files(rng),
        "customers": _customers(rng, emails),
    }


def _people(rng: np.random.Generator) -> dict[str, Any]:
    first, last = rng.permutation(len(FIRST)).tolist(), rng.permutation(len(LAST)).tolist()
    found = {}
    for i in range(PEOPLE):
        name = f"{FIRST[first[i]]} {LAST[last[i]]}"
        email = f"{name.lower().replace(' ', '.')}@firm.example"
        found[name] = {"name": name, "email": email, "team": TEAMS[i % len(TEAMS)]}
    return found


def _mails(rng: np.random.Generator, emails: list[str]) -> dict[str, Any]:
    return {
        f"m{i + 1}": {
            "from": one(rng, emails),
            "subject": one(rng, TOPICS),
            "date": day(-int(rng.integers(1, 20))),
            "folder": "inbox",
            "text": one(rng, SMALL_TALK),
        }
        for i in range(8)
    }


def _events(rng: np.random.Generator, emails: list[str]) -> dict[str, Any]:
    """Returns meetings of this week, at most one per hour and per title and day."""
    found: dict[str, Any] = {}
    for offset in range(5):
        hours = sorted((rng.permutation(LAST_HOUR - FIRST_HOUR)[:3] + FIRST_HOUR).tolist())
        titles = [MEETINGS[i] for i in rng.permutation(len(MEETINGS)).tolist()]
        for hour in hours:
            size = int(rng.integers(1, 3))
            found[f"e{len(found) + 1}"] = {
                "title": titles.pop(),
                "date": day(offset),
                "start": f"{hour:02}:00",
                "minutes": 60,
                "attendees": sorted(emails[i] for i in rng.permutation(len(emails))[:size]),
            }
    return found


def _files(rng: np.random.Generator) -> dict[str, Any]:
    topics = [TOPICS[i] for i in rng.permutation(len(TOPICS))[:4].tolist()]
    return {f"drafts/{topic.lower()}.txt": one(rng, SMALL_TALK) for topic in topics}


def _customers(rng: np.random.Generator, emails: list[str]) -> dict[str, Any]:
    names = [COMPANIES[i] for i in rng.permutation(len(COMPANIES))[:CUSTOMERS].tolist()]
    return {
        f"c{i + 1}": {
            "name": name,
            "phone": f"555-01{int(rng.integers(10, 100))}",
            "owner": emails[int(rng.integers(4))],
            "stage": one(rng, STAGES),
            "last_contact": day(-int(rng.integers(5, 120))),
            "notes": [],
        }
        for i, name in enumerate(names)
    }
