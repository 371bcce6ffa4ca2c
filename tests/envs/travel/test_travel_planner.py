"""TravelPlanner: each constraint, and plans that satisfy all of them."""

from __future__ import annotations

import copy
import dataclasses
import math
from itertools import product

import numpy as np
import pytest

from agentgym.envs.travel.checks import COMMONSENSE, HARD, Day, Request, Trip, check
from agentgym.envs.travel.solver import LENGTHS, LEVELS, draw_request, solve
from agentgym.envs.travel.travel_planner import TravelPlanner, needed_entries
from agentgym.envs.travel.world import DATES, World, world
from agentgym.time_step import state_digest

WORLD = world(0)


def drawn(days: int, level: str, number: int = 0, **wishes: object) -> tuple[Request, list[Day]]:
    """Returns a request and its solver's plan, which may violate wishes that are added later."""
    request = draw_request(np.random.default_rng(number), WORLD, days, level)
    plan = solve(WORLD, request)
    assert plan is not None
    return dataclasses.replace(request, **wishes), copy.deepcopy(plan)


def violated(request: Request, plan: list[Day]) -> set[str]:
    return {name for name, fault in check(WORLD, request, plan).items() if fault}


def test_the_world_is_the_same_everywhere_and_another_one_differs():
    assert len(WORLD.cities) == 60 == len(WORLD.by_name) and len(WORLD.places) == 2700
    again = World(0)
    assert again.cities == WORLD.cities and again.hotels == WORLD.hotels
    assert again.restaurants == WORLD.restaurants and again.attractions == WORLD.attractions
    assert World(1).cities != WORLD.cities
    a, b = WORLD.cities[0].name, WORLD.cities[9].name
    assert WORLD.kilometres(a, b) == WORLD.kilometres(b, a)
    assert WORLD.road(a, a, "taxi") is None and WORLD.flights(a, a, DATES[0]) == ()
    month = [flight for date in DATES for flight in WORLD.flights(a, b, date)]
    assert month == [flight for date in DATES for flight in again.flights(a, b, date)]
    assert len({flight.number for flight in month}) == len(month) > 31


@pytest.mark.parametrize(("days", "level"), list(product(LENGTHS, LEVELS)))
def test_every_request_has_a_plan_within_its_budget(days: int, level: str):
    for number in range(8):
        request, plan = drawn(days, level, number)
        assert violated(request, plan) == set()
        cost = Trip(request, plan, WORLD).cost()
        assert cost <= request.budget <= 1.6 * cost + 100
        assert (request.people == 1) == (level == "easy") and request.cities == (days - 1) // 2
        wishes = [request.rule, request.room, request.cuisines, request.transport]
        assert sum(map(bool, wishes)) == {"easy": 0, "medium": 1, "hard": 3}[level]
        assert len(check(WORLD, request, plan)) == 9 + sum(map(bool, wishes))
        poor = dataclasses.replace(request, budget=cost - 1)
        assert violated(poor, plan) == {"budget"}


def test_the_cost_is_counted_by_person_car_and_unit():
    a, b = WORLD.cities[0].name, WORLD.cities[1].name
    request = Request(a, b, 1, 0, 3, people=6, budget=10**6)
    hotel, table = WORLD.hotels[b][0], WORLD.restaurants[b][0]
    plan = [Day(), Day(), Day(transport=f"Self-Driving from {b} to {a}")]
    plan[0] = Day(transport=f"taxi from {a} to {b}", hotel=f"{hotel.name}, {b}")
    plan[1] = Day(breakfast=f"{table.name.upper()}, {b}", hotel=f" {hotel.name},{b}")
    kilometres = WORLD.kilometres(a, b)
    rides = 2 * kilometres + 2 * math.ceil(0.05 * kilometres)
    nights = 2 * hotel.price * math.ceil(6 / hotel.people)
    assert Trip(request, plan, WORLD).cost() == rides + 6 * table.price + nights
    flights = [(day, flight) for day in (0, 1) for flight in WORLD.flights(a, b, DATES[day])]
    for day, flight in flights:
        plan[0].transport = f"flight {flight.number.lower()} from {a} to {b}"
        price = Trip(request, plan, WORLD).ride_price(0)
        assert price == (6 * flight.price if day == 0 else None), "it must fly on that date"
    assert {day for day, _ in flights} == {0, 1}


