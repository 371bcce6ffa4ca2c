"""Reads the amounts in a car dealer's line: which one is the price, and which ones are not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from agentgym.reading import NotUnderstood, Number, find_numbers, normalized

PRICES = range(500, 1_000_000)
PART = 5000
"""Below this amount, "a warranty for $1,500" is the price of the part."""
LEAST = 1 / 3
"""The least plausible price, as a share of the current or the list price."""
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_BREAK = re.compile(r"[,;:()]|\b(?:and|but|with|for|plus|including|or|so|on|to|at)\b")
_NOT_MONEY = re.compile(
    r"[ -]?(?:%|percent|miles?|mi|km|kilometers?|mpg|mph|hp|bhp|horse ?power|cc|kwh?|years?|months?"
    r"|weeks?|days?|hours?|owners?|doors?|seats?|cylinders?|people|customers?|buyers?|points?"
    r"|models?|series|kg|lbs?|pounds|edition|times|of these|of them)(?!\w)"
)
_YEARS = range(1900, 2101)

# The words behind an amount. They must not reach over another phrase: "$28,000 with a warranty".
_WORDS = (
    r"^[\s(-]*(?:(?!(?:with|and|for|including|plus|or|but|on|to|at|the price)\b)[\w'-]+ ){0,3}?"
)
_PARTS = (
    r"(?:warrant\w+|upgrades?|packages?|accessor\w+|insurance|fees?|tax(?:es)?|coverage|service"
    r"|maintenance|mats?|tires?|wheels|paint\w*|gifts?|bonus(?:es)?|credits?|vouchers?|repairs?"
    r"|extras|options?|equipment|features?|value|savings|profits?|commissions?|delivery|shipping"
    r"|registration|paperwork|charges?|trade-?in|loan|interest|financing|protection|add-?ons?)\b"
)
_PART_BEHIND = re.compile(rf"{_WORDS}{_PARTS}|^ (?:in|for|of) (?:the |your )?{_WORDS[1:]}{_PARTS}")
_PART_BEFORE = re.compile(
    rf"(?:{_PARTS}[\w ]{{0,20}}?(?:of|at|worth|is|are|costs?|valued at|\(|:)|\bworth|\bvalued at"
    r"|\bvalue of)\s*(?:only |about |just |over |another |an? |extra |additional )*$"
)
_PART_FOR = re.compile(rf"{_PARTS} for(?: only| just)*$")
_ADDED = re.compile(
    r"\b(?:including|includes?|included|plus|throw in|adds?|adding|comes with|with|gets?|have)"
    r" (?:an? |the |your |another |over |extra |additional )*$"
)
_PER_TIME = re.compile(
    r"^\s*(?:/ ?|(?:a|per|each|every) )(?:month|mo|week|wk|year|yr|day)\b|^\s*(?:monthly|weekly"
    r"|yearly|annually|annual)\b|^\s*(?:[\w'-]+ ){0,2}(?:installments?|payments?)\b"
)
_PER_TIME_BEFORE = re.compile(
    r"\b(?:monthly|weekly|yearly|annual)(?: [\w'-]+){0,2}$"
    r"|\b(?:payments?|installments?|instalments?|rates?)"
    r"(?: (?:of|at|from|is|are|as low as|start at|just|only|would be|will be))*$"
    r"|\b(?:months?|weeks?|years?) (?:at|of|for)(?: only| just)*$"
)
_DOWN = re.compile(
    r"^\s*(?:cash )?(?:down\b(?! from)|up ?front|deposit|today and|now and the rest)"
)
_DOWN_BEFORE = re.compile(
    r"\b(?:down|deposit|down-?payment|up ?front)(?: payment)?(?: (?:of|is|just|only|would be))*$"
    r"|\b(?:put|bring)(?: just| only)? $"
)
_THEIRS = re.compile(
    r"\b(?:buyers?|customers?|he|she|they|someone|somebody|competitors?|dealers?|others|elsewhere)\b"
    r"[^,;:]*$"
    r"|\byour (?:own )?(?:offer|budget|bid|proposal|limit|number|maximum|price)\b[^,;:]*$"
    r"|\byou(?:'ve|'d| have| would| might| may)? (?:offer\w*|said|say|mention\w*|propos\w*"
    r"|suggest\w*|want\w* to pay|wanted|named|(?:like|love|prefer|hope)d? to"
    r"|have in mind|think|asked|bid"
    r"|(?:can|could) (?:spend|afford)|spend)\b[^,;:]*$"
    r"|\balready (?:gone|come|went|dropped|lowered|moved)\b[^,;:]*$"
    r"|\b(?:paid|costs? me|cost us|owe|lose|losing|lost|invested|spent|budget|spend|afford)\b"
    r"[^,;:]*$"
)
_THEIRS_BEHIND = re.compile(
    r"^\s*(?:offer|bid|budget|more\b(?! than)|extra|additional|on top|your\b|(?:that )?you\b"
    r"|is (?:your|not enough|what you|far too)|isn't enough|is n't"
    r"|(?:is|seems|feels|sounds)(?: (?:still|also|just|really|quite|rather|pretty|very|way|much|too"
    r"|a|bit|little|tad|touch|slightly|somewhat|lot))* (?:low|lower|below|under|aggressive)\b"
    r"|(?:(?:would|will) )?(?:means?|be|leaves?|puts?|results? in)\b"
    r"(?: (?:me|us|at|with|a|in|far|too))* (?:loss|losing|low|below|nothing|no (?:profit|margin))"
    r"|would(?:n't| not)|won't|will not|can(?:'t|not)|doesn't|does not|is not)"
)
_REFUSED = re.compile(
    r"(?:\b(?:can(?:'t|not)|can not|could(?:n't| not)|won't|will not|would(?:n't| not)|never|unable"
    r"|not|isn't|refuse)\b)(?![^,;:]*\b(?:below|lower|under|less|cheaper|beneath)\b)[^,;:]*$"
)
_PAST = re.compile(
    r"\b(?:was(?! (?:thinking|hoping|looking|considering))|were|originally|normally|usually"
    r"|usual|typically|used to|previously|instead of|rather than"
    r"|than|from|down from|compared (?:to|with)|unlike|last (?:year|week|month)|other"
    r"|resale|between|reduced from|sold|goes for|(?<!it )go for|sells? for|new ones?|anything)\b"
    r"(?![^,;:]*\b(?:you for|now|to)\b)[^,;:]*$"
)
_AIM = re.compile(
    r"\bmy (?:own )?(?:target|goal|ideal|initial|original|starting|listed|listing|asking|previous"
    r"|earlier)(?: asking)?(?: price| offer)?(?:,? (?:of|is|which is|at|being|was))*"
    r"(?: around| about| still| just)*$"
)
_LIST = re.compile(
    r"\b(?:msrp|sticker|list(?:ed|ing)? price|list|retail|regular price|window price)\b"
)
_LIST_BEHIND = re.compile(
    r"^\s*\(?(?:is (?:the |its )?)?(?:msrp|sticker|list price|retail|regular price)"
    r"(?!\s*(?:[:$\d]|is\b|of\b))"
)
_DISCOUNT = re.compile(
    r"\b(?:discount|rebate|reduction|cut|markdown)(?: of| is)?(?: [\w'-]+)?$|\b(?:knock|take|save"
    r"|saves|saving|shave|minus|less|by|subtract|deduct)(?: you| off| another| a| an)*$"
    r"|\b(?:go|come|bring it|bring the price) down(?: by| another)*$"
)
_OFF = re.compile(
    r"^\s*(?:cash )?"
    r"(?:off|discount|less\b(?! than)|rebate|cheaper|reduction|lower|under|below)\b"
)
_LABEL = re.compile(
    r"\b(?:price(?: tag)?(?: (?:of|is|at|would be|will be|stays|remains|comes to))?|for|at|asking"
    r"|total(?: (?:of|is|comes to))?|costs?|go (?:for|down to|as low as)|yours for|do|it's|it is"
    r"|that's|that is|only|just|now|offer|accept|take|need|want|down to|below|lower than|under|to"
    r"|less than|meet you at|settle (?:for|at)|be|is|(?:let's|let us) say|how about|what about"
    r"|make it|call it|propose"
    r"|suggest|consider"
    r"|thinking(?: more)?(?: of| around| along the lines of| in the range of| closer to| like)?)"
    r"(?: (?:you|only|just|exactly|a|the|about))*$"
)


@dataclass
class Amounts:
    """The amounts of a line by their role.

    Attributes:
        lists: list prices.
        prices: amounts that may be the price.
        labelled: those of them that are called the price ("for $28,000").
        aims: target prices of the speaker, which are the price if no other amount is.
        discounts: discounts in dollars, or as shares below 1.
        unclear: whether an amount has no clear role, such as a negative one.
    """

    lists: list[int] = field(default_factory=list)
    prices: list[int] = field(default_factory=list)
    labelled: list[int] = field(default_factory=list)
    aims: list[int] = field(default_factory=list)
    discounts: list[float] = field(default_factory=list)
    unclear: bool = False


@lru_cache(maxsize=1024)
def amounts_in(text: str) -> Amounts:
    """Returns the amounts of a line by their role.

    Down payments, rates, parts, fees, budgets, offers of the buyer, mileages and years have none.
    """
    text = normalized(text).lower()
    found = Amounts()
    numbers = find_numbers(text)
    for i, number in enumerate(numbers):
        start = numbers[i - 1].stop if i else 0
        stop = numbers[i + 1].start if i + 1 < len(numbers) else len(text)
        before = _SENTENCE.split(text[max(start, number.start - 80) : number.start])[-1]
        behind = text[number.stop : number.stop + 1]
        if behind == "?" and not before.strip() and i + 1 < len(numbers):
            continue  # "$25,000? I need $27,000." repeats the offer of the other
        # With the first character of the next number: "$28,500 (MSRP $32,000)".
        after = _SENTENCE.split(text[number.stop : min(stop + 1, number.stop + 60)])[0]
        _sort(number, text[number.start : number.stop], before, after, found)
    return found


def _sort(number: Number, written: str, before: str, after: str, found: Amounts) -> None:
    """Adds a number to the amounts of its role, if it has one."""
    amount = float(number.value)
    if number.unit == "%":
        if 0 < amount < 100 and (_OFF.search(after) or _DISCOUNT.search(before.rstrip())):
            found.discounts.append(amount / 100)
        return
    if number.unit not in ("", "$") or (
        not number.unit and not _bare_price(written, amount, after)
    ):
        if number.unit in ("€", "£", "¥", "₹") and amount >= PRICES.start:
            found.unclear = True
        return
    if amount < 0 or before.endswith("between "):
        found.unclear = True
        return
    before = before.rstrip()
    near = _BREAK.split(before)[-1] if _BREAK.search(before) else before
    if _OFF.search(after) or _DISCOUNT.search(before):
        if not _THEIRS_BEHIND.search(after) and not _REFUSED.search(before):
            found.discounts.append(amount)
        return
    if not PRICES.start <= amount < PRICES.stop or _is_other(amount, before, after):
        return
    if _LIST.search(near) or _LIST.search(before.rpartition(",")[2]) or _LIST_BEHIND.search(after):
        found.lists.append(int(amount))
        return
    if _AIM.search(before):
        found.aims.append(int(amount))
        return
    found.prices.append(int(amount))
    if _LABEL.search(before):
        found.labelled.append(int(amount))


def _bare_price(written: str, amount: float, after: str) -> bool:
    """Whether a number without a currency may be a price: 28k, 28,000 or 28000."""
    if _NOT_MONEY.match(after) or (not amount >= 3000 and "," not in written):
        return written[-1:].isalpha() and amount >= 1000 and not _NOT_MONEY.match(after)
    return not (int(amount) in _YEARS and "," not in written)


def _is_other(amount: float, before: str, after: str) -> bool:
    """Whether an amount is a part, a rate, the buyer's offer or anything else but the price."""
    return bool(
        _PER_TIME.search(after)
        or _PER_TIME_BEFORE.search(before)
        or _DOWN.search(after)
        or _DOWN_BEFORE.search(before + " ")
        or _PART_BEHIND.search(after)
        or _PART_BEFORE.search(before)
        or (_PART_FOR.search(before) and amount < PART)
        or _ADDED.search(before + " ")
        or _THEIRS.search(before)
        or _THEIRS_BEHIND.search(after)
        or _REFUSED.search(before)
        or _PAST.search(before)
    )


