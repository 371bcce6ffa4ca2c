"""Memory and time of a training step by the way in which log-probs of action tokens are computed.

A model of 6 layers of 256 with a vocabulary of 32,000, in float32, on rows of 512 random tokens.
All are action tokens. The loss is a weighted mean of log-probs, and entropies are computed
for the log, as in GRPO. Three programs compute them: this project, plain code (all logits, their
log-softmax), and the chunked head of TRL's trainers, if TRL is installed. A fourth program computes
no logits, so nothing below its memory is possible with these layers. Every storage that is alive
in the forward and backward pass is counted, above weights, gradients and optimiser states. Times
are CPU times of one thread, of alternating repetitions. Prints a table and writes JSON.

    python benchmarks/speed/head_memory.py [--tokens 2048 8192]
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.scoring import score_actions
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write
from benchmarks.speed.memory import Bare, LiveBytes, one_context

Scored = Callable[[], tuple[Tensor, Tensor]]
"""Returns log-probabilities and entropies of the action tokens."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        hidden: hidden size of the model.
        intermediate: width of its MLPs.
        layers: number of its layers.
        vocabulary: size of its vocabulary.
        row: tokens per row.
        tokens: tokens per step, multiples of `row`.
        repeats: timed repetitions.
        seed: seed of weights and tokens.
        out: file of the results.
    """

    hidden: int = 256
    intermediate: int = 768
    layers: int = 6
    vocabulary: int = 32_000
    row: int = 512
    tokens: tuple[int, ...] = (2048, 8192)
    repeats: int = 1
    seed: int = 0
    out: Path = RESULTS / "head_memory.json"


def make_model(settings: Settings) -> Any:
    """Returns the model, whose parameters have gradients."""
    torch.manual_seed(settings.seed)
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(
            hidden_size=settings.hidden,
            intermediate_size=settings.intermediate,
            num_hidden_layers=settings.layers,
            num_attention_heads=8,
            vocab_size=settings.vocabulary,
            tie_word_embeddings=False,
        ),
        attn_implementation="sdpa",
    ).eval()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model


def collated_rows(ids: Tensor) -> Collated:
    """Returns rows of tokens, of which all but the first are action tokens."""
    one = one_context(ids.shape[1])
    rows = torch.arange(len(ids)).repeat_interleave(len(one.column))
    column = one.column.repeat(len(ids))
    target = ids[:, 1:].flatten()
    return replace(
        one,
        tokens=ids,
        attention_mask=torch.ones_like(ids),
        row=rows,
        column=column,
        target=target,
        index=torch.arange(len(rows)),
    )


def own(model: Any, ids: Tensor) -> Scored:
    """Returns the program of this project."""
    policy, collated = Bare(model), collated_rows(ids)
    return lambda: score_actions(policy, collated)[:2]  # type: ignore[return-value]


def plain(model: Any, ids: Tensor) -> Scored:
    """Returns the program that holds all logits."""

    def scored() -> tuple[Tensor, Tensor]:
        logprobs = model(input_ids=ids, use_cache=False).logits[:, :-1].log_softmax(-1)
        chosen = logprobs.gather(-1, ids[:, 1:, None])[..., 0].flatten()
        with torch.no_grad():
            entropy = -(logprobs.exp() * logprobs).sum(-1).flatten()
        return chosen, entropy

    return scored


def chunked(model: Any, ids: Tensor) -> Scored:
    """Returns the program of TRL's trainers."""
    from trl.trainer.utils import add_fused_lm_head

    add_fused_lm_head(model, outputs=("log_probs", "entropy"))

    def scored() -> tuple[Tensor, Tensor]:
        out = model(input_ids=ids, labels=ids, fused_lm_head=True)
        return out.log_probs.flatten(), out.entropy.flatten()

    return scored


def layers_only(model: Any, ids: Tensor) -> Scored:
    """Returns a program without a head, with the mean of each hidden state in place of logits."""

    def scored() -> tuple[Tensor, Tensor]:
        found = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        return found.mean(-1).flatten(), found.detach().mean(-1).flatten()

    return scored


PROGRAMS: dict[str, Callable[[Any, Tensor], Scored]] = {
    "this project": own,
    "all logits": plain,
    "TRL's chunked head": chunked,
    "layers only": layers_only,
}


def step(scored: Scored) -> tuple[Tensor, Tensor]:
    """Accumulates the gradient of a weighted mean of log-probs and returns the scores."""
    logprobs, entropy = scored()
    weights = torch.linspace(-1, 1, len(logprobs))
    (logprobs * weights).mean().backward()
    return logprobs.detach(), entropy.detach()


def measure(settings: Settings, tokens: int) -> dict[str, dict[str, float]]:
    """Returns bytes per token and CPU seconds of each program.

    Raises:
        AssertionError: if the programs' scores or gradients differ.
    """
    rng = np.random.default_rng(settings.seed)
    shape = tokens // settings.row, settings.row
    ids = torch.from_numpy(rng.integers(0, settings.vocabulary, shape))
    base, programs, scores = make_model(settings), {}, {}
    result: dict[str, dict[str, float]] = {}
    for name, make in PROGRAMS.items():
        if name == "TRL's chunked head" and find_spec("trl") is None:
            continue
        model = copy.deepcopy(base)
        programs[name] = make(model, ids)
        with LiveBytes() as live:
            found = step(programs[name])
        result[name] = {"bytes_per_token": live.peak / tokens}
        if name != "layers only":
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            scores[name] = *found, *gradients
    for found in scores.values():
        for one, other in zip(scores["all logits"], found, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(settings.repeats):
        for name, scored in programs.items():
            start = time.process_time()
            step(scored)
            times[name].append(time.process_time() - start)
    for name, seconds in times.items():
        ratios = np.array(seconds) / np.array(times["all logits"])
        result[name]["seconds"] = float(np.median(seconds))
        result[name]["time_ratio"] = float(np.median(ratios))
    return result


def main(settings: Settings) -> None:
    """Measures, prints a table and writes JSON."""
    torch.set_num_threads(1)
    steps = {str(tokens): measure(settings, tokens) for tokens in settings.tokens}
    table = Table("tokens", "program", "KiB/token", "CPU seconds", "x all logits")
    for tokens, rows in steps.items():
        for name, row in rows.items():
            kib = f"{row['bytes_per_token'] / 2**10:.0f}"
            table.add_row(tokens, name, kib, f"{row['seconds']:.1f}", f"{row['time_ratio']:.2f}")
    Console().print(table)
    about = {"settings": settings_of(settings), **versions("torch", "transformers")}
    write(settings.out, about | {"steps": steps})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