def test_made_up_places_and_flights_are_not_in_the_sandbox():
    request, plan = drawn(3, "medium")
    for slot, value in (
        ("lunch", f"No Such Place, {request.target}"),
        ("hotel", f"No Such House, {request.target}"),
        ("attractions", f"{plan[1].attractions}; No Such Sight, {request.target}"),
    ):
        bad = copy.deepcopy(plan)
        setattr(bad[1], slot, value)
        faults = check(WORLD, request, bad)
        assert "no such" in faults["within sandbox"]
        hard = [name for name in faults if name in HARD]
        assert "budget" in hard and all(faults[name] for name in hard), "no hard one is met then"
    bad = copy.deepcopy(plan)
    bad[0].transport = f"flight F9999999 from {request.origin} to {request.target}"
    assert "within sandbox" in violated(request, bad)
    far = next(c.name for c in WORLD.cities if WORLD.road(request.target, c.name, "taxi") is None)
    bad[0].transport = f"taxi from {far} to {request.target}"
    assert {"within sandbox", "reasonable city route"} <= violated(request, bad)


def test_what_must_be_filled_in():
    request, plan = drawn(5, "easy")
    for day, slot in ((1, "lunch"), (1, "attractions"), (2, "hotel"), (3, "dinner")):
        bad = copy.deepcopy(plan)
        setattr(bad[day], slot, "")
        faults = check(WORLD, request, bad)
        assert f"day {day + 1} needs" in faults["complete information"]
        assert faults["budget"] == faults["complete information"]
    bare = copy.deepcopy(plan)
    for day in (0, 2, 4):
        bare[day].breakfast = bare[day].dinner = bare[day].attractions = ""
    assert violated(request, bare) == set(), "travelling days need no meals"
    bare[1] = Day(transport="", **{slot: "" for slot in ("lunch", "dinner")}, hotel=plan[1].hotel)
    assert "complete information" in violated(request, bare)
    fewer = dataclasses.replace(request, cities=1)
    assert "complete information" in violated(fewer, plan)
    plan[3] = Day()
    faults = check(WORLD, request, plan)
    assert set(faults.values()) == {"nothing is planned for day 4"}
    assert set(faults) == {*COMMONSENSE, "budget"}


def test_half_of_the_entries_are_needed():
    request, plan = drawn(3, "easy")
    for day in (0, 2):
        plan[day].breakfast = plan[day].lunch = plan[day].dinner = ""
    plan[0].attractions = ""
    assert sum(len(day.entries()) for day in plan) == 8
    assert "half" in check(WORLD, request, plan)["complete information"]
    assert needed_entries(request) == 9


def test_the_route_is_a_round_trip_through_other_cities():
    request, plan = drawn(7, "easy")

    def fault(day: int, transport: str) -> str:
        bad = copy.deepcopy(plan)
        bad[day].transport = transport
        return check(WORLD, request, bad)["reasonable city route"]

    first = plan[0].transport.rpartition(" to ")[2]
    second = plan[2].transport.rpartition(" to ")[2]
    third = plan[4].transport.rpartition(" to ")[2]
    elsewhere = next(c.name for c in WORLD.cities if c.state not in (request.target,))
    assert fault(0, "") == "day 1 must start with a journey"
    assert "must end in" in fault(6, "") and "must end in" in fault(6, f"taxi from {third} to X")
    assert "day before ended" in fault(0, f"taxi from {second} to {first}")
    assert "day before ended" in fault(4, f"taxi from {first} to {third}")
    assert "visited twice" in fault(4, f"taxi from {second} to {first}")
    assert "is not in" in fault(4, f"taxi from {second} to {elsewhere}")
    assert "is not in" in fault(4, f"taxi from {second} to {request.origin}")
    short, plan = drawn(3, "easy")
    other = next(c for c in WORLD.cities if c.name not in (short.origin, short.target)).name
    assert "is not in" in fault_of(short, plan, other)


