"""The command `agentgym`: list | play | eval | train | view | docs."""

from __future__ import annotations

import errno
import functools
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
from agentgym.agents.human import readable
from agentgym.cli.catalogue import Description, describe
from agentgym.cli.cross_play import show_cross_play
from agentgym.cli.errors import complain, plain_errors
from agentgym.cli.eval_output import ProgressLines, Usages, tell_apart
from agentgym.cli.viewer import render as render_run
from agentgym.errors import AgentGymError, ConfigError, MissingExtraError
from agentgym.evaluation.report import Report, compare
from agentgym.evaluation.runner import EpisodeRunner, evaluate, own_wrappers, read_saved
from agentgym.making import TextGym, full_id, make_env, render_modes, tasks_of
from agentgym.registration import TABLE
from agentgym.tasks import task_rng
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.printable import printable

INTERRUPTED = 130
WRONG_USE = 2
BROKEN_PIPE = 141
WIDE = 110
"""Columns that the table of environments needs."""
TRAIN_PACKAGES = ("torch", "transformers", "accelerate", "peft", "yaml")

KeyValues = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")
]
Wrappers = Annotated[
    tuple[str, ...],
    tyro.conf.arg(metavar="[NAME[:ARG=VALUE,...] ...]", help_behavior_hint=""),
]
Id = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ID")]]
Runs = tyro.conf.Positional[
    Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
]
Ids = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ID ...]", help_behavior_hint="")]
]


def list_environments(*, json: bool = False) -> int:
    """List the environments.

    Through a pipe, each environment is one line: id, kind, turns, extra, summary.

    Args:
        json: As JSON.
    """
    descriptions = [describe(entry) for entry in TABLE]
    if json:
        print(json_module.dumps([asdict(d) for d in descriptions], indent=1))
        return 0
    if not _on_terminal():
        print("\n".join(_aligned(descriptions)))
        return 0
    console = _console()
    if console.width < WIDE:
        for d in descriptions:
            limit = None if d.max_turns is None else f"{d.max_turns} turns"
            facts = ", ".join(filter(None, [d.kind, limit, d.extra and f"extra {d.extra}"]))
            console.print(Text.assemble((d.id.partition("/")[2], "bold"), f"  {facts}"))
            console.print(Padding(Text(d.summary), (0, 0, 0, 4)))
        return 0
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    table.add_column("kind")
    table.add_column("turns", justify="right")
    table.add_column("summary")
    table.add_column("extra")
    for d in descriptions:
        limit = "-" if d.max_turns is None else str(d.max_turns)
        name, kind = d.id.partition("/")[2], d.kind.removesuffix("-agent")
        table.add_row(name, kind, limit, Text(d.summary), d.extra or "")
    console.print(table)
    return 0


def _aligned(descriptions: Sequence[Description]) -> list[str]:
    """Returns a line for each environment, its columns padded to equal width."""
    rows = [
        (d.id, d.kind, "-" if d.max_turns is None else str(d.max_turns), d.extra or "-")
        for d in descriptions
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*map(str.ljust, row, widths), " ".join(d.summary.split())])
        for row, d in zip(rows, descriptions, strict=True)
    ]


