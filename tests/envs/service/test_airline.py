"""Airline: rules that only the policy states, and payments."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.airline_world import free_bags
from agentgym.tools import Call, write_call


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_expert_solves_generated_tasks(split: str):
    env = Airline()
    kinds = set()
    for i in range(40):
        env.reset(seed=0, options={"task": f"{split}/{i}"})
        kinds |= {call.name for call in env.case.calls}
        over, info = False, {}
        while not over:
            action = env.expert()
            assert action is not None
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert info["success"], f"{split}/{i}"
    assert kinds == env.writes - {"send_certificate"}


def test_free_bags_depend_on_membership_and_cabin():
    table = [
        [free_bags(member, cabin) for cabin in ("basic_economy", "economy", "business")]
        for member in ("regular", "silver", "gold")
    ]
    assert table == [[0, 1, 2], [1, 2, 3], [2, 3, 3]]


@pytest.fixture
def booked() -> tuple[Airline, dict[str, Any]]:
    env = Airline()
    env.reset(seed=0, options={"task": "train/0"})
    user_id, user = next(iter(env.database.rows("users")))
    number, flight = next(iter(env.database.rows("flights")))
    date, day = next(d for d in flight["dates"].items() if d[1]["status"] == "available")
    arguments = {
        "user_id": user_id,
        "origin": flight["origin"],
        "destination": flight["destination"],
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [{"flight_number": number, "date": date}],
        "passengers": [{**user["name"], "dob": user["dob"]}],
        "payment_methods": [
            {"payment_id": next(iter(user["payment_methods"])), "amount": day["prices"]["economy"]}
        ],
        "total_baggages": 0,
        "nonfree_baggages": 0,
        "insurance": "no",
    }
    return env, arguments


def test_a_booking_must_be_paid_exactly(booked: tuple[Airline, dict[str, Any]]):
    env, arguments = booked
    wrong = {**arguments, "insurance": "yes"}
    observation, *_, info = env.step(write_call(Call("book_reservation", wrong)))
    assert "does not add up" in observation and not info["valid"]
    assert not env.state.changes
    observation, *_, info = env.step(write_call(Call("book_reservation", arguments)))
    assert '"HATHAT"' in observation and info["valid"]
    assert env.database.find("reservations", "HATHAT") is not None
    assert env.state.violations == [
        "identify the customer first",
        "obtain confirmation before a change",
    ]


def test_flights_that_do_not_exist_are_refused(booked: tuple[Airline, dict[str, Any]]):
    env, arguments = booked
    for leg, message in (
        ({"flight_number": "AG1", "date": "2024-05-20"}, "flight AG1 not found"),
        ({**arguments["flights"][0], "date": "2024-05-32"}, "not found on date 2024-05-32"),
    ):
        call = Call("book_reservation", {**arguments, "flights": [leg]})
        assert message in env.step(write_call(call))[0]


def test_free_bags_need_no_price():
    env, free = Airline(requests=1), [("update_reservation_baggages", 0)]
    for i in range(200):
        env.reset(seed=0, options={"task": f"train/{i}"})
        if [(c.name, c.arguments.get("nonfree_baggages")) for c in env.case.calls] == free:
            break
    over, info = False, {}
    while not over:
        action = env.expert()
        assert action is not None
        proposal, _, rest = action.partition(", for $0 paid")
        action = f"{proposal} for free. Do you confirm (yes/no)?" if rest else action
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert info["success"]
