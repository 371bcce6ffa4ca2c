"""Pages for agents that read the site: `llms.txt`, and the Markdown of the pages that it lists.

The format of `llms.txt` is that of https://llmstxt.org: a title, a summary, and sections of links
with a description of each. A listed page is served as Markdown too, beside its HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z`*\d\[])")
"""The space after a sentence."""


class MissingDescriptionError(ValueError):
    """A listed page has no first sentence."""


def write(config: MkDocsConfig, files: Files, short: tuple[str, ...]) -> None:
    """Writes `llms.txt` and the Markdown of the listed pages into the site's folder.

    Args:
        config: the configuration of the site.
        files: its files, with their pages.
        short: folders of which only the index is listed.
    """
    folder = Path(config.site_dir)
    sections = _sections(config.nav, short)
    listed = {title: [_page(files, path) for path in paths] for title, paths in sections}
    base = (config.site_url or "").rstrip("/")
    text = render(config.site_name, config.site_description or "", listed, base)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llms.txt").write_text(text, encoding="utf-8")
    for page in [page for pages in listed.values() for page in pages]:
        target = folder / page.file.src_uri
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.file.content_string, encoding="utf-8")


def render(name: str, summary: str, listed: Mapping[str, Sequence[Page]], base: str = "") -> str:
    """Returns the content of `llms.txt`.

    Args:
        name: name of the site.
        summary: one sentence about it.
        listed: pages by section.
        base: address of the site. Empty: links are relative to `llms.txt`.
    """
    lines = [f"# {name}", "", f"> {summary}"]
    for title, pages in listed.items():
        lines += ["", f"## {title}", ""]
        for page in pages:
            address = f"{base}/{page.file.src_uri}" if base else page.file.src_uri
            lines.append(f"- [{page.title}]({address}): {description(page)}")
    return "\n".join(lines) + "\n"


def description(page: Page) -> str:
    """Returns a page's `description`, or else its first sentence, without links.

    Raises:
        MissingDescriptionError: if it has neither.
    """
    given = page.meta.get("description") or _first_paragraph(page.markdown or "")
    sentence = SENTENCE.split(" ".join(LINK.sub(r"\1", given).split()), maxsplit=1)[0]
    if not sentence:
        raise MissingDescriptionError(
            f"{page.file.src_uri} is listed in llms.txt and must start with a sentence, or have a "
            "`description` in its front matter."
        )
    return sentence


def _first_paragraph(markdown: str) -> str:
    """Returns the first paragraph of prose: no heading, table, comment, list, code or picture."""
    for block in markdown.split("\n\n"):
        if re.match(r"\s*([A-Z\d*`\[])(?!``)", block) and not block.lstrip().startswith("* "):
            return block
    return ""


def _sections(nav: list[Any] | None, short: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yields title and paths of each part of the navigation. Its single pages are "Start"."""
    start, sections = list[str](), list[tuple[str, list[str]]]()
    for entry in nav or []:
        ((title, target),) = entry.items()
        if isinstance(target, str):
            start.append(target)
        elif isinstance(target[0], str) and target[0].startswith(short):
            sections.append((title, target[:1]))
        else:
            flat = [each if isinstance(each, str) else next(iter(each.values())) for each in target]
            sections.append((title, flat))
    yield "Start", start
    yield from sections


def _page(files: Files, path: str) -> Page:
    file = files.get_file_from_path(path)
    assert file is not None and file.page is not None, path  # mkdocs checks the navigation
    return file.page