def play(
    env: Id,
    /,
    *,
    agent: str = "human",
    opponents: str | None = None,
    task: str | None = None,
    seed: int | None = None,
    env_kwargs: KeyValues = (),
    wrap: Wrappers = (),
) -> int:
    """Play an episode in the terminal, or watch an agent play it.

    While playing, help shows the rules and the commands, quit leaves, a number chooses a listed
    action, and Tab completes actions.

    Args:
        env: Id of the environment, such as WebShop-v0. your_module:YourEnv-v0 imports a module.
        agent: human, expert, random, chat:MODEL@URL or policy:FOLDER.
        opponents: Players in the other seats of a multi-agent game: a level of its scripted
            players, policy:FOLDER, chat:MODEL@URL, or human for people who share the keyboard.
        task: Name of the task. By default a training task is sampled by the seed.
        seed: Seed of the episode. By default a new one.
        env_kwargs: Arguments of the environment.
        wrap: Wrappers of the environment, as in eval. By default those of the policy's training.
    """
    console = _console()
    seed = secrets.randbelow(2**31) if seed is None else seed
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, got {seed}.")
    player = make_agent(agent)
    others: dict[str, Any] = {} if opponents is None else {"opponents": opponents}
    if shared := opponents == "human":
        others = {"opponents": HumanAgent(console, shared=True)}
    ansi = {"render_mode": "ansi"} if "ansi" in render_modes(env) else {}
    wrappers = {"wrap": list(wrap)} if wrap else own_wrappers(player)
    world = make_env(env, **wrappers | parse_arguments(env_kwargs) | others | ansi)
    tasks = tasks_of(world)
    if task is None:
        pool = tasks.train
        task = str(pool[int(task_rng("play", str(seed)).integers(len(pool)))])
    episode = EpisodeRunner(world, task, seed)
    # A rendered picture may reveal hidden state: a human player sees observations only.
    if human := isinstance(player, HumanAgent):
        player.console, player.shared = console, shared
    console.print(Text(printable(f"{env}  task {task}  seed {seed}"), "bold"))
    if not human:
        console.print(Text(f"\n{printable(episode.view.instructions)}\n", "dim"))
        console.print(_picture(world, episode))
    try:
        over = False
        while not over:
            [action] = player.act([episode.view])
            over = episode.play(action)
            if not human:
                console.print(Text(printable(f"> {action}"), "bold green"))
                console.print(_picture(world, episode))
    except Quit:
        console.print("You left.")
        return 0
    finally:
        world.close()
    if human:
        console.print(Text(readable(episode.view.observation)))
    console.print(_summary(episode))
    return 0


