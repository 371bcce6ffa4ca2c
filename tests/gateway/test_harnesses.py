"""Programs of real client libraries, unmodified, on the gateway (`make test-harnesses`).

Each library is installed in a folder of its own, below the one that `AGENTGYM_HARNESSES` names.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.trainers.gateway.messages import Answered, History, call_ids
from agentgym.trainers.gateway.task import SILENT
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, ToolCall

from .stub_backend import KEY, StubBackend

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from agentgym.trainers.gateway.server import GatewayServer

FOLDER = os.environ.get("AGENTGYM_HARNESSES", "")
PROGRAMS = Path(__file__).parent / "client_programs"
RESULTS = os.environ.get("AGENTGYM_HARNESS_RESULTS", "")
"""File for the table of compatibility. "": none."""
PACKAGES = {
    "openai": ("openai",),
    "openai-2": ("openai",),
    "anthropic": ("anthropic",),
    "openai-agents": ("openai-agents", "openai"),
    "langgraph": ("langgraph", "langchain-openai", "openai"),
    "pydantic-ai": ("pydantic-ai-slim", "openai"),
    "strands": ("strands-agents", "openai"),
    "ag2": ("ag2", "openai"),
    "smolagents": ("smolagents", "openai"),
}
"""Packages of each folder, the library first."""
CASES = [
    ("openai", "openai_chat", ""),
    ("openai", "openai_chat", "stream"),
    ("openai", "openai_chat", "async"),
    ("openai", "openai_responses", "responses"),
    ("openai", "openai_responses", "responses stream"),
    ("openai-2", "openai_chat", ""),
    ("openai-2", "openai_chat", "stream"),
    ("openai-2", "openai_chat", "async"),
    ("openai-2", "openai_responses", "responses"),
    ("openai-2", "openai_responses", "responses stream"),
    ("anthropic", "anthropic_messages", "messages"),
    ("anthropic", "anthropic_messages", "messages stream"),
    ("openai-agents", "openai_agents", ""),
    ("openai-agents", "openai_agents", "stream"),
    ("openai-agents", "openai_agents", "responses"),
    ("openai-agents", "openai_agents", "responses stream"),
    ("langgraph", "langgraph_agent", ""),
    ("langgraph", "langgraph_agent", "stream"),
    ("langgraph", "langgraph_agent", "async"),
    ("langgraph", "langgraph_agent", "responses"),
    ("langgraph", "langgraph_agent", "responses stream"),
    ("pydantic-ai", "pydantic_ai_agent", ""),
    ("pydantic-ai", "pydantic_ai_agent", "stream"),
    ("pydantic-ai", "pydantic_ai_agent", "responses"),
    ("pydantic-ai", "pydantic_ai_agent", "responses stream"),
    ("strands", "strands_agent", "stream"),
    ("ag2", "ag2_agent", ""),
    ("ag2", "ag2_agent", "stream"),
    ("smolagents", "smolagents_agent", ""),
    ("smolagents", "smolagents_agent", "stream"),
]
"""Library, program and mode: the API, chat completions if none is named, "stream" and "async"."""
REWRITES = {"smolagents"}
"""Libraries that send calls back as prose, which no echo rule recognises."""


class Scripted(StubBackend):
    """Calls `add` first, and then answers. It keeps a history."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.parents: list[int | None] = []
        self.reply = self.script

    def script(self, request: ChatRequest) -> ChatReply:
        chain = self.history.chain(request)
        self.parents.append(chain.parent)
        number = len(self.parents) - 1
        names = [tool["function"]["name"] for tool in request.tools]
        answered = number > 0
        (id,) = call_ids("episode", number, 1)
        if not answered:
            calls = (ToolCall(id, "add", '{"a":3, "b": 4}'),)
        elif "final_answer" in names:
            calls = (ToolCall(id, "final_answer", '{"answer": "It is 7."}'),)
        else:
            calls = ()
        text = None if calls else "It is 7."
        reply = ChatReply(text, "I add.", calls, "tool_calls" if calls else "stop", 9, 4)
        tokens = np.array([number], np.int32)
        self.history.add(Answered(number, chain.digest, tokens, tokens, reply))
        return reply


@pytest.fixture(scope="module")
def rows() -> Iterator[list[dict[str, Any]]]:
    """What each program did, written to a file at the end if all of them ran."""
    found: list[dict[str, Any]] = []
    yield found
    if RESULTS and len(found) == len(CASES):
        libraries = {name: versions(name) for name in PACKAGES}
        content = {"python": platform.python_version(), "libraries": libraries, "runs": found}
        Path(RESULTS).write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def python_of(library: str) -> Path:
    return Path(FOLDER) / library / "bin" / "python"


def versions(library: str) -> dict[str, str]:
    """The versions of the packages of a library."""
    code = "import sys; from importlib.metadata import version\nprint(*map(version, sys.argv[1:]))"
    names = PACKAGES[library]
    shown = subprocess.check_output([python_of(library), "-c", code, *names], text=True)
    return dict(zip(names, shown.split(), strict=True))


def run(url: str, library: str, program: str, mode: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a program."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": "tiny",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        **SILENT,
        "NO_PROXY": "127.0.0.1,localhost",
    }
    words = [str(python_of(library)), str(PROGRAMS / f"{program}.py"), *mode.split()]
    done = subprocess.run(
        words, env=environ, cwd=folder, capture_output=True, text=True, timeout=200
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("library", "program", "mode"), CASES)
def test_an_unmodified_program_solves_its_task(
    library: str, program: str, mode: str, tmp_path: Path, rows: list[dict[str, Any]]
):
    if not FOLDER or not python_of(library).exists():
        pytest.skip("run with `make test-harnesses`")
    backend = Scripted()
    with GatewayServer(backend) as server:
        code, output, errors = run(server.url, library, program, mode, tmp_path)
    solved = code == 0 and "It is 7." in output
    extends = backend.parents[1:2] not in ([], [None])
    rows.append({"library": library, "mode": mode, "solved": solved, "extends": extends})
    assert solved, errors[-2000:]
    first, second = (request for _, request, _ in backend.requests[:2])
    assert "add" in [tool["function"]["name"] for tool in first.tools]
    assert json.dumps(first.tools) == json.dumps(second.tools)
    assert extends == (library not in REWRITES)
    assert {key for key, _, _ in backend.requests} == {KEY}
