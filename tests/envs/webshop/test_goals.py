from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.goals import Goal, Goals

Golden = Callable[[str], list[dict[str, Any]]]
Maker = Callable[..., dict[str, Any]]


def annotated(*wanted: str) -> dict[str, Any]:
    return {"attributes": ["x"], "instruction": "Find me it", "instruction_attributes": [*wanted]}


def options(**values: list[str]) -> dict[str, Any]:
    return {name: [{"value": value} for value in found] for name, found in values.items()}


@pytest.fixture
def small(make_record: Maker) -> Catalogue:
    """Six goals: four combinations, one, none for lack of values, none requested, one."""
    return Catalogue.from_records(
        lambda: [
            (
                make_record("A", customization_options=options(size=["s", "l"], color=["r", "g"])),
                annotated("soft", "light"),
                [],
            ),
            (make_record("B", pricing="$10 to $20"), annotated("soft"), []),
            (make_record("C", customization_options=options(size=[])), annotated("thin"), []),
            (make_record("D"), None, []),
            (make_record("E", pricing="$985"), annotated("hard"), []),
        ]
    )


def test_the_first_500_goals_of_the_original(real_catalogue: Catalogue, golden: Golden):
    goals = Goals.load(real_catalogue)
    assert len(goals) == 6910
    for expected in golden("goals_synthetic_seed0_head"):
        goal = goals[expected["i"]]
        assert {
            "i": expected["i"],
            "asin": goal.asin,
            "instruction_text": goal.instruction_text,
            "attributes": list(goal.attributes),
            "price_upper": goal.price_upper,
            "goal_options": goal.options,
            "weight": pytest.approx(goal.weight, rel=1e-14),
        } == expected


def test_episodes_of_the_original_show_later_goals_too(real_catalogue: Catalogue, golden: Golden):
    goals = Goals.load(real_catalogue)
    for episode in golden("rollouts_text"):
        text = goals[episode["goal_index"]].instruction_text
        assert episode["instruction"] == f"Instruction: {text}"


def test_human_goals(real_catalogue: Catalogue):
    goals = Goals.load(real_catalogue, human=True)
    assert len(goals) == 13
    assert all(isinstance(goal.options, tuple) and goal.weight == 1 for goal in goals)
    assert all(" dollars" in goal.instruction_text for goal in goals)


def test_goals_are_made_as_the_original_makes_them(small: Catalogue):
    """A direct transcription of the rules, with one generator for everything."""
    rng = random.Random(5)
    ladder = [10.0 * i for i in range(1, 100)]
    prices = [12.99, rng.uniform(10, 20), 12.99, 12.99, 985.0]
    made: list[tuple[str, str, float, dict[str, str]]] = []
    for i, product in enumerate(small):
        if product.instruction is None:
            continue
        steps = [step for step in ladder if step > prices[i]][:4]
        limit = sorted(rng.sample(steps, 2))[1] if len(steps) >= 2 else 1_000_000
        suffix = f", and price lower than {limit:.2f} dollars" if len(steps) >= 2 else ""
        if product.asin == "A":
            for color in "rg":
                for size in "sl":
                    text = f"Find me it with color: {color}, and size: {size}{suffix}"
                    made.append(("A", text, limit, {"color": color, "size": size}))
        elif product.asin != "C":
            made.append((product.asin, f"Find me it{suffix}", limit, {}))
    random.Random(233).shuffle(made)
    goals = Goals.load(small, data_seed=5)
    assert goals.prices.tolist() == prices
    assert [(g.asin, g.instruction_text, g.price_upper, g.options) for g in goals] == made
    assert [small[goals.product_index(i)].asin for i in range(len(goals))] == [m[0] for m in made]


