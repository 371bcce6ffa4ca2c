"""The shop's pages: the effect of actions, the clickable texts and the observations.

Pure functions of a `Session` (the shopper's position) and a `Shop` (products and goals). Page
layout, order of the buttons and the corner cases are the original's, byte for byte: its pages are
an interface format that agents, prompts and published trajectories rely on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agentgym.envs.webshop.catalogue import Product
from agentgym.reading import normalized, without_end_marks
from agentgym.utils.action_parsing import LONGEST, labelled, plain

BASE_URL = "http://127.0.0.1:3000"
_MORE = re.compile(r"[\s,;.\"'`*]{0,9}(?:and|or|then)\b", re.IGNORECASE)
"""Words behind an action that add another one."""
_NAMED = re.compile(r"\b(?:search|click)[ \t]{0,3}\[", re.IGNORECASE)
PAGE_SIZE = 10
LONGEST_KEY = 500
SECTIONS = {"description": "Description", "features": "Features", "reviews": "Reviews"}
PLACES = ("search_results", "item_page", "item_sub_page", "done")
"""Kinds of pages, in the order in which the original looks for them in a URL."""

TEXT, BUTTON, OPTION, LINK = "text", "button", "option", "link"
Node = tuple[str, str]
"""A piece of a page: one of the styles above and its text."""


class Shop(Protocol):
    """The interface of a shop that the pages use."""

    def product(self, index: int) -> Product:
        """Returns a product."""
        ...

    def find(self, keywords: str, seed: int) -> np.ndarray:
        """Returns the indices of the products that a search finds, best first, int64 (n,)."""
        ...

    def instruction(self, goal: int) -> str:
        """Returns the instruction of a goal."""
        ...

    def buy(self, goal: int, product: int, options: dict[str, str]) -> float:
        """Returns the reward of buying a product with these options."""
        ...


@dataclass
class Session:
    """The position of a shopper and the choices so far.

    Attributes:
        goal: number of the goal.
        place: "" for the search page, else one of `PLACES`.
        keywords: the last search, in lower case.
        page: number of the page of results.
        product: index of the product that is open.
        section: the part of the product that is open: "Description", "Features" or "Reviews".
        options: option name -> chosen value, in the order of the first choice.
        opened: products opened since the search page was last shown.
        shown: products on the page of results.
        total: number of results.
        reward: reward of the purchase.
    """

    goal: int
    place: str = ""
    keywords: str = ""
    page: int = 0
    product: int = -1
    section: str = ""
    options: dict[str, str] = field(default_factory=dict)
    opened: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    total: int = 0
    reward: float = 0.0


def parse_action(action: str) -> tuple[str, str | None]:
    r"""Splits "click[Buy Now]" into "click" and "buy now". The argument is None if there is none.

    Equivalent to matching the regular expression `(.+)\[(.+)\]` at the start, in linear time: in
    the first line, the last "]" closes the last "[" before it. The rest is ignored.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    if start < 0:
        return action, None
    return line[:start], line[start + 1 : end].lower()


def parse_leniently(action: str) -> str:
    """Returns a search or click without labels, marks and capitals around it.

    Typographic characters are read as plain ones, and text behind an end mark of a chat model is
    left out. An action that is neither is returned unchanged, and several actions as "", also if
    words add the second one ("search[lamp] or nothing").
    """
    action = normalized(without_end_marks(action)).strip()
    for text in _readings(action):
        if form := _normal_form(text):
            behind = text.strip().partition("\n")[0].rpartition("]")[2]
            return form if len(_NAMED.findall(text)) == 1 and not _MORE.match(behind) else ""
    return action if len(_NAMED.findall(action[:LONGEST])) < 2 else ""


def _readings(action: str) -> Iterator[str]:
    """Yields an action with less and less around it."""
    yield action
    yield labelled(action[:LONGEST])
    yield plain(action[:LONGEST], cased=True)


def _normal_form(text: str) -> str:
    """Returns the search or click at the start of a text, "" if there is none."""
    name, argument = parse_action(text.strip())
    name = name.strip().lower()
    found = name in ("search", "click") and argument is not None
    return f"{name}[{argument}]" if found else ""


