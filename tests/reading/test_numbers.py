"""Numbers are read by value, each once."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import (
    exact,
    find_numbers,
    find_ordinals,
    normalized,
    parse_amount,
    parse_number,
    parse_whole,
    same_number,
)

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number: int) -> str:
    """The English name of a number below 10**9."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    for scale, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= scale:
            rest = number % scale
            joint = " and " if rest < 100 else " "
            return f"{in_words(number // scale)} {name}" + (rest > 0) * (joint + in_words(rest))
    raise AssertionError


def values(text: str) -> list[Fraction]:
    return [number.value for number in find_numbers(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("$1,880.00", 1880), ("−3", -3), ("twenty-five", 25), (r"\boxed{7}", 7), ("**12**", 12),
     ("= 5", 5), ("1.880,00", 1880), ("$28k", 28000), ("28 grand", 28000), ("USD 500", 500),
     ("5 dollars", 5), ("1 880,5", None), ("2 dollars and 50 cents", Fraction(5, 2)),
     ("a hundred and five", 105), ("two and a half", Fraction(5, 2)), ("half a dozen", 6),
     ("a dozen", 12), ("$-188", -188), ("-$188", -188), ("minus five", -5), ("½", Fraction(1, 2)),
     ("1½", Fraction(3, 2)), ("3/4", Fraction(3, 4)), ("1e5", 100000), ("1'880", 1880),
     ("$1.5 million", 1500000), (".5", Fraction(1, 2)), ("１２", 12), ("٣٤", 34), ("+7", 7),
     (r"\frac{1}{2}", Fraction(1, 2)), ("`4`.", 4), ("($5)", 5), ("twenty bucks", 20)],
)  # fmt: skip
def test_a_number_has_its_value(text: str, value: Fraction | int | None):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "7 or 8", "about 7", "7 apples", "not 7", "20%", "5 km", "- 5", "5-7", "seven eleven",
     "W7232833", "1.2.3", "7th", "seventh", "9" * 41, "this one", "5/0", "2024-05-24", "15:05"],
)  # fmt: skip
def test_nothing_else_is_a_number(text: str):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2 books, 1 hat and three balls", [2, 1, 3]), ("3 - 1", [3, 1]), ("5-7", [5, 7]),
     ("W7232833 player_0 a1b2 F-150 #W12 x@1.com 1.2.3", []),
     ("May 24, 2024 at 15:05 for $5", [5]), ("call 555-123-4567", []), ("(2, 3)", [2, 3]),
     ("the price—500", [500]), ("$28,000, including a $1,500 warranty", [28000, 1500]),
     ("2x hats, x3", [2, 3]), ("the 2nd of 3", [3]), ("one, two", [1, 2])],
)  # fmt: skip
def test_each_number_of_a_text_is_found_once(text: str, expected: list[int]):
    assert values(text) == expected


def test_units_are_kept_apart():
    found = find_numbers("20 % of $5, 3 km, 10GB and 7 euros")
    assert [(number.value, number.unit) for number in found] == [
        (20, "%"), (5, "$"), (3, ""), (10, "gb"), (7, "€"),
    ]  # fmt: skip
    amount = parse_amount("20 percent")
    assert amount is not None
    assert amount.unit == "%"


def test_ordinals_are_kept_apart():
    assert [number.value for number in find_ordinals("the 1st, the 22nd and the third")] == [
        1,
        22,
        3,
    ]


@settings(deadline=None)
@given(st.integers(0, 10**9 - 1))
def test_names_of_numbers_have_their_value(number: int):
    assert parse_number(in_words(number)) == number
    assert values(f"I take {in_words(number)} of them.") == [number]


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "**{}**", "{}.", "$ {}"]))
def test_digits_have_their_value(number: int, form: str):
    assert parse_number(form.format(number)) == number


@settings(deadline=None)
@given(st.decimals(-(10**9), 10**9, places=2))
def test_decimals_are_exact(number):
    assert parse_number(str(number)) == Fraction(number)
    assert same_number(float(number), str(number))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 99999), max_size=6),
    st.sampled_from([", ", " and ", " books, ", "; then "]),
)
def test_adding_a_number_adds_a_reading(numbers: list[int], joint: str):
    text = joint.join(map(str, numbers))
    assert values(text) == numbers
    assert values(f"{text}{joint}42" if text else "42") == [*numbers, 42]


@settings(deadline=None)
@given(st.text(st.sampled_from("0123456789.,-/ $%kmx½andtwof_'"), max_size=40))
def test_spans_are_in_order_and_apart(text: str):
    found = find_numbers(text)
    ends = [0, *(edge for number in found for edge in (number.start, number.stop))]
    assert ends == sorted(ends)
    assert not ends or ends[-1] <= len(normalized(text))


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("7", 9, 7),
        ("seven", 9, 7),
        ("7.0", 9, 7),
        ("7.5", 9, None),
        ("10", 9, None),
        ("-1", 9, None),
    ],
)
def test_whole_numbers_in_a_range(text: str, most: int, expected: int | None):
    assert parse_whole(text, most) == expected


def test_numbers_are_compared_by_value():
    assert same_number(195.0, 195)
    assert same_number("$195.00", 195)
    assert not same_number(True, 1)
    assert not same_number(0.1 + 0.2, 0.3)
    assert exact(float("nan")) is None


@pytest.mark.parametrize(
    "piece", ["9", "1,", "1.", "$", "-", "1/2 ", "one ", "a ", "½", "1-", "May 4 ", "x1", "minus "]
)
def test_hostile_texts_are_read_in_linear_time(piece: str):
    find_numbers(piece * (100_000 // len(piece)))
