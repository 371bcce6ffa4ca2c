"""Counts of items account for every word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.reading import NotUnderstood, read_counts, read_items

ITEMS = {"book": 1, "hat": 2, "ball": 3}


def counts(text: str) -> tuple[int, ...]:
    return tuple(read_counts(text, ITEMS).values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I take two hats and the book", (1, 2, 0)),
        ("I can take 1 ball and the book", (1, 0, 1)),
        ("everything except 1 ball", (1, 2, 2)),
        ("all but the book", (0, 2, 3)),
        ("all the items without the hats", (1, 0, 3)),
        ('{"book": 1, "hat": 0, "ball": 3}', (1, 0, 3)),
        ("books: 1, hats: 2", (1, 2, 0)),
        ("both hats and a ball", (0, 2, 1)),
        ("all 3 balls", (0, 0, 3)),
        ("no hats, one book", (1, 0, 0)),
        ("hats x2 and 2x balls", (0, 2, 2)),
        ("two of the three balls", (0, 0, 2)),
        ("half of the hats", (0, 1, 0)),
        ("another ball and a ball", None),
        ("a ball and another ball", (0, 0, 2)),
        ("nothing", (0, 0, 0)),
        ("I’d like the hats, please", (0, 2, 0)),
        ("I take books and balls", (1, 0, 3)),
    ],
)
def test_counts(text: str, expected: tuple[int, ...] | None):
    if expected is None:
        with pytest.raises(NotUnderstood):
            counts(text)
    else:
        assert counts(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "I take", "2 books", "ball", "the ball", "all 2 balls", "both balls", "1 hat and 2 hats",
     "2 hats because", "-1 hats", "1.5 hats", "hats 2 balls", "2 cups", "the rest", "first hat",
     "not the hat", "2 hats or 3 balls", "$2 hats", "half the balls", "everything and 1 hat",
     "1 hat except the book", "hats: many", "about 2 hats", "2 hats 3"],
)  # fmt: skip
def test_these_are_not_understood(text: str):
    with pytest.raises(NotUnderstood):
        counts(text)


def test_the_rest_is_left_to_the_caller():
    assert read_items("1 hat and the rest", ITEMS).rest
    assert read_counts("the rest", ITEMS, rest={"book": 0, "hat": 1, "ball": 3}) == {
        "book": 0, "hat": 1, "ball": 3,
    }  # fmt: skip


def test_synonyms_and_irregular_plurals():
    given = read_counts("two boxes, a knife", {"box": 2, "knife": 1}, synonyms={"knife": ["blade"]})
    assert given == {"box": 2, "knife": 1}


SHARES = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 3))
NUMBERS = (("0", "zero", "no"), ("1", "one", "a"), ("2", "two"), ("3", "three"))


@st.composite
def written(draw: st.DrawFn, share: tuple[int, int, int]) -> str:
    """A share in words."""
    parts = [
        f"{draw(st.sampled_from(NUMBERS[n]))} {name}{'s' * (n != 1)}"
        for n, name in zip(share, ITEMS, strict=True)
    ]
    start = draw(st.sampled_from(["", "I take ", "I would like to have ", "Please give me "]))
    return start + draw(st.sampled_from([", ", " and ", ", and ", "; ", " & "])).join(parts)


@settings(deadline=None)
@given(st.data(), SHARES)
def test_every_share_is_read_in_every_form(data: st.DataObject, share: tuple[int, int, int]):
    assert counts(data.draw(written(share))) == share


@settings(deadline=None)
@given(
    st.data(), SHARES, st.sampled_from(["2 cups", "5", "the cup", "three", "a lamp", "not", "x"])
)
def test_an_unknown_item_or_number_is_never_ignored(
    data: st.DataObject, share: tuple[int, int, int], extra: str
):
    with pytest.raises(NotUnderstood):
        counts(f"{data.draw(written(share))}, {extra}")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_not_understood(text: str):
    try:
        assert all(0 <= n <= most for n, most in zip(counts(text), ITEMS.values(), strict=True))
    except NotUnderstood as reason:
        assert str(reason)
