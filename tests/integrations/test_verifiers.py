"""`agentgym_verifiers` in the real `verifiers`: the same episodes as in AgentGym."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import ChatAgent
from agentgym.data.reading import read_episodes
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.registration.games import make_parallel
from agentgym.registration.making import make_env

vf = pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`")

TRACES = Path(__file__).parents[1] / "golden" / "traces"
"""What `tests/gateway/test_foreign_traces.py` exports."""


def answer(text: str) -> str:
    """Returns the action of the model: a step to the target, or in poker a bet with a king."""
    if found := re.findall(r"You are at (\d+)\. Go to (\d+)", text):
        at, goal = map(int, found[-1])
        return "+" if goal > at else "-"
    first, second = re.findall(r"Your turn: (\w+) or (\w+)", text)[-1]
    return second if text.rfind("card is K") > text.rfind("card is Q") else first


class Model(BaseHTTPRequestHandler):
    """A chat server whose model answers the last message."""

    asked: list[list[dict[str, Any]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body["messages"])
        message = {"role": "assistant", "content": answer(body["messages"][-1]["content"])}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        found = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
        data = json.dumps(found | {"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Model.asked = []
    monkeypatch.setenv("TEST_KEY", "secret")
    running = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}/v1"
    running.shutdown()
    running.server_close()


def play(url: str, count: int, limits: dict[str, Any] | None = None, **taskset: Any) -> list[Any]:
    """Plays tasks as `vf-eval` does, and returns their episodes."""
    data = {"taskset": {"id": "agentgym-verifiers", **taskset}, **(limits or {})}
    env = vf.load_environment(vf.resolve_env_config(data))
    client = vf.EvalClientConfig(base_url=url, api_key_var="TEST_KEY")
    context = vf.ModelContext(model="m", client=client, sampling=vf.SamplingConfig())

    async def run() -> list[Any]:
        async with env.serving():
            tasks = env.taskset.take(count)
            return [await env.run_slot(slot, context) for t in tasks for slot in env.slots(t)]

    return asyncio.run(run())


def test_an_environment_is_played_as_by_agentgym_itself(server: str):
    episodes = play(server, 3, env="NumberLine-v0", env_kwargs={"size": 12}, split="test")
    asked = Model.asked[:]
    Model.asked.clear()
    agent = ChatAgent("m", server)
    for episode in episodes:
        assert episode.ok, episode.errors
        [trace] = episode.traces
        info = episode.task.data.info
        own = EpisodeRunner(make_env("NumberLine-v0", size=12), info["task"], info["seed"])
        while not own.play(agent.act([own.view])[0]):
            pass
        record = own.record()
        assert trace.rewards["return"].score == record.reward == 1.0
        assert trace.metrics["turns"] == record.turns and trace.metrics["success"] == 1.0
        assert trace.metrics["valid"] == trace.metrics["progress"] == 1.0
    assert asked == Model.asked and len(asked) > 3


def test_all_seats_of_a_game_are_played_in_one_episode(server: str):
    [episode] = play(server, 1, env="KuhnPoker-v0")
    assert episode.ok, episode.errors
    game = make_parallel("KuhnPoker-v0").game
    info = episode.task.data.info
    game.reset(seed=info["seed"], task=info["task"])
    returns = dict.fromkeys(game.possible_agents, 0.0)
    while game.acting:
        game.play({seat: answer(game.seen(seat).observation) for seat in game.acting})
        returns = {seat: total + game.reward(seat) for seat, total in returns.items()}
    found = {trace.agent.name: trace.rewards["return"].score for trace in episode.traces}
    assert found == returns and any(returns.values())
    for trace in episode.traces:
        seen = [node.message.content for node in trace.nodes if node.message.role == "user"]
        assert len(seen) == trace.metrics["turns"] > 5
        assert trace.info["agentgym"]["seat"] == trace.agent.name


def test_a_seat_against_scripted_opponents_is_an_environment(server: str):
    [episode] = play(server, 1, env="KuhnPoker-v0", self_play=False)
    assert episode.ok, episode.errors
    assert [trace.agent.name for trace in episode.traces] == ["player_0"]


def test_a_limit_ends_the_conversation_with_the_return_so_far(server: str):
    limits = {"player_0": {"max_turns": 2}}
    [episode] = play(server, 1, limits, env="NumberLine-v0", env_kwargs={"size": 90})
    [trace] = episode.traces
    assert trace.metrics["turns"] == 2 and trace.rewards["return"].score == 0.0


def test_episodes_are_read_as_data_of_the_trainer(server: str, tmp_path: Path):
    store = importlib.import_module("verifiers.v1.utils.trace_store")
    episodes = play(server, 3, env="NumberLine-v0", env_kwargs={"size": 12}, split="test")
    for episode in episodes:
        store.write_episode(tmp_path, episode)
    found = read_episodes(tmp_path / "traces.jsonl")
    assert len(found) == 3
    for one, episode in zip(found, episodes, strict=True):
        [trace] = episode.traces
        assert [turn.action for turn in one.turns] == [m.content for m in trace.assistant_messages]
        assert one.rewarded and one.reward == trace.reward == 1.0
        assert "number line" in str(one.instructions) and one.turns[0].observation


def test_verifiers_reads_exported_traces():
    store = importlib.import_module("verifiers.v1.utils.trace_store")
    [episode] = store.read_episodes(TRACES, vf.WireTrace)
    [trace] = episode.traces
    found = [(branch.token_ids, branch.sampled_mask) for branch in trace.branches]
    assert found[0] == ([1, 2, 90, 3, 91], [False, False, True, False, True])
    assert found[1] == ([1, 4, 92], [False, False, True])
    assert found[2] == ([8, 9], [False, False])  # a reply without a weight
    assert trace.branches[0].logprobs == pytest.approx([0, 0, -0.1, 0, -1.1])
    roles = [message.role for message in trace.branches[0].messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert trace.reward == 1.5 and trace.num_turns == 4 and trace.metrics["success"] == 1.0
    assert [tool.name for tool in trace.branches[0].tools] == ["add"]
