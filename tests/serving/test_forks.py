"""Forks over the protocol: copies of a session play on as copies of the environment do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("starlette", reason="needs the extra `serve`")
pytest.importorskip("websockets", reason="needs the extra `serve`")

from websockets.sync.client import connect

from agentgym.registration.making import make_env
from agentgym.serving.protocol import ProtocolError
from agentgym.serving.server import Limits, Sessions, _Served
from agentgym.snapshots import restore_snapshot, snapshot_of

from ..test_all_envs import Player, every
from .test_server import HEADERS, TOKEN, ask, http, serving, until, ws

SLIPPERY = partial(make_env, "FrozenLake-v0")
WRAPPED = partial(make_env, "FrozenLake-v0", wrap=["HistoryObservation:k=2", "MultiTrial:n=2"])

MAKERS: dict[str, Any] = {
    "FrozenLake-v0": SLIPPERY,
    "Blackjack-v0": partial(make_env, "Blackjack-v0"),
    "KuhnPoker-v0": partial(make_env, "KuhnPoker-v0"),
    "NumberLine-v0": partial(make_env, "NumberLine-v0", size=6),
    "Wrapped": WRAPPED,
}


class Client:
    """A client of a served environment in this process, without sockets."""

    def __init__(self, make: Callable[[], Any], limits: Limits | None = None):
        self.sessions = Sessions(limits or Limits(sessions=8, threads=2))
        self.served = _Served("Env-v0", make, self.sessions, b"key of a test, long enough")

    async def start(self) -> str:
        return await self.sessions.start("Env-v0", self.served.begin)

    async def ask(self, id: str, type: str, **data: Any) -> dict[str, Any]:
        reply = await self.served._reply(id, {"type": type, "data": data})
        assert reply is not None
        return json.loads(json.dumps(reply))["data"]

    async def play(self, id: str, actions: list[str]) -> list[tuple[Any, ...]]:
        """Plays the actions of a `Player`, with a reset after each end."""
        found, over = list[tuple[Any, ...]](), False
        for action in actions:
            reply = await (self.ask(id, "reset") if over else self.ask(id, "step", text=action))
            found.append(seen(reply))
            over = reply["done"]
        return found


def seen(reply: dict[str, Any]) -> tuple[Any, ...]:
    """Returns what a reply shows: the text, reward, end, success and admissible actions."""
    shown = reply["observation"]
    ends = reply["reward"], shown["terminated"], shown["truncated"]
    return shown["text"], *ends, shown["state_key"], shown["turn"], shown["admissible"]


def known(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the same of a result of the environment itself."""
    info, middle = result[-1], result[1:-1] or (None, False, False)
    found = result[0], *middle, info["state_key"], info["turn"], list(info["admissible"])
    return tuple(json.loads(json.dumps(found)))


def check_forks(make: Callable[[], Any], seed: int = 3) -> None:
    """Compares a restored session and copies with seeds with the environment itself."""
    player = Player(make(), seed)
    while len(player.actions) < 4 or player.ended():
        player.step()
    before, saved = list(player.actions), json.loads(json.dumps(snapshot_of(player.env)))
    for _ in range(5):
        player.step()
    after = player.actions[len(before) :]
    expected = [known(result) for result in player.results[len(before) + 1 :]]
    copies = {}
    for number in (1, 2):
        restore_snapshot(player.env, saved)
        player.env.unwrapped.reseed(number)  # type: ignore[attr-defined]
        copies[number] = played_until_end(player.env, after)

    async def everything() -> None:
        client = Client(make)
        id = await client.start()
        await client.ask(id, "reset", seed=seed)
        await client.play(id, before)
        text = (await client.ask(id, "snapshot"))["snapshot"]
        forked = await client.ask(id, "fork", seeds=[1, 2])
        assert await client.play(id, after) == expected
        await client.ask(id, "restore", snapshot=text)
        assert await client.play(id, after) == expected
        for copy, number in zip(forked["session_ids"], forked["seeds"], strict=True):
            assert await client.play(copy, copies[number][0]) == copies[number][1]
        client.sessions.close()

    asyncio.run(everything())
    player.env.close()


