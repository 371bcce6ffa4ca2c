"""The page of `agentgym view` for a folder of many runs: their table, figure and links.

The page holds its style and its figure, and needs no server and no network. The pages of the runs
are written beside it, into the folder of each run.
"""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from agentgym.cli.viewer import render
from agentgym.errors import AgentGymError, ConfigError, MissingExtraError
from agentgym.evaluation.comparison import compact, compare_groups, duration, grouped, number, table
from agentgym.evaluation.comparison_figure import draw_comparison
from agentgym.evaluation.runs import TrainingRun, find_runs, run_folders
from agentgym.utils.files import replace_text
from agentgym.utils.printable import encodable

PAGE = "view.html"
STYLE = """
:root { color-scheme: light dark; --ink: #1d232b; --soft: #5f6975; --line: #dfe3e8; --card: #fff;
  --page: #f5f6f8; --accent: #2563a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7ec; --soft: #98a2ae; --line: #333b45;
  --card: #1b2027; --page: #13171c; --accent: #74aef0; } }
body { margin: 0 auto; max-width: 1060px; padding: 16px; font: 14px/1.45 system-ui, sans-serif;
  color: var(--ink); background: var(--page); }
h1 { font-size: 20px; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 24px 0 8px; }
pre, .wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 12px; }
pre { font: 13px/1.4 ui-monospace, monospace; }
img { max-width: 100%; background: #fff; border-radius: 8px; }
table { border-collapse: collapse; width: 100%; } th { color: var(--soft); font-weight: 400; }
td, th { text-align: right; padding: 3px 14px 3px 0; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
a { color: var(--accent); } .soft { color: var(--soft); } li { overflow-wrap: anywhere; }
"""


def holds_runs(path: Path) -> bool:
    """Returns whether a path is a folder with runs below it that is not a run itself."""
    return path.is_dir() and run_folders(path) not in ([], [path])


def write_pages(folders: Sequence[Path], out: Path, last: int | None = None) -> list[str]:
    """Writes the page of many runs, and a page with the episodes of each run.

    Args:
        folders: folders of runs.
        out: the page of all runs.
        last: show only the last so many trajectories of each run.

    Returns:
        A note for each run without a page, and for each that is left out.

    Raises:
        ConfigError: if no run can be read.
    """
    runs, notes = find_runs(folders)
    if any(out.resolve() == (run.folder / PAGE).resolve() for run in runs):
        raise ConfigError(f"{out} is the page of a run: give the page of all runs another name.")
    links: dict[Path, str] = {}
    for run in runs:
        try:
            replace_text(run.folder / PAGE, render(run.folder, last))
            links[run.folder] = _link(run.folder / PAGE, out.parent)
        except (AgentGymError, OSError) as error:
            notes.append(f"no page: {error}")
    title = ", ".join(folder.resolve().name for folder in folders)
    replace_text(out, _page(title, runs, links, notes))
    return notes


def _link(page: Path, folder: Path) -> str:
    """Returns the address of a page, relative to a folder if it is on the same drive."""
    try:
        return quote(Path(os.path.relpath(page, folder)).as_posix())
    except ValueError:  # on another drive
        return page.resolve().as_uri()


def _page(
    title: str, runs: Sequence[TrainingRun], links: Mapping[Path, str], notes: Sequence[str]
) -> str:
    groups = grouped(runs)
    rows = "".join(
        _row(run, group.name, links.get(run.folder)) for group in groups for run in group.runs
    )
    heads = ("episodes of", "seed", "held-out return", "steps", "tokens", "time")
    parts = [
        f"<h1>{_text(title)}: {len(runs)} runs</h1>",
        f"<pre>{_text(table(compare_groups(groups)))}</pre>",
        _figure(runs),
        "<h2>Runs</h2><div class=wide><table><tr>"
        + "".join(f"<th>{head}</th>" for head in heads)
        + f"</tr>{rows}</table></div>",
    ]
    if notes:
        parts.append(
            f"<h2>Notes</h2><ul>{''.join(f'<li>{_text(each)}</li>' for each in notes)}</ul>"
        )
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n"
    )
    return head + "\n".join(parts) + "\n</html>\n"


def _row(run: TrainingRun, group: str, link: str | None) -> str:
    reward = number(run.reward) + ("" if run.finished else " (unfinished)")
    budget = (compact(run.env_steps), compact(run.tokens), duration(run.seconds))
    name = _text(group) if link is None else f'<a href="{html.escape(link)}">{_text(group)}</a>'
    cells = "".join(f"<td>{_text(each)}</td>" for each in (str(run.seed), reward, *budget))
    return f"<tr><td>{name}</td>{cells}</tr>"


def _figure(runs: Sequence[TrainingRun]) -> str:
    picture = io.BytesIO()
    try:
        draw_comparison(grouped(runs), picture)
    except MissingExtraError as error:
        return f"<p class=soft>{_text(str(error))}</p>"
    data = base64.b64encode(picture.getvalue()).decode()
    words = "held-out return over environment steps and action tokens"
    return f'<img alt="{words}" src="data:image/png;base64,{data}">'


def _text(words: str) -> str:
    return html.escape(encodable(words))
