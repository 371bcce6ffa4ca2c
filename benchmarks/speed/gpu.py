r"""Generation, training and memory with real architectures on one GPU, in minutes.

Models of the Qwen2.5 configurations with 0.5, 1.5 and 7 billion parameters get random weights, so
nothing is downloaded. The tokenizer is trained on the text of WebShop, and the vocabulary keeps its
real size. Measured are:

- generation: tokens/s of this library, of `generate` of transformers and of vLLM, if installed;
- training: tokens/s of a LoRA update on rows of one length, the share of the GPU's peak arithmetic
  that the model needs (MFU), peak memory;
- runs: seconds per iteration of POAD and GRPO on WebShop and TextCraft.

Each part runs in a process of its own, so a part that runs out of memory is reported and the others
go on. Prints tables, and writes JSON after each part.

    python benchmarks/speed/gpu.py                                     # on a GPU
    python benchmarks/speed/gpu.py --models test --lengths 64 128 --tokens 128 --rows 2 \
        --new-tokens 8 --environments TextCraft-v0 --episodes 8 --iterations 2 \
        --out gpu.json                                           # on a CPU
"""

from __future__ import annotations

import gc
import importlib.util
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.gpu_models import device, dtype, gpu_name, write_model

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40": 181e12, "4090": 165e12}
"""Dense bfloat16 operations per second of GPUs, from their data sheets."""

SHARE = 0.25
"""Share of the tokens of a training step that are actions."""
TURNS = 4
"""Turns of its episodes."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    models: tuple[str, ...] = ("0.5B", "1.5B", "7B")
    """Models to measure (test, 0.5B, 1.5B, 7B)."""
    lengths: tuple[int, ...] = (2048, 8192, 32_768)
    """Context lengths of the training steps, in tokens."""
    tokens: int = 32_768
    """Tokens of a training step: rows of a length, at least one."""
    rows: int = 64
    """Prompts generated at the same time."""
    prompt: int = 512
    """Length of these prompts in tokens."""
    new_tokens: int = 128
    """Tokens generated per prompt."""
    lora_rank: int = 32
    """Rank of the LoRA adapter in training."""
    environments: tuple[str, ...] = ("WebShop-v0", "TextCraft-v0")
    """Environments of the runs."""
    recipes: tuple[str, ...] = ("poad", "grpo")
    """Recipes of the runs."""
    iterations: int = 3
    """Iterations per run. The first one is not counted."""
    episodes: int = 64
    """Episodes per iteration."""
    out: Path = RESULTS / "gpu.json"
    """File of the results."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the time that a function takes, after one call to warm up, and its result."""
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun, result


# Generation.


def generation(folder: Path, engine: str, settings: Settings) -> dict[str, Any]:
    """Returns the tokens per second that an engine generates from random prompts."""
    rng = np.random.default_rng(0)
    prompts = rng.integers(10, 500, (settings.rows, settings.prompt))
    measure = {"own": _own, "generate": _generate, "vllm": _vllm}[engine]
    took, tokens = seconds(measure(folder, prompts, settings))
    return {"engine": engine, "tokens": tokens, "tokens_per_second": tokens / took}


def _own(folder: Path, prompts: np.ndarray, settings: Settings) -> Callable[[], int]:
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.sampling import Request, Sampling

    policy = Policy.load(folder, dtype=dtype(), device=device())
    sampling = Sampling(max_new_tokens=settings.new_tokens)

    def work() -> int:
        requests = [
            Request(prompt.astype(np.int32), np.random.default_rng(i))
            for i, prompt in enumerate(prompts)
        ]
        return sum(len(sample.tokens) for sample in policy.act(requests, sampling))

    return work


