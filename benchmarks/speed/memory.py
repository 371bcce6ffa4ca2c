"""Memory of a training step of Qwen2.5 models with LoRA, counted tensor by tensor.

The step runs on fake tensors, which have shapes but no data. So every storage of forward pass,
backward pass and optimiser step is counted as a device would hold it, without the device and
without the weights. Every token of one context is an action token, the most expensive case. The
least that can be kept with gradient checkpointing is one vector of the hidden size per layer.
Prints a table and writes JSON.

    python benchmarks/speed/memory.py [--contexts 2048 8192 32768]
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, Qwen2Config

from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.lm_head import HeadOutput
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.scoring import score_actions
from agentgym.trainers.update.optimizer import AdamW
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write

SIZES: dict[str, dict[str, Any]] = {
    "0.5B": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
             "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True,
             "vocab_size": 151_936},
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2, "tie_word_embeddings": True,
             "vocab_size": 151_936},
    "7B": {"hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False,
           "vocab_size": 152_064},
}  # fmt: skip
"""Configurations of Qwen2.5 (arXiv 2412.15115)."""
TARGETS = {"queries and values": ("q_proj", "v_proj"), "all linear layers": None}
"""Layers that have adapters. None: the default (`lora_targets`)."""


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        models: the models.
        contexts: tokens of the context.
        rank: rank of the LoRA adapter.
        out: file of the results.
    """

    models: tuple[str, ...] = ("0.5B", "1.5B", "7B")
    contexts: tuple[int, ...] = (2048, 8192, 32768)
    rank: int = 32
    out: Path = RESULTS / "memory.json"


@dataclass
class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that are alive, and the most there were at once."""

    now: int = 0
    peak: int = 0
    _known: Any = field(default_factory=weakref.WeakSet)

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation and counts its results."""
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._add(leaf.untyped_storage())
        return found

    def _add(self, storage: Any) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self.now -= size


def one_context(tokens: int) -> Collated:
    """Returns a row of tokens in which every token except the first is an action token."""
    places = torch.arange(tokens - 1)
    none = torch.zeros(0, dtype=torch.int64)
    return Collated(
        tokens=torch.zeros(1, tokens, dtype=torch.int64),
        attention_mask=torch.ones(1, tokens, dtype=torch.int64),
        row=torch.zeros_like(places), column=places,
        target=torch.zeros_like(places), index=places,
        support_offsets=None, support_ids=None,
        bootstrap_row=none, bootstrap_column=none, bootstrap_trajectory=none,
    )  # fmt: skip


class Bare(Policy):
    """A policy without a tokenizer and without data in its weights. It scores actions only."""

    def __init__(self, model: Any):
        torch.nn.Module.__init__(self)
        self.model, self.blocks, self.head_output = model, True, HeadOutput()
        self._beyond = self.packs = False


def make_model(shape: dict[str, Any], rank: int, targets: tuple[str, ...] | None = None) -> Any:
    """Returns a Qwen2 model in bfloat16 on the meta device, with an adapter if `rank` is not 0."""
    config = Qwen2Config(**shape, max_position_embeddings=32768)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return add_adapter(model, LoraSettings(rank, targets=targets)) if rank else model


def allocate(model: torch.nn.Module) -> None:
    """Replaces the tensors of a model on the meta device by new ones of the active mode."""
    made: dict[int, Any] = {}  # tied weights stay tied
    for module in model.modules():
        for name, old in (*module._parameters.items(), *module._buffers.items()):
            if old is None:
                continue
            if id(old) not in made:
                new = torch.empty(old.shape, dtype=old.dtype)
                if isinstance(old, torch.nn.Parameter):
                    new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
                made[id(old)] = old, new
            where = module._parameters if name in module._parameters else module._buffers
            where[name] = made[id(old)][1]


def count(
    shape: dict[str, Any],
    tokens: int,
    rank: int,
    targets: tuple[str, ...] | None,
    checkpointing: bool,
) -> dict[str, int]:
    """Returns the bytes of a training step: weights, kept for the backward pass, and the peak.

    Args:
        shape: configuration of a Qwen2 model.
        tokens: tokens of the context.
        rank: rank of the LoRA adapter. 0 trains all weights.
        targets: the layers that have adapters. None: the default ones.
        checkpointing: whether gradient checkpointing is on.
    """
    policy = Bare(make_model(shape, rank, targets))
    policy.eval()
    policy.gradient_checkpointing = checkpointing
    # Whether positions restart within a row is read from data. With real tensors they do not.
    packed = mock.patch(
        "transformers.masking_utils.find_packed_sequence_indices", return_value=None
    )
    with packed, FakeTensorMode(), LiveBytes() as live:
        allocate(policy)
        trained = [p for p in policy.parameters() if p.requires_grad]
        optimizer = AdamW(trained)
        collated = one_context(tokens)
        weights, live.peak = live.now, live.now
        scores = score_actions(policy, collated)  # type: ignore[arg-type]
        loss = scores.logprobs.mean() + scores.entropy.mean()
        kept = live.now - weights
        loss.backward()
        del scores, loss
        optimizer.step()
        return {"weights": weights, "kept": kept, "peak": live.peak}


def measure(
    settings: Settings, sizes: dict[str, dict[str, Any]], count: Callable[..., dict[str, int]]
) -> list[dict[str, Any]]:
    """Returns a row of figures for each model and kind of adapter."""
    rows = []
    for name, (adapter, targets) in itertools.product(settings.models, TARGETS.items()):
        shape = sizes[name]
        least = 2 * shape["num_hidden_layers"] * shape["hidden_size"]
        cells = {n: count(shape, n, settings.rank, targets, True) for n in settings.contexts}
        plain = count(shape, settings.contexts[0], settings.rank, targets, False)
        most = settings.contexts[-1]
        rows.append(
            {
                "model": name,
                "adapter": adapter,
                "weights": plain["weights"],
                "least_per_token": least,
                "kept_per_token": cells[most]["kept"] / most,
                "kept_over_least": cells[most]["kept"] / most / least,
                "kept_per_token_without_checkpointing": plain["kept"] / settings.contexts[0],
                "peak": {str(n): cell["peak"] for n, cell in cells.items()},
            }
        )
    return rows


def main(settings: Settings) -> None:
    """Counts, prints a table and writes JSON."""
    rows = measure(settings, SIZES, count)
    table = Table(title="GiB of a training step, LoRA, bfloat16, gradient checkpointing")
    for heading in ("model", "adapter"):
        table.add_column(heading)
    for heading in ("weights", "kept, KiB/token", "x least", *map(str, settings.contexts)):
        table.add_column(heading, justify="right")
    for row in rows:
        kept = row["kept_per_token"] / 2**10
        peaks = [f"{row['peak'][str(n)] / 2**30:.1f}" for n in settings.contexts]
        weights = f"{row['weights'] / 2**30:.1f}"
        name = row["model"], row["adapter"]
        table.add_row(*name, weights, f"{kept:.0f}", f"{row['kept_over_least']:.2f}", *peaks)
    Console().print(table)
    about = {"settings": settings_of(settings), **versions("torch", "transformers")}
    write(settings.out, about | {"models": rows})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
