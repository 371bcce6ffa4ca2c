"""Tools of the airline: they follow the tools of tau-bench's airline domain exactly."""

from __future__ import annotations

import json
from typing import Any, Literal, TypedDict

from agentgym.envs.service.database import Record
from agentgym.envs.service.tau_desk import TauDesk
from agentgym.tools import ToolError, tool

Cabin = Literal["basic_economy", "economy", "business"]
NOW = "2024-05-15T15:00:00"
AIRPORTS: dict[str, str] = {
    "SFO": "San Francisco",
    "JFK": "New York",
    "LAX": "Los Angeles",
    "ORD": "Chicago",
    "DFW": "Dallas",
    "DEN": "Denver",
    "SEA": "Seattle",
    "ATL": "Atlanta",
    "MIA": "Miami",
    "BOS": "Boston",
    "PHX": "Phoenix",
    "IAH": "Houston",
    "LAS": "Las Vegas",
    "MCO": "Orlando",
    "EWR": "Newark",
    "CLT": "Charlotte",
    "MSP": "Minneapolis",
    "DTW": "Detroit",
    "PHL": "Philadelphia",
    "LGA": "LaGuardia",
}


class Leg(TypedDict):
    """A flight on a date (YYYY-MM-DD)."""

    flight_number: str
    date: str


class Passenger(TypedDict):
    """A passenger. The date of birth is written YYYY-MM-DD."""

    first_name: str
    last_name: str
    dob: str


class Payment(TypedDict):
    """A payment method of the user's profile and an amount in dollars."""

    payment_id: str
    amount: int | float