def _generate(folder: Path, prompts: np.ndarray, settings: Settings) -> Callable[[], int]:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype()))
    model = model.to(device()).eval()
    tokens = torch.from_numpy(prompts).to(device())
    new, pad = settings.new_tokens, model.config.pad_token_id

    @torch.no_grad()
    def work() -> int:
        found = model.generate(
            tokens, max_new_tokens=new, do_sample=True, top_k=0, attention_mask=tokens > -1
        )
        return int((found[:, tokens.shape[1] :] != pad).sum())

    return work


def _vllm(folder: Path, prompts: np.ndarray, settings: Settings) -> Callable[[], int]:
    import vllm  # type: ignore[import-not-found]

    options: dict[str, Any] = {"max_model_len": settings.prompt + settings.new_tokens}
    if device().type == "cpu":
        options |= {"enforce_eager": True, "kv_cache_memory_bytes": 1 << 28}
    model = vllm.LLM(str(folder), dtype=dtype(), logprobs_mode="processed_logprobs", **options)
    sampling = vllm.SamplingParams(temperature=1.0, max_tokens=settings.new_tokens, logprobs=0)
    requests = [{"prompt_token_ids": prompt.tolist()} for prompt in prompts]

    def work() -> int:
        found = model.generate(requests, sampling, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in found)

    return work


# Training.


