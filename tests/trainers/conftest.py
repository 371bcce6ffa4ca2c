"""Small random models of several architectures, made without a download."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy.tiny import tiny_tokenizer

from ..helpers.quick import leave_out_files, quicken

TEXTS = ["You are in a room. go north, go south; take the red key 17 times\n> "] * 3
COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA_LIKE = {**COMMON, "intermediate_size": 48, "max_position_embeddings": 512}
GROUPED = {**LLAMA_LIKE, "num_key_value_heads": 2, "head_dim": 8}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {**LLAMA_LIKE, "tie_word_embeddings": True},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "qwen2": {**LLAMA_LIKE, "num_key_value_heads": 2},
    "qwen3": GROUPED,
    "phi3": GROUPED,
    "gemma": GROUPED,
    # Logits are capped after the head; every other layer sees 8 tokens.
    "gemma2": {**GROUPED, "sliding_window": 8, "final_logit_softcapping": 2.0},
    "gemma3_text": {
        **GROUPED,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mistral": {**LLAMA_LIKE, "num_key_value_heads": 2, "sliding_window": 8},
    # Looks itself whether attention is that of "sdpa".
    "falcon": {**COMMON, "alibi": False, "max_position_embeddings": 512},
    # Does not count positions after a cache.
    "bamba": {
        **GROUPED,
        **{"attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
    },
    # No attention at all: a recurrent state.
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
}


@pytest.fixture(autouse=True)
def quick_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out parts of a run. A module whose subject they are has a fixture of this name."""
    quicken(monkeypatch.setattr)


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the files of a run, which take a good part of the time of a short one."""
    leave_out_files(monkeypatch.setattr)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return tiny_tokenizer(TEXTS, 300)


@pytest.fixture(scope="session")
def make_model(tokenizer: Any) -> Callable[..., Any]:
    def make(kind: str = "llama", seed: int = 0, **changes: Any) -> Any:
        config = AutoConfig.for_model(
            kind,
            **{
                "vocab_size": len(tokenizer),
                "bos_token_id": None,
                "eos_token_id": tokenizer.eos_token_id,
                "pad_token_id": tokenizer.pad_token_id,
                **MODELS[kind],
                **changes,
            },
        )
        with torch.random.fork_rng():
            model = AutoModelForCausalLM.from_config(config)
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            if parameter.dim() == 2:
                std = 1 / math.sqrt(min(parameter.shape))
                parameter.data.normal_(0, std, generator=generator)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def make_policy(tokenizer: Any, make_model: Callable[..., Any]) -> Callable[..., Policy]:
    """Returns `make(kind, batch_size=..., **config)`: a policy with random weights."""

    def make(kind: str = "llama", batch_size: int | None = None, **changes: Any) -> Policy:
        return Policy(make_model(kind, **changes), tokenizer, batch_size=batch_size)

    return make


@pytest.fixture(scope="session")
def as_batch() -> Callable[..., Batch]:
    """Returns `make(prompts, samples)`: one trajectory of one turn for each."""

    def make(prompts: Sequence[np.ndarray], samples: Sequence[Sample]) -> Batch:
        trajectories = [
            Trajectory(
                env_id="Test",
                task=str(number),
                seed=number,
                segments=[
                    Segment(np.concatenate([prompt, sample.tokens]).astype(np.int32)),
                    Segment(np.asarray(prompt, np.int32)),
                ],
                turns=[
                    Turn(
                        segment=0,
                        start=len(prompt),
                        stop=len(prompt) + len(sample.tokens),
                        logprobs=sample.logprobs,
                        support=sample.support,
                        observation="",
                        action=sample.text,
                        reward=0.0,
                        reward_terms={},
                        valid=True,
                        progress=0.0,
                        state_key="",
                        version=sample.version,
                        token_versions=sample.token_versions,
                    )
                ],
                terminated=False,
                truncated=True,
                success=False,
                bootstrap=1,
            )
            for number, (prompt, sample) in enumerate(zip(prompts, samples, strict=True))
        ]
        return Batch.of(trajectories)

    return make


@pytest.fixture
def other_precision() -> Iterator[None]:
    """Autocast is set for a process once."""
    AcceleratorState._reset_state()
    yield
    AcceleratorState._reset_state()