def fault_of(request: Request, plan: list[Day], other: str) -> str:
    plan[0].transport = f"taxi from {request.origin} to {other}"
    plan[2].transport = f"taxi from {other} to {request.origin}"
    return check(WORLD, request, plan)["reasonable city route"]


def test_entries_are_in_the_cities_of_their_day_and_differ():
    request, plan = drawn(5, "easy")
    for slot in ("lunch", "attractions", "hotel"):
        bad = copy.deepcopy(plan)
        setattr(bad[1], slot, getattr(plan[3], slot))
        faults = violated(request, bad)
        assert "within current city" in faults
        expected = {"lunch": "diverse restaurants", "attractions": "diverse attractions"}
        assert slot == "hotel" or expected[slot] in faults
    bad = copy.deepcopy(plan)
    bad[2].lunch = bad[3].lunch  # on a travel day, meals may be in both cities
    bad[3].lunch = bad[3].dinner
    bad[3].dinner = bad[2].dinner
    assert violated(request, bad) == {"diverse restaurants"}
    bad[3].dinner = plan[3].lunch
    bad[2].lunch = ""
    assert violated(request, bad) == set()
    bad[0].attractions += ";" + bad[0].attractions
    assert violated(request, bad) == {"diverse attractions"}
    bad = copy.deepcopy(plan)
    bad[2].hotel = bad[1].hotel
    assert "hotel is not where the day ends" in check(WORLD, request, bad)["within current city"]


def test_a_car_is_not_left_behind():
    request, plan = drawn(3, "easy")
    cars = [f"self-driving from {request.origin} to {request.target}"]
    cars.append(f"taxi from {request.target} to {request.origin}")
    plan[0].transport, plan[2].transport = cars
    assert "non-conflicting transportation" in violated(request, plan)
    plan[2].transport = plan[2].transport.replace("taxi", "self-driving")
    assert "non-conflicting transportation" not in violated(request, plan)
    plan[0].transport = plan[0].transport.replace("self-driving", "flight F1")
    plan[2].transport = plan[2].transport.replace("self-driving", "taxi")
    assert "non-conflicting transportation" not in violated(request, plan)


def test_hotels_are_of_the_kind_and_for_as_long_as_asked_for():
    request, plan = drawn(3, "easy", budget=10**6)
    for hotel in WORLD.hotels[request.target]:
        for day in plan[:2]:
            day.hotel = f"{hotel.name}, {request.target}"
        long = hotel.least_nights > 2
        assert violated(request, plan) == ({"minimum nights stay"} if long else set())
        quiet = dataclasses.replace(request, rule="parties")
        assert ("room rule" in violated(quiet, plan)) == ("parties" in hotel.forbids)
        for room, fits in (
            ("entire home", hotel.room == "entire home"),
            ("shared room", hotel.room == "shared room"),
            ("not shared room", hotel.room != "shared room"),
        ):
            wish = dataclasses.replace(request, room=room)
            assert ("room type" in violated(wish, plan)) != fits
    two = [hotel for hotel in WORLD.hotels[request.target] if hotel.least_nights == 2]
    plan[0].hotel = f"{two[0].name}, {request.target}"
    plan[1].hotel = f"{two[1].name}, {request.target}"
    assert violated(request, plan) == {"minimum nights stay"}


def test_cuisines_count_away_from_home_only():
    request, plan = drawn(3, "easy", budget=10**6)
    away = [r for r in WORLD.restaurants[request.target] if "French" not in r.cuisines]
    home = next(r for r in WORLD.restaurants[request.origin] if "French" in r.cuisines)
    french = next(r for r in WORLD.restaurants[request.target] if "French" in r.cuisines)
    for (day, slot), restaurant in zip(
        ((0, "dinner"), (1, "breakfast"), (1, "lunch"), (1, "dinner"), (2, "breakfast")),
        away[:5],
        strict=True,
    ):
        setattr(plan[day], slot, f"{restaurant.name}, {request.target}")
    wish = dataclasses.replace(request, cuisines=("French",))
    plan[0].breakfast = f"{home.name}, {request.origin}"
    assert violated(wish, plan) == {"cuisine"}
    plan[2].breakfast = f"{french.name}, {request.target}"
    assert violated(wish, plan) == set()