def test_weights_are_rarity_of_attributes(small: Catalogue):
    weights = {goal.asin: goal.weight for goal in Goals.load(small)}
    assert weights == pytest.approx({"A": (1 / 5 + 1 / 4) / 2, "B": 1 / 5, "E": 1.0})
    goals = Goals.load(small)
    assert goals.weights().tolist() == [goal.weight for goal in goals]
    assert goals.weights(2, 4).tolist() == [goal.weight for goal in goals[2:4]]


def test_human_instructions_without_attributes_are_skipped_without_a_draw(make_record: Maker):
    def entry(text: str, attributes: list[str], options: Any) -> dict[str, Any]:
        names = ("instruction", "instruction_attributes", "instruction_options")
        return dict(zip(names, (text, attributes, options), strict=True))

    human = [entry("..a b...", ["x"], ["red"]), entry("no", [], []), entry("c", ["y"], [])]
    catalogue = Catalogue.from_records(
        lambda: [(make_record("A"), None, human), (make_record("B"), annotated("z"), [])]
    )
    rng = random.Random(3)
    limits = [max(rng.sample([20.0, 30.0, 40.0, 50.0], 2)) for _ in range(2)]
    goals = sorted(Goals.load(catalogue, human=True, data_seed=3), key=lambda goal: goal.attributes)
    assert [goal.instruction_text for goal in goals] == [
        f"a b, and price lower than {limits[0]:.2f} dollars",
        f"c, and price lower than {limits[1]:.2f} dollars",
    ]
    assert [goal.options for goal in goals] == [("red",), ()]
    assert [goal.price_upper for goal in goals] == limits


def test_seeds_change_what_they_should(small: Catalogue):
    goals = Goals.load(small)
    assert Goals.load(small, data_seed=0, order_seed=233) is goals
    other = Goals.load(small, order_seed=42)
    assert [g.instruction_text for g in other] != [g.instruction_text for g in goals]
    key = str
    assert sorted(map(key, other)) == sorted(map(key, goals))
    assert Goals.load(small, data_seed=1).prices[1] != goals.prices[1]


def test_is_a_shared_sequence(small: Catalogue):
    goals = Goals.load(small)
    assert goals[-1] == list(goals)[-1] == goals[5] and goals[1:3] == [goals[1], goals[2]]
    assert pickle.loads(pickle.dumps(goals)) is goals
    with pytest.raises(IndexError, match="goal 6 of 6"):
        goals[6]


def test_sampling_follows_the_weights(small: Catalogue):
    goals = Goals.load(small)
    rng = np.random.default_rng(0)
    counts = np.bincount([goals.sample(rng) for _ in range(20_000)], minlength=6)
    expected = goals.weights() / goals.weights().sum() * 20_000
    assert counts == pytest.approx(expected, rel=0.1)
    part = Counter(goals.sample(rng, 1, 3) for _ in range(1000))
    assert set(part) == {1, 2}
    with pytest.raises(ValueError, match="no goal in 3:3 of 6"):
        goals.sample(rng, 3, 3)


def test_the_originals_sampling_is_off_by_one(small: Catalogue):
    goals = Goals.load(small)
    rng = random.Random(0)
    counts = np.bincount([goals.sample_like_original(rng) for _ in range(20_000)], minlength=6)
    weights = goals.weights()
    shifted = np.array([0, *weights[:-1]])
    shifted[-1] += weights[-1]
    assert counts[0] == 0
    assert counts == pytest.approx(shifted / weights.sum() * 20_000, rel=0.1)


def test_global_generators_are_left_alone(small: Catalogue, global_rng_untouched: None):
    goals = Goals.load(small, data_seed=99)
    goals.sample(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("attributes", "price_upper", "message"),
    [((), 10.0, "at least one attribute"), (("x",), 0.0, "positive"), (("x",), -1.0, "positive")],
)
def test_goals_without_a_defined_reward_are_refused(
    attributes: tuple[str, ...], price_upper: float, message: str
):
    with pytest.raises(ValueError, match=message):
        Goal("A", "", "", "", "", "", attributes, price_upper, {})
