from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.webshop import pages
from agentgym.envs.webshop.catalogue import Catalogue, Product
from agentgym.envs.webshop.goals import Goals
from agentgym.envs.webshop.pages import Session
from agentgym.envs.webshop.reward import purchase_reward


def product(index: int, asin: str, options: dict[str, tuple[str, ...]] | None = None) -> Product:
    return Product(
        index=index,
        asin=asin,
        category="garden",
        query="pots",
        product_category="Home › Garden › Pots",
        title=f"Pot {index}",
        description="A pot." if index else "",
        bullet_points=("Round ", "Red"),
        pricing=(12.99,),
        price_tag="$12.99",
        options=options or {},
        option_images={},
        main_image="",
        attributes=("round",),
        instruction=None,
        instruction_attributes=(),
        human_instructions=(),
    )


class Shelf:
    """A shop of twelve products in which every search finds everything."""

    def __init__(self) -> None:
        special = {
            "color": ("red", "blue"),
            "trim": ("blue", "buy now", "a]b", "a[b", "search", 'a "big" one', "é"),
        }
        self.products = [product(i, f"B{i:09d}", special if i == 1 else None) for i in range(12)]

    def product(self, index: int) -> Product:
        return self.products[index]

    def find(self, keywords: str, seed: int) -> np.ndarray:
        return np.arange(12)

    def instruction(self, goal: int) -> str:
        return " a round pot"

    def buy(self, goal: int, product: int, options: dict[str, str]) -> float:
        return 0.5


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def play(shelf: pages.Shop, *actions: str) -> Session:
    session = Session(7)
    for action in actions:
        after = pages.act(session, action, shelf)
        assert after is not None, f"{action} is not possible on {pages.url(session, shelf)}"
        session = after
    return session


ITEM = ("search[Pots]", "click[B000000001]")

# Parsing.


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("search[Red Shoes]", ("search", "red shoes")),
        ("search[red] shoes", ("search", "red")),
        ("click[Buy Now", ("click[Buy Now", None)),
        ("click[a]b]", ("click", "a]b")),
        ("click[a[b]", ("click[a", "b")),
        ("search[]", ("search[]", None)),
        ("search[]]", ("search", "]")),
        ("[x]", ("[x]", None)),
        ("[[x]", ("[", "x")),
        ("search[a\nb]", ("search[a\nb]", None)),
        ("search[a]\nb]", ("search", "a")),
        ("", ("", None)),
    ],
)
def test_actions_are_split_as_the_original_does(action: str, expected: tuple[str, str | None]):
    assert pages.parse_action(action) == expected


@given(st.text(alphabet="ab[]\n ", max_size=12))
def test_parsing_equals_the_regular_expression(action: str):
    match = re.match(r"(.+)\[(.+)\]", action)
    expected = (match[1], match[2].lower()) if match else (action, None)
    assert pages.parse_action(action) == expected


@given(st.sampled_from(["search", "click"]), st.text(alphabet="ab[]\n ", max_size=12))
def test_lenient_parsing_keeps_every_action_of_the_original(name: str, rest: str):
    action = f"{name}[{rest}"
    found = pages.parse_action(action)
    if found[0] == name:
        assert pages.parse_action(pages.parse_leniently(action)) == found


@pytest.mark.parametrize(
    ("action", "read"),
    [
        ("search[lamp]\nclick[buy now]", ""),
        ("Action: search[lamp]\nAction: click[x]", ""),
        ("search[lamp]\nAction: click[buy now]", ""),
        ("I could click[buy now].\nAction: search[lamp]", "search[lamp]"),
        ("search[lamp]\n\nThis finds lamps.", "search[lamp]"),
        ("search[lamp] or nothing", ""),
        ("Action: click[buy now], then wait", ""),
        ("search[lamp] and go back", ""),
        ("search[lamp] (and nothing else)", "search[lamp]"),
        ("search[lamp] android", "search[lamp]"),
        ("search[hands\u202ffree 6\u2011pack]<|im_end|>", "search[hands free 6-pack]"),
        ("\u201cclick[Buy\u00a0Now]\u201d.", "click[buy now]"),
    ],
)
def test_lenient_parsing_reads_one_action_in_its_plain_form(action: str, read: str):
    assert pages.parse_leniently(action) == read


@given(st.text(alphabet="ab[]\n ", max_size=8) | st.sampled_from(["search", "searches"]))
def test_a_text_can_be_said_if_saying_it_is_read_as_it(text: str):
    read = pages.parse_action(f"click[{text}]") == ("click", text)
    assert pages.can_be_said(text) is (read and text != "search")


