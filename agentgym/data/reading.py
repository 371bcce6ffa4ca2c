"""`read_episodes`: episodes from files of chats, of ShareGPT, AgentInstruct and AgentGym.

Each line of a file is a JSON object, and its keys decide about the format:

- `messages`: a chat in the format of OpenAI and TRL, with `role` and `content`.
- `conversations`: ShareGPT, with `from` and `value`. The keys of both may be mixed up.
- `prompt` and `completion`: texts or lists of messages (TRL). Replies in the prompt are masked.
- `instruction`, `input` and `output`, with earlier pairs in `history` (Alpaca).
- `transcript`: an episode of `agentgym eval --save` or `agentgym export --format own`.
- `turns`: a trajectory of a training run (`trajectories.jsonl`).
- `text`: plain text, as the reply to an empty observation.
- `calls`: a trace of `agentgym gateway --record`, with an episode for each of its conversations.
- traces of verifiers, OpenEnv and NeMo Gym, likewise (`agentgym.data.foreign_traces`).

In messages, `weight`, `loss` and `train` mask a reply if they are 0 or false. A call of a tool
(`tool_calls`, `function_call`) is read as JSON with a name and arguments. `system` and `tools`
beside the messages become part of the system prompt.

A file may also be a JSON list of such objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.foreign_traces import foreign_chats, is_foreign
from agentgym.data.messages import (
    OTHERS,
    SYSTEM,
    Message,
    read_messages,
    string,
    system_texts,
)
from agentgym.data.traces import FAULTS, trace_chats
from agentgym.data.traces import FORMAT as TRACE
from agentgym.errors import DataError
from agentgym.time_step import UNJUDGED

LOG = "trajectories.jsonl"
"""The log of a training run."""
SHOWN = 5
"""Rows of a file that an error names."""


def read_episodes(paths: str | Path | Sequence[str | Path]) -> list[RecordedEpisode]:
    """Returns the episodes of files, in order.

    Args:
        paths: one or several files, or folders of training runs, which stand for their
            `trajectories.jsonl`.

    Raises:
        DataError: if a file is missing, has no episodes, or holds anything else.
    """
    found = []
    for file in _files(paths):
        before = len(found)
        found += _episodes(file)
        if len(found) == before:
            raise DataError(f"{file} has no episodes.")
    return found


def check_episodes(paths: str | Path | Sequence[str | Path]) -> None:
    """Reads files whole, but keeps no episode, to find wrong ones early.

    Args:
        paths: as in `read_episodes`.

    Raises:
        DataError: if a file is missing, has no episodes, or holds anything else.
    """
    for file in _files(paths):
        if not sum(1 for _ in _episodes(file)):
            raise DataError(f"{file} has no episodes.")


def _files(paths: str | Path | Sequence[str | Path]) -> Iterator[Path]:
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        yield path / LOG if path.is_dir() else path


def _episodes(file: Path) -> Iterator[RecordedEpisode]:
    """Yields the episodes of a file. An error at its end names the rows that are none."""
    lines: list[str] = []
    count = 0
    for where, row in _rows(file):
        try:
            found = [_episode(each) for each in _chats(row)]
        except FAULTS as error:  # which is not kept: its traceback holds the row
            count += 1
            if len(lines) < SHOWN:
                lines.append(f"{file}, {where}: not an episode ({_reason(error)}).")
        else:
            yield from found
    if count:
        more = f" And {count - SHOWN} more." if count > SHOWN else ""
        each = "it" if count == 1 else "each"
        raise DataError(f"{chr(10).join(lines)}{more} Correct {each} or delete {each}.")


def _reason(error: Exception) -> str:
    """Returns why a row is no episode."""
    text = f"it has no key {error}" if isinstance(error, KeyError) else str(error) or repr(error)
    return f"{text:.300}"


def is_trace(row: Mapping[str, Any]) -> bool:
    """Whether a row holds the calls of a program, by its keys."""
    if row.get("format") == TRACE or "responses_create_params" in row:
        return True
    return is_foreign(row) and not any(key in row for key in FORMATS if key != "turns")


def _chats(row: Any) -> list[Any]:
    """Returns a row, or the conversations of a trace."""
    if not isinstance(row, dict) or not is_trace(row):
        return [row]
    return trace_chats(row) if row.get("format") == TRACE else foreign_chats(row)


def _rows(file: Path) -> Iterator[tuple[str, Any]]:
    """Yields the place and the JSON object of each episode."""
    where = ""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if not where and line.lstrip().startswith("["):
                    where = "the list"
                    rows = json.loads(line + lines.read())
                    yield from ((f"entry {i}", row) for i, row in enumerate(rows, 1))
                elif line.strip():
                    where = f"line {number}"
                    try:
                        row = json.loads(line)
                    except ValueError:
                        if file.name == LOG and not line.endswith("\n"):
                            return  # the run was killed while it wrote, or still writes
                        raise
                    yield where, row
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as text: {error}.") from error
    except (ValueError, RecursionError) as error:
        message = f"{file}, {where}: not JSON, one object per line: {error!s:.200}."
        raise DataError(message) from error


def _episode(row: Any) -> RecordedEpisode:
    if not isinstance(row, dict):
        raise TypeError(f"expected an object, got {row!r:.80}")
    # Tables that were joined have the columns of all formats, and null in those of the others.
    given = [key for key in FORMATS if row.get(key) is not None] or [*FORMATS]
    for key, read in FORMATS.items():
        if key in row and key in given:
            episode = read(row)
            if not episode.turns:
                raise ValueError("it has no reply of the agent")
            for turn in episode.turns:
                numbers = turn.reward, turn.progress, turn.weight, *turn.reward_terms.values()
                if not all(map(math.isfinite, numbers)):
                    raise ValueError(f"expected finite numbers, got {numbers}")
                if turn.weight < 0:
                    raise ValueError(f"expected a weight of at least 0, got {turn.weight}")
            return episode
    if "chosen" in row and "rejected" in row:
        raise ValueError("pairs of chosen and rejected replies are no episodes: export as chat")
    known = ", ".join(FORMATS)
    raise ValueError(f"expected one of the keys {known}, got {', '.join(row)!s:.100}")


def _chat(row: Mapping[str, Any]) -> RecordedEpisode:
    return _dialogue(read_messages(row["messages"]), row)


def _sharegpt(row: Mapping[str, Any]) -> RecordedEpisode:
    return _dialogue(read_messages(row["conversations"]), row)


def _completion(row: Mapping[str, Any]) -> RecordedEpisode:
    """Reads a prompt and its completion, each a text or a list of messages. Prompts are masked."""
    messages = [Message(m.role, m.text, 0.0) for m in _side(row["prompt"], "user")]
    return _dialogue([*messages, *_side(row["completion"], "assistant")], row)


def _side(value: Any, role: str) -> list[Message]:
    return [Message(role, value)] if isinstance(value, str) else read_messages(value)


def _instruction(row: Mapping[str, Any]) -> RecordedEpisode:
    """Reads an instruction with its input and output, and earlier pairs of them."""
    messages = []
    for asked, answer in row.get("history") or ():
        messages += [Message("user", string(asked)), Message("assistant", string(answer))]
    parts = [string(row["instruction"]), string(row.get("input") or "")]
    messages.append(Message("user", "\n\n".join(part for part in parts if part)))
    return _dialogue([*messages, Message("assistant", string(row["output"]))], row)


def _boolean(value: Any) -> bool:
    """Returns a truth value that is one: the text "false" would be read as true."""
    if value not in (0, 1):
        raise ValueError(f"expected true or false, got {value!r:.80}")
    return bool(value)


def _name(value: Any) -> str:
    if not isinstance(value, str | int):
        raise TypeError(f"expected a name, got {value!r:.80}")
    return str(value)


def _seed(value: Any) -> int:
    seed = int(value)
    if seed < 0 or (isinstance(value, float) and seed != value):
        raise ValueError(f"expected a seed of at least 0, got {value!r:.80}")
    return seed


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of texts, got {value!r:.80}")
    return tuple(map(string, value))


def _share(value: Any) -> float:
    if not 0 <= (share := float(value)) <= 1:
        raise ValueError(f"expected a score in [0, 1], got {value!r:.80}")
    return share


def _reward_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of rewards, got {value!r:.80}")
    return value


def _dialogue(messages: Sequence[Message], row: Mapping[str, Any]) -> RecordedEpisode:
    """Returns the episode of messages, with the facts that AgentGym adds to a row."""
    instructions = system_texts(row)
    waiting: list[str] = []
    turns: list[RecordedTurn] = []
    for role, text, weight in messages:
        if role in SYSTEM:
            instructions.append(text)
        elif role in OTHERS:
            waiting.append(text)
        else:
            turns.append(RecordedTurn("\n\n".join(waiting), text, weight=weight))
            waiting = []
    rewards, valid = row.get("rewards"), row.get("valid")
    if rewards is not None:
        _column("rewards", _reward_list, rewards)
    if valid is None or (rewards is None and not isinstance(valid, list)):  # a column of others
        valid = [True] * len(turns)
    gains = [0.0] * len(turns) if rewards is None else rewards
    if not len(turns) == len(gains) == len(valid):
        raise ValueError(
            f"expected a reward and a `valid` for each of {len(turns)} replies, got "
            f"{len(gains)} and {len(valid)}"
        )
    for turn, gain, accepted in zip(turns, gains, valid, strict=True):
        turn.reward = _column("rewards", float, gain)
        turn.valid = _column("valid", _boolean, accepted)
    return RecordedEpisode(
        turns,
        "\n\n".join(instructions),
        last_observation="\n\n".join(waiting) or _last(row),
        rewarded=rewards is not None,
        **_start(row),
    )


FACTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("env", "agent", "task", "seat"), _name),
    **dict.fromkeys(("success", "terminated", UNJUDGED), _boolean),
    "seed": _seed,
    "env_kwargs": dict,
    "judged": _share,
}
"""Facts about an episode that AgentGym's files hold."""


