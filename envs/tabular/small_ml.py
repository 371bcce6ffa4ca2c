"""SmallML: choose the features of a regression on a small table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TextEnv, TurnLimit
from agentgym.envs.tabular.tables import (
    GROUP,
    LEVELS,
    NAMES,
    Fit,
    Table,
    bounds,
    errors_of,
    fit,
    hidden_error,
    related,
    table_of,
)
from agentgym.errors import ConfigError
from agentgym.reading import plain_operators
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command

GOOD = 0.9
"""Score of a success."""
_ACTION = re.compile(r"(add|remove|fill|look)[ \t]+(?:at[ \t]+)?(\S+)|submit", re.IGNORECASE)
_POWER = re.compile(r"[ \t]{0,9}(?:\*\*|\^)[ \t]{0,9}2\b|\u00b2")
_PRODUCT = re.compile(r"[ \t]{0,9}\*[ \t]{0,9}")
_LOG = re.compile(
    r"\b(?:log|ln)[ \t]{0,9}\(?[ \t]{0,9}(\w+)[ \t]{0,9}\)?(?=[*\s.!]|$)", re.IGNORECASE
)
_SQUARE = re.compile(r"\b(\w+)\*\1\b", re.IGNORECASE)


def _usual_form(action: str) -> str:
    """Returns an action with "age^2" and "age*speed" for other forms of powers and products."""
    text = _POWER.sub("^2", plain_operators(action).replace("`", ""))
    text = _LOG.sub(r"log(\1)", _PRODUCT.sub("*", text)).rstrip(".!")
    return _SQUARE.sub(r"\1^2", text)


@dataclass
class State:
    """The model, and the end.

    Attributes:
        features: the features of the regression.
        filled: the columns whose missing values were filled.
        submitted: whether the model has been submitted.
    """

    features: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)
    submitted: bool = False


class SmallML(TextEnv):
    """Improve a regression model of a small table by the choice of its features.

    ## Description
    A table has columns of numbers, a region and a target. The model is a linear regression, at
    first on all columns of numbers. The target depends on two columns and two squares, logarithms
    or products of columns, and maybe on the region. The other features only add noise. Some columns
    have missing values, written as -999. The model is scored on hidden rows.

    ## Action Space
    Text, one of:

    - `add age^2`, `add log(age)`, `add age*speed`, `add age`, `add region`: adds a feature.
    - `remove age`: removes a feature.
    - `fill age`: replaces the missing values of a column by its median, in all features.
    - `look age`: shows the mean error of the model in fifths of the rows, ordered by a column.
    - `submit`: ends the episode with the current model.

    ## Observation Space
    Text: the columns with their ranges, the features of the model, and its cross-validated error.
    With `diagnostics`, the t statistic of each feature, and the features outside of the model whose
    correlation with its errors is largest.

    ## Rewards
    The score of the submitted model on the hidden rows (term `task`), in [0, 1]: 0 for the error of
    the first model, 1 for the error of the model with the features that the target depends on, and
    linear in between. An invalid action costs `invalid_penalty`.

    ## Starting State
    A table sampled from the task name, on which the best model has at most half of the error of the
    first one. Training and test tasks share no tables.

    ## Episode End
    Termination: `submit`. Truncation: after `max_turns` turns, without a score.

    ## Information
    The common keys. `success` is a score of at least 0.9. `progress` is the score after `submit`,
    before that 0. `admissible` lists all valid actions.

    ## Arguments
    - `columns` (int, default 6): number of columns with the region, 4 to 12.
    - `rows` (int, default 60): number of rows for training, 40 to 1,000.
    - `diagnostics` (bool, default True): whether the observation has statistics of the features.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 10, and 2 more per
      column.

    ## References
    The score between a baseline and the best known solution is that of MLE-Dojo (arXiv 2505.07782).
    All tables are generated, and no code runs.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        columns: int = 6,
        rows: int = 60,
        diagnostics: bool = True,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 4 <= columns <= len(NAMES):
            raise ConfigError(f"columns must be 4 to {len(NAMES)}, got {columns}.")
        if not 40 <= rows <= 1000:
            raise ConfigError(f"rows must be 40 to 1,000, got {rows}.")
        super().__init__(max_turns=10 + 2 * columns if max_turns == "auto" else max_turns, **kwargs)
        self.columns, self.rows, self.diagnostics = columns, rows, diagnostics
        self.tasks = Tasks.generated()
        statistics = (
            "- t is the t statistic of a feature. Below 2, the feature may be noise.\n"
            if diagnostics
            else ""
        )
        self.instructions = (
            "Improve a linear regression on a small table by the choice of its features.\n"
            "Each turn, reply with one action:\n"
            "- add age^2 (or log(age), age*speed, age, region: adds a feature)\n"
            "- remove age (removes a feature)\n"
            "- fill age (replaces missing values, which are written as -999, by the median)\n"
            "- look age (shows the mean error in fifths of the rows, ordered by a column)\n"
            "- submit (ends the episode with the current model)\n"
            "Rules:\n"
            "- The target depends on two columns, two squares, logarithms or products of columns, "
            "and maybe on the region. Other features are noise.\n"
            f"{statistics}"
            "The reward depends on the error on hidden rows: 0 for that of the first model, 1 for "
            "that of the model with the right features."
        )

    @property
    def table(self) -> Table:
        """The table of the task, which snapshots do not contain."""
        return table_of(self.task, self.columns, self.rows)

    def _fit(self) -> Fit:
        return fit(self.table, self.state.features, self.state.filled)

    def _start(self, task: str) -> TimeStep:
        self.state = State(list(table_of(task, self.columns, self.rows).numeric))
        return self._look("")

    def _advance(self, action: str) -> TimeStep:
        found = _ACTION.fullmatch(_usual_form(command(action)))
        if found is None:
            return self._invalid("Reply with add, remove, fill or look and a name, or with submit.")
        if found[1] is None:
            self.state.submitted = True
            return self._look("")
        verb, name = found[1].lower(), "*".join(sorted(found[2].lower().split("*")))
        if name not in self._names(verb):
            return self._invalid(f"{verb} {name[:40]} is not possible with this model.")
        if verb == "look":
            return self._look(self._errors_by(name))
        if verb == "remove":
            self.state.features.remove(name)
        else:
            (self.state.features if verb == "add" else self.state.filled).append(name)
        return self._look("")

    def _names(self, verb: str) -> list[str]:
        """Returns the names that can follow a verb."""
        table, state = self.table, self.state
        if verb == "remove":
            return state.features
        if verb == "add":
            return [name for name in table.places if name not in state.features]
        if verb == "fill":
            return [name for name in table.coded if name not in state.filled]
        return list(table.columns)

    def _errors_by(self, name: str) -> str:
        """Returns the mean error in each region, or in each fifth of the rows by a column."""
        table = self.table
        errors = errors_of(table, self._fit(), self.state.filled)
        known = table.columns[name][: table.rows]
        if name == GROUP:
            shares = [(level, np.flatnonzero(known == i)) for i, level in enumerate(LEVELS)]
        else:
            fifths = np.array_split(np.argsort(known, kind="stable"), 5)
            shares = [(f"{known[rows[0]]:g} to {known[rows[-1]]:g}", rows) for rows in fifths]
        means = ", ".join(
            f"{label}: {errors[rows].mean():+.2f}" for label, rows in shares if len(rows)
        )
        return f"Mean error by {name}: {means}\n\n"

    def _score(self) -> float:
        first, best = bounds(self.table)
        error = hidden_error(self.table, self._fit(), self.state.filled)
        score = (first - error) / (first - best)
        return round(min(max(score, 0.0), 1.0), 6)

    def _look(self, before: str) -> TimeStep:
        state = self.state
        score = self._score() if state.submitted else 0.0
        verbs = ("add", "remove", "fill", "look")
        listed = (*(f"{verb} {name}" for verb in verbs for name in self._names(verb)), "submit")
        text = f"{before}{self._described()}"
        return TimeStep(
            text=f"The score of the model is {score:.2f}." if state.submitted else text,
            rewards={"task": score},
            terminated=state.submitted,
            success=score >= GOOD,
            progress=score,
            admissible=() if state.submitted else listed,
        )

    def _described(self) -> str:
        """Returns the table and the model as text."""
        table, state, model = self.table, self.state, self._fit()
        features = list(state.features)
        if self.diagnostics:
            strengths = model.strengths
            for i, name in enumerate(features):
                features[i] += f" (t {max(strengths[place] for place in table.places[name]):.1f})"
        lines = [
            table.description,
            f"Filled columns: {', '.join(state.filled) or 'none'}",
            f"Model: linear regression on {', '.join(features) or 'nothing'}",
            f"Cross-validated error: {model.validated:.2f}",
        ]
        if self.diagnostics:
            found = self._related(model, self._names("add"))
            top = sorted(found, key=lambda name: -round(found[name], 4))[:5]
            shown = ", ".join(f"{name} {found[name]:.2f}" for name in top)
            lines.append(f"Largest correlations with the errors: {shown}")
        return "\n".join(lines)

    def _related(self, model: Fit, names: list[str]) -> dict[str, float]:
        """Returns the absolute correlation of some features with the errors of the model."""
        found, places = related(self.table, model, self.state.filled), self.table.places
        return {name: max(found[place] for place in places[name]) for name in names}

    def _restored(self) -> None:
        state, table = self.state, self.table
        if not {*state.features} <= table.places.keys() or not {*state.filled} <= {*table.coded}:
            raise ValueError("the features are those of another table")

    def expert(self) -> str | None:
        """Fills columns, adds the features that the target depends on, and removes all others."""
        truth, features = self.table.truth, self.state.features
        if coded := self._names("fill"):
            return f"fill {coded[0]}"
        if missing := [name for name in truth if name not in features]:
            found = self._related(self._fit(), missing)
            return f"add {max(missing, key=found.__getitem__)}"
        noise = [name for name in features if name not in truth]
        return f"remove {noise[0]}" if noise else "submit"
