"""The comparison of recipes: statistics over environments."""

from __future__ import annotations

from typing import Any

import pytest

from .helpers.benchmarks import benchmark_script


@pytest.fixture
def grid_tables():
    with benchmark_script("grid_tables") as script:
        yield script


def test_scores_are_0_at_the_start_and_1_for_the_expert(grid_tables: Any):
    finals = {
        ("a", "poad"): [2.0, 4.0],
        ("b", "poad"): [0.0, 1.0],
        ("a", "rloo"): [6.0, 6.0],
        ("b", "rloo"): [1.0, 1.0],
        ("a", "twosome"): [6.0],  # not in b
    }
    grid = {
        "envs": {
            "a": {"baselines": {"warm start": 2.0, "expert": 6.0}},
            "b": {"baselines": {"warm start": -1.0, "expert": 1.0}},
        },
        "runs": [
            {"env": env, "recipe": recipe, "final": final}
            for (env, recipe), values in finals.items()
            for final in values
        ],
    }
    assert grid_tables.scores(grid) == {
        "poad": [[0.0, 0.5], [0.5, 1.0]],
        "rloo": [[1.0, 1.0], [1.0, 1.0]],
    }
    rows = grid_tables.over_environments(grid)
    # Of b, one of two runs of poad is as good as those of rloo: (1 + 0.75) / 2.
    assert rows[0][:2] == ("`rloo`", "1.00 [1.00, 1.00]") and rows[0][2].startswith("0.88 ")
    assert rows[1][0] == "`poad`" and rows[1][1].startswith("0.50 ") and rows[1][2] == "-"
