"""The benchmark that counts the memory of a training step, at a small size."""

from __future__ import annotations

import json

import pytest

from agentgym.trainers.update.memory import activation_bytes
from benchmarks.shared.result_files import RESULTS
from benchmarks.speed import head_memory, memory

SHAPE = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 1024,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
VECTOR = 2 * SHAPE["hidden_size"]


EACH_ADAPTER = pytest.mark.parametrize("targets", memory.TARGETS.values(), ids=memory.TARGETS)


@pytest.mark.slow
@EACH_ADAPTER
def test_a_step_keeps_a_vector_per_layer_and_token(targets):
    short, long = (memory.count(SHAPE, n, 4, targets, True) for n in (256, 512))
    plain = memory.count(SHAPE, 256, 4, targets, False)
    layers = SHAPE["num_hidden_layers"]
    # Beside the inputs of layers: the input of the head, and what the last norm needs.
    assert layers * VECTOR <= short["kept"] / 256 < (layers + 6) * VECTOR
    assert long["kept"] == pytest.approx(2 * short["kept"], rel=0.02)
    growth = (long["peak"] - short["peak"]) / 256
    assert growth < 2 * (plain["peak"] - plain["weights"]) / 256
    assert plain["kept"] > 5 * short["kept"]
    longer = memory.count(SHAPE | {"num_hidden_layers": 6}, 256, 4, targets, True)
    assert longer["kept"] - short["kept"] == 2 * VECTOR * 256


@EACH_ADAPTER
def test_microbatches_are_chosen_for_slightly_more_than_a_step_keeps(targets):
    tokens, rank = 512, 16
    model = memory.make_model(SHAPE, rank, targets)
    reckoned = tokens * activation_bytes(model, False, False)
    kept = memory.count(SHAPE, tokens, rank, targets, False)["kept"]
    assert kept < reckoned < 1.6 * kept


def test_figures_of_the_models():
    models = json.loads((RESULTS / "memory.json").read_text())["models"]
    for row in models:
        if row["model"] == "7B":
            assert row["peak"]["8192"] < 40e9
            assert row["peak"]["32768"] < 80e9
    assert all(row["kept_over_least"] < 1.3 for row in models)
    for row in models:
        a, b, c = (row["peak"][n] for n in ("2048", "8192", "32768"))
        assert (c - b) / (32768 - 8192) == pytest.approx((b - a) / (8192 - 2048), rel=0.25)


@pytest.mark.slow
def test_the_scoring_head_holds_less_than_all_logits(monkeypatch):
    monkeypatch.setattr(head_memory, "find_spec", lambda name: None)
    monkeypatch.setattr(head_memory.Bare, "logits_at_once", 8 * 512)
    settings = head_memory.Settings(hidden=16, intermediate=32, layers=1, vocabulary=512, row=32)
    found = head_memory.measure(settings, 64)  # which compares scores and gradients, too
    own, whole, least = (
        found[name]["bytes_per_token"] for name in ("this project", "all logits", "layers only")
    )
    assert least < own < least + (whole - least) / 2
