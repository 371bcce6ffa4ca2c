"""Arguments of calls and records of databases are compared by value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.database import by_value, canonical
from agentgym.envs.service.retail import Retail
from agentgym.envs.service.tau_desk import TauDesk
from agentgym.envs.service.telecom import Telecom
from agentgym.tools import Call, write_call

SHARED = Path(__file__).resolve().parents[4] / "shared"


CASED = ("first_name", "last_name", "address1", "address2", "city", "state", "country")


def spelled(value: Any, name: str = "") -> Any:
    """Returns an argument of equal value in another form."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        return [spelled(each) for each in value]
    if isinstance(value, dict):
        return {key: spelled(each, key) for key, each in value.items()}
    if isinstance(value, str) and value in ("yes", "no"):
        return value == "yes"
    if isinstance(value, str) and value.startswith("#"):
        return f" {value[1:].lower()}"
    if isinstance(value, str) and name in CASED:
        return f" {value} "
    return f"{value.upper()} " if isinstance(value, str) else value


def play(env: Any, task: str, change: Any = spelled) -> dict[str, Any]:
    """Plays the expert with arguments in other forms. Returns the last info."""
    env.reset(seed=0, options={"task": task})
    while True:
        action = env._solve()
        if isinstance(action, Call):
            changed = {key: change(value, key) for key, value in action.arguments.items()}
            action = write_call(Call(action.name, changed))
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info


@pytest.mark.parametrize(
    "env", [Retail(), Airline(), Telecom()], ids=lambda env: type(env).__name__
)
def test_arguments_in_other_forms_have_the_same_effect(env: Any):
    for i in range(40):
        info = play(env, f"train/{i}")
        assert info["success"], (i, env.state)


def first_booking(env: Airline) -> tuple[str, dict[str, Any]]:
    for i in range(200):
        case = env._case(f"train/{i}")
        if case.calls and case.calls[0].name == "book_reservation":
            return f"train/{i}", dict(case.calls[0].arguments)
    raise AssertionError("no booking")


def test_true_is_not_one_and_another_amount_is_another():
    env = Airline(requests=1)
    task, arguments = first_booking(env)
    amount = arguments["payment_methods"][0]["amount"]
    for other, valid in ((float(amount), True), (amount + 1, False), (True, False)):
        env.reset(seed=0, options={"task": task})
        payment = [{**arguments["payment_methods"][0], "amount": other}]
        call = Call("book_reservation", {**arguments, "payment_methods": payment})
        info = env.step(write_call(call))[-1]
        assert info["valid"] == valid


def test_dates_and_places_are_read_by_value_or_refused():
    env = Airline()
    env.reset(seed=0)
    search = {"origin": "SFO", "destination": "JFK", "date": "2024-05-20"}
    same = {"origin": "san francisco", "destination": "New York", "date": "May 20, 2024"}
    found = [env.step(write_call(Call("search_direct_flight", a)))[0] for a in (search, same)]
    assert found[0] == found[1] and json.loads(found[0])
    for key, value, text in (
        ("date", "May 20", "must be a date with its year"),
        ("date", "next Monday", "must be a date with its year"),
        ("origin", "Atlantis", "There is no airport 'Atlantis'"),
    ):
        observation, *_, info = env.step(
            write_call(Call("search_direct_flight", {**search, key: value}))
        )
        assert text in observation and not info["valid"]


def test_an_unknown_key_is_named():
    env = Airline()
    task, arguments = first_booking(env)
    env.reset(seed=0, options={"task": task})
    legs = [{**leg, "origin": "SFO"} for leg in arguments["flights"]]
    observation, *_, info = env.step(
        write_call(Call("book_reservation", {**arguments, "flights": legs}))
    )
    assert "unknown key 'origin'" in observation and not info["valid"]


def test_with_original_data_repeated_keys_of_flights_are_dropped():
    folder = SHARED / "data" / "tau_bench" / "airline"
    if not folder.is_dir():
        pytest.skip("needs the original's data")
    env: TauDesk = Airline(data_dir=str(folder), user=lambda *_: "Go on.")
    tried = 0
    for task in (*env.tasks.train, *env.tasks.test):
        calls = [c for c in env_case(env, task) if isinstance(c.arguments.get("flights"), list)]
        for call in calls:
            digests = []
            for extra in ({}, {"origin": "JFK", "destination": "SEA", "price": 1}):
                env.reset(seed=0, options={"task": task})
                legs = [{**leg, **extra} for leg in call.arguments["flights"]]
                changed = Call(call.name, {**call.arguments, "flights": legs})
                info = env.step(write_call(changed))[-1]
                digests.append((info["valid"], env.database.digest()))
            assert digests[0] == digests[1]
            tried += digests[0][0]
    assert tried > 3


def env_case(env: TauDesk, task: str) -> tuple[Call, ...]:
    env.reset(seed=0, options={"task": task})
    return env.case.calls


def test_with_original_data_numbers_are_compared_as_in_the_original():
    assert canonical({"amount": 195.0}) != canonical({"amount": 195})
    assert by_value({"amount": 195.0}) == by_value({"amount": 195})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def in_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [in_floats(each) for each in value]
    if isinstance(value, dict):
        return {key: in_floats(each) for key, each in value.items()}
    return float(value) if type(value) is int else value


@settings(deadline=None)
@given(VALUES)
def test_whole_floats_are_integers_by_value(value: Any):
    assert by_value(value) == by_value(in_floats(value))


@settings(deadline=None)
@given(st.integers(-3, 3), st.booleans())
def test_booleans_are_no_numbers(number: int, flag: bool):
    assert by_value(number) != by_value(flag)


def test_a_calculation_is_read_in_its_typographic_forms():
    env = Retail()
    env.reset(seed=0)
    for text in ("2 * 3 - 1", "2 \u00d7 3 \u2212 1", "2\u00a0\u22c5\u00a03 \u2013 1"):
        assert env.step(write_call(Call("calculate", {"expression": text})))[0] == "5.0"
