"""Behaviour cloning with models that can read to different degrees, in the showcase environments.

Each model is trained by behaviour cloning on the same demonstrations and evaluated greedily on
held-out tasks. "nano" has 2 blocks of random weights. "reader" has 3, begins with induction heads
and practises copying. "pretrained" has the shape of "reader" and is the folder that
`pretrain_reader.py` writes: none of these environments is in its data.
Two more clones of nano have three times the steps, on the same demonstrations or on more: if they
succeed more often, cloning lacks steps or data, and not the ability to read.

Rule, written down before the first run: pre-trained weights belong in the package if they succeed
more often than nano and reader, with 95 % intervals apart, in three of the environments, and less
often than none of the models that take at most their CPU time.

Finished runs are kept, so the same command continues an interrupted benchmark.

    python benchmarks/learning/pretrain_reader.py --out runs/reader
    python benchmarks/learning/reader.py [--ids TextCraft-v0 ...] [--pretrained runs/reader]
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

PRETRAINED, EPOCHS, DATA = "pretrained", "nano, 15 epochs", "nano, 3x demonstrations"
PLACES = {
    # The recipes are in the first observation alone.
    "TextCraft-v0": ("full", 500),
    "Blocksworld-v0": ("current", 500),
    "TicTacToe-v0": ("current", 500),
    # The pages do not show the selected options. As in `make demo`.
    "WebShop-v0": ("actions", 800),
}
"""The environments: the shortest context that holds what the expert needs, and demonstrations."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = tuple(PLACES)
    """Environments, keys of `PLACES`."""
    models: tuple[str, ...] = ("nano", "reader", PRETRAINED, EPOCHS, DATA)
    """Models."""
    pretrained: Path = Path("runs/reader")
    """Folder of the pre-trained model."""
    epochs: int = 5
    """Epochs over the demonstrations."""
    episodes: int = 200
    """Held-out tasks of the evaluation."""
    seed: int = 0
    """Seed of the models and the demonstrations."""
    out: Path = RESULTS / "reader.json"
    """Results."""


def measure(env_id: str, model: str, settings: Settings) -> dict[str, Any]:
    """Returns the evaluation of a cloned policy, and the CPU seconds until it was trained."""
    begun = time.process_time()
    context, demonstrations = PLACES[env_id]
    with tempfile.TemporaryDirectory() as folder:
        name, epochs = model, settings.epochs
        if model == PRETRAINED:
            name = str(settings.pretrained)
        elif model == EPOCHS:
            name, epochs = "nano", 3 * epochs
        elif model == DATA:
            name, demonstrations = "nano", 3 * demonstrations
        train(
            "poad", env_id=env_id, model=name, context=context, instructions=False,
            constrain=True, bc_demonstrations=demonstrations, bc_epochs=epochs,
            bc_lr=3e-3, bc_batch_tokens=4096, iterations=0, eval_episodes=0, seed=settings.seed,
            threads=1, device="cpu", quiet=True, run_dir=f"{folder}/run",
        )  # fmt: skip
        seconds = time.process_time() - begun
        report = whole(evaluate(env_id, f"policy:{folder}/run", tasks=settings.episodes))
    means = report.aggregate()
    measured = {key: rounded(means[key]) for key in ("reward", "success")}
    return {"cpu_seconds": round(seconds, 1), **measured}


def main(settings: Settings) -> None:
    """Measures the missing runs, prints and writes all."""
    about = settings_of(settings) | {"pretrained": settings.pretrained.name}
    fixed = {k: v for k, v in about.items() if k not in ("ids", "models")}
    known = kept(settings.out, fixed)
    for env_id in settings.ids:
        for model in settings.models:
            found = known.setdefault(env_id, {})
            if model not in found:
                found[model] = measure(env_id, model, settings)
                results = {"versions": versions("torch"), "settings": about}
                write(settings.out, results | {"environments": known})
            print(env_id, model, found[model], flush=True)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