class AirlineTools(TauDesk):
    """The tools of `Airline`, without tasks."""

    tables_of_file = ("flights", "reservations", "users")
    splits_of_file = ("test",)
    writes = frozenset(
        {
            "book_reservation",
            "cancel_reservation",
            "send_certificate",
            "update_reservation_baggages",
            "update_reservation_flights",
            "update_reservation_passengers",
        }
    )

    identity = "user id"
    subjects = {  # noqa: RUF012
        "order": "reservation number",
        "reason": "reason",
        "trip": "date and flight",
        "people": "passengers with their dates of birth",
        "bags": "number of bags",
        "insurance": "choice about insurance",
        "payment": "payment method",
    }

    @tool
    def get_user_details(self, user_id: str) -> str:
        """Shows profile, membership, payment methods and reservations of a user.

        Args:
            user_id: such as "ada_holt_1234".
        """
        user = self._record("users", user_id, "user")
        self.state.customer = self.state.customer or user_id
        return json.dumps(user)

    @tool
    def get_reservation_details(self, reservation_id: str) -> str:
        """Shows flights, passengers, payments, bags and insurance of a reservation.

        Args:
            reservation_id: such as "8JX2WO".
        """
        # The message for an unknown reservation is that of the original.
        return json.dumps(self._record("reservations", reservation_id, "user"))

    @tool
    def list_all_airports(self) -> str:
        """Lists codes and cities of all airports."""
        return json.dumps(AIRPORTS)

    @tool
    def search_direct_flight(self, origin: str, destination: str, date: str) -> str:
        """Finds direct flights that can be booked, with seats and prices per cabin.

        Args:
            origin: code of the airport, such as "JFK".
            destination: code of the airport.
            date: such as "2024-05-20".
        """
        return json.dumps(
            [
                _on(flight, date)
                for _, flight in self.database.rows("flights")
                if (flight["origin"], flight["destination"]) == (origin, destination)
                and _bookable(flight, date)
            ]
        )

    @tool
    def search_onestop_flight(self, origin: str, destination: str, date: str) -> str:
        """Finds pairs of flights with one stop that can be booked.

        Args:
            origin: code of the airport, such as "JFK".
            destination: code of the airport.
            date: date of the first flight, such as "2024-05-20".
        """
        flights = [flight for _, flight in self.database.rows("flights")]
        onward = [flight for flight in flights if flight["destination"] == destination]
        found = []
        for first in flights:
            if first["origin"] != origin or not _bookable(first, date):
                continue
            arrival = first["scheduled_arrival_time_est"]
            later = f"2024-05-{int(date[-2:]) + 1}" if "+1" in arrival else date
            for second in onward:
                meets = second["origin"] == first["destination"]
                if not meets or arrival > second["scheduled_departure_time_est"]:
                    continue
                # As in the original, seats and prices are those of the first date.
                if _bookable(second, later) and date in second["dates"]:
                    found.append(
                        [{**_on(first, date), "date": date}, {**_on(second, date), "date": later}]
                    )
        return json.dumps(found)

    @tool
    def book_reservation(
        self,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: Literal["one_way", "round_trip"],
        cabin: Cabin,
        flights: list[Leg],
        passengers: list[Passenger],
        payment_methods: list[Payment],
        total_baggages: int,
        nonfree_baggages: int,
        insurance: Literal["yes", "no"],
    ) -> str:
        """Books a reservation. The user must have confirmed.

        Args:
            user_id: such as "ada_holt_1234".
            origin: code of the airport, such as "JFK".
            destination: code of the airport.
            flight_type: the type of the trip.
            cabin: the cabin of all flights.
            flights: the flights in order.
            passengers: the passengers.
            payment_methods: the payments, whose sum is the price.
            total_baggages: number of checked bags.
            nonfree_baggages: number of checked bags that are paid for.
            insurance: whether travel insurance is bought.
        """
        user = self._record("users", user_id, "user")
        ids = ("HATHAT", "HATHAU")
        free = (i for i in ids if self.database.find("reservations", i) is None)
        reservation_id = next(free, "HATHAV")
        legs: list[dict[str, Any]] = [dict(leg) for leg in flights]
        for leg in legs:
            self._fill(leg, cabin, len(passengers))
        price = sum(leg["price"] for leg in legs) * len(passengers)
        price += 30 * len(passengers) if insurance == "yes" else 0
        price += 50 * nonfree_baggages
        self._check_payments(user, payment_methods, price)
        user = self.database.edit("users", user_id)
        for payment in payment_methods:
            method = user["payment_methods"].get(payment["payment_id"])
            if method and method["source"] == "gift_card":
                method["amount"] -= payment["amount"]
            elif method and method["source"] == "certificate":
                del user["payment_methods"][payment["payment_id"]]
        reservation = {
            "reservation_id": reservation_id,
            "user_id": user_id,
            "origin": origin,
            "destination": destination,
            "flight_type": flight_type,
            "cabin": cabin,
            "flights": legs,
            "passengers": passengers,
            "payment_history": payment_methods,
            "created_at": NOW,
            "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages,
            "insurance": insurance,
        }
        self.database.add("reservations", reservation_id, reservation)
        user["reservations"].append(reservation_id)
        return json.dumps(reservation)

    @tool
    def cancel_reservation(self, reservation_id: str) -> str:
        """Cancels a whole reservation. The user must have confirmed.

        Args:
            reservation_id: such as "8JX2WO".
        """
        self._record("reservations", reservation_id, "reservation")
        reservation = self.database.edit("reservations", reservation_id)
        reservation["payment_history"] += [
            {"payment_id": payment["payment_id"], "amount": -payment["amount"]}
            for payment in reservation["payment_history"]
        ]
        reservation["status"] = "cancelled"
        return json.dumps(reservation)

    @tool
    def send_certificate(self, user_id: str, amount: int | float) -> str:
        """Sends a travel certificate to a user. The user must have confirmed.

        Args:
            user_id: such as "ada_holt_1234".
            amount: amount in dollars.
        """
        methods = self._record("users", user_id, "user")["payment_methods"]
        ids = (f"certificate_{number}" for number in (3221322, 3221323, 3221324))
        payment_id = next((i for i in ids if i not in methods), None)
        if payment_id is None:
            raise ToolError("no more certificates can be sent to this user")
        certificate = {"source": "certificate", "amount": amount, "id": payment_id}
        self.database.edit("users", user_id)["payment_methods"][payment_id] = certificate
        return f"Certificate {payment_id} added to user {user_id} with amount {amount}."

    @tool
    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> str:
        """Changes the number of checked bags. The user must have confirmed.

        Args:
            reservation_id: such as "8JX2WO".
            total_baggages: the new number of checked bags.
            nonfree_baggages: the new number of bags that are paid for.
            payment_id: pays 50 dollars for each additional paid bag.
        """
        reservation = self._record("reservations", reservation_id, "reservation")
        price = 50 * max(0, nonfree_baggages - reservation["nonfree_baggages"])
        self._check_payment(reservation, payment_id, price)
        reservation = self.database.edit("reservations", reservation_id)
        reservation["total_baggages"] = total_baggages
        reservation["nonfree_baggages"] = nonfree_baggages
        self._pay(reservation, payment_id, price)
        return json.dumps(reservation)

    @tool
    def update_reservation_flights(
        self, reservation_id: str, cabin: Cabin, flights: list[Leg], payment_id: str
    ) -> str:
        """Changes flights or cabin of a reservation. The user must have confirmed.

        Args:
            reservation_id: such as "8JX2WO".
            cabin: the cabin of all flights.
            flights: all flights of the reservation, also those that are kept.
            payment_id: pays or receives the difference of the prices.
        """
        reservation = self._record("reservations", reservation_id, "reservation")
        count = len(reservation["passengers"])
        legs: list[dict[str, Any]] = [dict(leg) for leg in flights]
        for leg in legs:
            kept = [
                old
                for old in reservation["flights"]
                if (old["flight_number"], old["date"]) == (leg["flight_number"], leg["date"])
                and cabin == reservation["cabin"]
            ]
            if kept:
                leg.update({key: kept[0][key] for key in ("price", "origin", "destination")})
            else:
                self._fill(leg, cabin, count)
        before = sum(leg["price"] for leg in reservation["flights"])
        price = (sum(leg["price"] for leg in legs) - before) * count
        self._check_payment(reservation, payment_id, price)
        reservation = self.database.edit("reservations", reservation_id)
        reservation["flights"] = legs
        self._pay(reservation, payment_id, price)
        return json.dumps(reservation)

    @tool
    def update_reservation_passengers(
        self, reservation_id: str, passengers: list[Passenger]
    ) -> str:
        """Replaces the passengers of a reservation. The user must have confirmed.

        Args:
            reservation_id: such as "8JX2WO".
            passengers: all passengers, in the order of the reservation. A new one takes the place
                of the old one. Their number cannot change.
        """
        reservation = self._record("reservations", reservation_id, "reservation")
        if len(passengers) != len(reservation["passengers"]):
            raise ToolError("number of passengers does not match")
        reservation = self.database.edit("reservations", reservation_id)
        reservation["passengers"] = passengers
        return json.dumps(reservation)

    def _fill(self, leg: dict[str, Any], cabin: str, count: int) -> None:
        """Adds price, origin and destination to a new flight of a reservation.

        Raises:
            ToolError: if the flight cannot be booked for this number of passengers.
        """
        number, date = leg["flight_number"], leg["date"]
        flight = self._record("flights", number, f"flight {number}")
        day = flight["dates"].get(date)
        if day is None:
            raise ToolError(f"flight {number} not found on date {date}")
        if day["status"] != "available":
            raise ToolError(f"flight {number} not available on date {date}")
        if day["available_seats"][cabin] < count:
            raise ToolError(f"not enough seats on flight {number}")
        leg["price"] = day["prices"][cabin]
        leg["origin"], leg["destination"] = flight["origin"], flight["destination"]

    def _check_payments(self, user: Record, payments: list[Payment], price: float) -> None:
        for payment in payments:
            method = user["payment_methods"].get(payment["payment_id"])
            if method is None:
                raise ToolError(f"payment method {payment['payment_id']} not found")
            if method["source"] != "credit_card" and method["amount"] < payment["amount"]:
                raise ToolError(f"not enough balance in payment method {payment['payment_id']}")
        paid = sum(payment["amount"] for payment in payments)
        if paid != price:
            raise ToolError(
                f"payment amount does not add up, total price is {price}, but paid {paid}"
            )

    def _check_payment(self, reservation: Record, payment_id: str, price: float) -> None:
        methods = self._record("users", reservation["user_id"], "user")["payment_methods"]
        if payment_id not in methods:
            raise ToolError("payment method not found")
        method = methods[payment_id]
        if method["source"] == "certificate":
            raise ToolError("certificate cannot be used to update reservation")
        if method["source"] == "gift_card" and method["amount"] < price:
            raise ToolError("gift card balance is not enough")

    def _pay(self, reservation: Record, payment_id: str, price: float) -> None:
        """Charges a payment method of the user of a reservation."""
        method = self._record("users", reservation["user_id"], "user")["payment_methods"]
        if method[payment_id]["source"] == "gift_card":
            user = self.database.edit("users", reservation["user_id"])
            user["payment_methods"][payment_id]["amount"] -= price
        if price != 0:
            reservation["payment_history"].append({"payment_id": payment_id, "amount": price})


def _bookable(flight: Record, date: str) -> bool:
    return flight["dates"].get(date, {}).get("status") == "available"


def _on(flight: Record, date: str) -> dict[str, Any]:
    """Returns a flight with seats and prices of a date."""
    return {**{k: v for k, v in flight.items() if k != "dates"}, **flight["dates"][date]}
