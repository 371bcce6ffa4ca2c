"""The numbers of CarDealer: prices in the dealer's lines, the buyer's offers, and rewards."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.envs.lmrl.buyers import BRANDS, FEATURES, PERSONALITIES, TYPES, Profile

WRONG = {"brand": 0.15, "type": 0.20, "feature": 0.05}
"""Reduction of the maximum price for each unfulfilled wish, as a share of the budget."""
PRICES = range(500, 1_000_000)
MONEY = re.compile(
    r"\$\s?(\d[\d,]*(?:\.\d+)?)\s?(k\b|thousand\b)?"
    r"|\b(\d[\d,]*(?:\.\d+)?)\s?(k\b|thousand\b|dollars\b|usd\b|bucks\b)"
    r"|\b(\d{1,3},\d{3}|[3-9]\d{3}|\d{5,6})\b(?!\s?(?:%|miles|km|mpg|hp))",
    re.IGNORECASE,
)
LIST_PRICE = re.compile(r"msrp|sticker|list price|retail|regular price", re.IGNORECASE)
DISCOUNT = re.compile(r"\b(discount of|knock|take|save|rebate of)\s*$", re.IGNORECASE)
OFF = re.compile(r"^\s*(off|discount|less|rebate|cheaper)\b", re.IGNORECASE)
ANOTHER = re.compile(r"\b(another|different|other|cheaper|instead|alternative)\b", re.IGNORECASE)
DENIED = re.compile(r"\b(no|not|without|lacks|lack|isn't|n't|doesn't have)\W+(\w+\W+){0,2}$")


@dataclass
class Car:
    """The car on offer as described by the dealer. Unknown values are 0 or ""."""

    brand: str = ""
    type: str = ""
    features: list[str] = field(default_factory=list)
    msrp: int = 0
    price: int = 0


def prices(text: str, current: int) -> tuple[int, int]:
    """Returns the list price and the price that a text contains, each 0 if there is none.

    "MSRP $35,000, for you $32,500" -> (35000, 32500); "$2,000 off" counts from the current price.
    """
    msrp = price = 0
    for found in MONEY.finditer(text):
        digits = found[1] or found[3] or found[5]
        unit = (found[2] or found[4] or "").lower()
        amount = float(digits.replace(",", "")[:12]) * (1000 if unit[:1] in ("k", "t") else 1)
        before, after = text[max(0, found.start() - 30) : found.start()], text[found.end() :][:20]
        if current and (DISCOUNT.search(before) or OFF.match(after)):
            price = max(0, current - int(min(amount, 10**9)))
        elif PRICES.start <= amount < PRICES.stop:
            label = LIST_PRICE.search(before.rpartition(".")[2]) or LIST_PRICE.match(after.strip())
            msrp, price = (int(amount), price) if label and not msrp else (msrp, int(amount))
    return msrp, price or msrp


def claimed(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the names that occur in a text and are not negated ("no sunroof")."""
    lower = text.lower()
    found = []
    for name in names:
        at = re.search(rf"\b{re.escape(name.lower())}s?\b", lower)
        if at and not DENIED.search(lower[max(0, at.start() - 30) : at.start()]):
            found.append(name)
    return found


def read_offer(car: Car, text: str) -> Car:
    """Returns the car on offer after a line of the dealer."""
    brands, types = claimed(text, BRANDS), claimed(text, TYPES)
    features = claimed(text, FEATURES)
    msrp, price = prices(text, car.price)
    changed = (brands and car.brand not in ("", *brands)) or (
        types and car.type not in ("", *types)
    )
    if price and (changed or ANOTHER.search(text)):
        car = Car(brand=car.brand, type=car.type, features=car.features)
    return Car(
        brand=brands[-1] if brands else car.brand,
        type=types[-1] if types else car.type,
        features=[f for f in FEATURES if f in features or f in car.features],
        msrp=msrp or car.msrp or price,
        price=price or car.price,
    )


def would_pay(profile: Profile, car: Car) -> int:
    """Returns a buyer's maximum price: the budget reduced for each unfulfilled wish."""
    wrong = WRONG["brand"] * (car.brand != profile.brand) + WRONG["type"] * (
        car.type != profile.type
    )
    wrong += WRONG["feature"] * sum(wish not in car.features for wish in profile.features)
    return min(int(profile.budget * (1 - wrong)), car.msrp)


def offers(profile: Profile, car: Car, rounds: int) -> int:
    """Returns a buyer's offer in a round of bargaining (counted from 0), in whole hundreds."""
    person = PERSONALITIES[profile.personality]
    conceded = 1 - (1 - person.concession) ** rounds
    share = person.opening + (1 - person.opening) * conceded
    return int(would_pay(profile, car) * share) // 100 * 100


def sale_reward(kind: str, budget: int, msrp: int, paid: int) -> float:
    """Returns the reward at the end. `paid` is 0 if the car was not sold."""
    if kind == "revenue":
        return paid / 1000
    if kind == "share":
        return paid / budget
    if not msrp:
        return 0.0
    return paid / (0.5 * (budget + msrp)) if paid else -(budget - msrp) / msrp
