"""Generated web sites with a task: pages of widgets, the fields to be set, the last click."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from agentgym.tasks import draw_level, task_rng

Role = Literal["button", "link", "tab", "textbox", "checkbox", "radio", "combobox"]


@dataclass(frozen=True)
class Widget:
    """A part of a page.

    Attributes:
        role: its role, as in an accessibility tree.
        label: its text.
        field: the field that it shows and sets (textbox, checkbox, radio, combobox).
        options: the options of a combobox.
        page: the page that a click opens. "": none.
        end: the name of the final click. "": it does not end the task.
    """

    role: Role
    label: str
    field: str = ""
    options: tuple[str, ...] = ()
    page: str = ""
    end: str = ""


@dataclass(frozen=True)
class Site:
    """A site with a task.

    Attributes:
        kind: name of the kind of task.
        text: the task.
        pages: the widgets of each page. The first page is shown first.
        goal: field -> expected value at the final click. All other fields must be "".
        end: name of the right final click.
        texts: texts that can be typed, for the admissible actions.
    """

    kind: str
    text: str
    pages: dict[str, tuple[Widget, ...]]
    goal: dict[str, str] = field(default_factory=dict)
    end: str = "submit"
    texts: tuple[str, ...] = ()


@lru_cache(maxsize=2048)
def sites_of(task: str, kind: str, length: int) -> tuple[Site, ...]:
    """Returns the sites of a task. No list of sites is in both splits, whatever `Site.texts` are.

    Args:
        task: name of the task.
        kind: one of `KINDS`, or "mixed".
        length: number of sites.
    """
    rng = task_rng(task, "miniwob")

    def draw() -> tuple[Site, ...]:
        chosen = [one(rng, list(KINDS)) if kind == "mixed" else kind for _ in range(length)]
        return tuple(KINDS[name](rng) for name in chosen)

    return draw_level(task, draw, lambda sites: [replace(site, texts=()) for site in sites])


def one(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """Returns a random element."""
    return options[int(rng.integers(len(options)))]


def some(rng: np.random.Generator, options: Sequence[str], count: int) -> list[str]:
    """Returns different random elements in random order."""
    return [options[int(i)] for i in rng.permutation(len(options))[:count]]


NAMES = (
    *("Ada", "Bruno", "Carmen", "Dennis", "Elsa", "Fabio", "Greta", "Henry", "Ilse", "Jorge"),
    *("Katja", "Lars", "Mona", "Nico", "Olaf", "Petra"),
)
WORDS = (
    *("apple", "basket", "candle", "dragon", "engine", "feather", "guitar", "hammer", "island"),
    *("jacket", "kettle", "ladder", "mirror", "needle", "orange", "pencil", "rocket", "saddle"),
)
CITIES = ("Berlin", "Boston", "Lisbon", "Madrid", "Nairobi", "Prague", "Sydney", "Tokyo")
SUBJECTS = ("Lunch", "Tickets", "Photos", "Homework", "Concert", "Birthday", "Keys", "Garden")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
SUBMIT = Widget("button", "Submit", end="submit")


def _click_button(rng: np.random.Generator) -> Site:
    labels = some(rng, WORDS, 6)
    buttons = tuple(Widget("button", label, end=label) for label in labels)
    target = one(rng, labels)
    return Site("click-button", f"Click the button {target}.", {"start": buttons}, end=target)


def _click_dialog(rng: np.random.Generator) -> Site:
    first, second = some(rng, WORDS, 2)
    target = one(rng, ("OK", "Cancel", "Close"))
    inner = tuple(Widget("button", label, end=label) for label in ("OK", "Cancel", "Close"))
    pages = {
        "start": (
            Widget("button", first, page="dialog"),
            Widget("button", second, end=second),
        ),
        "dialog": inner,
    }
    return Site("click-dialog", f"Open the dialog {first} and click {target}.", pages, end=target)


def _enter_text(rng: np.random.Generator) -> Site:
    word, *others = some(rng, WORDS, 3)
    fields = some(rng, ("Title", "Comment", "Address"), 2)
    page = (*(Widget("textbox", label, label) for label in fields), SUBMIT)
    target = one(rng, fields)
    text = f"Enter {word} as the {target.lower()} and submit."
    return Site("enter-text", text, {"start": page}, {target: word}, texts=(word, *others))


def _log_in(rng: np.random.Generator) -> Site:
    name, password, other = one(rng, NAMES), *some(rng, WORDS, 2)
    page = (
        Widget("textbox", "User name", "user"),
        Widget("textbox", "Password", "password"),
        Widget("button", "Log in", end="log in"),
        Widget("link", "Forgot the password", end="forgot"),
    )
    return Site(
        "log-in",
        f"Log in as {name} with the password {password}.",
        {"start": page},
        {"user": name, "password": password},
        "log in",
        (name, password, other),
    )


def _check_boxes(rng: np.random.Generator) -> Site:
    labels = some(rng, WORDS, 6)
    chosen = some(rng, labels, int(rng.integers(2, 5)))
    page = (*(Widget("checkbox", label, label) for label in labels), SUBMIT)
    text = f"Check {', '.join(chosen)} and nothing else, and submit."
    return Site("check-boxes", text, {"start": page}, dict.fromkeys(chosen, "on"))


def _choose_option(rng: np.random.Generator) -> Site:
    labels = some(rng, WORDS, 5)
    target = one(rng, labels)
    page = (*(Widget("radio", label, "choice") for label in labels), SUBMIT)
    text = f"Choose the option {target} and submit."
    return Site("choose-option", text, {"start": page}, {"choice": target})


def _choose_list(rng: np.random.Generator) -> Site:
    names, cities = tuple(some(rng, NAMES, 5)), tuple(some(rng, CITIES, 5))
    page = (
        Widget("combobox", "Guest", "guest", names),
        Widget("combobox", "City", "city", cities),
        SUBMIT,
    )
    guest, city = one(rng, names), one(rng, cities)
    text = f"Select the guest {guest} and the city {city}, and submit."
    return Site("choose-list", text, {"start": page}, {"guest": guest, "city": city})


def _open_tab(rng: np.random.Generator) -> Site:
    words = some(rng, WORDS, 9)
    tabs = tuple(Widget("tab", f"Tab {i + 1}", page=f"tab {i + 1}") for i in range(3))
    pages = {
        f"tab {i + 1}": (*tabs, *(Widget("link", w, end=w) for w in words[3 * i : 3 * i + 3]))
        for i in range(3)
    }
    target = one(rng, words)
    return Site("open-tab", f"Click the link {target}, on one of the tabs.", pages, end=target)


def _open_menu(rng: np.random.Generator) -> Site:
    menus, words = some(rng, WORDS[:9], 3), some(rng, WORDS[9:], 6)
    back = Widget("button", "Back", page="start")
    pages = {"start": tuple(Widget("button", m, page=m) for m in menus)}
    for i, menu in enumerate(menus):
        mine = words[2 * i : 2 * i + 2]
        pages[menu] = (*(Widget("button", w, end=f"{menu} {w}") for w in mine), back)
    i = int(rng.integers(6))
    text = f"Choose {words[i]} in the menu {menus[i // 2]}."
    return Site("open-menu", text, pages, end=f"{menus[i // 2]} {words[i]}")


def _mailbox(rng: np.random.Generator) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Returns senders and subjects of four mails, and the pages of a mailbox."""
    mails = list(zip(some(rng, NAMES, 4), some(rng, SUBJECTS, 4), strict=True))
    pages: dict[str, Any] = {
        "inbox": tuple(Widget("link", f"{who}: {what}", page=f"mail {who}") for who, what in mails)
    }
    for who, _ in mails:
        pages[f"mail {who}"] = (
            Widget("button", "Star", end=f"star {who}"),
            Widget("button", "Delete", end=f"delete {who}"),
            Widget("button", "Reply", page=f"reply {who}"),
            Widget("button", "Forward", page=f"forward {who}"),
            Widget("button", "Back", page="inbox"),
        )
        pages[f"reply {who}"] = (
            Widget("textbox", "Text", "text"),
            Widget("button", "Send", end=f"reply {who}"),
            Widget("button", "Back", page=f"mail {who}"),
        )
        pages[f"forward {who}"] = (
            Widget("textbox", "To", "to"),
            Widget("button", "Send", end=f"forward {who}"),
            Widget("button", "Back", page=f"mail {who}"),
        )
    return mails, pages


