"""Environments as a resources server of the real NeMo Gym, by its HTTP routes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from agentgym.errors import ConfigError
from agentgym.integrations.nemo_gym_rows import nemo_gym_rows
from agentgym.registration.making import make_env

TRACES = Path(__file__).parents[1] / "golden" / "traces"
"""What `tests/gateway/test_foreign_traces.py` exports."""


def test_rows_cycle_through_the_tasks():
    rows = nemo_gym_rows("NumberLine-v0", 3, split="test", size=6)
    tasks = make_env("NumberLine-v0", size=6).get_wrapper_attr("tasks").test
    assert [row["task"] for row in rows] == [tasks[i % len(tasks)] for i in range(3)]
    assert [row["seed"] for row in rows] == [0, 1, 2]
    [message] = rows[0]["responses_create_params"]["input"]
    assert message["role"] == "system" and "number line" in message["content"]
    json.dumps(rows)
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        nemo_gym_rows("NumberLine-v0", 0)


@pytest.mark.skipif(importlib.util.find_spec("resources_servers") is not None, reason="NeMo Gym")
def test_outside_nemo_gym_the_error_names_it():
    with pytest.raises(ImportError, match="needs NeMo Gym"):
        importlib.import_module("agentgym.integrations.nemo_gym")


def message(text: str) -> dict[str, Any]:
    """Returns a response of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    fields = {"id": "r", "created_at": 0.0, "model": "m", "object": "response"}
    fields |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return fields | {"output": [item | {"content": [part]}]}


@pytest.fixture
def server() -> Any:
    if importlib.util.find_spec("resources_servers") is None:  # no part of it may be missing
        pytest.skip("needs NeMo Gym")
    base = importlib.import_module("nemo_gym.base_resources_server")
    config = base.BaseResourcesServerConfig(host="", port=0, entrypoint="", name="agentgym")
    client = MagicMock(spec=importlib.import_module("nemo_gym.server_utils").ServerClient)
    module = importlib.import_module("agentgym.integrations.nemo_gym")
    return module.AgentGymServer(config=config, server_client=client)


@pytest.mark.filterwarnings("ignore")  # of the test client and its HTTP library
def test_an_episode_over_http_is_that_of_the_environment(server: Any):
    testing = importlib.import_module("fastapi.testclient")
    [row] = nemo_gym_rows("NumberLine-v0", 1, size=6)
    env = make_env("NumberLine-v0", size=6)
    with testing.TestClient(server.setup_webserver()) as client:
        found = client.post("/reset", json=row).json()
        text, _ = env.reset(seed=row["seed"], options={"task": row["task"]})
        assert found["observation"] == text and found["info"]["admissible"] == ["+", "-"]
        over = False
        while not over:
            action = env.get_wrapper_attr("expert")()
            found = client.post("/step", json=row | {"response": message(action)}).json()
            text, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            assert (found["observation"], found["reward"]) == (text, reward)
            assert (found["terminated"], found["truncated"]) == (terminated, truncated)
        assert found["info"]["success"] and not server.session_state


def test_a_session_continues_from_its_snapshot(server: Any):
    [row] = nemo_gym_rows("NumberLine-v0", 1)
    asyncio.run(server.reset(row, "a"))
    saved = json.loads(json.dumps(server.serialize_session_state(server.session_state["a"])))
    server.session_state["b"] = server.deserialize_session_state(saved)
    response = importlib.import_module("nemo_gym.openai_utils").NeMoGymResponse
    action = response.model_validate(message("+"))
    first, second = (asyncio.run(server.step(action, row, name)) for name in "ab")
    assert first == second


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server on a base class that only keeps sessions, in place of NeMo Gym's."""

    class Base:
        def __init__(self):
            self.session_state: dict[str | None, Any] = {}

    base: Any = ModuleType("resources_servers.gymnasium")
    base.GymnasiumServer, base.extract_text = Base, str
    monkeypatch.setitem(sys.modules, "resources_servers", ModuleType("resources_servers"))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    name = "agentgym.integrations.nemo_gym"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name).AgentGymServer()
    sys.modules.pop(name)


def test_a_restored_session_has_the_state_of_its_wrappers(sessions: Any):
    wrap = ["MultiTrial:n=3,stop_on_success=false", "Memory"]
    row = {"env": "Blackjack-v0", "env_kwargs": {"wrap": wrap}, "task": "train/1", "seed": 0}

    def step(action: str, session: str) -> Any:
        return asyncio.run(sessions.step(action, row, session))

    asyncio.run(sessions.reset(row, "a"))
    step("remember: the dealer is strong", "a")
    step("stand", "a")
    saved = json.loads(json.dumps(sessions.serialize_session_state(sessions.session_state["a"])))
    sessions.session_state["b"] = sessions.deserialize_session_state(saved)
    found = step("stand", "a")
    assert "Notes:\n1. the dealer is strong\n" in found[0] and "attempt 3 of 3" in found[0]
    assert found == step("stand", "b")


def test_token_capture_builds_the_trajectory_of_an_exported_trace(tmp_path: Path):
    capture = pytest.importorskip(
        "nemo_gym.token_id_capture", reason="needs NeMo Gym 0.7", exc_type=ImportError
    )
    for file in TRACES.iterdir():
        shutil.copy(file, tmp_path)
    [row] = map(json.loads, (TRACES / "rollouts.jsonl").read_text("utf-8").splitlines())
    build = partial(capture.trajectories_for_rollout, "0-0", [tmp_path])
    found = build(verified_response=row["response"])
    assert not found["mask_sample"] and found["metrics"]["n_calls"] == 3
    assert found["metrics"]["terminal_attribution"]["chain"] == "delivered"
    [item] = found["rebuilt_response"]["output"]
    assert (item["prompt_token_ids"], item["generation_token_ids"]) == ([1, 4], [92])
    chain = build(explicit_terminal_call_id="0-0-1")
    items = chain["rebuilt_response"]["output"]
    found = [
        (item["prompt_token_ids"], item["generation_token_ids"])
        for item in items
        if "generation_token_ids" in item
    ]
    assert not chain["mask_sample"]
    assert found == [([1, 2], [90]), ([1, 2, 90, 3], [91])]
    assert items[-1]["generation_log_probs"] == pytest.approx([-1.1])
