"""Throughput of the environments on one core under a random policy.

Each id is measured in a process of its own: the time from the start of Python to the first
observation (with an empty cache, "first", and with a filled one, "start"), steps per second of a
random agent (resets and lists of admissible actions included) and of the scripted expert (its own
time included), resets per second, and the memory of the process. Where actions are open text,
random actions are mostly invalid, and only the expert's cost sandboxed programs or searches. Times
are CPU times, which other processes do not affect, except for engines and sandboxes that run in a
process of their own: those are wall-clock times. Reference throughputs are those of the
implementations that the environments follow, measured on the same kind of machine. The reference of
WebShop is for the 1,000 products of the original, to be compared with ours on the same files
(`data_dir`). Writes JSON after each id, and prints tables.

    python benchmarks/speed/env_speed.py [--ids WebShop] [--large]
    python benchmarks/speed/env_speed.py --ids WebShop --env-kwargs '{"data_dir": "FOLDER"}'
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.shared.result_files import RESULTS, read, versions, write

REFERENCES: dict[str, tuple[float, str]] = {
    "WebShop": (23.6, "original, 1,000 products: 23.6 steps/s, start 11-15 s, 0.7 GiB"),
    "Overcooked-Cooks": (3790.0, "original, three cooks: 3,790 joint macro steps/s, without text"),
    "Overcooked-TomatoSalad": (3630.0, "original, macro actions as text: 3,630 steps/s"),
    "Overcooked": (3060.0, "original, macro actions as text: 3,060 steps/s"),
    "VirtualHome": (98.0, "original: 81-124 steps/s"),
    "TextCraft": (5580.0, "AgentGym framework (Xi et al.): 5,580 steps/s"),
    "BabyAI": (177.0, "AgentGym framework (Xi et al.), text interface: 177 steps/s"),
    "ScienceWorld": (6.9, "original with valid actions, Java: 7-22 steps/s, start 3.4 s"),
    "Maze": (41_900.0, "LMRL-Gym's: 41,900 steps/s"),
    "Wordle": (817.0, "LMRL-Gym's, 40 words: 817 steps/s; 2,315 words: 32"),
    "Sokoban": (254.0, "RAGEN's, 6x6: 254 steps/s"),
    "FrozenLake": (8200.0, "RAGEN's: 8,200 steps/s"),
    "Bandit": (162_000.0, "RAGEN's: 162,000 steps/s"),
    "TicTacToe": (709.0, "TextArena's: 709 steps/s; PettingZoo's without text: 10,100"),
    "KuhnPoker": (745.0, "TextArena's: 745 steps/s"),
    "ConnectFour": (630.0, "TextArena's: 630 steps/s; PettingZoo's without text: 8,100"),
    "PrisonersDilemma": (738.0, "TextArena's: 738 steps/s"),
    "LiarsDice": (634.0, "TextArena's: 634 steps/s"),
}
"""Prefix of an id -> steps per second of the reference, and its description."""
ENGINES = ("AgentGym/ScienceWorld", "AgentGym/Python", "AgentGym/BugFix", "AgentGym/Data")
"""Starts of the ids with an engine or a sandbox in a process of its own."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        ids: measure only ids that contain one of these texts (empty: all).
        env_kwargs: further arguments of the environments, as a JSON object.
        seconds: duration of stepping each environment.
        seed: seed of the random policy.
        large: also measure the search engine with 1,000 and 1,000,000 products (minutes).
        out: file of the results.
        worker: measure this id in this process and print JSON (used by the script itself).
    """

    ids: list[str] = field(default_factory=list)
    env_kwargs: str = "{}"
    seconds: float = 3.0
    seed: int = 0
    large: bool = False
    out: Path = RESULTS / "env_speed.json"
    worker: str = ""


@dataclass
class Speed:
    """Throughput, start-up time and memory of an environment."""

    id: str
    steps_per_second: float
    expert_steps_per_second: float | None
    resets_per_second: float
    start_seconds: float
    first_start_seconds: float
    megabytes: float
    mean_return: float
    reference_steps_per_second: float | None
    reference: str


def resident_megabytes() -> float:
    """Returns the resident memory of the process in MiB, or nan if it is not available."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def rate(seconds: float, play: Callable[[], None], clock: Callable[[], float]) -> float:
    """Returns the number of calls of `play` per second."""
    count, start = 0, clock()
    while (passed := clock() - start) < seconds:
        play()
        count += 1
    return count / passed


