"""The numbers of CarDealer: prices in the dealer's lines, the buyer's offers, and rewards."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from agentgym.envs.lmrl.buyers import BRANDS, FEATURES, PERSONALITIES, TYPES, Profile
from agentgym.envs.lmrl.price_talk import prices as prices
from agentgym.reading import Clause, find_clauses, normalized

ANOTHER = re.compile(r"\b(another|different|other|cheaper|instead|alternative)\b", re.IGNORECASE)
WRONG = {"brand": 0.15, "type": 0.20, "feature": 0.05}
"""Reduction of the maximum price for each unfulfilled wish, as a share of the budget."""
_DENIES_NEXT = re.compile(r"\b(?:no|without|lacks?|lacking|minus)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
_RISKY = re.compile(
    r"[?\"']|\b(?:no|not|never|none|neither|nor|without|lack\w*|cannot|if|unless|provided|assuming"
    r"|suppos\w+|otherwise|instead|rather|unlike|than|except|excluding|besides|apart|aside|opposed"
    r"|place|lieu|refuse\w*|said|says?|saying|told|tells?|claim\w*|according|thinks?|thought|believe\w*"
    r"|mention\w*|promise\w*|suggest\w*|propose\w*|offered|asked|asks?|wrote|stated?|was|were|had"
    r"|did|used|yesterday|already|previous\w*|former\w*|earlier|ago|last|past|before|after|until"
    r"|when\w*|while|once|long|case|minus|unavailable|unable|stop|avoid\w*|doubt\w*|den\w+|false"
    r"|untrue|hardly|fail\w*|decline\w*|cant|dont|wont|isnt|doesnt|forbid\w*|against)\b"
)
"""Words and marks that may take a claim back. Without them, all names of a sentence are claimed."""
_DENIES_ALL = re.compile(r"n't\b|\b(?:not|cannot|never|neither|nor|unavailable)\b")
_OFFERED = re.compile(
    r"\b(?:how|what) about\b|\b(?:may|can|could|shall) i (?:offer|show|interest)\b|\bfor \$"
    r"|\binterested in\b|\bdid you know\b|\bwhat if\b"
)

_TERMS = (
    r"(?:(?:your|the|this|that) (?:\w+ ){0,2}(?:offer|price|deal|terms|bid|proposal|number|amount)"
    r"\b.*|(?:your )?\$?\d.*|it|this|that)"
)
AGREED = re.compile(
    r"(?:(?:ok|okay|alright|all right|fine|yes|sure|well|then|so|very well|you know what"
    r"|and|but)\b[ ,]*|(?:great|good)\b *[,!] *)*"
    r"(?:(?:it is|it's|that is|that's|we have|we've got|you have|you've got|you got|you have got"
    r"|you have yourself|you got yourself|call it)?(?: a| the)? ?deal(?: then)?"
    rf"(?: (?:at|for) {_TERMS})?"
    rf"|agreed(?: then| (?:at|on|to|for) {_TERMS})?|accepted|done|you win"
    rf"|i(?:'ll| will| can)? (?:accept|agree)(?: (?:to |with |at )?{_TERMS})?"
    rf"|sold(?: to you)?(?: (?:at|for) {_TERMS})?|(?:it|the car|she) ?(?:is|'s)(?: all)? yours.*"
    r"|you got it|(?:that|this|it|your offer) works(?: for me)?|\$?\d[\d,.]*k? it is"
    r"|i(?:'ll| will)? take (?:your|that|the) (?:offer|price|deal).*"
    r"|i(?:'m| am) (?:happy|glad|pleased|delighted) to"
    rf" (?:accept|agree)(?: (?:to |with |at )?{_TERMS})?"
    r"|let(?:'s| us) (?:do (?:it|that)|shake on (?:it|that)"
    rf"|close (?:the|this) deal(?: at {_TERMS})?))"
    r"[.!]*",
    re.IGNORECASE,
)
"""A clause that accepts the buyer's offer."""
_AGREES = re.compile(
    r"deal|agree|accept|sold|yours|got it|take|done|win|works|it is|let's|let us", re.IGNORECASE
)


