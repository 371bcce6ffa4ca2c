"""Groups of runs, their table and their figure."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.evaluation.comparison import (
    WIDTH,
    Group,
    compact,
    compare_groups,
    duration,
    grouped,
    number,
    pooled,
    table,
)
from agentgym.evaluation.comparison_figure import AXES, curve_of, draw_comparison, try_to_draw
from agentgym.evaluation.runs import Evaluation, TrainingRun

RETURNS = st.floats(-1e9, 1e9, allow_nan=False)
NAMES = st.text("abc_=.01 $", min_size=1, max_size=40).map(str.strip).filter(bool)


def made(
    recipe: str = "poad",
    seed: int = 0,
    rewards: tuple[float, ...] = (0.5,),
    finished: bool = True,
    **config: Any,
) -> TrainingRun:
    """A run whose evaluations are 100 environment steps apart."""
    curve = tuple(Evaluation(100 * i, 700 * i, reward) for i, reward in enumerate(rewards))
    chosen = {"env_id": "AgentGym/NumberLine-v0", "seed": seed, "recipe": recipe, **config}
    last = curve[-1]
    folder = Path(f"{recipe}-{seed}-{config}")
    return TrainingRun(
        folder, recipe, seed, finished, curve, 0.25, last.env_steps, last.tokens, 60.0, chosen
    )


def group(name: str, rewards: list[float]) -> Group:
    return Group(name, tuple(made(seed=i, rewards=(r,)) for i, r in enumerate(rewards)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(RETURNS, min_size=1, max_size=4), min_size=1, max_size=3), NAMES)
def test_estimates_stay_in_the_range_of_the_runs_and_the_table_in_80_columns(
    columns: list[list[float]], name: str
):
    rows = compare_groups([group(f"{name}{i}", column) for i, column in enumerate(columns)])
    for row, column in zip(rows, columns, strict=True):
        assert row.reward is not None and min(column) <= row.reward.mean <= max(column)
        assert (row.reward.low is None) == (len(column) == 1)
        if row.reward.low is not None and row.reward.high is not None:
            assert min(column) <= row.reward.low <= row.reward.high <= max(column)
        if row.better is not None and row.better.low is not None and row.better.high is not None:
            assert 0 <= row.better.low <= row.better.high <= 1
            assert 0 <= row.better.mean <= 1
    for training in (False, True):
        lines = table(rows, training=training).split("\n")
        assert max(map(len, lines)) <= WIDTH and all(f"{name}{i}" in "".join(lines) for i in (0,))


def test_two_seeds_show_both_runs_and_no_interval_beyond_them():
    [row] = compare_groups([group("turn", [1.0, 0.532])])
    assert row.reward is not None and (row.reward.low, row.reward.high) == (0.532, 1.0)
    assert "  seeds 0 1: 1.000 0.532" in table([row]).split("\n")


def test_a_clear_difference_and_none_are_told_apart():
    first = group("poad", [0.8, 0.9, 1.0])
    rows = compare_groups([first, group("rloo", [0.1, 0.2, 0.3]), group("turn", [0.8, 0.9, 1.0])])
    assert [row.better and row.better.mean for row in rows] == [None, 0.0, 0.5]
    assert rows[1].better and (rows[1].better.low, rows[1].better.high) == (0.0, 0.0)
    text = table(rows)
    assert "a run is better than one of poad" in " ".join(text.split())
    assert text.split("\n")[1].split()[:4] == ["poad", "3", "0.900", "[0.800,"]


def test_runs_that_failed_or_go_on_are_named():
    runs = (made(seed=0), made(seed=1, finished=False))
    rows = compare_groups([Group("poad", runs, ("seed 2 failed with status 1: " + "x " * 60,))])
    text = table([*rows, *compare_groups([Group("turn", (), ("seed 0 failed",))])])
    assert "  unfinished: 1" in text and "  seed 2 failed with status 1: x x" in text
    assert "turn\n  no finished run\n  seed 0 failed" in text
    assert max(map(len, text.split("\n"))) <= WIDTH


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_with_the_settings_and_the_seed_of_another_is_named(finished: bool):
    """As one that was repeated after a change of the code."""
    old = replace(made(rewards=(0.1,), finished=finished), folder=Path("old"))
    new = replace(made(rewards=(0.9,)), folder=Path("new"))
    kept, other = (old, new) if finished else (new, old)
    [found] = grouped([old, new, made(seed=1)])
    assert found.runs == (kept, made(seed=1))
    assert found.notes == (
        f"left out: {other.folder}, which has the settings and the seed of {kept.folder}",
    )
    assert f"  {found.notes[0]}" in table(compare_groups([found]))


def test_other_environments_are_not_compared():
    rows = compare_groups(
        grouped([made(env_id="A-v0", seed=i) for i in (0, 1)] + [made("turn", env_id="B-v0")])
    )
    assert [(row.name, row.better) for row in rows] == [
        ("poad A-v0", None),
        ("turn B-v0", None),
    ]


def test_groups_have_the_settings_in_which_the_runs_of_a_recipe_differ():
    runs = [
        made(seed=0, lr=1e-3, threads=1), made(seed=1, lr=1e-3, threads=2), made(seed=0, lr=1e-4),
        made("turn", seed=0, lr=5e-4, gamma=1.0), made("turn", seed=0, lr=5e-4, gamma=1.0),
    ]  # fmt: skip
    found = grouped(runs)
    assert [(each.name, len(each.runs)) for each in found] == [
        ("poad lr=0.001", 2),
        ("poad lr=0.0001", 1),
        ("turn", 1),
    ]


def test_settings_without_a_value_and_those_that_belong_to_others_tell_groups_apart():
    def separate(window: int) -> TrainingRun:
        return made(critic_backbone="separate", critic_window=window, critic_sees="prompt")

    runs = [
        made(critic_backbone="shared"), separate(2), separate(4),
        made(critic_backbone="shared", wrap=["Notes"]),
        made(critic_backbone="shared", env_kwargs={"size": 9}),
    ]  # fmt: skip
    assert [group.name for group in grouped(runs)] == [
        "poad NumberLine-v0 critic_backbone=shared",
        "poad NumberLine-v0 critic_backbone=separate critic_window=2",
        "poad NumberLine-v0 critic_backbone=separate critic_window=4",
        "poad NumberLine-v0 critic_backbone=shared wrap=[Notes]",
        "poad NumberLine-v0 size=9 critic_backbone=shared",
    ]


def test_pooled_runs_are_compared_by_setting():
    low, high = group("a", [0.1, 0.2]), group("b", [10.1, 10.2])
    row = pooled("turn", [group("c", [0.3, 0.4]), group("d", [10.3, 10.4])], [low, high])
    assert row.better and (row.better.mean, row.better.low) == (1.0, 1.0)
    assert pooled("turn", [Group("a", ())]).reward is None


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        *(
            (number(x), text)
            for x, text in [(0.9996, "1.000"), (-0.5, "-0.500"), (-45.678, "-45.7")]
        ),
        *((compact(x), text) for x, text in [(950, "950"), (999.7, "1.0k"), (4087, "4.1k")]),
        *((compact(x), text) for x, text in [(35478, "35.5k"), (1.2e6, "1.2M"), (123456, "123k")]),
        *((duration(x), text) for x, text in [(15.2, "15s"), (750, "12m"), (12240, "3.4h")]),
    ],
)
def test_numbers_are_short(shown: str, expected: str):
    assert shown == expected


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_curve_ends_at_the_number_of_the_table_and_its_band_holds_it(data: st.DataObject):
    curves = data.draw(st.lists(st.lists(RETURNS, min_size=1, max_size=5), min_size=1, max_size=4))
    runs = [made(seed=i, rewards=tuple(curve)) for i, curve in enumerate(curves)]
    x, mean, low, high = curve_of(runs, AXES["environment steps"])
    [row] = compare_groups([Group("poad", tuple(runs))])
    assert row.reward is not None and mean[-1] == pytest.approx(row.reward.mean, rel=1e-9, abs=1e-6)
    assert np.all(np.diff(x) > 0) and len(x) >= 1
    slack = 1e-6 * (1 + np.abs(mean))
    assert np.all(low <= high) and np.all(low >= min(map(min, curves)) - slack)
    assert np.all(high <= max(map(max, curves)) + slack)


def test_a_curve_of_runs_in_progress_ends_with_the_shortest():
    runs = [made(rewards=(0.0, 1.0), finished=False), made(rewards=(0.0, 1.0, 2.0), finished=False)]
    assert curve_of(runs, AXES["environment steps"])[0][-1] == 100


@pytest.mark.parametrize("name", ["compare.png", "compare.svg"])
def test_the_figure_is_drawn_for_any_names_and_numbers_of_groups(name: str, tmp_path: Path):
    pytest.importorskip("matplotlib")
    groups = [group(f"poad model=$x_{i}$ {'y' * 90}", [0.1, 0.2]) for i in range(12)]
    draw_comparison([*groups, Group("empty", ())], tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = try_to_draw([group("poad", [0.1])], tmp_path / "compare.png")
    assert text.startswith("No figure:") and "agentgym-suite[train]" in text
    assert "no figure" in try_to_draw([Group("poad", ())], tmp_path / "compare.png")
