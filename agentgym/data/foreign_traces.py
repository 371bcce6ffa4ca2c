"""`foreign_chats`: traces of other projects as chats.

They are read as texts. Token ids of another project belong to a tokenizer that its files do not
identify, so they are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from agentgym.data.call_tree import TreeCall, conversations, plain
from agentgym.data.messages import string
from agentgym.data.traces import facts_of

OWN = "agentgym"
"""Key of what AgentGym adds to a trace of verifiers, in its `info`."""
_MARKS = {"nodes", "traces", "responses_create_params", "generation_token_ids"}


def is_foreign(row: Mapping[str, Any]) -> bool:
    """Whether a row is a trace of another project, by its keys."""
    return ("schema_version" in row and "turns" in row) or not _MARKS.isdisjoint(row)


def foreign_chats(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of a trace as rows with `messages`, one per last call.

    These formats are read:

    - verifiers: an `Episode` (a line of `traces.jsonl`) or a `Trace` of version 1. Its reward is
      that of the last reply of each conversation. Replies of an agent that is not trained, and
      summaries that the agent did not take, have no weight.
    - OpenEnv: a `TrainingTrace` of version 1. It has no rewards.
    - NeMo Gym: a row of collected rollouts, with `responses_create_params` and `response`. Its
      replies have no weight if its `mask_sample` is true.

    Those without a reply of a model have no conversation.

    Raises:
        ValueError: if the trace is of another version, its parts do not fit together, or it holds
            no texts.
        LookupError, TypeError, AttributeError: if a part is missing or of another type.
    """
    if "nodes" in row:
        return _verifiers(row, "")
    if "traces" in row:
        env = str((row.get("env") or {}).get("id") or "")
        return [each for trace in row["traces"] for each in _verifiers(trace, env)]
    if "schema_version" in row and "turns" in row:
        return _openenv(row)
    if "responses_create_params" in row:
        return _nemo_gym(row)
    raise ValueError("token records of NeMo Gym hold no prompts: give its file of rollouts")


def _check_version(version: Any) -> None:
    if version != 1:
        raise ValueError(f"expected version 1, got {version!r:.80}")


# verifiers: a graph of messages, each with its parent.


def _verifiers(row: Mapping[str, Any], env: str) -> list[dict[str, Any]]:
    _check_version(row.get("version"))
    own, task = (row.get("info") or {}).get(OWN) or {}, row["task"]
    data = task.get("data") or {}
    names = task.get("key"), data.get("id"), data.get("name"), data.get("idx")
    model = (row["agent"].get("config") or {}).get("model")
    facts = {
        "env": env,
        "task": str(next((each for each in names if each is not None), "")),
        "agent": str(model or row["agent"].get("name") or ""),
        "terminated": not _is_cut_off(row),
    } | facts_of(own)
    calls = _sampled(row["nodes"])
    untrained = _rejected(row["nodes"]) if row["agent"].get("trainable", True) else calls.keys()
    for index in untrained & calls.keys():
        calls[index].weight = 0.0
    scores = [each for each in (row.get("rewards") or {}).values() if each is not None]
    total = sum(float(each["score"]) * float(each.get("weight", 1)) for each in scores)
    rewards = own.get("rewards")
    for number, call in enumerate(calls.values()):
        call.reward = float(rewards[number]) if rewards else 0.0 if call.answered else total
    rows = conversations(calls.values(), facts)
    if not scores:
        for each in rows:
            del each["rewards"]
    return rows


def _is_cut_off(row: Mapping[str, Any]) -> bool:
    """Whether a limit, a time limit or an error ended a trace."""
    stop = str(row.get("stop_condition") or "")
    limits = stop.startswith("max_") or stop == "compaction_failed"
    failed = row.get("errors") and not row.get("ok")  # an earlier attempt may have failed
    return limits or bool(row.get("is_timeout") or failed)


def _rejected(nodes: Sequence[Mapping[str, Any]]) -> set[int]:
    """Returns the summaries of a conversation that no node goes on from."""
    links = [
        (index, link)
        for index, node in enumerate(nodes)
        for link in node.get("semantic_parents") or ()
    ]
    tried = {index for index, link in links if link["type"] == "compaction_attempt"}
    return tried - {link["node"] for _, link in links if link["type"] == "compaction"}


def _sampled(nodes: Sequence[Mapping[str, Any]]) -> dict[int, TreeCall]:
    """Returns the replies of a model among the nodes, by their index."""
    found: dict[int, TreeCall] = {}
    roots: list[int] = []
    for index, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and not 0 <= parent < index:
            raise ValueError(f"node {index} has the parent {parent!r:.80}, which is not before it")
        roots.append(index if parent is None else roots[parent])
        if not node.get("sampled"):
            continue
        between = []
        while parent is not None and parent not in found:
            between.append(_flat_message(nodes[parent]["message"]))
            parent = nodes[parent].get("parent")
        tools = [_nested(tool) for tool in nodes[roots[index]].get("tools") or ()]
        masked = node.get("token_ids") and not any(node.get("mask") or ())
        reply, weight = _flat_message(node["message"]), 0.0 if masked else 1.0
        found[index] = TreeCall(between[::-1], reply, tools, 0.0, weight)
        found[index].follow(None if parent is None else found[parent])
    return found


