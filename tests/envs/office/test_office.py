"""Tool tasks: experts, answers, final worlds and errors."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from agentgym.envs.office.academia import Academia
from agentgym.envs.office.assignment import AssignmentEnv, same_answer
from agentgym.envs.office.movie import Movie, library
from agentgym.envs.office.sheet import Sheet
from agentgym.envs.office.todo import Todo
from agentgym.envs.office.weather import FIRST, Weather, weather_of
from agentgym.envs.office.workplace import Workplace

CLASSES = (Academia, Movie, Sheet, Todo, Weather, Workplace)


def call(name: str, /, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize("cls", CLASSES)
def test_the_expert_solves_every_kind_of_task_and_doing_nothing_solves_none(
    cls: type[AssignmentEnv],
):
    env = cls()
    lengths = set()
    for i in range(60):
        task = {"task": f"{'train' if i % 2 else 'test'}/{i}"}
        env.reset(seed=0, options=task)
        info = env.step(call("finish"))[-1]
        assert not info["success"], task
        env.reset(seed=0, options=task)
        over, info = False, {}
        while not over:
            action = env.expert()
            assert action is not None
            _, _, over, truncated, info = env.step(action)
            assert info["valid"] and not truncated, (task, action)
        assert info["success"], task
        lengths.add(info["turn"])
    assert len(lengths) > 2


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        ("The answer is 12.5 degrees.", "12.5", True),
        ("1,250", "1250", True),
        ("-$1,250", "-1250", True),
        ("$1,250", "-1250", False),
        ("12.52", "12.5", False),
        ("12 or 13", "12", False),
        ("not 12", "12", False),
        ("It isn't 12.", "12", False),
        ("more than 12", "12", False),
        ("at least 12", "12", False),
        ("1, 2, 3, ..., 12", "12", False),
        ("-12", "12", False),
        ("$-12", "12", False),
        ("\u221212", "-12", True),
        ("twelve", "12", True),
        ("12.0", "12", True),
        ("a12", "12", False),
        ("not 2025-03-05", "2025-03-05", False),
        ("before March 5, 2025", "2025-03-05", False),
        ("2025-03-05 or 2025-03-06", "2025-03-05", False),
        ("March 5, 2025", "2025-03-05", True),
        ("March 6, 2025", "2025-03-05", False),
        ("3.0; a", "a; 3", True),
        ("O\u2019Brien", "O'Brien", True),
        (" oslo. ", "Oslo", True),
        ("b; a", "a; b", True),
        ("a", "a; b", False),
        ("2025-03-05", "2025-03-05", True),
        ("", "none", False),
        ("Spy.", "a spy", True),
        ("Last Letter", "The Last Letter", True),
        ("apple", "Pple", False),
    ],
)
def test_answers_are_compared(given: str, expected: str, same: bool):
    assert same_answer(given, expected) == same


def test_typographic_characters_in_arguments_count_as_the_plain_ones():
    title = "Ask\u00a0for 2025\u221203\u221207"
    call = f'{{"name": "add_task", "arguments": {{"title": "{title}"}}}}'
    read = Todo().read_call(call)
    assert read is not None and read.arguments == {"title": "Ask for 2025-03-07"}


def change_of(cls: type[AssignmentEnv]) -> AssignmentEnv:
    """Returns an environment at the start of an assignment that is a change."""
    env = cls()
    for i in range(50):
        env.reset(seed=0, options={"task": f"train/{i}"})
        if env.assignment(env.task).answer is None:
            break
    return env


@pytest.mark.parametrize(
    ("cls", "extra"),
    [
        (Todo, call("add_task", project="{project}", title="New", due_date="2025-03-01")),
        (Sheet, call("append_row", values=["x", "North", 1, 1])),
        (Workplace, call("write_file", path="a/x", text="x")),
        (Workplace, call("add_note", customer_id="c1", text="x")),
        (Workplace, call("move_mail", mail_id="m1", folder="x")),
    ],
)
def test_another_change_is_a_failure(cls: type[AssignmentEnv], extra: str):
    env = change_of(cls)
    if isinstance(env, Todo):
        extra = extra.replace("{project}", env.list_projects()[0])
    assert env.step(extra)[-1]["valid"]
    for needed in env.assignment(env.task).calls:
        env.step(call(needed.name, **needed.arguments))
    assert not env.step(call("finish"))[-1]["success"]


@pytest.mark.parametrize(
    ("cls", "action", "message"),
    [
        (Todo, call("get_task", title="x"), "There is no 'x' among the tasks"),
        (Todo, call("list_tasks", project="x"), "There is no project 'x'"),
        (Todo, call("add_task", project="x", title="y", due_date="1"), "There is no project"),
        (Sheet, call("set_cell", cell="", value=1), "A cell is written like D2"),
        (Sheet, call("set_cell", cell="A²", value=1), "A cell is written like D2"),
        (Sheet, call("set_cell", cell="A1", value=1), "Rows that can be changed are 2 to"),
        (Sheet, call("set_cell", cell="A2", value="x" * 101), "at most 100 characters"),
        (Sheet, call("delete_row", row=99), "Rows that can be changed are 2 to"),
        (Sheet, call("append_row", values=[1]), "A row has 4 values"),
        (Sheet, call("sort_by", column="x", order="ascending"), "There is no column 'x'"),
        (Weather, call("get_weather", town="x", first="", last=""), "There is no town 'x'"),
        (Weather, call("get_weather", town="Cove", first="1", last="2"), "A date is written"),
        (
            Weather,
            call("get_weather", town="Cove", first="2025-01-01", last="2030-01-01"),
            "at most 14 days",
        ),
        (Workplace, call("read_mail", mail_id="x"), "There is no 'x' among the mails"),
        (Workplace, call("move_mail", mail_id="m1", folder="/"), "A folder has 1 to 40"),
        (Workplace, call("send_mail", to="x", subject="y", text="z"), "No colleague has"),
        (Workplace, call("move_event", event_id="e1", date="1", start="09:00"), "A date is"),
        (Workplace, call("move_event", event_id="e1", date="2025-06-02", start="9"), "A time is"),
        (Workplace, call("write_file", path="../x", text="y"), "A path is written"),
        (Workplace, call("write_file", path="a/x", text="y" * 2001), "must have 1 to 2,000"),
        (Workplace, call("set_customer", customer_id="c1", field="stage", value="x"), "A stage"),
        (Workplace, call("set_customer", customer_id="c1", field="owner", value="x"), "No coll"),
        (Movie, call("get_person", name="x"), "There is no 'x' among the people"),
        (Academia, call("list_coauthors", name="x"), "There is no 'x' among the authors"),
    ],
)
def test_errors_are_explained_and_change_nothing(
    cls: type[AssignmentEnv], action: str, message: str
):
    env = cls()
    env.reset(seed=0)
    before = json.dumps(env.state.world)
    observation, *_, info = env.step(action)
    assert message in observation
    assert not info["valid"]
    assert json.dumps(env.state.world) == before


def test_mixed_columns_are_sorted():
    env = Sheet()
    env.reset(seed=0)
    env.step(call("set_cell", cell="D2", value="many"))
    assert env.step(call("sort_by", column="Quantity", order="ascending"))[-1]["valid"]
    assert env.rows[-1][3] == "many"


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1)])
def test_rows_with_equal_values_have_one_order_whatever_was_sorted_before(before: int, after: int):
    env = Sheet()
    sort = call("sort_by", column="Quantity", order="descending")
    sold = 0
    for i in range(100):
        env.reset(seed=0, options={"task": f"train/{i}"})
        found = env.assignment(env.task)
        if "were sold" not in found.request:
            continue
        for _ in range(before):
            env.step(sort)
        for change in found.calls[1:-1]:
            row = int(change.arguments["cell"][1:]) - 1
            names = [row[0] for row in env.rows]
            cell = f"D{names.index(found.world['rows'][row][0]) + 1}"
            env.step(call("set_cell", cell=cell, value=change.arguments["value"]))
        for _ in range(1 + after):
            env.step(sort)
        assert env.step(call("finish"))[-1]["success"], found.request
        sold += 1
    assert sold > 5


def test_digits_in_a_cell_are_a_number():
    env = Sheet()
    env.reset(seed=0)
    env.step(call("set_cell", cell="D2", value="7"))
    env.step(call("append_row", values=["x", "North", "12", "-3"]))
    assert env.rows[1][3] == 7 and env.rows[-1] == ["x", "North", 12, -3]
    env.step(call("set_cell", cell="D2", value="7 kg"))
    assert env.rows[1][3] == "7 kg"


def test_every_comparison_of_temperatures_has_one_answer():
    env, compared = Weather(), 0
    for i in range(1500):
        found = env.assignment(f"train/{i}")
        if "coldest" not in found.request and "lower here" not in found.request:
            continue
        lows = []
        for look in (c.arguments for c in found.calls if c.name == "get_weather"):
            first, last = ((date.fromisoformat(look[e]) - FIRST).days for e in ("first", "last"))
            days = weather_of(found.world["country"], look["town"])[first : last + 1]
            lows += [record["lowest"] for record in days]
        assert lows.count(min(lows)) == 1, found.request
        compared += 1
    assert compared > 100


def test_a_comparison_of_ratings_has_one_answer():
    env = Movie()
    for task in ("train/903", "train/5005", "test/15311"):
        found = env.assignment(task)
        movies = library(found.world["library"])["movies"]
        ratings = {movies[title]["rating"] for title in movies if title in found.request}
        assert "higher rating" not in found.request or len(ratings) == 2, found.request


def test_a_meeting_that_is_moved_into_place_is_right():
    env = Workplace()
    accepted = 0
    for i in range(60):
        env.reset(seed=0, options={"task": f"train/{i}"})
        for needed in env.assignment(env.task).calls:
            if needed.name != "create_event":
                env.step(call(needed.name, **needed.arguments))
                continue
            wrong = {**needed.arguments, "start": "08:00"}
            key, *_ = env.step(call("create_event", **wrong))
            place = {name: needed.arguments[name] for name in ("date", "start")}
            assert env.step(call("move_event", event_id=key, **place))[-1]["valid"]
            accepted += 1
        assert env.step(call("finish"))[-1]["success"]
    assert accepted


def test_a_forecast_is_refused():
    env = Weather()
    env.reset(seed=0)
    today = env.today()
    tomorrow = call("get_weather", town="Cove", first=today, last="2025-12-31")
    assert not env.step(tomorrow)[-1]["valid"]
    assert env.step(call("get_weather", town="Cove", first=today, last=today))[-1]["valid"]


def test_the_order_of_changes_does_not_matter_at_work():
    env = Workplace()
    looks = ("find", "search", "read", "list", "get")
    made = set()
    for i in range(60):
        env.reset(seed=0, options={"task": f"train/{i}"})
        calls = env.assignment(env.task).calls
        changes = [c for c in calls if not c.name.startswith(looks)]
        for needed in reversed(changes):
            assert env.step(call(needed.name, **needed.arguments))[-1]["valid"]
        assert env.step(call("finish"))[-1]["success"]
        made |= {change.name for change in changes}
    assert made == {name for name in env.tools if not name.startswith((*looks, "finish"))}


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (-2.5, "-2.5"), (["Rome", 3], "Rome; 3"), ("5", "5"), ("a; b", "a; b")],
)
def test_an_answer_may_be_a_number_or_a_list(value: object, text: str):
    env = Weather()
    env.reset(seed=0)
    assert env.step(json.dumps({"name": "finish", "arguments": {"answer": value}}))[2]
    assert env.state.answer == text


@pytest.mark.parametrize("value", [True, None, [], {"x": 1}, [True], [{"x": 1}]])
def test_other_answers_are_refused(value: object):
    env = Weather()
    env.reset(seed=0)
    text, _, ended, _, info = env.step(
        json.dumps({"name": "finish", "arguments": {"answer": value}})
    )
    assert not ended and not info["valid"] and "must be string" in text
