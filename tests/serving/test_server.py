"""The server with the client of OpenEnv, with clients that are killed, and with any bytes."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.cli.main import main
from agentgym.errors import ConfigError
from agentgym.integrations.remote import RemoteEnv, RemoteError
from agentgym.registration.making import make_env, tasks_of

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("starlette", reason="needs the extra `serve`")
websockets = pytest.importorskip("websockets", reason="needs the extra `serve`")

from websockets.sync.client import connect  # noqa: E402  # pyright: ignore

from agentgym.serving.server import Limits, Session, Sessions, _Served, make_app  # noqa: E402

TOKEN = "secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Slow:
    """A text environment whose steps wait for an event."""

    gate = threading.Event()

    @staticmethod
    def make() -> Any:
        env = make_env("NumberLine-v0")
        step = env.step

        def slow(action: str) -> Any:
            if action == "wait":
                Slow.gate.wait(20)
            if action == "fail":
                raise RuntimeError("a fault of the environment")
            if action == "time out":
                raise TimeoutError("the shop does not answer")
            return step(action)

        env.step = slow  # type: ignore[method-assign]
        return env


def serving(limits: Limits, **makers: Any) -> Iterator[tuple[str, Any]]:
    """Runs a server on a free port and yields its address and its sessions."""
    app = make_app({name.replace("_", "-"): make for name, make in makers.items()}, limits, TOKEN)
    for url in running(app, ws_max_size=limits.message_bytes):
        yield url, app.state.sessions


def running(app: Any, **options: Any) -> Iterator[str]:
    """Runs an ASGI application on a free port and yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="error", ws="websockets-sansio", **options)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        Slow.gate.set()
        thread.join()


def until(true: Any) -> None:
    """Waits for an event of another thread."""
    for _ in range(2000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.fixture(scope="module")
def server():
    wordle = partial(make_env, "Wordle-v0")
    line = partial(make_env, "NumberLine-v0", size=6)
    limits = Limits(sessions=8, message_bytes=4096, env_seconds=20)
    yield from serving(limits, NumberLine_v0=line, Wordle_v0=wordle, Slow=Slow.make)


def ws(url: str, name: str = "NumberLine-v0", **options: Any) -> Any:
    address = f"{url.replace('http', 'ws')}/{name}/ws"
    return connect(address, **{"additional_headers": HEADERS, "proxy": None} | options)


def ask(client: Any, type: str, **data: Any) -> dict[str, Any]:
    client.send(json.dumps({"type": type, "data": data}))
    return json.loads(client.recv(timeout=20))


def http(url: str, body: Any = None, headers: Any = HEADERS) -> tuple[int, dict[str, Any]]:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} | headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


def test_the_client_of_openenv_plays_an_episode(server):
    client_module = pytest.importorskip("openenv.core", reason="needs the extra `openenv`")
    url, _ = server
    env = make_env("NumberLine-v0", size=6)
    text, _info = env.reset(seed=5, options={"task": "train/5"})
    address = {"base_url": f"{url}/NumberLine-v0", "headers": HEADERS}
    with client_module.GenericEnvClient(**address).sync() as client:
        result = client.reset(seed=5, task="train/5")
        assert result.observation["text"] == text and not result.done
        while not result.done:
            action = env.get_wrapper_attr("expert")()
            text, reward, *_ = env.step(action)
            result = client.step({"text": action})
            assert (result.observation["text"], result.reward) == (text, reward)
        assert result.observation["success"] and client.state()["task"] == "train/5"
        with pytest.raises(Exception, match="EXECUTION_ERROR"):
            client.step({"text": "left"})
        assert not client.reset(seed=1).done


def test_a_game_is_described_by_its_own_docstring():
    served = _Served("Poker", partial(make_env, "KuhnPoker-v0"), Sessions(Limits()), b"key")
    assert "poker" in served.about["/metadata"]["description"].lower()


@pytest.mark.parametrize("place", ["", "/NumberLine-v0"])
def test_the_openapi_document_names_the_paths_of_a_simulation(server, place: str):
    url, _ = server
    status, found = http(f"{url}{place}/openapi.json")
    assert status == 200 and found["info"]["version"] and found["openapi"].startswith("3.1")
    assert {"/reset", "/step", "/state"} <= found["paths"].keys()
    for path, methods in found["paths"].items():
        body = {"task": "none of this name"} if "post" in methods else None  # starts no session
        assert http(f"{url}{place}{path}", body)[0] != 405, path


