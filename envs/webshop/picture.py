"""The shop for a person in a terminal: boxes, tables and available actions."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.envs.webshop import pages
from agentgym.envs.webshop.pages import Session, Shop

WIDTH = 100


def picture(session: Session, shop: Shop, note: str = "") -> str:
    """Returns a page as text in boxes, 100 columns wide, with the available actions.

    Args:
        session: current session.
        shop: products and goals.
        note: shown above the page, such as an explanation of an invalid action.
    """
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False)
    title = {
        "": "Search",
        "search_results": f"Results for “{session.keywords[:60]}”, page {session.page}",
        "item_page": "Product",
        "item_sub_page": session.section,
        "done": "Bought",
    }[session.place]
    body = Group(
        *([Panel(Text(note), box=ROUNDED)] if note else []),
        Panel(Text(shop.instruction(session.goal)), title="Instruction", box=ROUNDED),
        *_body(session, shop),
    )
    console.print(Panel(body, title=Text(f"WebShop · {title}"), box=ROUNDED))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _body(session: Session, shop: Shop) -> Iterable[RenderableType]:
    if session.place == "search_results":
        yield _results(session, shop)
    elif session.place in ("item_page", "item_sub_page"):
        yield from _product(session, shop)
    elif session.place == "done":
        product = shop.product(session.product)
        options = ", ".join(f"{name}: {value}" for name, value in session.options.items())
        yield Text(f"{product.title}\n{product.price_tag}   {options}\n")
        yield Text(f"Your score: {session.reward:.3f} of 1")
        return
    buttons = [text for style, text in pages.nodes(session, shop) if style == pages.BUTTON]
    actions = ["search[words]", *(f"click[{b.lower()}]" for b in buttons if b != "Search")]
    yield Panel(Columns([Text(action) for action in actions]), title="Actions", box=ROUNDED)


def _results(session: Session, shop: Shop) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, expand=True)
    table.add_column("type", no_wrap=True)
    table.add_column(f"{session.total} results", ratio=1)
    table.add_column("price", justify="right", no_wrap=True)
    for index in session.shown:
        product = shop.product(index)
        seen = "✓ " if index in session.opened else ""
        action = Text(f"click[{product.asin.lower()}]")
        table.add_row(action, Text(seen + product.title), Text(product.price_tag))
    return table


def _product(session: Session, shop: Shop) -> Iterable[RenderableType]:
    product = shop.product(session.product)
    yield Text(f"{product.title}\n{product.price_tag}   rating: {product.rating}\n")
    if session.place == "item_sub_page":
        plain = list(pages.nodes(session, shop))[4:]
        yield Text(
            "\n".join(f"• {text.strip()}" for _, text in plain) or "Nothing is written here."
        )
        return
    if not product.options:
        return
    table = Table(
        box=SIMPLE_HEAD, expand=True, title=Text("Options: click[value]"), title_justify="left"
    )
    table.add_column("option", no_wrap=True)
    table.add_column("values (● chosen)", ratio=1)
    for name, values in product.options.items():
        marked = (
            f"{'●' if session.options.get(name) == value else '○'} {value}" for value in values
        )
        table.add_row(Text(name), Text("   ".join(marked)))
    yield table