def prices(text: str, current: int) -> tuple[int, int]:
    """Returns the list price and the price that a line names, each 0 if there is none.

    "MSRP $35,000, for you $32,500" -> (35000, 32500); "$2,000 off" counts from the current price.

    Raises:
        NotUnderstood: if the line names several prices, or a discount on an unknown price.
    """
    if not any(map(str.isnumeric, text)) and "thousand" not in text.lower():
        return 0, 0
    found = amounts_in(text)
    lists = _distinct(found.lists)
    named = _distinct(found.labelled) or _distinct(found.prices) or _distinct(found.aims)
    if found.unclear or len(lists) > 1 or len(named) > 1:
        raise NotUnderstood("The line names several prices, or none in dollars.")
    msrp = lists[0] if lists else 0
    price = named[0] if named else 0
    if found.discounts:
        price = _reduced(found.discounts, price, current or msrp)
    elif price and price < LEAST * (current or msrp):
        raise NotUnderstood("The amount is too small to be the price.")
    return msrp, price or msrp


def _distinct(values: list[int]) -> list[int]:
    return list(dict.fromkeys(values))


def _reduced(discounts: list[float], price: int, base: int) -> int:
    """Returns the price after a discount.

    Raises:
        NotUnderstood: if the discounts differ, their base is unknown, or it is unclear whether a
            price that is named with them is the one before or after.
    """
    if len({*discounts}) > 1 or not base:
        raise NotUnderstood("It is unclear what the discount is subtracted from.")
    cut = discounts[0] if discounts[0] >= 1 else base * discounts[0]
    reduced = max(0, base - int(min(cut, 10**9)))
    if price not in (0, base, reduced):
        raise NotUnderstood("The price does not fit the discount.")
    return reduced
