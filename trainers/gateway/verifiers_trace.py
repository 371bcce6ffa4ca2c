"""`verifiers_episode`: an episode as a line of the `traces.jsonl` of verifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.data.foreign_traces import OWN
from agentgym.data.traces import facts_of
from agentgym.trainers.gateway.traces import TracedCall, common

VERSION = 1
"""Version of `Trace`, in verifiers 0.4."""


def verifiers_episode(calls: Sequence[TracedCall], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an episode as `Episode` of verifiers 0.4, with one `Trace` of version 1.

    A trace is a graph of messages, of which each holds the tokens that it adds. A call whose prompt
    extends that of its parent exactly goes on behind the parent's reply, and any other call begins
    a new path. The tokens that a call adds to its prompt are those of its last new message. A reply
    without a weight is masked.

    The trace has one reward. Rewards of the replies are in its `info`, and supports have no place
    in it.

    Args:
        calls: the calls. A parent comes before its children.
        facts: facts of the trace file, such as env, task, model, sampling.
    """
    nodes: list[dict[str, Any]] = []
    places = {}
    by_id = {call.id: call for call in calls}
    for call in calls:
        parent = by_id.get(call.parent) if call.parent is not None else None
        places[call.id] = _add(nodes, call, parent, places)
    sampling, model = facts.get("sampling"), str(facts.get("model") or "")
    traced = [
        {
            "node": places[call.id],
            "model": model,
            "sampling": dict(sampling) if isinstance(sampling, Mapping) else None,
            "finish_reason": call.finish,
            "usage": {"prompt_tokens": len(call.prompt), "completion_tokens": len(call.tokens)},
        }
        for call in calls
    ]
    env, success = str(facts.get("env") or ""), facts.get("success")
    task = {"type": env or "Task", "key": str(facts.get("task") or ""), "data": {}}
    reward = {"score": sum(call.reward for call in calls), "weight": 1.0}
    trace = {
        "version": VERSION,
        "task": task,
        "agent": {"config": {"model": model}},
        "tools": _tools(calls[-1]) if calls else [],
        "nodes": nodes,
        "calls": traced,
        "rewards": {"reward": reward},
        "metrics": {} if success is None else {"success": float(success)},
        "info": {OWN: facts_of(facts) | {"rewards": [call.reward for call in calls]}},
        "is_completed": True,
        "ok": True,
        "stop_condition": None if facts.get("terminated", True) else "max_turns",
    }
    return {"env": {"id": env}, "task": task, "ok": True, "traces": [trace]}


def _add(
    nodes: list[dict[str, Any]],
    call: TracedCall,
    parent: TracedCall | None,
    places: Mapping[int, int],
) -> int:
    """Adds the messages of a call, and returns the index of its reply."""
    shared, fed = common(call, parent)
    before, messages = None, list(call.messages)
    if parent is not None and fed and shared == len(parent.messages) < len(messages):
        before, messages = places[parent.id], messages[shared + 1 :]  # the next is the reply
    else:
        fed = 0
    prompt = call.prompt[fed:].tolist()
    for message in messages:
        node = {"parent": before, "message": _message(message)}
        if before is None and call.tools:
            node["tools"] = _tools(call)
        nodes.append(node)
        before = len(nodes) - 1
    if messages:
        nodes[-1] |= {"token_ids": prompt, "mask": [False] * len(prompt)}
        prompt = []
    tokens = call.tokens.tolist()
    counts = call.weight > 0
    nodes.append(
        {
            "parent": before,
            "message": _message(call.reply),
            "sampled": True,
            "token_ids": [*prompt, *tokens],
            "mask": [False] * len(prompt) + [counts] * len(tokens),
            "logprobs": [float(value) for value in call.logprobs] if counts else [],
        }
    )
    return len(nodes) - 1


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of chat completions in the form of verifiers."""
    found = {name: message[name] for name in ("role", "content") if name in message}
    if message["role"] == "tool":
        return found | {"tool_call_id": message["tool_call_id"]}
    if message["role"] != "assistant":
        return found
    if message.get("reasoning_content"):
        found["reasoning_content"] = message["reasoning_content"]
    if calls := message.get("tool_calls"):
        found["tool_calls"] = [{"id": call["id"], **call["function"]} for call in calls]
    return found


def _tools(call: TracedCall) -> list[dict[str, Any]]:
    return [dict(tool["function"]) for tool in call.tools]
