from __future__ import annotations

import pickle
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.webshop import analysis, search
from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.search import SearchIndex, document, encoded_length, find_products

Golden = Callable[[str], list[dict[str, Any]]]
Maker = Callable[..., dict[str, Any]]
WORDS = "red green blue chair table lamp steel wood soft light small large the with".split()


@pytest.fixture
def shop(make_record: Maker) -> SearchIndex:
    """120 random products, many of them similar, so that there are ties."""
    rng = random.Random(0)

    def records() -> Any:
        for i in rng.sample(range(1000), 120):
            text = " ".join(rng.choices(WORDS, k=rng.choice([2, 3, 40])))
            category = rng.choice(["garden", "beauty"])
            record = make_record(
                f"B{i:03}", name=text, full_description="", small_description=[], category=category
            )
            yield record, {"attributes": [rng.choice(WORDS)]}, []

    return SearchIndex.load(Catalogue.from_records(records))


def test_results_and_scores_of_the_original(real_catalogue: Catalogue, golden: Golden):
    """The same 50 products in the same order."""
    index = SearchIndex.load(real_catalogue)
    for case in golden("search_bm25_lucene"):
        found, scores = index.search_scored(case["query"])
        assert [real_catalogue[int(i)].asin for i in found] == [asin for asin, _ in case["hits"]]
        # The original rounds to 4 digits and lowers equal scores by 1e-6, 2e-6, ...
        assert scores == pytest.approx(np.array([score for _, score in case["hits"]]), abs=3e-4)


def test_result_pages_of_the_originals_episodes(real_catalogue: Catalogue, golden: Golden):
    index = SearchIndex.load(real_catalogue)
    pages = 0
    for episode in golden("rollouts_text"):
        for step in episode["steps"]:
            asked = re.match(r"search\[([^<\]]+)\]$", step["action"])
            if asked is None:
                continue
            found = index.search(asked[1].lower())
            assert f"Page 1 (Total results: {len(found)})" in step["obs"]
            shown = [s for s in step["obs"].split(" [SEP] ") if re.fullmatch("[0-9A-Z]{10}", s)]
            assert shown == [real_catalogue[int(i)].asin for i in found[:10]]
            pages += 1
    assert pages == 20


def test_scores_are_bm25(shop: SearchIndex):
    catalogue = shop.catalogue
    texts = [Counter(analysis.terms(document(product))) for product in catalogue]
    lengths = encoded_length(np.array([sum(text.values()) for text in texts]))
    total = sum(bool(text) for text in texts)
    mean = sum(sum(text.values()) for text in texts) / total
    assert total < len(texts)  # a document with only stop words does not count
    query = "the red chairs, red lamp unknownword"
    expected = np.zeros(len(texts))
    for term, times in Counter(analysis.terms(query)).items():
        having = sum(term in text for text in texts)
        idf = np.log(1 + (total - having + 0.5) / (having + 0.5))
        for i, text in enumerate(texts):
            norm = 0.9 * (0.6 + 0.4 * lengths[i] / mean)
            expected[i] += times * idf * text[term] / (text[term] + norm)
    found, scores = shop.search_scored(query, k=200)
    assert set(found.tolist()) == set(np.flatnonzero(expected).tolist())
    assert scores == pytest.approx(expected[found], rel=1e-5)


def test_ties_are_broken_by_asin(shop: SearchIndex):
    found, scores = shop.search_scored("red", k=100)
    asins = [shop.catalogue[int(i)].asin for i in found]
    pairs = list(zip(-scores, asins, strict=True))
    assert pairs == sorted(pairs) and len(set(scores.tolist())) < len(scores)


@settings(max_examples=60, deadline=None)
@given(query=st.lists(st.sampled_from(WORDS), max_size=12), k=st.integers(1, 60))
def test_bounded_scoring_finds_what_scoring_everything_finds(query: list[str], k: int):
    index = _random_shop()
    text = " ".join(query)
    index._dense_limit = 10**9
    everything = index.search_scored(text, k)
    index._dense_limit = 0
    bounded = index.search_scored(text, k)
    assert bounded[0].tolist() == everything[0].tolist()
    assert bounded[1].tolist() == everything[1].tolist()


def _random_shop(made: dict[int, SearchIndex] = {}) -> SearchIndex:  # noqa: B006  # made once
    if not made:
        rng = random.Random(1)
        rare = [f"w{i}" for i in range(30)]
        records = [
            (
                {
                    "asin": f"X{i:04}",
                    "name": " ".join([*rng.choices(WORDS, k=rng.randint(1, 30)), rng.choice(rare)]),
                    "full_description": "", "small_description": [], "category": "c", "query": "q",
                    "product_category": "p",
                },
                None,
                [],
            )
            for i in range(700)
        ]  # fmt: skip
        made[0] = SearchIndex.load(Catalogue.from_records(lambda: records))
    return made[0]