@dataclass
class Car:
    """The car on offer as described by the dealer. Unknown values are 0 or ""."""

    brand: str = ""
    type: str = ""
    features: list[str] = field(default_factory=list)
    msrp: int = 0
    price: int = 0


_NAMES = (*BRANDS, *TYPES, *FEATURES)
_NAMED = re.compile(rf"\b({'|'.join(re.escape(name.lower()) for name in _NAMES)})s?\b")
_USUAL: dict[str, str] = {
    r"heated leather (?:seats|seating)": "heated seats and leather seats",
    r"(?:mercedes[ -]benz|mercedes|benz)": "mercedes-benz",
    r"(?:vw|volkswagon)": "volkswagen",
    r"(?:ev|evs)": "electric",
    r"pick-?up": "truck",
    r"(?:back-?up|rear-?view|rear view|reversing) camera": "backup camera",
    r"(?:nav(?:igation)?(?: system)?|gps(?: navigation)?(?: system)?)": "navigation system",
    r"leather (?:seating|interior|upholstery)": "leather seats",
    r"(?:third|3rd)[ -]row(?: seating| seats?)?": "third-row seating",
    r"blind[ -]spot (?:monitor(?:ing|s)?|detection)(?: system)?": "blind spot monitoring",
    r"sun roof": "sunroof",
    r"(?:apple )?car ?play": "apple carplay",
}  # fmt: skip
"""Other usual names of brands, types and features."""
_ALIAS = re.compile("|".join(rf"\b({alias})\b" for alias in _USUAL))
_ALIASES = tuple(_USUAL.values())
_NO_TYPE = re.compile(
    r"\b(?:electric|power)(?=,? (?:windows?|seats?|sunroof|mirrors?|doors?|steering|tailgate|heat))"
)
"""Words of equipment, which do not make a car electric."""


def claimed(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the names of brands, types or features that a line claims for the car.

    Names that are denied ("no sunroof"), quoted, replaced ("instead of a BMW") or the condition of
    something ("if you want a sunroof") are none, nor are those of a question, unless it is an offer
    ("how about a Mazda?").
    """
    found = _claims(text)
    return [name for name in names if name.lower() in found]


def usual_names(text: str) -> str:
    """Returns a text in lower case with the names of `BRANDS`, `TYPES` and `FEATURES` for others.

    Examples are "vw" for a Volkswagen and "rear-view camera" for a backup camera.
    """
    text = _NO_TYPE.sub("power", text)
    return _ALIAS.sub(lambda found: _ALIASES[(found.lastindex or 1) - 1], text)


@lru_cache(maxsize=1024)
def _claims(text: str) -> frozenset[str]:
    """Returns all names that a line claims, in lower case."""
    found: set[str] = set()
    text = usual_names(normalized(text).lower())
    parts = [text] if '"' in text else _SENTENCE.split(text)
    for sentence in filter(_NAMED.search, parts):
        if not _RISKY.search(sentence):  # most lines, and find_clauses is slower
            found |= {*_NAMED.findall(sentence)}
            continue
        for clause in find_clauses(sentence):
            found |= _claims_of(clause)
    return frozenset(found)


def _claims_of(clause: Clause) -> set[str]:
    asks = clause.question and not _OFFERED.search(clause.text)
    condition = clause.marker and clause.conditional
    if asks or condition or clause.quoted or clause.replaced or clause.past:
        return set()
    if clause.negated and _DENIES_ALL.search(clause.text):
        return set()
    denial = _DENIES_NEXT.search(clause.text) if clause.negated else None
    return {*_NAMED.findall(clause.text[: denial.start()] if denial else clause.text)}


def agrees(line: str) -> bool:
    """Returns whether a line accepts the buyer's offer: without a condition and a denial."""
    if not _AGREES.search(line):
        return False
    clauses = find_clauses(line)
    if any(clause.conditional or clause.negated for clause in clauses):
        return False
    said = [c for c in clauses if not (c.question or c.quoted or c.past or c.answer == "no")]
    return any(AGREED.fullmatch(clause.text.strip()) for clause in said)


def read_offer(car: Car, text: str) -> Car:
    """Returns the car on offer after a line of the dealer.

    Raises:
        NotUnderstood: if the price is unclear, see `prices`.
    """
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