@pytest.mark.parametrize(
    ("message", "code"),
    [({}, -32600), ({"method": 3}, -32600), ({"id": 7, "method": "tools/list"}, -32601)],
)
def test_mcp_answers_that_the_simulation_is_no_tool(server, message: dict[str, Any], code: int):
    status, found = http(f"{server[0]}/mcp", message)
    assert (status, found["jsonrpc"], found["id"]) == (200, "2.0", message.get("id"))
    assert found["error"]["code"] == code and "agentgym mcp" in found["error"]["message"]


def test_openenv_validates_a_served_environment():
    validation = pytest.importorskip("openenv.cli._validation", reason="needs the extra `openenv`")
    app = make_app({"NumberLine-v0": partial(make_env, "NumberLine-v0")}, Limits())
    for url in running(app):
        report = validation.validate_running_environment(url)
        assert report["passed"], report["criteria"]


def test_replies_have_the_types_of_openenv(server):
    types = pytest.importorskip("openenv.core.env_server.types", reason="needs the extra `openenv`")
    url, _ = server
    metadata = http(f"{url}/metadata")[1]
    assert metadata.pop("capabilities") == ["snapshot", "restore", "fork"]  # beyond OpenEnv
    types.EnvironmentMetadata(**metadata)
    types.SchemaResponse(**http(f"{url}/schema")[1])
    types.HealthResponse(**http(f"{url}/health", headers={})[1])
    reset = http(f"{url}/reset", {"seed": 1})[1]
    session = reset.pop("session_id")
    types.ResetResponse(**reset)
    body = {"action": {"text": "+"}, "session_id": session}
    types.StepResponse(
        **{k: v for k, v in http(f"{url}/step", body)[1].items() if k != "session_id"}
    )
    types.State(**http(f"{url}/state?session_id={session}")[1])
    assert http(f"{url}/close", {"session_id": session}) == (200, {})


def test_sessions_are_isolated(server):
    """Interleaved sessions observe the same as each would alone."""
    url, sessions = server
    tasks, seen = [f"train/{goal}" for goal in range(4)], {}
    clients = {task: ws(url) for task in tasks}
    for task, client in clients.items():
        seen[task] = [ask(client, "reset", seed=2, task=task)["data"]["observation"]["text"]]
    for action in ("+", "+", "-"):
        for task, client in reversed(clients.items()):
            reply = ask(client, "step", text=action)["data"]
            seen[task].append(reply.get("observation", reply).get("text", reply.get("code")))
    for task, client in clients.items():
        client.close()
        env = make_env("NumberLine-v0", size=6)
        expected, over = [env.reset(seed=2, options={"task": task})[0]], False
        for action in ("+", "+", "-"):
            if over:
                expected.append("EXECUTION_ERROR")
                continue
            text, _, terminated, truncated, _ = env.step(action)
            expected.append(text)
            over = terminated or truncated
        assert seen[task] == expected
    until(lambda: not len(sessions))


def test_a_session_belongs_to_its_environment(server):
    url, sessions = server
    session = http(f"{url}/reset", {"seed": 1, "task": "train/5"})[1]["session_id"]
    turn = {"session_id": session, "action": {"text": "+"}}
    for path, body in {
        "step": turn,
        "reset": {"session_id": session},
        "close": {"session_id": session},
        f"state?session_id={session}": None,
    }.items():
        status, reply = http(f"{url}/Wordle-v0/{path}", body)
        assert (status, reply["code"]) == (404, "SESSION_ERROR")
        assert reply["detail"] == "Wordle-v0 has no such session: reset starts one."
    assert http(f"{url}/state?session_id={session}")[1]["step_count"] == 0
    assert http(f"{url}/NumberLine-v0/step", turn)[0] == http(f"{url}/step", turn)[0] == 200
    assert http(f"{url}/close", {"session_id": session})[0] == 200
    until(lambda: not len(sessions))


def test_more_sessions_than_the_limit_are_refused_and_then_admitted(server):
    url, sessions = server
    clients = [ws(url) for _ in range(8)]
    for client in clients:
        ask(client, "reset")
    with ws(url) as late:
        assert json.loads(late.recv(timeout=20))["data"]["code"] == "CAPACITY_REACHED"
    assert http(f"{url}/reset", {})[0] == 503
    clients.pop().close()
    until(lambda: len(sessions) == 7)
    with ws(url) as next_one:
        assert ask(next_one, "reset")["type"] == "observation"
    for client in clients:
        client.close()
    until(lambda: not len(sessions))


