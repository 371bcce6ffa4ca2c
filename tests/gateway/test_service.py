"""`agentgym gateway`: sessions over HTTP without training, and the files of their traces."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agentgym import make_env
from agentgym.cli.main import main
from agentgym.data.reading import read_episodes
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.trainers.gateway import service as service_module
from agentgym.trainers.gateway import session as session_module
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.service import SessionService
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.trace_file import TraceFile, read_traces
from agentgym.trainers.gateway.wire import Refused
from agentgym.trainers.policy.policy import Policy
from tests.gateway import episodes as programs
from tests.helpers.chat_models import chat_model

SECONDS = 60


def send(url: str, method: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    """Returns the status and the body of a response."""
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **headers}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, given, method=method), timeout=SECONDS
        ) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@dataclass
class Recorded:
    """The end of a server: its file, its exit status, and the responses of refused requests."""

    file: Path
    status: int = -1
    refused: list[int] = field(default_factory=list)
    turns: int = 0
    error: BaseException | None = None


def play(url: str, found: Recorded) -> None:
    """Plays an episode to its end, leaves one open, and asks for much that is refused."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            send(f"{url}/health", "GET")
            break
        except OSError:
            time.sleep(0.05)
    _, begun = send(f"{url}/sessions", "POST", {"task": "train/1", "seed": 5})
    programs.chat(replace(Task.of_json(begun["task"]), key=begun["key"]))
    _, ended = send(f"{url}/sessions/{begun['key']}", "DELETE", {"reward": 2.0})
    found.turns = ended["turns"]
    _, other = send(f"{url}/sessions", "POST", {})
    task = replace(Task.of_json(other["task"]), key=other["key"])
    programs.ask(task, [{"role": "user", "content": "hello"}])
    found.refused = [
        send(f"{url}/sessions", "POST", {}, Origin="http://elsewhere.example")[0],
        send(f"{url}/sessions", "POST", {}, **{"Content-Type": "text/plain"})[0],
        send(f"{url}/sessions", "POST", {"seed": -1})[0],
        send(f"{url}/sessions", "POST", {"sed": 1})[0],
        send(f"{url}/sessions", "POST", {"task": "no such task"})[0],
        send(f"{url}/sessions/{begun['key']}", "DELETE")[0],
        send(f"{url}/sessions/{other['key']}", "DELETE", {"reward": "much"})[0],
        send(f"{url}/sessions/{other['key']}", "DELETE", {"reward": 10**400})[0],
        send(f"{url}/sessions/{other['key']}", "DELETE", {"reward": [10**400]})[0],
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    for part in chat_model("base"):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def recorded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    pytest.importorskip("uvicorn", reason="needs the extra `serve`")
    found = Recorded(tmp_path_factory.mktemp("traces") / "traces.jsonl")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def client() -> None:
        try:
            play(f"http://127.0.0.1:{port}", found)
        except BaseException as error:
            found.error = error
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=client)
    thread.start()
    words = ["--env-id", "NumberLine-v0", "--env-kwargs", "size=3", "max_turns=2"]
    words += ["--model", str(model), "--record", str(found.file), "--port", str(port)]
    found.status = main(["gateway", *words, "--max-new-tokens", "3"])
    thread.join()
    return found


def test_the_server_ends_cleanly_and_every_session_is_in_the_file(recorded: Recorded):
    assert recorded.error is None and recorded.status == 0 and recorded.turns == 2
    (facts, calls), (other, asked) = read_traces(recorded.file)
    assert facts["env"] == "AgentGym/NumberLine-v0" and facts["task"] == "train/1"
    assert len(calls) == 2 and len(asked) == 1 and other["seed"] == 0
    assert calls[1].reward >= 1.0 and len(calls[1].tokens) > 0
    assert "key" in facts and all(isinstance(word, int) for word in facts["key"])


def test_a_file_of_traces_is_checked_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("uvicorn", reason="needs the extra `serve`")
    (tmp_path / "old.jsonl").write_text("{}")
    for name, message in {"old.jsonl": "exists: give a new name", "no/x": "no folder"}.items():
        words = ["--model", str(tmp_path / "no-model"), "--record", str(tmp_path / name)]
        assert main(["gateway", *words]) == 2
        assert message in capsys.readouterr().err


def test_wrong_requests_are_refused_and_pages_of_browsers_begin_no_session(recorded: Recorded):
    assert recorded.refused == [403, 415, 422, 422, 422, 404, 422, 422, 422]


