"""Files that people write, with the mark and the line ends of Windows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents.scaffolds.base import read_data
from agentgym.agents.search.code_value import CodeValue
from agentgym.judges.rubric import read_rubric
from agentgym.trainers.gateway.task_file import TaskFile
from agentgym.trainers.rollout.curriculum import listed_tasks
from agentgym.wrappers.tool_tasks import load_tool_tasks

RUBRIC = "- polite (2): Is it polite?\n- short: Is it short?\n"
TASKS = "".join(json.dumps({"prompt": f"a\u2028{i}"}, ensure_ascii=False) + "\n" for i in range(3))
CALLS = [{"start": "train/0", "goal": "g", "calls": [{"name": "f", "arguments": {}}], "wrong": []}]


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("rubric.md", RUBRIC, read_rubric),
        ("rubric.json", '{"criteria": [{"name": "a", "text": "b"}]}', read_rubric),
        ("rules.txt", "Be kind.\n", read_data),
        ("value.py", "def value(observation):\n    return 0.5\n", CodeValue.of_file),
        (
            "tasks.json",
            '["train/0", "train/1"]',
            lambda file: listed_tasks(file, ["train/0", "train/1"]),
        ),
        ("tasks.jsonl", TASKS, lambda file: TaskFile(file).rows),
        ("written.json", json.dumps(CALLS), lambda file: load_tool_tasks(str(file))),
    ],
)
def test_marks_and_line_ends_are_no_text(
    name: str, text: str, read: Callable[[Any], Any], tmp_path: Path
):
    plain, marked = tmp_path / name, tmp_path / f"marked.{name}"
    plain.write_text(text, encoding="utf-8")
    marked.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    first, second = read(plain), read(marked)
    if isinstance(first, CodeValue):
        first, second = first.values(["a"]), second.values(["a"])
    assert first == second and first
