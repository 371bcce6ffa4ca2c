"""`agentgym eval`: agents play many tasks, and a table compares them."""

from __future__ import annotations

import importlib.util
import json as json_module
import math
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from agentgym.agents import KINDS, Agent, HumanAgent, NoExpertError, make_agent
from agentgym.cli.command_line import INTERRUPTED, KeyValues, Wrappers, standard_output
from agentgym.cli.cross_play import show_cross_play
from agentgym.cli.eval_output import (
    ProgressLines,
    Usages,
    other_arguments,
    tell_apart,
    write_json,
)
from agentgym.cli.judging import Judgements, Judges
from agentgym.cli.out_files import check_out_files, check_replaced, result_path
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.evaluation.difficulty import difficulty_lines
from agentgym.evaluation.report import Report, compare, failure_lines
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.suites import SUITES, Suite, available, summary
from agentgym.evaluation.transcripts import read_saved
from agentgym.registration.entry import import_module_of
from agentgym.registration.making import full_id
from agentgym.registration.registry import REGISTRY
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.masking import masked
from agentgym.utils.printable import printable

Plan = tuple[str, Agent, dict[str, Any]]
"""An environment, an agent and the arguments of `evaluate`."""
Ids = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ID ...]", help_behavior_hint="")]
]


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
    suite: Literal["core", "balrog", "agentboard", "agentbench"] | None = None,
    env_kwargs: KeyValues = (),
    env_seconds: float | None = None,
    wrap: Wrappers = (),
    agent_kwargs: KeyValues = (),
    model: str | None = None,
    price: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="IN OUT")] = None,
    json: Path | None = None,
    picture: Path | None = None,
    save: Path | None = None,
    resume: bool = False,
    judge: Judges = (),
) -> int:
    """Let agents play many tasks and compare them.

    A suite takes a while with the default of 200 episodes: --episodes 8 is a quick look.

    Args:
        envs: Ids of environments, such as WebShop-v0. your_module:YourEnv-v0 imports a module.
        agent: One or more of random, expert, human, chat:MODEL@URL, policy:FOLDER, model:NAME (a
            language model before training), harness:COMMAND (a program of your own, answered by
            --model), planners: search:best_first, search:astar, search:beam or search:mcts, and
            scaffolds that wrap another agent: reflexion, plan_execute, plan_refine, rci, adapt,
            examples, cases, rules or instructions, as in reflexion:AGENT.
            Options follow the name: search:mcts,budget=64,value=progress.
        agents: Cross-play in one multi-agent game: every agent plays every other one, and itself,
            in all seats with the same deals. One or more of the game's levels and of the agents
            of --agent, and league:FOLDER (the average policy of a run).
        nashconv: With --agents, also compute NashConv of each agent, for small games.
        episodes: Episodes per agent and environment. With --agents: deals per line-up.
        split: Tasks to play: train, test (held out), or both, one after the other.
        num_envs: Episodes played at the same time. A human plays one after the other.
        seed: Seed of the evaluation: samples the tasks and seeds the episodes.
        suite: All environments of a suite. core: those without an extra. balrog, agentboard,
            agentbench: those that are like the environments of these benchmarks, with a summary.
            Those of a missing extra are left out.
        env_kwargs: Arguments of the environments.
        env_seconds: Maximum seconds of a reset or a step of an environment. A slower one truncates
            its episode, which counts as failed (default: no limit).
        wrap: Wrappers of the environments, the first one innermost: names of agentgym.wrappers or
            module:Class, with arguments as in HistoryObservation:k=4,keep_first=true. By default
            those that a policy was trained with, and none for other agents.
        agent_kwargs: Arguments of the agents, such as temperature=0.7 history=4.
        model: Model that answers the program of --agent harness:COMMAND: folder of a run, or a
            Hugging Face id or folder.
        price: Prices per million prompt tokens and completion tokens of a served model, to show the
            cost.
        json: Write the reports, with every episode, to this file, in place of earlier ones.
        picture: With --agents, draw the matrix of returns as a heat map in this file, such as
            matrix.png.
        save: Write transcripts to this new file, one line of JSON per finished episode. agentgym
            view shows them.
        resume: Continue the evaluation whose episodes are in --save, if the file exists.
        judge: Judge of the finished episodes, beside the outcome of the environment:
            chat:MODEL@URL, policy:FOLDER, module:function, or a model with the criteria of a file,
            rubric=FILE:chat:MODEL@URL. Several are a jury.
    """
    ids = list(dict.fromkeys(_id(word) for word in envs))  # --save holds an episode once
    # Absolute, as an environment may change the working folder.
    json, picture, save = (path and path.absolute() for path in (json, picture, save))
    if agents or nashconv or picture:
        other = suite or wrap or agent_kwargs or resume or price or split == "both" or env_seconds
        other = other or judge or agent != ("random",)
        _check_cross_play(ids, agents, nashconv, picture, other=bool(other))
        _check_files(json, save, resume, picture, cross_play=True)
        return show_cross_play(
            ids[0],
            agents,
            console=standard_output(),
            exact=nashconv,
            json=json,
            picture=picture,
            episodes=episodes,
            split=split,
            num_games=num_envs,
            seed=seed,
            env_kwargs=parse_arguments(env_kwargs),
            save=save,
        )
    notes: list[str] = []
    if suite:
        members, notes = available(SUITES[suite].ids)
        ids += [id for id in members if id not in ids]
    if not ids:
        raise ConfigError("Name at least one environment (see `agentgym list`), or a --suite.")
    if not agent:
        raise ConfigError("Name at least one agent, such as --agent random expert.")
    options = parse_arguments(agent_kwargs)
    if model is not None and not any(map(_is_program, agent)):
        raise ConfigError(
            "--model answers a program: name one with --agent harness:COMMAND. A model alone is "
            "written --agent policy:FOLDER or model:NAME."
        )
    # Before agents and judges, which may load models.
    arguments = parse_arguments(env_kwargs) | ({"wrap": list(wrap)} if wrap else {})
    command = {"envs": ids, "agents": list(agent), "episodes": episodes, "split": split}
    command |= {"seed": seed, "env_kwargs": arguments, "agent_kwargs": options}
    command |= {} if model is None else {"model": model}
    _check_files(json, save, resume)
    if resume and save is not None:
        _check_resumed(save, command)
    if price is not None and not all(0 <= each < math.inf for each in price):
        first, second = price
        raise ConfigError(f"price must be at least 0 and finite, got {first:g} and {second:g}.")
    judgements = Judgements(judge)
    players = [make_agent(spec, **options | _model_of(spec, model)) for spec in agent]
    tell_apart(players, agent)
    notes += [
        line for id in ids for each in players for line in other_arguments(each, id, arguments)
    ]
    settings = {"tasks": episodes, "num_envs": num_envs, "seed": seed, "env_kwargs": arguments}
    settings |= {"resume": resume, "env_seconds": env_seconds}
    with judgements.transcripts(save) as file:
        settings |= {"save": file}
        plan = [
            (id, player, settings | {"split": s, "settings": {**command, "agent": spec}})
            for id in ids
            for s in (("train", "test") if split == "both" else (split,))
            for spec, player in zip(agent, players, strict=True)
        ]
        chosen = SUITES[suite] if suite else None
        return _run(plan, Usages(price), judgements, json, save, chosen, notes)


