"""The benchmark of combinations: what is trained and played, and that it continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym.registration.making import make_env
from benchmarks.learning import compose


def test_the_held_out_pair_is_not_among_the_trained_ones():
    env = make_env(compose.IDS[0], wrap=[compose.wrapper(2)])
    found = env.get_wrapper_attr("combinations")
    assert len(found["test"]) == 1 and len(found["train"]) == 3
    assert found["test"][0][::-1] in found["train"]  # the order is new


def test_finished_seeds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measured = []

    def measure(n: int, seed: int, settings: compose.Settings) -> dict[str, object]:
        measured.append((n, seed))
        share = {"success": [0.25, 0.0, 0.5], "progress": [0.5, 0.4, 0.6]}
        return {"cpu_seconds": 1.0, **dict.fromkeys(compose.PLAYED, share)}

    monkeypatch.setattr(compose, "measure", measure)
    for seeds in (1, 3):
        compose.main(compose.Settings(seeds=seeds, out=tmp_path / "compose.json"))
    assert measured == [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
    policies = json.loads((tmp_path / "compose.json").read_text())["policies"]
    assert {name: len(runs) for name, runs in policies.items()} == {"single": 3, "pairs": 3}
