"""The command `agentgym`: list | play | eval | train | view | docs."""

from __future__ import annotations

import errno
import importlib
import io
import json as json_module
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium
import tyro
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

import agentgym
from agentgym.agents import Agent, HumanAgent, NoExpertError, Quit, make_agent
from agentgym.cli.catalogue import describe
from agentgym.cli.viewer import render as render_run
from agentgym.errors import AgentGymError, ConfigError, MissingExtraError
from agentgym.evaluation.report import Report, compare
from agentgym.evaluation.runner import EpisodeRunner, evaluate, full_id, make_env, tasks_of
from agentgym.registration import TABLE
from agentgym.tasks import task_rng
from agentgym.utils.arguments import parse_arguments

INTERRUPTED = 130
WRONG_USE = 2
BROKEN_PIPE = 141
WIDE = 110
"""Columns that the table of environments needs."""
TRAIN_PACKAGES = ("torch", "transformers", "accelerate", "peft", "yaml")

KeyValues = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")
]
Id = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ID")]]
Ids = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ID ...]", help_behavior_hint="")]
]


def list_environments(*, json: bool = False) -> int:
    """List the environments.

    Args:
        json: As JSON.
    """
    descriptions = [describe(entry) for entry in TABLE]
    if json:
        print(json_module.dumps([asdict(d) for d in descriptions], indent=1))
        return 0
    console = _console()
    if console.width < WIDE:
        for d in descriptions:
            limit = "no limit" if d.max_turns is None else f"{d.max_turns} turns"
            facts = ", ".join(filter(None, [d.kind, limit, d.extra and f"extra {d.extra}"]))
            console.print(Text.assemble((d.id.partition("/")[2], "bold"), f"  {facts}"))
            console.print(Padding(Text(d.summary), (0, 0, 0, 4)))
        return 0
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    table.add_column("kind")
    table.add_column("turns", justify="right")
    table.add_column("what it is")
    table.add_column("extra")
    for d in descriptions:
        limit = "-" if d.max_turns is None else str(d.max_turns)
        name, kind = d.id.partition("/")[2], d.kind.removesuffix("-agent")
        table.add_row(name, kind, limit, Text(d.summary), d.extra or "")
    console.print(table)
    return 0


def play(
    env: Id,
    /,
    *,
    agent: str = "human",
    task: str | None = None,
    seed: int | None = None,
    env_kwargs: KeyValues = (),
) -> int:
    """Play an episode in the terminal, or watch an agent play it.

    Args:
        env: Id of the environment, such as WebShop-v0; your_module:YourEnv-v0 imports yours first.
        agent: human, expert, random, chat:MODEL@URL or policy:FOLDER.
        task: Name of the task; by default a training task is drawn by the seed.
        seed: Seed of the episode; by default a new one.
        env_kwargs: Arguments of the environment.
    """
    console = _console()
    seed = secrets.randbelow(2**31) if seed is None else seed
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, got {seed}.")
    player = make_agent(agent)
    world = make_env(env, **parse_arguments(env_kwargs) | {"render_mode": "ansi"})
    if task is None:
        pool = tasks_of(world).train
        task = str(pool[int(task_rng("play", str(seed)).integers(len(pool)))])
    episode = EpisodeRunner(world, task, seed)
    # A picture may show what the player must not know: who plays sees the observations.
    if human := isinstance(player, HumanAgent):
        player.console = console
    console.print(Text(f"{env}  task {task}  seed {seed}", "bold"))
    if not human:
        console.print(Text(f"\n{episode.view.instructions}\n", "dim"))
        console.print(Text(str(world.render())))
    try:
        over = False
        while not over:
            [action] = player.act([episode.view])
            over = episode.play(action)
            if not human:
                console.print(Text(f"> {action}", "bold green"))
                console.print(Text(str(world.render())))
    except Quit:
        console.print("You left.")
        return 0
    finally:
        world.close()
    if human:
        console.print(Text(episode.view.observation))
    console.print(_summary(episode))
    return 0