def _tidy_mail(rng: np.random.Generator) -> Site:
    mails, pages = _mailbox(rng)
    (who, what), verb = one(rng, mails), one(rng, ("Star", "Delete"))
    named = one(rng, (f"of {who}", f"about {what}"))
    text, end = f"{verb} the mail {named}.", f"{verb.lower()} {who}"
    return Site("tidy-mail", text, pages, end=end)


def _answer_mail(rng: np.random.Generator) -> Site:
    mails, pages = _mailbox(rng)
    (who, what), word, other = one(rng, mails), *some(rng, WORDS, 2)
    text = f"Reply to the mail about {what} with the text {word}."
    texts = (word, other)
    return Site("answer-mail", text, pages, {"text": word}, f"reply {who}", texts)


def _forward_mail(rng: np.random.Generator) -> Site:
    mails, pages = _mailbox(rng)
    (who, _), to = one(rng, mails), one(rng, NAMES)
    text = f"Forward the mail of {who} to {to}."
    texts = tuple(dict.fromkeys((to, who)))
    return Site("forward-mail", text, pages, {"to": to}, f"forward {who}", texts)


def _add_event(rng: np.random.Generator) -> Site:
    title, other = some(rng, WORDS, 2)
    day, hours = one(rng, DAYS), ("9:00", "11:00", "14:00", "16:00")
    hour = one(rng, hours)
    pages: dict[str, Any] = {"week": tuple(Widget("link", d, page=d) for d in DAYS)}
    for name in DAYS:
        pages[name] = (
            Widget("textbox", "Title", "title"),
            Widget("combobox", "Start", "start", hours),
            Widget("button", "Save", end=name),
            Widget("button", "Back", page="week"),
        )
    text = f"Add the event {title} to the calendar, on {day} at {hour}."
    goal = {"title": title, "start": hour}
    return Site("add-event", text, pages, goal, day, (title, other))