def _is_program(spec: str) -> bool:
    return spec.startswith("harness:")


def _model_of(spec: str, model: str | None) -> dict[str, Any]:
    """Returns the model of an agent that is a program, as its option."""
    return {"model": model} if _is_program(spec) and model is not None else {}


def _id(word: str) -> str:
    """Returns the full id of an environment, whose module is imported if it names one."""
    try:
        id = full_id(word)
        import_module_of(id)
    except ConfigError as error:
        if re.split("[:,]", word)[0] in {kind.partition(":")[0] for kind in KINDS}:
            raise ConfigError(f"{error} An agent goes to --agent.") from error
        raise
    return id


def _run(
    plan: list[Plan],
    usages: Usages,
    judgements: Judgements,
    json: Path | None,
    save: Path | None,
    suite: Suite | None,
    notes: list[str],
) -> int:
    """Evaluates agents in environments and shows the reports. Returns the exit status."""
    reports: list[Report] = []
    whole = False
    try:
        _evaluate_all(plan, reports, notes, usages)
        judgements.read(reports)
        whole = not any(report.interrupted for report in reports)
    finally:  # the finished episodes are kept after any error
        notes += usages.lines() + judgements.lines()
        if suite is not None:
            notes += summary(suite, reports)
        if save is not None and any(report.interrupted for report in reports):
            notes.append(f"The same command with --resume continues from {save}.")
        if json is not None:
            json = result_path(json, whole=whole) if reports or whole else None
        _show(reports, notes, json, usages, judgements)
    return INTERRUPTED if reports and reports[-1].interrupted else 0


