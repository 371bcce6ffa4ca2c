"""Programs of users, as the tests of the gateway start them: as functions and as commands."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from typing import Any

from agentgym.trainers.gateway.task import Task
from benchmarks.shared.chat_program import play


def ask(task: Task, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Returns the message of a chat completion, with the standard library alone."""
    body = json.dumps({"model": "policy", "messages": messages, **options}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {task.key}"}
    request = urllib.request.Request(f"{task.url}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]


def chat(task: Task) -> None:
    """Plays the environment as a chat, with the whole history."""
    play(task, ask)


async def chat_async(task: Task) -> None:
    """The same as a coroutine."""
    chat(task)


def one_answer(task: Task) -> float:
    """Asks once, and is scored by the length of the answer."""
    print("one answer")
    return float(len(ask(task, [{"role": "user", "content": task.task}])["content"]))


def shown(task: Task) -> None:
    """Prints the key, and the length of the observation."""
    print(task.key, len(task.observation))


def fails(task: Task) -> None:
    """Asks once and raises an exception."""
    ask(task, [{"role": "user", "content": "hello"}])
    raise RuntimeError("out of order")


def hangs(task: Task) -> None:
    """Asks once and never ends."""
    ask(task, [{"role": "user", "content": "hello"}])
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    globals()[sys.argv[1]](Task.of_environ())
