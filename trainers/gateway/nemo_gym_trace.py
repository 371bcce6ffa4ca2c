"""`token_entries`, `rollout_row`: an episode in the formats of NeMo Gym."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.data.traces import facts_of
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.responses import reply_items
from agentgym.trainers.gateway.traces import TracedCall, common

VERSION = 1
"""Version of `TokenEntry`, in NeMo Gym 0.7, and of its digests."""


def rollout_id(number: int) -> str:
    """Returns the name of an episode, by its place in the trace file."""
    return f"{number}-0"


def token_entries(
    calls: Sequence[TracedCall], facts: Mapping[str, Any], number: int
) -> list[dict[str, Any]]:
    """Returns the calls of an episode as `TokenEntry` of version 1, without those of weight 0.

    A call whose prompt extends the tokens of its parent holds only what it adds. Any other call is
    a root. Rewards, versions and supports have no place in an entry.

    Args:
        calls: the calls. A parent comes before its children.
        facts: facts of the trace file, such as the model.
        number: place of the episode in the trace file.
    """
    entries = []
    by_id = {call.id: call for call in calls}
    for call in calls:
        if not call.weight:
            continue
        parent, fed = _extended(call, by_id)
        whole = np.concatenate([call.prompt, call.tokens])
        name = _call_name(call, number)
        items = reply_items(call.reply, name)
        entries.append(
            {
                "schema_version": VERSION,
                "rollout_id": rollout_id(number),
                "model_call_id": name,
                "model": str(facts.get("model") or ""),
                "prompt_token_ids": call.prompt[fed:].tolist(),
                "generation_token_ids": call.tokens.tolist(),
                "generation_log_probs": [float(value) for value in call.logprobs],
                "output_items": items,
                "token_item_index": len(items) - 1,
                "response_id": f"resp_{name}",
                "created_at": float(call.id),
                "parent_call_id": _call_name(parent, number) if parent else None,
                "parent_resolution": "resolved" if parent else "root",
                "prompt_is_delta": parent is not None,
                "cum_len": len(whole),
                "digest": token_digest(whole),
            }
        )
    return entries


def rollout_row(
    calls: Sequence[TracedCall], facts: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """Returns an episode as a row of collected rollouts, with its reward.

    Its response is the last one with a weight, behind the replies that its prompt extends and what
    answered them.

    Args:
        calls: the calls, at least one with a weight.
        facts: facts of the trace file, such as the model.
        number: place of the episode in the trace file.
    """
    by_id = {call.id: call for call in calls}
    last = next(call for call in reversed(calls) if call.weight)
    path = [last]
    while (parent := _extended(path[0], by_id)[0]) is not None:
        path.insert(0, parent)
    begin, output = len(path[0].messages), []
    for call in path:
        output += [item for message in call.messages[begin:] for item in _items(message)]
        output += reply_items(call.reply, _call_name(call, number))
        begin = len(call.messages) + 1  # the next call repeats the reply
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in last.tools]
    task, _, index = rollout_id(number).partition("-")
    return {
        "_ng_task_index": int(task),
        "_ng_rollout_index": int(index),
        **facts_of(facts),
        "responses_create_params": {
            "input": [item for message in path[0].messages for item in _items(message)],
            "tools": tools,
        },
        "response": {
            "id": f"resp_{_call_name(last, number)}",
            "object": "response",
            "created_at": last.id,
            "model": str(facts.get("model") or ""),
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": tools,
        },
        "reward": sum(call.reward for call in calls),
    }


def token_digest(tokens: Tokens) -> str:
    """Returns the digest by which NeMo Gym compares token sequences.

    It is the SHA-256 of a name, the version, the number of tokens and the tokens, all big-endian.
    """
    head = b"nemo-gym-tokens"
    if len(tokens):
        head += struct.pack(">BQ", VERSION, len(tokens)) + tokens.astype(">u8").tobytes()
    return hashlib.sha256(head).hexdigest()


def _extended(call: TracedCall, by_id: Mapping[int, TracedCall]) -> tuple[TracedCall | None, int]:
    """Returns the call whose tokens the prompt of another one extends, and their number."""
    parent = by_id.get(call.parent) if call.parent is not None else None
    fed = common(call, parent)[1] if parent is not None and parent.weight else 0
    return (parent, fed) if fed else (None, 0)


def _call_name(call: TracedCall, number: int) -> str:
    return f"{rollout_id(number)}-{call.id}"


def _items(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a message of chat completions as items of the Responses API."""
    if message["role"] == "assistant":
        return reply_items(message, "")
    if message["role"] == "tool":
        call, text = message["tool_call_id"], message["content"]
        return [{"type": "function_call_output", "call_id": call, "output": text}]
    return [{"type": "message", "role": message["role"], "content": message["content"]}]
