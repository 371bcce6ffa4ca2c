"""`TraceFile`: the traces of sessions in a file, one line of JSON per session."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentgym.data.traces import FAULTS
from agentgym.errors import ConfigError, DataError
from agentgym.trainers.gateway.nemo_gym_trace import rollout_id, rollout_row, token_entries
from agentgym.trainers.gateway.openenv_trace import training_trace
from agentgym.trainers.gateway.session import Session
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.traces import TracedCall, read_trace, traced_calls, write_trace
from agentgym.trainers.gateway.verifiers_trace import verifiers_episode
from agentgym.trainers.policy.sampling import Sampling
from agentgym.utils.files import replace_text


class TraceFile:
    """A new file that gets a line for each session with a reply. Any thread may add one.

    Args:
        path: the file.

    Attributes:
        path: the file.
        count: number of lines so far.

    Raises:
        ConfigError: if the file exists, or cannot be written.
    """

    def __init__(self, path: str | Path):
        self.path, self.count = Path(path), 0
        self._lock = threading.Lock()
        try:
            self.path.open("x").close()
        except FileExistsError:
            raise ConfigError(
                f"{str(path)!r} exists: give a new name for the traces, or delete it first."
            ) from None
        except OSError as error:
            raise ConfigError(
                f"The traces cannot be written to {str(path)!r} ({error.strerror}): give a file in "
                "a folder that exists and is writable."
            ) from error

    def add(self, session: Session, task: Task, sampling: Sampling) -> None:
        """Adds a session that has ended, unless it had no reply.

        Args:
            session: the session.
            task: what its program played.
            sampling: its sampling parameters.
        """
        record = session.record
        if not (calls := traced_calls(record)):
            return
        facts = {
            "env": task.env,
            "task": task.task,
            "seed": task.seed,
            "key": list(session.spec.key),
            "model": task.model,
            "sampling": asdict(sampling),
            "success": bool(record.info.get("success", False)),
            "terminated": not record.truncated,
        }
        line = json.dumps(write_trace(calls, facts)) + "\n"
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line)
            self.count += 1


def read_traces(path: str | Path) -> Iterator[tuple[dict[str, Any], list[TracedCall]]]:
    """Yields the facts and the calls of each session of a file of traces.

    Nothing in the file is run.

    Raises:
        DataError: if the file is missing or a line is damaged.
    """
    number = 0
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
            for line in lines:
                number += 1
                if line.strip():
                    facts = json.loads(line)
                    if not isinstance(facts, dict):
                        raise ConfigError(f"Expected an object, got {facts!r:.80}.")
                    yield facts, read_trace(facts)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}, line {number}: no trace ({error!s:.300}). Give a file that the gateway has "
            "recorded, or delete the line."
        ) from error


def export_traces(paths: Iterable[str | Path], format: str, out: Path) -> int:
    """Writes the sessions of files of traces that have a reply with a weight for another project.

    Args:
        paths: files of traces.
        format: "openenv": a `TrainingTrace` per line. "verifiers": an `Episode` per line.
            "nemo-gym": a folder, in which `rollouts.jsonl` has the texts and rewards, and a file
            per session its `TokenEntry`s, as the store of NeMo Gym's token capture names it.
        out: the new file or folder.

    Returns:
        The number of sessions. Nothing is written without any.

    Raises:
        DataError: if a file is missing or a line is damaged.
    """
    writers = {
        "openenv": lambda facts, calls, _: training_trace(calls, facts),
        "verifiers": lambda facts, calls, _: verifiers_episode(calls, facts),
        "nemo-gym": lambda facts, calls, number: rollout_row(calls, facts, number),
    }
    rows: list[dict[str, Any]] = []
    tokens: list[list[dict[str, Any]]] = []
    for path in paths:
        for facts, calls in read_traces(path):
            if not any(call.weight for call in calls):
                continue
            number = len(rows)
            try:
                rows.append(writers[format](facts, calls, number))
                if format == "nemo-gym":
                    tokens.append(token_entries(calls, facts, number))
            except FAULTS as error:
                raise DataError(
                    f"{path}: a trace is damaged ({error!r:.200}). Record it again, or delete its "
                    "line."
                ) from error
    if rows and format == "nemo-gym":
        out.mkdir()
        for number, entries in enumerate(tokens):
            _write(out / f"{rollout_id(number)}.tokens.jsonl", entries)
        _write(out / "rollouts.jsonl", rows)
    elif rows:
        _write(out, rows)
    return len(rows)


def _write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    replace_text(file, "".join(json.dumps(row) + "\n" for row in rows))
