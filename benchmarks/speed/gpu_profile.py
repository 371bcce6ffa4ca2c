r"""Where the time of a training iteration goes on a GPU, function by function.

Runs recipes on WebShop with a model of a Qwen2.5 configuration under Python's profiler. Kernels are
launched synchronously, so the time of a kernel counts in the function that launched it, and all
times are upper bounds: a normal run overlaps kernels with Python. The first iteration is left out.
Writes the functions of this library by cumulative time, and those of PyTorch by their own time.

    CUDA_LAUNCH_BLOCKING=1 python benchmarks/speed/gpu_profile.py                       # on a GPU
    python benchmarks/speed/gpu_profile.py --model test --episodes 4 --out profile.json  # on a CPU
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from agentgym.trainers import Callback, train
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.run.logger import read_metrics
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.gpu_models import device, dtype, gpu_name, write_model


@dataclass
class Settings:
    """Settings of the benchmark."""

    model: str = "0.5B"
    """Model (test, 0.5B, 1.5B, 7B)."""
    recipes: tuple[str, ...] = ("poad", "grpo", "gigpo")
    """Recipes."""
    env_id: str = "WebShop-v0"
    """Environment."""
    episodes: int = 32
    """Episodes per iteration."""
    functions: int = 40
    """Functions to write, of each kind."""
    out: Path = RESULTS / "gpu_profile.json"
    """File of the results."""


class Profiled(Callback):
    """Profiles all iterations but the first.

    Args:
        profile: the profiler.
    """

    def __init__(self, profile: cProfile.Profile) -> None:
        self.profile, self.begun = profile, 0

    def on_iteration_start(self, trainer: Run) -> None:
        """Starts the profiler at the second iteration."""
        self.begun += 1
        if self.begun == 2:
            self.profile.enable()


def profiled(folder: str, recipe: str, settings: Settings) -> dict[str, Any]:
    """Returns the profile of an iteration of a recipe, and its phases without the profiler."""
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as run:
        train(
            recipe,
            env_id=settings.env_id,
            model=folder,
            lora_rank=32,
            dtype=dtype(),
            device=device().type,
            constrain=True,
            context="window",
            iterations=2,
            episodes_per_iteration=settings.episodes,
            eval_episodes=0,
            save_every=2,
            quiet=True,
            run_dir=run,
            callbacks=[Profiled(profile)],
        )
        profile.disable()
        rows = read_metrics(Path(run))
    phases = {k: v for k, v in rows[-1].items() if k.startswith("time/")}
    return {"recipe": recipe, "phases": phases, **functions(profile, settings.functions)}


def functions(profile: cProfile.Profile, most: int) -> dict[str, list[list[Any]]]:
    """Returns rows of name, calls, own and cumulative seconds."""
    own, others = [], []
    for (file, line, name), (_, calls, own_s, total_s, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        where = file.rpartition("trainers/")[2] if "trainers/" in file else Path(file).name
        row = [f"{where}:{line}:{name}", calls, round(own_s, 3), round(total_s, 3)]
        (own if "trainers/" in file else others).append(row)
    return {
        "library": sorted(own, key=lambda row: -row[3])[:most],
        "others": sorted(others, key=lambda row: -row[2])[:most],
    }


def main(settings: Settings) -> None:
    """Profiles the recipes, and prints and writes the results."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        write_model(settings.model, Path(folder))
        for recipe in settings.recipes:
            found.append(profiled(folder, recipe, settings))
            print(recipe, found[-1]["phases"], flush=True)
            about = {
                "device": gpu_name(),
                "versions": versions("torch", "transformers", "peft"),
                "settings": settings_of(settings),
            }
            write(settings.out, {**about, "recipes": found})
    for result in found:
        print(result["recipe"])
        for row in result["library"]:
            print("  {:70} {:>8} {:>8.2f} {:>8.2f}".format(*row))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
