"""The generated shop: products, users and orders, in the format of tau-bench."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.database import Record, Tables, by_value, plain_key
from agentgym.envs.service.people import (
    draw_address,
    draw_card,
    draw_name,
    draw_number,
    user_key,
)
from agentgym.tasks import task_rng

COLORS = ("black", "blue", "green", "red", "white")
SIZES = ("small", "medium", "large")
PRODUCTS: dict[str, dict[str, tuple[str, ...]]] = {
    "Backpack": {"color": COLORS, "size": SIZES},
    "Bath Towel": {"color": COLORS, "material": ("cotton", "bamboo")},
    "Blender": {"color": COLORS, "capacity": ("1 litre", "2 litres")},
    "Bookshelf": {"material": ("oak", "pine", "metal"), "height": ("4 feet", "6 feet")},
    "Camera": {"resolution": ("20 megapixels", "30 megapixels"), "zoom": ("3x", "5x", "10x")},
    "Desk Lamp": {"color": COLORS, "brightness": ("low", "medium", "high")},
    "Headphones": {"type": ("in-ear", "over-ear"), "color": COLORS},
    "Hiking Boots": {"size": ("7", "8", "9", "10"), "material": ("leather", "synthetic")},
    "Keyboard": {"switch": ("linear", "clicky", "tactile"), "layout": ("full", "compact")},
    "Mug": {"color": COLORS, "size": SIZES},
    "Office Chair": {"color": COLORS, "armrests": ("fixed", "adjustable")},
    "Puzzle": {"pieces": ("500", "1000", "2000"), "theme": ("animals", "art", "travel")},
    "Rain Jacket": {"color": COLORS, "size": SIZES},
    "Smart Watch": {"color": COLORS, "display": ("AMOLED", "LCD")},
    "Tea Kettle": {"material": ("glass", "steel", "ceramic"), "capacity": ("1 litre", "2 litres")},
    "Yoga Mat": {"thickness": ("4 mm", "6 mm"), "material": ("rubber", "cork", "PVC")},
}
"""Product -> option -> values."""
REASONS = ("no longer needed", "ordered by mistake")
"""Reasons for which a pending order can be cancelled."""
USERS = 150


@lru_cache(maxsize=4)
def shop(world: int) -> Tables:
    """Returns the tables of a generated shop.

    Args:
        world: seed of the data.
    """
    rng = task_rng(str(world), "retail_world")
    products = dict(_product(rng, name) for name in PRODUCTS)
    users: dict[str, Record] = {}
    orders: dict[str, Record] = {}
    for _ in range(USERS):
        user = _user(rng)
        key = user_key(rng, user["name"], users)
        user["email"] = f"{key.replace('_', '.')}@example.com"
        users[key] = user
        # A product occurs in at most one order of a user, so that it identifies the order.
        free = [products[i] for i in rng.permutation(list(products)).tolist()]
        for status in ("pending", "pending", "delivered", "delivered", "processed"):
            chosen = [free.pop() for _ in range(int(rng.integers(1, 4)))]
            order = _order(rng, key, user, chosen, status)
            orders[order["order_id"]] = order
            user["orders"].append(order["order_id"])
    return Tables({"orders": orders, "products": products, "users": users}, by_value)


@lru_cache(maxsize=4)
def shop_keys(world: int) -> Keys:
    """Returns the known values of the arguments of tools that are keys."""
    tables = shop(world)
    methods = [key for user in tables.records["users"].values() for key in user["payment_methods"]]
    items = [key for each in tables.records["products"].values() for key in each["variants"]]
    return {
        **{f"{table[:-1]}_id": tables.keys_by_name(table) for table in tables.records},
        "payment_method_id": {plain_key(key): key for key in methods},
        "reason": {plain_key(reason): reason for reason in REASONS},
        "item_ids": {key: key for key in items},
        "new_item_ids": {key: key for key in items},
    }


def _product(rng: np.random.Generator, name: str) -> tuple[str, Record]:
    options = PRODUCTS[name]
    combinations = list(product(*options.values()))
    base = float(rng.integers(15, 200))
    variants = {}
    for i in sorted(rng.choice(len(combinations), size=6, replace=False).tolist()):
        item_id = draw_number(rng, 10)
        variants[item_id] = {
            "item_id": item_id,
            "options": dict(zip(options, combinations[i], strict=True)),
            "available": bool(rng.random() < 0.8),
            "price": round(base * float(rng.uniform(0.9, 1.1)), 2),
        }
    product_id = draw_number(rng, 10)
    return product_id, {"name": name, "product_id": product_id, "variants": variants}


def _user(rng: np.random.Generator) -> Record:
    card = draw_card(rng)
    gift = f"gift_card_{draw_number(rng)}"
    methods: dict[str, Any] = {
        card["id"]: card,
        gift: {"source": "gift_card", "balance": float(rng.integers(20, 900)), "id": gift},
    }
    if rng.random() < 0.5:
        paypal = f"paypal_{draw_number(rng)}"
        methods[paypal] = {"source": "paypal", "id": paypal}
    return {
        "name": draw_name(rng),
        "address": draw_address(rng),
        "email": "",
        "payment_methods": methods,
        "orders": [],
    }


def _order(
    rng: np.random.Generator, user_id: str, user: Record, products: list[Record], status: str
) -> Record:
    """Returns an order with one item of each product."""
    items = []
    for chosen in products:
        variants = list(chosen["variants"].values())
        variant = variants[int(rng.integers(len(variants)))]
        items.append(
            {
                "name": chosen["name"],
                "product_id": chosen["product_id"],
                "item_id": variant["item_id"],
                "price": variant["price"],
                "options": dict(variant["options"]),
            }
        )
    methods = list(user["payment_methods"])
    payment = {
        "transaction_type": "payment",
        "amount": round(sum(item["price"] for item in items), 2),
        "payment_method_id": methods[int(rng.integers(len(methods)))],
    }
    return {
        "order_id": f"#W{draw_number(rng)}",
        "user_id": user_id,
        "address": dict(user["address"]),
        "items": items,
        "fulfillments": [],
        "status": status,
        "payment_history": [payment],
    }