def test_ten_megabytes_of_brackets_are_parsed_in_linear_time(shelf: Shelf):
    # Backtracking on this input would take days.
    assert pages.act(Session(0), "[" * 10_000_000, shelf) is None


# Edge cases of the original.


def test_search_works_on_any_page_and_forgets_product_and_options(shelf: Shelf):
    session = play(shelf, *ITEM, "click[red]", "click[features]", "search[other]")
    assert (session.place, session.product, session.options) == ("search_results", -1, {})
    assert (session.keywords, session.page, session.opened) == ("other", 1, (1,))


def test_next_is_always_offered_and_prev_only_after_the_first_page(shelf: Shelf):
    third = play(shelf, "search[x]", "click[next >]", "click[next >]")
    assert (third.shown, third.total) == ((), 12)
    assert pages.clickables(third, shelf) == ["back to search", "< prev", "next >"]
    first = play(shelf, "search[x]")
    assert pages.clickables(first, shelf)[:3] == ["back to search", "next >", "b000000000"]
    assert play(shelf, "search[x]", "click[next >]", "click[< prev]") == first


def test_back_to_search_forgets_everything_but_the_goal(shelf: Shelf):
    assert play(shelf, *ITEM, "click[red]", "click[back to search]") == Session(7)
    assert pages.clickables(Session(7), shelf) == ["search"]
    assert pages.act(Session(7), "click[search]", shelf) is None


def test_prev_leads_from_a_section_to_the_product_and_from_there_to_the_results(shelf: Shelf):
    opened = play(shelf, *ITEM, "click[red]")
    section = pages.act(opened, "click[Description]", shelf)
    assert section is not None
    assert (section.place, section.section) == ("item_sub_page", "Description")
    assert pages.act(section, "click[< prev]", shelf) == opened
    results = pages.act(opened, "click[< prev]", shelf)
    assert results is not None
    assert (results.place, results.options, results.opened) == ("search_results", {}, (1,))


def test_a_value_of_two_options_belongs_to_the_last_one(shelf: Shelf):
    assert play(shelf, *ITEM, "click[blue]").options == {"trim": "blue"}
    assert pages.clickables(play(shelf, *ITEM), shelf).count("blue") == 1


def test_one_value_per_option_in_the_order_of_the_first_choice(shelf: Shelf):
    session = play(shelf, *ITEM, "click[blue]", "click[red]", "click[é]")
    assert list(session.options.items()) == [("trim", "é"), ("color", "red")]


def test_a_value_named_like_a_button_takes_its_place_but_does_what_the_button_does(shelf: Shelf):
    opened = play(shelf, *ITEM)
    assert pages.clickables(opened, shelf).count("buy now") == 1
    bought = play(shelf, *ITEM, "click[buy now]")
    assert (bought.place, bought.reward, bought.options) == ("done", 0.5, {})
    assert pages.clickables(bought, shelf) == []


def test_values_with_an_opening_bracket_cannot_be_said(shelf: Shelf):
    opened = play(shelf, *ITEM)
    assert play(shelf, *ITEM, "click[a]b]").options == {"trim": "a]b"}
    for value in ("a[b", "search"):
        assert value in pages.clickables(opened, shelf)
        assert not pages.can_be_said(value)
        assert pages.act(opened, f"click[{value}]", shelf) is None


def test_searching_for_the_name_of_a_page_misleads_the_prev_button(shelf: Shelf):
    first = ("search[search_results]", "click[next >]", "click[b000000010]")
    assert play(shelf, *first, "click[< prev]").page == 1
    section = play(shelf, "search[item_page]", "click[b000000001]", "click[features]")
    after = pages.act(section, "click[< prev]", shelf)
    assert after is not None and after.place == "search_results"


@pytest.mark.parametrize(
    "action", ["", "buy", "click[nothing]", "click[ red]", "Click[red]", "[x]"]
)
def test_what_the_page_does_not_offer_is_not_possible(shelf: Shelf, action: str):
    opened = play(shelf, *ITEM)
    assert pages.act(opened, action, shelf) is None


def test_an_asin_with_small_letters_leads_nowhere(shelf: Shelf):
    shelf.products[0] = product(0, "b00000000x")
    assert pages.act(play(shelf, "search[x]"), "click[b00000000x]", shelf) is None


def test_acting_changes_no_session(shelf: Shelf):
    opened = play(shelf, *ITEM, "click[red]")
    before = repr(opened)
    for action in ("click[blue]", "click[< prev]", "click[features]", "click[buy now]"):
        assert pages.act(opened, action, shelf) != opened
        assert repr(opened) == before


# Texts of pages.


