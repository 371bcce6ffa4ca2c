"""`read_episodes`: episodes from files of chats, of ShareGPT, AgentInstruct and AgentGym.

Each line of a file is a JSON object, and its keys decide about the format:

- `messages`: a chat in the format of OpenAI and TRL, with `role` and `content`. `weight` 0 masks a
  reply.
- `conversations`: ShareGPT, with `from` and `value`. `loss` false masks a reply (AgentInstruct).
- `transcript`: an episode of `agentgym eval --save` or `agentgym export --format own`.
- `turns`: a trajectory of a training run (`trajectories.jsonl`).
- `text`: plain text, as the reply to an empty observation.

A file may also be a JSON list of such objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import DataError

AGENT = ("assistant", "gpt", "bot", "chatgpt", "model", "function_call")
SYSTEM = ("system", "developer")
OTHERS = ("user", "human", "tool", "function", "observation", "function_response", "environment")


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
    """Reads the first episode of each file, to find wrong files early.

    Args:
        paths: as in `read_episodes`.

    Raises:
        DataError: if a file is missing, has no episodes, or begins with anything else.
    """
    for file in _files(paths):
        if next(_episodes(file), None) is None:
            raise DataError(f"{file} has no episodes.")


def _files(paths: str | Path | Sequence[str | Path]) -> Iterator[Path]:
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        yield path / "trajectories.jsonl" if path.is_dir() else path


def _episodes(file: Path) -> Iterator[RecordedEpisode]:
    for where, row in _rows(file):
        try:
            yield _episode(row)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{file}, {where}: not an episode ({error!r:.200}).") from error


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
                    yield where, json.loads(line)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as text: {error}.") from error
    except (ValueError, RecursionError) as error:
        message = f"{file}, {where}: not JSON, one object per line: {error!s:.200}."
        raise DataError(message) from error


def _episode(row: Any) -> RecordedEpisode:
    for key, read in FORMATS.items():
        if key in row:
            episode = read(row)
            if not episode.turns:
                raise ValueError("it has no reply of the agent")
            for turn in episode.turns:
                numbers = turn.reward, turn.progress, turn.weight, *turn.reward_terms.values()
                if not all(map(math.isfinite, numbers)):
                    raise ValueError(f"expected finite numbers, got {numbers}")
            return episode
    known = ", ".join(FORMATS)
    raise ValueError(f"expected one of the keys {known}, got {', '.join(row)!s:.100}")


def _chat(row: Mapping[str, Any]) -> RecordedEpisode:
    messages = [
        (
            str(each["role"]),
            _content(each),
            1.0 if each.get("weight") is None else float(each["weight"]),
        )
        for each in row["messages"]
    ]
    return _dialogue(messages, row)


def _sharegpt(row: Mapping[str, Any]) -> RecordedEpisode:
    messages = [
        (str(each["from"]), _string(each["value"]), float(each.get("loss") is not False))
        for each in row["conversations"]
    ]
    if row.get("system"):
        messages.insert(0, ("system", str(row["system"]), 1.0))
    return _dialogue(messages, row)


def _content(message: Mapping[str, Any]) -> str:
    """Returns the text of a message of a chat."""
    if message.get("tool_calls"):
        raise ValueError("tool_calls have no text here: write them into `content`")
    content = message["content"]
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return _string(content)


def _boolean(value: Any) -> bool:
    """Returns a truth value that is one: the text "false" would be read as true."""
    if value not in (0, 1):
        raise ValueError(f"expected true or false, got {value!r:.80}")
    return bool(value)


def _string(value: Any) -> str:
    """Returns a text that is one: null and lists would be learned as "None" and "[...]"."""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.80}")
    return value


def _dialogue(
    messages: Sequence[tuple[str, str, float]], row: Mapping[str, Any]
) -> RecordedEpisode:
    """Returns the episode of messages (role, text, weight), with what AgentGym adds to a row."""
    instructions: list[str] = []
    waiting: list[str] = []
    turns: list[RecordedTurn] = []
    for role, text, weight in messages:
        if role in SYSTEM:
            instructions.append(text)
        elif role in OTHERS:
            waiting.append(text)
        elif role in AGENT:
            turns.append(RecordedTurn("\n\n".join(waiting), text, weight=weight))
            waiting = []
        else:
            raise ValueError(f"unknown role {role!r}: {', '.join((*SYSTEM, *OTHERS, *AGENT))}")
    rewards = row.get("rewards")
    if rewards is not None:
        valid = row.get("valid", [True] * len(turns))
        if not len(turns) == len(rewards) == len(valid):
            raise ValueError(
                f"expected a reward and a `valid` for each of {len(turns)} replies, got "
                f"{len(rewards)} and {len(valid)}"
            )
        for turn, reward, accepted in zip(turns, rewards, valid, strict=True):
            turn.reward, turn.valid = float(reward), _boolean(accepted)
    return RecordedEpisode(
        turns,
        "\n\n".join(instructions),
        last_observation="\n\n".join(waiting) or str(row.get("last_observation") or ""),
        rewarded=rewards is not None,
        **_start(row),
    )


FACTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("env", "agent", "task", "seat"), str),
    **dict.fromkeys(("success", "terminated"), _boolean),
    "seed": int,
    "env_kwargs": dict,
}
"""Facts about an episode that AgentGym's files hold."""


def _start(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts about an episode that are given."""
    return {name: read(row[name]) for name, read in FACTS.items() if row.get(name) is not None}


def _own(row: Mapping[str, Any]) -> RecordedEpisode:
    given = row["transcript" if "transcript" in row else "turns"]
    rewarded = all(turn.get("reward") is not None for turn in given)
    turns = [
        RecordedTurn(
            _string(turn["observation"]),
            _string(turn["action"]),
            float(turn.get("reward") or 0.0),
            dict(turn.get("reward_terms", {})),
            _boolean(turn.get("valid", True)),
            float(turn.get("progress", 0.0)),
            float(turn.get("weight", 1.0)),
            tuple(turn.get("admissible") or ()),
        )
        for turn in given
    ]
    instructions = row.get("instructions")
    instructions = None if instructions is None else _string(instructions)
    last = str(row.get("last_observation") or "")
    facts = _start(row)
    return RecordedEpisode(turns, instructions, last_observation=last, rewarded=rewarded, **facts)


def _text(row: Mapping[str, Any]) -> RecordedEpisode:
    return RecordedEpisode([RecordedTurn("", _string(row["text"]))])


FORMATS: dict[str, Callable[[Mapping[str, Any]], RecordedEpisode]] = {
    "messages": _chat,
    "conversations": _sharegpt,
    "transcript": _own,
    "turns": _own,
    "text": _text,
}
"""The readers, by the key that marks their format."""
