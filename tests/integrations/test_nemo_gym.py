"""Environments as a resources server of the real NeMo Gym, by its HTTP routes."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import MagicMock

import pytest

from agentgym.errors import ConfigError
from agentgym.integrations.nemo_gym_rows import nemo_gym_rows
from agentgym.making import make_env


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


def test_outside_nemo_gym_the_error_names_it():
    if _installed():
        pytest.skip("NeMo Gym is installed")
    with pytest.raises(ImportError, match="needs NeMo Gym"):
        import agentgym.integrations.nemo_gym  # noqa: F401


def _installed() -> bool:
    try:
        import resources_servers.gymnasium  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def message(text: str) -> dict[str, Any]:
    """Returns a response of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    fields = {"id": "r", "created_at": 0.0, "model": "m", "object": "response"}
    fields |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return fields | {"output": [item | {"content": [part]}]}


@pytest.fixture
def server() -> Any:
    pytest.importorskip("resources_servers.gymnasium", reason="needs NeMo Gym")
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.server_utils import ServerClient

    from agentgym.integrations.nemo_gym import AgentGymServer

    config = BaseResourcesServerConfig(host="", port=0, entrypoint="", name="agentgym")
    return AgentGymServer(config=config, server_client=MagicMock(spec=ServerClient))


@pytest.mark.filterwarnings("ignore")  # of the test client and its HTTP library
def test_an_episode_over_http_is_that_of_the_environment(server: Any):
    from fastapi.testclient import TestClient

    [row] = nemo_gym_rows("NumberLine-v0", 1, size=6)
    env = make_env("NumberLine-v0", size=6)
    with TestClient(server.setup_webserver()) as client:
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
    from nemo_gym.openai_utils import NeMoGymResponse

    action = NeMoGymResponse.model_validate(message("+"))
    first, second = (asyncio.run(server.step(action, row, name)) for name in "ab")
    assert first == second
