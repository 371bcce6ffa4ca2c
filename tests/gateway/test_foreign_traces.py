"""Traces in the formats of verifiers, OpenEnv and NeMo Gym: written whole, and read as texts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.data.reading import read_episodes
from agentgym.errors import DataError
from agentgym.trainers.gateway.nemo_gym_trace import token_digest, token_entries
from agentgym.trainers.gateway.trace_file import export_traces
from agentgym.trainers.gateway.traces import TracedCall, traced_calls, write_trace
from agentgym.trainers.gateway.verifiers_trace import verifiers_episode

from .test_traces import TOOL, episode

FACTS = {
    "env": "AgentGym/NumberLine-v0",
    "task": "train/0",
    "seed": 1,
    "model": "tiny",
    "sampling": {"temperature": 1.0},
    "success": True,
    "terminated": True,
}
GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
READ = {"verifiers": "traces.jsonl", "openenv": "traces.jsonl", "nemo-gym": "traces/rollouts.jsonl"}
"""What is read of the files of each format."""


def recorded(folder: Path, calls: list[TracedCall]) -> Path:
    """Writes a trace as the gateway does."""
    file = folder / "own.jsonl"
    file.write_text(json.dumps(write_trace(calls, FACTS)) + "\n", "utf-8")
    return file


def exported(folder: Path, format: str) -> Path:
    """Writes the episode in a format, and returns the file that is read back."""
    out = folder / READ[format].partition("/")[0].removesuffix(".jsonl" * (format == "nemo-gym"))
    assert export_traces([recorded(folder, traced_calls(episode()))], format, out) == 1
    return folder / READ[format]


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("verifiers", "traces.jsonl"),
        ("nemo-gym", "traces/rollouts.jsonl"),
        ("nemo-gym", "traces/0-0.tokens.jsonl"),
    ],
)
def test_the_files_are_those_that_the_real_packages_read(
    format: str, name: str, tmp_path: Path, golden: Callable[[Path, str], None]
):
    """The tests of `tests/integrations` hand the golden files to verifiers and NeMo Gym."""
    exported(tmp_path, format)
    golden(GOLDEN / Path(name).name, (tmp_path / name).read_text("utf-8"))


def test_what_is_written_for_verifiers_is_read_as_the_trace_itself(tmp_path: Path):
    file = exported(tmp_path, "verifiers")
    assert read_episodes(file) == read_episodes(tmp_path / "own.jsonl")


def test_openenv_has_no_rewards_and_keeps_the_rest(tmp_path: Path):
    file = exported(tmp_path, "openenv")
    found, expected = read_episodes(file), read_episodes(tmp_path / "own.jsonl")
    assert len(found) == len(expected) == 2
    for one, other in zip(found, expected, strict=True):
        assert not one.rewarded and one.agent == "tiny" and one.instructions == other.instructions
        assert [turn.action for turn in one.turns] == [turn.action for turn in other.turns]
        assert [turn.observation for turn in one.turns] == [t.observation for t in other.turns]


def test_nemo_gym_has_the_conversation_of_the_last_reply_and_the_reward(tmp_path: Path):
    [found] = read_episodes(exported(tmp_path, "nemo-gym"))
    *_, expected = read_episodes(tmp_path / "own.jsonl")
    assert [turn.action for turn in found.turns] == [turn.action for turn in expected.turns]
    assert found.instructions == expected.instructions
    assert found.reward == sum(call.reward for call in traced_calls(episode()))
    assert (found.task, found.seed, found.success) == ("train/0", 1, True)


def test_a_chain_of_nemo_gym_is_one_response_with_its_tool_results(tmp_path: Path):
    calls = traced_calls(episode())[:2]
    assert export_traces([recorded(tmp_path, calls)], "nemo-gym", tmp_path / "out") == 1
    [row] = map(json.loads, (tmp_path / "out" / "rollouts.jsonl").read_text("utf-8").splitlines())
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]
    assert [item["role"] for item in row["responses_create_params"]["input"]] == ["system", "user"]
    [found] = read_episodes(tmp_path / "out" / "rollouts.jsonl")
    [own] = read_episodes(tmp_path / "own.jsonl")
    assert [t.action for t in found.turns] == [t.action for t in own.turns]
    assert [t.reward for t in found.turns] == [0.0, 1.0]


# Any tree of calls.


@st.composite
def trees(draw: st.DrawFn) -> list[TracedCall]:
    """Calls of which each extends another one, is a new rendering of it, or begins anew."""
    template = traced_calls(episode())[0]
    calls: list[TracedCall] = []
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from([None, *calls]))
        relation = draw(st.sampled_from(["extends", "rendered"])) if parent else "root"
        fresh = np.array(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)), np.int32)
        user = {"role": "user", "content": f"question {number}"}
        messages, prompt = (user,), fresh
        if parent is not None:
            echo = {"role": "assistant", "content": "as the client wrote it"}
            kept = parent.messages[: None if relation == "extends" else -1]
            messages = (*kept, echo, user) if relation == "extends" else (*kept, user)
            if relation == "extends":
                prompt = np.concatenate([parent.prompt, parent.tokens, fresh])
        tokens = np.array(draw(st.lists(st.integers(10, 19), min_size=1, max_size=3)), np.int32)
        calls.append(
            replace(
                template,
                id=number,
                parent=parent.id if parent else None,
                relation=relation,
                messages=messages,
                tools=(TOOL,),
                reply={"role": "assistant", "content": f"answer {number}"},
                prompt=prompt,
                tokens=tokens,
                logprobs=-np.arange(len(tokens), dtype=np.float32) / 3,
                support=None,
                weight=draw(st.sampled_from([0.0, 1.0])),
                reward=float(number),
            )
        )
    return calls


@settings(deadline=None)
@given(calls=trees())
def test_each_path_of_verifiers_has_the_tokens_of_its_call(calls: list[TracedCall]):
    [trace] = verifiers_episode(calls, FACTS)["traces"]
    nodes = trace["nodes"]
    for call, made in zip(calls, trace["calls"], strict=True):
        path, at = [], made["node"]
        while at is not None:
            path.insert(0, nodes[at])
            at = nodes[at]["parent"]
        tokens = [token for node in path for token in node.get("token_ids", ())]
        assert tokens == [*call.prompt.tolist(), *call.tokens.tolist()]
        reply = path[-1]
        count = len(call.tokens)
        assert len(reply["mask"]) == len(reply["token_ids"])
        assert reply["mask"][len(reply["mask"]) - count :] == [call.weight > 0] * count
        assert reply["logprobs"] == (call.logprobs.tolist() if call.weight else [])
        assert [node["message"]["role"] for node in path].count("user") == sum(
            message["role"] == "user" for message in call.messages
        )
    trained = sum(sum(node.get("mask", ())) for node in nodes)
    assert trained == sum(len(call.tokens) for call in calls if call.weight)


@settings(deadline=None)
@given(calls=trees())
def test_token_entries_give_every_prompt_back(calls: list[TracedCall]):
    entries = json.loads(json.dumps(token_entries(calls, FACTS, 3)))
    counted = [call for call in calls if call.weight]
    whole: dict[str, list[int]] = {}
    for call, entry in zip(counted, entries, strict=True):
        start = whole[entry["parent_call_id"]] if entry["prompt_is_delta"] else []
        assert [*start, *entry["prompt_token_ids"]] == call.prompt.tolist()
        found = [*start, *entry["prompt_token_ids"], *entry["generation_token_ids"]]
        assert entry["digest"] == token_digest(np.array(found, np.int32))
        assert entry["cum_len"] == len(found)
        whole[entry["model_call_id"]] = found


@settings(deadline=None)
@given(calls=trees())
def test_every_reply_is_read_with_the_weight_and_reward_of_its_call(calls: list[TracedCall]):
    row = verifiers_episode(calls, FACTS)
    episodes = list(read(row))
    turns = {t.action: t for each in episodes for t in each.turns if t.weight or t.reward}
    counted = [call for call in calls if call.weight]
    for call in counted:
        assert turns[call.reply["content"]].reward == call.reward
    weights = [t.weight for each in episodes for t in each.turns]
    assert sum(weights) == len(counted)


def read(row: dict[str, Any]) -> Iterator[Any]:
    """Reads the conversations of a row."""
    from agentgym.data.foreign_traces import foreign_chats
    from agentgym.data.reading import FORMATS

    for chat in foreign_chats(row):
        yield FORMATS["messages"](chat)


# Files of others.


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the place of each value in JSON."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("format", READ)
def test_a_damaged_trace_is_an_episode_or_an_error_with_its_line(format: str, tmp_path: Path):
    row = json.loads(exported(tmp_path, format).read_text("utf-8"))
    file = tmp_path / "damaged.jsonl"
    refused = 0
    for path in places(row):
        for value in (None, -1, "x", [], {}, [{}], ["x"], {"type": "x"}, 1e400):
            changed = copy.deepcopy(row)
            *above, last = path
            inner = changed
            for key in above:
                inner = inner[key]
            inner[last] = value
            file.write_text(json.dumps(changed) + "\n", "utf-8")
            try:
                assert read_episodes(file)
            except DataError as error:
                refused += 1
                assert "damaged.jsonl" in str(error)
    assert refused > 100


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"version": 2, "nodes": []}, "expected version 1, got 2"),
        ({"schema_version": 9, "turns": []}, "expected version 1, got 9"),
        ({"model_call_id": "a", "generation_token_ids": [1]}, "give its file of rollouts"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_remedy(
    row: dict[str, Any], message: str, tmp_path: Path
):
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps(row), "utf-8")
    with pytest.raises(DataError, match=message):
        read_episodes(file)


def test_a_reward_of_verifiers_belongs_to_the_last_reply_of_each_conversation(tmp_path: Path):
    user, other = {"role": "user", "content": "hi"}, {"role": "user", "content": "again"}
    nodes = [
        {"parent": None, "message": user},
        {"parent": 0, "message": {"role": "assistant", "content": "a"}, "sampled": True},
        {"parent": 1, "message": other},
        {"parent": 2, "message": {"role": "assistant", "content": "b"}, "sampled": True},
        {"parent": 1, "message": {"role": "user", "content": [{"type": "text", "text": "no"}]}},
        {"parent": 4, "message": {"role": "assistant", "content": "c"}, "sampled": True},
    ]
    trace = {
        "version": 1,
        "task": {"type": "Sums", "data": {"idx": 7}},
        "agent": {"name": "solver", "config": {}},
        "nodes": nodes,
        "rewards": {"right": {"score": 1.0, "weight": 0.5}, "style": None, "short": {"score": 2}},
        "stop_condition": "max_turns",
    }
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps({"env": {"id": "sums"}, "traces": [trace]}), "utf-8")
    first, second = read_episodes(file)
    assert [(t.action, t.reward, t.weight) for t in first.turns] == [("a", 0, 1), ("b", 2.5, 1)]
    assert [(t.action, t.reward, t.weight) for t in second.turns] == [("a", 0, 0), ("c", 2.5, 1)]
    assert (first.env, first.task, first.agent, first.terminated) == ("sums", "7", "solver", False)
    assert second.turns[1].observation == "no"


def rollout(**changes: Any) -> dict[str, Any]:
    """Returns a rollout of NeMo Gym in the form of others: plain items, thoughts apart."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "add"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "3"},
        {"type": "message", "role": "user", "content": "more"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "3"}]},
    ]
    shown = [{"role": "assistant", "content": "an example"}, {"role": "user", "content": "go"}]
    row = {
        "responses_create_params": {"input": shown, "tools": [{"type": "function", "name": "add"}]},
        "response": {"model": "m", "output": output},
        "reward": 0.5,
        "_ng_task_index": 4,
    }
    return row | changes


