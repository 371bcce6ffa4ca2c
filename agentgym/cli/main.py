"""The command line `agentgym` with its commands, from `agentgym list` to `agentgym mcp`."""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import io
import json as json_module
import os
import re
import secrets
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import tyro
from rich.padding import Padding
from rich.text import Text

from agentgym.agents import HumanAgent, Quit, make_agent
from agentgym.agents.basic.human import readable
from agentgym.cli import command_line
from agentgym.cli.catalogue import Description, by_family, find_descriptions
from agentgym.cli.certify_command import run_certification
from agentgym.cli.command_line import (
    BROKEN_PIPE,
    INTERRUPTED,
    WRONG_USE,
    Id,
    KeyValues,
    Wrappers,
    check_repeats,
    standard_output,
)
from agentgym.cli.compare_command import compare
from agentgym.cli.errors import complain, plain_errors
from agentgym.cli.eval_command import run_evaluation
from agentgym.cli.export_command import export
from agentgym.cli.mcp_command import serve_mcp
from agentgym.cli.out_files import check_out_files, check_replaced
from agentgym.cli.plot_command import plot
from agentgym.cli.runs_page import holds_runs, write_pages
from agentgym.cli.serve_command import serve
from agentgym.cli.viewer import render as render_run
from agentgym.errors import (
    AgentGymError,
    ConfigError,
    MissingExtraError,
    did_you_mean,
    with_notes,
)
from agentgym.evaluation.runner import EpisodeRunner, own_wrappers
from agentgym.registration.making import TextGym, make_env, render_modes, tasks_of
from agentgym.tasks import task_rng
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.files import replace_text
from agentgym.utils.printable import printable
from agentgym.version import __version__

TRAIN_PACKAGES = ("torch", "transformers", "accelerate", "peft", "annotated_types", "yaml")

Words = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[WORD ...]", help_behavior_hint="")]
]
Runs = tyro.conf.Positional[
    Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
]


def list_environments(words: Words = (), *, json: bool = False) -> int:
    """List the environments, or those with all the words in their description.

    Through a pipe, each environment is one line: id, kind, turns, extra, verdict of its certificate
    (agentgym certify), summary.

    Args:
        words: Words of an id, a family, or a summary.
        json: As JSON.
    """
    descriptions = find_descriptions(words)
    if json:
        print(json_module.dumps([asdict(d) for d in descriptions], indent=1))
        return 0
    if not command_line.on_terminal():
        print("\n".join(_aligned(descriptions)))
        return 0
    console = standard_output()
    for family, members in by_family(descriptions).items():
        console.print(Text(family, "bold underline"))
        for d in members:
            limit = None if d.max_turns is None else f"{d.max_turns} turns"
            kind = None if d.kind == "single-agent" else d.kind
            extra = d.extra and f"extra {d.extra}"
            verdict = d.certificate and f"certificate {d.certificate}"
            facts = ", ".join(filter(None, [kind, limit, extra, verdict]))
            console.print(Text.assemble("  ", (d.id.partition("/")[2], "bold"), f"  {facts}"))
            console.print(Padding(Text(d.summary), (0, 0, 0, 6)))
    return 0