def work(id: str, kwargs: dict[str, Any], seconds: float, seed: int) -> dict[str, float | None]:
    """Measures one environment in this process."""
    import gymnasium

    import agentgym  # noqa: F401 - registers the ids

    env = gymnasium.make(id, **kwargs)
    _, info = env.reset(seed=seed)
    ready = time.time()
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    returns: list[float] = [0.0]

    def step() -> None:
        nonlocal info
        listed = info["admissible"]
        action = listed[int(rng.integers(len(listed)))] if listed else env.action_space.sample()
        _, reward, terminated, truncated, info = env.step(action)
        returns[-1] += float(reward)
        if terminated or truncated:
            _, info = env.reset()
            returns.append(0.0)

    def expert_step() -> None:
        action = env.unwrapped.expert()  # type: ignore[attr-defined]
        if action is None or any(env.step(action)[2:4]):
            env.reset()

    clock = time.perf_counter if id.startswith(ENGINES) else time.process_time
    rate(seconds / 10, step, clock)  # warms the caches
    steps = rate(seconds, step, clock)
    resets = rate(seconds / 3, lambda: env.reset() and None, clock)
    env.reset(seed=seed)
    has_expert = env.unwrapped.expert() is not None  # type: ignore[attr-defined]
    return {
        "ready": ready,
        "steps": steps,
        "expert_steps": rate(seconds / 3, expert_step, clock) if has_expert else None,
        "resets": resets,
        "megabytes": resident_megabytes(),
        "mean_return": float(np.mean(returns[:-1] or [0.0])),
    }


def measure(id: str, settings: Settings, cache: str) -> Speed:
    """Measures an environment in a new process, after a short one that fills the cache."""
    results = []
    for seconds in (0.01, settings.seconds):
        command = [sys.executable, __file__, "--worker", id, "--env-kwargs", settings.env_kwargs]
        command += ["--seconds", str(seconds), "--seed", str(settings.seed)]
        # One thread, so that only one core is used.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "AGENTGYM_CACHE": cache}
        start = time.time()
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        if run.returncode:
            raise RuntimeError(f"{id} failed:\n{run.stderr.strip()[-2000:]}")
        result = json.loads(run.stdout.splitlines()[-1])
        results.append({**result, "start": result["ready"] - start})
    first, last = results
    name = id.partition("/")[2]
    found = next((REFERENCES[key] for key in REFERENCES if name.startswith(key)), (None, ""))
    return Speed(
        id=id,
        steps_per_second=last["steps"],
        expert_steps_per_second=last["expert_steps"],
        resets_per_second=last["resets"],
        start_seconds=last["start"],
        first_start_seconds=first["start"],
        megabytes=last["megabytes"],
        mean_return=last["mean_return"],
        reference_steps_per_second=found[0],
        reference=found[1],
    )


@dataclass
class SearchSpeed:
    """Latency and memory of the search engine."""

    products: int
    open_seconds: float
    p50_milliseconds: float
    p95_milliseconds: float
    megabytes: float


def measure_search(products: int, queries: int = 300) -> SearchSpeed:
    """Opens a generated shop, from the cache if possible, and searches for its goals."""
    from agentgym.envs.webshop.expert import queries as suggested
    from agentgym.envs.webshop.shop import open_shop

    start = time.perf_counter()
    shop = open_shop(None, products, False, 0, 0, "alphabetic")
    opened = time.perf_counter() - start
    times = []
    for goal in range(queries):
        query = suggested(shop.instruction(goal))[0]
        start = time.perf_counter()
        shop.index.search(query)
        times.append(1000 * (time.perf_counter() - start))
    p50, p95 = np.percentile(times, [50, 95])
    return SearchSpeed(products, opened, float(p50), float(p95), resident_megabytes())