def can_be_said(text: str) -> bool:
    """Returns whether "click[text]" is parsed as a click on this (lower-case) text."""
    return "[" not in text[:-1] and "\n" not in text and text not in ("", "search")


def url(session: Session, shop: Shop) -> str:
    """Returns the URL of a page, from which the original infers the kind of the page."""
    if not session.place:
        return f"{BASE_URL}/{session.goal}"
    head = f"{BASE_URL}/{session.place}/{session.goal}"
    keywords = session.keywords.replace(" ", "+")
    if session.place == "search_results":
        return f"{head}/{keywords}/{session.page}"
    head += f"/{shop.product(session.product).asin}"
    if session.place == "item_page":
        return f"{head}/{keywords}/{session.page}/{json.dumps(session.options)}"
    if session.place == "item_sub_page":
        return f"{head}/{keywords}/{session.page}/{session.section}/{session.options}"
    return f"{head}/{session.options}"


def state_key(session: Session) -> str:
    """Returns a key that is equal for two sessions iff all actions have the same effects."""
    keywords = session.keywords
    if len(keywords) > LONGEST_KEY:
        keywords = hashlib.sha256(keywords.encode("utf-8", "surrogatepass")).hexdigest()
    parts = (
        session.goal,
        session.place,
        session.section,
        session.product,
        sorted(session.options.items()),
        session.page,
        session.shown if keywords.startswith("<r>") else (),
        keywords,
    )
    return "/".join(str(part) for part in parts)


def clickables(session: Session, shop: Shop) -> list[str]:
    """Returns the clickable texts, in lower case, in the original's order."""
    return list(_clickables(session, shop))


def _clickables(session: Session, shop: Shop) -> dict[str, str]:
    """Returns the clickable texts, each with the name of its option ("" if it is no value)."""
    found = {text.lower(): "" for style, text in nodes(session, shop) if style in (BUTTON, LINK)}
    if session.place == "item_page":
        # A value that is spelled like a button, or occurs twice, replaces the earlier entry.
        for name, values in shop.product(session.product).options.items():
            found.update(dict.fromkeys(values, name))
    return found


def act(session: Session, action: str, shop: Shop, seed: int = 0) -> Session | None:
    """Returns the session after an action, None if the action is invalid on the page.

    Args:
        session: current session, left unchanged.
        action: action text.
        shop: products and goals.
        seed: seed of a search for random products (`<r>`).
    """
    name, argument = parse_action(action)
    if name == "search" and argument:
        return _results(session, argument, 1, shop, seed)
    # "search" is a button that does nothing without words, on every page.
    if name == "click" and argument is not None and argument != "search":
        allowed = _clickables(session, shop)
        if argument in allowed:
            return _click(session, argument, allowed[argument], shop, seed)
    return None


def _results(session: Session, keywords: str, page: int, shop: Shop, seed: int) -> Session:
    found = shop.find(keywords, seed)
    shown = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return Session(
        session.goal,
        "search_results",
        keywords,
        page,
        opened=session.opened,
        shown=tuple(shown.tolist()),
        total=len(found),
    )


def _click(session: Session, text: str, option: str, shop: Shop, seed: int) -> Session | None:
    if text == "buy now":
        reward = shop.buy(session.goal, session.product, session.options)
        return dataclasses.replace(session, place="done", reward=reward)
    if text == "back to search":
        return Session(session.goal)
    # The URL contains the keywords, so a search for "search_results" misleads the original.
    address = url(session, shop)
    place = next((place for place in PLACES if place in address), "")
    if text == "next >" and place == "search_results":
        return _results(session, session.keywords, session.page + 1, shop, seed)
    if text == "< prev" and place == "search_results":
        return _results(session, session.keywords, session.page - 1, shop, seed)
    if text == "< prev" and place == "item_page":
        return _results(session, session.keywords, session.page, shop, seed)
    if text == "< prev":
        return dataclasses.replace(session, place="item_page", section="")
    if text in SECTIONS:
        return dataclasses.replace(session, place="item_sub_page", section=SECTIONS[text])
    if option:
        return dataclasses.replace(session, options={**session.options, option: text})
    return _open(session, text, shop)


