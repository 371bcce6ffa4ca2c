"""Generated tables, the features that can be made of their columns, and linear regression."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.tasks import task_rng

NAMES = "age depth distance energy height income power pressure speed volume weight width".split()
GROUP = "region"
LEVELS = ("A", "B", "C")
MISSING = -999.0
HIDDEN = 100
"""Number of hidden rows, on which a model is scored."""
_RIDGE = 1e-6
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose first rows are for training and whose last rows are hidden.

    Attributes:
        rows: number of rows for training.
        columns: the values of each column. Those of the region are indices of `LEVELS`.
        target: the values to be predicted.
        truth: the features that the target depends on.
        coded: the columns with missing values, which are written as -999.
    """

    rows: int
    columns: dict[str, Floats]
    target: Floats
    truth: tuple[str, ...]
    coded: tuple[str, ...]

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """The columns with numbers, in order."""
        return tuple(name for name in self.columns if name != GROUP)

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The columns of each feature in the matrix of all inputs, whose column 0 is constant.

        Features are the columns, squares, logarithms and products of numbers. The region has two
        columns, all other features have one.
        """
        names = self.numeric
        made = [form.format(name) for form in ("{}^2", "log({})") for name in names]
        made += [f"{one}*{other}" for one, other in combinations(names, 2)]
        places = {feature: [i] for i, feature in enumerate((*names, *made), start=1)}
        return {**places, GROUP: [len(places) + 1, len(places) + 2]}

    @cached_property
    def description(self) -> str:
        """The number of rows for training, and the range of each column in them."""
        lines = [f"Table: {self.rows} rows"]
        for name in self.numeric:
            known = self.columns[name][: self.rows]
            lines.append(f"- {name}: {known.min():g} to {known.max():g}")
        return "\n".join([*lines, f"- {GROUP}: {', '.join(LEVELS)}"])


@dataclass(frozen=True)
class Fit:
    """A linear regression.

    Attributes:
        places: the inputs of the model: the constant and its features.
        weights: their weights, of shape (inputs of the model,).
        inverse: inverse of X'X of the inputs of the model.
        squares: sum of the squared errors on the training rows.
        rows: number of rows for training.
    """

    places: list[int]
    weights: Floats
    inverse: Floats
    squares: float
    rows: int

    @property
    def validated(self) -> float:
        """The root mean square error that generalised cross-validation estimates.

        "Generalized Cross-Validation as a Method for Choosing a Good Ridge Parameter" (Golub, Heath
        and Wahba, Technometrics 21, 1979).
        """
        return sqrt(self.squares * self.rows) / max(self.rows - len(self.places), 1)

    @property
    def strengths(self) -> dict[int, float]:
        """The absolute t statistic of each input of the model."""
        variance = self.squares / max(self.rows - len(self.places), 1)
        strengths = np.abs(self.weights) / np.sqrt(variance * self.inverse.diagonal())
        return dict(zip(self.places, strengths.tolist(), strict=True))


@lru_cache(maxsize=256)
def table_of(task: str, columns: int, rows: int) -> Table:
    """Returns the table of a task. The right features at least halve the error of all columns."""
    rng = task_rng(task, f"tabular {columns} {rows}")
    while True:
        table = _draw(rng, columns, rows)
        first, best = bounds(table)
        if 2 * best < first:
            return table


@lru_cache(maxsize=256)
def bounds(table: Table) -> tuple[float, float]:
    """Returns the errors on the hidden rows of the first model and of the right one."""
    first = hidden_error(table, fit(table, table.numeric))
    return first, hidden_error(table, fit(table, table.truth, table.coded), table.coded)


def _draw(rng: np.random.Generator, columns: int, rows: int) -> Table:
    """Returns a table with two columns, two other features and maybe the region in its target."""
    total = rows + HIDDEN
    names = [NAMES[i] for i in sorted(rng.permutation(len(NAMES))[: columns - 1].tolist())]
    values: dict[str, Floats] = {name: rng.uniform(0.1, 10, total).round(2) for name in names}
    values[GROUP] = rng.integers(len(LEVELS), size=total).astype(float)
    clean = Table(rows, values, np.zeros(total), (), ())
    made = [feature for feature in clean.places if feature not in values]
    chosen = [names[i] for i in rng.permutation(len(names))[:2].tolist()]
    chosen += [made[i] for i in rng.permutation(len(made))[:2].tolist()]
    chosen += [GROUP] * int(rng.integers(2))
    target, inputs = rng.normal(10, 0.5, total), _inputs(clean, frozenset())
    for feature in chosen:
        for place in clean.places[feature]:
            target = target + inputs[:, place] * rng.choice((-1, 1)) * rng.uniform(1, 3)
    coded = [names[i] for i in sorted(rng.permutation(len(names))[: rng.integers(3)].tolist())]
    shown = dict(values)
    for name in coded:
        shown[name] = np.where(rng.random(total) < 0.1, MISSING, values[name])
    truth = tuple(feature for feature in clean.places if feature in chosen)
    return Table(rows, shown, target.round(2), truth, tuple(coded))


@lru_cache(maxsize=32)
def _inputs(table: Table, filled: frozenset[str]) -> Floats:
    """Returns the matrix of all inputs (see `Table.places`).

    All columns but the first are scaled to mean 0 and deviation 1 on the training rows. The median
    of a column stands for its missing values if the column is filled.
    """
    numbers = {name: table.columns[name] for name in table.numeric}
    for name in filled:
        known = numbers[name][: table.rows]
        median = np.median(known[known != MISSING])
        numbers[name] = np.where(numbers[name] == MISSING, median, numbers[name])
    found = list(numbers.values())
    found += [column * column for column in numbers.values()]
    found += [np.log(np.maximum(column, 0.01)) for column in numbers.values()]
    found += [one * other for one, other in combinations(numbers.values(), 2)]
    found += [(table.columns[GROUP] == i).astype(float) for i in (1, 2)]
    values = np.stack(found, axis=1)
    known = values[: table.rows]
    scaled = (values - known.mean(axis=0)) / (known.std(axis=0) + 1e-9)
    return np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)


@lru_cache(maxsize=256)
def _moments(table: Table, filled: frozenset[str], hidden: bool) -> tuple[Floats, Floats, float]:
    """Returns X'X, X'y and y'y of all inputs X and the target y, less its mean."""
    rows = slice(table.rows, None) if hidden else slice(table.rows)
    inputs = _inputs(table, filled)[rows]
    target = (table.target - table.target[: table.rows].mean())[rows]
    return inputs.T @ inputs, inputs.T @ target, float(target @ target)


