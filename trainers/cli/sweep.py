"""`agentgym sweep RECIPE ...`: runs over recipes, settings and seeds, and their comparison.

Every run is an `agentgym train` in a process and a folder of its own. Finished runs are kept and
interrupted ones are resumed, so the same command continues a sweep, and more recipes, values, draws
or seeds extend it. A signal to stop is passed on to the runs, which save. A run that fails does not
stop the others. Settings are selected by their return on *training* tasks in the second half of the
run. Held-out rewards are reported for them and select nothing.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from agentgym.cli.command_line import check_repeats
from agentgym.errors import ConfigError
from agentgym.evaluation.comparison import compact, compare_groups, duration, number, table
from agentgym.evaluation.comparison_figure import try_to_draw
from agentgym.trainers.cli.sweep_report import tables
from agentgym.trainers.cli.sweep_runs import FIGURE, RESULT, Sweep
from agentgym.trainers.cli.sweep_settings import Run, runs_of, settings_of
from agentgym.trainers.system.signals import Interrupted
from agentgym.utils.files import shown

LATE = 124
"""Exit status after the time limit."""
CONTINUES = "The same command continues the sweep."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentgym sweep",
        usage="agentgym sweep RECIPE [RECIPE ...] [--vary NAME=VALUES ...] [OPTIONS]",
        description="Train recipes with several seeds, or with several settings, and compare them "
        "by a table and a figure. Further options are those of `agentgym train RECIPE`, the same "
        "for every run. The same command continues a sweep that was interrupted.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--vary", nargs="+", default=[], metavar="NAME=VALUES",
        help="settings that vary: NAME=A,B,C, or with --draws NAME=LOW..HIGH, drawn log-uniformly",
    )  # fmt: skip
    add("--draws", type=int, default=0, help="number of random settings (0: the whole grid)")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of each recipe and setting")
    add("--jobs", type=int, default=1,
        help="runs in parallel, on one GPU too, whose memory they then share")  # fmt: skip
    add("--threads", type=int, default=1, help="threads per run")
    add("--minutes", type=float,
        help="time limit, at which the runs save and stop, with exit status 124. The same command "
        "continues the sweep")  # fmt: skip
    add("--out", type=Path, default=Path("runs/sweep"),
        help=f"folder of the runs, {RESULT} and {FIGURE}")  # fmt: skip
    add("--report", action="store_true", help="start no runs, and show the finished ones")
    return parser


def read_sweep(argv: Sequence[str]) -> tuple[Sweep, bool]:
    """Returns the sweep of a command line, and whether it only reports.

    Args:
        argv: the names of recipes, the options of the sweep, and flags of `agentgym train`.

    Raises:
        ConfigError: if the settings of a run are wrong, or the folder holds another sweep.
        SystemExit: after the help text or a wrong option.
    """
    recipes = tuple(itertools.takewhile(lambda word: not word.startswith("-"), argv))
    check_repeats(argv, ("vary", "seeds"))
    given, flags = _parser().parse_known_args(list(argv[len(recipes) :]))
    if not recipes:
        raise ConfigError(
            "Name at least one recipe before the options, as in `agentgym sweep poad turn --seeds "
            "0 1 2`. `agentgym train` lists the recipes."
        )
    recipes = tuple(dict.fromkeys(recipes))
    runs = runs_of(recipes, settings_of(given.vary, given.draws), given.seeds)
    sweep = Sweep(recipes, tuple(flags), runs, given.out, given.jobs, given.threads, given.minutes)
    sweep.check(plays=not given.report)
    return sweep, given.report


def main(argv: Sequence[str]) -> int:
    """Runs `agentgym sweep` and returns the exit status.

    It is 1 if a run failed, 124 after the time limit, as of `timeout`, and 128 + a signal.
    """
    sweep, report = read_sweep(argv)
    try:
        failed = [] if report else sweep.play(lambda run, ended: _after(sweep, run, ended))
    except Interrupted as interrupted:
        print(f"Stopped. {CONTINUES}", file=sys.stderr)
        return 128 + int(interrupted.args[0])
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    results, groups = sweep.results(), sweep.groups()
    left = 0 if report else sweep.left()
    if left:  # a signal has raised above
        print(f"Time limit: {left} runs have not ended. {CONTINUES}", file=sys.stderr)
    if left and not results:
        return LATE
    if not results:
        raise ConfigError(f"No run of the sweep in {sweep.folder} has finished.")
    sweep.write()
    print(tables(groups, results))
    print(f"\n{len(results)} of {len(sweep.runs)} runs have finished: {sweep.folder / RESULT}")
    print(try_to_draw(groups, sweep.folder / FIGURE))
    print(f"`agentgym view {shown(sweep.folder)}` shows them with the episodes of each run.")
    return 1 if failed else LATE if left else 0


def _after(sweep: Sweep, run: Run, ended: int) -> None:
    """Prints the result of a run that has ended, and the table of all runs so far."""
    results, text = sweep.results(), sweep.failure(run)
    if run in results:
        found = results[run]
        budget = f"{compact(found.env_steps)} steps, {duration(found.seconds)}"
        text = f"held-out return {number(found.reward)}, {budget}"
    print(f"{ended}/{len(sweep.runs)}  {run.name}: {text}", flush=True)
    if ended < len(sweep.runs):  # the last one is followed by the whole report
        groups = [group for group in sweep.groups() if group.runs or group.notes]
        print(table(compare_groups(groups), caption=False) + "\n", flush=True)
        try_to_draw(groups, sweep.folder / FIGURE)
