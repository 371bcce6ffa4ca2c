"""`read_evaluation`: the records of an evaluation, from the files of `agentgym eval`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Record
from agentgym.utils.json_lines import whole_lines
from agentgym.utils.serialization import from_json

Evaluation = dict[str, dict[tuple[str, int], Record]]
"""Records by environment (with its arguments), and by task and seed."""
HEADER = ("env", "env_kwargs", "agent")


def read_evaluation(path: Path) -> Evaluation:
    """Returns the records of an evaluation of one agent.

    Args:
        path: a file of `agentgym eval --save` or `--json`, or a folder of them.

    Raises:
        ConfigError: if a file is missing, holds anything else, several agents, or an episode twice.
    """
    files = sorted(each for each in path.glob("*.json*") if each.is_file())
    if path.is_dir() and not files:
        raise ConfigError(
            f"The folder {str(path)!r} holds no .jsonl or .json file of an evaluation."
        )
    found: Evaluation = {}
    agents: set[str] = set()
    for file in files if path.is_dir() else [path]:
        for header, record in _records(file):
            agents.add(str(header["agent"]))
            episodes = found.setdefault(_environment(header), {})
            if len(agents) > 1:
                raise ConfigError(
                    f"{str(path)!r} holds episodes of several agents, "
                    f"{' and '.join(sorted(agents))}. Expected one: evaluate each agent with a "
                    "--save of its own."
                )
            if (record.task, record.seed) in episodes:
                raise ConfigError(
                    f"{str(path)!r} holds task {record.task!r} with seed {record.seed} twice. "
                    "Expected the episodes of one evaluation."
                )
            episodes[record.task, record.seed] = record
    if not found:
        raise ConfigError(f"{str(path)!r} holds no episode.")
    return found


def _environment(header: Mapping[str, Any]) -> str:
    """Returns the id with its arguments. Wrappers belong to the agent: they may differ."""
    kwargs = header["env_kwargs"]
    words = [f"{name}={json.dumps(kwargs[name])}" for name in sorted(kwargs) if name != "wrap"]
    return " ".join((str(header["env"]).removeprefix("AgentGym/"), *words))


def _records(file: Path) -> Iterator[tuple[Mapping[str, Any], Record]]:
    """Yields the records of a file, each with its environment, arguments and agent."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(file)!r} cannot be read as text: {error}.") from error
    try:
        if text.lstrip().startswith("["):
            for report in json.loads(text):
                header = _header(report)
                yield from ((header, from_json(Record, each)) for each in report["episodes"])
        else:
            for line in whole_lines(text):
                if line.strip():
                    row = json.loads(line)
                    yield _header(row), from_json(Record, row)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{str(file)!r} is not an evaluation: expected a file of agentgym eval --save or "
            f"--json ({error!r:.200})."
        ) from error


def _header(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the environment, its arguments and the agent of a row."""
    header = {name: row[name] for name in HEADER}
    if not isinstance(header["env_kwargs"], dict):
        raise TypeError(f"expected env_kwargs as an object, got {header['env_kwargs']!r:.80}")
    return header
