"""`agentgym export`: episodes as training data of other projects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from agentgym.agents import Agent, make_agent
from agentgym.agents.text_model import MODELS
from agentgym.cli.command_line import KeyValues, Wrappers, standard_output
from agentgym.cli.judging import Judges
from agentgym.cli.kept_episodes import kept_after_errors
from agentgym.cli.out_files import check_new_file
from agentgym.data.episode import RecordedEpisode, judged_episodes
from agentgym.data.reading import read_episodes
from agentgym.data.writing import WRITERS
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.evaluation.imagined import PREFIX, imagined
from agentgym.evaluation.reflection import instructed, reflected
from agentgym.evaluation.repair import conditioned, learnable, relabelled, repaired, traced
from agentgym.evaluation.runner import evaluate
from agentgym.integrations.hub import write_hub_folder
from agentgym.integrations.minari import create_dataset
from agentgym.judges import Judge, make_judge
from agentgym.registration.ids import TABLE
from agentgym.registration.making import full_id, make_env, split_id
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.files import replace_text

TRACES = ("openenv", "verifiers", "nemo-gym")
"""Formats of traces."""

Sources = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ID|RUN|FILE ...]", help_behavior_hint="")]
]


def export(
    sources: Sources = (),
    /,
    *,
    out: Path,
    format: Literal[
        "chat",
        "sharegpt",
        "preferences",
        "own",
        "minari",
        "hub",
        "openenv",
        "verifiers",
        "nemo-gym",
    ] = "chat",
    agent: Annotated[tuple[str, ...], tyro.conf.arg(metavar="AGENT [AGENT ...]")] = ("expert",),
    episodes: int = 200,
    split: Literal["train", "test"] = "train",
    seed: int = 0,
    num_envs: int = 16,
    suite: Literal["core"] | None = None,
    failures: Literal["keep", "repair", "hindsight", "trace", "condition"] = "keep",
    reflector: str = "",
    successes: bool = False,
    min_reward: float | None = None,
    env_kwargs: KeyValues = (),
    wrap: Wrappers = (),
    judge: Judges = (),
) -> int:
    """Write episodes as training data: one line of JSON per episode, or per pair.

    agentgym train bc --data FILE learns from the file. --format hub writes a trained policy.

    Args:
        sources: Ids of environments, which --agent plays, folders of training runs, or files that
            agentgym eval --save, agentgym export or another project has written.
        out: The new file. Of format minari, the id of the new dataset, of format hub a folder.
        format: chat (OpenAI, TRL), sharegpt, preferences (the best episode of a task and seed
            against the worse ones: name several agents), own (as agentgym eval --save), or minari.
            hub: the best policy of a run on held-out tasks, with a model card, as a folder for the
            Hugging Face Hub. RUN/policy is the last one. Traces of agentgym gateway are written
            with their tokens, openenv: a TrainingTrace of OpenEnv per line, verifiers: an Episode
            of verifiers per line, nemo-gym: a folder of rollouts and TokenEntrys of NeMo Gym.
        agent: One or more of expert, random, chat:MODEL@URL, policy:FOLDER. imagined:MODEL, such as
            imagined:chat:MODEL@URL: a model writes both sides of each episode, and nothing is
            played. imagined:texts=FOLDER:MODEL: each episode does what a text tells, such as a
            tutorial.
        episodes: Episodes per agent and environment.
        split: Tasks to play.
        seed: Samples the tasks and seeds the episodes.
        num_envs: Episodes played at the same time.
        suite: All environments of a suite that have an expert. core: those without an extra.
        failures: repair: the expert continues a failed episode from the last state from which it
            still succeeds, and the actions before are masked. hindsight: a failed episode gets the
            goal that it achieved, in environments whose goal can be set. Those that remain failed
            are left out. Pairs of format preferences keep them, as the worse episodes. trace:
            examples for a model that names the decisive turn of failed episodes, and nothing else.
            condition: the instructions of every episode end with its outcome, as with the wrapper
            Outcome.
        reflector: Language model (chat:MODEL@URL, policy:FOLDER, model:NAME). With --failures
            repair, it takes the place of the expert: it names the turn with the mistake, writes
            advice, and plays on with it. With hindsight, it writes the goal that an episode
            achieved, in any environment, as a task of the wrapper WrittenGoal.
        successes: Leave out episodes that do not solve their task.
        min_reward: Leave out episodes with a lower return.
        env_kwargs: Arguments of the environments.
        wrap: Wrappers of the environments, as in eval.
        judge: Judge of the episodes, as in eval. Its scores, from 0 to 1, are in the data, and take
            the place of returns for the pairs of format preferences and for --min-reward. Where no
            rewards are known, a score is the reward of the last action, too, and in imagined
            episodes it tells the success. Episodes without a readable verdict are left out.
    """
    if format != "minari":
        check_new_file(out)
    if format == "hub":
        if len(sources) != 1 or suite:
            raise ConfigError(f"--format hub takes the folder of one run, got {len(sources)}.")
        source = Path(sources[0])
        taken = write_hub_folder(source, out)
        best = taken == source / "best"
        why = f", the best one on held-out tasks ({source / 'policy'} is the last)," if best else ""
        text = f"The policy {taken}{why} and its model card are in {out}."
        standard_output().print(text, soft_wrap=True)
        return 0
    if format in TRACES:
        return _export_traces(sources, out, format)
    if failures != "keep" and any(each.startswith(PREFIX) for each in agent):
        raise ConfigError(
            f"--failures {failures} needs the outcome of an environment, and nothing is played in "
            "imagined episodes: leave it out."
        )
    replays = failures in ("repair", "hindsight")
    if reflector and not (replays and reflector.startswith(MODELS)):
        raise ConfigError(
            "--reflector takes chat:MODEL@URL, policy:FOLDER or model:NAME and needs --failures "
            f"repair or hindsight, got {reflector!r} and --failures {failures}."
        )
    judges = make_judge(*judge) if judge else None
    given = [*sources, *(_with_expert() if suite else ())]
    if not given:
        raise ConfigError("Name at least one environment, run or file, or --suite core.")
    settings: dict[str, Any] = {"tasks": episodes, "split": split, "seed": seed}
    settings |= {"num_envs": num_envs}
    kwargs = parse_arguments(env_kwargs) | ({"wrap": list(wrap)} if wrap else {})
    with kept_after_errors("name {} in place of what was played.") as folder:
        # All sources and agents, before the first episode is played.
        resolved = [_read(Path(each)) if Path(each).exists() else _named(each) for each in given]
        plays = any(isinstance(each, str) for each in resolved)
        players = [_player(spec) for spec in agent] if plays else []
        found: list[RecordedEpisode] = []
        for each in resolved:
            if isinstance(each, str):
                each = _play(each, players, kwargs, settings, folder)
            found += each
        found = judged_episodes(found)
        if failures == "condition":
            found = [conditioned(each) for each in found]
        elif failures != "keep":
            _check_decided([each for each in found if each.env], f"--failures {failures}")
            failed = [each for each in found if not each.success]
            make = {"repair": repaired, "hindsight": relabelled, "trace": traced}[failures]
            if reflector:
                by_model = {"repair": reflected, "hindsight": instructed}[failures]
                make = partial(by_model, source=reflector)
            better = learnable(failed, make, kwargs)
            shown = f"{len(better)} of {len(failed)} failed episodes can be used ({failures})."
            standard_output().print(shown)
            keeps = failures != "trace"
            found = [each for each in found if keeps and (each.success or format == "preferences")]
            found += better
        if judges is not None:
            found = _judged(found, judges)
        if successes:
            _check_decided(found, "--successes")
        kept = [
            each
            for each in found
            if (each.success or not successes) and (min_reward is None or each.value >= min_reward)
        ]
        if format == "minari" and kept:
            create_dataset(out.as_posix(), kept, kwargs)
            standard_output().print(f"{len(kept)} episodes in the dataset {out.as_posix()}.")
            return 0
        rows = list(WRITERS[format](kept)) if kept else []
        if not rows:
            raise ConfigError(
                f"Nothing to write: none of the {len(found)} episodes remain, or no two of them "
                "have the same task and seed and different returns."
            )
        replace_text(out, "".join(json.dumps(row) + "\n" for row in rows))
        standard_output().print(
            f"{len(rows)} lines of {len(kept)} episodes in {out}.", soft_wrap=True
        )
        return 0


def _export_traces(sources: Sequence[str], out: Path, format: str) -> int:
    """Writes traces of the gateway in the format of another project."""
    try:
        found = import_module("agentgym.trainers.gateway.trace_file")
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"--format {format}", "train", error.name) from error
    if not sources:
        raise ConfigError("Name at least one file that agentgym gateway --record has written.")
    count = found.export_traces(sources, format, out)
    if not count:
        raise ConfigError("Nothing to write: no trace has a reply with a weight.")
    standard_output().print(f"{count} traces in {out}.", soft_wrap=True)
    return 0


def _judged(episodes: Sequence[RecordedEpisode], judge: Judge) -> list[RecordedEpisode]:
    """Returns the episodes with a readable verdict, with their scores."""
    verdicts = judge(episodes) if episodes else []
    for episode, verdict in zip(episodes, verdicts, strict=True):
        episode.judged = verdict.score
        if not episode.rewarded and verdict.score is not None:
            episode.turns[-1].reward, episode.rewarded = verdict.score, True
            if episode.agent.startswith(PREFIX):  # others may have a recorded outcome
                episode.success, episode.decided = bool(verdict.success), True
    found = [episode for episode in episodes if episode.judged is not None]
    shown = f"{len(found)} of {len(episodes)} episodes have a readable verdict of {judge.name}."
    standard_output().print(shown, soft_wrap=True)
    return found


def _check_decided(episodes: Sequence[RecordedEpisode], option: str) -> None:
    """Raises a ConfigError for episodes whose outcome is unknown, which are no failures."""
    if unknown := sum(not episode.decided for episode in episodes):
        raise ConfigError(
            f"{option} needs outcomes, and {unknown} of {len(episodes)} episodes hold no outcome: "
            "add `success`, true or false, to their lines, or leave it out."
        )


def _with_expert() -> list[str]:
    """Returns the ids of the core suite that have an expert."""
    found = []
    for entry in TABLE:
        if entry.extra is None:
            env = make_env(entry.id)
            env.reset(seed=0)
            if env.get_wrapper_attr("expert")() is not None:
                found.append(entry.id)
            env.close()
    return found


def _named(source: str) -> str:
    """Returns the id of an environment. There is no file or folder of this name."""
    try:
        return full_id(source)
    except ConfigError as error:
        raise ConfigError(f"There is no file or folder {source!r}. {error}") from error


def _player(spec: str) -> Agent | str:
    """Returns an agent, or the model that writes episodes."""
    return spec.removeprefix(PREFIX) if spec.startswith(PREFIX) else make_agent(spec)


def _play(
    id: str,
    players: Sequence[Agent | str],
    kwargs: dict[str, Any],
    settings: dict[str, Any],
    folder: Path,
) -> list[RecordedEpisode]:
    """Plays episodes of an environment with each of the agents, and keeps them in a folder."""
    found = []
    for player in players:
        if isinstance(player, str):
            found += _imagine(id, player, kwargs, settings)
            continue
        file = folder / f"{len([*folder.iterdir()])}.jsonl"
        report = evaluate(id, player, env_kwargs=kwargs, save=file, **settings)
        if report.interrupted:
            raise KeyboardInterrupt
        found += read_episodes([file])
    return found


def _imagine(
    id: str, source: str, kwargs: dict[str, Any], settings: dict[str, Any]
) -> list[RecordedEpisode]:
    """Returns episodes that a model writes."""
    chosen = {name: settings[name] for name in ("tasks", "split", "seed")}
    found = imagined(id, source, env_kwargs=kwargs, **chosen)
    shown = f"{len(found)} of {settings['tasks']} imagined episodes can be read."
    standard_output().print(shown)
    return found


def _read(path: Path) -> list[RecordedEpisode]:
    """Returns the episodes of a file or a run, with instructions."""
    found = read_episodes([path])
    if all(episode.instructions is not None for episode in found):
        return found
    config = (path if path.is_dir() else path.parent) / "config.json"
    try:
        run = json.loads(config.read_text(encoding="utf-8"))["config"]
        ids, kwargs = run["env_id"], {**run.get("env_kwargs", {}), "wrap": run.get("wrap", [])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{path} holds no instructions, and the settings of its run cannot be read "
            f"({error!r}): give the folder of the run."
        ) from error
    mixed = isinstance(ids, list) and len(ids) > 1
    envs = {}
    for name in dict.fromkeys(episode.env for episode in found):
        id, own = split_id(name)
        envs[name] = make_env(id, **kwargs | own)
    for episode in found:
        if mixed:  # a task of a mixture is named "environment task"
            episode.task = episode.task.partition(" ")[2]
        episode.env_kwargs = kwargs
        episode.complete(envs[episode.env])
    for env in envs.values():
        env.close()
    return found