def test_texts_are_stripped_in_text_mode_and_empty_ones_left_out(shelf: Shelf):
    empty = play(shelf, "search[x]", "click[b000000000]", "click[description]")
    head = "Instruction: [SEP] a round pot [SEP] Back to Search [SEP] < Prev"
    assert pages.render_text(empty, shelf) == head
    features = play(shelf, *ITEM, "click[features]")
    assert pages.render_text(features, shelf) == f"{head} [SEP] Round [SEP] Red"
    assert pages.render_rich(features, shelf).endswith("\n Round \n Red\n")


def test_rich_pages_mark_values_that_are_quoted_anywhere_in_the_address(shelf: Shelf):
    # The original's URL holds options as JSON: values that JSON escapes are never marked.
    session = play(shelf, 'search["red"]', "click[b000000001]", "click[é]")
    text = pages.render_rich(session, shelf)
    assert text.startswith("You have clicked red.\nInstruction:\n")
    assert "  [clicked button] red [clicked button_]\n" in text
    assert "  [button] é [button_]\n" in text


def test_the_receipt_escapes_options_as_a_web_page_does(shelf: Shelf):
    bought = play(shelf, *ITEM, 'click[a "big" one]', "click[red]", "click[buy now]")
    assert r'{"color": "red", "trim": "a \"big\" one"}' in pages.render_text(bought, shelf)


def test_state_key_ignores_how_a_page_was_reached(shelf: Shelf):
    one = play(shelf, *ITEM, "click[red]", "click[é]")
    other = play(shelf, "search[pots]", "click[b000000002]", "search[pots]", *ITEM)
    other = play_on(other, shelf, "click[é]", "click[red]")
    assert pages.state_key(one) == pages.state_key(other)
    keys = {
        pages.state_key(play(shelf, *actions))
        for actions in (
            (),
            ("search[a]",),
            ("search[b]",),
            ("search[a]", "click[next >]"),
            ITEM,
            (*ITEM, "click[red]"),
            (*ITEM, "click[blue]"),
            (*ITEM, "click[features]"),
            (*ITEM, "click[description]"),
            (*ITEM, "click[buy now]"),
        )
    }
    assert len(keys) == 10


def play_on(session: Session, shelf: Shelf, *actions: str) -> Session:
    for action in actions:
        session = pages.act(session, action, shelf) or session
    return session


# The original's own pages.


class RealShop:
    """The original's products and goals. `results` replaces those of the search engine."""

    def __init__(self, catalogue: Catalogue):
        self.goals = Goals.load(catalogue)
        self.catalogue = catalogue
        self.results = np.arange(0)

    def product(self, index: int) -> Product:
        return self.catalogue[index]

    def find(self, keywords: str, seed: int) -> np.ndarray:
        return self.results

    def instruction(self, goal: int) -> str:
        return self.goals[goal].instruction_text

    def buy(self, goal: int, product: int, options: dict[str, str]) -> float:
        price = float(self.goals.prices[product])
        return purchase_reward(self.product(product), self.goals[goal], price, options)[0]


def recorded_results(step: dict[str, Any], catalogue: Catalogue) -> np.ndarray:
    """Returns a result list with the recorded products at the positions of the recorded page."""
    found = [catalogue.find(text.upper()) for text in step["avail"]["clickables"]]
    shown = [index for index in found if index is not None]
    total = int(re.findall(r"Total results: (\d+)", step["obs"])[0])
    start = 10 * (int(step["url"].rsplit("/", 1)[1]) - 1)
    results = np.zeros(total, dtype=np.int64)
    results[start : start + len(shown)] = shown
    return results


def test_recorded_episodes_are_reproduced_byte_for_byte(
    real_catalogue: Catalogue, golden: Callable[[str], list[dict[str, Any]]]
):
    shop = RealShop(real_catalogue)
    for episode in golden("rollouts_text"):
        session = Session(episode["goal_index"])
        assert pages.render_text(session, shop) == episode["obs0"]
        assert pages.clickables(session, shop) == episode["avail0"]["clickables"]
        for step in episode["steps"]:
            if "/search_results/" in step["url"]:
                shop.results = recorded_results(step, real_catalogue)
            session = pages.act(session, step["action"], shop) or session
            assert pages.url(session, shop) == step["url"]
            assert pages.render_text(session, shop) == step["obs"]
            assert pages.render_rich(session, shop) == step["obs_rich"]
            assert pages.clickables(session, shop) == step["avail"]["clickables"]
            assert session.reward == step["reward"]
            assert (session.place == "done") is step["done"]
            assert ("search" in pages.clickables(session, shop)) is step["avail"]["has_search_bar"]
