"""`agentgym view`: episodes, actions and the credit of every token, as one page of HTML.

The page shows training runs and saved evaluations, one or several side by side, with a board that
compares them (`agentgym.evaluation.index_page`). It holds its data, its style and its script, and
needs no server and no network.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.cli.audit_overlay import add_exact
from agentgym.data.reading import is_trace, read_episodes
from agentgym.data.writing import own_rows
from agentgym.errors import ConfigError
from agentgym.evaluation.index_page import board
from agentgym.utils.masking import masked
from agentgym.utils.printable import encodable

TEMPLATE = Path(__file__).with_name("viewer.html")

Fields = Mapping[str, type | tuple[type, ...]]

_TRAJECTORY: Fields = {
    "iteration": int,
    "env": str,
    "task": str,
    "turns": list,
    "last_observation": str,
}
_TURN: Fields = {
    "observation": str,
    "action": str,
    "tokens": list,
    "free": list,
    "logprobs": list,
    "advantages": list,
    "estimators": dict,
}
_EPISODE: Fields = {
    "env": str,
    "agent": str,
    "task": str,
    "transcript": list,
    "last_observation": str,
}
_PLAYED: Fields = {"observation": str, "action": str}
_OPTIONAL: Fields = {"seed": int, "seat": str, "at_limit": bool}
_OPTIONAL_OF_TURN: Fields = {"admissible": list, "progress": (int, float)}
_METRICS: Fields = {"env_steps": (int, float)}
_SHOWN = (
    "agentgym view shows folders of runs, and files of agentgym eval --save (not of --json), "
    "agentgym export --format own and agentgym gateway --record."
)


def render(source: Path | Sequence[Path], last: int | None = None) -> str:
    """Returns the page of one or several sources.

    Args:
        source: folders of training runs, with `trajectories.jsonl`, `metrics.jsonl` and
            `config.json`, and files written by `agentgym eval --save` or `agentgym gateway`.
        last: show the last so many trajectories of each only. None: all.

    Raises:
        ConfigError: if there are no trajectories to show, or a file is damaged.
    """
    if last is not None and last < 1:
        raise ConfigError(f"last must be at least 1, got {last}.")
    sources = [source] if isinstance(source, Path) else list(source)
    if not sources:
        raise ConfigError("Name at least one run, such as runs/demo.")
    runs = [_evaluation(path, last) if _saved(path) else _run(path, last) for path in sources]
    _name(runs, sources)
    # "</script>" inside a text must not end the element that holds it.
    page = {"runs": runs, "board": board(_groups(runs))}
    text = json.dumps(page, separators=(",", ":"), allow_nan=False)
    title = " and ".join(f"{run['label']} on {run['env']}" for run in runs)
    title = encodable(title)
    before, _, after = TEMPLATE.read_text(encoding="utf-8").partition("__DATA__")
    before = before.replace("__TITLE__", html.escape(title))
    return before + text.replace("<", "\\u003c") + after


def _saved(path: Path) -> bool:
    """Whether a path is a file of saved episodes rather than a run."""
    return path.is_file() and path.name != "trajectories.jsonl"


def _run(folder: Path, last: int | None) -> dict[str, Any]:
    """Returns the data of a training run."""
    folder = folder.parent if folder.is_file() else folder
    path = folder / "trajectories.jsonl"
    if not folder.exists():
        raise ConfigError(f"There is no file or folder {str(folder)!r} to show.")
    found = _lines(path)
    if not found:
        raise ConfigError(
            f"{path} is not there or empty: nothing to show. Give the folder of a training run "
            "(runs/...) that was started with --transcripts above 0, or a file that agentgym eval "
            "--save has written."
        )
    for trajectory in found:
        _check(path, trajectory, _TRAJECTORY, _OPTIONAL)
        for turn in trajectory["turns"]:
            _check(path, turn, _TURN, _OPTIONAL_OF_TURN)
    metrics = _lines(folder / "metrics.jsonl")
    for line in metrics:
        _check(folder / "metrics.jsonl", line, _METRICS, {})
    _drop_doubles(found)
    add_exact(folder, found)
    trajectories = _numbered(found, "iteration", last)
    iterations = len({line["group"] for line in trajectories})
    return {
        "name": folder.resolve().name,
        "label": _settings(folder / "config.json").get("recipe", "credit"),
        "env": found[0]["env"].removeprefix("AgentGym/"),
        "grouping": "iteration",
        "summary": f"{len(trajectories)} trajectories of {_count(iterations, 'iteration')}",
        "instructions": [],
        "trajectories": trajectories,
        "curve": [
            {
                "env_steps": line["env_steps"],
                "train": line.get("rollout/return"),
                "held_out": line.get("eval/reward"),
            }
            for line in metrics
        ],
    }


def _episodes(path: Path) -> list[dict[str, Any]]:
    """Returns the episodes of a file, checked."""
    found = _lines(path)
    if not found:
        raise ConfigError(f"{path} is empty: nothing to show.")
    if is_trace(found[0]):
        found = list(own_rows(read_episodes([path])))
    for episode in found:
        _check(path, episode, _EPISODE, _OPTIONAL)
        for turn in episode["transcript"]:
            _check(path, turn, _PLAYED, _OPTIONAL_OF_TURN)
    return found


def _evaluation(path: Path, last: int | None) -> dict[str, Any]:
    """Returns the data of a file of saved episodes."""
    try:
        found = _episodes(path)
    except ConfigError as error:
        raise ConfigError(f"{error} {_SHOWN}") from error
    instructions: dict[str, int] = {}
    for episode in found:
        text = str(episode.pop("instructions", ""))
        episode["instructions"] = instructions.setdefault(text, len(instructions))
        episode["turns"] = [
            turn
            | {
                "alternatives": [[text, None] for text in turn.pop("admissible", None) or ()]
                or None
            }
            for turn in episode.pop("transcript")
        ]
    trajectories = _numbered(found, "agent", last)
    agents = list(dict.fromkeys(str(line["group"]) for line in trajectories))
    envs = list(dict.fromkeys(line["env"].removeprefix("AgentGym/") for line in trajectories))
    return {
        "name": path.name,
        "label": ", ".join(agents),
        "env": ", ".join(envs[:3]) + ", ..." * (len(envs) > 3),
        "grouping": "agent",
        "summary": f"{len(trajectories)} episodes of {_count(len(agents), 'agent')}",
        "instructions": list(instructions),
        "trajectories": trajectories,
        "curve": [],
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _numbered(lines: list[dict[str, Any]], group: str, last: int | None) -> list[dict[str, Any]]:
    """Returns the last trajectories, each with its group and its place in it."""
    counts: dict[Any, int] = {}
    _number_games(lines)
    for line in lines:
        line["group"] = line[group]
        line["index"] = counts[line["group"]] = counts.get(line["group"], -1) + 1
    return lines if last is None else lines[-last:]


def _number_games(lines: Sequence[dict[str, Any]]) -> None:
    """Gives the trajectories of the seats of one game, which follow each other, its number."""
    game, last, seats = -1, None, set()
    for line in lines:
        if not (seat := line.get("seat")):
            continue
        this = [line.get(name) for name in ("iteration", "env", "task", "seed", "players")]
        if this != last or seat in seats:
            game, last, seats = game + 1, this, set()
        seats.add(seat)
        line["game"] = game


def _groups(runs: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Returns the trajectories by environment and run, those of evaluations by agent too.

    An environment with other arguments, or another split, is another environment. The link of a
    trajectory is [run, group, index], as in the address of the page.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        for line in run["trajectories"]:
            name = run["name"]
            if run["grouping"] == "agent":
                name = line["group"] + f" ({name})" * (len(runs) > 1)
            linked = line | {"link": [run["name"], line["group"], line["index"]]}
            found.setdefault((_setting(line), name), []).append(linked)
    return found


def _setting(line: Mapping[str, Any]) -> str:
    """Returns the environment of an episode with its arguments and its split, unless test."""
    kwargs = masked(line.get("env_kwargs"))
    given = kwargs.items() if isinstance(kwargs, dict) else ()
    words = [f"{name}={json.dumps(value)}" for name, value in given]
    words += ["(training tasks)"] * (line.get("split") == "train")
    return " ".join([line["env"].removeprefix("AgentGym/"), *words])


def _drop_doubles(trajectories: Sequence[dict[str, Any]]) -> None:
    """Removes estimators that equal the run's own advantages everywhere."""
    turns = [turn for trajectory in trajectories for turn in trajectory["turns"]]
    names = {name for turn in turns for name in turn["estimators"]}
    for name in names:
        if all(turn["estimators"].get(name) == turn["advantages"] for turn in turns):
            for turn in turns:
                del turn["estimators"][name]


