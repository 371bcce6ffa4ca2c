"""Snapshots of `Remote-v0`: it continues and is searched as the environment itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("starlette", reason="needs the extra `serve`")
pytest.importorskip("websockets", reason="needs the extra `serve`")

from agentgym.agents import SearchAgent, View
from agentgym.agents.search.simulator import Node, Simulator
from agentgym.errors import ConfigError, SnapshotError
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.integrations.remote import RemoteEnv, RemoteError
from agentgym.integrations.remote_pages import NoSnapshotsError
from agentgym.registration.making import make_env
from agentgym.serving.about import about
from agentgym.serving.server import Limits
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.wrappers import HistoryObservation

from .test_forks import MAKERS, check_forks, known, played_until_end
from .test_remote_checks import Server
from .test_server import TOKEN, serving, until


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    makers = {name.replace("-", "_"): make for name, make in MAKERS.items()}
    yield from serving(Limits(sessions=8, env_seconds=20), **makers)


def remote(url: str, name: str) -> Any:
    return make_env("Remote-v0", url=f"{url}/{name}", token=TOKEN)


@pytest.mark.parametrize("name", ["FrozenLake-v0", "Blackjack-v0", "KuhnPoker-v0", "Wrapped"])
def test_a_remote_environment_continues_as_the_environment_does(server: Any, name: str):
    url, sessions = server
    env, far, other = MAKERS[name](), remote(url, name), remote(url, name)
    start: dict[str, Any] = {"seed": 4, "options": {"task": env.get_wrapper_attr("tasks").train[2]}}
    assert far.reset(**start)[0] == env.reset(**start)[0]
    assert known(far.step("no such action")) == known(env.step("no such action"))
    here, there = snapshot_of(env), json.loads(json.dumps(snapshot_of(far)))
    actions = ["left", "right", "down", "hit", "stand", "check", "bet"]
    expected = played_until_end(env, actions)
    assert played_until_end(far, actions) == expected
    assert restore_snapshot(other, there) == restore_snapshot(far, there)
    assert played_until_end(other, actions) == played_until_end(far, actions) == expected
    for copy in (far, other):
        restore_snapshot(env, here)
        restore_snapshot(copy, there)
        for each in (env.unwrapped, copy.unwrapped):
            each.reseed(11)
        reseeded = copy.unwrapped.snapshot()
        results = played_until_end(env, actions)
        assert played_until_end(copy, actions) == results
        copy.unwrapped.restore(reseeded)
        assert played_until_end(copy, actions) == results
        copy.close()
    until(lambda: not len(sessions))


def test_an_option_of_numpy_is_sent_as_a_number(server: Any):
    far = remote(server[0], "FrozenLake-v0")
    far.reset(seed=4, options={"max_turns": np.int64(1)})
    assert far.step("no such action")[3]
    far.close()


def searched(env: Any, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns all nodes of the searches of an episode, with the keys of states as numbers."""
    nodes, keys = list[Any](), dict[str, int]()
    step = Simulator.step

    def recorded(self: Simulator, node: Node, action: str) -> Node:
        new = step(self, node, action)
        numbers = [keys.setdefault(each.key, len(keys)) for each in (node, new)]
        nodes.append(
            (*numbers, action, new.observation, new.reward, new.over, new.chance, new.depth)
        )
        return new

    with monkeypatch.context() as patch:
        patch.setattr(Simulator, "step", recorded)
        agent = SearchAgent(algorithm, budget=15, value="random")
        episode = EpisodeRunner(env, str(env.get_wrapper_attr("tasks").train[2]), 3)
        for _ in range(6):
            [action] = agent.act([episode.view])
            nodes.append(action)
            if episode.play(action):
                break
    return nodes


@pytest.mark.parametrize("algorithm", ["mcts", "best_first"])
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_remote_search_equals_a_local_one_node_for_node(
    server: Any, name: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
):
    url, sessions = server
    local = searched(MAKERS[name](), algorithm, monkeypatch)
    far = remote(url, name)
    assert searched(far, algorithm, monkeypatch) == local
    assert any(node[6] for node in local if len(node) == 8) == (name != "NumberLine-v0")
    wrapped = HistoryObservation(far, k=2)
    here = HistoryObservation(MAKERS[name](), k=2)
    assert searched(wrapped, "mcts", monkeypatch) == searched(here, "mcts", monkeypatch)
    far.close()
    until(lambda: not len(sessions))


def test_a_server_of_a_remote_environment_forks_as_well(server: Any):
    """The snapshots of the inner server are within those of the outer one."""
    url, sessions = server
    check_forks(partial(remote, url, "FrozenLake-v0"))
    until(lambda: not len(sessions))


def test_a_server_of_another_one_without_snapshots_announces_none():
    server = Server()
    try:
        server.answers = [(404, "", {})]
        assert about("Remote-v0", RemoteEnv(server.url))["/metadata"]["capabilities"] == []
    finally:
        server.server.shutdown()
        server.server.server_close()


def test_snapshots_of_a_remote_environment_are_checked(server: Any):
    url, sessions = server
    far = remote(url, "FrozenLake-v0").unwrapped
    far.reset(seed=1)
    good = far.snapshot()
    cases: list[Any] = [None, 3, {}, {**good, "env": "Wordle"}, {**good, "snapshot": 3}]
    cases += [{**good, "snapshot": good["snapshot"][:-4]}, {**good, "rng": {"state": 1}}]
    cases += [{key: good[key] for key in good if key != "state"}]
    for bad in cases:
        with pytest.raises(SnapshotError):
            far.restore(bad)
        assert far.snapshot() == good
    assert "FrozenLake" not in json.dumps({**good, "snapshot": ""})
    lost = remote(url, "FrozenLake-v0").unwrapped
    with pytest.raises(SnapshotError, match="VALIDATION_ERROR"):
        lost.restore({**good, "snapshot": "x"})
    lost.close()
    far.close()
    until(lambda: not len(sessions))


@pytest.mark.parametrize("page", ["{}", "[]", "no", '{"capabilities": 3}', None])
def test_servers_without_snapshots_are_named_with_the_remedy(page: str | None):
    server = Server()
    try:
        server.answers = [(404, "", {}), (200, page, {}) if page else (404, "", {})]
        env = RemoteEnv(server.url)
        with pytest.raises(NoSnapshotsError, match=r"has no snapshots.*agentgym serve") as error:
            env.restore({"env": "RemoteEnv"})
        assert isinstance(error.value, RemoteError) and isinstance(error.value, AttributeError)
        with pytest.raises(ConfigError, match=r"A search needs snapshots.*agentgym serve"):
            SearchAgent("mcts").act([View("", "", {}, np.random.default_rng(0), env)])
    finally:
        server.server.shutdown()
        server.server.server_close()
