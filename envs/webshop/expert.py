"""A scripted shopper that knows only the instruction and the pages it has seen.

It searches for the words of the instruction, then opens the product with the highest estimated
reward. A requirement that no page has confirmed yet counts in part, a missing one counts nothing.
If the best product is already open, the shopper reads its unread sections if requirements are
unconfirmed, clicks the options in the order of the page, and buys.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import Stemmer

from agentgym.envs.webshop.pages import can_be_said

_OPENERS = re.compile(
    r"^(hello|hi)?\W*(please )?(find me|show me|get me|i want|i need|i would like|i'd like|"
    r"i am looking for|i'm looking for|looking for)( to (buy|get|find))? ",
    re.IGNORECASE,
)
_PRICE_CLAUSE = re.compile(r",? and price lower than ([0-9.]+) dollars$")
_NEXT_OPTION = re.compile(r", and (?=[^:]+: )")
_JOINTS = re.compile(r", | with | for ")
_WORD = re.compile(r"[^\W_]+")
_DOLLARS = re.compile(r"\$([0-9]+(?:\.[0-9]+)?)")
_STOP_WORDS = frozenset("a an and are be for from in is it me of on or s that the to with".split())
_stem = Stemmer.Stemmer("porter")

HOPE = 0.7
"""Credit for a required word that is not in the title, before other sections are read."""
LAST_HOPE = 0.25
"""Credit for a required word after reading, since the product may use another word for it."""
RANK_COST = 0.012
"""Penalty on the estimated reward per rank on a page of results."""
UNLIMITED = 40


@dataclass(frozen=True)
class Request:
    """The requirements of an instruction.

    Attributes:
        search: the instruction without its opening words and its price limit.
        head: the same without options.
        options: option name -> value, if the instruction lists them.
        limit: the price limit in dollars.
        words: the stems of the words that a product should have.
        count: approximate number of attributes.
    """

    search: str
    head: str
    options: dict[str, str]
    limit: float
    words: frozenset[str]
    count: int


@functools.lru_cache(maxsize=256)
def parse(instruction: str) -> Request:
    """Parses an instruction, in the form of the original's synthetic ones or any other."""
    text = _OPENERS.sub("", instruction.strip())
    clause = _PRICE_CLAUSE.search(text)
    if clause:
        text = text[: clause.start()]
    limit = float(clause.group(1)) if clause else float("inf")
    head, options = text, {}
    colon = text.find(": ")
    start = text.rfind(" with ", 0, max(colon, 0))
    if colon >= 0 and start >= 0:
        head = text[:start]
        pairs = (pair.partition(": ") for pair in _NEXT_OPTION.split(text[start + 6 :]))
        options = {name: value for name, _, value in pairs}
    words = frozenset(stems(head))
    return Request(text, head, options, limit, words, max(1, len(_JOINTS.split(head))))


@functools.lru_cache(maxsize=256)
def queries(instruction: str) -> tuple[str, ...]:
    """Returns up to four natural searches for the instruction.

    In this order: the instruction without opening words and price limit (the expert's first
    search), the same without options, the same without the part after "with" or "for", and the
    words before the price limit.
    """
    request = parse(instruction)
    noun = re.split(" with | for ", request.head)[0].split(", ")[-1]
    whole = _PRICE_CLAUSE.sub("", instruction)
    found = (request.search, request.head, noun, whole)
    plain = (re.sub(r"[\[\]\s]+", " ", text).strip().lower() for text in found)
    return tuple(dict.fromkeys(text for text in plain if text)) or ("products",)


@functools.lru_cache(maxsize=1024)
def stems(text: str) -> tuple[str, ...]:
    """Returns the stems of a text's words, without stop words."""
    words = _WORD.findall(text.lower())
    return tuple(_stem.stemWords([word for word in words if word not in _STOP_WORDS]))


@dataclass(frozen=True)
class View:
    """A page that an agent has seen, with its context.

    Attributes:
        text: the page in the mode `text`.
        clickables: clickable texts.
        asin: the open product, "" for none.
        section: the open section of the product, "" for none.
        keywords: the last search.
        page: the number of the page of results.
    """

    text: str
    clickables: Sequence[str]
    asin: str = ""
    section: str = ""
    keywords: str = ""
    page: int = 0


@dataclass
class Candidate:
    """The known facts about a product. `rank` is its place among the results, from 0."""

    asin: str
    title: str
    prices: tuple[float, ...]
    rank: int
    options: dict[str, list[str]] | None = None
    sections: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)


@dataclass
class Memory:
    """The products on the pages seen so far, and the products on each page of results."""

    products: dict[str, Candidate] = field(default_factory=dict)
    results: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)

    def listed_with(self, view: View) -> list[Candidate]:
        """Returns the products on a page of results, or on the one that led to the page."""
        return self.results.get((view.keywords, view.page), [])


def recall(seen: Iterable[View]) -> Memory:
    """Collects the facts on the pages seen so far."""
    memory = Memory()
    for view in seen:
        nodes = view.text.split(" [SEP] ")
        if not view.asin:
            memory.results[view.keywords, view.page] = _results(memory.products, view, nodes)
        elif view.asin in memory.products:
            product = memory.products[view.asin]
            if view.section:
                product.sections.add(view.section)
                product.words.update(stems(" ".join(nodes[4:])))
            else:
                product.options = _options(view, nodes)
    return memory