def _nested(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool in the form of chat completions, or as it is if it is no function."""
    if "name" not in tool:
        return dict(tool)
    tool = _qualified(tool)
    facts = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": facts}


def _qualified(named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool or a call of one with its namespace, if any, in its name."""
    space = named.get("namespace")
    return {**named, "name": f"{space}.{named['name']}" if space else named["name"]}


def _flat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of verifiers in the form of chat completions."""
    calls = [{"function": _qualified(call)} for call in message.get("tool_calls") or ()]
    text = _text(message.get("content"))
    return {**message, "content": text, "tool_calls": calls}


def _text(content: Any) -> str:
    """Returns the text of a content, which may have parts."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        text = part.get("refusal" if part.get("type") == "refusal" else "text")
        if not isinstance(text, str):
            raise ValueError(f"expected parts that are texts, got one of type {part.get('type')!r}")
        texts.append(text)
    return "".join(texts)


# OpenEnv: calls one after the other, each with its whole conversation.


def _openenv(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    _check_version(row["schema_version"])
    calls: list[TreeCall] = []
    answered: dict[bytes, list[TreeCall]] = {}
    for turn in row["turns"]:
        request, (choice,) = turn["request"], turn["response"]["choices"]
        before, begin, digest = None, 0, b""
        for place, message in enumerate(request["messages"]):
            if message["role"] == "assistant" and digest in answered:
                before, begin = _answered(answered[digest], message), place + 1
            digest = _digest(digest, message)
        messages = [{**m, "content": _text(m.get("content"))} for m in request["messages"][begin:]]
        weight = 1.0 if any(turn["loss_mask"]) else 0.0
        call = TreeCall(messages, choice["message"], request.get("tools") or (), 0.0, weight)
        call.follow(before)
        answered.setdefault(digest, []).append(call)
        calls.append(call)
    model = str(row["turns"][0]["metadata"].get("model") or "") if row["turns"] else ""
    rows = conversations(calls, {"agent": model})
    for each in rows:
        del each["rewards"]
    return rows


def _answered(calls: Sequence[TreeCall], message: Mapping[str, Any]) -> TreeCall:
    """Returns the call whose reply a message is, among calls with one conversation.

    It is the latest one where a program has changed the reply.
    """
    keys = ("content", "tool_calls")
    equal = [
        call
        for call in calls
        if all((call.reply.get(key) or "") == (message.get(key) or "") for key in keys)
    ]
    return [*calls, *equal][-1]


def _digest(before: bytes, message: Mapping[str, Any]) -> bytes:
    """Returns the digest of a conversation, from that of the part before its last message."""
    return hashlib.sha256(before + json.dumps(message, sort_keys=True).encode()).digest()


# NeMo Gym: one conversation as items of the Responses API.


def _nemo_gym(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    asked, response = row["responses_create_params"], row.get("response")
    if not isinstance(response, Mapping):
        raise ValueError("expected a `response`: inputs alone are no rollout")
    given = asked.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    before = _joined(items)
    if asked.get("instructions"):
        before.insert(0, {"role": "system", "content": string(asked["instructions"])})
    after = _joined(response["output"])
    weight = 0.0 if row.get("mask_sample") else 1.0
    messages = [plain(message) for message in [*before, *after]]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            message["weight"] = 0.0 if place < len(before) else weight
    replies = sum(message["role"] == "assistant" for message in messages)
    if not any(message["role"] == "assistant" for message in after):
        return []
    tools = [_nested(tool) for tool in asked.get("tools") or ()]
    facts = {"task": str(row.get("_ng_task_index", "")), "agent": str(response.get("model") or "")}
    found = {"messages": messages, "tools": tools} | facts | facts_of(row)
    if row.get("reward") is not None:
        found["rewards"] = [0.0] * (replies - 1) + [float(row["reward"])]
    return [found]


def _joined(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns items as messages. Thought, text and calls of a reply are items of their own."""
    if not all(isinstance(item, Mapping) for item in items):
        raise ValueError("expected items of the Responses API, got lists of them or others")
    found: list[dict[str, Any]] = []
    for of_a_reply, group in groupby(items, _of_a_reply):
        some = list(group)
        found += [_reply(some)] if of_a_reply else map(_of_others, some)
    return found


def _of_others(item: Mapping[str, Any]) -> dict[str, Any]:
    if item.get("type") == "function_call_output":
        return {"role": "tool", "content": _text(item["output"])}
    return {"role": item["role"], "content": _text(item["content"])}


def _of_a_reply(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("reasoning", "function_call") or item.get("role") == "assistant"


def _reply(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    parts = [part for item in thoughts for part in (item.get("content") or item["summary"])]
    calls = [
        {"function": _qualified(item)} for item in items if item.get("type") == "function_call"
    ]
    texts = [_text(item["content"]) for item in items if item.get("role") == "assistant"]
    return {
        "role": "assistant",
        "content": "\n".join(texts),
        "reasoning_content": "\n".join(string(part["text"]) for part in parts),
        "tool_calls": calls,
    }
