"""`agentgym audit RUN`: the credit of a run against exact values."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.audit_overlay import FILE
from agentgym.cli.command_line import check_repeats, standard_output
from agentgym.cli.out_files import result_path
from agentgym.errors import ConfigError
from agentgym.trainers.audit.report import Audit, audit_run
from agentgym.utils.files import replace_text, shown

FEWEST = 4
"""Continuations, of which each half has a variance."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentgym audit",
        usage="agentgym audit RUN [OPTIONS]",
        description="Compare the credit of a run with exact advantages. The policy that played an "
        "iteration plays on from every recorded state many times. The mean returns are the values "
        f"of the states. Prints a table, one row per estimator, and writes RUN/{FILE}.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="folder of a training run")
    add("--continuations", type=int, default=32, help="continuations per recorded state")
    add("--episodes", type=int, default=24, help="recorded episodes, at most")
    add("--iteration", type=int, help="an iteration whose checkpoint before it is kept. By default "
        "the last one")  # fmt: skip
    add("--credit", nargs="+", default=[], metavar="SOURCE", help="credit of other trainers to "
        "judge, too: FILE.jsonl with a line {task, seed, advantages: [one per turn]} per "
        "trajectory, or module:function of the lines of trajectories.jsonl")  # fmt: skip
    return parser


def main(argv: Sequence[str]) -> int:
    """Audits a run and prints the table. Returns the exit status."""
    check_repeats(argv, ("credit",))
    given = _parser().parse_args(list(argv))
    if given.continuations < FEWEST:
        raise ConfigError(f"--continuations must be at least {FEWEST}, got {given.continuations}.")
    if given.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, got {given.episodes}.")
    audit: Audit | None = None
    path = given.run / FILE
    try:
        audit = audit_run(
            given.run,
            continuations=given.continuations,
            episodes=given.episodes,
            iteration=given.iteration,
            credit=given.credit,
        )
    except (Exception, KeyboardInterrupt) as error:
        audit = getattr(error, "audit", None)
        path = result_path(path, whole=audit is None)
        raise
    finally:  # the finished trajectories are kept after any error
        if audit is not None:
            replace_text(path, json.dumps(audit.to_json(), indent=1) + "\n")
            show(audit, standard_output())
            print(f"Written to {shown(path)}.")
    return 0


def show(audit: Audit, console: Console) -> None:
    """Prints an audit: a row per estimator, the contributions of turns, the critic, warnings."""
    console.print(quality_table(audit))
    turns = sum(len(each["turns"]) for each in audit.episodes)
    per = audit.steps
    lines = [
        f"{turns} turns of {len(audit.episodes)} episodes of iteration {audit.iteration}, "
        f"{per.decided} of them with a decisive turn (first by chance: {_percent(per.chance)})",
        f"useful turns in failures: {_percent(per.useful_in_failures)}, "
        f"useless turns in successes: {_percent(per.useless_in_successes)}, "
        f"turns that are not known to matter: {_percent(per.moot)}",
    ]
    if audit.critic is not None:
        explained = f"{audit.critic.explained:.2f} of the variance explained"
        lines.append(f"critic: mean absolute error {audit.critic.absolute:.3f}, {explained}")
    if not audit.played.checked:
        lines.append("log-probs were not compared: actions are not sampled from a list")
    for line in lines:
        console.print(Text(line))
    for warning in audit.warnings:
        console.print(Text(f"warning: {warning}", "yellow"))


def quality_table(audit: Audit) -> Table:
    """Returns the quality of each estimator."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("credit")
    for title in ("sign errors", "correlation", "ranks", "moot credit", "place", "first"):
        table.add_column(title, justify="right")
    for name, each in audit.qualities.items():
        cells = (
            _percent(each.sign_errors),
            _number(each.correlation),
            _number(each.ranks),
            _percent(each.moot_credit),
            _number(each.place),
            _percent(each.first),
        )
        table.add_row(Text(name), *cells)
    return table


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share:.0%}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"
