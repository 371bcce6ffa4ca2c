"""Hooks of MkDocs: add the generated pages and their navigation to the site."""

from __future__ import annotations

import re
from pathlib import Path

import agent_pages
import coverage_pages
import environment_pages
import leaderboard_pages
import project
import recipe_pages
import reference_pages
import search_words
import wrapper_pages
from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from benchmarks.figures.addresses import addresses, repository_name
from benchmarks.figures.figures import build

GENERATORS = (
    environment_pages,
    recipe_pages,
    wrapper_pages,
    coverage_pages,
    leaderboard_pages,
    reference_pages,
)
SECTIONS = {
    "environments/": environment_pages.navigation,
    "recipes/": recipe_pages.navigation,
    "wrappers/": wrapper_pages.navigation,
    "coverage/": coverage_pages.navigation,
    "reference/": reference_pages.navigation,
}
"""Entries of `nav` in mkdocs.yml that stand for generated sections."""
PICTURE = re.compile(r"\]\(((?:\.\./)*)\.\./benchmarks/results/")
"""The start of a link from a page in docs/ to a picture of the benchmarks."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills in the navigation of the generated sections, and the public addresses."""
    site = addresses().get("Documentation")
    config.site_url = None if site is None else f"{site}/"
    config.repo_url, config.repo_name = addresses().get("Repository"), repository_name()
    for entry in config.nav or []:
        for title, target in entry.items() if isinstance(entry, dict) else ():
            if isinstance(target, str) and target in SECTIONS:
                entry[title] = SECTIONS[target]()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and the pages and pictures from outside docs/."""
    found: dict[str, str | bytes] = {}
    for generator in GENERATORS:
        found.update(generator.pages())
    found.update(_benchmarks())
    found["contributing.md"] = _contributing()
    for path, content in found.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Returns a page with its longest tables, and links to the pictures of the benchmarks."""
    return PICTURE.sub(r"](\1benchmarks/", build(markdown))


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """Writes the index of the site for agents, when all pages have been read."""
    agent_pages.write(config, files, tuple(SECTIONS))


def on_post_build(config: MkDocsConfig) -> None:
    """Adds words of readers to the search index, which is written before."""
    search_words.rewrite(Path(config.site_dir) / "search" / "search_index.json")


def _contributing() -> str:
    """Returns CONTRIBUTING.md as a page."""
    text = (project.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def _benchmarks() -> dict[str, str | bytes]:
    """Returns benchmarks/README.md as a page, and the pictures of the benchmarks."""
    folder = project.ROOT / "benchmarks"
    text = (folder / "README.md").read_text(encoding="utf-8")
    pictures = sorted((folder / "results").glob("*.png"))
    found: dict[str, str | bytes] = {f"benchmarks/{p.name}": p.read_bytes() for p in pictures}
    return {"benchmarks.md": text.replace("](../docs/", "]("), **found}