def _name(runs: Sequence[dict[str, Any]], sources: Sequence[Path]) -> None:
    """Makes the names of runs different: by the folders above, then by a number."""
    names = [run["name"] for run in runs]
    for i, (run, source) in enumerate(zip(runs, sources, strict=True)):
        if names.count(run["name"]) > 1:
            above = f"{source.resolve().parent.name}/{names[i]}"
            taken = [other["name"] for other in runs[:i]]
            run["name"] = f"{above} ({i + 1})" if above in taken else above


def _lines(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a JSONL file, without a last line that is incomplete."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is damaged: it is not UTF-8 text ({error}).") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(
                line, parse_constant=lambda _: None, parse_float=_finite, parse_int=_integer
            )
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # still being written
                break
            raise ConfigError(f"{path} is damaged in line {number}: {error}.") from error
        if not isinstance(value, dict):
            raise ConfigError(
                f"{path} is damaged in line {number}: expected an object, "
                f"got {type(value).__name__}."
            )
        found.append(value)
    return found


def _finite(text: str) -> float | None:
    """Parses a number. JavaScript's JSON has neither NaN nor infinities."""
    number = float(text)
    return number if math.isfinite(number) else None


def _integer(text: str) -> int | None:
    """Parses an integer. JavaScript's numbers end near 1e308."""
    return int(text) if _finite(text) is not None else None


def _check(path: Path, value: Any, fields: Fields, optional: Fields) -> None:
    """Raises a ConfigError if a value is not an object with the given fields.

    Args:
        path: the file that the value is from.
        value: the value.
        fields: the fields it must have, with their types.
        optional: the types of fields that may be missing or null.
    """
    known = value if isinstance(value, dict) else {}
    given = {name: kind for name, kind in optional.items() if known.get(name) is not None}
    for name, kind in {**fields, **given}.items():
        if not isinstance(known.get(name), kind):
            raise ConfigError(
                f"{path} is damaged or was written by an older version: the field {name!r} is "
                "missing or of another type."
            )


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
