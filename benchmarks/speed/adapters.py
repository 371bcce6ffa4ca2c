r"""What LoRA adapters cost, by the layers that have them and by their data type.

A model of SmolLM2-135M's shape in bfloat16, with fewer layers and random weights, generates actions
and computes gradients. Adapters of the model's data type are the default, those in float32 are what
`peft` makes by itself. Times alternate. On a CPU, they are CPU time on one thread. Prints a table
and writes JSON.

    python benchmarks/speed/adapters.py
    python benchmarks/speed/adapters.py --device cuda --layers 30 --out adapters_gpu.json
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed import packing
from benchmarks.speed.memory import TARGETS

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        device: device of the model.
        layers: number of its layers.
        hidden: hidden size, a multiple of 64.
        rank: rank of the adapters.
        tokens: tokens of an action.
        scale: factor of the lengths of the rows of an update.
        repeats: timed repetitions.
        seed: seed of weights and tokens.
        out: file of the results.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    layers: int = 6
    hidden: int = 576
    rank: int = 16
    tokens: int = 16
    scale: float = 2.0
    repeats: int = 5
    seed: int = 0
    out: Path = RESULTS / "adapters.json"


def make_policies(settings: Settings) -> dict[tuple[str, str], Policy]:
    """Returns policies with adapters, by the adapted layers and the adapters' data type."""
    shape = packing.Settings(
        device=settings.device, layers=settings.layers, hidden=settings.hidden, seed=settings.seed
    )
    policies = {}
    for (layers, targets), (name, dtype) in itertools.product(TARGETS.items(), TYPES.items()):
        plain = packing.make_policy(shape, "bfloat16")
        lora = LoraSettings(settings.rank, targets=targets)
        policy = Policy(add_adapter(plain.model, lora, settings.seed), plain.tokenizer)
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(dtype)
        policies[layers, name] = policy
    return policies


def clock(device: str) -> float:
    """Returns the time in seconds when the device has finished, on a CPU that of the process."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def generate(policy: Policy, prompts: list[np.ndarray], tokens: int) -> None:
    """Generates an action for each prompt."""
    requests = [
        Request(p.astype(np.int32), np.random.default_rng(i)) for i, p in enumerate(prompts)
    ]
    policy.act(requests, Sampling(max_new_tokens=tokens))


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Returns median seconds of generation and of an update, for each kind of adapter."""
    policies = make_policies(settings)
    pairs = packing.groups(np.random.default_rng(settings.seed), settings.scale)
    rows, prompts = packing.rows_of(pairs, settings.device), [prompt for prompt, _ in pairs]
    times: dict[tuple[str, str], list[list[float]]] = {kind: [] for kind in policies}
    for _ in range(settings.repeats + 1):  # the first one warms up
        for kind, policy in policies.items():
            begun = clock(settings.device)
            generate(policy, prompts, settings.tokens)
            between = clock(settings.device)
            packing.learned(policy, rows)
            times[kind].append([between - begun, clock(settings.device) - between])
    medians = {kind: np.median(each[1:], axis=0).tolist() for kind, each in times.items()}
    return [
        {"layers": layers, "dtype": dtype, "generate": generation, "update": update}
        for (layers, dtype), (generation, update) in medians.items()
    ]


def main(settings: Settings) -> None:
    """Measures, writes the results and prints a table."""
    if settings.device == "cpu":
        torch.set_num_threads(1)
    rows = measure(settings)
    about = {
        "settings": settings_of(settings),
        "versions": versions("torch", "transformers", "peft"),
    }
    write(settings.out, {**about, "rows": rows})
    table = Table(title="Seconds, by adapter")
    for name in ("layers", "adapter in", "generation", "update"):
        table.add_column(name)
    for row in rows:
        seconds = (f"{row[part]:.2f}" for part in ("generate", "update"))
        table.add_row(row["layers"], row["dtype"], *seconds)
    Console(width=120).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
