"""Generated tasks of the airline: users with requests."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.service.airline_tools import AIRPORTS
from agentgym.envs.service.airline_world import (
    DATES,
    SERVED,
    airline,
    free_bags,
)
from agentgym.envs.service.cases import Case, LookUps, case_of, split_users
from agentgym.envs.service.database import Record, Tables
from agentgym.envs.service.people import draw_birthday, draw_name
from agentgym.envs.service.proposals import CANCEL, Proposal, Value
from agentgym.envs.service.user import MOODS, Request, Scenario, draw_requests
from agentgym.envs.service.vocabulary import CABINS, INSURANCE, NAME_WORDS, Vocabulary, Words
from agentgym.tasks import task_rng
from agentgym.tools import Call

# The words that name a change.
_BAGS = r"\b(?:bags?|baggages?|luggage|suitcases?)\b"
_RENAME = r"\b(?:passengers?|travell?ers?|replac\w+|renam\w+|names?|instead|swap\w*)\b"
_CHANGE = r"\b(?:mov\w+|chang\w+|rebook\w*|re-?schedul\w+|switch\w*|modif\w+)\b"
_REBOOK = rf"{_CHANGE}|\bflight\b"
_UNALTERABLE = rf"{CANCEL}|{_CHANGE}"
"""Topic of requests that must be denied: tickets that cannot be cancelled or changed."""
_BOOK = r"\b(?:book\w*|reserv\w+|purchas\w+|buy)\b"
_PLACES = Vocabulary(
    {code: rf"\b(?:{code}|{city})\b" for code, city in AIRPORTS.items()},
    (*AIRPORTS, *AIRPORTS.values()),
)


@lru_cache(maxsize=4096)
def airline_case(world: int, task: str, count: int | None) -> Case:
    """Returns a task.

    Args:
        world: seed of the airline.
        task: name of the task.
        count: number of requests. None: 1 to 3.
    """
    rng, tables = task_rng(task, "airline"), airline(world)
    users = split_users(tables, task.partition("/")[0])
    user_id = users[int(rng.integers(len(users)))]
    return _Writer(rng, tables, user_id).case(count or int(rng.integers(1, 4)))


class _Writer:
    """Writes the requests of a user."""

    def __init__(self, rng: np.random.Generator, tables: Tables, user_id: str):
        self.rng, self.tables, self.user_id = rng, tables, user_id
        self.user = tables.records["users"][user_id]
        self.details = Call("get_user_details", {"user_id": user_id})
        self.booked = [tables.records["reservations"][key] for key in self.user["reservations"]]
        self.card = next(m for m in self.user["payment_methods"].values() if "brand" in m)
        self.said_card = f"the {self.card['brand']} card ending in {self.card['last_four']}"

    def case(self, count: int) -> Case:
        kinds = (self.cancel, self.add_bags, self.rename, self.rebook, self.book, self.ask_price)
        requests = draw_requests(self.rng, kinds, count, self._subject)
        mood = MOODS[int(self.rng.integers(len(MOODS)))]
        identity = f"My user id is {self.user_id}."
        return case_of(Scenario(self.user_id, identity, self.details, mood, requests))

    @staticmethod
    def _subject(request: Request) -> str:
        """Returns the reservation that a request is about."""
        calls = [*request.calls, *request.look_ups[-1:]]
        return str(calls[0].arguments.get("reservation_id", "new"))

    def _pick(self) -> tuple[Record, str, dict[str, str], LookUps]:
        """Returns a reservation, how the user names it, the answer about it and the look-ups."""
        booked = self.booked[int(self.rng.integers(len(self.booked)))]
        key = booked["reservation_id"]
        look_up = Call("get_reservation_details", {"reservation_id": key})
        if self.rng.random() < 0.5:
            return booked, f"reservation {key}", {"order": f"It is {key}."}, (look_up,)
        ids = [b["reservation_id"] for b in self.booked]
        look_ups = [Call("get_reservation_details", {"reservation_id": i}) for i in ids]
        trip = f"trip from {AIRPORTS[booked['origin']]} to {AIRPORTS[booked['destination']]}"
        known = {"order": f"I do not have the number. It is my {trip}."}
        return booked, f"my {trip}", known, tuple(look_ups[: look_ups.index(look_up) + 1])

    def _paid(self) -> tuple[Value, ...]:
        """Returns the payment method that a proposal may name."""
        return (("method", self.card["id"]),)

    def _prices(self, booked: Record, new: float) -> tuple[float, ...]:
        """Returns the amounts of a change to a flight with another price."""
        count, old = len(booked["passengers"]), booked["flights"][0]["price"]
        return (old, new, count * old, count * new, count * abs(new - old))

    def _proposal(
        self,
        topic: str,
        booked: Record | None = None,
        *,
        needed: tuple[Value, ...] = (),
        known: tuple[Value, ...] = (),
        base: tuple[float, ...] = (),
        words: Words | None = None,
    ) -> Proposal:
        """Returns the values of a change of a reservation, or of a new one."""
        amounts = [
            *base,
            *(m["amount"] for m in self.user["payment_methods"].values() if "amount" in m),
        ]
        if booked is not None:
            needed = (("order", booked["reservation_id"]), *needed)
            known = (*known, ("number", str(len(booked["passengers"]))))
            known += tuple(("place", booked[end]) for end in ("origin", "destination"))
            known += (("cabin", booked["cabin"]),)
            amounts += [paid["amount"] for paid in booked["payment_history"]]
            amounts += [booked["flights"][0]["price"], 30.0]
            words = {"place": _PLACES, "cabin": CABINS, **(words or {})}
        methods = self.user["payment_methods"]
        return Proposal(topic, needed, known, tuple(amounts), methods, words=words or {})

    def cancel(self) -> Request:
        booked, named, facts, look_ups = self._pick()
        key, ill = booked["reservation_id"], bool(self.rng.random() < 0.5)
        allowed = (
            booked["cabin"] == "business"
            or booked["created_at"].startswith("2024-05-15")
            or (ill and booked["insurance"] == "yes")
        )
        reason = "I am ill and cannot fly." if ill else "My plans have changed."
        return Request(
            opening=f"I want to cancel {named}.",
            facts={**facts, "reason": reason},
            proposal=self._proposal(CANCEL if allowed else _UNALTERABLE, booked),
            calls=(Call("cancel_reservation", {"reservation_id": key}),) if allowed else (),
            look_ups=look_ups,
            summary=f"I will cancel reservation {key}.",
        )

    def add_bags(self) -> Request:
        booked, named, facts, look_ups = self._pick()
        total, key = int(self.rng.integers(1, 5)), booked["reservation_id"]
        free = free_bags(self.user["membership"], booked["cabin"]) * len(booked["passengers"])
        paid = max(0, total - free)
        arguments = {
            "reservation_id": key,
            "total_baggages": total,
            "nonfree_baggages": paid,
            "payment_id": self.card["id"],
        }
        return Request(
            opening=f"I want to check in bags for {named}.",
            facts={
                **facts,
                "bags": f"Bags in all: {total}.",
                "payment": f"If it costs something, use {self.said_card}.",
            },
            proposal=self._proposal(
                _BAGS,
                booked,
                needed=(("bags", str(total)), *([("amount", str(50 * paid))] if paid else [])),
                known=(*(("bags", str(n)) for n in {0, paid, total - paid, free}), *self._paid()),
                base=tuple(50.0 * n for n in range(1, paid + 1)),
            ),
            calls=(Call("update_reservation_baggages", arguments),),
            look_ups=look_ups,
            summary=(
                f"I will set the checked bags of reservation {key} to {total}, for ${50 * paid} "
                f"paid with {self.said_card}."
            ),
        )

    def rename(self) -> Request:
        booked, named, facts, look_ups = self._pick()
        key, passengers = booked["reservation_id"], [dict(p) for p in booked["passengers"]]
        new = {**draw_name(self.rng), "dob": draw_birthday(self.rng)}
        old, passengers[-1] = passengers[-1], new
        named_old = f"{old['first_name']} {old['last_name']}"
        arguments = {"reservation_id": key, "passengers": passengers}
        return Request(
            opening=f"Someone else will fly in {named}.",
            facts={
                **facts,
                "people": f"Instead of {named_old}, it is {_person(new)}.",
            },
            proposal=self._proposal(
                _RENAME,
                booked,
                needed=(("name", f"{new['first_name']} {new['last_name']}"),),
                known=(
                    ("date", new["dob"]),
                    *(("date", p["dob"]) for p in booked["passengers"]),
                    *(("person", n) for p in (new, *booked["passengers"]) for n in _names(p)),
                ),
                words={"person": NAME_WORDS},
            ),
            calls=(Call("update_reservation_passengers", arguments),),
            look_ups=look_ups,
            summary=f"I will replace the passenger of reservation {key} by {_person(new)}.",
        )

    def _cheapest(self, origin: str, destination: str, cabin: str) -> tuple[str, Record]:
        """Returns a date, and the cheapest direct flight on it."""
        flights = [
            flight
            for flight in self.tables.records["flights"].values()
            if (flight["origin"], flight["destination"]) == (origin, destination)
        ]
        while True:
            date = DATES[int(self.rng.integers(len(DATES)))]
            priced = sorted(
                (flight["dates"][date]["prices"][cabin], flight["flight_number"])
                for flight in flights
                if flight["dates"][date]["status"] == "available"
            )
            if priced and (len(priced) == 1 or priced[0][0] < priced[1][0]):
                return date, self.tables.records["flights"][priced[0][1]]

    def rebook(self) -> Request:
        booked, named, facts, look_ups = self._pick()
        key, cabin = booked["reservation_id"], booked["cabin"]
        origin, destination = booked["origin"], booked["destination"]
        date, flight = self._cheapest(origin, destination, cabin)
        if date == booked["flights"][0]["date"]:
            date, flight = self._cheapest(origin, destination, cabin)
        number = flight["flight_number"]
        arguments = {
            "reservation_id": key,
            "cabin": cabin,
            "flights": [{"flight_number": number, "date": date}],
            "payment_id": self.card["id"],
        }
        change = Call("update_reservation_flights", arguments)
        allowed = cabin != "basic_economy"
        return Request(
            opening=f"I want to fly on another day with {named}.",
            facts={
                **facts,
                "trip": f"I want the cheapest direct flight on {date}, in the same cabin.",
                "payment": f"The difference goes to {self.said_card}.",
            },
            proposal=self._proposal(
                _REBOOK if allowed else _UNALTERABLE,
                booked,
                needed=(("flight", number), ("date", date)),
                known=self._paid(),
                base=self._prices(booked, flight["dates"][date]["prices"][cabin]),
            ),
            calls=(change,) if allowed else (),
            look_ups=(*look_ups, *((_search(origin, destination, date),) if allowed else ())),
            summary=(
                f"I will move reservation {key} to flight {number} on {date}, with the difference "
                f"in price on {self.said_card}."
            ),
        )

    def book(self) -> Request:
        origin, destination = (SERVED[i] for i in self.rng.permutation(len(SERVED))[:2].tolist())
        cabin = ("economy", "business")[int(self.rng.integers(2))]
        date, flight = self._cheapest(origin, destination, cabin)
        bags, insured = int(self.rng.integers(0, 3)), bool(self.rng.random() < 0.5)
        paid = max(0, bags - free_bags(self.user["membership"], cabin))
        price = flight["dates"][date]["prices"][cabin] + 30 * insured + 50 * paid
        me = {**self.user["name"], "dob": self.user["dob"]}
        number = flight["flight_number"]
        arguments: dict[str, Any] = {
            "user_id": self.user_id,
            "origin": origin,
            "destination": destination,
            "flight_type": "one_way",
            "cabin": cabin,
            "flights": [{"flight_number": number, "date": date}],
            "passengers": [me],
            "payment_methods": [{"payment_id": self.card["id"], "amount": price}],
            "total_baggages": bags,
            "nonfree_baggages": paid,
            "insurance": "yes" if insured else "no",
        }
        return Request(
            opening=f"I want to book a flight from {AIRPORTS[origin]} to {AIRPORTS[destination]}.",
            facts={
                "trip": f"One way, the cheapest direct flight on {date} in {cabin}.",
                "people": f"Only me, {_person(me)}.",
                "bags": f"Bags to check in: {bags}.",
                "insurance": "I want insurance." if insured else "I do not want insurance.",
                "payment": f"I pay with {self.said_card}.",
            },
            proposal=self._proposal(
                _BOOK,
                needed=(("flight", number), ("date", date), ("amount", str(price))),
                known=(
                    *(("bags", str(n)) for n in {bags, paid, bags - paid}),
                    *(("place", place) for place in (origin, destination)),
                    *(("person", name) for name in _names(me)),
                    *(("date", me["dob"]), ("cabin", cabin)),
                    ("insurance", "yes" if insured else "no"),
                    *self._paid(),
                ),
                base=(flight["dates"][date]["prices"][cabin], 30, 50),
                words={
                    "place": _PLACES,
                    "person": NAME_WORDS,
                    "cabin": CABINS,
                    "insurance": INSURANCE,
                },
            ),
            calls=(Call("book_reservation", arguments),),
            look_ups=(_search(origin, destination, date),),
            summary=f"I will book flight {number} on {date} for ${price} with {self.said_card}.",
        )

    def ask_price(self) -> Request:
        booked, named, facts, look_ups = self._pick()
        return Request(
            opening=f"How much did I pay for {named}?",
            facts=facts,
            outputs=(str(booked["payment_history"][0]["amount"]),),
            look_ups=look_ups,
        )


def _search(origin: str, destination: str, date: str) -> Call:
    arguments = {"origin": origin, "destination": destination, "date": date}
    return Call("search_direct_flight", arguments)


def _person(passenger: dict[str, str]) -> str:
    name = f"{passenger['first_name']} {passenger['last_name']}"
    return f"{name}, born {passenger['dob']}"


def _names(passenger: dict[str, str]) -> tuple[str, str]:
    return passenger["first_name"], passenger["last_name"]