def _book_flight(rng: np.random.Generator) -> Site:
    start, stop = some(rng, CITIES, 2)
    day, seat = one(rng, DAYS), one(rng, ("Window", "Aisle"))
    page = (
        Widget("combobox", "From", "from", CITIES),
        Widget("combobox", "To", "to", CITIES),
        Widget("combobox", "Day", "day", DAYS),
        *(Widget("radio", label, "seat") for label in ("Window", "Aisle")),
        Widget("button", "Book", end="book"),
    )
    text = f"Book a flight from {start} to {stop} on {day}, with a seat at the {seat.lower()}."
    goal = {"from": start, "to": stop, "day": day, "seat": seat}
    return Site("book-flight", text, {"start": page}, goal, "book")


KINDS: dict[str, Callable[[np.random.Generator], Site]] = {
    "click-button": _click_button,
    "click-dialog": _click_dialog,
    "enter-text": _enter_text,
    "log-in": _log_in,
    "check-boxes": _check_boxes,
    "choose-option": _choose_option,
    "choose-list": _choose_list,
    "open-tab": _open_tab,
    "open-menu": _open_menu,
    "tidy-mail": _tidy_mail,
    "answer-mail": _answer_mail,
    "forward-mail": _forward_mail,
    "add-event": _add_event,
    "book-flight": _book_flight,
}
"""Kind of task -> its generator."""
