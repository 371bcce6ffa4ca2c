import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentgym.agents import ChatAgent, ChatError, ExpertAgent, View, make_agent
from agentgym.agents.basic import chat as chat_module
from agentgym.agents.basic import http_client
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import evaluate


class Server(ThreadingHTTPServer):
    """A chat server on a free port with scripted replies, then `reply`. Records all requests."""

    daemon_threads = True
    request_queue_size = 128  # a connection that finds no place is tried again after a second

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.scripted: deque[tuple[int, dict[str, str], bytes]] = deque()
        self.after: Callable[[Handler], None] = lambda _: None
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
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.after(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def completion(content: Any, **fields: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}], **fields}).encode()


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


@pytest.mark.parametrize(
    ("history", "messages"), [(0, 2), (1, 4), (2, 6), (4, 8), (9, 8), (None, 8)]
)
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


UNUSABLE = [
    b"",
    b" \n",
    b'{"choices": [{"mess',
    b'{"choices": ' + b"[" * 100_000,
    {"error": {"message": "overloaded", "code": 529}},
    {"choices": []},
    {"choices": [{"message": {"content": ["x"]}}]},
    {"choices": [{"message": {"content": [{"type": "text", "text": 5}]}}]},
    {"choices": [{"message": {"content": {"a": 1}}}]},
]


@pytest.mark.parametrize("body", UNUSABLE)
def test_a_reply_without_a_completion_is_tried_again(server, body):
    server.script(200, body)
    server.script(200, body)
    assert chat(server, retries=2).act([view()])[0] in ("+", "-")
    assert len(server.requests) == 3


@pytest.mark.parametrize("body", UNUSABLE)
def test_the_last_unusable_reply_is_explained(server, body):
    for _ in range(2):
        server.script(200, body)
    with pytest.raises(ChatError, match=r"(empty reply|chat completion).*Gave up after 2"):
        chat(server, retries=1).act([view()])


def test_a_page_after_completions_is_tried_again(server):
    agent = chat(server, retries=1)
    agent.act([view()])
    server.script(200, b"<html>busy</html>")
    assert agent.act([view()])[0] in ("+", "-")


def test_content_may_be_a_list_of_parts(server):
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": " go "},
        {"type": "text", "text": "north\n"},
    ]
    server.script(200, completion(parts))
    assert chat(server).act([view()]) == ["go north"]


def test_one_unusable_reply_costs_no_episode(server):
    whole = evaluate("NumberLine-v0", chat(server), tasks=12, num_envs=4)
    server.script(200, b"")
    server.script(200, {"error": {"message": "overloaded"}})
    assert evaluate("NumberLine-v0", chat(server), tasks=12, num_envs=4) == whole


def test_tokens_are_summed_up(server):
    agent = chat(server, prompt_price=2.0, completion_price=10.0)
    server.script(200, b"")  # is tried again and no completion
    server.script(200, completion("+", usage={"prompt_tokens": 100, "completion_tokens": 7}))
    played = view()
    agent.act([played])
    assert played.costs == {"prompt_tokens": 100, "completion_tokens": 7}
    assert agent.usage.cost == pytest.approx(270e-6)
    for usage in (
        None,
        "many",
        {"prompt_tokens": 5},
        {"prompt_tokens": -1, "completion_tokens": 2},
    ):
        server.script(200, completion("+", usage=usage))
        agent.act([view()])
    usage = agent.usage
    assert (usage.requests, usage.unreported) == (5, 4)
    assert (usage.prompt_tokens, usage.completion_tokens) == (105, 9)
    assert chat(server).usage.cost is None


@pytest.mark.parametrize("status", [200, 400, 401, 404, 418, 429, 500, 503])
@pytest.mark.parametrize("form", ["{key}", '{{"error": {{"message": "bad key {key}"}}}}'])
def test_a_key_that_the_server_echoes_is_hidden(server, monkeypatch, status, form):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    server.script(status, form.format(key="sk-secret-123").encode())
    with pytest.raises(ChatError) as caught:
        chat(server, retries=0).act([view()])
    assert "***" in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["two\nlines", "sk-\u20ac"])
