"""Traces of other projects, read as episodes: what goes on with what, and what has no weight."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.data.foreign_traces import foreign_chats
from agentgym.data.reading import read_episodes
from agentgym.trainers.gateway.trace_file import export_traces
from agentgym.trainers.gateway.traces import TracedCall, traced_calls

from .test_foreign_traces import READ, recorded
from .test_traces import episode


def turn(messages: list[dict[str, Any]], reply: dict[str, Any]) -> dict[str, Any]:
    """Returns a turn of OpenEnv."""
    return {
        "request": {"messages": messages},
        "response": {"choices": [{"message": reply}]},
        "loss_mask": [1],
        "metadata": {},
    }


def test_a_call_of_openenv_goes_on_behind_the_reply_that_it_repeats(tmp_path: Path):
    start = [{"role": "user", "content": "go"}]
    replies = [{"role": "assistant", "content": text} for text in "abc"]
    more = {"role": "user", "content": "more"}
    changed = [*start, {"role": "assistant", "content": "?"}, more]
    turns = [turn(start, reply) for reply in replies]
    turns.append(turn([*start, replies[1], more], {"role": "assistant", "content": "d"}))
    turns.append(turn(changed, {"role": "assistant", "content": "e"}))
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps({"schema_version": 1, "turns": turns}), "utf-8")
    found = [[turn.action for turn in each.turns] for each in read_episodes(file)]
    assert found == [["a"], ["b", "d"], ["c", "e"]]


@pytest.mark.parametrize("format", READ)
def test_reading_a_long_episode_takes_no_more_memory_than_its_messages(format: str, tmp_path: Path):
    template, calls = traced_calls(episode())[0], list[TracedCall]()
    messages = [{"role": "user", "content": "begin"}]
    for number in range(400):
        reply = {"role": "assistant", "content": f"answer {number}"}
        prompt = np.arange(number + 1, dtype=np.int32)
        calls.append(
            replace(
                template,
                id=number,
                parent=number - 1 if number else None,
                messages=tuple(messages),
                reply=reply,
                prompt=prompt,
                tokens=prompt[-1:] + 1,
            )
        )
        messages += [reply, {"role": "user", "content": f"question {number}"}]
    out = tmp_path / ("traces" if format == "nemo-gym" else "traces.jsonl")
    assert export_traces([recorded(tmp_path, calls)], format, out) == 1
    row = json.loads((tmp_path / READ[format]).read_text("utf-8"))
    tracemalloc.start()
    [chat] = foreign_chats(row)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(message["role"] == "assistant" for message in chat["messages"]) == 400
    assert peak < 2e6  # the pairs of calls are 160,000, of eight bytes or more each