def _aligned(descriptions: Sequence[Description]) -> list[str]:
    """Returns a line for each environment, its columns padded to equal width."""
    rows = [
        tuple(str(cell or "-") for cell in (d.id, d.kind, d.max_turns, d.extra, d.certificate))
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
        agent: human, expert, random, chat:MODEL@URL, policy:FOLDER, or another agent of eval.
        opponents: Players in the other seats of a multi-agent game: a level of its scripted
            players, policy:FOLDER, chat:MODEL@URL, or human for people who share the keyboard.
        task: Name of the task. By default a training task is sampled by the seed.
        seed: Seed of the episode. By default a new one.
        env_kwargs: Arguments of the environment.
        wrap: Wrappers of the environment, as in eval. By default those of the policy's training.
    """
    console = standard_output()
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


def train(recipe: tyro.conf.Positional[str], /) -> int:
    """Train a policy. `agentgym train RECIPE --help` lists the options.

    Args:
        recipe: Name of the recipe.
    """
    raise AssertionError("`main` hands the rest of the line to the recipe")


def sweep(recipe: tyro.conf.Positional[str], /) -> int:
    """Compare recipes or settings over seeds. `agentgym sweep --help` lists the options.

    Args:
        recipe: Name of the recipe.
    """
    raise AssertionError("`main` hands the rest of the line to the trainers")


def audit(run: tyro.conf.Positional[Path], /) -> int:
    """Compare the credit of a run with exact advantages. `agentgym audit --help` lists the options.

    Args:
        run: Folder of a training run.
    """
    raise AssertionError("`main` hands the rest of the line to the trainers")


def gateway() -> int:
    """Serve a model to programs, and record episodes. `agentgym gateway --help` lists options."""
    raise AssertionError("`main` hands the rest of the line to the trainers")


HANDED_ON = ("train", "sweep", "audit", "gateway")
"""Commands that modules of the trainers parse, which have the same names."""


def _hand_on(command: str, words: list[str]) -> int:
    """Runs a command of the trainers. Without a recipe, `train` lists them."""
    try:
        module = importlib.import_module(f"agentgym.trainers.cli.{command}")
        return module.main(words)
    except ModuleNotFoundError as error:
        if error.name not in TRAIN_PACKAGES:
            raise
        raise MissingExtraError(f"agentgym {command}", "train", error.name) from error


def view_run(
    runs: Runs,
    /,
    *,
    out: Path | None = None,
    last: int | None = None,
) -> int:
    """Write a page with the episodes of a run or evaluation and the credit of every token.

    Several runs are shown side by side. A folder of many runs, such as that of agentgym sweep,
    becomes an index with their table, their figure and a page for each run.

    Args:
        runs: Folders of training runs, or files written by agentgym eval --save or agentgym
            gateway --record.
        out: The file to write. By default view.html in the first folder, or beside the first file.
        last: Show only the last so many trajectories of each.
    """
    if not runs:
        raise ConfigError("Name at least one run: agentgym view RUN.")
    first, console = runs[0], standard_output()
    path = out or (first.with_suffix(".html") if first.is_file() else first / "view.html")
    if any(map(holds_runs, runs)):
        if out is None and not holds_runs(first):  # whose own page is view.html
            path = first / "runs.html" if first.is_dir() else first.with_suffix(".html")
        check_out_files([path], runs)
        check_replaced(path)
        for note in write_pages(runs, path, last):
            console.print(Text(printable(f"note: {note}")), soft_wrap=True)
    else:
        page = render_run(runs, last)
        check_out_files([path], runs)
        check_replaced(path)
        replace_text(path, page)
    console.print(f"Open {path} in a browser.", soft_wrap=True)
    return 0


COMMANDS = {
    "list": list_environments,
    "play": play,
    "eval": run_evaluation,
    "compare": compare,
    "certify": run_certification,
    "train": train,
    "sweep": sweep,
    "audit": audit,
    "plot": plot,
    "view": view_run,
    "export": export,
    "serve": serve,
    "gateway": gateway,
    "mcp": serve_mcp,
}


DESCRIPTION = """\
Text and multi-agent environments for language agents, and their trainer.

Tab completion: agentgym --tyro-print-completion bash (or zsh, tcsh) prints a script."""


def _later(command: Callable[..., int]) -> Callable[..., Callable[[], int]]:
    """Returns a function with the same signature that returns the command to run."""

    @functools.wraps(command)
    def prepare(*args: Any, **kwargs: Any) -> Callable[[], int]:
        return partial(command, *args, **kwargs)

    # tyro would keep the line breaks in the description of an argument.
    command.__doc__ = re.sub(r"\n {8}", " ", inspect.cleandoc(command.__doc__ or ""))
    return prepare


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 0, 2 (wrong use), 130 (interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an environment may say any character
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or not int(columns):  # rich would print nothing in 0 columns
        os.environ.pop("COLUMNS", None)
    if "" not in sys.path:  # `my_module:MyEnv-v0` may be beside the user, as with `python -m`
        sys.path.append("")
    try:
        if words[:1] == ["--version"]:
            print(__version__)
            return 0
        if words and words[0] in HANDED_ON:
            return _hand_on(words[0], words[1:])
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            raise ConfigError(
                f"Unknown command {words[0]!r}.{did_you_mean(words[0], COMMANDS)} "
                f"Known: {', '.join(COMMANDS)}."
            )
        return _parse(words)()
    except KeyboardInterrupt as stop:
        complain("\n".join(["Interrupted.", *getattr(stop, "__notes__", ())]))
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left, as in `agentgym list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if not _users_fault(error):
            raise
        complain(f"error: {with_notes(error)}")
        return WRONG_USE


def _parse(words: Sequence[str]) -> Callable[[], int]:
    """Returns the command of a command line."""
    config = (tyro.conf.DisallowNone,)
    with plain_errors(none=False):
        if words and words[0] in COMMANDS:  # errors and suggestions are those of this command
            name, *rest = words
            check_repeats(rest, _of_several_values(COMMANDS[name]))
            return tyro.cli(
                _later(COMMANDS[name]), prog=f"agentgym {name}", args=rest, config=config
            )
        return tyro.extras.subcommand_cli_from_dict(
            {name: _later(command) for name, command in COMMANDS.items()},
            prog="agentgym",
            description=DESCRIPTION,
            args=words or ["--help"],
            config=config,
        )


def _of_several_values(command: Callable[..., int]) -> list[str]:
    """Returns the names of the options of a command that take any number of values."""
    hints = typing.get_type_hints(command)
    return [name for name, hint in hints.items() if typing.get_args(hint)[1:] == (...,)]


def _users_fault(error: Exception) -> bool:
    """Whether the message is for the user. Anything else is a bug and keeps its traceback."""
    if isinstance(error, (AgentGymError, gymnasium.error.UnregisteredEnv)):
        return True
    full = (errno.ENOSPC, errno.EDQUOT)  # a write names no file
    return isinstance(error, OSError) and (error.filename is not None or error.errno in full)
