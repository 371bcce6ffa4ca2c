from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.fuzzy import is_match
from agentgym.envs.webshop.generator import FAMILY, MAX_CHOICES, asin, generate, generated_catalogue
from agentgym.envs.webshop.goals import Goals
from agentgym.envs.webshop.reward import normalised_colour, purchase_reward
from agentgym.envs.webshop.words import GROUPS, Group


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return generated_catalogue(1000)


@pytest.fixture(scope="module")
def goals(catalogue: Catalogue) -> Goals:
    return Goals.load(catalogue)


def test_a_product_does_not_depend_on_how_many_there_are():
    many = list(itertools.islice(generate(1_000_000), 30))
    assert list(generate(30)) == many
    assert list(generate(7)) == many[:7]


def test_another_seed_is_another_shop():
    assert list(generate(20, seed=1)) == list(generate(20, seed=1))
    names = [{record[0]["asin"] for record in generate(200, seed=seed)} for seed in (0, 1)]
    assert not names[0] & names[1]
    texts = [{record[0]["name"] for record in generate(200, seed=seed)} for seed in (0, 1)]
    assert len(texts[0] & texts[1]) < 5


def test_what_is_generated_does_not_change_unnoticed():
    product, annotation, human = next(generate(1))
    assert (product["asin"], product["pricing"]) == ("4141592653", "$199.99")
    name = "Pelmere Quick Pitch Packs Small Sleeping Bag With Reflective Cords"
    assert product["name"] == name
    assert annotation is not None and annotation["instruction"].startswith("Find me ")
    assert human == ()


def test_asins_are_ten_digits_and_unique():
    asins = [asin(i) for i in range(50_000)] + [asin(999_999)]
    assert len(set(asins)) == len(asins)
    assert all(re.fullmatch(r"[1-9]\d{9}", text) for text in asins)


def test_the_shop_is_diverse(catalogue: Catalogue):
    assert len({p.query for p in catalogue}) >= 25
    assert len(catalogue.categories) >= 6
    assert len({p.title.split()[0] for p in catalogue}) > 80
    axes = Counter(len(p.options) for p in catalogue)
    assert min(axes[0], axes[1], axes[2], axes[3]) > 20
    assert max(catalogue.goal_counts) <= MAX_CHOICES
    lengths = [len(p.title.split()) for p in catalogue]
    assert 6 <= min(lengths) and max(lengths) <= 12


def test_every_goal_is_worth_1_with_its_own_product(catalogue: Catalogue, goals: Goals):
    for number in range(len(goals)):
        goal, index = goals[number], goals.product_index(number)
        assert isinstance(goal.options, dict)
        reward, _ = purchase_reward(
            catalogue[index], goal, float(goals.prices[index]), goal.options
        )
        assert reward == 1, goal


def test_near_duplicates_differ_in_one_respect_and_matter(catalogue: Catalogue, goals: Goals):
    """For most goals, some member of the family looks similar and has a lower reward."""
    worse = 0
    for number in range(300):
        goal, index = goals[number], goals.product_index(number)
        family = [catalogue[index - index % FAMILY + k] for k in range(FAMILY)]
        assert len({p.query for p in family}) == 1
        assert len({p.title.split()[0] for p in family}) == 1
        rewards = []
        for sibling in family:
            assert isinstance(goal.options, dict)
            possible = {n: v for n, v in goal.options.items() if v in sibling.options.get(n, ())}
            price = float(goals.prices[sibling.index])
            rewards.append(purchase_reward(sibling, goal, price, possible)[0])
        worse += min(rewards) < 1
    assert worse > 200


def test_all_that_a_goal_asks_for_can_be_read_on_the_pages(catalogue: Catalogue, goals: Goals):
    for number in range(300):
        goal = goals[number]
        product = catalogue[goals.product_index(number)]
        features = " ".join(product.bullet_points).lower()
        assert all(attribute in features for attribute in goal.attributes)
        assert all(attribute in goal.instruction_text for attribute in goal.attributes)
        assert any(attribute in product.title.lower() for attribute in goal.attributes)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.path[1])
def test_no_attribute_or_option_passes_for_another(group: Group):
    attributes = group.adjectives + group.features + group.uses
    for one, other in itertools.permutations(attributes, 2):
        assert not is_match(one, other) and one not in other
    options = [(name, value) for name, values in group.options.items() for value in values]
    for (name, value), wanted in itertools.product(options, options):
        matched = is_match(normalised_colour(value), normalised_colour(wanted))
        assert matched is ((name, value) == wanted)


@pytest.mark.parametrize("count", [0, -1, 1_000_001])
def test_unreasonable_sizes_are_refused(count: int):
    with pytest.raises(ValueError, match="num_products must be in"):
        generated_catalogue(count)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="catalogue_seed"):
        generated_catalogue(10, seed=-1)