def test_transport_that_is_not_wanted():
    for number in range(6):
        request, plan = drawn(3, "easy", number)
        flies = plan[0].transport.startswith("flight")
        drives = plan[0].transport.startswith("self-driving")
        for transport, used in (("no flight", flies), ("no self-driving", drives)):
            wish = dataclasses.replace(request, transport=transport)
            assert ("transportation" in violated(wish, plan)) == used


def test_the_expert_looks_up_what_it_uses_and_is_paid_in_full():
    for number in range(12):
        env = TravelPlanner()
        text, info = env.reset(options={"task": f"test/{number}"})
        assert info["admissible"] == () and info["progress"] == 0
        seen, done, rewards = text, False, []
        while not done:
            action = str(env.expert())
            if action.startswith("day"):
                for line in action.splitlines():
                    entry = line.partition(": ")[2]
                    words = entry.split()
                    ride = {"flight": words[1], "taxi": "taxi", "self-driving": "self-driving"}
                    assert ride.get(words[0], entry) in seen
            text, reward, done, truncated, info = env.step(action)
            assert info["valid"] and not truncated
            rewards.append(reward)
            seen += text
        assert sum(rewards[:-1]) == 0 and rewards[-1] == pytest.approx(1)
        assert info["success"] and info["progress"] == 1 and env.expert() is None
        assert info["reward_terms"]["final"] == 0.5
        count = len(check(WORLD, env.state.request, env.state.plan))
        assert f"Submitted. {count} of {count} constraints are met." in text


def test_a_whole_plan_in_one_text_is_worth_the_same():
    env = TravelPlanner(days=5, level="hard")
    env.reset(seed=2)
    plan = solve(env.country, env.state.request)
    assert plan is not None
    lines = [
        f"Day {i + 1}  {slot}: {text}"
        for i, day in enumerate(plan)
        for slot, text in day.entries().items()
    ]
    text, reward, done, _, info = env.step("\n".join([*lines, "", "Submit."]))
    assert done and reward == pytest.approx(1) and info["success"]
    assert "12 of 12 constraints are met" in text


def test_rewards_of_partly_good_plans():
    env = TravelPlanner(days=3, level="easy")
    env.reset(seed=0)
    _, reward, done, _, info = env.step("submit")
    assert done and reward == 0 and info["progress"] == 0 and not info["success"]
    env.reset(seed=0)
    plan = solve(env.country, env.state.request)
    assert plan is not None
    plan[1].lunch = plan[1].dinner
    env.state.plan = plan
    text, reward, _, _, info = env.step("submit")
    assert reward == pytest.approx(0.5 * 8 / 9) and info["progress"] == pytest.approx(8 / 9)
    assert info["reward_terms"]["hard"] == pytest.approx(0.5 / 9)
    assert "Not met: diverse restaurants (a restaurant is visited twice)." in text


def test_what_is_wrong_with_an_action_is_said_and_nothing_is_done():
    env = TravelPlanner(days=3, max_turns=None)
    env.reset(seed=0)
    request = env.state.request
    before = copy.deepcopy(env.state)
    for action, reason in [
        ("", "1 to 60 lines"),
        ("a\n" * 61, "1 to 60 lines"),
        ("x" * 20_000, "10,000 characters"),
        ("x" * 600, "500 characters"),
        ("fly me to the moon", "Lines start with"),
        ("search hotels in Atlantis", "no city 'Atlantis'"),
        (f"search hotels in {request.origin[:-1]}", request.origin),
        ("search cities in Atlantis", "no state"),
        (f"search flights from {request.origin} to {request.target} on 2024-04-01", "Dates are"),
        (f"search hotels in {request.target}\nsearch hotels in {request.target}", "one search"),
        ("day 4 lunch: A, B", "days 1 to 3"),
        ("day 0 lunch: A, B", "days 1 to 3"),
        ("day 1 lunch: nowhere", "NAME, CITY"),
        ("day 1 attractions: A, B; C", "NAME, CITY"),
        ("day 1 transport: on foot from A to B", "flight NUMBER"),
        ("day 1 lunch: A, B\nday 9 lunch: A, B", "Nothing was done"),
        ("submit\nday 1 lunch: A, B", "Lines start with"),
        # Case folding maps a long s to s, but no key contains a long s.
        (f"search hotel\u017f in {request.target}", "Lines start with"),
        ("day 1 tran\u017fport: -", "Lines start with"),
        ("day 1 transport: \u017felf-driving from A to B", "flight NUMBER"),
    ]:
        text, reward, done, _, info = env.step(action)
        assert reason in text and not info["valid"] and reward == 0 and not done, action
        assert env.state == before
    info = env.step("day 1 LUNCH: Any Thing, Any Where")[4]
    assert info["valid"] and env.state.plan[0].lunch == "Any Thing, Any Where"
    assert 0 < info["progress"] < 0.2
    env.step("day 1 lunch: -")
    assert env.state == before