def speed_table(speeds: list[Speed]) -> Table:
    """Returns the results of environments as a table."""
    table = Table(title="One core, random admissible actions, resets included")
    columns = ("id", "steps/s", "expert", "resets/s")
    for name in (*columns, "start s", "first s", "MiB", "return", "x reference"):
        table.add_column(name, justify="left" if name == "id" else "right", no_wrap=True)
    for speed in speeds:
        factor, expert = speed.reference_steps_per_second, speed.expert_steps_per_second
        against = f"{speed.steps_per_second / factor:,.3g}" if factor else ""
        table.add_row(
            speed.id.partition("/")[2],
            f"{speed.steps_per_second:,.0f}",
            "" if expert is None else f"{expert:,.0f}",
            f"{speed.resets_per_second:,.0f}",
            f"{speed.start_seconds:.2f}",
            f"{speed.first_start_seconds:.2f}",
            f"{speed.megabytes:.0f}",
            f"{speed.mean_return:.3f}",
            against,
        )
    return table


def search_table(speeds: list[SearchSpeed]) -> Table:
    """Returns the results of the search engine as a table."""
    table = Table(title="WebShop search, whole instructions, best 50")
    for name in ("products", "open s", "p50 ms", "p95 ms", "MiB"):
        table.add_column(name, justify="right")
    for speed in speeds:
        table.add_row(
            f"{speed.products:,}",
            f"{speed.open_seconds:.2f}",
            f"{speed.p50_milliseconds:.2f}",
            f"{speed.p95_milliseconds:.2f}",
            f"{speed.megabytes:.0f}",
        )
    return table


def main(settings: Settings) -> None:
    """Measures the environments, prints tables and writes JSON."""
    if settings.worker:
        kwargs = json.loads(settings.env_kwargs)
        print(json.dumps(work(settings.worker, kwargs, settings.seconds, settings.seed)))
        return
    from agentgym import REGISTRY

    console = Console(width=max(110, Console().width))
    kwargs = json.loads(settings.env_kwargs)
    if "data_dir" in kwargs:
        kwargs["data_dir"] = "given"  # the path is of no use to others
    before = read(settings.out)
    # Earlier results of other ids are kept if they are for the same arguments.
    kept = before.get("environments", []) if before.get("env_kwargs") == kwargs else []
    rows = {row["id"]: row for row in kept}
    report = {**versions(), "env_kwargs": kwargs, "environments": kept}
    report["search"] = before.get("search", [])
    speeds, missing = [], []
    for id, entry in REGISTRY.items():
        if settings.ids and not any(text in id for text in settings.ids):
            continue
        if entry.package and importlib.util.find_spec(entry.package) is None:
            missing.append(f"{id}: needs the extra {entry.extra!r}")
        elif entry.files and settings.env_kwargs == "{}":
            missing.append(f"{id}: needs files, given by --env-kwargs")
        else:
            with tempfile.TemporaryDirectory() as cache:
                speeds.append(measure(id, settings, cache))
            rows[id] = asdict(speeds[-1])
            report["environments"] = [rows[known] for known in REGISTRY if known in rows]
            write(settings.out, report)
    console.print(speed_table(speeds))
    for speed in speeds:
        if speed.reference:
            console.print(f"Reference of {speed.id}: {speed.reference}", highlight=False)
    for line in missing:
        console.print(f"Not measured: {line}", markup=False)
    if settings.large:
        searches = [measure_search(n) for n in (1000, 1_000_000)]
        console.print(search_table(searches))
        report["search"] = [asdict(speed) for speed in searches]
        write(settings.out, report)
    console.print(f"Written to {settings.out}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