def fit(table: Table, features: Sequence[str], filled: Collection[str] = ()) -> Fit:
    """Returns the linear regression on some features, with the columns that were filled."""
    places = [0, *(place for feature in features for place in table.places[feature])]
    gram, cross, power = _moments(table, frozenset(filled), False)
    inverse = np.linalg.inv(gram[places][:, places] + _RIDGE * np.eye(len(places)))
    weights = inverse @ cross[places]
    squares = max(power - float(weights @ cross[places]), _RIDGE)
    return Fit(places, weights, inverse, squares, table.rows)


def related(table: Table, model: Fit, filled: Collection[str] = ()) -> list[float]:
    """Returns the absolute correlation of each input with the errors on the training rows."""
    gram, cross, _ = _moments(table, frozenset(filled), False)
    products = np.abs(cross - gram[:, model.places] @ model.weights)
    return (products / sqrt(model.squares * table.rows)).tolist()


def hidden_error(table: Table, model: Fit, filled: Collection[str] = ()) -> float:
    """Returns the root mean square error of a regression on the hidden rows."""
    gram, cross, power = _moments(table, frozenset(filled), True)
    weights, places = model.weights, model.places
    squares = weights @ gram[places][:, places] @ weights - 2 * weights @ cross[places] + power
    return sqrt(max(float(squares), _RIDGE) / HIDDEN)


def errors_of(table: Table, model: Fit, filled: Collection[str] = ()) -> Floats:
    """Returns the errors of a regression on the training rows, target minus prediction."""
    target = table.target[: table.rows]
    inputs = _inputs(table, frozenset(filled))[: table.rows, model.places]
    return target - target.mean() - inputs @ model.weights