def played_until_end(env: Any, actions: list[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Plays actions up to an end, which chance events may place elsewhere."""
    played, results = list[str](), list[tuple[Any, ...]]()
    for action in actions:
        played.append(action)
        results.append(known(env.step(action)))
        if results[-1][2] or results[-1][3]:
            break
    return played, results


@every
def test_forks_of_every_id_play_on_as_the_environment_does(id: str):
    check_forks(partial(make_env, id))


@pytest.mark.parametrize(
    "make",
    [WRAPPED, partial(gymnasium.make, "AgentGym/NumberLine-v0", max_episode_steps=6)],
    ids=["wrappers", "time limit"],
)
def test_forks_of_wrapped_environments_play_on_as_they_do(make: Any):
    check_forks(make, seed=5)


async def futures(client: Client, seeds: list[int], actions: int = 12) -> list[str]:
    """Returns the episodes of copies of a session, each as one text."""
    id = await client.start()
    await client.ask(id, "reset", seed=1, task="train/3")
    found = []
    for copy in (await client.ask(id, "fork", seeds=seeds))["session_ids"]:
        replies = []
        for number in range(actions):
            try:
                replies.append(await client.ask(copy, "step", text=("right", "down")[number % 2]))
            except ProtocolError:  # the episode is over
                break
        found.append(json.dumps(replies))
    client.sessions.close()
    return found


def test_copies_differ_by_their_seeds_where_there_is_chance():
    one, same, *others = asyncio.run(futures(Client(SLIPPERY), [1, 1, 2, 3, 4]))
    assert one == same and len({one, *others}) > 2
    plain = asyncio.run(futures(Client(partial(make_env, "NumberLine-v0")), [1, 2, 3]))
    assert len(set(plain)) == 1


def test_forks_are_all_or_none_and_count_as_sessions():
    async def everything() -> None:
        client = Client(SLIPPERY, Limits(sessions=6, threads=2))
        id = await client.start()
        with pytest.raises(ProtocolError) as caught:
            await client.ask(id, "fork", count=2)
        assert caught.value.code == "EXECUTION_ERROR" and len(client.sessions) == 1
        await client.ask(id, "reset", seed=0)
        with pytest.raises(ProtocolError, match="1 of 6 sessions are in use, and 6 more") as caught:
            await client.ask(id, "fork", count=6)
        assert caught.value.code == "CAPACITY_REACHED" and len(client.sessions) == 1
        copies = (await client.ask(id, "fork", count=5))["session_ids"]
        assert len(client.sessions) == 6 and len({id, *copies}) == 6
        with pytest.raises(ProtocolError) as caught:
            await client.ask(id, "fork", count=1)
        assert caught.value.code == "CAPACITY_REACHED"
        client.sessions.end(copies[0])
        await client.ask(id, "fork", count=1)
        client.sessions.close()

    asyncio.run(everything())


def test_a_copy_that_cannot_be_made_leaves_none(monkeypatch: pytest.MonkeyPatch):
    closed = []

    async def everything() -> None:
        client, made = Client(SLIPPERY), list[Any]()
        id = await client.start()
        await client.ask(id, "reset", seed=0)
        plain = client.served.begin

        def begin() -> Any:
            session = plain()
            made.append(session)
            monkeypatch.setattr(session, "close", lambda: closed.append(session))
            if len(made) == 3:
                raise OSError("no memory")
            return session

        monkeypatch.setattr(client.served, "begin", begin)
        with pytest.raises(ProtocolError, match="No environment: no memory") as caught:
            await client.ask(id, "fork", count=5)
        assert caught.value.code == "SESSION_ERROR" and len(client.sessions) == 1
        assert client.sessions._starting == 0
        client.sessions.close()
        client.sessions._threads.shutdown(wait=True)
        assert {*closed} >= {*made[:2]}

    asyncio.run(everything())


def test_many_sessions_fork_at_once():
    """Every copy plays as the environment itself from the snapshot, with the seed of the copy."""
    clients, copies = 24, 3

    async def one(client: Client, number: int) -> None:
        env, id = SLIPPERY(), await client.start()
        task = f"train/{number}"
        env.reset(seed=number, options={"task": task})
        await client.ask(id, "reset", seed=number, task=task)
        env.step("stay")  # invalid, so it ends no episode
        await client.ask(id, "step", text="stay")
        saved = snapshot_of(env)
        forked = await client.ask(id, "fork", count=copies)
        for copy, seed in zip(forked["session_ids"], forked["seeds"], strict=True):
            restore_snapshot(env, saved)
            env.unwrapped.reseed(seed)  # type: ignore[attr-defined]
            actions, results = played_until_end(env, ["down", "right", "left"])
            assert await client.play(copy, actions) == results
            client.sessions.end(copy)

    async def everyone() -> None:
        client = Client(SLIPPERY, Limits(sessions=clients * (copies + 1)))
        await asyncio.gather(*(one(client, number) for number in range(clients)))
        assert len(client.sessions) == clients
        client.sessions.close()

    asyncio.run(everyone())


# Over sockets.


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    limits = Limits(sessions=8, env_seconds=20)
    makers = {name.replace("-", "_"): make for name, make in MAKERS.items()}
    yield from serving(limits, **makers)


def test_snapshot_restore_and_fork_over_http(server: tuple[str, Any]):
    url, sessions = server
    start = http(f"{url}/reset", {"seed": 1, "task": "train/3"})[1]
    id = start["session_id"]
    saved = http(f"{url}/snapshot", {"session_id": id})[1]
    assert saved["bytes"] == len(saved["snapshot"]) and saved["session_id"] == id
    restored = http(f"{url}/restore", {"snapshot": saved["snapshot"], "seed": 7})[1]
    assert restored["observation"]["text"] == start["observation"]["text"]
    status, forked = http(f"{url}/fork", {"session_id": id, "count": 2, "seeds": [7, 8]})
    assert status == 200 and forked["seeds"] == [7, 8]
    turns = [
        http(f"{url}/step", {"session_id": each, "action": {"text": "right"}})[1]
        for each in (restored["session_id"], *forked["session_ids"])
    ]
    assert turns[0]["observation"] == turns[1]["observation"]
    again = http(f"{url}/restore", {"snapshot": saved["snapshot"], "session_id": id})[1]
    assert again["session_id"] == id and len(sessions) == 4
    for path, body, code in [
        ("restore", {"snapshot": saved["snapshot"][:-8]}, (422, "VALIDATION_ERROR")),
        ("restore", {"snapshot": saved["snapshot"], "seed": "1"}, (422, "VALIDATION_ERROR")),
        ("restore", {"snapshot": saved["snapshot"], "sead": 1}, (422, "VALIDATION_ERROR")),
        ("reset", {"tsak": "train/3"}, (422, "VALIDATION_ERROR")),
        ("NumberLine-v0/restore", {"snapshot": saved["snapshot"]}, (422, "VALIDATION_ERROR")),
        ("fork", {"session_id": id, "count": 9}, (503, "CAPACITY_REACHED")),
        ("fork", {"session_id": id, "count": 5}, (503, "CAPACITY_REACHED")),
        ("fork", {"session_id": "none", "count": 1}, (404, "SESSION_ERROR")),
        ("snapshot", {}, (404, "SESSION_ERROR")),
    ]:
        status, reply = http(f"{url}/{path}", body)
        assert (status, reply["code"]) == code
        assert len(sessions) == 4
    for each in (id, restored["session_id"], *forked["session_ids"]):
        http(f"{url}/close", {"session_id": each})
    until(lambda: not len(sessions))


def attached(url: str, id: str) -> Any:
    """Returns a connection to a session."""
    address = f"{url.replace('http', 'ws')}/FrozenLake-v0/ws?session_id={id}"
    return connect(address, additional_headers=HEADERS, proxy=None)


def test_a_websocket_plays_a_copy(server: tuple[str, Any]):
    url, sessions = server
    with ws(url, "FrozenLake-v0") as client:
        assert ask(client, "snapshot")["data"]["code"] == "EXECUTION_ERROR"
        ask(client, "reset", seed=1, task="train/3")
        saved = ask(client, "snapshot")["data"]["snapshot"]
        [copy] = ask(client, "fork", seeds=[7])["data"]["session_ids"]
        assert ask(client, "fork", seeds=7)["data"]["code"] == "VALIDATION_ERROR"
        ask(client, "restore", snapshot=saved, seed=7)
        with attached(url, copy) as other:
            assert ask(other, "step", text="right") == ask(client, "step", text="right")
        until(lambda: len(sessions) == 1)
        with attached(url, copy) as late:
            assert json.loads(late.recv(timeout=20))["data"]["code"] == "SESSION_ERROR"
    until(lambda: not len(sessions))


def test_the_client_of_openenv_forks(server: tuple[str, Any]):
    core = pytest.importorskip("openenv.core", reason="needs the extra `openenv`")
    url, sessions = server

    class Forking(core.GenericEnvClient):
        async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
            return (await self._send_and_receive({"type": kind, "data": data}))["data"]

    async def everything() -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        address = {"base_url": f"{url}/FrozenLake-v0", "headers": headers}
        async with Forking(**address) as one, Forking(**address) as other:
            await one.reset(seed=1, task="train/3")
            saved = await one.ask("snapshot")
            await other.ask("restore", snapshot=saved["snapshot"])
            for action in ("right", "down"):
                here, there = await one.step({"text": action}), await other.step({"text": action})
                assert here.observation == there.observation
            assert len((await one.ask("fork", count=2))["session_ids"]) == 2

    asyncio.run(everything())
    for id in list(sessions._slots):
        http(f"{url}/FrozenLake-v0/close", {"session_id": id})
    until(lambda: not len(sessions))
