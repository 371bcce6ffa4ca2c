"""Trace files: every call with its tokens, and OpenEnv's form of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from agentgym.errors import ConfigError
from agentgym.trainers.data.trajectory import Support
from agentgym.trainers.gateway.openenv_trace import training_trace
from agentgym.trainers.gateway.prompts import Prompt
from agentgym.trainers.gateway.record import Record
from agentgym.trainers.gateway.traces import (
    TracedCall,
    read_trace,
    traced_calls,
    write_trace,
)
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message
from agentgym.trainers.policy.sampling import Sample

from .stub_backend import CALL

TOOL = {"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}


def episode() -> Record:
    """Two calls of a chain, a fork, and a call for a title."""
    record = Record()
    start = (Message("system", "Add."), Message("user", "go"))
    middle = (*start, Message("assistant", calls=(CALL,)), Message("tool", "7", call_id=CALL.id))
    conversations = [
        (start, [1, 2], None, "root", ChatReply(None, "hm", (CALL,), "tool_calls")),
        (middle, [1, 2, 90, 3], 0, "extends", ChatReply("seven")),
        ((*start, Message("user", "now")), [1, 4], 0, "rendered", ChatReply("eight")),
    ]
    for number, (messages, prompt, parent, relation, reply) in enumerate(conversations):
        request = ChatRequest(messages, (TOOL,), overridden={"temperature": 0})
        tokens = np.array(prompt, np.int32)
        made = Prompt(tokens, bytes([number]), parent, relation, False)  # type: ignore[arg-type]
        call = record.begin(request, made)
        support = Support(np.array([0, 2], np.int32), np.array([90, 91], np.int32))
        own = np.array([90 + number], np.int32)
        logprobs = np.array([-0.1 - number], np.float32)
        record.end(call, Sample(own, logprobs, support, "", True, version=3), reply)
    record.score([0.0, 1.0, 0.5])
    title = Prompt(np.array([8], np.int32), b"title", None, "root", False)
    call = record.begin(ChatRequest((Message("user", "title?"),)), title)
    sample = Sample(np.array([9], np.int32), np.array([-1], np.float32), None, "", False)
    record.end(call, sample, ChatReply("T", finish="length"))
    return record


def test_a_trace_is_read_back_bit_by_bit():
    calls = traced_calls(episode())
    line = write_trace(calls, {"task": "train/0", "seed": 1})
    found = read_trace(json.loads(json.dumps(line)))
    assert [shown(call) for call in found] == [shown(call) for call in calls]
    assert line["task"] == "train/0" and len(line["tools"]) == 2
    assert write_trace(found, {"task": "train/0", "seed": 1}) == line


def shown(call: TracedCall) -> str:
    support = call.support and (call.support.offsets.tolist(), call.support.ids.tolist())
    arrays = [call.prompt, call.tokens, call.logprobs]
    bits = [(each.dtype.str, each.tobytes().hex()) for each in arrays]
    facts = [getattr(call, name) for name in TracedCall.__slots__ if name not in ARRAYS]
    return json.dumps([facts, bits, support])


ARRAYS = ("prompt", "tokens", "logprobs", "support")


def test_a_call_holds_only_what_it_adds():
    first, second, third, title = write_trace(traced_calls(episode()), {})["calls"]
    assert [m["role"] for m in second["messages"]] == ["assistant", "tool"]
    assert second["prompt"] == [3] and second["shared_tokens"] == 3
    assert third["prompt"] == [1, 4] and third["shared_messages"] == 2
    assert (first["weight"], title["weight"], title["finish"]) == (1.0, 0.0, "length")


def test_openenv_gets_the_calls_that_count():
    trace = training_trace(
        traced_calls(episode()), {"model": "tiny", "sampling": {"temperature": 1.0}}
    )
    assert trace["schema_version"] == 1 and len(trace["turns"]) == 3
    for turn in trace["turns"]:
        count = len(turn["completion_token_ids"])
        assert turn["loss_mask"] == [0] * len(turn["prompt_token_ids"]) + [1] * count
        assert len(turn["per_token_logps"]) == count
        assert all(math.isfinite(value) and value <= 0 for value in turn["per_token_logps"])
    assert trace["turns"][0]["response"]["choices"][0]["message"]["tool_calls"][0]["id"] == CALL.id


def test_openenv_accepts_the_trace_and_trl_reads_its_turns():
    harness = pytest.importorskip(
        "openenv.core.harness", reason="needs the extra `openenv`", exc_type=ImportError
    )
    calls = traced_calls(episode())
    found = harness.TrainingTrace.model_validate(training_trace(calls, {"model": "tiny"}))
    assert harness.TrainingTrace.model_validate_json(found.model_dump_json()) == found
    assert [turn.completion_token_ids for turn in found.turns] == [[90], [91], [92]]
    reader = pytest.importorskip(
        "trl.experimental.async_grpo.openenv_harness", reason="needs trl", exc_type=ImportError
    )
    turns = reader._turns_from_training_trace(found)
    assert [turn.prompt_ids for turn in turns] == [[1, 2], [1, 2, 90, 3], [1, 4]]
    rows, _ = reader._chain_to_sequences(turns, "episode", 0)
    assert len(rows) == 2  # the chain of two calls, and the fork


@pytest.mark.parametrize("change", [{"format": "other"}, {"version": 2}, {"calls": [{}]}])
def test_a_line_that_is_no_trace_is_refused(change: dict[str, object]):
    with pytest.raises(ConfigError):
        read_trace({**write_trace([], {}), **change})
