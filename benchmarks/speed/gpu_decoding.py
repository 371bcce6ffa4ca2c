r"""Decoding on one GPU, apart from prefill, beside the bound of its memory.

Models of the Qwen2.5 configurations with random weights generate from random prompts: with this
library, whose decode steps are CUDA graphs ("graph") or run token by token ("own"), with `generate`
of transformers, and with its continuous batching. The time of one new token is that of the prefill.
The rest is decoding.

A decode step must read all weights, and the keys and values of every row, once. At the speed of a
large copy within the GPU's memory, that gives the most tokens/s that any implementation reaches
without speculation: the bound.

    python benchmarks/speed/gpu_decoding.py                                   # on a GPU
    python benchmarks/speed/gpu_decoding.py --models test --rows 2 --prompt 8 --new-tokens 4 \
        --out decoding.json                                             # on a CPU
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.gpu import apart, readable
from benchmarks.speed.gpu_models import device, dtype, gpu_name, new_model


@dataclass
class Settings:
    """Settings of the benchmark."""

    models: tuple[str, ...] = ("0.5B", "1.5B", "7B")
    """Models to measure (test, 0.5B, 1.5B, 7B)."""
    rows: tuple[int, ...] = (64, 256)
    """Prompts generated at the same time."""
    prompt: int = 512
    """Length of these prompts in tokens."""
    new_tokens: int = 128
    """Tokens generated per prompt."""
    engines: tuple[str, ...] = ("graph", "own", "generate", "continuous")
    """Implementations to measure."""
    minutes: float = 10.0
    """Time limit, checked before each model and engine."""
    out: Path = RESULTS / "gpu_decoding.json"
    """File of the results."""


Generate = Callable[[np.ndarray, int], int]
"""(prompts [rows, tokens], new tokens per prompt) -> number of generated tokens."""


def own(model: Any, tokenizer: Any, graphs: bool = False) -> Generate:
    """Returns generation with this library."""
    from agentgym.trainers.policy.engine import OwnEngine
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.sampling import Request, Sampling

    policy = Policy(model, tokenizer)
    policy.use(OwnEngine(policy, graphs=graphs))

    def work(prompts: np.ndarray, new: int) -> int:
        requests = [Request(p, np.random.default_rng(i)) for i, p in enumerate(prompts)]
        samples = policy.act(requests, Sampling(max_new_tokens=new))
        return sum(len(sample.tokens) for sample in samples)

    return work


def generate(model: Any, tokenizer: Any) -> Generate:
    """Returns generation with `generate` of transformers."""
    model.eval()

    @torch.no_grad()
    def work(prompts: np.ndarray, new: int) -> int:
        tokens = torch.from_numpy(prompts).to(model.device)
        found = model.generate(
            tokens, max_new_tokens=new, min_new_tokens=new, do_sample=True, top_k=0,
            attention_mask=torch.ones_like(tokens),
        )  # fmt: skip
        return found[:, tokens.shape[1] :].numel()

    return work


def continuous(model: Any, tokenizer: Any) -> Generate:
    """Returns generation with the continuous batching of transformers."""
    from transformers import GenerationConfig

    model.eval()

    @torch.no_grad()
    def work(prompts: np.ndarray, new: int) -> int:
        config = GenerationConfig(
            max_new_tokens=new, do_sample=True, top_k=0, eos_token_id=-1,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        found = model.generate_batch(prompts.tolist(), generation_config=config)
        return sum(len(output.generated_tokens) for output in found.values())

    return work


ENGINES = {
    "graph": partial(own, graphs=True),
    "own": own,
    "generate": generate,
    "continuous": continuous,
}


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the time of a call and its result, when the GPU has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun, result


def bandwidth() -> float:
    """Returns the bytes per second that a large copy reads and writes."""
    size = 2**32 if torch.cuda.is_available() else 2**26
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device())
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * size / min(seconds(lambda: target.copy_(source))[0] for _ in range(5))


def step_bytes(model: Any, rows: int, length: float) -> float:
    """Returns the bytes that a decode step reads: the weights, and the keys and values.

    Args:
        model: the model. Its embeddings are looked up, unless they are also the output head.
        rows: rows of the step.
        length: mean number of tokens of a row.
    """
    config, embeddings = model.config, model.get_input_embeddings().weight
    weights = sum(p.numel() for p in model.parameters())
    if model.get_output_embeddings().weight is not embeddings:
        weights -= embeddings.numel()
    heads = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * heads * length * rows
    return (weights + cache) * embeddings.element_size()


def measure_engine(name: str, engine: str, settings: Settings) -> dict[str, Any]:
    """Returns the bandwidth and a measurement per number of prompts of a model and an engine."""
    if engine == "continuous" and device().type == "cpu":
        return {"error": "it needs a GPU: its cache takes most of the memory of the device"}
    rng, speed = np.random.default_rng(0), bandwidth()
    model, tokenizer = new_model(name)
    # The end-of-sequence token would end some rows by chance, and each engine at other steps.
    model.get_output_embeddings().weight.data[tokenizer.eos_token_id] = 0
    work, found = ENGINES[engine](model, tokenizer), []
    for rows in settings.rows:
        prompts = rng.integers(10, 500, (rows, settings.prompt)).astype(np.int32)
        bound = rows * speed / step_bytes(model, rows, settings.prompt + settings.new_tokens / 2)
        work(prompts, settings.new_tokens if engine == "graph" else 2)  # graphs are captured once
        found.append({"rows": rows, **timed(work, prompts, settings.new_tokens, bound)})
    return {"bandwidth": speed, "found": found}


def timed(work: Generate, prompts: np.ndarray, new: int, bound: float) -> dict[str, Any]:
    """Returns the times of prefill and decoding."""
    prefill, _ = seconds(lambda: work(prompts, 1))
    whole, tokens = seconds(lambda: work(prompts, new))
    speed = (tokens - len(prompts)) / (whole - prefill)
    return {
        "prefill_seconds": prefill,
        "tokens": tokens,
        "tokens_per_second": tokens / whole,
        "decode_tokens_per_second": speed,
        "bound": bound,
        "share_of_bound": speed / bound,
    }


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Returns the rows of all models and engines, each in a process of its own, and writes them."""
    deadline = time.monotonic() + 60 * settings.minutes
    about = {
        "device": gpu_name(),
        "versions": versions("torch", "transformers"),
        "settings": settings_of(settings),
        "dtype": dtype(),
    }
    speeds: list[float] = []
    rows: list[dict[str, Any]] = []
    for name, engine in itertools.product(settings.models, settings.engines):
        if time.monotonic() > deadline:
            found: dict[str, Any] = {"error": "the time limit"}
        else:
            found = apart(measure_engine, name, engine, settings)
        speeds += [found["bandwidth"]] if "bandwidth" in found else []
        rows += [{"model": name, "engine": engine, **row} for row in found.get("found", [found])]
        print(rows[-1], flush=True)
        write(settings.out, {**about, "bandwidth": max(speeds, default=None), "rows": rows})
    return rows


def main(settings: Settings) -> None:
    """Measures, writes the results and prints a table."""
    names = (
        "model", "engine", "rows", "prefill_seconds", "tokens_per_second",
        "decode_tokens_per_second", "bound", "share_of_bound", "error",
    )  # fmt: skip
    table = Table(title=f"Decoding, {gpu_name()}")
    for name in names:
        table.add_column(name)
    for row in measure(settings):
        table.add_row(*(readable(row.get(name)) for name in names))
    Console(width=160).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
