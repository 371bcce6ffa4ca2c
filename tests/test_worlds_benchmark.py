"""The benchmark of generated worlds: what is trained and played, and that it continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym.registration.making import make_env
from benchmarks.learning import worlds


def test_evaluations_differ_from_training_in_one_layer():
    own = make_env(worlds.ID, **worlds.arguments("one", 2)).unwrapped.world_of("test/0")  # type: ignore[attr-defined]
    for name, changed in worlds.PLAYED.items():
        env = make_env(worlds.ID, **worlds.arguments("one", 2) | changed).unwrapped
        world = env.world_of("test/0")  # type: ignore[attr-defined]
        layers = [getattr(world, each) == getattr(own, each) for each in ("rules", "words")]
        layers.append(world.observation == own.observation)
        assert layers.count(False) == (name != "same")
    assert worlds.arguments("many", 2)["world"] is None


def test_finished_seeds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measured = []

    def measure(trained: str, seed: int, settings: worlds.Settings) -> dict[str, object]:
        measured.append((trained, seed))
        share = {"success": [0.25, 0.0, 0.5], "progress": [0.5, 0.4, 0.6]}
        return {"cpu_seconds": 1.0, **dict.fromkeys(worlds.PLAYED, share)}

    monkeypatch.setattr(worlds, "measure", measure)
    for seeds in (1, 2):
        worlds.main(worlds.Settings(seeds=seeds, out=tmp_path / "worlds.json"))
    assert measured == [("one", 0), ("many", 0), ("one", 1), ("many", 1)]
    policies = json.loads((tmp_path / "worlds.json").read_text())["policies"]
    assert {name: len(runs) for name, runs in policies.items()} == {"one": 2, "many": 2}
