from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agentgym.envs.webshop import expert
from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.env import WebShop
from agentgym.envs.webshop.expert import View

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "webshop"


def rewards_and_turns(env: WebShop, tasks: range) -> tuple[np.ndarray, np.ndarray]:
    rewards, turns = [], []
    for task in tasks:
        env.reset(seed=task, options={"task": f"goal/{task}"})
        while True:
            action = env.expert()
            assert action is not None
            _, reward, terminated, truncated, info = env.step(action)
            assert info["valid"], action
            if terminated or truncated:
                break
        rewards.append(reward)
        turns.append(info["turn"])
    return np.array(rewards), np.array(turns)


def test_it_buys_what_was_asked_for_in_the_bundled_shop():
    rewards, turns = rewards_and_turns(WebShop(split="test"), range(300))
    assert rewards.mean() >= 0.95
    assert (rewards == 1).mean() >= 0.95
    assert 4 <= np.median(turns) <= 7


@pytest.mark.slow
def test_it_buys_well_in_the_real_shop(real_catalogue: Catalogue):
    rewards, _ = rewards_and_turns(WebShop(data_dir=REAL, split="test"), range(300))
    assert rewards.mean() >= 0.8


def test_it_depends_on_the_texts_only():
    """The same texts and clicks give the same action in any shop."""
    env = WebShop()
    for task in range(20):
        env.reset(options={"task": f"goal/{task}"})
        views: dict[str, View] = {}
        for _ in range(15):
            session = env.state.session
            view = env._view(session)
            if session.place:
                views[f"{view.asin}/{view.section}/{view.keywords}/{view.page}"] = view
            said = expert.next_action(
                env.shop.instruction(task),
                list(views.values()),
                view,
                session.options,
                15 - env._turn,
            )
            assert said == env.expert()
            if env.step(said)[2]:
                break


def test_it_goes_on_from_wherever_somebody_else_went():
    env = WebShop(max_turns=30)
    rng = np.random.default_rng(0)
    bought = []
    for task in range(60):
        _, info = env.reset(seed=task, options={"task": f"goal/{task}"})
        terminated = False
        for _ in range(8):
            allowed = [a for a in info["admissible"] if a != "click[buy now]"]
            *_, info = env.step(allowed[rng.integers(len(allowed))])
        while not terminated:
            action = env.expert()
            assert action is not None
            _, reward, terminated, truncated, _ = env.step(action)
            assert not truncated
            bought.append(reward) if terminated else None
    assert np.mean(bought) > 0.9


def test_it_buys_in_the_last_turn():
    env = WebShop(max_turns=3)
    for task in range(20):
        env.reset(options={"task": f"goal/{task}"})
        actions = [env.expert() or ""]
        while not env.step(actions[-1])[2]:
            actions.append(env.expert() or "")
        assert len(actions) == 3


# Parsing instructions.


def test_instructions_are_taken_apart():
    request = expert.parse(
        "Find me anti slip, non slip women's slippers with faux fur for home with color: other "
        "white, and size: large, and price lower than 70.00 dollars"
    )
    assert request.head == "anti slip, non slip women's slippers with faux fur for home"
    assert request.options == {"color": "other white", "size": "large"}
    assert (request.limit, request.count) == (70.0, 4)
    assert "slipper" in request.words and "with" not in request.words


@pytest.mark.parametrize("text", ["", " ", "with", ": ", "Find me ", "a: b", "]", "with x: [y]"])
def test_any_instruction_gives_a_search_that_can_be_said(text: str):
    for query in expert.queries(text):
        assert query.strip() and not set(query) & set("[]\n")


def test_human_instructions_have_no_options_but_words_to_look_for():
    request = expert.parse("i need a red 120 ml hair mask, and price lower than 30.00 dollars")
    assert request.options == {} and request.limit == 30.0
    assert expert.fitting(request, "size", ["60 ml", "120 ml", "red"]) == "120 ml"
    assert expert.fitting(request, "color", ["green"]) is None


def test_values_that_are_nearly_right_are_second_choice():
    request = expert.parse("Find me shoes with color: dark red, and size: 7")
    assert expert.fitting(request, "color", ["red", "dark red"]) == "dark red"
    assert expert.fitting(request, "color", ["green", "red"]) == "red"
    assert expert.fitting(request, "color", ["green"]) is None
    assert expert.fitting(request, "length", ["long"]) is None


def test_options_that_cannot_be_chosen_are_left_out():
    product = expert.Candidate("1", "Pot", (5.0,), 0, {"a": ["x[y"], "b": ["red"], "c": ["red"]})
    request = expert.parse("Find me pots with a: x[y, and b: red, and c: red")
    assert expert.choices(request, product) == {"b": "red", "c": "red"}
    result = "Instruction: [SEP] . [SEP] Back to Search [SEP] Page 1 [SEP] 1 [SEP] Pot [SEP] $5.0"
    page = "Instruction: [SEP] . [SEP] Back to Search [SEP] < Prev [SEP] {} [SEP] Pot [SEP] Price: "
    options = "b [SEP] red [SEP] c [SEP] red"
    item = View(page.format(options), ("red", "features", "buy now"), "1", keywords="k", page=1)
    seen = [View(result, ("back to search", "1"), keywords="k", page=1), item]
    text = "Find me pots with b: red, and c: red"
    assert expert.next_action(text, seen, item, {}, None) == "click[red]"
    assert expert.next_action(text, seen, item, {"c": "red"}, None) == "click[buy now]"


def test_a_product_that_it_does_not_remember_is_left():
    item = View("", ("< prev", "buy now"), "1", keywords="k", page=1)
    assert expert.next_action("Find me pots", [item], item, {}, 9) == "click[< prev]"


def test_another_search_is_tried_where_one_found_nothing():
    text = "Find me blue pots with lids with size: 7, and price lower than 30.00 dollars"
    search = View("WebShop", ("search",))
    asked = []
    seen: list[View] = []
    for _ in range(4):
        asked.append(expert.next_action(text, seen, search, {}, None)[7:-1])
        seen.append(View("", ("back to search",), keywords=asked[-1], page=1))
    assert asked == list(expert.queries(text)) and len(set(asked)) == 4
