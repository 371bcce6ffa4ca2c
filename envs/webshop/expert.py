"""A scripted shopper that knows only what its instruction and the pages it has seen say.

It searches for the instruction's own words, then always turns to the product that promises most:
what a page has not told yet counts as half fulfilled, what it lacks counts nothing. Where
the most promising product is the open one, it reads what is still unclear, chooses the options in
the order of the page, and buys.
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
"""What a wanted word counts that the title does not have while nothing else has been read."""
LAST_HOPE = 0.25
"""What it counts when the features do not have it either: another word may be meant."""
RANK_COST = 0.012
"""What each place further down a page of results takes from a product's promise."""
UNLIMITED = 40


@dataclass(frozen=True)
class Request:
    """What an instruction asks for.

    Attributes:
        search: the instruction without its opening words and its price limit.
        head: the same without options.
        options: option name -> value, where the instruction lists them.
        limit: the price limit in dollars.
        words: the stems of the words that a product should have.
        count: roughly how many attributes there are.
    """

    search: str
    head: str
    options: dict[str, str]
    limit: float
    words: frozenset[str]
    count: int


@functools.lru_cache(maxsize=256)
def parse(instruction: str) -> Request:
    """Reads an instruction, in the form of the original's synthetic ones or any other."""
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
    """Returns up to four searches that suggest themselves to a reader of the instruction.

    In this order: without opening words and price limit (what the expert searches for); also
    without options; also without what follows "with" or "for"; the words before the price limit.
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
    """A page as an agent has seen it, and what it had done to get there.

    Attributes:
        text: the page in the mode `text`.
        clickables: what could be clicked.
        asin: the product that was open, "" for none.
        section: the part of the product that was open, "" for none.
        keywords: what had been searched for.
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
    """What is known of a product: `rank` is its place among the results, from 0."""

    asin: str
    title: str
    prices: tuple[float, ...]
    rank: int
    options: dict[str, list[str]] | None = None
    sections: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)


@dataclass
class Memory:
    """What the pages seen tell: the products, and which ones each page of results lists."""

    products: dict[str, Candidate] = field(default_factory=dict)
    results: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)

    def listed_with(self, view: View) -> list[Candidate]:
        """Returns the products on the page of results that a page was reached from, or is."""
        return self.results.get((view.keywords, view.page), [])


def recall(seen: Iterable[View]) -> Memory:
    """Returns what the pages seen tell."""
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


def _said(request: Request, value: str) -> tuple[float, int]:
    """Returns which share of a value's words an instruction has ("120 ml" has "120ml")."""
    words = stems(value)
    if value.replace(" ", "") in request.search.lower().replace(" ", "") and len(value) > 2:
        return 1.0, len(words)
    return sum(word in stems(request.search) for word in words) / max(1, len(words)), len(words)


def fitting(request: Request, name: str, values: Sequence[str]) -> str | None:
    """Returns the value of an option that the instruction asks for, None if there is none."""
    if not request.options:
        best = max(values, key=lambda value: _said(request, value), default=None)
        return best if best is not None and _said(request, best)[0] >= 0.5 else None
    wanted = request.options.get(name)
    if wanted is None or wanted in values:
        return wanted
    target = set(stems(wanted))
    close = [v for v in values if set(stems(v)) and (set(stems(v)) <= target)]
    close += [v for v in values if target and target <= set(stems(v))]
    return close[0] if close else None


def choices(request: Request, product: Candidate) -> dict[str, str]:
    """Returns which options to choose for a product that was opened, in the page's order."""
    found = {
        name: fitting(request, name, values) for name, values in (product.options or {}).items()
    }
    return {name: value for name, value in found.items() if value and can_be_said(value)}


def promise(request: Request, product: Candidate) -> float:
    """Returns the reward that buying a product may bring, at best guess."""
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
    """Returns what to do next.

    Args:
        instruction: what to buy.
        seen: the pages seen so far, in order, the current one included.
        view: the current page.
        chosen: the options chosen for the open product.
        turns_left: turns until the episode is cut off; None: no limit.
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
    """Returns how many turns it takes to choose the options of an open product and to buy it."""
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
    # The last turns are for the best product that is known, not for another look.
    if best is None or turns >= 3 + _turns_to_buy(request, best):
        best = _best(request, listed)
    if best is None:
        return "click[next >]" if page < 5 else "click[back to search]"
    return f"click[{best.asin.lower()}]"
