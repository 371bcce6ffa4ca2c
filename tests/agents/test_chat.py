import json
import threading
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentgym.agents import ChatAgent, ChatError, ExpertAgent, View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.evaluation.runner import evaluate


class Server(ThreadingHTTPServer):
    """A chat server on a free port with scripted replies, then `reply`. Records all requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.scripted: deque[tuple[int, dict[str, str], bytes]] = deque()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def script(self, status: int, body: Any = b"", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.scripted.append((status, headers, data))

    def reply(self, request: dict[str, Any]) -> str | None:
        """Plays NumberLine according to the last message."""
        words = request["messages"][-1]["content"].replace(".", "").split()
        return " +\n" if int(words[-4]) < int(words[-1]) else " -\n"


class Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]

    def do_POST(self):
        assert self.path == "/v1/chat/completions"
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.headers.append(dict(self.headers))
        status, headers, body = 200, {}, b""
        if self.server.scripted:
            status, headers, body = self.server.scripted.popleft()
        else:
            body = completion(self.server.reply(request))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def completion(content: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def chat(server: Server, **kwargs: Any) -> ChatAgent:
    return ChatAgent("tiny", server.url, backoff=0.0, timeout=10, **kwargs)


def view(turns: int = 0) -> View:
    """Returns a view after some turns of the expert."""
    env = NumberLine(size=50)
    shown = View.start(env, "train/3", 0)
    for _ in range(turns):
        [action] = ExpertAgent().act([shown])
        shown.history.append((shown.observation, action))
        shown.observation, _, _, _, shown.info = env.step(action)
    return shown


def test_it_plays_as_well_as_its_model_for_any_number_of_episodes_at_once(server):
    reports = [
        evaluate("NumberLine-v0", chat(server), tasks=12, num_envs=num_envs) for num_envs in (1, 8)
    ]
    assert reports[0].episodes == reports[1].episodes
    assert all(episode.success for episode in reports[0].episodes)
    expert = evaluate("NumberLine-v0", "expert", tasks=12)
    assert [e.turns for e in reports[0].episodes] == [e.turns for e in expert.episodes]
    assert reports[0].agent == "chat:tiny"


def test_the_conversation_is_instructions_observations_and_own_actions(server):
    shown = view(turns=2)
    assert chat(server).act([shown])[0] in ("+", "-")
    [request] = server.requests
    (first, action_1), (second, action_2) = shown.history
    assert request == {
        "model": "tiny",
        "temperature": 0.0,
        "messages": [
            {"role": "system", "content": shown.instructions},
            {"role": "user", "content": first},
            {"role": "assistant", "content": action_1},
            {"role": "user", "content": second},
            {"role": "assistant", "content": action_2},
            {"role": "user", "content": shown.observation},
        ],
    }


@pytest.mark.parametrize(("history", "messages"), [(0, 2), (1, 4), (2, 6), (9, 8), (None, 8)])
def test_history_limits_the_turns_that_are_shown(history, messages):
    agent = ChatAgent("tiny", "http://localhost", history=history)
    shown = view(turns=3)
    said = agent.messages(shown)
    assert len(said) == messages
    assert said[-1]["content"] == shown.observation
    if messages > 2:
        assert said[-2]["content"] == shown.history[-1][1]


def test_system_temperature_and_further_fields_are_sent(server):
    chat(server, system="Be brief.", temperature=None, extra={"max_tokens": 9}).act([view()])
    [request] = server.requests
    assert request["messages"][0]["content"] == "Be brief."
    assert request["max_tokens"] == 9
    assert "temperature" not in request


def test_the_key_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    chat(server).act([view()])
    chat(server, api_key_env="MY_KEY").act([view()])
    assert "Authorization" not in server.headers[0]
    assert server.headers[1]["Authorization"] == "Bearer secret"


def test_overload_and_server_errors_are_tried_again(server):
    server.script(429, {"error": {"message": "slow down"}}, Retry_After="0")
    server.script(503, b"busy")
    assert chat(server, retries=2).act([view()])[0] in ("+", "-")
    assert len(server.requests) == 3


def test_it_gives_up_after_the_retries(server):
    for _ in range(3):
        server.script(500, {"error": {"message": "out of memory"}})
    with pytest.raises(ChatError, match=r"500 .*out of memory.*Gave up after 3 attempts"):
        chat(server, retries=2).act([view()])
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"error": {"message": "bad key"}}, "bad key.*OPENAI_API_KEY is not set"),
        (403, b"<html>", "403.*OPENAI_API_KEY"),
        (404, {"detail": "no such model"}, "is there a model 'tiny'"),
        (400, {"error": {"message": "context too long"}}, "400 .*context too long"),
        (200, b"<html>hello</html>", "did not reply with a chat completion.*hello"),
        (200, {"choices": []}, "did not reply with a chat completion"),
        (200, {"choices": [{"message": {"content": ["x"]}}]}, "did not reply with a chat"),
        (200, b"\xff\xfe", "did not reply with a chat completion"),
    ],
)
def test_hopeless_replies_are_explained_at_once(server, status, body, message):
    server.script(status, body)
    with pytest.raises(ChatError, match=message):
        chat(server).act([view()])
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed_with_the_key(server):
    server.script(307, b"", Location="http://elsewhere.invalid/v1/chat/completions")
    with pytest.raises(ChatError, match=r"points to http://elsewhere\.invalid"):
        chat(server).act([view()])


def test_a_refused_key_is_told_from_a_missing_one(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    server.script(401)
    with pytest.raises(ChatError, match="OPENAI_API_KEY is refused"):
        chat(server).act([view()])


def test_silence_is_an_action(server):
    server.script(200, completion(None))
    assert chat(server).act([view()]) == [""]


def test_a_connection_that_breaks_is_tried_again(server):
    server.script(200, b"short", Content_Length="100")  # announces more than it sends
    assert chat(server, retries=1).act([view()])[0] in ("+", "-")
    assert len(server.requests) == 2


def test_a_server_that_was_never_there_is_said_at_once(server):
    server.server_close()
    with pytest.raises(ChatError, match=r"No reply from .*Is the server running"):
        chat(server, retries=50).act([view()])
