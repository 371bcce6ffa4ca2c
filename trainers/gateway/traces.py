"""Trace files: the calls of an episode as a line of JSON, with their tokens.

A call holds only the messages and the prompt tokens that it adds to its parent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.data.traces import FAULTS, FORMAT, VERSION
from agentgym.errors import ConfigError
from agentgym.trainers.data.trajectory import FloatArray, Support, Tokens
from agentgym.trainers.gateway.chat import message_body
from agentgym.trainers.gateway.record import Record


@dataclass(frozen=True, slots=True)
class TracedCall:
    """An answered request of an episode.

    Attributes:
        id: number of the call in the episode.
        parent: number of the call whose conversation it goes on with, None without one.
        relation: "extends", "rendered" or "root" (see `Prompt`).
        messages: the conversation, in the form of chat completions.
        tools: the tools, likewise.
        reply: the message of the reply, likewise.
        prompt: [P] token ids that were fed.
        tokens: [L] token ids that were sampled.
        logprobs: [L] log-probabilities under the distribution that was sampled from.
        support: the tokens that could have been sampled, or None for the whole vocabulary.
        version: version of the weights, None if unknown.
        finish: reason of the end of the reply.
        weight: weight in policy losses.
        reward: the reward that answers the reply.
        overridden: wishes of the client that were not followed.
    """

    id: int
    parent: int | None
    relation: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    reply: Mapping[str, Any]
    prompt: Tokens
    tokens: Tokens
    logprobs: FloatArray
    support: Support | None
    version: int | None
    finish: str
    weight: float
    reward: float
    overridden: Mapping[str, Any]


def traced_calls(record: Record) -> list[TracedCall]:
    """Returns the answered calls of an episode, in the order of their replies."""
    found = []
    messages = {id(each): each for call in record.turns() for each in call.request.messages}
    bodies = {key: message_body(each) for key, each in messages.items()}  # calls share them
    for call, weight in zip(record.turns(), record.weights(), strict=True):
        sample, reply = call.sample, call.reply
        assert sample is not None and reply is not None
        found.append(
            TracedCall(
                id=call.number,
                parent=call.prompt.parent,
                relation=call.prompt.relation,
                messages=tuple(bodies[id(each)] for each in call.request.messages),
                tools=tuple(call.request.tools),
                reply=message_body(reply),
                prompt=call.prompt.tokens,
                tokens=sample.tokens,
                logprobs=np.asarray(sample.logprobs, np.float32),
                support=sample.support,
                version=sample.version,
                finish=reply.finish,
                weight=weight,
                reward=call.reward,
                overridden=dict(call.request.overridden),
            )
        )
    return found


def write_trace(calls: Sequence[TracedCall], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an episode as a line of a trace file.

    Args:
        calls: its calls. A parent comes before its children.
        facts: what else is known: env, task, seed, key, model, template, sampling, end.
    """
    by_id = {call.id: call for call in calls}
    tools: dict[str, Any] = {}
    lines = []
    for call in calls:
        name = hashlib.sha256(json.dumps(list(call.tools)).encode()).hexdigest()[:16]
        tools[name] = list(call.tools)
        parent = by_id.get(call.parent) if call.parent is not None else None
        shared, fed = common(call, parent)
        lines.append(
            {
                "id": call.id,
                "parent": call.parent,
                "relation": call.relation,
                "shared_messages": shared,
                "messages": list(call.messages[shared:]),
                "tools": name,
                "reply": dict(call.reply),
                "shared_tokens": fed,
                "prompt": call.prompt[fed:].tolist(),
                "tokens": call.tokens.tolist(),
                "logprobs": [float(value) for value in call.logprobs],
                "support": _written(call.support),
                "version": call.version,
                "finish": call.finish,
                "weight": call.weight,
                "reward": call.reward,
                "overridden": dict(call.overridden),
            }
        )
    return {"format": FORMAT, "version": VERSION, **facts, "tools": tools, "calls": lines}


def common(call: TracedCall, parent: TracedCall | None) -> tuple[int, int]:
    """Returns how many messages and prompt tokens a call has in common with its parent.

    The tokens are those of the parent's prompt and reply.
    """
    if parent is None:
        return 0, 0
    pairs = zip(call.messages, parent.messages, strict=False)
    different = (i for i, (a, b) in enumerate(pairs) if a is not b and a != b)
    shared = next(different, None)
    if shared is None:
        shared = min(len(call.messages), len(parent.messages))
    whole = np.concatenate([parent.prompt, parent.tokens])
    fits = len(whole) <= len(call.prompt) and np.array_equal(call.prompt[: len(whole)], whole)
    return shared, len(whole) if fits else 0


def _written(support: Support | None) -> dict[str, Any] | None:
    if support is None:
        return None
    return {"offsets": support.offsets.tolist(), "ids": support.ids.tolist()}


def read_trace(line: Mapping[str, Any]) -> list[TracedCall]:
    """Returns the calls of a line of a trace file.

    Raises:
        ConfigError: if it is no such line, or of a later version.
    """
    if line.get("format") != FORMAT or line.get("version") != VERSION:
        raise ConfigError(
            f"Expected a line with the format {FORMAT!r} of version {VERSION}, got "
            f"{line.get('format')!r:.80} of version {line.get('version')!r:.80}."
        )
    try:
        return _read_calls(line)
    except FAULTS as error:
        raise ConfigError(f"The trace is damaged: {error!r:.200}. Write it again.") from error


def _read_calls(line: Mapping[str, Any]) -> list[TracedCall]:
    found: dict[int, TracedCall] = {}
    for each in line["calls"]:
        parent = found.get(each["parent"])
        before = np.zeros(0, np.int32)
        if parent is not None:
            before = np.concatenate([parent.prompt, parent.tokens])
        fed, added = before[: each["shared_tokens"]], np.array(each["prompt"], np.int32)
        shared = parent.messages[: each["shared_messages"]] if parent is not None else ()
        call = TracedCall(
            id=each["id"],
            parent=each["parent"],
            relation=each["relation"],
            messages=(*shared, *each["messages"]),
            tools=tuple(line["tools"][each["tools"]]),
            reply=each["reply"],
            prompt=np.concatenate([fed, added]),
            tokens=np.array(each["tokens"], np.int32),
            logprobs=np.array(each["logprobs"], np.float32),
            support=_read_support(each["support"]),
            version=each["version"],
            finish=each["finish"],
            weight=each["weight"],
            reward=each["reward"],
            overridden=each["overridden"],
        )
        if len(call.tokens) != len(call.logprobs):
            raise ValueError("a call has not as many log-probabilities as tokens")
        found[call.id] = call
    return list(found.values())


def _read_support(value: Mapping[str, Any] | None) -> Support | None:
    if value is None:
        return None
    return Support(np.array(value["offsets"], np.int32), np.array(value["ids"], np.int32))