def _picture(world: TextGym, episode: EpisodeRunner) -> Text:
    return Text(readable(str(world.render()), episode.view.info["admissible"]))


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
    agents: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="[AGENT ...]", help_behavior_hint="")
    ] = (),
    nashconv: bool = False,
    episodes: int = 200,
    split: Literal["train", "test", "both"] = "test",
    num_envs: int = 16,
    seed: int = 0,
    suite: Literal["core"] | None = None,
    env_kwargs: KeyValues = (),
    wrap: Wrappers = (),
    agent_kwargs: KeyValues = (),
    price: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="IN OUT")] = None,
    json: Path | None = None,
    save: Path | None = None,
    resume: bool = False,
) -> int:
    """Let agents play many tasks and compare them.

    The core suite has 96 ids: with the default of 200 episodes, random and expert take about 5
    minutes per split on one core. --episodes 8 is a quick look.

    Args:
        envs: Ids of environments, such as WebShop-v0. your_module:YourEnv-v0 imports a module.
        agent: One or more of random, expert, human, chat:MODEL@URL, policy:FOLDER.
        agents: Cross-play in one multi-agent game: every agent plays every other one, and itself,
            in all seats with the same deals. One or more of the game's levels, expert,
            chat:MODEL@URL, policy:FOLDER.
        nashconv: With --agents, also compute NashConv of each agent, for small games.
        episodes: Episodes per agent and environment. With --agents: deals per line-up.
        split: Tasks to play: train, test (held out), or both, one after the other.
        num_envs: Episodes played at the same time.
        seed: Seed of the evaluation: samples the tasks and seeds the episodes.
        suite: All environments of a suite. core: those without an extra.
        env_kwargs: Arguments of the environments.
        wrap: Wrappers of the environments, the first one innermost: names of agentgym.wrappers or
            module:Class, with arguments as in HistoryObservation:k=4,keep_first=true. By default
            those that a policy was trained with, and none for other agents.
        agent_kwargs: Arguments of the agents, such as temperature=0.7 history=4.
        price: Prices per million prompt tokens and completion tokens of a served model, to show the
            cost.
        json: Write the reports, with every episode, to this file.
        save: Write transcripts to this new file, one line of JSON per finished episode. agentgym
            view shows them.
        resume: Continue the evaluation whose episodes are in --save, if the file exists.
    """
    ids = [full_id(id) for id in envs]
    if agents or nashconv:
        if suite or wrap or agent_kwargs or resume or price or split == "both" or len(ids) != 1:
            raise ConfigError(
                "--agents plays one game on one split: name one id, without --suite, --wrap, "
                "--agent-kwargs, --price, --resume and --split both."
            )
        if not agents:
            raise ConfigError("--nashconv needs --agents, such as --agents equilibrium.")
        _check_files(json, save, resume)
        return show_cross_play(
            ids[0],
            agents,
            console=_console(),
            exact=nashconv,
            json=json,
            episodes=episodes,
            split=split,
            num_games=num_envs,
            seed=seed,
            env_kwargs=parse_arguments(env_kwargs),
            save=save,
        )
    if suite == "core":
        ids += [entry.id for entry in TABLE if entry.extra is None and entry.id not in ids]
    if not ids:
        raise ConfigError("Name at least one environment (see `agentgym list`), or --suite core.")
    if not agent:
        raise ConfigError("Name at least one agent, such as --agent random expert.")
    options = parse_arguments(agent_kwargs)
    players = [make_agent(spec, **options) for spec in agent]
    tell_apart(players, agent)
    settings = {
        "tasks": episodes,
        "num_envs": num_envs,
        "seed": seed,
        "env_kwargs": parse_arguments(env_kwargs) | ({"wrap": list(wrap)} if wrap else {}),
        "save": save,
        "resume": resume,
    }
    command = {
        "envs": ids,
        "agents": list(agent),
        "episodes": episodes,
        "split": split,
        "seed": seed,
        "env_kwargs": settings["env_kwargs"],
        "agent_kwargs": options,
    }
    _check_files(json, save, resume)
    if price is not None and min(price) < 0:
        raise ConfigError(f"price must be at least 0, got {price[0]:g} and {price[1]:g}.")
    if resume and save is not None:
        _check_resumed(save, command)
    reports: list[Report] = []
    notes: list[str] = []
    usages = Usages(price)
    try:
        plan = [
            (id, player, settings | {"split": s, "settings": {**command, "agent": spec}})
            for id in ids
            for s in (("train", "test") if split == "both" else (split,))
            for spec, player in zip(agent, players, strict=True)
        ]
        _evaluate_all(plan, reports, notes, usages)
    finally:  # the finished episodes are kept after any error
        notes += usages.lines()
        if save is not None and any(report.interrupted for report in reports):
            notes.append(f"The same command with --resume continues from {save}.")
        _show(reports, notes, json, usages)
    return INTERRUPTED if reports and reports[-1].interrupted else 0


def _check_resumed(save: Path, command: dict[str, Any]) -> None:
    """Raises a ConfigError if a file holds episodes of an evaluation with other settings."""
    now = json_module.loads(json_module.dumps(command))
    for line in read_saved(save):
        before = line.get("settings")
        before = before if isinstance(before, dict) else {}
        different = [
            f"  {name}: {before.get(name)!r} -> {value!r}"
            for name, value in now.items()
            if before.get(name) != value
        ]
        if different:
            raise ConfigError(
                f"The evaluation in {str(save)!r} has other settings. It can only be continued "
                "with the same ones:\n" + "\n".join(different)
            )


def _evaluate_all(
    plan: list[tuple[str, Agent, dict[str, Any]]],
    reports: list[Report],
    notes: list[str],
    usages: Usages,
) -> None:
    """Evaluates agents in environments in turn until one is interrupted."""
    asked = any(isinstance(agent, HumanAgent) for _, agent, _ in plan)
    lines = None if asked or sys.stderr.isatty() else ProgressLines(sys.stderr)
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
            name = f"{id} {agent.name}"
            bar = bars.add_task(name, total=settings["tasks"])
            advance = partial(bars.advance, bar)
            if lines is not None:
                advance = lines.start(name, settings["tasks"])
            report = None
            try:
                with usages.of(agent, reports):
                    report = _evaluate_one(id, agent, settings, reports, advance)
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
    """Evaluates an agent. Its report is among the reports from its first episode on."""

    def on_episode(report: Report) -> None:
        if not reports or reports[-1] is not report:
            reports.append(report)
        advance()

    report = evaluate(id, agent, **settings, on_episode=on_episode)
    if not report.episodes:
        reports.append(report)
    return report


