"""Load of `agentgym serve`: many clients at once, each compared with the environment itself.

Every client plays episodes of its own tasks over a WebSocket, with the actions of a random agent,
and compares observations, rewards and ends with those of an environment in its own process. Some
clients leave in the middle of an episode, without a goodbye. Prints a table and writes JSON.

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

from agentgym.registration.making import make_env
from agentgym.tasks import task_rng
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write

TOKEN = "load"


@dataclass
class Settings:
    """Settings of the load.

    Attributes:
        ids: the environments, which clients play in turn.
        clients: number of clients.
        episodes: episodes per client.
        turns: most turns of an episode.
        leavers: share of clients that leave in the middle of their last episode.
        threads: threads of the server.
        out: file for the results.
    """

    ids: tuple[str, ...] = ("NumberLine-v0", "Blocksworld-v0", "Wordle-v0", "TicTacToe-v0")
    clients: int = 256
    episodes: int = 4
    turns: int = 20
    leavers: float = 0.25
    threads: int = 8
    out: Path = RESULTS / "serve_load.json"


@dataclass
class Count:
    """Results of all clients."""

    steps: int = 0
    wrong: int = 0
    seconds: list[float] = field(default_factory=list)


async def play(url: str, number: int, settings: Settings, count: Count) -> None:
    """Plays the episodes of one client."""
    import websockets  # pyright: ignore

    id = settings.ids[number % len(settings.ids)]
    env, rng = make_env(id), task_rng(str(number), "load")
    leaves = number < settings.leavers * settings.clients
    connection = await websockets.connect(
        f"{url.replace('http', 'ws')}/{id}/ws", open_timeout=120, proxy=None,
        additional_headers={"Authorization": f"Bearer {TOKEN}"},
    )  # fmt: skip

    async def ask(kind: str, **data: Any) -> dict[str, Any]:
        begun = time.perf_counter()
        await connection.send(json.dumps({"type": kind, "data": data}))
        reply = json.loads(await connection.recv())
        count.seconds.append(time.perf_counter() - begun)
        return reply["data"]

    for episode in range(settings.episodes):
        tasks = env.get_wrapper_attr("tasks").train
        task = tasks[number % len(tasks)]
        text, info = env.reset(seed=episode, options={"task": task, "max_turns": settings.turns})
        seen = await ask("reset", seed=episode, task=task, max_turns=settings.turns)
        count.wrong += seen["observation"]["text"] != text
        over = False
        while not over:
            if leaves and episode == settings.episodes - 1 and rng.random() < 0.3:
                connection.transport.abort()
                return
            listed = info["admissible"] or ("look",)
            action = str(listed[int(rng.integers(len(listed)))])
            text, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            seen = await ask("step", text=action)
            found = (seen["observation"]["text"], seen["reward"], seen["done"])
            count.wrong += found != (text, reward, over)
            count.steps += 1
    await connection.close()


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

        headers = {"Authorization": f"Bearer {TOKEN}"}
        address = f"{url.replace('http', 'ws')}/ws"
        found = 0
        async with asyncio.timeout(300):
            connections = []
            for _ in range(settings.clients):
                each = await websockets.connect(address, additional_headers=headers, proxy=None)
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
    words += ["--max-sessions", str(settings.clients)]
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
        "wrong_observations": count.wrong,
        "steps_per_second": round(count.steps / seconds, 1),
        "median_ms": round(float(np.median(times)), 1),
        "p99_ms": round(float(np.percentile(times, 99)), 1),
        "server_mib": round(memory, 1),
        "sessions_admitted_afterwards": free,
    }
    for name, value in results.items():
        print(f"{name:30} {value}")
    write(settings.out, {"settings": settings_of(settings), "versions": versions(), **results})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
