r"""Updates of GRPO beside TRL's `GRPOTrainer` on one GPU, with random weights of a Qwen2.5 size.

`peers_grpo.py` lists what is equal on both sides, which alternate, each in a process of its own.
All weights are trained, in bfloat16. This project's optimiser holds a copy of them in float32,
TRL's does not. A ratio above 1 means that this project is faster.

    python benchmarks/speed/gpu_grpo.py                                     # on a GPU, with TRL
    python benchmarks/speed/gpu_grpo.py --model test --episodes 8 --tokens 8 --updates 1 \
        --repeats 1 --out gpu_grpo.json                                     # on a CPU
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed import peers_grpo
from benchmarks.speed.gpu_models import device, dtype, gpu_name, write_model


@dataclass
class Settings:
    """Settings of the benchmark."""

    model: str = "0.5B"
    """Model (test, 0.5B, 1.5B, 7B)."""
    env_id: str = "Countdown-v0"
    """Environment. Its first turn is an episode."""
    episodes: int = 64
    """Episodes per update, a multiple of 8."""
    tokens: int = 256
    """Maximum length of an action in tokens."""
    updates: int = 3
    """Updates after a first one that is not measured."""
    repeats: int = 2
    """Repetitions of both sides."""
    minutes: float = 9.5
    """Time limit, checked before each repetition."""
    out: Path = RESULTS / "gpu_grpo.json"
    """File of the results."""


def run(side: str, settings: peers_grpo.Settings, folder: Path) -> dict[str, Any]:
    """Returns the figures of one side, or its error."""
    path = folder / "settings.json"
    path.write_text(json.dumps(asdict(settings)))
    command = [sys.executable, peers_grpo.__file__, side, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300]}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return found | {"tokens_per_second": sum(found["tokens"]) / sum(found["seconds"])}


def measure(settings: Settings) -> dict[str, Any]:
    """Returns the figures of each repetition and the median ratio, and writes them after each."""
    deadline = time.monotonic() + 60 * settings.minutes
    found: dict[str, Any] = {
        "device": gpu_name(),
        "versions": versions("torch", "transformers", "trl"),
        "settings": settings_of(settings),
        "repetitions": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(settings.model, folder)
        for seed in range(settings.repeats):
            if time.monotonic() > deadline:
                break
            of_sides = peers_grpo.Settings(
                str(folder), settings.env_id, settings.episodes, settings.tokens,
                settings.updates, seed=seed, device=device().type,
            )  # fmt: skip
            pair = {side: run(side, of_sides, folder) for side in ("own", "trl")}
            found["repetitions"].append(pair)
            print(pair, flush=True)
            found["ratio"] = ratio(found["repetitions"])
            write(settings.out, found)
    return found


def ratio(repetitions: list[dict[str, Any]]) -> float | None:
    """Returns the median ratio of tokens per second, None if a side failed in every repetition."""
    speeds = [[side.get("tokens_per_second") for side in pair.values()] for pair in repetitions]
    ratios = [own / trl for own, trl in speeds if own and trl]
    return float(np.median(ratios)) if ratios else None


def main(settings: Settings) -> None:
    """Measures, writes the results and prints the ratio."""
    found = measure(settings).get("ratio")
    print(f"GRPO against TRL, {settings.model} in {dtype()} on {gpu_name()}: {found}")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
