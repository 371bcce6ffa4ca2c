"""The gallery of environments: their pictures as PNG files, and their tiles on the index."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image
from project import EnvironmentClass
from writing import anchor, link_papers

from agentgym.rendering import draw

TURNS = 4
"""Turns of the expert before the picture is drawn."""
COLORS = 64


def png(env: Any) -> bytes | None:
    """Returns the picture of an environment after a few turns, or None if it has none.

    Args:
        env: a `TextEnv`, without wrappers.
    """
    if "rgb_array" not in env.metadata["render_modes"]:
        return None
    env.reset(seed=0)
    for _ in range(TURNS):
        *_, terminated, truncated, _ = env.step(env.expert() or "")
        if terminated or truncated:
            break
    image = Image.fromarray(draw(env._frame())).quantize(COLORS)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def tile(cls: EnvironmentClass, files: set[str]) -> list[str]:
    """Returns the lines of an environment's tile.

    Args:
        cls: the environment.
        files: paths of the pictures that exist.
    """
    entry, page = cls.entries[0], cls.page.removeprefix("environments/")
    notes = ["several agents"] * entry.multi_agent + [f"extra `{entry.extra}`"] * bool(entry.extra)
    lines = ["<div markdown>", ""]
    if (path := cls.picture(".png")) in files:
        lines += [f"[![{cls.title}]({_beside(path)}){{ loading=lazy }}]({page})", ""]
    elif (path := cls.picture(".svg")) in files:
        lines += [f"[![{cls.title}]({_beside(path)}){{ .transcript loading=lazy }}]({page})", ""]
    lines += [f"**[{entry.name}]({page})** {', '.join(notes)}", "", link_papers(cls.summary), ""]
    if variants := [f"[{e.name}]({page}#{anchor(e.name)})" for e in cls.entries[1:]]:
        lines += [f"Variants: {', '.join(variants)}", ""]
    return [*lines, "</div>", ""]


def _beside(path: str) -> str:
    """Returns a path relative to the index."""
    return path.removeprefix("environments/")
