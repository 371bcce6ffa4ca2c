from __future__ import annotations

import json
from pathlib import Path

from agentgym.trainers.policy.tiny import tiny_policy
from benchmarks.speed import peers, peers_grpo


def test_the_benchmark_against_generate_runs(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
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
    assert "TRL is not installed" in capsys.readouterr().out
    results = json.loads(settings.out.read_text())["results"]
    assert list(results) == [
        "free, 2 x 9 tokens",
        "admissible actions, 2 prompts",
        "2 episodes x 2 turns",
    ]
    assert all(row["ratio"] > 0 for row in results.values())


def test_a_side_of_the_comparison_with_trl_trains(tmp_path: Path, monkeypatch, capsys):
    tiny_policy("AgentGym/Countdown-v0", size="nano").save(tmp_path)
    settings = {"model": str(tmp_path), "env_id": "Countdown-v0", "episodes": 8, "tokens": 3}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings | {"updates": 2, "equal": 0.5}))
    peers_grpo.main("own", str(path))
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(report["seconds"]) == len(report["tokens"]) == 2
    assert report["peak_bytes"] > report["start_bytes"] > 0