def _check_files(json: Path | None, save: Path | None, resume: bool) -> None:
    """Finds out before the episodes, rather than after them, that a file cannot be written."""
    for path in (json, save):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"There is no folder {str(path.parent)!r} to write {path.name} to.")
        if path is not None and path.is_dir():
            raise ConfigError(f"{str(path)!r} is a folder. Expected the name of a file.")
        if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ConfigError(f"There is no permission to write {str(path)!r}.")
    if json is not None and save is not None and json.resolve() == save.resolve():
        raise ConfigError(f"--json and --save both name {str(json)!r}: give two names.")
    if resume and save is None:
        raise ConfigError("--resume continues the evaluation in a file: name it with --save.")
    if save is not None and save.exists() and not resume:
        raise ConfigError(
            f"{str(save)!r} exists: add --resume to continue the evaluation in it, give a new "
            "name, or delete it first."
        )


def _show(reports: list[Report], notes: list[str], json: Path | None, usages: Usages) -> None:
    if reports:
        _console().print(compare(reports))
    for note in notes:
        _console().print(Text(printable(note)))
    if json is not None:
        found = [report.to_json() | usages.to_json(report) for report in reports]
        text = json_module.dumps(found, indent=1, allow_nan=False)
        json.write_text(text + "\n", encoding="utf-8")


def train(recipe: tyro.conf.Positional[str], /) -> int:
    """Train a policy. `agentgym train RECIPE --help` lists the options.

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
    runs: Runs,
    /,
    *,
    out: Path | None = None,
    last: int | None = None,
) -> int:
    """Write a page with the episodes of a run or evaluation and the credit of every token.

    Several runs are shown side by side.

    Args:
        runs: Folders of training runs, or files written by agentgym eval --save.
        out: The file to write. By default view.html in the first folder, or beside the first file.
        last: Show only the last so many trajectories of each.
    """
    page = render_run(runs, last)
    first = runs[0]
    path = out or (first.with_suffix(".html") if first.is_file() else first / "view.html")
    path.write_text(page, encoding="utf-8")
    _console().print(f"Open {path} in a browser.", soft_wrap=True)
    return 0


COMMANDS = {
    "list": list_environments,
    "play": play,
    "eval": run_evaluation,
    "train": train,
    "view": view_run,
}


DESCRIPTION = """\
Text and multi-agent environments for language agents, and their trainer.

Tab completion: agentgym --tyro-print-completion bash (or zsh, tcsh) prints a script."""


def _later(command: Callable[..., int]) -> Callable[..., Callable[[], int]]:
    """Returns a function with the same signature that returns the command to run."""

    @functools.wraps(command)
    def prepare(*args: Any, **kwargs: Any) -> Callable[[], int]:
        return partial(command, *args, **kwargs)

    return prepare


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
        with plain_errors():
            command = tyro.extras.subcommand_cli_from_dict(
                {name: _later(command) for name, command in COMMANDS.items()},
                prog="agentgym",
                description=DESCRIPTION,
                args=words or ["--help"],
                config=(tyro.conf.DisallowNone,),
            )
        return command()
    except KeyboardInterrupt:
        complain("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left, as in `agentgym list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if not _users_fault(error):
            raise
        complain(f"error: {error}")
        return WRONG_USE


def _users_fault(error: Exception) -> bool:
    """Whether the message is for the user. Anything else is a bug and keeps its traceback."""
    if isinstance(error, (AgentGymError, gymnasium.error.UnregisteredEnv)):
        return True
    full = (errno.ENOSPC, errno.EDQUOT)  # a write names no file
    return isinstance(error, OSError) and (error.filename is not None or error.errno in full)


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _console() -> Console:
    """Returns standard output. A pipe or a file is 160 columns wide unless COLUMNS is set."""
    fits = _on_terminal() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if fits else 160)