def _open(session: Session, link: str, shop: Shop) -> Session | None:
    # A link leads to its own text in capitals: an ASIN with lower-case letters leads nowhere.
    for index in session.shown:
        if shop.product(index).asin == link.upper():
            opened = session.opened if index in session.opened else (*session.opened, index)
            return dataclasses.replace(
                session, place="item_page", product=index, opened=opened, shown=(), total=0
            )
    return None


def nodes(session: Session, shop: Shop) -> Iterator[Node]:
    """Yields the pieces of a page from top to bottom."""
    if session.place == "done":
        yield from _done_nodes(session, shop)
        return
    if not session.place:
        yield TEXT, "WebShop"
        yield TEXT, "Instruction: "
        yield TEXT, shop.instruction(session.goal)
        yield BUTTON, "Search"
        return
    yield TEXT, "Instruction:"
    yield TEXT, shop.instruction(session.goal)
    yield BUTTON, "Back to Search"
    if session.place == "search_results":
        yield TEXT, f"Page {session.page} (Total results: {session.total})"
        if session.page > 1:
            yield BUTTON, "< Prev"
        yield BUTTON, "Next >"
        for index in session.shown:
            product = shop.product(index)
            yield LINK, product.asin
            yield TEXT, product.title
            yield TEXT, product.price_tag
        return
    yield BUTTON, "< Prev"
    product = shop.product(session.product)
    if session.place == "item_page":
        yield from _item_nodes(product)
    elif session.section == "Description":
        yield TEXT, product.description
    elif session.section == "Features":
        for bullet in product.bullet_points:
            yield TEXT, f" {bullet}"


def _item_nodes(product: Product) -> Iterator[Node]:
    for name, values in product.options.items():
        yield TEXT, name
        for value in values:
            yield OPTION, value
    yield TEXT, product.title
    yield TEXT, f"Price: {product.price_tag}"
    yield TEXT, f"Rating: {product.rating}"
    for button in ("Description", "Features", "Reviews", "Buy Now"):
        yield BUTTON, button


def _done_nodes(session: Session, shop: Shop) -> Iterator[Node]:
    options = json.dumps(session.options, sort_keys=True)
    for character in "<>&'":  # escaped for use inside a web page
        options = options.replace(character, f"\\u{ord(character):04x}")
    texts = ["Thank you for shopping with us!", "Your code: ", "None"]
    texts += [" (Paste it in your MTurk interface.)", "Purchased"]
    texts += ["asin", shop.product(session.product).asin, "options", options]
    for name in ("attrs", "category", "query", "product category"):
        texts += [name, "None"]
    texts += ["Target", "asin", "options", "attrs", "price upper", "instuction text"]
    texts += ["category", "product category", "query", "Goal ", "None", "Reward"]
    texts += ["Your score (min 0.0, max 1.0)", str(session.reward), "Reward Details ", "None"]
    for text in texts:
        yield TEXT, text


def _visible(pieces: Iterable[Node]) -> Iterator[Node]:
    return ((style, text) for style, text in pieces if text not in ("", "\n"))


def render_text(session: Session, shop: Shop) -> str:
    """Returns the page in the original's observation mode `text`."""
    return " [SEP] ".join(text.strip() for _, text in _visible(nodes(session, shop)))


def render_rich(session: Session, shop: Shop) -> str:
    """Returns the page in the original's observation mode `text_rich`."""
    address = url(session, shop)
    opened = {shop.product(index).asin for index in session.opened}
    clicked: list[str] = []
    lines: list[str] = []
    for style, text in _visible(nodes(session, shop)):
        if style == BUTTON:
            lines.append(_marked(text, False))
        elif style == OPTION:
            # The original looks for the quoted value anywhere in the URL, not in the options.
            chosen = f'"{text}"' in address
            lines.append("  " + _marked(text, chosen))
            if chosen:
                clicked.append(f"You have clicked {text}.")
        elif style == LINK:
            lines.append("\n" + _marked(text, text in opened))
        else:
            lines.append(text)
    return "".join(f"{line}\n" for line in clicked[::-1] + lines)


def _marked(text: str, clicked: bool) -> str:
    return f"[clicked button] {text} [clicked button_]" if clicked else f"[button] {text} [button_]"