def test_building_in_parts_changes_nothing(
    make_record: Maker, shop: SearchIndex, monkeypatch: pytest.MonkeyPatch
):
    records = [
        (make_record(p.asin, name=p.title, full_description="", small_description=[]), None, [])
        for p in shop.catalogue
    ]
    monkeypatch.setattr(search, "_CHUNK", 7)
    parts = SearchIndex.load(Catalogue.from_records(lambda: records))
    for name in ("_docs", "_saturation", "_starts", "_strongest"):
        assert np.array_equal(getattr(parts, name), getattr(shop, name))


def test_nothing_is_found_for_nothing(shop: SearchIndex):
    for query in ("", "   ", "the", "zzz", "!!", "\x00", "_" * 5000):
        assert shop.search(query).tolist() == []
    assert shop.search("red", k=0).tolist() == []


def test_special_keywords(shop: SearchIndex):
    catalogue, rng = shop.catalogue, random.Random(0)
    drawn = find_products(shop, "<r>", rng)
    assert len(set(drawn.tolist())) == 50
    assert find_products(shop, "<r> x", random.Random(0)).tolist() == drawn.tolist()
    garden = [p.index for p in catalogue if p.category == "garden"]
    assert len(garden) > 50
    assert find_products(shop, "<c> garden", rng).tolist() == garden
    assert find_products(shop, "<c>", rng).tolist() == []
    assert len(find_products(shop, "<q> garden chairs", rng)) == 120
    assert find_products(shop, "<q> garden", rng).tolist() == []
    having = [p.index for p in catalogue if "wood" in p.attributes]
    assert having and find_products(shop, "<a> wood", rng).tolist() == having
    assert find_products(shop, "red lamp", rng).tolist() == shop.search("red lamp").tolist()


def test_is_shared_and_pickles_as_a_reference(shop: SearchIndex):
    assert SearchIndex.load(shop.catalogue) is shop
    assert pickle.loads(pickle.dumps(shop)) is shop


def test_lengths_are_exact_to_four_bits():
    lengths = np.arange(0, 3000)
    codes = encoded_length(lengths)
    assert codes[:40].tolist() == list(range(40))
    assert codes[[41, 56, 57, 100, 1000]].tolist() == [40, 56, 56, 96, 984]
    assert (np.diff(codes) >= 0).all() and (codes <= lengths).all()
    # Numbers of 31 bits: 24 exact ones, 8 below 8, then 8 for each further power of two.
    numbers = [24 + (m << e) for e in range(28) for m in range(16)]
    assert len({*range(24), *encoded_length(np.array(numbers)).tolist()}) == 24 + 8 + 8 * 28


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's size:large, wi-fi & a_b__ ___", ["It's", "size:large", "wi", "fi", "a_b__"]),
        ("3,000.5 x2y 10.5oz U.S.A. 5'6\" #1", ["3,000.5", "x2y", "10.5oz", "U.S.A", "5'6", "1"]),
        ("a.1 1.a a,b 1:2", ["a", "1", "1", "a", "a", "b", "1", "2"]),
        ("cafe\u0301 soft\xadware na\xefve", ["cafe\u0301", "soft\xadware", "na\xefve"]),
        ("日本語 カタカナ ひら", ["日", "本", "語", "カタカナ", "ひ", "ら"]),
        ("iPhone® ❤\ufe0f❤", ["iPhone", "®", "❤\ufe0f", "❤"]),
        ("👨\u200d👩 👍🏽", ["👨\u200d👩", "👍🏽"]),
        ("🇩🇪🇫🇷 #\ufe0f\u20e3 ½ m²", ["🇩🇪", "🇫🇷", "#\ufe0f\u20e3", "m"]),
        ("\u0e44\u0e17\u0e22 \ud55c\uad6d", ["\u0e44\u0e17\u0e22", "\ud55c\uad6d"]),
        ("x" * 600, ["x" * 255, "x" * 255, "x" * 90]),
    ],
)  # fmt: skip
def test_word_boundaries(text: str, words: list[str]):
    assert analysis.words(text) == words


@given(st.text(alphabet="ab1_.,':;- "))
def test_the_short_pattern_for_ascii_cuts_as_the_long_one(text: str):
    assert analysis._ASCII_WORD.findall(text) == analysis._UNICODE_WORD.findall(text)


def test_no_text_takes_long_to_cut():
    for unit in ("_", "a_", "a.", "1,", "\u2764\u200d", "'", "\u0301", "\u30ab_"):
        assert isinstance(analysis.words(unit * 20_000), list)


@pytest.mark.parametrize(
    ("word", "term"),
    [
        ("Chairs", "chair"), ("women's", "women"), ("MEN\u2019S", "men"), ("the", None),
        ("us", "us"),
        ("relational", "relat"), ("hopping", "hop"), ("caresses", "caress"), ("ponies", "poni"),
        ("technology", "technolog"), ("technological", "technolog"), ("logy", "logi"),
        ("possibly", "possibl"), ("probably", "probabl"), ("bly", "bly"), ("'s", ""),
    ],
)  # fmt: skip
def test_terms(word: str, term: str | None):
    assert analysis.term(word) == term


def test_measure():
    assert not any(map(analysis._has_measure, ["", "tr", "ee", "by", "ya", "yb", "eau"]))
    assert all(map(analysis._has_measure, ["trouble", "oats", "syn", "ab", "ayb"]))
