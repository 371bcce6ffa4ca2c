from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agentgym.trainers.policy.induction_heads import (
    COMMON,
    REPEATED,
    WORDS,
    _repeated,
    practise_copying,
)
from agentgym.trainers.policy.tiny import TinySize, tiny_model

SMALL = TinySize(2, 64, 4, 128, 1024, 2048, practice=1)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    letters = np.random.default_rng(0).integers(97, 123, (1000, 4))
    return [" ".join("".join(map(chr, word)) for word in letters)]


def test_the_first_blocks_begin_with_induction_heads(texts):
    model, tokenizer = tiny_model(texts, size=SMALL)
    model.set_attn_implementation("eager")
    length = 40
    words = 300 + np.random.default_rng(1).permutation(len(tokenizer) - 300)[:length]
    first, second = model(torch.tensor([[*words, *words]]), output_attentions=True).attentions
    later = torch.arange(1, 2 * length)
    previous = first[0, :, later, later - 1].mean(1)
    assert previous[:2].min() > 0.7 > 0.1 > previous[2:].max()
    again = torch.arange(length, 2 * length - 1)
    successor = second[0, :, again, again - length + 1].mean(1)
    assert successor[:2].min() > 1.5 * successor[2:].max()


def test_practice_depends_on_the_seed_and_on_nothing_else(texts, global_rng_untouched):
    state = torch.get_rng_state()
    one, same, other = (tiny_model(texts, size=SMALL, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)
    assert all(p.grad is None for p in one.parameters()) and not one.training


@pytest.mark.slow
def test_practice_teaches_copying(texts):
    model, _ = tiny_model(texts, size=SMALL)
    words = torch.arange(2, 2 + WORDS)
    practise_copying(model, 100, torch.Generator().manual_seed(1), rows=16, lr=6e-3)
    tokens = _repeated(64, WORDS, torch.Generator().manual_seed(2))
    with torch.no_grad():
        logits = model(words[tokens]).logits[:, -REPEATED:-1, words]
    targets = tokens[:, 1 - REPEATED :]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    # A model that ignores the prompt cannot do better than the entropy of the tokens.
    rare = WORDS - COMMON
    assert loss < -0.2 * math.log(0.2 / COMMON) - 0.8 * math.log(0.8 / rare) - 0.3
