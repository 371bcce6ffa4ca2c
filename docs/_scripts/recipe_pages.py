"""Pages of the recipes: one each, and an index."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import curves
import project
from project import MISSING, Setting, grid_tables
from writing import ARXIV, code_block, details, link_papers, table

CHANGES = re.compile(r"(?:^|(?<=[.;)])\s+)((?:Kept|Changed|Added|Left out)\b[^:]{0,60}):\s+")
RELATIVE = re.compile(r"^`(\w+)` with th(?:ese defaults|is default): ", re.MULTILINE)
"""The line of a recipe that differs from another one in defaults only."""
GRID = "grid"
EXAMPLE = "NumberLine-v0"
GAMES = ("roles and agents of games", "social dilemmas", "teams with a common reward")
"""Groups of recipes that are made for games."""


def pages() -> dict[str, str]:
    """Returns the generated files, Markdown and SVG, by path."""
    found = {"recipes/index.md": _index(), "recipes/settings.md": _shared_settings()}
    for name in project.recipe_names():
        found[f"recipes/{name}.md"] = _page(name)
        if (picture := curves.recipe_curves(project.results(GRID), name)) is not None:
            found[f"recipes/{name}.svg"] = picture
    return found


def navigation() -> list[Any]:
    """Returns the section of the navigation."""
    groups = [
        {title.capitalize(): [{name: f"recipes/{name}.md"} for name in names]}
        for title, names in project.recipe_groups().items()
    ]
    return ["recipes/index.md", {"Settings": "recipes/settings.md"}, *groups]


def _page(name: str) -> str:
    doc = inspect.getdoc(project.recipe_module(name)) or ""
    title, _, body = doc.partition("\n")
    lines = [f"# {name}", "", link_papers(title), "", *_description(body.strip("\n"))]
    lines += ["", "## Usage", "", *code_block(_usage(name), "bash")]
    if any(name in project.recipe_groups()[title] for title in GAMES):
        lines += ["", "This shows that the recipe runs, with a single agent. It is made for games:"]
        lines += ["[Self-play](../tutorials/self_play.md#which-recipe) has commands for these."]
    lines += ["", f"`agentgym train {name} --help-all` lists every setting.", "", "## Settings", ""]
    lines += _settings(project.recipe_settings(name))
    lines += _results(name)
    lines += ["", "## Source { data-search-exclude }", "", f"`{project.recipe_source(name)}`", ""]
    source = (project.ROOT / project.recipe_source(name)).read_text(encoding="utf-8")
    lines += details("The file", code_block(source, "python"))
    return "\n".join(lines) + "\n"


def _description(body: str) -> list[str]:
    """Returns the docstring's text; its paragraphs about changes get a heading of their own."""
    texts, changes = [], []
    for paragraph in re.split(r"\n\s*\n", body):
        text, *parts = CHANGES.split(paragraph)
        texts += [text] if text.strip() else []
        changes += zip(parts[::2], parts[1::2], strict=True)
    lines = link_papers("\n\n".join(texts)).split("\n")
    if changes:
        lines += ["", "## Differences from the Paper", ""]
        for kind, text in changes:
            lines.append(f"- **{link_papers(kind)}**: {link_papers(' '.join(text.split()))}")
    return lines


def _usage(name: str) -> str:
    return "\n".join(
        [
            "pip install -e '.[train]'    # in a clone",
            f"agentgym train {name} --config benchmarks/numberline.yaml --run-dir runs/{name}",
            f"agentgym eval {EXAMPLE} --agent policy:runs/{name} random expert",
        ]
    )


def _settings(settings: Sequence[Setting]) -> list[str]:
    own = [setting for setting in settings if setting.shared is MISSING]
    changed = [s for s in settings if s.shared is not MISSING and s.shared != s.default]
    lines = (
        ["The recipe's own settings:", ""] if own else ["The recipe has no settings of its own."]
    )
    if own:
        lines += table(("Flag", "Default", "Description"), [_row(s) for s in own])
    if changed:
        rows = [(*_row(s)[:2], f"`{_value(s.shared)}`", s.help) for s in changed]
        header = ("Flag", "Default here", "Shared default", "Description")
        lines += ["", "Shared settings with another default:", "", *table(header, rows)]
    return [*lines, "", "Its other settings are among the shared ones: [Settings](settings.md)."]