def test_clients_killed_at_any_point_leave_nothing(server):
    url, sessions = server
    Slow.gate.clear()
    for at in ("connect", "reset", "step", "half a message"):
        client = ws(url, "Slow")
        if at != "connect":
            ask(client, "reset")
        if at == "step":
            client.send('{"type": "step", "data": {"text": "wait"}}')
            until(lambda: any(slot.busy for slot in sessions._slots.values()))
        if at == "half a message":
            client.socket.sendall(b"\x81\xfe\x01")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.socket.shutdown(socket.SHUT_RDWR)
    Slow.gate.set()
    until(lambda: not len(sessions))


def test_a_token_is_asked_for(server):
    url, _ = server
    assert http(f"{url}/tasks", headers={})[0] == 401
    assert http(f"{url}/reset", {}, {"Authorization": "Bearer wrong"})[0] == 401
    with pytest.raises(websockets.exceptions.InvalidStatus):
        ws(url, additional_headers={})


def test_a_port_that_does_not_exist_is_refused(capsys):
    assert main(["serve", "NumberLine-v0", "--port", "99999"]) == 2
    assert "port must be from 0 to 65535" in capsys.readouterr().err


def test_two_ids_of_the_same_name_are_refused(capsys):
    gymnasium.register("Other/NumberLine-v0", entry_point="nowhere:Nothing")
    try:
        assert main(["serve", "NumberLine-v0", "Other/NumberLine-v0", "--port", "0"]) == 2
    finally:
        gymnasium.registry.pop("Other/NumberLine-v0")
    error = capsys.readouterr().err
    assert "AgentGym/NumberLine-v0 and Other/NumberLine-v0" in error
    assert "would both be served as /NumberLine-v0" in error


@pytest.mark.parametrize(
    ("action", "message"),
    [("fail", "a fault of the environment"), ("time out", "the shop does not answer")],
)
def test_a_fault_of_an_environment_is_a_reply(server, action: str, message: str):
    url, _ = server
    with ws(url, "Slow") as client:
        ask(client, "reset")
        reply = ask(client, "step", text=action)
        assert reply["data"]["code"] == "EXECUTION_ERROR"
        assert message in reply["data"]["message"]
        assert ask(client, "step", text="+")["type"] == "observation"
        assert ask(client, "reset")["type"] == "observation"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_command_shows_the_port_that_it_found(host, monkeypatch, capsys):
    listening = []
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, sockets: listening.append(sockets[0].getsockname()[1])
    )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, 0), family=family).close()
    except OSError:
        pytest.skip("this machine has no such address")
    assert main(["serve", "NumberLine-v0", "--host", host, "--port", "0"]) == 0
    assert listening[0] and f":{listening[0]}\n" in capsys.readouterr().out


def test_the_command_names_a_port_that_cannot_be_used(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "NumberLine-v0", "--port", str(port)]) == 2
    shown = capsys.readouterr()
    assert f"Cannot listen at port {port}" in shown.err and not shown.out


def test_a_step_that_takes_too_long_truncates_its_episode(recwarn: pytest.WarningsRecorder):
    Slow.gate.clear()
    for url, sessions in serving(Limits(threads=1, env_seconds=0.5), Slow=Slow.make):
        with ws(url, "Slow") as client, ws(url, "Slow") as other:
            start = ask(client, "reset", task="train/5")["data"]
            ask(other, "reset")
            reply = ask(client, "step", text="wait")["data"]
            assert reply["observation"]["text"] == start["observation"]["text"]
            assert reply["done"] and reply["observation"]["truncated"]
            assert reply["observation"]["timed_out"] and reply["reward"] == 0.0
            assert ask(other, "step", text="+")["type"] == "observation"  # the thread is free
            again = ask(client, "reset", task="train/5")["data"]
            assert again["observation"]["text"] == start["observation"]["text"]
            assert len(sessions) == 2
    assert any("after the action 'wait'" in str(warning.message) for warning in recwarn)


def test_idle_sessions_end():
    for url, sessions in serving(Limits(sessions=2, idle_seconds=0.3), Slow=Slow.make):
        session = http(f"{url}/reset", {})[1]["session_id"]
        until(lambda: not len(sessions))  # noqa: B023
        assert http(f"{url}/state?session_id={session}")[0] == 404