def training(folder: Path, length: int, settings: Settings) -> dict[str, Any]:
    """Returns speed and peak memory of a LoRA update on rows of `length` tokens."""
    from accelerate import Accelerator

    from agentgym.trainers.data.batch import Credit
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.recipes import load
    from agentgym.trainers.run.setup import build_updater

    config = load("grpo").Config.of(
        model=str(folder),
        lora_rank=settings.lora_rank,
        dtype=dtype(),
        epochs=1,
        minibatches=1,
        max_kl=1e9,
    )
    policy = Policy.load(folder, lora=config.lora(), dtype=dtype(), device=device())
    updater = build_updater(Accelerator(cpu=device().type == "cpu"), config, policy, None, None)
    batch = episodes(max(1, settings.tokens // length), length)
    credit = Credit(np.ones(batch.num_tokens, np.float32), None)

    def work() -> None:
        updater.update(batch, credit, None, 0)

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    took, _ = seconds(work)
    rows = len(batch.trajectories)
    rate = rows * length / took
    peak = next((v for k, v in PEAK.items() if k in gpu_name()), None)
    most = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {
        "length": length,
        "rows": rows,
        "tokens_per_second": rate,
        "mfu": None if peak is None else operations(policy.model, length) * rate / peak,
        "peak_gib": most,
    }


def operations(model: Any, length: int, share: float = SHARE) -> float:
    """Returns the operations per token that a LoRA update needs, without recomputation.

    The forward pass and the gradients of the activations need two each per frozen weight. The
    output head is computed at the action tokens only, and embeddings are looked up. Causal
    attention reads half of the row on average, with two products, and two for the gradient of each.

    Args:
        model: the model with its adapter.
        length: tokens per row.
        share: share of the tokens that are actions.
    """
    config = model.config
    embeddings, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    frozen = [p for p in model.parameters() if not p.requires_grad]
    inside = sum(p.numel() for p in frozen if p is not embeddings and p is not head)
    attention = 6 * config.num_hidden_layers * config.hidden_size * length
    return 4 * (inside + share * head.numel()) + attention


def episodes(count: int, length: int) -> Any:
    """Returns a batch of trajectories of `length` tokens, of which `SHARE` are actions."""
    from agentgym.trainers.data.batch import Batch
    from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn

    rng = np.random.default_rng(0)
    size = int(length * SHARE) // TURNS
    stops = [length * (turn + 1) // TURNS for turn in range(TURNS)]
    turns = [
        Turn(
            segment=0,
            start=stop - size,
            stop=stop,
            logprobs=np.full(size, -11.0, np.float32),
            support=None,
            observation="",
            action="",
            reward=0.0,
            reward_terms={},
            valid=True,
            progress=0.0,
            state_key="",
        )
        for stop in stops
    ]
    rows = [rng.integers(10, 500, length).astype(np.int32) for _ in range(count)]
    return Batch.of(
        [
            Trajectory("benchmark", "0", number, [Segment(row)], turns, True, False, False)
            for number, row in enumerate(rows)
        ]
    )


# Runs.


def run(folder: Path, recipe: str, env_id: str, settings: Settings) -> dict[str, Any]:
    """Returns the mean times of the iterations of a training run, after the first."""
    from agentgym.trainers import train
    from agentgym.trainers.run.logger import read_metrics

    with tempfile.TemporaryDirectory() as runs:
        train(
            recipe,
            env_id=env_id,
            model=str(folder),
            lora_rank=settings.lora_rank,
            dtype=dtype(),
            constrain=True,
            context="window",
            iterations=settings.iterations,
            episodes_per_iteration=settings.episodes,
            eval_episodes=0,
            save_every=settings.iterations,
            quiet=True,
            run_dir=runs,
        )
        rows = read_metrics(Path(runs))[1:]
    names = [name for name in rows[0] if name.startswith("time/")]
    means = {name.removeprefix("time/"): float(np.mean([r[name] for r in rows])) for name in names}
    return {"recipe": recipe, "env_id": env_id, "episodes": settings.episodes, **means}


# All parts.

TITLES = {
    "generation": "Generation",
    "training": "Training: a LoRA update",
    "runs": "Runs: seconds to collect and to update, per iteration",
}


def apart(work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Runs a part in a process of its own and returns its result, or the error as text."""
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    child = multiprocessing.get_context("spawn").Process(target=_report, args=(queue, work, args))
    child.start()
    child.join()
    return {"error": f"exit code {child.exitcode}"} if queue.empty() else queue.get()


def _report(queue: Any, work: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        queue.put(work(*args))
    except Exception as error:
        queue.put({"error": f"{type(error).__name__}: {str(error)[:200]}"})


def measure(settings: Settings) -> dict[str, Any]:
    """Measures every part with every model, and writes the results so far after each."""
    engines = ["own", "generate"] + ["vllm"] * (importlib.util.find_spec("vllm") is not None)
    found: dict[str, Any] = {"generation": [], "training": [], "runs": []}
    about = {
        "device": gpu_name(),
        "versions": versions("torch", "transformers", "peft"),
        "settings": settings_of(settings),
    }

    def note(part: str, model: str, labels: dict[str, Any], result: dict[str, Any]) -> None:
        found[part].append({"model": model, **labels, **result})
        print(part, json.dumps(found[part][-1]), flush=True)
        write(settings.out, {**about, **found})

    for model in settings.models:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            written = apart(write_folder, model, folder)
            if "error" in written:
                note("generation", model, {}, written)
                continue
            for engine in engines:
                done = apart(generation, folder, engine, settings)
                note("generation", model, {"engine": engine}, done)
            for length in settings.lengths:
                done = apart(training, folder, length, settings)
                note("training", model, {"length": length}, done)
            for env_id in settings.environments if model != "7B" else ():
                for recipe in settings.recipes:
                    labels = {"recipe": recipe, "env_id": env_id}
                    note("runs", model, labels, apart(run, folder, recipe, env_id, settings))
    return found


def write_folder(name: str, folder: Path) -> dict[str, Any]:
    """Writes a model with random weights, as a part of the benchmark."""
    write_model(name, folder)
    return {}


def show(found: dict[str, Any]) -> None:
    """Prints one table per part."""
    for part, rows in found.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = Table(title=TITLES[part])
        for name in names:
            table.add_column(name)
        for row in rows:
            table.add_row(*(readable(row.get(name)) for name in names))
        Console(width=160).print(table)


def readable(value: Any) -> str:
    """Returns the cell of a table: numbers with three digits, thousands in full."""
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "" if value is None else str(value)


def main(settings: Settings) -> None:
    """Measures, writes the results and prints tables."""
    show(measure(settings))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
