"""`HeldEnv`: programs act in the environment of their session, and learn nothing of rewards."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from agentgym import make_env
from agentgym.registration.mixture import Mixture
from agentgym.serving.protocol import ProtocolError
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.trainers.gateway.environment_routes import environment_routes, mcp_reply
from agentgym.trainers.gateway.record import Record
from agentgym.trainers.gateway.server import GatewayServer
from agentgym.trainers.gateway.service import session_routes

from .stub_backend import StubBackend


def held(id: str = "Todo-v0", **kwargs: Any) -> tuple[HeldEnv, list[Any]]:
    """An environment, and the steps that the trainer sees."""
    steps: list[Any] = []
    env = HeldEnv(make_env(id, **kwargs), "train/0", 3)
    env.attach(lambda *outcome, call: steps.append((*outcome, call)))
    return env, steps


def test_the_trainer_sees_the_reward_and_the_program_does_not():
    env, steps = held("NumberLine-v0", size=2, max_turns=3)
    first = env.reset()
    assert first["observation"]["instructions"] == env.instructions
    found = [first]
    while not found[-1]["done"]:
        found.append(env.step({"text": found[-1]["observation"]["admissible"][0]}))
    assert len(steps) == len(found) - 1
    assert all(step["reward"] is None for step in found)
    for hidden in ("success", "progress", "state_key", "reward_terms"):
        assert hidden in steps[-1][3] and hidden not in json.dumps(found)


def test_an_episode_begins_and_ends_once():
    env, _ = held("NumberLine-v0", max_turns=1)
    env.reset()
    with pytest.raises(ProtocolError, match="has begun"):
        env.reset()
    env.step({"text": "+"})
    with pytest.raises(ProtocolError, match="is over"):
        env.step({"text": "+"})


def test_nobody_acts_after_the_end_of_a_session():
    env, steps = held()
    env.close()
    with pytest.raises(ProtocolError, match="is over"):
        env.call(env.mcp_tools[0]["name"], {})
    assert not steps


def test_tools_are_played_and_reported_by_name():
    env, steps = held()
    name = env.tools[0]["function"]["name"]
    assert env.tools[0]["type"] == "function"
    found = env.call(name, {})
    assert found["observation"]["text"] == str(env.observation)
    assert (steps[0][4].name, steps[0][4].arguments) == (name, "{}")


def test_a_wrapper_that_passes_calls_on_leaves_the_tools():
    env = HeldEnv(make_env("Todo-v0", wrap=["Memory"]), "", 3)
    env.attach(lambda *outcome, call: None)
    assert {"act", "list_projects"} <= {tool["name"] for tool in env.mcp_tools}
    env.call("list_projects", {})
    assert env.info["valid"]


@pytest.mark.parametrize("mixed", [False, True])
def test_a_wrapper_that_reads_actions_is_played_as_text(mixed: bool):
    wrapped = make_env("Todo-v0", wrap=["ExtractAction:format=tags"])
    env = HeldEnv(Mixture({"Todo-v0": wrapped}) if mixed else wrapped, "", 3)
    env.attach(lambda *outcome, call: None)
    assert not env.tools and [tool["name"] for tool in env.mcp_tools] == ["act"]
    env.call("act", {"action": '<action>{"name": "list_projects", "arguments": {}}</action>'})
    assert env.info["valid"]


@pytest.mark.parametrize(
    ("name", "arguments"), [("no_such_tool", {}), (3, {}), ("act", {"text": "x"}), ("act", [])]
)
def test_what_is_no_call_is_refused_and_plays_no_turn(name: Any, arguments: Any):
    env, steps = held("NumberLine-v0")
    with pytest.raises(ProtocolError):
        env.call(name, arguments)
    assert not steps


def test_a_failure_of_the_environment_ends_the_episode(monkeypatch: pytest.MonkeyPatch):
    env, steps = held("NumberLine-v0")

    def broken(_: str) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(env._env, "step", broken)
    with pytest.raises(ProtocolError, match="has failed"):
        env.step({"text": "+"})
    assert env.over and "out of order" in str(env.error) and not steps


def test_a_client_of_mcp_lists_and_calls_tools():
    env, steps = held()

    def ask(method: str, **params: Any) -> dict[str, Any]:
        return mcp_reply(env, {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})

    begun = ask("initialize", protocolVersion="2025-03-26", capabilities={})["result"]
    assert begun["protocolVersion"] == "2025-03-26" and begun["instructions"] == env.instructions
    tools = ask("tools/list")["result"]["tools"]
    assert {"name", "description", "inputSchema"} == tools[0].keys()
    called = ask("tools/call", name=tools[-1]["name"], arguments={})["result"]
    assert called["content"][0]["type"] == "text" and len(steps) == 1
    assert "reward" not in json.dumps(called)
    assert ask("tools/call", name="none", arguments={})["result"]["isError"]
    assert ask("no/method")["error"]["code"] == -32601


def test_keys_lead_to_environments_over_http():
    env, steps = held("NumberLine-v0")
    find = {"the-key": env}.get
    client = TestClient(Starlette(routes=environment_routes(find)))
    assert client.post("/e/the-key/reset", json={}).json()["done"] is False
    stepped = client.post("/e/the-key/step", json={"action": {"text": "+"}})
    assert stepped.status_code == 200 and stepped.json()["reward"] is None
    assert client.get("/e/the-key/state").json()["step_count"] == 1
    assert client.post("/e/another/step", json={"action": {"text": "+"}}).status_code == 404
    assert client.post("/e/the-key/step", content="{").status_code == 422
    assert client.post("/e/the-key/step", content="x" * (2 << 20)).status_code == 422
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert client.post("/m/the-key", json=ping).json()["result"] == {}
    assert client.post("/m/another", json=ping).status_code == 404
    assert len(steps) == 1


@pytest.mark.parametrize("path", ["/e/the-key/step", "/e/the-key/call", "/m/the-key", "/sessions"])
def test_a_body_that_trickles_in_is_refused(path: str, capfd: pytest.CaptureFixture[str]):
    """As by the other routes of the gateway. A client that leaves in the middle is no failure."""
    env, steps = held("NumberLine-v0")
    routes = environment_routes({"the-key": env}.get, 0.3)
    routes += session_routes(cast(Any, None), body_seconds=0.3)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 10000\r\n\r\n"
    ).encode()
    with GatewayServer(StubBackend(), routes=routes) as server:
        address = urlsplit(server.url)
        for leaves in (True, False):
            with socket.create_connection((str(address.hostname), address.port), 20) as client:
                client.sendall(head)
                client.settimeout(0.05)
                answer, sent = b"", 0
                while not answer and sent < 400 and not (leaves and sent):
                    client.sendall(b" ")
                    sent += 1
                    with contextlib.suppress(TimeoutError):
                        answer = client.recv(1000)
                client.settimeout(20)
                while answer and b"took over" not in answer:  # the headers alone
                    answer += client.recv(1000)
        assert b"took over 0.3 s" in answer
    assert not steps and "Traceback" not in capfd.readouterr().err


def test_steps_reach_the_record_of_a_session():
    env = HeldEnv(make_env("NumberLine-v0"), "train/0", 3)
    record = Record(env.info)
    env.attach(record.step)
    env.step({"text": "+"})
    assert record.info["turn"] == 1
