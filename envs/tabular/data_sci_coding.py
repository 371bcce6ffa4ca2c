"""DataSciCoding: write the code of a classifier of a small table."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core import TextEnv
from agentgym.envs.tabular.tables import GROUP, LEVELS, MISSING, NAMES, Table, table_of
from agentgym.errors import ConfigError
from agentgym.sandbox import Limits, check_sandbox, run_cell
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_blocks, command, plain, program_of

SPLITS = 5
FAILED = -1.0
"""Reward of code that fails."""
GOOD = 0.95
"""Score of a success."""
LONGEST = 4000
"""Maximum number of characters of the code."""
SHOWN = 400
"""Maximum number of characters of an error that is shown."""
SUBMIT = "submit"
_NAME = "build_model"
_MARK = "@@probabilities "
_LIMITS = Limits(seconds=6, output=20_000)
_MODELS = (Path(__file__).parent / "models.py").read_text(encoding="utf-8")
_CALL = """
import json as _json
_found = {name}({x_train}, {y_train}).predict_proba({x_test})
print({mark!r} + _json.dumps([float(_pair[1]) for _pair in _found]))
"""


@dataclass
class State:
    """The last code, its error, and the result.

    Attributes:
        code: the last code if it failed, or "".
        error: its error.
        failures: number of codes that failed.
        auc: the best mean AUC of a code that ran, or -1 before.
        scored: number of codes that ran.
        last: the mean AUC of the last of them, or -1.
        best: the best of them, if there may be more.
        submitted: whether the agent has ended the episode.
    """

    code: str = ""
    error: str = ""
    failures: int = 0
    auc: float = -1.0
    scored: int = 0
    last: float = -1.0
    best: str = ""
    submitted: bool = False


@dataclass(frozen=True)
class Half:
    """A random division of a table: one half for training, one for the test."""

    x_train: list[list[float]]
    y_train: list[int]
    x_test: list[list[float]]
    y_test: list[int]


@lru_cache(maxsize=64)
def halves(task: str, columns: int, rows: int) -> tuple[Half, ...]:
    """Returns the five random halves of a task's table. Class 1 has the larger target values."""
    table = table_of(task, columns, rows)
    inputs = np.stack([*table.columns.values()], axis=1)
    labels = (table.target > np.median(table.target)).astype(int)
    made = []
    for i in range(SPLITS):
        order = task_rng(task, f"half {i}").permutation(len(labels))
        train, test = order[: len(order) // 2], order[len(order) // 2 :]
        parts = (inputs[train], labels[train], inputs[test], labels[test])
        made.append(Half(*(part.tolist() for part in parts)))
    return tuple(made)


def auc(labels: list[int], scores: list[float]) -> float:
    """Returns the area under the ROC curve: the share of pairs in the right order, ties half."""
    values, truth = np.array(scores), np.array(labels, dtype=bool)
    above = values[truth][:, None] - values[~truth]
    return float(((above > 0) + 0.5 * (above == 0)).mean())


def reference(table: Table) -> str:
    """Returns code with the features that the target depends on, for logistic regression."""
    names = list(table.columns)
    lines = ["def features(x):", "    rows = []", f"    for {', '.join(names)} in x:"]
    for name in table.coded:
        column = table.columns[name]
        median = float(np.median(column[column != MISSING]))
        lines.append(f"        {name} = {median:g} if {name} == {MISSING:g} else {name}")
    made = []
    for feature in table.truth:
        if feature == GROUP:
            made += [f"float({GROUP} == {i})" for i in range(1, len(LEVELS))]
        elif feature.startswith("log("):
            made.append(f"math.{feature}")
        else:
            made.append(feature.replace("^2", "**2"))
    return "\n".join(
        [
            *lines,
            f"        rows.append([{', '.join(made)}])",
            "    return rows",
            "model = make_pipeline(FunctionTransformer(features), LogisticRegression())",
            "model.fit(x_train, y_train)",
        ]
    )


def whole(code: str) -> str:
    """Returns the function of a body. A whole function is returned as it is."""
    if f"def {_NAME}(" in code:
        return code
    body = "\n".join(f"    {line}" for line in code.split("\n"))
    return f"def {_NAME}(x_train, y_train):\n{body}\n    return model"


@lru_cache(maxsize=512)
def run(code: str, task: str, columns: int, rows: int) -> tuple[float, str]:
    """Runs code on the five halves, each in a session of its own.

    Labels of a test half are never in its session, so that code cannot read them.

    Returns:
        The mean AUC, or -1 with the error of the first half that failed.
    """
    found = []
    for half in halves(task, columns, rows):
        call = _CALL.format(
            name=_NAME,
            mark=_MARK,
            x_train=half.x_train,
            y_train=half.y_train,
            x_test=half.x_test,
        )
        outcome = run_cell((_MODELS, f"{whole(code)}\n{call}"), limits=_LIMITS)
        printed = [line for line in outcome.output.splitlines() if line.startswith(_MARK)]
        if outcome.error or outcome.stopped or not printed:
            return -1.0, _brief(outcome.error) or f"stopped: {outcome.stopped or 'no result'}"
        try:
            scores = [float(p) for p in json.loads(printed[-1].removeprefix(_MARK))]
        except (ValueError, TypeError) as error:
            return -1.0, f"predict_proba: {error}"
        if len(scores) != len(half.y_test) or not all(map(math.isfinite, scores)):
            return -1.0, "predict_proba must return two finite numbers for each row"
        found.append(auc(half.y_test, scores))
    return sum(found) / SPLITS, ""


def _brief(error: str) -> str:
    """Returns the last line of a traceback."""
    return error.strip().rpartition("\n")[2][:SHOWN]


@lru_cache(maxsize=256)
def best(task: str, columns: int, rows: int) -> float:
    """Returns the mean AUC of the reference code."""
    return run(reference(table_of(task, columns, rows)), task, columns, rows)[0]


class DataSciCoding(TextEnv):
    """Write code that builds a classifier of a small table. Its AUC is the reward.

    ## Description
    The task of POAD's DataSciCoding on generated tables. The agent completes the body of
    `build_model(x_train, y_train)`, which leaves a fitted classifier in `model`. The classifier is
    scored on five random halves of the table. Code that fails is shown with its error, and the
    agent may correct it. With several `attempts`, it also sees its scores and may improve them. The
    tables are those of `SmallML-v0`: the class depends on two columns and two squares, logarithms
    or products of columns, and maybe on the region, whose value is 0, 1 or 2. Missing values are
    written as -999.

    Code runs in a sandbox (extra `code`), in a subset of Python without imports of third parties.
    Classifiers with the interface of scikit-learn are defined there: `LogisticRegression`,
    `GaussianNB`, `KNeighborsClassifier`, `DecisionTreeClassifier`, `StandardScaler`,
    `FunctionTransformer` and `make_pipeline`. Without a sandbox, the environment cannot be made.

    ## Action Space
    Text: the body of the function, or the whole function, alone or in a code block. With several
    `attempts`, also `submit`, which ends the episode after a score.

    ## Observation Space
    Text: the table and the beginning and end of the function. After code that fails, also the
    error and the code. With several `attempts`, the last score, and the best one with its code.

    ## Rewards
    Term `task`: the area under the ROC curve on the test half, the mean of five random halves, for
    the first code that runs. Further code that runs earns its gain over the best one, so that the
    return of scores is the best of them. -1 for code that fails. An empty action costs
    `invalid_penalty`.

    ## Starting State
    A table sampled from the task name. Training and test tasks share no tables.

    ## Episode End
    Termination: `attempts` codes that run, or `submit`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the best score: 0 for an AUC of 0.5, 1 for that of logistic
    regression on the right features, and linear in between. `success` is a score of at least 0.95.
    `admissible` is empty.

    ## Arguments
    - `columns` (int, default 6): number of columns with the region, 4 to 12.
    - `rows` (int, default 60): number of rows of the table, less 100: 40 to 300.
    - `attempts` (int, default 1): number of codes that are scored, 1 to 50. Raise `max_turns` with
      it.
    - `max_turns` (int or None, default 5): turn limit.

    ## References
    POAD (arXiv 2405.15821): its prompts, rewards, attempts and splits. Differences: tables are
    generated, code runs in a sandbox, and scikit-learn is replaced by classifiers in pure Python.
    Several scored attempts, the best of which counts: MLE-Dojo (arXiv 2505.07782).

    ## Version History
    v0: first version.
    """

    State = State
    cased = True

    def __init__(
        self,
        *,
        columns: int = 6,
        rows: int = 60,
        attempts: int = 1,
        max_turns: int | None = 5,
        **kwargs: Any,
    ):
        if not 4 <= columns <= len(NAMES):
            raise ConfigError(f"columns must be 4 to {len(NAMES)}, got {columns}.")
        if not 40 <= rows <= 300:
            raise ConfigError(f"rows must be 40 to 300, got {rows}.")
        if not 1 <= attempts <= 50:
            raise ConfigError(f"attempts must be 1 to 50, got {attempts}.")
        super().__init__(max_turns=max_turns, **kwargs)
        check_sandbox("monty")
        self.columns, self.rows, self.attempts = columns, rows, attempts
        self.tasks = Tasks.generated()
        ending = _ONE if attempts == 1 else _SEVERAL.format(attempts=attempts)
        self.instructions = _INSTRUCTIONS + ending

    @property
    def table(self) -> Table:
        """The table of the task, which snapshots do not contain."""
        return table_of(self.task, self.columns, self.rows)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look(0.0)

    def _advance(self, action: str) -> TimeStep:
        code = program_of(action, _NAME) or program_of(action, "model")
        code = (code or (code_blocks(action) or [command(action)])[-1]).strip("\n")
        if not code.strip():
            return self._invalid(f"Reply with the body of {_NAME}.")
        state = self.state
        if self.attempts > 1 and plain(code) == SUBMIT:
            if not state.scored:
                return self._invalid("There is no score yet. Write code before you submit.")
            state.submitted = True
            return self._look(0.0)
        if len(code) > LONGEST:
            value, error = -1.0, f"the code must have at most {LONGEST:,} characters"
            code = code[:SHOWN]
        else:
            value, error = run(code, self.task, self.columns, self.rows)
        if error:
            state.code, state.error, state.failures = code, error, state.failures + 1
            return self._look(FAILED)
        gain = max(value - max(state.auc, 0.0), 0.0)
        if value > state.auc:
            state.auc, state.best = value, code if self.attempts > 1 else ""
        state.code, state.error, state.last, state.scored = "", "", value, state.scored + 1
        return self._look(gain)

    def _look(self, reward: float) -> TimeStep:
        state, score = self.state, 0.0
        done = state.submitted or state.scored >= self.attempts
        if state.scored:
            most = best(self.task, self.columns, self.rows)
            score = min(max((state.auc - 0.5) / (most - 0.5), 0.0), 1.0)
        content = f"{state.code}{state.best}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=8)
        more = f" {state.scored} {state.last} {state.submitted}" if self.attempts > 1 else ""
        best_of = "best mean" if self.attempts > 1 else "mean"
        return TimeStep(
            text=f"The {best_of} AUC is {state.auc:.3f}." if done else self._prompt(),
            rewards={"task": reward},
            terminated=done,
            success=score >= GOOD,
            progress=score,
            state_key=f"{self.task} {state.failures} {digest.hexdigest()} {state.auc}{more}",
        )

    def _prompt(self) -> str:
        table, state = self.table, self.state
        ranges = [(name, column.min(), column.max()) for name, column in table.columns.items()]
        lines = [
            "Columns in order:",
            *(f"- {name}: {low:g} to {high:g}" for name, low, high in ranges),
            f"x_train: {len(table.target) // 2} rows of {len(ranges)} numbers. y_train: one 0 or 1 "
            "for each row.",
        ]
        if state.scored:
            lines += [
                f"Attempt {state.scored} of {self.attempts} has a mean AUC of {state.last:.3f}. "
                f"The best is {state.auc:.3f}, of this code:",
                state.best,
                f"Improve the function, or reply {SUBMIT}:",
            ]
        if state.error:
            lines += [f"This code failed: {state.error}", state.code, "Write the function again:"]
        return "\n".join([*lines, f"def {_NAME}(x_train, y_train):", "    ...", "    return model"])

    def expert(self) -> str | None:
        """Writes logistic regression on the features that the target depends on, and submits."""
        return SUBMIT if self.state.scored else reference(self.table)


_INSTRUCTIONS = (
    "Write Python code that builds a classifier of a small table.\n"
    "Each turn, reply with the body of build_model(x_train, y_train), which leaves a fitted "
    "classifier in model, for example:\n"
    "```python\n"
    "model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0))\n"
    "model.fit(x_train, y_train)\n"
    "```\n"
    "Rules:\n"
    "- x_train is a list of rows, each a list of numbers. Missing values are -999. The last column "
    "is the region: 0, 1 or 2 for A, B or C.\n"
    "- The class depends on two columns, two squares, logarithms or products of columns, and maybe "
    "on the region.\n"
    "- Defined are LogisticRegression(C), GaussianNB(), KNeighborsClassifier(n_neighbors), "
    "DecisionTreeClassifier(max_depth), StandardScaler(), FunctionTransformer(f), where f maps "
    "all rows to new rows, make_pipeline(...) and the module math.\n"
    "- model.predict_proba(rows) must return two probabilities for each row.\n"
    "- A subset of Python runs the code, without numpy, files and network. Time is limited.\n"
    "- Code that fails costs 1 point. You see the error and can correct the code.\n"
)
_ONE = (
    "The episode ends with the first code that runs. Its reward is the mean area under the ROC "
    "curve on five random halves of the table."
)
_SEVERAL = (
    "Code that runs is scored by the mean area under the ROC curve on five random halves of the "
    "table. You see the score and can improve the code. The episode ends after {attempts} scores, "
    "or when you reply submit. The best score counts."
)