def _summary(episode: EpisodeRunner) -> Text:
    record = episode.record()
    end = "the game ended" if record.terminated else "no turns left"
    turns = f"{record.turns} turn{'s' * (record.turns != 1)}"
    lines = [
        f"\n{'Solved' if record.success else 'Not solved'} after {turns} ({end}).",
        f"reward {record.reward:g}, progress {100 * record.progress:.0f} %, "
        f"valid actions {100 * record.valid:.0f} %",
    ]
    if len(record.reward_terms) > 1:
        terms = ", ".join(f"{name} {value:g}" for name, value in record.reward_terms.items())
        lines.append(f"reward terms: {terms}")
    return Text("\n".join(lines), "bold" if record.success else "")


def run_evaluation(
    envs: Ids = (),
    /,
    *,
    agent: Annotated[tuple[str, ...], tyro.conf.arg(metavar="AGENT [AGENT ...]")] = ("random",),
    episodes: int = 200,
    split: Literal["train", "test", "both"] = "test",
    num_envs: int = 16,
    seed: int = 0,
    suite: Literal["core"] | None = None,
    env_kwargs: KeyValues = (),
    agent_kwargs: KeyValues = (),
    json: Path | None = None,
    save: Path | None = None,
) -> int:
    """Let agents play many tasks and compare them.

    Args:
        envs: Ids of environments, such as WebShop-v0; your_module:YourEnv-v0 imports yours first.
        agent: One or more of random, expert, human, chat:MODEL@URL, policy:FOLDER.
        episodes: How many tasks each agent plays in each environment.
        split: Which tasks: train, test (held out), or both, one after the other.
        num_envs: How many episodes are played side by side.
        seed: Seed of the evaluation: draws the tasks and seeds the episodes.
        suite: All environments of a suite; core: those that need no extra.
        env_kwargs: Arguments of the environments.
        agent_kwargs: Arguments of the agents, such as temperature=0.7 history=4.
        json: Write the reports, with every episode, to this file.
        save: Write whole transcripts to this new file, a line of JSON an episode, as they finish.
    """
    ids = [full_id(id) for id in envs]
    if suite == "core":
        ids += [entry.id for entry in TABLE if entry.extra is None and entry.id not in ids]
    if not ids:
        raise ConfigError("Name at least one environment (see `agentgym list`), or --suite core.")
    if not agent:
        raise ConfigError("Name at least one agent, such as --agent random expert.")
    options = parse_arguments(agent_kwargs)
    agents = [make_agent(spec, **options) for spec in agent]
    settings = {
        "tasks": episodes,
        "num_envs": num_envs,
        "seed": seed,
        "env_kwargs": parse_arguments(env_kwargs),
        "save": save,
    }
    _check_files(json, save)
    reports: list[Report] = []
    notes: list[str] = []
    try:
        splits = ("train", "test") if split == "both" else (split,)
        plan = [(id, a, settings | {"split": s}) for id in ids for s in splits for a in agents]
        _evaluate_all(plan, reports, notes)
    finally:  # whatever stopped it, what was found is not lost
        _show(reports, notes, json)
    return INTERRUPTED if reports and reports[-1].interrupted else 0


def _evaluate_all(
    plan: list[tuple[str, Agent, dict[str, Any]]],
    reports: list[Report],
    notes: list[str],
) -> None:
    """Evaluates agents in environments in turn until one is interrupted."""
    asked = any(isinstance(agent, HumanAgent) for _, agent, _ in plan)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=asked or not sys.stderr.isatty(),
    )
    with bars:
        for id, agent, settings in plan:
            bar = bars.add_task(f"{id} {agent.name}", total=settings["tasks"])
            report = None
            try:
                report = _evaluate_one(id, agent, settings, reports, partial(bars.advance, bar))
            except NoExpertError as error:
                if len(plan) == 1:
                    raise
                if f"{error}." not in notes:
                    notes.append(f"{error}.")
            bars.remove_task(bar)
            if report is not None and report.interrupted:
                return


