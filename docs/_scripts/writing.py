"""Small helpers that write Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NO_BREAK = "\N{NO-BREAK SPACE}"
ARXIV = re.compile(r"(?<![\w/.-])(arXiv[\s:]+)?(\d{4}\.\d{4,5})(?:v\d+)?(?![\w.]*\d)")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> list[str]:
    """Returns the lines of a table.

    Args:
        header: titles of the columns.
        rows: cells as Markdown.
        right: number of columns, from the right, that hold numbers: aligned, never wrapped.
    """
    left = len(header) - right
    marks = ["---"] * left + ["---:"] * right
    lines = [marks] + [
        [*map(cell, row[:left]), *(cell(text).replace(" ", NO_BREAK) for text in row[left:])]
        for row in rows
    ]
    return ["| " + " | ".join(line) + " |" for line in ([*map(cell, header)], *lines)]


def cell(text: str) -> str:
    """Returns a text that fits a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code_block(text: str, language: str = "text") -> list[str]:
    """Returns the lines of a fenced code block, with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]


def details(summary: str, body: Iterable[str]) -> list[str]:
    """Returns the lines of a block that is folded up."""
    return [f'??? note "{summary}"', "", *(f"    {line}" if line else "" for line in body), ""]


def link_papers(text: str) -> str:
    """Returns a text in which arXiv ids outside code and links are links."""

    def linked(part: str) -> str:
        return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\2)", part)

    parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|https?://\S+|^(?: {4}).*$)", text, flags=re.M)
    return "".join(part if i % 2 else linked(part) for i, part in enumerate(parts))


def anchor(name: str) -> str:
    """Returns the HTML id of a registered name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def sections(doc: str) -> list[tuple[str, str]]:
    """Returns the (heading, body) pairs of a docstring with "## " headings; "" is its start."""
    found = [("", "")]
    fenced = False
    for line in doc.split("\n"):
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            found.append((line[3:].strip(), ""))
        else:
            heading, body = found[-1]
            found[-1] = heading, f"{body}{line}\n"
    return [(heading, body.strip("\n")) for heading, body in found]
