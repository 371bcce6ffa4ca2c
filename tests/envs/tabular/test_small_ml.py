"""SmallML: regressions are those of least squares, and scores lie between the two known errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.tabular.small_ml import SmallML
from agentgym.envs.tabular.tables import (
    GROUP,
    MISSING,
    Table,
    bounds,
    errors_of,
    fit,
    hidden_error,
    related,
    table_of,
)
from agentgym.errors import ConfigError, SnapshotError


def inputs(table: Table, features: list[str], filled: tuple[str, ...]) -> np.ndarray:
    """Returns a constant and the features, computed from their names."""
    numbers = {}
    for name in table.numeric:
        column = table.columns[name].copy()
        known = column[: table.rows]
        if name in filled:
            column[column == MISSING] = np.median(known[known != MISSING])
        numbers[name] = column
    found = [np.ones(len(table.target))]
    for feature in features:
        if feature == GROUP:
            found += [table.columns[GROUP] == 1, table.columns[GROUP] == 2]
        elif feature.startswith("log("):
            found.append(np.log(np.maximum(numbers[feature[4:-1]], 0.01)))
        else:
            name, _, other = feature.replace("^2", f"*{feature[:-2]}").partition("*")
            found.append(numbers[name] * (numbers[other] if other else 1))
    return np.stack(found, axis=1).astype(float)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.data())
def test_a_fit_is_that_of_least_squares(number: int, data: st.DataObject):
    table = table_of(f"train/{number}", 6, 60)
    features = data.draw(st.lists(st.sampled_from(sorted(table.places)), max_size=8, unique=True))
    filled = table.coded
    model, matrix = fit(table, features, filled), inputs(table, features, filled)
    known, target = matrix[:60], table.target[:60]
    weights, *_ = np.linalg.lstsq(known, target, rcond=None)
    errors = target - known @ weights
    assert errors_of(table, model, filled) == pytest.approx(errors, abs=1e-3)
    squares = float(errors @ errors)
    assert model.validated == pytest.approx((squares * 60) ** 0.5 / (60 - known.shape[1]), 1e-3)
    hidden = table.target[60:] - matrix[60:] @ weights
    assert hidden_error(table, model, filled) == pytest.approx(np.mean(hidden**2) ** 0.5, 1e-3)
    spread = squares / (60 - known.shape[1]) * np.linalg.inv(known.T @ known).diagonal()[1:]
    strengths = [model.strengths[i] for name in features for i in table.places[name]]
    assert strengths == pytest.approx(abs(weights[1:]) / spread**0.5, rel=1e-2, abs=1e-2)
    found = related(table, model, filled)
    others = [name for name in sorted(table.places) if name != GROUP and name not in features]
    for name in others[:3]:
        column = inputs(table, [name], filled)[:60, 1]
        expected = abs(np.corrcoef(column, errors)[0, 1])
        assert found[table.places[name][0]] == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize(("columns", "rows"), [(4, 40), (6, 60), (9, 50)])
def test_the_right_features_halve_the_error(columns: int, rows: int):
    coded = 0
    for i in range(20):
        table = table_of(f"test/{i}", columns, rows)
        first, best = bounds(table)
        assert 0.4 < best < first / 2
        assert len(table.columns) == columns and len(table.target) == rows + 100
        assert len(set(table.truth) - {GROUP}) == 4
        for name in table.numeric:
            assert (MISSING in table.columns[name]) == (name in table.coded)
        coded += len(table.coded)
    assert coded


@pytest.mark.parametrize("options", [{}, {"columns": 9, "rows": 50, "diagnostics": False}])
def test_the_expert_has_the_best_score_and_noise_lowers_it(options: dict):
    env = SmallML(**options)
    for i in range(8):
        env.reset(seed=0, options={"task": f"{('train', 'test')[i % 2]}/{i}"})
        while (action := env.expert() or "") != "submit":
            assert env.step(action)[-1]["valid"]
        best = env.snapshot()
        _, reward, terminated, _, info = env.step("submit")
        assert (reward, terminated, info["success"]) == (1.0, True, True)
        env.restore(best)
        others = [name for name in env.table.places if name not in env.table.truth]
        env.state.features += others[:15]
        assert env.step("submit")[1] < 1


def test_the_first_model_has_a_score_of_zero():
    env = SmallML()
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("submit")
    assert (observation, reward, terminated) == ("The score of the model is 0.00.", 0.0, True)
    assert not info["success"]


@pytest.fixture
def env() -> SmallML:
    """An environment at the start of a task with missing values."""
    env = SmallML()
    env.reset(
        seed=0, options={"task": next(t for t in env.tasks.train if table_of(t, 6, 60).coded)}
    )
    return env


def test_actions_change_the_model(env: SmallML):
    name, other = env.table.numeric[:2]
    for action in (f"add {name}^2", f"ADD LOG({name})", f"add {name}*{other}", f"remove {other}"):
        assert env.step(action)[-1]["valid"], action
    assert env.step("add region")[-1]["valid"]
    assert env.state.features == [
        *(column for column in env.table.numeric if column != other),
        *(f"{name}^2", f"log({name})", f"{name}*{other}", "region"),
    ]
    coded = env.table.coded[0]
    observation, *_ = env.step(f"fill {coded}")
    assert f"Filled columns: {coded}\n" in observation
    while env.state.features:
        observation, *_ = env.step(f"remove {env.state.features[0]}")
    assert "Model: linear regression on nothing\n" in observation


def test_the_factors_of_a_product_may_have_any_order(env: SmallML):
    name, other = env.table.numeric[:2]
    assert env.step(f"add {other}*{name}")[-1]["valid"]
    assert env.state.features[-1] == f"{name}*{other}"
    assert env.step(f"remove {other}*{name}")[-1]["valid"]


def test_a_look_shows_the_mean_errors(env: SmallML):
    name = env.table.numeric[0]
    errors = errors_of(env.table, fit(env.table, env.table.numeric))
    fifth = np.argsort(env.table.columns[name][:60], kind="stable")[:12]
    observation, *_ = env.step(f"look {name}")
    assert observation.startswith(f"Mean error by {name}: ")
    assert f": {errors[fifth].mean():+.2f}, " in observation
    group = env.table.columns[GROUP][:60] == 0
    assert f"A: {errors[group].mean():+.2f}, B: " in env.step("look region")[0]


def test_impossible_actions_are_explained(env: SmallML):
    name = env.table.numeric[0]
    for action in (f"add {name}", "remove region", f"add {name}^3", "look target", "fill region"):
        observation, *_, info = env.step(action)
        assert not info["valid"] and f"{action} is not possible with this model." in observation
    assert not env.step("train")[-1]["valid"]


def test_a_damaged_snapshot_is_refused(env: SmallML):
    saved = env.snapshot()
    saved["state"]["features"] = ["colour"]
    with pytest.raises(SnapshotError, match="another table"):
        env.restore(saved)


@pytest.mark.parametrize("arguments", [{"columns": 3}, {"columns": 13}, {"rows": 39}])
def test_arguments_out_of_range(arguments: dict):
    with pytest.raises(ConfigError, match=f"^{next(iter(arguments))} must be"):
        SmallML(**arguments)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("add {0}\u00b2", "add {0}^2"),
        ("add {0}**2", "add {0}^2"),
        ("add {0} ^ 2.", "add {0}^2"),
        ("add {0}*{0}", "add {0}^2"),
        ("add {0} * {1}", "add {0}*{1}"),
        ("add {1} \u00d7 {0}", "add {0}*{1}"),
        ("**add `log({0})`**", "add log({0})"),
        ("Add ln({0})", "add log({0})"),
        ("add log {0}", "add log({0})"),
        ("look at {0}", "look {0}"),
    ],
)
def test_features_may_be_written_as_in_mathematics(said: str, meant: str):
    env = SmallML()
    env.reset(seed=0)
    columns = env.table.numeric[:2]
    expected = env.step(meant.format(*columns))
    env.reset(seed=0)
    got = env.step(said.format(*columns))
    assert got == expected and got[4]["valid"]


@pytest.mark.parametrize("said", ["add {0}^3", "add {0}^2*{1}", "add {0} and {1}", "add {0} {1}"])
def test_other_features_are_refused(said: str):
    env = SmallML()
    env.reset(seed=0)
    assert not env.step(said.format(*env.table.numeric[:2]))[4]["valid"]
