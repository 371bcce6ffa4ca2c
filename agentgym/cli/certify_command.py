"""`agentgym certify`: what environments pay for, give away, and keep equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.certify import Budget, Report, Result, certify
from agentgym.certify.findings import Check
from agentgym.certify.making import check_name
from agentgym.certify.processes import Processes
from agentgym.certify.remote import certify_url, is_url
from agentgym.cli.command_line import KeyValues, standard_output
from agentgym.cli.eval_output import write_json
from agentgym.cli.out_files import check_out_files, check_replaced, result_path
from agentgym.errors import ConfigError
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.printable import printable

FAILED = 1
"""Exit status if an environment fails."""
STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red", "error": "bold red"}

Names = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="ID [ID ...]", help_behavior_hint="")]
]


def run_certification(
    envs: Names,
    /,
    *,
    tasks: int = 20,
    search: int = 2000,
    steps: int = 20_000,
    env_kwargs: KeyValues = (),
    json: Path | None = None,
    openenv: Path | None = None,
) -> int:
    """Check environments for leaks, exploits, chance without a seed and other flaws.

    The scripted expert is compared with players that know nothing, searches look for rewards
    without success and for cycles that pay again and again, and other processes replay episodes.
    The exit status is 1 if a check fails. An author declares a finding that is meant, with a
    reason, in the class attribute `declares`.

    Args:
        envs: Ids of environments, module:Class of one that is not registered, or addresses of
            servers, whose experts are not known.
        tasks: Test tasks that are played.
        search: Environment steps of the searches, fewer in ids whose episodes start slowly.
        steps: Environment steps of the players and of compared tasks. Parts that they cut short are
            named.
        env_kwargs: Arguments of the environments.
        json: Write the certificates to this file.
        openenv: Write the certificate of one environment to this file, as OpenEnv's report.
    """
    if not envs:
        raise ConfigError("Name at least one environment: agentgym certify ID.")
    if openenv and len(envs) > 1:
        raise ConfigError(f"--openenv writes one report, got {len(envs)} environments.")
    json, openenv = (path and path.absolute() for path in (json, openenv))
    check_out_files((json, openenv))
    check_replaced(json, "env", "verdict")
    check_replaced(openenv, "report_schema_version", "verdict")
    budget = Budget(tasks=tasks, search=search, steps=steps)
    arguments, console = parse_arguments(env_kwargs), standard_output()
    reports: list[Report] = []
    for name in envs:
        if not is_url(name):
            check_name(name)
    try:
        with Processes() as processes:
            for name in envs:
                if is_url(name):
                    report = certify_url(name, arguments, budget)
                else:
                    report = _with_status(name, arguments, budget, processes)
                reports.append(report)
                show(report, console)
    finally:  # the finished certificates are kept after any error
        if json is not None and reports:
            place = result_path(json, whole=len(reports) == len(envs))
            write_json(place, [report.to_json() for report in reports])
        if openenv is not None and reports:
            write_json(openenv, reports[0].to_openenv())
    return FAILED if any(report.verdict == "fail" for report in reports) else 0


def _with_status(
    name: str, arguments: dict[str, object], budget: Budget, processes: Processes
) -> Report:
    """Returns a certificate. A terminal shows the check that runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return certify(name, arguments, budget, processes=processes)
    with console.status(name) as status:

        def on_check(check: Check) -> None:
            status.update(f"{name}: {check.id}")

        return certify(name, arguments, budget, processes=processes, on_check=on_check)


def show(report: Report, console: Console) -> None:
    """Prints a certificate: the verdict, the findings with their remedies, the players."""
    counts = [result.status for result in report.results]
    numbers = ", ".join(f"{counts.count(each)} {each}" for each in dict.fromkeys(sorted(counts)))
    head = Text.assemble(
        (printable(report.env), "bold"), "  ", (report.verdict, STYLES[report.verdict])
    )
    console.print(head, Text(f"  {numbers}", "dim"), sep="")
    if report.findings:
        console.print(findings_table(report.findings))
    if report.players:
        console.print(players_table(report))
    for limit, parts in (("budget", report.cut_short), ("time", report.out_of_time)):
        for part, size in parts.items():
            console.print(Text(f"The {limit} ended before all {part}: {size}.", "dim"))


def findings_table(findings: list[Result]) -> Table:
    """Returns the findings with evidence and remedy, one row per check."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("finding", max_width=30, overflow="fold")
    table.add_column("evidence, and the remedy", overflow="fold")
    for result in findings:
        lines = [*result.evidence[:3]]
        if more := len(result.evidence) - len(lines):
            lines.append(f"and {more} more")
        reason = f"Declared: {result.reason}" if result.status == "declared" else result.remedy
        style = STYLES.get(result.status, "")
        left = Text.assemble((result.status, style), "\n", result.id)
        table.add_row(left, Text("\n".join([*lines, f"→ {reason}"])))
    return table


def players_table(report: Report) -> Table:
    """Returns the return and success of expert and canaries."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("player", max_width=30, overflow="fold")
    for title in ("return", "success %", "turns"):
        table.add_column(title, justify="right")
    for name, score in report.players.items():
        cells = (f"{score.total:.3f}", f"{100 * score.success:.0f}", f"{score.turns:.1f}")
        table.add_row(Text(name), *cells)
    return table
