from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from agentgym.trainers.run.logger import critic_curve, draw_curve, read_metrics


@pytest.mark.parametrize("name", [None, "losses/explained_variance", "credit/explained_variance"])
def test_the_curve_has_a_panel_for_the_critic_if_there_is_one(tmp_path: Path, name: str | None):
    rows: list[dict[str, Any]] = [
        {"iteration": i, "env_steps": 10 * i, "rollout/return": 0.1 * i} for i in range(3)
    ]
    for row in rows[1:]:
        row |= {} if name is None else {name: 0.5}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = critic_curve(read_metrics(tmp_path))
    assert found == ([] if name is None else [(10, 0.5), (20, 0.5)])
    draw_curve(tmp_path, "title")
    assert _height(tmp_path) == round(120 * (4.2 if name is None else 5.4))


def test_the_curve_has_a_panel_for_nashconv_if_it_was_computed(tmp_path: Path):
    rows = [
        {"iteration": i, "env_steps": i, "losses/explained_variance": 0.1, "eval/nashconv": 1 / i}
        for i in (1, 2)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    draw_curve(tmp_path, "title")
    assert _height(tmp_path) == round(120 * 6.6)


def _height(folder: Path) -> int:
    return imread(folder / "curve.png").shape[0]
