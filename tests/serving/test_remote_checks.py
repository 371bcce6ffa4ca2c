"""`Remote-v0` and servers that are busy, redirect, or send anything."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.integrations import remote, remote_pages
from agentgym.integrations.remote import RemoteEnv, RemoteError
from agentgym.registration.making import make_env, tasks_of

pytest.importorskip("websockets", reason="needs the extra `serve`")

OWN = {"prefix": "train/", "range": [0, 9, 1]}, {"names": ["test/0", "test/1"]}
TASKS = json.dumps({"train": OWN[0], "test": OWN[1]})


class Server:
    """A server that answers GET with the items of a list, of which the last one is repeated."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, dict[str, str]]] = []
        self.seen: list[dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append(dict(self.headers.items()) | {"path": self.path})
                status, body, headers = outer.answers[0]
                if len(outer.answers) > 1:
                    outer.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        # It looks every 10 ms whether it is to end.
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(remote_pages, "RETRY_SECONDS", (0.0, 0.0))
    found = Server()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: Server, status: int):
    server.answers = [(status, "", {}), (status, "", {}), (200, TASKS, {})]
    assert tasks_of(make_env("Remote-v0", url=server.url)).test == ("test/0", "test/1")
    server.answers = [(status, "", {})]
    with pytest.raises(RemoteError, match=rf"{server.url}/tasks answers with the status {status}"):
        make_env("Remote-v0", url=server.url)
    assert len(server.seen) == 6


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_tasks_is_one_of_others(server: Server, status: int):
    server.answers = [(status, "", {})]
    assert "test/7" in tasks_of(make_env("Remote-v0", url=server.url)).test


@pytest.mark.parametrize("status", [400, 402, 410, 418, 501])
def test_any_other_status_is_an_error(server: Server, status: int):
    server.answers = [(status, "", {})]
    with pytest.raises(RemoteError, match=server.url):
        make_env("Remote-v0", url=server.url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: Server, status: int):
    other = Server()
    other.answers = [(200, TASKS, {})]
    server.answers = [(status, "", {"Location": f"{other.url}/tasks"})]
    with pytest.raises(RemoteError, match="use that address as url"):
        make_env("Remote-v0", url=server.url, token="planted")
    server.answers = [
        (200, TASKS, {}),
        (status, "", {"Location": f"{other.url}/ws".replace("http", "ws")}),
    ]
    with pytest.raises(RemoteError, match="does not answer"):
        make_env("Remote-v0", url=server.url, token="planted").reset(seed=0)
    assert server.seen[-1]["path"] == "/ws" and not other.seen
    other.server.shutdown()
    other.server.server_close()


def test_the_token_is_read_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.answers = [(200, TASKS, {})]
    monkeypatch.setenv("AGENTGYM_TOKEN", "from the environment")
    make_env("Remote-v0", url=server.url)
    make_env("Remote-v0", url=server.url, token="***")
    make_env("Remote-v0", url=server.url, token="given")
    tokens = [seen["Authorization"] for seen in server.seen]
    assert tokens == ["Bearer from the environment"] * 2 + ["Bearer given"]
    monkeypatch.delenv("AGENTGYM_TOKEN")
    make_env("Remote-v0", url=server.url.replace("//", "//me:pass@"))
    assert server.seen[-1]["Authorization"].startswith("Basic ")
    with pytest.raises(ConfigError, match="AGENTGYM_TOKEN"):
        make_env("Remote-v0", url=server.url, token="***")
    with pytest.raises(ConfigError) as refused:
        make_env("Remote-v0", url=f"{server.url}?token=planted")
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "no", "[" * 100_000, "{}", '{"train": 1, "test": 2}', "9" * 5000,
        json.dumps({"train": {"prefix": "a", "range": [0, 10**30, 1]}, "test": OWN[1]}),
        json.dumps({"train": {"prefix": 3, "range": [0, 3, 1]}, "test": OWN[1]}),
        json.dumps({"train": {"prefix": "a", "range": [0, 3, 0]}, "test": OWN[1]}),
        json.dumps({"train": {"prefix": "a", "range": "012"}, "test": OWN[1]}),
        json.dumps({"train": {"names": [1, 2]}, "test": OWN[1]}),
        json.dumps({"train": {"names": "abc"}, "test": OWN[1]}),
    ],
)  # fmt: skip
def test_tasks_of_another_form_are_errors_that_name_the_server(server: Server, text: str):
    server.answers = [(200, text, {})]
    with pytest.raises(RemoteError, match=server.url):
        make_env("Remote-v0", url=server.url)