SETTINGS = """
---
search:
  boost: 2
---
# Settings

Settings that recipes share, with their defaults, by group. A recipe has those that act in it: a
critic or a comparison of groups has settings, and imitation has no clip. A setting that belongs to
another one acts beside it only, and is an error otherwise. The page of a recipe lists its own
settings, and the shared ones whose default it changes. `agentgym train RECIPE --help` shows those
that matter most in the terminal, and `--help-all` all of them.
[Training from Python](../tutorials/callbacks.md) passes them by name.
"""


def _shared_settings() -> str:
    lines, settings = inspect.cleandoc(SETTINGS).split("\n"), project.shared_settings()
    for group in dict.fromkeys(setting.group for setting in settings):
        rows = [_row(setting) for setting in settings if setting.group == group]
        lines += ["", f"## {group.capitalize() or 'Other'}", ""]
        lines += table(("Flag", "Default", "Description"), rows)
    return "\n".join(lines) + "\n"


def _row(setting: Setting) -> tuple[str, str, str]:
    return f"`{setting.flag}`", f"`{_value(setting.default)}`", setting.help


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or "()"
    return str(value)


def _results(name: str) -> list[str]:
    grid = project.results(GRID)
    envs = [env for env in grid["envs"] if curves.curves_of(grid, env, name)]
    if not envs:
        return []
    lines = ["", "## Learning Curves", ""]
    lines += [f"![Learning curves of {name}]({name}.svg){{ .figure }}", ""]
    lines += [
        "Thin: seeds. Thick: their mean. Grey: the other recipes. Dotted: random agent. Dashed:",
        "scripted expert. Runs of an environment with the same seed start from the same cloned",
        "decoder of 0.2 million parameters (`benchmarks/learning/grid.py`).",
        "[Comparison of recipes](../studies/recipes.md) gives the thresholds.",
        "",
    ]
    rows = []
    for env in envs:
        [cells] = [cells for recipe, cells in grid_tables.rows(grid, env) if recipe == name]
        rank, count = (
            1 + grid_tables.ranks(grid, env).index(name),
            len(grid_tables.ranks(grid, env)),
        )
        rows.append((f"`{grid['envs'][env]['config']['env_id']}`", *cells, f"{rank} of {count}"))
    middle = ("Runs", "Final", "Mean over the run", "Steps to the threshold")
    header = ("Environment", *middle, *grid_tables.DETAILS, "Rank")
    return [*lines, *table(header, rows, len(header) - 1)]


INDEX = """
A recipe is one training algorithm in one file. All recipes share rollouts, policy, optimiser,
evaluation and checkpoints, so that they can be compared from the same start. They are listed by
the source of their credit. [Choosing a recipe](../tutorials/choosing_a_recipe.md) goes by
situation, and [Comparison of recipes](../studies/recipes.md) compares those that are marked as
measured. The [recommended](../overview.md#recipes) ones are reliable in at least one environment.
`agentgym train` lists them in the terminal.
"""


def _index() -> str:
    lines = ["# Recipes", "", *inspect.cleandoc(INDEX).split("\n")]
    measured = {
        recipe.strip("`"): "measured" if envs == "-" else "**recommended**"
        for recipe, envs, _ in grid_tables.recommended(project.results(GRID))
    }
    for title, names in project.recipe_groups().items():
        rows = [_index_row(name, measured) for name in names]
        lines += ["", f"## {title.capitalize()}", ""]
        lines += table(("Recipe", "Description", "Measured", "Paper"), rows)
    return "\n".join(lines) + "\n"


def _index_row(name: str, measured: Mapping[str, str]) -> tuple[str, str, str, str]:
    doc = inspect.getdoc(project.recipe_module(name)) or ""
    paper = ARXIV.search(doc)
    link = f"[{paper[2]}](https://arxiv.org/abs/{paper[2]})" if paper else "-"
    text = link_papers(doc.partition("\n")[0])
    if relative := RELATIVE.search(doc):
        text += f" [`{relative[1]}`]({relative[1]}.md) with other defaults."
    return f"[{name}]({name}.md)", text, measured.get(name, "-"), link
