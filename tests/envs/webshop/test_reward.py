from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.webshop import nouns
from agentgym.envs.webshop.catalogue import Product
from agentgym.envs.webshop.fuzzy import is_match, token_set_ratio
from agentgym.envs.webshop.goals import Goal
from agentgym.envs.webshop.nouns import NounTagger, alphabetic_nouns
from agentgym.envs.webshop.reward import COLOURS, normalised_colour, purchase_reward
from agentgym.errors import DataError, MissingExtraError

Golden = Callable[[str], list[dict[str, Any]]]


def product(**fields: Any) -> Product:
    defaults: dict[str, Any] = {
        "index": 0, "asin": "A", "category": "garden", "query": "chairs",
        "product_category": "Home › Garden › Chairs", "title": "Red Folding Chair",
        "description": "For the Garden.", "bullet_points": ("Solid Wood", "Light"),
        "pricing": (20.0,), "price_tag": "$20.0", "options": {}, "option_images": {},
        "main_image": "", "attributes": ("easy clean",), "instruction": None,
        "instruction_attributes": (), "human_instructions": (),
    }  # fmt: skip
    return Product(**(defaults | fields))


def goal(**fields: Any) -> Goal:
    defaults: dict[str, Any] = {
        "asin": "A", "category": "garden", "query": "chairs",
        "product_category": "Home › Garden › Chairs", "name": "Red Folding Chair",
        "instruction_text": "", "attributes": ("easy clean",), "price_upper": 30.0, "options": {},
    }  # fmt: skip
    return Goal(**(defaults | fields))


def golden_case(case: dict[str, Any]) -> tuple[Product, Goal]:
    bought, wanted = case["product"], case["goal"]
    options = wanted["goal_options"]
    return (
        product(
            query=bought["query"],
            product_category=bought["product_category"],
            title=bought["Title"],
            description=bought["Description"],
            bullet_points=tuple(bought["BulletPoints"]),
            attributes=tuple(bought["Attributes"]),
        ),
        goal(
            query=wanted["query"],
            product_category=wanted["product_category"],
            name=wanted["name"],
            attributes=tuple(wanted["attributes"]),
            price_upper=wanted["price_upper"],
            options=options if isinstance(options, dict) else tuple(options),
        ),
    )


@pytest.mark.parametrize("given_nouns", [True, False])
def test_rewards_of_the_original(golden: Golden, given_nouns: bool):
    for case in golden("reward"):
        bought, wanted = golden_case(case)
        tagged = {
            case["product"]["name"]: case["purchased_nouns"],
            case["goal"]["name"]: case["goal_nouns"],
        }
        tagger: NounTagger = tagged.__getitem__ if given_nouns else alphabetic_nouns
        reward, info = purchase_reward(bought, wanted, case["price"], case["options"], tagger)
        assert reward == pytest.approx(case["result"]["reward"], abs=1e-9), case["id"]
        assert info == pytest.approx(case["result"]["info"], abs=1e-9), case["id"]


def test_nouns_of_the_original(golden: Golden):
    for case in golden("reward"):
        assert alphabetic_nouns(case["product"]["name"]) == case["purchased_nouns"]
        assert alphabetic_nouns(case["goal"]["name"]) == case["goal_nouns"]


def test_token_set_ratios_of_the_original(golden: Golden):
    for case in golden("token_set_ratio"):
        assert token_set_ratio(case["a"], case["b"]) == case["difflib_019"], case
        assert is_match(case["a"], case["b"]) is (case["difflib_019"] > 85), case


def test_a_perfect_purchase():
    wanted = goal(options={"color": "red", "size": "large"})
    reward, info = purchase_reward(product(), wanted, 20.0, {"color": "red", "size": "large"})
    assert reward == 1.0
    assert info == {
        "r_type": 1.0, "r_att": 1.0, "w_att": 0.25, "query_match": True, "category_match": True,
        "title_score": 1.0, "r_option": 1.0, "w_option": 0.5, "r_price": True, "w_price": 0.25,
    }  # fmt: skip


def test_without_options_their_share_is_left_out():
    reward, info = purchase_reward(product(), goal(), 31.0, {"color": "red"})
    assert "r_option" not in info and "w_option" not in info
    assert info["r_price"] is False and reward == 0.5


@pytest.mark.parametrize(
    ("attribute", "matched"),
    [("easy clean", 1), ("clean easy", 1), ("folding", 1), ("solid wood light", 1), ("garden.", 1),
     ("Folding", 0), ("plastic", 0)],
)  # fmt: skip
def test_attributes_match_alike_ones_or_words_of_the_page(attribute: str, matched: int):
    _, info = purchase_reward(product(), goal(attributes=(attribute,)), 20.0, {})
    assert info["r_att"] == matched