def test_searches_find_what_the_world_has():
    env = TravelPlanner(days=3)
    env.reset(seed=1)
    request = env.state.request
    text, *_, info = env.step(f"search hotels in {request.target.upper()}")
    assert all(str(hotel) in text for hotel in WORLD.hotels[request.target])
    assert env._last is not None and info["state_key"] == state_digest(env._last.state_key)
    assert f"Looked up: hotels in {request.target}." in env._last.state_key
    assert str(WORLD.hotels[request.target][0]) not in env._last.state_key
    way = f"from {request.origin} to {request.target}"
    text = env.step(f"search flights {way} on {request.date(0)}")[0]
    flights = WORLD.flights(request.origin, request.target, request.date(0))
    assert all(str(flight) in text for flight in flights)
    text = env.step(f"search roads {way}")[0]
    assert f"{WORLD.kilometres(request.origin, request.target)} km" in text or "No road" in text
    env.step(f"search roads {way}")
    assert env._last.state_key.count("roads") == 1


def test_states_do_not_depend_on_the_order_of_searches():
    keys = []
    for step in (1, -1):
        env = TravelPlanner(days=3)
        env.reset(seed=1)
        target = env.state.request.target
        searches = [f"search hotels in {target}", f"search attractions in {target}"]
        keys.append([env.step(search)[4]["state_key"] for search in searches[::step]])
    assert keys[0][0] != keys[1][0] and keys[0][1] == keys[1][1]


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="days"):
        TravelPlanner(days=4)
    with pytest.raises(ValueError, match="hard"):
        TravelPlanner(level="hart")
    other = TravelPlanner(world=1, days=7, level="medium")
    other.reset(seed=0)
    assert other.state.request.days == 7 and other.state.request.people > 1
    assert other.state.request.origin in {city.name for city in world(1).cities}


@pytest.mark.parametrize("form", ["{}.", "- {}", "1. {}", "**{}**", "* **{}**", "\u2022 {}."])
@pytest.mark.parametrize(
    "line",
    ["search cities in Dorvania", "day 1 hotel: Red Inn, Norport", "day 1 lunch: -", "submit"],
)
def test_lines_may_have_bullets_and_full_stops(line: str, form: str):
    env = TravelPlanner()
    env.reset(seed=0)
    expected = env.step(line)
    env.reset(seed=0)
    assert env.step(form.format(line)) == expected


@pytest.mark.parametrize(
    ("date", "valid"),
    [
        ("March 5, 2024", True),
        ("5 March", True),
        ("Tuesday, 5 March 2024", True),
        ("Monday, 5 March 2024", False),
        ("March 5 or March 6", False),
        ("5 April 2024", False),
        ("the first day", False),
    ],
)
def test_dates_of_flights_may_be_written_out(date: str, valid: bool):
    env = TravelPlanner()
    env.reset(seed=0)
    search = f"search flights from {env.state.request.origin} to {env.country.cities[0].name} on "
    expected = env.step(f"{search}2024-03-05")
    env.reset(seed=0)
    got = env.step(search + date)
    assert got[4]["valid"] == valid == (got == expected)
