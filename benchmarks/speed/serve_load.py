"""Load of `agentgym serve`: many clients at once, each compared with the environment itself.

Every client plays episodes of its own tasks over a WebSocket, with the actions of a random agent,
and compares observations, rewards and ends with those of an environment in its own process. In some
episodes it forks its session and plays the copies, which are compared in the same way. Some clients
leave in the middle of an episode, without a goodbye. Prints a table and writes JSON.

    python benchmarks/speed/serve_load.py [--clients 256] [--ids NumberLine-v0 WebShop-v0]
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from agentgym.registration.making import TextGym, make_env
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.tasks import task_rng
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write

TOKEN = "load"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
COPIES, COPIED_TURNS = 2, 3
"""Sessions per fork, and the turns that are played in each."""


@dataclass
class Settings:
    """Settings of the load.

    Attributes:
        ids: the environments, which clients play in turn.
        clients: number of clients.
        episodes: episodes per client.
        turns: most turns of an episode.
        leavers: share of clients that leave in the middle of their last episode.
        forks: share of episodes with a fork of the session before the first turn.
        threads: threads of the server.
        out: file for the results.
    """

    ids: tuple[str, ...] = ("NumberLine-v0", "Blocksworld-v0", "Wordle-v0", "TicTacToe-v0")
    clients: int = 256
    episodes: int = 4
    turns: int = 20
    leavers: float = 0.25
    forks: float = 0.5
    threads: int = 8
    out: Path = RESULTS / "serve_load.json"


@dataclass
class Count:
    """Results of all clients."""

    steps: int = 0
    wrong: int = 0
    forks: int = 0
    seconds: list[float] = field(default_factory=list)
    fork_seconds: list[float] = field(default_factory=list)


class Client:
    """A connection to a server, whose replies are timed and compared.

    Args:
        url: address of the environment.
        count: where the results are counted.
        rng: samples the actions.
    """

    def __init__(self, url: str, count: Count, rng: np.random.Generator):
        self.url, self.count, self.rng = url.replace("http", "ws"), count, rng

    async def connect(self, session: str = "") -> Client:
        """Starts a session, or takes over one."""
        import websockets  # pyright: ignore

        query = f"?session_id={session}" if session else ""
        self.connection = await websockets.connect(
            f"{self.url}/ws{query}", open_timeout=120, proxy=None, additional_headers=HEADERS
        )
        return self

    async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        """Returns the data of the reply to a message."""
        begun = time.perf_counter()
        await self.connection.send(json.dumps({"type": kind, "data": data}))
        reply = json.loads(await self.connection.recv())
        times = self.count.fork_seconds if kind == "fork" else self.count.seconds
        times.append(time.perf_counter() - begun)
        return reply["data"]

    async def step(self, env: TextGym, info: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Plays an action here and there and returns the info and whether the episode is over."""
        listed = info["admissible"] or ("look",)
        action = str(listed[int(self.rng.integers(len(listed)))])
        text, reward, terminated, truncated, info = env.step(action)
        seen = await self.ask("step", text=action)
        over = terminated or truncated
        found = (seen["observation"]["text"], seen["reward"], seen["done"])
        self.count.wrong += found != (text, reward, over)
        self.count.steps += 1
        return info, over

    async def fork(self, env: TextGym) -> None:
        """Plays some turns in copies of the session, and leaves the environment as it was."""
        saved = snapshot_of(env)
        made = await self.ask("fork", count=COPIES)
        for session, seed in zip(made["session_ids"], made["seeds"], strict=True):
            copy = await Client(self.url, self.count, self.rng).connect(session)
            _, info = restore_snapshot(env, saved)
            env.unwrapped.reseed(seed)  # type: ignore[attr-defined]
            for _ in range(COPIED_TURNS):
                info, over = await copy.step(env, info)
                if over:
                    break
            await copy.connection.close()
        restore_snapshot(env, saved)
        self.count.forks += 1


async def play(url: str, number: int, settings: Settings, count: Count) -> None:
    """Plays the episodes of one client."""
    id = settings.ids[number % len(settings.ids)]
    env, rng = make_env(id), task_rng(str(number), "load")
    leaves = number < settings.leavers * settings.clients
    client = await Client(f"{url}/{id}", count, rng).connect()
    for episode in range(settings.episodes):
        tasks = env.get_wrapper_attr("tasks").train
        task = tasks[number % len(tasks)]
        text, info = env.reset(seed=episode, options={"task": task, "max_turns": settings.turns})
        seen = await client.ask("reset", seed=episode, task=task, max_turns=settings.turns)
        count.wrong += seen["observation"]["text"] != text
        if rng.random() < settings.forks:
            await client.fork(env)
        over = False
        while not over:
            if leaves and episode == settings.episodes - 1 and rng.random() < 0.3:
                client.connection.transport.abort()
                return
            info, over = await client.step(env, info)
    await client.connection.close()


async def measure(url: str, settings: Settings) -> tuple[Count, float]:
    """Returns the counts of all clients and the seconds that they took."""
    count, begun = Count(), time.perf_counter()
    await asyncio.gather(*(play(url, i, settings, count) for i in range(settings.clients)))
    return count, time.perf_counter() - begun


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Waits until a server answers."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("The server ended.")


def memory_mib(pid: int) -> float:
    """Returns the resident memory of a process in MiB."""
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def admitted(url: str, settings: Settings) -> int:
    """Returns how many sessions the server admits at once: all, if clients have left nothing."""

    async def connect_all() -> int:
        import websockets  # pyright: ignore

        address = f"{url.replace('http', 'ws')}/ws"
        found = 0
        async with asyncio.timeout(300):
            connections = []
            for _ in range(settings.clients):
                each = await websockets.connect(address, additional_headers=HEADERS, proxy=None)
                await each.send('{"type": "reset"}')
                found += json.loads(await each.recv())["type"] == "observation"
                connections.append(each)
            for each in connections:
                await each.close()
        return found

    return asyncio.run(connect_all())


def main(settings: Settings) -> None:
    """Measures the server and writes the results."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--port", str(port), "--token", TOKEN, "--threads", str(settings.threads)]
    words += ["--max-sessions", str((1 + COPIES) * settings.clients)]
    server = subprocess.Popen([sys.executable, "-m", "agentgym", "serve", *settings.ids, *words])
    try:
        wait_for(url, server)
        count, seconds = asyncio.run(measure(url, settings))
        memory = memory_mib(server.pid)
        free = admitted(url, settings)
    finally:
        server.terminate()
        server.wait()
    times = np.array(count.seconds) * 1e3
    results = {
        "steps": count.steps,
        "forks": count.forks,
        "wrong_observations": count.wrong,
        "steps_per_second": round(count.steps / seconds, 1),
        "median_ms": round(float(np.median(times)), 1),
        "p99_ms": round(float(np.percentile(times, 99)), 1),
        "fork_median_ms": round(float(np.median(count.fork_seconds or [0.0])) * 1e3, 1),
        "server_mib": round(memory, 1),
        "sessions_admitted_afterwards": free,
    }
    for name, value in results.items():
        print(f"{name:30} {value}")
    write(settings.out, {"settings": settings_of(settings), "versions": versions(), **results})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
