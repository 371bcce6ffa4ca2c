r"""Where the time of a training iteration goes, phase by phase, on one GPU or a CPU.

Runs recipes on WebShop with models of the Qwen2.5 configurations with random weights. The device is
waited for at the begin and at the end of each phase, so its time counts in the phase that asked for
it. A phase inside another one counts only itself. The first iteration is left out.

- play: episodes, all generation included.
- values, reference: passes before the update without gradients, of policy and critic, and of the
  reference.
- credit: rewards and advantages.
- collate: padded tensors and their transfer.
- forward, backward, optimiser: the update.
- rest: shuffles, metrics, transcripts and all other Python.

MFU is the share of the device's peak arithmetic that the model needs in the forward and backward
passes of the update, whatever was computed again, padded or shared.

    python benchmarks/speed/updates.py                                              # on a GPU
    python benchmarks/speed/updates.py --models test --episodes 4 --out updates.json  # on a CPU
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import tyro
from accelerate import Accelerator
from rich.console import Console
from rich.table import Table

from agentgym.trainers import Callback
from agentgym.trainers.api import make_trainer
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.run import iteration
from agentgym.trainers.run.iteration import Iteration
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.updater import Updater
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.gpu import PEAK, apart, operations, readable, write_folder
from benchmarks.speed.gpu_models import device, dtype, gpu_name

PHASES: dict[str, tuple[tuple[Any, str], ...]] = {
    "rest": ((Iteration, "run"),),
    "play": ((Iteration, "_play"),),
    "values": ((Updater, "evaluate_actions"),),
    "reference": ((Policy, "reference_logprobs"),),
    "credit": ((Iteration, "_assign_credit"),),
    "collate": ((Updater, "_collate"),),
    "forward": ((Learner, "forward"),),
    "backward": ((Accelerator, "backward"),),
    "optimiser": ((Updater, "_step"),),
    "alternatives": ((iteration, "find_alternatives"),),
}
"""The functions of each phase."""
INSIDE = {("values", "forward")}
"""Phases that count in the one around them."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    models: tuple[str, ...] = ("0.5B", "1.5B")
    """Models to measure (test, 0.5B, 1.5B, 7B)."""
    recipes: tuple[str, ...] = ("poad", "grpo", "gigpo")
    """Recipes."""
    env_id: str = "WebShop-v0"
    """Environment."""
    episodes: int = 32
    """Episodes per iteration."""
    iterations: int = 3
    """Iterations. The first one is not counted."""
    lora_rank: int = 32
    """Rank of the LoRA adapter."""
    minutes: float = 9.5
    """Time limit, checked before each model and recipe."""
    out: Path = RESULTS / "updates.json"
    """File of the results."""


@dataclass
class Clock:
    """The seconds of phases, of each without those inside it.

    Attributes:
        now: returns the time in seconds, when the device has finished.
        seconds: the seconds of each phase.
        tokens: tokens of the rows of the update, without and with padding, and its action tokens.
    """

    now: Callable[[], float]
    seconds: defaultdict[str, float] = field(default_factory=partial(defaultdict, float))
    tokens: Counter[str] = field(default_factory=Counter)
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    def _turn(self) -> None:
        """Gives the time since the last turn to the open phase."""
        now = self.now()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function whose time counts in a phase."""

        @wraps(function)
        def work(*args: Any, **kwargs: Any) -> Any:
            if self._open and (self._open[-1], phase) in INSIDE:
                return function(*args, **kwargs)
            self._turn()
            self._open.append(phase)
            try:
                result = function(*args, **kwargs)
            finally:
                self._turn()
                self._open.pop()
            if phase == "collate" and "values" not in self._open:
                self._count(result[0])
            return result

        return work

    def _count(self, collated: Any) -> None:
        self.tokens["rows"] += int(collated.attention_mask.sum())
        self.tokens["padded"] += collated.tokens.numel()
        self.tokens["actions"] += len(collated.target)
        self.tokens["sequences"] += len(collated.tokens)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Times the functions of all phases."""
        with ExitStack() as stack:
            for phase, functions in PHASES.items():
                for owner, name in functions:
                    timed = self.timed(phase, getattr(owner, name))
                    stack.enter_context(patch.object(owner, name, timed))
            yield


def finished() -> float:
    """Returns the time in seconds, when the device has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Later(Callback):
    """Forgets what a clock counted in the first iteration."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def on_iteration_start(self, trainer: Run) -> None:
        """Forgets the first iteration before the second one."""
        if trainer.state.iteration == 1:
            self.clock.seconds.clear()
            self.clock.tokens.clear()


def phases(folder: Path, recipe: str, settings: Settings) -> dict[str, Any]:
    """Returns the mean seconds of the phases of an iteration after the first, and the MFU."""
    clock = Clock(finished)
    with tempfile.TemporaryDirectory() as run, clock.running():
        trainer = make_trainer(
            recipe, env_id=settings.env_id, model=str(folder), lora_rank=settings.lora_rank,
            dtype=dtype(), device=device().type, constrain=True, context="window",
            iterations=settings.iterations, episodes_per_iteration=settings.episodes,
            eval_episodes=0, save_every=settings.iterations, quiet=True, run_dir=run,
            callbacks=[Later(clock)],
        )  # fmt: skip
        trainer.run()
    counted = settings.iterations - 1
    seconds = {phase: clock.seconds[phase] / counted for phase in PHASES}
    seconds["iteration"] = sum(seconds.values())
    return {**seconds, **arithmetic(trainer.policy.model, clock)}


def arithmetic(model: Any, clock: Clock) -> dict[str, Any]:
    """Returns the tokens per second of forward and backward passes, and their share of the peak.

    Args:
        model: the model with its adapter.
        clock: the clock of the iterations that count.
    """
    tokens = clock.tokens
    took = clock.seconds["forward"] + clock.seconds["backward"]
    if not took:
        return {"tokens_per_second": None, "mfu": None, "padding": None}
    rate = tokens["rows"] / took
    needed = operations(
        model, tokens["rows"] // tokens["sequences"], tokens["actions"] / tokens["rows"]
    )
    peak = next((each for name, each in PEAK.items() if name in gpu_name()), None)
    return {
        "tokens_per_second": rate,
        "mfu": None if peak is None else needed * rate / peak,
        "padding": 1 - tokens["rows"] / tokens["padded"],
    }


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Returns a row per model and recipe, each in a process of its own, and writes them."""
    deadline = time.monotonic() + 60 * settings.minutes
    about = {
        "device": gpu_name(),
        "versions": versions("torch", "transformers", "peft"),
        "settings": settings_of(settings),
    }
    rows: list[dict[str, Any]] = []
    for model in settings.models:
        with tempfile.TemporaryDirectory() as folder:
            apart(write_folder, model, Path(folder))
            for recipe in settings.recipes:
                found: dict[str, Any] = {"error": "the time limit"}
                if time.monotonic() < deadline:
                    found = apart(phases, Path(folder), recipe, settings)
                rows.append({"model": model, "recipe": recipe, **found})
                print(rows[-1], flush=True)
                write(settings.out, {**about, "rows": rows})
    return rows


def main(settings: Settings) -> None:
    """Measures, writes the results and prints a table."""
    rows = measure(settings)
    table = Table(title=f"Seconds per iteration, {gpu_name()}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(readable(row.get(name)) for name in names))
    Console(width=200).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