@pytest.mark.parametrize(
    ("query", "path", "title", "r_type", "score"),
    [
        ("chairs", "x", "Red Folding Chair", 1.0, 1.0),
        ("chairs", "x", "Blue Lamp", 0.0, 0.0),
        ("other", "x", "Red Lamp", 1.0, 1 / 3),
        ("other", "Chairs › Home", "Blue Lamp", 0.0, 0.0),
        ("other", "x", "Alpha", 0.5, 0.2),
        ("chairs", "x", "Alpha", 1.0, 0.2),
        ("other", "Chairs › Home", "Alpha", 1.0, 0.2),
        ("other", "Chairs", "Alpha", 0.5, 0.2),
        ("chairs", "x", "Long", 0.1, 1 / 11),
    ],
)
def test_kind_of_the_product(query: str, path: str, title: str, r_type: float, score: float):
    names = {"Alpha": "alpha beta gamma delta epsilon", "Long": "long" + " chair" * 10}
    wanted = goal(name=names.get(title, "red folding chair"))
    bought = product(query=query, product_category=path, title=title)
    _, info = purchase_reward(bought, wanted, 20.0, {})
    assert (info["r_type"], info["title_score"]) == (r_type, pytest.approx(score))


def test_a_wanted_title_without_nouns_scores_a_fifth():
    _, info = purchase_reward(
        product(query="x"), goal(name="with 12 of", product_category=""), 1, {}
    )
    assert info["title_score"] == 0.2 and info["r_type"] == 0.5


@pytest.mark.parametrize(
    ("options", "value", "matched"),
    [
        (("grey",), "dark grey", 0),  # "dark grey" is "dark"
        (("light green",), "green light", 1),  # both are "green", the first in the list
        (("one hundred",), "red", 1),
        ({"color": "red"}, "hundred", 1),
        ({"color": "reddish"}, "red", 0),  # a pair is a colour only if an element is one
        (("reddish",), "red", 1),
        ({"size": "large"}, "x-large", 0),
        ({"size": "large"}, "large", 1),
        ({"size": "12 ounce (pack of 1)"}, "12 ounce (pack of 2)", 1),
    ],
)
def test_options(options: Any, value: str, matched: int):
    _, info = purchase_reward(product(), goal(options=options), 20.0, {"x": value})
    assert info["r_option"] == matched


def test_colours():
    assert len(COLOURS) == 102 and list(COLOURS) == sorted(COLOURS)
    assert normalised_colour("navy and red") == "navy"
    assert normalised_colour("x-large") == "x-large"
    assert normalised_colour(("color", "red")) == "red"
    assert normalised_colour(("color", "reddish")) == ("color", "reddish")


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        ("", "a", 0), ("!!", "!!", 0), ("a b", "b a", 100), ("a b c", "c", 100),
        ("caf\xe9", "caf", 100),
        ("a_b", "a b", 67), ("red", ("color", "red"), 100), ("a\xa0b", ("x", "a\xa0b"), 40),
        ("\u65e5\u672c", "\u65e5\u672c", 100),
    ],
)  # fmt: skip
def test_token_set_ratio(a: Any, b: Any, ratio: int):
    assert token_set_ratio(a, b) == ratio


def _plain_ratio(a: str, b: str) -> int:
    """The definition over word sets, for lower-case texts."""
    left, right = set(a.split()), set(b.split())
    if not left or not right:
        return 0
    both = " ".join(sorted(left & right))
    first = f"{both} {' '.join(sorted(left - right))}".strip()
    second = f"{both} {' '.join(sorted(right - left))}".strip()
    pairs = ((both, first), (both, second), (first, second))
    return max(round(100 * SequenceMatcher(None, x, y).ratio()) for x, y in pairs)


TEXTS = st.lists(st.text("abc", min_size=1, max_size=9), max_size=6).map(" ".join)


@given(TEXTS, TEXTS)
def test_ratio_and_its_shortcut_follow_the_definition(a: str, b: str):
    assert token_set_ratio(a, b) == _plain_ratio(a, b)
    assert is_match(a, b) is (token_set_ratio(a, b) > 85)


@given(TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_words_does_not_matter(a: str, rng: Any):
    words = a.split()
    rng.shuffle(words)
    assert is_match(a, " ".join(words)) is bool(words)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Women's T-Shirt, size XL (2 Pack)", ["women", "t", "shirt", "size", "xl", "pack"]),
        ("10ft Cable & 5GB USB3.0 wi-fi", ["ft", "cable", "gb", "wi", "fi"]),
        ("Don't dont Id hed DONT won't", ["nt", "d", "d", "dont", "wo"]),
        ("Dr. Smith St. Co. end. END. A.B", ["smith", "end", "end"]),
        ("Rose❤Gold iPhone® foo/bar a,b a.B", ["rose", "gold", "iphone", "foo", "bar", "b", "b"]),
        ("【Soft】 “Warm”... café 日本", ["soft", "warm", "café", "日本"]),
        ("the of and 123 #1 -", []),
        ("", []),
    ],
)
def test_alphabetic_nouns(text: str, found: list[str]):
    assert alphabetic_nouns(text) == found


@given(st.text())
def test_any_text_has_nouns_or_none(text: str):
    assert all(noun.isalpha() for noun in alphabetic_nouns(text))


def test_lists_of_nouns_are_the_callers_own():
    alphabetic_nouns("garden chair").append("x")
    assert alphabetic_nouns("garden chair") == ["garden", "chair"]


@pytest.mark.slow
def test_spacy_says_what_is_missing():
    with pytest.raises((MissingExtraError, DataError), match=r"pip install|spacy download"):
        nouns.spacy_nouns("no_such_model")
