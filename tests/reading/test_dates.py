"""Dates and times are read by value."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import find_dates, find_times, same_date

FORMS = (
    "{:%Y-%m-%d}", "{:%B} {d}, {:%Y}", "{d} {:%B} {:%Y}", "{:%b} {d}, {:%Y}", "{m}/{d}/{:%Y}",
    "{d}.{m}.{:%Y}", "{:%A}, {:%B} {d}, {:%Y}", "the {d}th of {:%B} {:%Y}", "{:%Y}/{:%m}/{:%d}",
)  # fmt: skip


def written(form: str, day: datetime.date) -> str:
    form = form.replace("{d}", str(day.day)).replace("{m}", str(day.month))
    return form.format(*[day] * form.count("{"))


@settings(deadline=None)
@given(st.dates(datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)), st.sampled_from(FORMS))
def test_all_forms_have_the_same_value(day: datetime.date, form: str):
    (found,) = find_dates(f"It leaves on {written(form, day)}.")
    assert (found.year, found.month, found.day) == (day.year, day.month, day.day)
    assert same_date(written(form, day), day.isoformat())
    assert not same_date(written(form, day), (day + datetime.timedelta(1)).isoformat())


def test_an_open_year_matches_any_year():
    assert same_date("May 24th", "2024-05-24")
    assert not same_date("May 24, 2023", "2024-05-24")


def test_a_day_of_the_week_must_fit():
    assert same_date("Friday, May 24", "2024-05-24")
    assert not same_date("Monday, May 24", "2024-05-24")


@pytest.mark.parametrize(
    ("text", "days"),
    [("May 24-26, 2024", [(5, 24), (5, 26)]), ("24-26 May", [(5, 24), (5, 26)]),
     ("from May 24 to 26", [(5, 24), (5, 26)]), ("2024-05-24T15:05", [(5, 24)]),
     ("24/5/2024", [(5, 24)]), ("5/24/24", [(5, 24)]), ("on may 24", [(5, 24)])],
)  # fmt: skip
def test_other_forms(text: str, days: list[tuple[int, int]]):
    assert [(date.month, date.day) for date in find_dates(text)] == days


@pytest.mark.parametrize(
    "text",
    ["you may 2 books", "march 3 steps", "2024-02-30", "3/4", "W2024-05-24", "1.2.3.4", "may"],
)
def test_these_are_no_dates(text: str):
    assert not find_dates(text)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("15:05", 905), ("3:05 pm", 905), ("3 p.m.", 900), ("12 am", 0), ("12:30 PM", 750),
     ("3", None),
     ("25:00", None), ("13 pm", None)],
)  # fmt: skip
def test_times_of_day(text: str, minutes: int | None):
    assert [time.minutes for time in find_times(text)] == ([] if minutes is None else [minutes])


@pytest.mark.parametrize("piece", ["1-", "1/1/", "May 1 ", "1.1.2000 ", "1:", "the 1st of ", "24-"])
def test_hostile_texts_are_read_in_linear_time(piece: str):
    text = piece * (100_000 // len(piece))
    find_dates(text)
    find_times(text)
