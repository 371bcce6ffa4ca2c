"""Programs of real client libraries, unmodified, on the gateway (`make test-harnesses`).

Each library is installed in a folder of its own, below the one that `AGENTGYM_HARNESSES` names.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from agentgym.trainers.gateway.messages import Answered, History, call_ids
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, ToolCall

from .stub_backend import KEY, StubBackend

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from agentgym.trainers.gateway.server import GatewayServer

FOLDER = os.environ.get("AGENTGYM_HARNESSES", "")
PROGRAMS = Path(__file__).parent / "client_programs"
CASES = [
    ("openai", "openai_chat", ""),
    ("openai", "openai_chat", "stream"),
    ("openai-2", "openai_chat", "stream"),
    ("openai-agents", "openai_agents", ""),
    ("openai-agents", "openai_agents", "stream"),
    ("openai-agents", "openai_agents", "responses"),
    ("openai-agents", "openai_agents", "responses stream"),
    ("langgraph", "langgraph_agent", ""),
    ("langgraph", "langgraph_agent", "stream"),
    ("pydantic-ai", "pydantic_ai_agent", ""),
    ("pydantic-ai", "pydantic_ai_agent", "stream"),
    ("strands", "strands_agent", ""),
    ("ag2", "ag2_agent", ""),
    ("smolagents", "smolagents_agent", ""),
]
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


@pytest.mark.parametrize(("library", "program", "mode"), CASES)
def test_an_unmodified_program_solves_its_task(
    library: str, program: str, mode: str, tmp_path: Path
):
    python = Path(FOLDER) / library / "bin" / "python"
    if not FOLDER or not python.exists():
        pytest.skip("run with `make test-harnesses`")
    backend = Scripted()
    with GatewayServer(backend) as server:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_BASE": f"{server.url}/v1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_MODEL": "tiny",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "OTEL_SDK_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        arguments = [str(python), str(PROGRAMS / f"{program}.py"), *mode.split()]
        done = subprocess.run(
            arguments, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "It is 7." in done.stdout
    first, second = (request for _, request, _ in backend.requests[:2])
    assert "add" in [tool["function"]["name"] for tool in first.tools]
    assert json.dumps(first.tools) == json.dumps(second.tools)
    assert (backend.parents[1] is None) == (library in REWRITES)
    assert {key for key, _, _ in backend.requests} == {KEY}