def test_a_key_that_no_header_can_hold(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ChatError, match="OPENAI_API_KEY") as caught:
        chat(server).act([view()])
    assert key not in str(caught.value)
    assert not server.requests


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("chat:m@http://user:pass-word@host/v1", {}),
        ("chat:m@http://user:pass-word@host/v1", {"unknown": 1}),
        ("chat:@http://user:pass-word@host/v1", {}),
        ("chaat:m@http://user:pass-word@host/v1", {}),
    ],
)
def test_passwords_in_addresses_are_refused_and_hidden(spec, options):
    with pytest.raises(ConfigError) as caught:
        make_agent(spec, **options)
    assert "***" in str(caught.value)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://a..b/v1", "http://" + "a" * 64 + ".org", "http://x:y"])
def test_addresses_of_no_host(url):
    with pytest.raises(ConfigError, match="base_url"):
        ChatAgent("m", url)


@pytest.mark.parametrize("name", ["history", "retries", "backoff", "timeout"])
def test_numbers_are_numbers(name):
    wrong: Any = {name: "3"}
    with pytest.raises(ConfigError, match=f"'{name}' of ChatAgent is .*; got '3'"):
        ChatAgent("m", "http://localhost:1/v1", **wrong)


NOON = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 17 ", 17.0),
        ("9" * 400, float("inf")),
        ("Sun, 06 Nov 1994 08:50:07 GMT", 30.0),
        ("Sunday, 06-Nov-94 08:50:07 GMT", 30.0),
        ("Sun Nov  6 08:50:07 1994", 30.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        ("\u00b2", None),
        ("\u0663", None),
        ("-5", None),
        ("1.5", 1.5),
        ("0.5", 0.5),
        (".5", None),
        ("1.", None),
        ("1e3", None),
        ("soon", None),
        ("", None),
        ("Sun, 99 Nov 1994 08:50:07 GMT", None),
    ],
)
def test_retry_after(value, seconds):
    assert http_client.retry_after(value, NOON) == seconds


@pytest.mark.parametrize(
    ("value", "waited"), [("7", 7.0), ("0.5", 0.5), ("9999", 60.0), ("\u00b2", 0.0)]
)
def test_the_wait_that_the_server_asks_for(server, monkeypatch, value, waited):
    waits: list[float] = []
    monkeypatch.setattr(chat_module.time, "sleep", waits.append)
    server.script(429, b"", Retry_After=value)
    chat(server).act([view()])
    assert waits == [waited]


def test_a_reply_that_never_ends_is_cut(server, monkeypatch):
    timers: list[Callable[[], None]] = []

    class Timer:
        def __init__(self, seconds: float, function: Callable[[], None]):
            assert seconds == 10
            timers.append(function)

        def start(self) -> None: ...
        def cancel(self) -> None: ...

    def time_is_over(handler: Handler) -> None:
        timers[-1]()
        handler.rfile.read(1)  # until the client has left

    monkeypatch.setattr(http_client.threading, "Timer", Timer)
    server.after = time_is_over
    for _ in range(2):
        server.script(200, b'{"choi', Content_Length="100")
    with pytest.raises(ChatError, match=r"No reply from .*more than 10 s.*Gave up after 2"):
        chat(server, retries=1).act([view()])


def test_the_size_of_a_reply_is_limited(server, monkeypatch):
    monkeypatch.setattr(http_client, "LARGEST_REPLY", 1000)
    server.script(200, completion("x" * 2000))
    with pytest.raises(ChatError, match="longer than 1,000 bytes"):
        chat(server, retries=0).act([view()])
    server.script(500, b"x" * 2000)
    with pytest.raises(ChatError, match="500"):
        chat(server, retries=0).act([view()])


def test_a_served_model_reflects_and_tries_again(server):
    """The scaffold asks for the reflection between two attempts, in a conversation of its own."""
    server.script(200, completion("?"))  # the only action of the first attempt
    server.script(200, completion("Compare the numbers."))
    url = server.url
    agent: Any = make_agent(f"reflexion,trials=2:chat:tiny@{url}", backoff=0.0)
    report = evaluate(
        "NumberLine-v0",
        agent,
        tasks=["train/3"],
        env_kwargs={"max_turns": 1, "wrap": list(agent.wrap)},
    )
    assert report.agent == "reflexion:chat:tiny"
    first, reflection, second, *_ = server.requests
    assert len(first["messages"]) == 2 and len(reflection["messages"]) == 2
    assert "The attempt failed." in reflection["messages"][1]["content"]
    assert "> ?" in reflection["messages"][1]["content"]
    assert second["messages"][0]["content"].endswith("\n\nCompare the numbers.")
    assert len(second["messages"]) == 2  # the turns of the first attempt are gone
    assert agent.usage.requests == len(server.requests) == 3