def test_traces_are_viewed_exported_and_read_as_episodes(recorded: Recorded, tmp_path: Path):
    page, out = tmp_path / "page.html", tmp_path / "openenv.jsonl"
    assert main(["view", str(recorded.file), "--out", str(page)]) == 0
    assert "NumberLine-v0" in page.read_text("utf-8")
    assert main(["export", str(recorded.file), "--format", "openenv", "--out", str(out)]) == 0
    traces = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [len(trace["turns"]) for trace in traces] == [2, 1]
    episodes = read_episodes(recorded.file)
    for format, name in {"verifiers": "traces.jsonl", "nemo-gym": "nemo/rollouts.jsonl"}.items():
        file = tmp_path / name
        out = file.parent if format == "nemo-gym" else file
        assert main(["export", str(recorded.file), "--format", format, "--out", str(out)]) == 0
        assert main(["view", str(file), "--out", str(tmp_path / f"{format}.html")]) == 0
        found = read_episodes(file)
        assert [turn.action for each in found for turn in each.turns] == [
            turn.action for each in episodes for turn in each.turns
        ]
        assert [each.reward for each in found] == [each.reward for each in episodes]
    first, second = episodes
    assert len(first.turns) == 2 and first.turns[0].observation and not second.instructions
    assert first.rewarded and first.reward >= 1.0 and first.instructions


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": "agentgym-trace", "version": 1}'])
def test_a_damaged_line_is_an_error_with_file_line_and_remedy(
    recorded: Recorded, damage: str, tmp_path: Path
):
    file = tmp_path / "damaged.jsonl"
    file.write_text(recorded.file.read_text("utf-8") + damage + "\n", "utf-8")
    with pytest.raises(DataError, match=r"damaged\.jsonl, line 3: .*delete the line"):
        list(read_traces(file))
    with pytest.raises(DataError, match=r"damaged\.jsonl, line 3"):
        read_episodes(file)


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path):
    file = tmp_path / "traces.jsonl"
    file.write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="exists"):
        TraceFile(file)
    with pytest.raises(ConfigError, match="cannot be written"):
        TraceFile(tmp_path / "absent" / "traces.jsonl")
    assert file.read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "99999"], "port must be"),
        (["--host", "0.0.0.0"], "--token"),
        (["--env-kwargs", "a=1"], "--env-id"),
        (["--model", "no/such-model"], "no/such-model"),
    ],
)
def test_wrong_arguments_are_errors_before_anything_is_served(
    words: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
):
    given = [] if "--model" in words else ["--model", str(model)]
    assert main(["gateway", *given, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("uvicorn", reason="needs the extra `serve`")
    monkeypatch.setattr(service_module, "MOST", 3)
    gateway = Gateway(Policy(*chat_model("base")))
    yield SessionService(gateway, lambda: make_env("NumberLine-v0"))
    gateway.close()


def test_sessions_are_limited_also_while_they_begin(service: Any):
    """A place is free again after an end, and after a task that is refused."""
    begun, refused = [], []

    def begin(task: str) -> None:
        try:
            begun.append(service.begin(task, 0)["key"])
        except Refused as error:
            refused.append(error.code)

    for tasks in (["no such task"] * 4, [""] * 8):
        threads = [threading.Thread(target=begin, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert len(begun) == 3 and refused.count("too_many_sessions") >= 5
    service.end(begun.pop())
    begin("")
    assert len(begun) == 3


def test_an_environment_that_fails_is_an_error_and_leaves_nothing(
    service: Any, monkeypatch: pytest.MonkeyPatch
):
    closed: list[bool] = []

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("no server")

    monkeypatch.setattr(NumberLine, "reset", fail)
    monkeypatch.setattr(NumberLine, "close", lambda _: closed.append(True))
    for _ in range(4):  # more than there are places
        with pytest.raises(Refused, match="no server") as refused:
            service.begin("", 0)
        assert refused.value.status == 500
    assert len(closed) == 4


def test_a_session_without_a_sign_of_life_ends(service: Any, monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    monkeypatch.setattr(session_module, "monotonic", lambda: now[0])
    idle, live = (service.begin("", seed) for seed in range(2))
    now[0] += 0.6 * service_module.IDLE
    replace(Task.of_json(live["task"]), key=live["key"]).step("+")
    now[0] += 0.6 * service_module.IDLE
    service.expire()
    with pytest.raises(Refused, match="no session"):
        service.end(idle["key"])
    assert service.end(live["key"]) == {"turns": 0}


def test_a_reply_is_learned_once_in_a_trace_with_several_conversations(tmp_path: Path):
    from agentgym.trainers.gateway.traces import traced_calls, write_trace
    from tests.gateway.test_traces import episode

    file = tmp_path / "traces.jsonl"
    line = write_trace(traced_calls(episode()), {"model": "tiny"})
    file.write_text(json.dumps(line), "utf-8")
    found = read_episodes(file)
    replies = [(turn.action, turn.weight, turn.reward) for each in found for turn in each.turns]
    weighted = [reply for reply, weight, _ in replies if weight > 0]
    assert len(weighted) == len(set(weighted)) == 3
    assert '"name": "add"' in replies[0][0] and "<think>" in replies[0][0]
    assert ("T", 0.0, 0.0) not in replies