def _check_cross_play(
    ids: list[str], agents: tuple[str, ...], nashconv: bool, picture: Path | None, *, other: bool
) -> None:
    """Raises a ConfigError for a cross-play that cannot be played.

    Args:
        ids: environments, which must be one game.
        agents: agents, at least one.
        nashconv: whether exact values are computed.
        picture: file of the picture.
        other: whether there are options that a cross-play does not take.
    """
    if other or len(ids) != 1:
        raise ConfigError(
            "--agents plays one game on one split: name one id, without --agent, --suite, --wrap, "
            "--agent-kwargs, --env-seconds, --price, --resume, --judge and --split both."
        )
    if ids[0] in REGISTRY and not REGISTRY[ids[0]].multi_agent:
        raise ConfigError(f"{ids[0]} is a single-agent environment: use --agent, not --agents.")
    if not agents:
        flag = "--nashconv" if nashconv else "--picture"
        raise ConfigError(f"{flag} needs --agents, such as --agents equilibrium.")
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--picture must end in .png, .svg or .pdf, got {str(picture)!r}.")
    if picture is not None and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("A picture", "train", "matplotlib")


def _check_resumed(save: Path, command: dict[str, Any]) -> None:
    """Raises a ConfigError if a file holds episodes of an evaluation with other settings."""
    now = masked(json_module.loads(json_module.dumps(command)))
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
    plan: list[Plan],
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

    if isinstance(agent, HumanAgent):
        settings = settings | {"num_envs": 1}
    report = evaluate(id, agent, **settings, on_episode=on_episode)
    if not report.episodes:
        reports.append(report)
    return report


def _check_files(
    json: Path | None,
    save: Path | None,
    resume: bool,
    picture: Path | None = None,
    *,
    cross_play: bool = False,
) -> None:
    """Finds out before the episodes, rather than after them, that a file cannot be written."""
    check_out_files((json, save, picture))
    check_replaced(json, "env", "matches" if cross_play else "episodes")
    check_replaced(picture)
    if json is not None and save is not None and json.resolve() == save.resolve():
        raise ConfigError(f"--json and --save both name {str(json)!r}: give two names.")
    if resume and save is None:
        raise ConfigError("--resume continues the evaluation in a file: name it with --save.")
    if save is not None and save.exists() and not resume:
        raise ConfigError(
            f"{str(save)!r} exists: add --resume to continue the evaluation in it, give a new "
            "name, or delete it first."
        )


def _show(
    reports: list[Report],
    notes: list[str],
    json: Path | None,
    usages: Usages,
    judgements: Judgements,
) -> None:
    if json is not None:  # before the table, whose reader may have left
        rows = [
            report.to_json() | usages.to_json(report) | judgements.to_json(report)
            for report in reports
        ]
        write_json(json, rows)
    if reports:
        standard_output().print(compare(reports))
    for note in failure_lines(reports) + difficulty_lines(reports) + notes:
        standard_output().print(Text(printable(note)))