@pytest.mark.parametrize("masked", [False, True])
def test_rollouts_of_nemo_gym_are_read_with_their_tools_and_thoughts(masked: bool, tmp_path: Path):
    file = tmp_path / "rollouts.jsonl"
    empty = rollout(response={"model": "m", "output": []})
    file.write_text(f"{json.dumps(rollout(mask_sample=masked))}\n{json.dumps(empty)}\n", "utf-8")
    [found] = read_episodes(file)
    assert [turn.action for turn in found.turns] == [
        "an example",
        '<think>\nadd\n</think>\n\n{"name": "add", "arguments": {"a": 1}}',
        "3",
    ]
    weight = 0.0 if masked else 1.0
    assert [turn.weight for turn in found.turns] == [0.0, weight, weight]
    assert [turn.observation for turn in found.turns] == ["", "go", "3\n\nmore"]
    assert (found.reward, found.task, found.agent) == (0.5, "4", "m")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (rollout(response=None), "inputs alone are no rollout"),
        (rollout(response={"output": [[]]}), "expected items of the Responses API"),
        (
            rollout(response={"output": [{"role": "user", "content": [{"type": "input_image"}]}]}),
            "got one of type 'input_image'",
        ),
    ],
)
def test_a_rollout_that_cannot_be_read_is_an_error(
    row: dict[str, Any], message: str, tmp_path: Path
):
    file = tmp_path / "rollouts.jsonl"
    file.write_text(json.dumps(row), "utf-8")
    with pytest.raises(DataError, match=message):
        read_episodes(file)
