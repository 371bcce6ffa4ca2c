from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def test_the_benchmark_against_generate_runs(tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    peers = importlib.import_module("peers")
    try:
        settings = peers.Settings(
            size="nano",
            env_id="AgentGym/NumberLine-v0",
            rows=(2,),
            lengths=(9,),
            new_tokens=3,
            episodes=2,
            turns=2,
            turn_tokens=2,
            repeats=1,
            out=tmp_path / "peers.json",
        )
        peers.main(settings)
    finally:
        sys.modules.pop("peers", None)
    results = json.loads(settings.out.read_text())["results"]
    assert list(results) == [
        "free, 2 x 9 tokens",
        "admissible actions, 2 prompts",
        "2 episodes x 2 turns",
    ]
    assert all(row["ratio"] > 0 for row in results.values())