def _column(name: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Returns the value of a column. An error names it."""
    try:
        return read(value)
    except FAULTS as error:
        remedy = "rename it if it means something else"
        raise ValueError(f"column {name!r}: {error}; {remedy}") from error


def _last(row: Mapping[str, Any]) -> str:
    return _column("last_observation", string, row.get("last_observation") or "")


def _start(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts about an episode that are given."""
    given = {name: read for name, read in FACTS.items() if row.get(name) is not None}
    found = {name: _column(name, read, row[name]) for name, read in given.items()}
    found["decided"] = "success" in found
    return found | {UNJUDGED: True} if row.get("failure") == UNJUDGED else found


def _own(row: Mapping[str, Any]) -> RecordedEpisode:
    given = row["transcript" if "transcript" in row else "turns"]
    rewarded = all(turn.get("reward") is not None for turn in given)
    turns = [
        RecordedTurn(
            string(turn["observation"]),
            string(turn["action"]),
            float(turn.get("reward") or 0.0),
            dict(turn.get("reward_terms", {})),
            _boolean(turn.get("valid", True)),
            float(turn.get("progress", 0.0)),
            float(turn.get("weight", 1.0)),
            _texts(turn.get("admissible") or []),
        )
        for turn in given
    ]
    instructions = row.get("instructions")
    instructions = None if instructions is None else string(instructions)
    last = _last(row)
    facts = _start(row)
    return RecordedEpisode(turns, instructions, last_observation=last, rewarded=rewarded, **facts)


def _text(row: Mapping[str, Any]) -> RecordedEpisode:
    return RecordedEpisode([RecordedTurn("", string(row["text"]))], decided=False)


FORMATS: dict[str, Callable[[Mapping[str, Any]], RecordedEpisode]] = {
    "messages": _chat,
    "conversations": _sharegpt,
    "completion": _completion,
    "instruction": _instruction,
    "transcript": _own,
    "turns": _own,
    "text": _text,
}
"""The readers, by the key that marks their format."""
