"""Each part of the GPU benchmark runs on a CPU at small size."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.speed import gpu, gpu_decoding, gpu_grpo, updates
from benchmarks.speed.gpu_models import MODELS

from .helpers.launch import CONTEXT, run_forked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    gpu.write_model("test", folder)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    return gpu.Settings(
        models=("test",),
        tokens=128,
        rows=2,
        prompt=8,
        new_tokens=3,
        lora_rank=4,
        iterations=2,
        episodes=8,
    )


@pytest.mark.parametrize("engine", ["own", "generate", "vllm"])
def test_generation(folder: Path, settings: Any, engine: str):
    if engine == "vllm":
        pytest.importorskip("vllm", reason="run with `make test-vllm`")
    found = gpu.generation(folder, engine, settings)
    assert found["engine"] == engine
    assert 0 < found["tokens"] <= 2 * 3
    assert found["tokens_per_second"] > 0


def test_training(folder: Path, settings: Any):
    found = gpu.training(folder, 64, settings)
    assert (found["length"], found["rows"]) == (64, 2)
    assert found["tokens_per_second"] > 0


def test_operations_of_an_update(folder: Path):
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.recipes import load

    config = load("grpo").Config.of(model=str(folder), lora_rank=4)
    model = Policy.load(folder, lora=config.lora()).model
    short, long = (gpu.operations(model, length) for length in (64, 128))
    shape = MODELS["test"]
    layers, hidden, width = (
        shape[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size")
    )
    vocabulary = model.get_output_embeddings().weight.shape[0]
    keys = hidden * shape["num_key_value_heads"] // shape["num_attention_heads"]
    weights = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * width
    biases_and_norms = hidden + 2 * keys + 2 * hidden
    inside = layers * (weights + biases_and_norms) + hidden
    assert long - short == 6 * layers * hidden * 64
    assert short == 4 * (inside + 0.25 * vocabulary * hidden) + 6 * layers * hidden * 64


@pytest.mark.slow
def test_a_run(folder: Path, settings: Any):
    found = gpu.run(folder, "grpo", "NumberLine-v0", settings)
    assert found["collect"] > 0 and found["update"] > 0


@pytest.mark.slow
def test_the_whole_benchmark(settings: Any, tmp_path: Path, monkeypatch: Any):
    """All parts after each other, with their results in a file. Here in one process."""
    monkeypatch.setattr(gpu, "apart", lambda work, *args: work(*args))
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda _: None)  # vLLM has its own test
    few = replace(settings, lengths=(64, 128), environments=("TextCraft-v0",), recipes=("grpo",))
    few = replace(few, out=tmp_path / "gpu.json")
    gpu.main(few)
    written = json.loads(few.out.read_text())
    assert [row["engine"] for row in written["generation"]] == ["own", "generate"]
    assert [row["length"] for row in written["training"]] == [64, 128]
    assert [(row["recipe"], row["env_id"]) for row in written["runs"]] == [("grpo", "TextCraft-v0")]
    assert not any(
        "error" in row for part in ("generation", "training", "runs") for row in written[part]
    )


def fail() -> dict[str, Any]:
    raise MemoryError("no room")


@pytest.mark.slow
def test_a_part_that_fails_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pickle.dumps(gpu._report)  # as a process that is not forked needs it
    monkeypatch.setattr(gpu.multiprocessing, "get_context", {"spawn": CONTEXT}.__getitem__)
    found = gpu.apart(fail)
    assert found == {"error": "MemoryError: no room"}
    gpu.show({"training": [found, {"length": 64, "mfu": None}]})
    assert "no room" in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["graph", "own", "generate"])
def test_decoding(engine: str, tmp_path: Path):
    settings = gpu_decoding.Settings(
        models=("test",), rows=(2, 3), prompt=8, new_tokens=4, engines=(engine,)
    )
    found = gpu_decoding.measure_engine("test", engine, settings)
    assert [row["rows"] for row in found["found"]] == [2, 3]
    for row in found["found"]:
        assert row["tokens"] == 4 * row["rows"]
        assert row["share_of_bound"] == row["decode_tokens_per_second"] / row["bound"]


def test_a_decode_step_reads_weights_and_cache_once():
    model, _ = gpu_decoding.new_model("test")
    weights = sum(p.numel() for p in model.parameters())  # the head is the embeddings
    cache = 2 * 2 * 32 * 10  # keys and values, layers, their dimensions, tokens
    assert gpu_decoding.step_bytes(model, rows=3, length=10) == 4 * (weights + 3 * cache)


def test_a_clock_counts_each_phase_without_those_inside_it():
    times = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0])
    clock = updates.Clock(lambda: next(times))
    inner = clock.timed("reference", lambda: None)
    forward = clock.timed("forward", lambda: None)

    def evaluate() -> None:
        forward()  # counts in "values"
        inner()

    def failing() -> None:
        raise ValueError

    clock.timed("rest", clock.timed("values", evaluate))()
    with pytest.raises(ValueError):
        clock.timed("backward", failing)()
    assert clock.seconds == {"rest": 1 + 5, "values": 2 + 4, "reference": 3, "backward": 7}


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "critic"), [("poad", True), ("grpo", False)])
def test_phases_of_an_iteration(folder: Path, tmp_path: Path, recipe: str, critic: bool):
    settings = updates.Settings(env_id="NumberLine-v0", episodes=8, iterations=2, lora_rank=4)
    found = updates.phases(folder, recipe, settings)
    seconds = {phase: found[phase] for phase in updates.PHASES}
    assert found["iteration"] == sum(seconds.values())
    assert (seconds.pop("values") > 0) == critic
    assert seconds.pop("reference") == 0
    assert all(seconds.values())
    assert 0 <= found["padding"] < 1 and found["tokens_per_second"] > 0


@pytest.mark.slow
def test_grpo_beside_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("trl")
    monkeypatch.setattr(gpu_grpo, "subprocess", SimpleNamespace(run=run_forked))
    settings = gpu_grpo.Settings(
        model="test", episodes=8, tokens=4, updates=1, repeats=1, out=tmp_path / "grpo.json"
    )
    gpu_grpo.main(settings)
    written = json.loads(settings.out.read_text())
    [pair] = written["repetitions"]
    assert written["ratio"] == pair["own"]["tokens_per_second"] / pair["trl"]["tokens_per_second"]
    assert gpu_grpo.ratio([{"own": {"error": "no room"}, "trl": pair["trl"]}]) is None
