"""The benchmark of adapters, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.speed import adapters


def test_every_kind_of_adapter_is_timed(tmp_path: Path):
    settings = adapters.Settings(
        layers=1, hidden=64, rank=2, tokens=2, scale=0.1, repeats=1, out=tmp_path / "adapters.json"
    )
    adapters.main(settings)
    rows = json.loads(settings.out.read_text())["rows"]
    kinds = [(layers, dtype) for layers in adapters.TARGETS for dtype in adapters.TYPES]
    assert [(row["layers"], row["dtype"]) for row in rows] == kinds
    assert all(row["generate"] > 0 and row["update"] > 0 for row in rows)
    for (layers, dtype), policy in adapters.make_policies(settings).items():
        trained = {name: p for name, p in policy.named_parameters() if p.requires_grad}
        assert {p.dtype for p in trained.values()} == {adapters.TYPES[dtype]}
        adapted = {name.split(".lora_")[0].rsplit(".", 1)[1] for name in trained}
        assert adapted >= {"q_proj", "v_proj"}
        assert ("down_proj" in adapted) == (layers == "all linear layers")
