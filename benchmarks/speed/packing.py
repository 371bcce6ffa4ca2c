r"""Forward and backward passes over packed rows against passes over whole rows.

A model of SmolLM2-135M's shape, with fewer layers and random weights, computes the log-probs of
action tokens and the gradients of all weights. Packed rows compute common prefixes once and no
padding. Times of both alternate. On a CPU, they are those of one thread. Prints a table and writes
JSON.

    python benchmarks/speed/packing.py                    # on a CPU
    python benchmarks/speed/packing.py --device cuda --layers 30 --repeats 20 --out packing_gpu.json
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from agentgym.trainers.policy.forward import read, score_places
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import played_texts, tiny_tokenizer
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.updates import finished

Rows = tuple[Tensor, Tensor, Tensor]
"""Token ids [B, S], and rows and columns of the places that predict action tokens."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        device: device of the model.
        layers: number of its layers.
        hidden: hidden size, a multiple of 64.
        dtypes: data types of its weights.
        scale: factor of all lengths.
        repeats: timed repetitions.
        seed: seed of weights and tokens.
        out: file of the results.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    layers: int = 6
    hidden: int = 576
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    scale: float = 1.0
    repeats: int = 5
    seed: int = 0
    out: Path = RESULTS / "packing.json"


def make_policy(settings: Settings, dtype: str) -> Policy:
    """Returns a policy with random weights."""
    tokenizer = tiny_tokenizer(played_texts("NumberLine-v0", seed=0, episodes=2), 512)
    config = LlamaConfig(
        hidden_size=settings.hidden,
        intermediate_size=settings.hidden * 8 // 3,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.hidden // 64,
        num_key_value_heads=max(1, settings.hidden // 192),
        vocab_size=4096,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        )
    return Policy(model.to(settings.device), tokenizer)


def drawn(rng: np.random.Generator, least: float, most: float) -> np.ndarray:
    """Returns random tokens, whose number is drawn."""
    return rng.integers(10, 4000, rng.integers(int(least), int(most) + 1))


def groups(rng: np.random.Generator, scale: float) -> list[list[np.ndarray]]:
    """Returns prompts and answers: four tasks with one prompt each, answered by groups of 8."""
    prompts = [drawn(rng, 200 * scale, 300 * scale) for _ in range(4)]
    return [[prompt, drawn(rng, 8 * scale, 40 * scale)] for prompt in prompts for _ in range(8)]


def turns(rng: np.random.Generator, scale: float) -> list[list[np.ndarray]]:
    """Returns turns as rows: eight episodes of four turns, each with all turns before it."""
    rows = []
    for _ in range(8):
        prompt = drawn(rng, 80 * scale, 120 * scale)
        for _ in range(4):
            answer = drawn(rng, 8 * scale, 16 * scale)
            rows.append([prompt, answer])
            prompt = np.concatenate([prompt, answer, drawn(rng, 20 * scale, 60 * scale)])
    return rows


def lengths(rng: np.random.Generator, scale: float) -> list[list[np.ndarray]]:
    """Returns prompts and answers of many lengths, with nothing in common."""
    sizes = rng.integers(int(40 * scale), int(320 * scale), 32)
    return [[drawn(rng, size, size), drawn(rng, 8 * scale, 40 * scale)] for size in sizes]


def alike(rng: np.random.Generator, scale: float) -> list[list[np.ndarray]]:
    """Returns prompts and answers of one length, with nothing in common."""
    sizes = 160 * scale, 24 * scale
    return [[drawn(rng, size, size) for size in sizes] for _ in range(32)]


CASES: dict[str, Callable[[np.random.Generator, float], list[list[np.ndarray]]]] = {
    "groups of 8 with one prompt": groups,
    "turns with all turns before": turns,
    "many lengths, nothing in common": lengths,
    "one length, nothing in common": alike,
}


def rows_of(pairs: list[list[np.ndarray]], device: str) -> Rows:
    """Returns the rows of prompts and answers, padded on the right."""
    starts, counts = ([len(part) for part in parts] for parts in zip(*pairs, strict=True))
    tokens = np.zeros((len(pairs), max(map(sum, zip(starts, counts, strict=True)))), np.int64)
    for row, pair in zip(tokens, pairs, strict=True):
        row[: sum(map(len, pair))] = np.concatenate(pair)
    row = np.repeat(np.arange(len(pairs)), counts)
    places = [start - 1 + np.arange(n) for start, n in zip(starts, counts, strict=True)]
    row, column = (torch.from_numpy(each).to(device) for each in (row, np.concatenate(places)))
    return torch.from_numpy(tokens).to(device), row, column


def learned(policy: Policy, rows: Rows) -> list[Tensor]:
    """Returns log-probs and the gradients of a weighted sum of them."""
    tokens, row, column = rows
    policy.zero_grad()
    outputs, _ = read(policy, row, column, input_ids=tokens)
    logprobs, _ = score_places(policy, outputs, tokens[row, column + 1])
    (logprobs * torch.linspace(-1, 1, len(logprobs), device=logprobs.device)).sum().backward()
    return [logprobs.detach(), *(p.grad for p in policy.parameters() if p.grad is not None)]


def measure(policy: Policy, rows: Rows, repeats: int) -> dict[str, Any]:
    """Returns tokens and median seconds of both kinds of passes, and how far they differ."""
    fed: list[int] = []
    handle = policy.model.register_forward_pre_hook(
        lambda module, args, inputs: fed.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    times: dict[bool, list[float]] = {True: [], False: []}
    found = {}
    for _ in range(repeats + 1):  # the first one warms up
        for policy.packs in times:
            begun = finished()
            found[policy.packs] = learned(policy, rows)
            times[policy.packs].append(finished() - begun)
    handle.remove()
    packed, whole = (float(np.median(times[packs][1:])) for packs in (True, False))
    differences = [
        float((one - other).norm() / other.norm())
        for one, other in zip(found[True], found[False], strict=True)
    ]
    return {
        "tokens": {"packed": fed[0], "whole": fed[1]},
        "seconds": {"packed": packed, "whole": whole},
        "faster": whole / packed,
        "difference": max(differences),
    }


def main(settings: Settings) -> None:
    """Measures, writes the results and prints a table."""
    if settings.device == "cpu":
        torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for dtype in settings.dtypes:
        policy = make_policy(settings, dtype)
        for case, pairs in CASES.items():
            rng = np.random.default_rng(settings.seed)
            some = rows_of(pairs(rng, settings.scale), settings.device)
            rows.append({"case": case, "dtype": dtype, **measure(policy, some, settings.repeats)})
    about = {"settings": settings_of(settings), "versions": versions("torch", "transformers")}
    write(settings.out, {**about, "rows": rows})
    table = Table(title="Forward and backward passes")
    for name in ("rows", "weights", "tokens", "packed", "x faster", "difference"):
        table.add_column(name)
    for row in rows:
        tokens = row["tokens"]
        numbers = f"{tokens['whole']:,}", f"{tokens['packed']:,}", f"{row['faster']:.2f}"
        table.add_row(row["case"], row["dtype"], *numbers, f"{row['difference']:.1e}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
