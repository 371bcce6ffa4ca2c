"""Behaviour cloning with a new decoder that can copy ("reader"), and with one that cannot.

Each model is trained by behaviour cloning on few demonstrations of WebShop and evaluated greedily
on held-out goals. "nano" has 2 blocks and "reader" has 3. "reader without practice" has those 3
blocks and begins without induction heads and practice, so that the difference is theirs. Finished
runs are kept, so the same command continues an interrupted benchmark.

    python benchmarks/reader.py [--demonstrations 800 1600] [--seeds 3]
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro
from result_files import settings_of, versions, write

from agentgym.trainers import train
from agentgym.trainers.policy.tiny import SIZES, tiny_policy

WITHOUT = "reader without practice"


@dataclass
class Settings:
    """Settings of the benchmark."""

    env_id: str = "WebShop-v0"
    """Environment."""
    models: tuple[str, ...] = ("nano", WITHOUT, "reader")
    """Models."""
    demonstrations: tuple[int, ...] = (800, 1600)
    """Numbers of demonstrations."""
    epochs: int = 5
    """Epochs over the demonstrations."""
    episodes: int = 500
    """Held-out tasks of the evaluation."""
    seeds: int = 1
    """Random seeds 0, 1, ..."""
    out: Path = Path(__file__).parent / "results" / "reader.json"
    """Results."""


def measure(model: str, demonstrations: int, seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the evaluation of a cloned policy, and the seconds that its training took."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        name = model
        if model == WITHOUT:
            name = f"{folder}/model"
            size = replace(SIZES["reader"], practice=0)
            tiny_policy(settings.env_id, seed=seed, size=size, folder=name)
        (report,) = train(
            "poad", env_id=settings.env_id, model=name, context="actions", instructions=False,
            constrain=True, bc_demonstrations=demonstrations, bc_epochs=settings.epochs,
            bc_lr=3e-3, bc_batch_tokens=4096, iterations=0, eval_episodes=settings.episodes,
            seed=seed, threads=1, device="cpu", quiet=True, run_dir=f"{folder}/run",
        )  # fmt: skip
    means = report.aggregate()
    kept = {key: round(means[key].mean, 4) for key in ("reward", "success")}
    return {"seconds": round(time.perf_counter() - begun, 1), **kept}


def main(settings: Settings) -> None:
    """Measures the missing runs, prints and writes all."""
    known: dict[str, Any] = {}
    if settings.out.exists():
        known = json.loads(settings.out.read_text(encoding="utf-8"))["runs"]
    for seed in range(settings.seeds):
        for demonstrations in settings.demonstrations:
            for model in settings.models:
                key = f"{model}, {demonstrations} demonstrations, seed {seed}"
                if key not in known:
                    known[key] = measure(model, demonstrations, seed, settings)
                    results = {"versions": versions("torch"), "settings": settings_of(settings)}
                    write(settings.out, results | {"runs": known})
                print(key, known[key], flush=True)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
