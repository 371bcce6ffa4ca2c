"""A program of a user: a loop of chat completions over the gateway. It needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from agentgym.trainers.gateway.kept_connections import post
from agentgym.trainers.gateway.task import Task


def play(task: Task, reply_to: Callable[..., dict[str, Any]] | None = None) -> None:
    """Plays an episode, as a client of the gateway.

    Args:
        task: the episode.
        reply_to: asks for the next message, as `ask`, which None stands for.
    """
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": task.instructions},
        {"role": "user", "content": task.observation},
    ]
    done = False
    while not done:
        reply = (reply_to or ask)(task, messages)
        observation, done, _ = task.step(reply["content"])
        messages += [reply, {"role": "user", "content": observation}]


def ask(task: Task, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Returns the next message of a chat completion, over a connection that stays open.

    Args:
        task: the episode.
        messages: the conversation.
        **more: further fields of the request, such as tools.
    """
    body = json.dumps({"model": task.model, "messages": messages, **more}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {task.key}"}
    status, text = post(f"{task.url}/v1/chat/completions", body, headers)
    if status != HTTPStatus.OK:
        raise RuntimeError(f"The gateway answers {status}: {text.decode('utf-8', 'replace')}")
    return json.loads(text)["choices"][0]["message"]
