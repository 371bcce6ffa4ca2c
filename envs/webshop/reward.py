"""The original's graded reward: how well a purchase matches a goal.

WebShop (arXiv 2207.01206), section 3 and equation 1: reward = r_type * (matched attributes +
matched options + [price within limit]) / (attributes + options + 1). Success is a reward of 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from agentgym.envs.webshop.catalogue import Product
from agentgym.envs.webshop.fuzzy import Text, is_match, token_set_ratio
from agentgym.envs.webshop.goals import Goal
from agentgym.envs.webshop.nouns import NounTagger, alphabetic_nouns

__all__ = ["COLOURS", "normalised_colour", "purchase_reward", "token_set_ratio"]

COLOURS = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
    cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia
    gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender
    lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
    mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red
    rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower
    tan taupe teal tiger turquoise violet walnut wheat white wine yellow
    """.split()
)
"""The colours, in the order in which the original searches for them."""


def purchase_reward(
    product: Product,
    goal: Goal,
    price: float,
    chosen: Mapping[str, str],
    nouns: NounTagger = alphabetic_nouns,
) -> tuple[float, dict[str, Any]]:
    """Returns the reward in [0, 1] and its parts.

    Args:
        product: The purchased product.
        goal: The goal.
        price: The product's price in dollars (`Goals.prices[product.index]`).
        chosen: Option name -> chosen value.
        nouns: Extracts the nouns of a title.

    Returns:
        The reward, and a dict of r_type, r_att, w_att, query_match, category_match, title_score,
        r_price, w_price and, if the goal has options, r_option and w_option.
    """
    kind = _type_reward(product, goal, nouns)
    attributes = _matched_attributes(product, goal.attributes)
    wanted = goal.options.items() if isinstance(goal.options, dict) else goal.options
    options = _matched_options(tuple(chosen.values()), tuple(wanted))
    affordable = bool(price <= goal.price_upper)
    parts = len(goal.attributes) + len(wanted) + 1
    info: dict[str, Any] = {
        "r_type": kind["r_type"],
        "r_att": attributes / len(goal.attributes),
        "w_att": len(goal.attributes) / parts,
        "query_match": kind["query_match"],
        "category_match": kind["category_match"],
        "title_score": kind["title_score"],
    }
    if wanted:
        info |= {"r_option": options / len(wanted), "w_option": len(wanted) / parts}
    info |= {"r_price": affordable, "w_price": 1 / parts}
    return (attributes + options + affordable) / parts * kind["r_type"], info


def _type_reward(product: Product, goal: Goal, nouns: NounTagger) -> dict[str, Any]:
    """Scores whether the product is of the right kind, by query, categories and title."""
    query_match = product.query == goal.query
    shared = _categories(product.product_category) & _categories(goal.product_category)
    category_match = len(shared) >= 2
    wanted = nouns(goal.name)
    # Repeated nouns count only in the denominator.
    found = len(set(wanted) & set(nouns(product.title)))
    title_score = found / len(wanted) if wanted else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1 if title_score else 0.0
    return {
        "r_type": r_type,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


@functools.lru_cache(maxsize=4096)
def _categories(path: str) -> frozenset[str]:
    return frozenset(name.strip() for name in path.split("›"))


def _matched_attributes(product: Product, wanted: tuple[str, ...]) -> int:
    """Counts goal attributes that the product has or that appear literally on its page."""
    page: tuple[str, ...] = ()
    matched = 0
    for attribute in wanted:
        if any(is_match(own, attribute) for own in product.attributes):
            matched += 1
            continue
        page = page or (
            product.title.lower(),
            " ".join(product.bullet_points).lower(),
            product.description.lower(),
        )
        matched += any(attribute in text for text in page)
    return matched


def _matched_options(chosen: tuple[str, ...], wanted: tuple[Text, ...]) -> int:
    """Counts goal options that some chosen value matches.

    Synthetic goals have (name, value) pairs, and the original compares the pair with the bare
    value. A colour counts only if it is the whole name or value. Otherwise the name is part of the
    text that must be similar.
    """
    values = [normalised_colour(value) for value in chosen]
    targets = [normalised_colour(target) for target in wanted]
    return sum(any(is_match(value, target) for value in values) for target in targets)


@functools.lru_cache(maxsize=1 << 14)
def normalised_colour(text: Text) -> Text:
    """Returns the first colour that is a substring of a text (an element of a pair), or the text.

    Substrings are not words: "one hundred" is "red".
    """
    return next((colour for colour in COLOURS if colour in text), text)