INFO = {
    "task": "train/1", "turn": 0, "valid": True, "success": False, "progress": 0.0,
    "admissible": ["a"], "state_key": "x", "reward_terms": {"task": 0.0},
}  # fmt: skip


class Socket:
    """Answers every message with one text."""

    def __init__(self, text: str):
        self.text = text

    def send(self, text: str) -> None:
        """Takes a message."""

    def recv(self, timeout: float) -> str:
        return self.text

    def close(self) -> None:
        """Does nothing."""


def client(text: str) -> RemoteEnv:
    env = RemoteEnv.__new__(RemoteEnv)
    tasks = remote.Tasks(("train/1",), ("test/1",))
    env.__dict__.update(
        _http="http://127.0.0.1:1", _socket=Socket(text), _timeout=1.0, _own=True, tasks=tasks,
        _observation="text", _action="text", instructions="", _task="train/1", _turn=0,
        _seed=None, _here=None,
    )  # fmt: skip
    return env


def answer(text: str) -> Any:
    return client(text).step("go")


def sent(reward: Any = 0.5, done: Any = False, **changes: Any) -> str:
    seen = {"text": "Hello", **INFO, **changes}
    return json.dumps(
        {"type": "observation", "data": {"observation": seen, "reward": reward, "done": done}}
    )


def test_a_right_answer_is_read():
    ends = {"timed_out": True, "unjudged": True}
    text, reward, terminated, truncated, info = answer(sent(done=True, **ends))
    assert (text, reward, terminated, truncated) == ("Hello", 0.5, True, False)
    assert info == {**INFO, "admissible": ("a",), **ends}


def test_null_is_a_value_that_a_server_leaves_out():
    text, reward, terminated, truncated, _ = answer(
        sent(reward=None, done=True, truncated=None, instructions=None)
    )
    assert (text, reward, terminated, truncated) == ("Hello", 0.0, True, False)


def test_rules_of_an_earlier_episode_end_with_it():
    env = client(sent(instructions=""))
    env.instructions = "Rules of an earlier task."
    env.step("go")
    assert env.instructions == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"progress": 7}, {"progress": "1"}, {"progress": True}, {"done": "no"}, {"done": 1},
        {"admissible": 1}, {"admissible": None}, {"admissible": {}}, {"admissible": [1]},
        {"reward_terms": {"task": float("nan")}}, {"reward_terms": [1]},
        {"reward_terms": {"task": 10**400}}, {"text": 3}, {"text": ["a"]}, {"reward": 10**400},
        {"reward": float("inf")}, {"reward": "high"}, {"reward": True}, {"turn": -1},
        {"turn": 1.5}, {"valid": 1}, {"success": "yes"}, {"task": 5}, {"state_key": None},
        {"instructions": 7}, {"truncated": "no", "done": True}, {"instructions": []},
        {"truncated": 0, "done": True},
    ],
)  # fmt: skip
def test_wrong_values_are_errors_that_name_the_server(changes: dict[str, Any]):
    with pytest.raises(RemoteError, match=r"http://127\.0\.0\.1:1 sent no observation"):
        answer(sent(**changes))


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*INFO, "text", "done", "reward", "type"]), inner),
    max_leaves=6,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(JSONS, st.sampled_from([*INFO, "text", "reward", "done", "truncated"]))
def test_any_answer_is_read_or_refused(value: Any, name: str):
    for text in (json.dumps(value), sent(**{name: value}), "[" * 50_000):
        try:
            observation, reward, terminated, truncated, info = answer(text)
        except RemoteError as error:
            assert "http://127.0.0.1:1" in str(error)
        else:
            assert isinstance(observation, str) and abs(reward) <= 1e100
            assert {type(terminated), type(truncated)} == {bool} and 0 <= info["progress"] <= 1
            assert all(isinstance(action, str) for action in info["admissible"])