def test_clients_do_not_wait_for_ever_for_a_thread(monkeypatch: pytest.MonkeyPatch):
    gate = threading.Event()
    monkeypatch.setattr(Session, "state", lambda self: gate.wait(60) and {})
    for url, sessions in serving(Limits(threads=1, env_seconds=0.1), Slow=Slow.make):
        first = http(f"{url}/reset", {})[1]["session_id"]
        assert http(f"{url}/state?session_id={first}")[1]["code"] == "SESSION_ERROR"
        with ws(url, "Slow") as late:
            assert json.loads(late.recv(timeout=5))["data"]["code"] == "CAPACITY_REACHED"
        assert not len(sessions)
        gate.set()
        until(lambda: http(f"{url}/reset", {})[0] == 200)  # noqa: B023


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/reset", "/step", "/close", "/state", "/Wordle-v0/step", "/x"]),
    body=st.none()
    | st.binary(max_size=80)
    | st.sampled_from([b"[]", b'{"action": 1}', b"0" * 5000]),
    frames=st.lists(st.binary(max_size=40) | st.text(max_size=40), max_size=3),
)
def test_fuzzed_requests_never_stop_the_server(server, path, body, frames):
    url, sessions = server
    status, reply = http(url + path, body)
    assert status < 500, (status, reply)
    if "session_id" in reply:
        http(f"{url}/close", {"session_id": reply["session_id"]})
    with ws(url) as client:
        for frame in frames:
            client.send(frame)
            assert json.loads(client.recv(timeout=20))["type"] == "error"
        assert ask(client, "reset")["type"] == "observation"
    until(lambda: not len(sessions))


@settings(max_examples=30)
@given(st.binary(min_size=1, max_size=200))
def test_fuzzed_sockets_never_stop_the_server(server, data):
    url, _ = server
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as raw:
        raw.sendall(data)
    assert http(f"{url}/health")[0] == 200


def test_a_message_longer_than_the_limit_ends_only_its_session(server):
    url, sessions = server
    with ws(url) as client:
        client.send(json.dumps({"type": "step", "data": {"text": "x" * 5000}}))
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            client.recv(timeout=20)
    assert http(f"{url}/reset", b'{"task": "' + b"x" * 5000 + b'"}')[0] == 422
    until(lambda: not len(sessions))


def test_many_clients_at_once_have_no_wrong_observation():
    async def play(url: str, number: int) -> None:
        env = make_env("NumberLine-v0", size=6)
        address = f"{url.replace('http', 'ws')}/ws"
        async with websockets.connect(address, additional_headers=HEADERS, proxy=None) as client:

            async def asked(**message: Any) -> Any:
                await client.send(json.dumps(message))
                return json.loads(await client.recv())["data"]

            start = {"seed": number, "task": f"train/{number % 6}"}
            text, _ = env.reset(seed=number, options={"task": start["task"]})
            reply = await asked(type="reset", data=start)
            assert reply["observation"]["text"] == text
            while not reply["done"]:
                action = env.get_wrapper_attr("expert")()
                text, reward, *_ = env.step(action)
                reply = await asked(type="step", data={"text": action})
                assert (reply["observation"]["text"], reply["reward"]) == (text, reward)

    async def everyone(url: str) -> None:
        await asyncio.gather(*(play(url, number) for number in range(48)))

    line = partial(make_env, "NumberLine-v0", size=6)
    for url, sessions in serving(Limits(sessions=64), NumberLine_v0=line):
        asyncio.run(everyone(url))
        until(lambda: not len(sessions))  # noqa: B023


# Clients of our own.


def test_a_remote_environment_plays_as_the_environment_itself(server):
    url, sessions = server
    remote = gymnasium.make("AgentGym/Remote-v0", url=f"{url}/NumberLine-v0", token=TOKEN)
    env = make_env("NumberLine-v0", size=6)
    assert tasks_of(remote) == tasks_of(env)
    start: dict[str, Any] = {}
    for seed in range(3):
        start = {"seed": seed, "options": {"task": f"test/{seed}", "max_turns": 5}}
        assert remote.reset(**start) == env.reset(**start)
        assert remote.get_wrapper_attr("instructions") == env.get_wrapper_attr("instructions")
        over = False
        while not over:
            action = env.get_wrapper_attr("expert")()
            result = env.step(action)
            assert remote.step(action) == result
            over = result[2] or result[3]
    copy = pickle.loads(pickle.dumps(remote))
    assert copy.reset(**start) == env.reset(**start)
    remote.close()
    copy.close()
    until(lambda: not len(sessions))


