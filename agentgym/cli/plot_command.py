"""`agentgym plot`: the table and the figure of any training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from agentgym.cli.command_line import standard_output
from agentgym.cli.out_files import check_out_files, check_replaced
from agentgym.errors import ConfigError
from agentgym.evaluation.comparison import compare_groups, grouped, table
from agentgym.evaluation.comparison_figure import draw_comparison
from agentgym.evaluation.runs import find_runs
from agentgym.utils.files import shown
from agentgym.utils.printable import printable

Folders = tyro.conf.Positional[
    Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FOLDER [FOLDER ...]", help_behavior_hint="")]
]

FORMATS = (".png", ".svg", ".pdf")


def plot(folders: Folders, /, *, out: Path | None = None) -> int:
    """Compare training runs over seeds: a table, and a figure of their learning curves.

    Runs are grouped by recipe and by the settings in which they differ. The first group is the one
    that others are compared with.

    Args:
        folders: Folders of training runs, or of many runs, such as those of agentgym sweep.
        out: The figure. Its suffix is its format: .png, .svg or .pdf. By default
            compare.png in the first folder.
    """
    if not folders:
        raise ConfigError("Name at least one folder of runs: agentgym plot FOLDER.")
    file = out or folders[0] / "compare.png"
    runs, notes = find_runs(folders)
    if file.suffix not in FORMATS:
        raise ConfigError(f"Expected a name that ends in {', '.join(FORMATS)}, got {file.name!r}.")
    check_out_files([file])
    check_replaced(file)
    groups, console = grouped(runs), standard_output()
    console.print(Text(printable(table(compare_groups(groups)))), soft_wrap=True)
    for note in notes:
        console.print(Text(printable(f"note: {note}")), soft_wrap=True)
    draw_comparison(groups, file)
    console.print(Text(printable(f"Figure: {shown(file)}")), soft_wrap=True)
    return 0
