"""The original's graded reward: how well a bought product fits a goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.envs.webshop.catalogue import Product
from agentgym.envs.webshop.goals import Goal
from agentgym.envs.webshop.nouns import NounTagger, alphabetic_nouns


def purchase_reward(
    product: Product,
    goal: Goal,
    price: float,
    chosen: Mapping[str, str],
    nouns: NounTagger = alphabetic_nouns,
) -> tuple[float, dict[str, Any]]:
    """Returns the reward in [0, 1] and its parts.

    Args:
        product: What was bought.
        goal: What was asked for.
        price: The product's price (`Goals.prices[product.index]`).
        chosen: Option name -> chosen value.
        nouns: Extracts the nouns of a title.

    Returns:
        The reward and a dict of r_type, r_att, w_att, query_match, category_match, title_score,
        r_price, w_price and - only where the goal has options - r_option, w_option.
    """
    raise NotImplementedError


def token_set_ratio(a: str | tuple[str, str], b: str | tuple[str, str]) -> int:
    """Returns the token-set similarity 0..100 of thefuzz 0.19 over difflib."""
    raise NotImplementedError