def test_a_remote_environment_samples_a_task_in_place_of_none(server):
    url, sessions = server
    remote = make_env("Remote-v0", url=url, token=TOKEN)
    first = remote.reset(seed=3)
    assert remote.reset(seed=3, options={"task": None}) == first
    remote.close()
    until(lambda: not len(sessions))


def test_a_remote_environment_says_what_is_wrong(server):
    url, _ = server
    with pytest.raises(RemoteError, match="another token"):
        make_env("Remote-v0", url=url)
    with pytest.raises(RemoteError, match="does not answer"):
        make_env("Remote-v0", url="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="url must be such as"):
        make_env("Remote-v0", url="localhost")
    env = make_env("Remote-v0", url=url, token=TOKEN)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("+")
    env.reset()
    env.close()


@pytest.mark.parametrize(
    "reply",
    [
        "[]",
        '{"type": "observation"}',
        '{"type": "observation", "data": null}',
        '{"type": "observation", "data": {"observation": "text"}}',
        '{"type": "observation", "data": {"observation": {"text": "x"}, "reward": NaN}}',
        '{"type": "observation", "data": {"observation": {"text": "x"}, "reward": "high"}}',
        '{"type": "error", "data": "no"}',
    ],
)
def test_replies_of_another_protocol_are_errors_in_words(reply, monkeypatch):
    class Socket:
        def send(self, text: str) -> None:
            pass

        def recv(self, timeout: float) -> str:
            return reply

        def close(self) -> None:
            pass

    monkeypatch.setattr(RemoteEnv, "_tasks", lambda self: None)
    monkeypatch.setattr(RemoteEnv, "_connect", lambda self: Socket())
    with pytest.raises(RemoteError, match=r"http://127\.0\.0\.1:1"):
        RemoteEnv("http://127.0.0.1:1").reset(seed=0)


def test_a_remote_environment_connects_again_after_an_idle_session():
    for url, sessions in serving(Limits(idle_seconds=0.2), Slow=Slow.make):
        env = make_env("Remote-v0", url=url, token=TOKEN)
        first = env.reset(seed=1)
        until(lambda: not len(sessions))  # noqa: B023
        assert env.reset(seed=1) == first
        until(lambda: not len(sessions))  # noqa: B023
        with pytest.raises(RemoteError, match=r"is lost|no such session"):
            env.step("+")
        env.close()


@pytest.mark.slow
def test_policies_train_in_remote_environments(server, tmp_path):
    pytest.importorskip("torch", reason="needs the extra `train`")
    from agentgym.trainers import train

    url, sessions = server
    [before, after] = train(
        "grpo", env_id="Remote-v0", env_kwargs={"url": f"{url}/NumberLine-v0", "token": TOKEN},
        model="nano", constrain=True, context="current", iterations=1, episodes_per_iteration=4,
        group_size=2, num_envs=4, eval_episodes=2, log_with=(), device="cpu", threads=1, quiet=True,
        run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    assert len(before.episodes) == len(after.episodes) == 2
    until(lambda: not len(sessions))


def test_a_remote_environment_plays_a_server_of_openenv():
    """An environment written with OpenEnv's classes and served by its own server."""
    server_module = pytest.importorskip(
        "openenv.core.env_server", reason="needs the extra `openenv`"
    )
    from . import openenv_echo as echo

    app = server_module.create_fastapi_app(echo.Echo, echo.Say, echo.Heard)
    for url in running(app):
        env = make_env(
            "Remote-v0", url=url, action_field="message", observation_field="echoed",
            instructions="Say anything.",
        )  # fmt: skip
        first, info = env.reset(seed=1, options={"task": "test/7"})
        assert first.startswith("hello") and info["task"] == "test/7"
        assert env.reset(seed=1, options={"task": "test/7"})[0] == first
        assert env.step("hi")[:4] == ("hi", 0.0, False, False)
        text, reward, terminated, truncated, info = env.step("bye")
        assert (text, reward, terminated, truncated) == ("bye", 1.0, True, False)
        assert info["success"]
        env.close()
        with pytest.raises(RemoteError, match=r"Set observation_field to one of .*echoed"):
            make_env("Remote-v0", url=url).reset()
