"""Traces of other projects, read as episodes: what goes on with what, and what has no weight."""

from __future__ import annotations

import json
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.data.foreign_traces import foreign_chats
from agentgym.data.reading import read_episodes
from agentgym.errors import DataError
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


@pytest.mark.parametrize("column", ["nodes", "traces", "generation_token_ids"])
def test_a_chat_with_a_column_of_such_a_name_is_a_chat(column: str, tmp_path: Path):
    chat = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": chat, column: []}), "utf-8")
    [found] = read_episodes(file)
    assert [turn.action for turn in found.turns] == ["gone"]


def graph(**changes: Any) -> dict[str, Any]:
    """Returns a trace of verifiers with a question and two replies, each to the question."""
    call = {"id": "c", "name": "run", "namespace": "shell", "arguments": '{"line": "ls"}'}
    nodes = [
        {"parent": None, "message": {"role": "user", "content": "go"}},
        {"parent": 0, "message": {"role": "assistant", "tool_calls": [call]}, "sampled": True},
        {"parent": 0, "message": {"role": "assistant", "content": "in short"}, "sampled": True},
    ]
    row = {"version": 1, "task": {"data": {}}, "agent": {"name": "solver"}, "nodes": nodes}
    return row | changes


def test_replies_of_verifiers_that_train_no_policy_have_no_weight(tmp_path: Path):
    file = tmp_path / "traces.jsonl"
    attempt, judge = graph(), graph(agent={"name": "judge", "trainable": False})
    attempt["nodes"][2]["semantic_parents"] = [{"node": 1, "type": "compaction_attempt"}]
    taken = graph(nodes=[*attempt["nodes"], {"parent": None, "message": {"role": "assistant"}}])
    taken["nodes"][3] |= {"sampled": True, "semantic_parents": [{"node": 2, "type": "compaction"}]}
    weights = []
    for row in (graph(), attempt, taken, judge):
        file.write_text(json.dumps(row), "utf-8")
        weights.append([turn.weight for each in read_episodes(file) for turn in each.turns])
    assert weights == [[1, 1], [1], [1, 1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("end", "terminated"),
    [
        ({"stop_condition": "agent_completed"}, True),
        ({"stop_condition": "max_total_tokens"}, False),
        ({"stop_condition": "compaction_failed"}, False),
        ({"stop_condition": "agent_timeout", "is_timeout": True}, False),
        ({"stop_condition": "error", "errors": [{"type": "E", "message": "no"}]}, False),
        ({"ok": True, "errors": [{"type": "E", "message": "in the first attempt"}]}, True),
    ],
)
def test_only_a_trace_of_verifiers_that_nothing_cut_off_has_ended(
    end: dict[str, Any], terminated: bool, tmp_path: Path
):
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps(graph(**end)), "utf-8")
    first, _ = read_episodes(file)
    assert first.terminated == terminated
    assert first.turns[0].action == '{"name": "shell.run", "arguments": {"line": "ls"}}'


def test_a_refusal_of_nemo_gym_is_the_text_of_its_reply(tmp_path: Path):
    part = {"type": "refusal", "refusal": "I cannot."}
    output = [{"type": "message", "role": "assistant", "content": [part]}]
    tools = [{"type": "web_search"}]
    row = {"responses_create_params": {"input": "go", "tools": tools}}
    file = tmp_path / "rollouts.jsonl"
    file.write_text(json.dumps(row | {"response": {"output": output}}), "utf-8")
    [found] = read_episodes(file)
    assert found.turns[0].action == "I cannot."
    assert "web_search" in str(found.instructions)


@pytest.mark.parametrize("project", ["openenv", "verifiers"])
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_the_thought_of_a_reply_is_read_whatever_its_name(project: str, key: str, tmp_path: Path):
    reply = {"role": "assistant", "content": "up", key: "It is above."}
    assert read_reply(project, reply, tmp_path) == "<think>\nIt is above.\n</think>\n\nup"


@pytest.mark.parametrize("project", ["openenv", "verifiers"])
def test_a_refusal_is_the_text_of_its_reply(project: str, tmp_path: Path):
    reply = {"role": "assistant", "content": None, "refusal": "I cannot."}
    assert read_reply(project, reply, tmp_path) == "I cannot."


def read_reply(project: str, reply: dict[str, Any], folder: Path) -> str:
    """Returns the action of an episode with one reply, written in the format of a project."""
    asked = {"role": "user", "content": "Where?"}
    nodes = [{"message": asked}, {"message": reply, "parent": 0, "sampled": True}]
    rows = {
        "openenv": {"schema_version": 1, "turns": [turn([asked], reply)]},
        "verifiers": {"version": 1, "task": {}, "agent": {}, "nodes": nodes},
    }
    file = folder / "traces.jsonl"
    file.write_text(json.dumps(rows[project]), "utf-8")
    [found] = read_episodes(file)
    return found.turns[0].action


@pytest.mark.parametrize("format", READ)
@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "tool", "content": "7"}]},
        {"messages": [{}]},
        {"reply": None},
        {"reply": {"role": "assistant", "tool_calls": [{"id": "c"}]}},
    ],
)
def test_a_damaged_trace_is_no_half_written_export(
    format: str, change: dict[str, Any], tmp_path: Path
):
    file, out = recorded(tmp_path, traced_calls(episode())), tmp_path / "out"
    row = json.loads(file.read_text("utf-8"))
    row["calls"][0] |= change
    file.write_text(json.dumps(row), "utf-8")
    if format == "openenv" and change.get("reply", 0) is not None:
        assert export_traces([file], format, out) == 1  # it holds messages as they are
        return
    with pytest.raises(DataError, match=r"own\.jsonl: a trace is damaged"):
        export_traces([file], format, out)
    assert not out.exists()


def test_deep_tools_are_an_episode_or_an_error_with_the_line(tmp_path: Path):
    file = tmp_path / "rollouts.jsonl"
    output = [{"role": "assistant", "content": "x"}]
    tool = {"name": "f", "parameters": "DEEP"}
    asked = {"input": "go", "tools": [tool]}
    text = json.dumps({"responses_create_params": asked, "response": {"output": output}})
    limit = sys.getrecursionlimit()
    for depth in (5, *range(limit - 60, limit), 9 * limit):
        file.write_text(text.replace('"DEEP"', '{"a":' * depth + "1" + "}" * depth), "utf-8")
        try:
            assert len(read_episodes(file)) == 1
        except DataError as error:
            assert depth > 5 and "line 1" in str(error)
