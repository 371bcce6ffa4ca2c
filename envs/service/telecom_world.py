"""The generated mobile network operator: customers, lines, plans and bills."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.database import Record, Tables, by_value, plain_key
from agentgym.envs.service.people import draw_address, draw_birthday, draw_name
from agentgym.tasks import task_rng

TODAY = "2025-02-25"
DEVICES = ("Aster 5", "Boreal X", "Cobalt 12", "Delta Mini", "Ember Pro", "Fjord 9")
PLANS: dict[str, Record] = {
    "P1": {"plan_id": "P1", "name": "Basic", "data_limit_gb": 5, "refuel_price_per_gb": 3},
    "P2": {"plan_id": "P2", "name": "Plus", "data_limit_gb": 15, "refuel_price_per_gb": 2},
    "P3": {"plan_id": "P3", "name": "Max", "data_limit_gb": 40, "refuel_price_per_gb": 1},
}
CUSTOMERS = 160


@lru_cache(maxsize=4)
def operator(world: int) -> Tables:
    """Returns the tables of a generated operator, in which all lines work.

    Args:
        world: seed of the data.
    """
    rng = task_rng(str(world), "telecom_world")
    customers: dict[str, Record] = {}
    lines: dict[str, Record] = {}
    bills: dict[str, Record] = {}
    numbers = rng.permutation(9000)[: 2 * CUSTOMERS] + 1000
    for i in range(CUSTOMERS):
        key = f"C{1000 + i}"
        devices = rng.permutation(len(DEVICES))[:2].tolist()
        owned = [
            _line(rng, f"L{2000 + 2 * i + j}", key, f"555-01{int(numbers[2 * i + j])}", device)
            for j, device in enumerate(devices)
        ]
        lines.update((line["line_id"], line) for line in owned)
        issued = [_bill(rng, f"B{9000 - 6 * i - j}", key, owned[j % 2], j // 2) for j in range(6)]
        bills.update((bill["bill_id"], bill) for bill in issued)
        customers[key] = {
            "customer_id": key,
            "name": draw_name(rng),
            "date_of_birth": draw_birthday(rng),
            "address": draw_address(rng),
            "lines": [line["line_id"] for line in owned],
            "bills": [bill["bill_id"] for bill in issued],
        }
    return Tables(
        {"customers": customers, "lines": lines, "plans": PLANS, "bills": bills}, by_value
    )


@lru_cache(maxsize=4)
def operator_keys(world: int) -> Keys:
    """Returns the known values of the arguments of tools that are keys."""
    tables = operator(world)
    numbers = [line["phone_number"] for line in tables.records["lines"].values()]
    return {
        **{f"{table[:-1]}_id": tables.keys_by_name(table) for table in tables.records},
        "phone_number": {plain_key(number): number for number in numbers},
    }


def _line(rng: np.random.Generator, key: str, customer: str, number: str, device: int) -> Record:
    plan = list(PLANS)[int(rng.integers(len(PLANS)))]
    limit = PLANS[plan]["data_limit_gb"]
    return {
        "line_id": key,
        "customer_id": customer,
        "phone_number": number,
        "device": DEVICES[device],
        "status": "active",
        "contract_end": f"2026-{int(rng.integers(1, 13)):02}-28",
        "plan_id": plan,
        "roaming_enabled": bool(rng.random() < 0.5),
        "data_used_gb": round(float(rng.uniform(0.1, 0.9)) * limit, 1),
        "data_refueled_gb": 0,
    }


def _bill(
    rng: np.random.Generator, key: str, customer: str, line: Record, months_ago: int
) -> Record:
    # The newest bill of a line is sometimes unpaid, but not due yet.
    unpaid = months_ago == 0 and rng.random() < 0.5
    return {
        "bill_id": key,
        "customer_id": customer,
        "line_id": line["line_id"],
        "month": ("2025-02", "2025-01", "2024-12")[months_ago],
        "amount": int(rng.integers(15, 90)),
        "status": "issued" if unpaid else "paid",
    }