def _results(known: dict[str, Candidate], view: View, nodes: list[str]) -> list[Candidate]:
    links = set(view.clickables) - {"back to search", "< prev", "next >"}
    found = []
    for place, node in enumerate(nodes[4:-2], start=4):
        if node.lower() not in links:
            continue
        title, price = nodes[place + 1], nodes[place + 2]
        prices = tuple(float(number) for number in _DOLLARS.findall(price))
        new = Candidate(node, title, prices, len(found), words=set(stems(title)))
        found.append(known.setdefault(node, new))
    return found


def _options(view: View, nodes: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    clickable = set(view.clickables)
    price = next((i for i, node in enumerate(nodes) if node.startswith("Price: ")), len(nodes))
    values: list[str] | None = None
    for node in nodes[4 : price - 1]:
        if node not in clickable:
            values = options.setdefault(node, [])
        elif values is not None:
            values.append(node)
    return options


def _overlap(request: Request, value: str) -> tuple[float, int]:
    """Returns the share of a value's words in the instruction ("120 ml" contains "120ml")."""
    words = stems(value)
    if value.replace(" ", "") in request.search.lower().replace(" ", "") and len(value) > 2:
        return 1.0, len(words)
    return sum(word in stems(request.search) for word in words) / max(1, len(words)), len(words)


def fitting(request: Request, name: str, values: Sequence[str]) -> str | None:
    """Returns the value of an option that the instruction asks for, None if there is none."""
    if not request.options:
        best = max(values, key=lambda value: _overlap(request, value), default=None)
        return best if best is not None and _overlap(request, best)[0] >= 0.5 else None
    wanted = request.options.get(name)
    if wanted is None or wanted in values:
        return wanted
    target = set(stems(wanted))
    close = [v for v in values if set(stems(v)) and (set(stems(v)) <= target)]
    close += [v for v in values if target and target <= set(stems(v))]
    return close[0] if close else None


def choices(request: Request, product: Candidate) -> dict[str, str]:
    """Returns the options to choose for an opened product, in the order of the page."""
    found = {
        name: fitting(request, name, values) for name, values in (product.options or {}).items()
    }
    return {name: value for name, value in found.items() if value and can_be_said(value)}


def promise(request: Request, product: Candidate) -> float:
    """Returns the estimated reward of buying a product."""
    missing = len(request.words - product.words) / max(1, len(request.words))
    unclear = product.sections.isdisjoint(("Features", "Description"))
    attributes = request.count * (1 - missing * (1 - (HOPE if unclear else LAST_HOPE)))
    affordable = not product.prices or product.prices[0] <= request.limit
    options = float(len(request.options))
    if product.options is not None and request.options:
        picked = choices(request, product)
        options = sum(
            (1.0 if picked[name] == value else 0.7)
            for name, value in request.options.items()
            if name in picked
        )
    parts = request.count + len(request.options) + 1
    return (attributes + options + affordable) / parts - RANK_COST * product.rank


def next_action(
    instruction: str,
    seen: Sequence[View],
    view: View,
    chosen: Mapping[str, str],
    turns_left: int | None,
) -> str:
    """Returns the next action.

    Args:
        instruction: the instruction of the goal.
        seen: the pages seen so far, in order, including the current one.
        view: the current page.
        chosen: the options chosen for the open product.
        turns_left: turns until the episode is truncated, None for no limit.
    """
    request = parse(instruction)
    memory = recall(seen)
    if "search" in view.clickables and "back to search" not in view.clickables:
        tried = {keywords for keywords, _ in memory.results}
        fresh = [query for query in queries(instruction) if query not in tried]
        return f"search[{(fresh or queries(instruction))[0]}]"
    turns = UNLIMITED if turns_left is None else turns_left
    listed = memory.listed_with(view)
    if not view.asin:
        return _at_results(request, listed, view.page, turns)
    product = memory.products.get(view.asin)
    if view.section or product is None:
        return "click[< prev]"
    return _at_product(request, listed, product, chosen, turns)


def _best(request: Request, products: Iterable[Candidate]) -> Candidate | None:
    return max(products, key=lambda product: promise(request, product), default=None)


def _turns_to_buy(request: Request, product: Candidate) -> int:
    """Returns the number of turns to choose the options of an open product and buy it."""
    if product.options is None:
        return len(request.options) + 1
    return len(choices(request, product)) + 1


def _at_product(
    request: Request,
    listed: list[Candidate],
    product: Candidate,
    chosen: Mapping[str, str],
    turns: int,
) -> str:
    best = _best(request, listed)
    if best is not None and best is not product and turns >= 2 + _turns_to_buy(request, best):
        return "click[< prev]"
    picked = choices(request, product)
    # A value that two options share can be chosen for one of them only.
    left = [value for value in picked.values() if value not in chosen.values()]
    unclear = request.words - product.words and not product.sections
    if unclear and turns >= len(left) + 3:
        return "click[features]"
    if left and turns > 1:
        return f"click[{left[0]}]"
    return "click[buy now]"


def _at_results(request: Request, listed: list[Candidate], page: int, turns: int) -> str:
    opened = [product for product in listed if product.options is not None]
    best = _best(request, opened)
    # The last turns are reserved for buying the best known product.
    if best is None or turns >= 3 + _turns_to_buy(request, best):
        best = _best(request, listed)
    if best is None:
        return "click[next >]" if page < 5 else "click[back to search]"
    return f"click[{best.asin.lower()}]"
