"""DataSciCoding: scores are AUCs on rows that the code has not seen, errors cost a point."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.tabular import models
from agentgym.envs.tabular.data_sci_coding import DataSciCoding, auc, halves, reference, run, whole
from agentgym.envs.tabular.tables import table_of
from agentgym.errors import ConfigError
from agentgym.sandbox import Limits, run_cell

pytest.importorskip("pydantic_monty", reason="needs the extra code")

NB = "model = GaussianNB()\nmodel.fit(x_train, y_train)"
KINDS = (
    "LogisticRegression(C=0.5)",
    "GaussianNB()",
    "KNeighborsClassifier(3)",
    "DecisionTreeClassifier(2)",
    "make_pipeline(FunctionTransformer(lambda x: [[a * b] for a, b in x]), StandardScaler(), "
    "LogisticRegression())",
)
PAIRS = st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(-3, 3)), min_size=2, max_size=20)


@given(PAIRS)
@settings(deadline=None)
def test_the_auc_is_the_share_of_ordered_pairs(pairs):
    ones = [score for label, score in pairs if label]
    zeros = [score for label, score in pairs if not label]
    if not ones or not zeros:
        return
    right = sum((a > b) + (a == b) / 2 for a in ones for b in zeros) / (len(ones) * len(zeros))
    labels, scores = zip(*pairs, strict=True)
    assert auc([*labels], [float(s) for s in scores]) == pytest.approx(right)


def test_classifiers_learn_and_are_the_same_in_the_sandbox():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)).round(2).tolist()
    y = [int(a * b > 0) for a, b in x]
    source = Path(models.__file__).read_text()
    found = {}
    for kind in KINDS:
        model = eval(kind, vars(models).copy()).fit(x, y)
        chances = model.predict_proba(x)
        assert all(abs(a + b - 1) < 1e-9 and 0 <= b <= 1 for a, b in chances)
        found[kind] = auc(y, [b for _, b in chances])
        code = f"import json\nx = {x}\nm = {kind}.fit(x, {y})\n"
        outcome = run_cell((source, f"{code}print(json.dumps(m.predict_proba(x)))"))
        assert json.loads(outcome.output) == [[*pair] for pair in chances]
    assert found[KINDS[0]] < 0.8 < found[KINDS[4]]  # only the last has the product as a feature
    assert min(found[KINDS[2]], found[KINDS[3]]) > 0.75
    circle = [int(a * a + b * b > 1.4) for a, b in x]
    naive = models.GaussianNB().fit(x, circle).predict_proba(x)
    assert auc(circle, [b for _, b in naive]) > 0.9


def test_logistic_regression_has_a_slope_of_zero_at_its_weights():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(200, 3)), rng.normal(size=200)
    y = (x @ [1.0, -2.0, 0.0] + noise > 0).astype(int)
    model = models.LogisticRegression(C=2.0).fit(x.tolist(), y.tolist())
    inputs = np.c_[np.ones(200), (x - x.mean(0)) / x.std(0)]
    chances = 1 / (1 + np.exp(-inputs @ model.weights))
    slope = inputs.T @ (chances - y) + np.r_[0, model.weights[1:]] / 2.0
    assert np.abs(slope).max() < 1e-6


def test_halves_are_disjoint_and_differ():
    parts = halves("train/0", 6, 60)
    for half in parts:
        assert len(half.x_train) == len(half.x_test) == 80
        rows = {tuple(row) for row in half.x_train} | {tuple(row) for row in half.x_test}
        assert len(rows) == 160
        assert sum(half.y_train) + sum(half.y_test) == 80
    assert len({tuple(half.y_test) for half in parts}) == 5


def test_a_body_and_a_whole_function_are_the_same():
    body = whole(NB)
    assert body.startswith("def build_model(x_train, y_train):\n    model")
    assert whole(body) == body
    assert run(body, "train/1", 6, 60) == run(NB, "train/1", 6, 60)


def test_the_expert_succeeds_and_the_first_code_that_runs_ends_the_episode():
    env = DataSciCoding()
    for task in ("train/0", "test/3"):
        env.reset(seed=0, options={"task": task})
        start = env.snapshot()
        code = env.expert()
        assert code == reference(table_of(task, 6, 60))
        reply = f"Here it is:\n```python\n{code}\n```\nIt predicts by\n```\nmodel.predict(x)\n```"
        _, best, terminated, _, info = env.step(reply)
        assert terminated and info["success"] and info["progress"] == 1.0 and best > 0.9
        env.restore(start)
        observation, reward, terminated, _, info = env.step(NB)
        assert terminated and 0.5 < reward < best
        assert observation == f"The mean AUC is {reward:.3f}."


def test_the_best_of_several_scores_counts():
    env = DataSciCoding(attempts=3, max_turns=9)
    env.reset(seed=0, options={"task": "train/0"})
    assert not env.step("submit")[4]["valid"] and "after 3 scores" in env.instructions
    start, best = env.snapshot(), reference(table_of("train/0", 6, 60))
    observation, low, terminated, _, info = env.step(NB)
    assert not (terminated or info["success"]) and f"AUC of {low:.3f}" in observation
    assert env.step("model = (")[1] == -1.0
    observation, gain, terminated, _, info = env.step(best)
    assert info["success"] and info["progress"] == 1.0 and not terminated
    assert low + gain == pytest.approx(run(best, "train/0", 6, 60)[0])
    assert f"The best is {low + gain:.3f}, of this code:\n{best}\n" in observation
    here = env.snapshot()
    observation, reward, terminated, _, info = env.step(NB)  # a worse one, and the last
    assert (reward, terminated, info["progress"]) == (0.0, True, 1.0)
    assert observation == f"The best mean AUC is {low + gain:.3f}."
    env.restore(json.loads(json.dumps(here)))
    _, reward, terminated, _, info = env.step("Submit.")
    assert (reward, terminated, info["success"], info["valid"]) == (0.0, True, True, True)
    env.restore(start)
    assert env.step(env.expert() or "")[1] > 0.9 and env.expert() == "submit"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("model = (", "SyntaxError"),
        ("model = GaussianNB(", "SyntaxError"),
        ("pass", "NameError"),
        ("model = 3", "AttributeError"),
        ("import numpy", "ModuleNotFoundError"),
        ("raise ValueError('x' * 9999)", "xxx"),
        ("class M:\n    def predict_proba(self, x):\n        return [[0, 1]]\nmodel = M()", "each"),
        ("print('@@probabilities [1]')\nmodel = None", "AttributeError"),
        ("#" * 5000, "at most 4,000"),
    ],
)
def test_errors_cost_a_point_and_are_shown(code: str, message: str):
    env = DataSciCoding()
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(code)
    assert (reward, terminated, truncated, info["valid"]) == (-1.0, False, False, True)
    assert message in observation and len(observation) < 2000
    assert json.loads(json.dumps(env.snapshot()))["state"]["failures"] == 1


def test_endless_code_is_stopped(monkeypatch: pytest.MonkeyPatch):
    from agentgym.envs.tabular import data_sci_coding

    monkeypatch.setattr(data_sci_coding, "_LIMITS", Limits(seconds=1))
    env = DataSciCoding()
    env.reset(seed=0)
    observation, reward, terminated, _, _ = env.step("while True:\n    pass")
    assert reward == -1.0 and not terminated and "This code failed" in observation


def test_no_session_sees_the_labels_of_another_half():
    env = DataSciCoding()
    env.reset(seed=0)
    code = (
        "try:\n    seen = SEEN\nexcept NameError:\n    seen = 0\n"
        "SEEN = 1\nif seen:\n    raise ValueError('carried over')\n" + NB
    )
    assert env.step(code)[2]


@pytest.mark.parametrize("arguments", [{"columns": 3}, {"columns": 13}, {"rows": 39}])
def test_wrong_arguments_are_refused(arguments: dict):
    with pytest.raises(ConfigError, match="must be"):
        DataSciCoding(**arguments)
