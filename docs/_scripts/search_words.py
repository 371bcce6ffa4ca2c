"""Words for which the search finds a page or a section whose title lacks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS: dict[str, tuple[str, ...]] = {
    "contributing.html": ("add a recipe",),
    "plug_in.html": ("OpenEnv", "MCP", "verifiers", "server"),
    "recipes/bc.html": ("SFT", "behaviour cloning", "imitation"),
    "recipes/filtered_bc.html": ("rejection sampling",),
    "recipes/rae.html": ("REINFORCE",),
    "recipes/rloo.html": ("leave-one-out",),
    "recipes/settings.html": ("options", "flags", "hyperparameters"),
    "recipes/turn.html": ("PPO", "GAE"),
    "tutorials/comparing_recipes.html": ("sweep", "tuning"),
    "tutorials/real_model.html#interruption-and-resuming": (
        "resume",
        "interrupted run",
        "checkpoint",
    ),
    "tutorials/scaling.html": ("accelerate", "distributed"),
    "tutorials/tensorboard.html": ("metrics",),
}
"""Place in the search index -> its other words."""


class UnknownPlaceError(LookupError):
    """A place that the search index does not have."""


def add_words(index: dict[str, Any]) -> None:
    """Adds the words to a search index, as tags of its entries.

    Args:
        index: the content of search_index.json, which is changed.

    Raises:
        UnknownPlaceError: if a place is missing, for example because a heading has a new name.
    """
    entries = {entry["location"]: entry for entry in index["docs"]}
    for place, words in WORDS.items():
        if place not in entries:
            raise UnknownPlaceError(
                f"search_words.py names {place!r}, which is not in the search index. Name the "
                "present place of the section."
            )
        entries[place]["tags"] = list(words)


def rewrite(file: Path) -> None:
    """Adds the words to a search index on disk."""
    index = json.loads(file.read_text(encoding="utf-8"))
    add_words(index)
    file.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")
