"""Pages about the literature: its methods by capability, and the papers that the code cites."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import project
from writing import ARXIV, link_papers, table

from agentgym.agents import KINDS
from agentgym.cli.main import COMMANDS

FILE = Path(__file__).with_name("coverage.toml")


class UnknownPlaceError(LookupError):
    """A row names something that the project does not have."""


def pages() -> dict[str, str]:
    """Returns the generated Markdown by path.

    Raises:
        UnknownPlaceError: if a row of `coverage.toml` names something that does not exist.
    """
    return {"coverage/index.md": _coverage(), "coverage/papers.md": _papers()}


def navigation() -> list[Any]:
    """Returns the section of the navigation."""
    return ["coverage/index.md", {"Papers": "coverage/papers.md"}]


def capabilities() -> list[tuple[str, list[tuple[str, list[str], str]]]]:
    """Returns the capabilities: title, and (paper, places, missing) of each method."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        (each["title"], [(paper, here, missing) for paper, here, missing in each["methods"]])
        for each in data["capability"]
    ]


# Places.


def link(place: str) -> str:
    """Returns a place of the project as Markdown, with a link if it has a page.

    Args:
        place: recipe:NAME, env:ID, wrapper:NAME, agent:KIND, agentgym:COMMAND, an --option of
            `agentgym train`, a dotted name, or a file.

    Raises:
        UnknownPlaceError: if it does not exist.
    """
    kind, _, name = place.partition(":")
    known = {
        "recipe": {name: f"../recipes/{name}.md" for name in project.recipe_names()},
        "env": _environments(),
        "wrapper": {name: f"../wrappers/{name}.md" for name in project.wrappers()},
        "agent": dict.fromkeys((re.sub(r":[A-Z].*", "", word) for word in KINDS), ""),
        "agentgym": dict.fromkeys([*COMMANDS], ""),
    }
    if kind in known and name in known[kind]:
        before = {"agentgym": "agentgym ", "agent": "--agent "}.get(kind, "")
        text = f"`{before}{name}`"
        target = known[kind][name]
        return f"[{text}]({target})" if target else text
    if place in _flags() or (project.ROOT / place).is_file() or _importable(place):
        return f"`{place}`"
    raise UnknownPlaceError(f"coverage.toml names {place!r}, which does not exist.")


@functools.cache
def _environments() -> dict[str, str]:
    """Returns the page of every id, relative to the pages of this module."""
    classes = project.environment_classes()
    return {entry.name: f"../{cls.page}" for cls in classes for entry in cls.entries}


@functools.cache
def _flags() -> frozenset[str]:
    """Returns the options of all recipes."""
    names = project.recipe_names()
    return frozenset(s.flag for name in names for s in project.recipe_settings(name))


def _importable(name: str) -> bool:
    """Whether a dotted name is an object of the package."""
    module, _, attribute = name.rpartition(".")
    if not re.fullmatch(r"agentgym(\.\w+)+", name):
        return False
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False


# The page of capabilities.

COVERAGE = """
Methods of papers about language agents, by capability, with the places in this project that
implement them. A method is *partly* covered if something of the paper is missing, and *absent* if
no part of it is here. Observations are texts: a method that lacks images, screenshots or videos
alone is covered *as text*. [Papers](papers.md) lists the papers that environments, recipes and
wrappers cite as their sources.
"""


STATUSES = ("covered", "as text", "partly", "absent")
IMAGES = "Images."
"""What is missing of a method that is covered as text."""


def _status(here: list[str], missing: str) -> str:
    if not here or not missing:
        return "covered" if here else "absent"
    return "as text" if missing == IMAGES else "partly"


def _coverage() -> str:
    counts, body = [], []
    for title, methods in capabilities():
        found = [_status(here, missing) for _, here, missing in methods]
        counts.append((title, *(str(found.count(s)) for s in STATUSES)))
        rows = [
            (paper, _status(here, missing), ", ".join(map(link, here)) or "-", missing or "-")
            for paper, here, missing in methods
        ]
        body += ["", f"## {title}", "", *table(("Method", "Status", "Here", "Missing"), rows)]
    total = tuple(str(sum(int(row[i]) for row in counts)) for i in range(1, 5))
    header = ("Capability", *(status.capitalize() for status in STATUSES))
    lines = ["# Coverage of the Literature", "", *inspect.cleandoc(COVERAGE).split("\n"), ""]
    lines += table(header, [*counts, ("**All**", *total)], 4)
    return "\n".join([*lines, *body]) + "\n"


# The page of papers.

PAPERS = """
Papers on arXiv that the documentation of environments, recipes, wrappers and options cites. Their
pages describe the differences from the paper.
"""


def _cited() -> dict[str, dict[str, list[str]]]:
    """Returns the places that cite each paper, by kind of place."""
    docs: dict[str, list[tuple[str, str]]] = {
        "Environments": [
            (f"env:{cls.entries[0].name}", cls.doc) for cls in project.environment_classes()
        ],
        "Recipes": [
            (f"recipe:{name}", inspect.getdoc(project.recipe_module(name)) or "")
            for name in project.recipe_names()
        ],
        "Wrappers": [
            (f"wrapper:{name}", inspect.getdoc(cls) or "")
            for name, cls in project.wrappers().items()
        ],
        "Options": [
            (setting.flag, setting.help)
            for name in project.recipe_names()
            for setting in project.recipe_settings(name)
        ],
    }
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in docs}
    for kind, texts in docs.items():
        for place, text in texts:
            for _, paper in ARXIV.findall(text):
                places = found[kind].setdefault(paper, [])
                if place not in places:
                    places.append(place)
    return found


def _papers() -> str:
    lines = ["# Papers", "", *inspect.cleandoc(PAPERS).split("\n")]
    for kind, papers in _cited().items():
        rows = [
            (link_papers(f"arXiv {paper}"), ", ".join(map(link, places)))
            for paper, places in sorted(papers.items())
        ]
        lines += ["", f"## {kind}", "", *table(("Paper", kind), rows)]
    return "\n".join(lines) + "\n"