def _evaluate_one(
    id: str,
    agent: Agent,
    settings: dict[str, Any],
    reports: list[Report],
    advance: Callable[[], None],
) -> Report:
    """Evaluates an agent; its report is among the reports from its first episode on."""

    def on_episode(report: Report) -> None:
        if not reports or reports[-1] is not report:
            reports.append(report)
        advance()

    report = evaluate(id, agent, **settings, on_episode=on_episode)
    if not report.episodes:
        reports.append(report)
    return report


def _check_files(json: Path | None, save: Path | None) -> None:
    """Finds out before the episodes, rather than after them, that a file cannot be written."""
    for path in (json, save):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"There is no folder {str(path.parent)!r} to write {path.name} to.")
        if path is not None and path.is_dir():
            raise ConfigError(f"{str(path)!r} is a folder; expected the name of a file.")
        if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ConfigError(f"There is no permission to write {str(path)!r}.")
    if json is not None and save is not None and json.resolve() == save.resolve():
        raise ConfigError(f"--json and --save both name {str(json)!r}: give two names.")
    if save is not None and save.exists():
        raise ConfigError(f"{str(save)!r} exists: give a new name, or delete it first.")


def _show(reports: list[Report], notes: list[str], json: Path | None) -> None:
    if reports:
        _console().print(compare(reports))
    for note in notes:
        _console().print(Text(note))
    if json is not None:
        text = json_module.dumps([report.to_json() for report in reports], indent=1)
        json.write_text(text + "\n", encoding="utf-8")


def train(recipe: tyro.conf.Positional[str], /) -> int:
    """Train a policy: `agentgym train RECIPE --help` says how.

    Args:
        recipe: Name of the recipe.
    """
    raise AssertionError("`main` hands the rest of the line to the recipe")


def _train(words: list[str]) -> int:
    """Hands `agentgym train [RECIPE] ...` on; without a recipe the trainers list theirs."""
    try:
        return importlib.import_module("agentgym.trainers.run.cli").main(words)
    except ModuleNotFoundError as error:
        if error.name not in TRAIN_PACKAGES:
            raise
        raise MissingExtraError("agentgym train", "train", error.name) from error


def view_run(
    run: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]],
    /,
    *,
    out: Path | None = None,
    last: int | None = None,
) -> int:
    """Write a page that shows a run's trajectories and the credit of every token.

    Args:
        run: Folder of a training run.
        out: The file to write; by default view.html in that folder.
        last: Show the last so many trajectories only.
    """
    path = run / "view.html" if out is None else out
    path.write_text(render_run(run, last), encoding="utf-8")
    _console().print(f"Open {path} in a browser.", soft_wrap=True)
    return 0


COMMANDS = {
    "list": list_environments,
    "play": play,
    "eval": run_evaluation,
    "train": train,
    "view": view_run,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 0, 2 (wrong use), 130 (interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an environment may say any character
            stream.reconfigure(errors="backslashreplace")
    if "" not in sys.path:  # `my_module:MyEnv-v0` may be beside the user, as with `python -m`
        sys.path.append("")
    try:
        if words[:1] == ["--version"]:
            print(agentgym.__version__)
            return 0
        if words[:1] == ["train"]:
            return _train(words[1:])
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="agentgym",
            description="Text and multi-agent environments for language agents, and their trainer.",
            args=words or ["--help"],
            config=(tyro.conf.DisallowNone,),
        )
    except KeyboardInterrupt:
        _complain("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left, as in `agentgym list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if not _users_fault(error):
            raise
        _complain(f"Error: {error}")
        return WRONG_USE


def _users_fault(error: Exception) -> bool:
    """Whether the message is for the user; anything else is a bug and keeps its traceback."""
    if isinstance(error, (AgentGymError, gymnasium.error.UnregisteredEnv)):
        return True
    full = (errno.ENOSPC, errno.EDQUOT)  # a write names no file
    return isinstance(error, OSError) and (error.filename is not None or error.errno in full)


def _complain(message: str) -> None:
    Console(stderr=True, highlight=False).print(Text(message, "red"), soft_wrap=True)


def _console() -> Console:
    """Returns standard output; a pipe or a file has no width that lines would have to fit."""
    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if fits else 160)
