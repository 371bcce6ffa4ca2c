"""Results of an evaluation: one record per episode, and means with 95 % confidence intervals."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.evaluation.failures import FAILURES
from agentgym.utils import serialization
from agentgym.utils.files import replace_text
from agentgym.utils.printable import printable

if TYPE_CHECKING:
    from rich.console import Group

WIDTH = 80
"""Characters of a line of a table."""
COLUMNS = ("n", "success", "reward", "progress", "valid", "turns", "trunc")

Z_95 = 1.959963984540054
# Student's t for 1 to 12 degrees of freedom, for which the expansion of `t_95` is not accurate.
_T_95 = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912)
_T_95 += (2.364624, 2.306004, 2.262157, 2.228139, 2.200985, 2.178813)


@dataclass(frozen=True)
class Record:
    """One episode. `env.reset(seed=seed, options={"task": task})` starts the same episode.

    Attributes:
        task: the task's name.
        seed: the seed of the episode.
        reward: the sum of the rewards, undiscounted.
        reward_terms: the sum of each reward term.
        success: whether the task was solved at the end.
        progress: progress on the task at the end, in [0, 1].
        turns: number of turns.
        valid: share of valid actions, in [0, 1].
        terminated: whether the episode terminated.
        truncated: whether the turn limit truncated it.
        costs: resources that the agent used, by name (see `View.costs`), and the "regret" if the
            environment measures it: cumulative in a bandit, per round in a matrix game.
        exploration: measures of exploration by name, in a bandit (see `exploration`). Those without
            a turn to measure are left out.
        failure: why the episode failed, one of `FAILURES`, "" for a success (see `failure_of`).
    """

    task: str
    seed: int
    reward: float
    reward_terms: dict[str, float]
    success: bool
    progress: float
    turns: int
    valid: float
    terminated: bool
    truncated: bool
    costs: dict[str, float] = field(default_factory=dict, metadata=serialization.ADDED)
    failure: str = field(default="", metadata=serialization.ADDED)
    exploration: dict[str, float] = field(default_factory=dict, metadata=serialization.ADDED)

    def __post_init__(self) -> None:
        """Checks that the numbers are finite, as JSON and means need them."""
        numbers = {"reward": self.reward, "progress": self.progress, "valid": self.valid}
        for name, value in [
            *numbers.items(),
            *self.reward_terms.items(),
            *self.costs.items(),
            *self.exploration.items(),
        ]:
            if not math.isfinite(value):
                raise ValueError(f"The value of {name!r} in an episode of {self.task} is {value}.")


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % confidence interval. `low` and `high` are None if n = 1."""

    mean: float
    low: float | None
    high: float | None


def t_95(df: int) -> float:
    """Returns the 97.5 % quantile of Student's t distribution with `df` >= 1, to 5 digits.

    From 13 degrees of freedom on, it uses the expansion in 1/df of Abramowitz & Stegun, 26.7.5.
    """
    if df <= len(_T_95):
        return _T_95[df - 1]
    z = Z_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3


def mean_interval(values: Sequence[float]) -> Estimate:
    """Returns the mean of at least one value, with its t interval.

    The interval has zero width if all values are equal, regardless of their number.
    """
    n, mean = len(values), statistics.fmean(values)
    if n == 1:
        return Estimate(mean, None, None)
    half = t_95(n - 1) * statistics.stdev(values, mean) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half)


def share_interval(hits: int, n: int) -> Estimate:
    """Returns the share hits / n with its Wilson score interval.

    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
    """
    share, z2 = hits / n, Z_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low = 0.0 if hits == 0 else centre - half  # exact, without rounding errors
    high = 1.0 if hits == n else centre + half
    return Estimate(share, low, high)


@dataclass(frozen=True)
class Report:
    """The result of evaluating an agent on tasks of an environment.

    Attributes:
        env: the id of the environment.
        agent: the name of the agent.
        split: the split of the tasks.
        seed: the seed of the evaluation.
        env_kwargs: the arguments of the environment.
        planned: number of requested episodes.
        episodes: the finished episodes, in the planned order. An interrupted evaluation has fewer
            than planned, and short episodes are over-represented.
    """

    env: str
    agent: str
    split: str
    seed: int
    planned: int
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    episodes: list[Record] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether episodes are missing."""
        return len(self.episodes) < self.planned

    def aggregate(self) -> dict[str, Estimate]:
        """Returns the estimates by name. The result is empty if no episode was finished.

        `success`, `truncated` and each `failure/KIND` are shares of episodes (Wilson intervals).
        `reward`, `progress`, `valid`, `turns`, each `reward/TERM` and each `cost/NAME` are means
        over episodes (t intervals), and so are `cost/regret` and each `exploration/NAME` over the
        episodes that have it.

        The intervals assume independent episodes. If each task of a small split is played several
        times, they are conservative (too wide).
        """
        episodes = self.episodes
        if not episodes:
            return {}
        columns = {
            "reward": [e.reward for e in episodes],
            "progress": [e.progress for e in episodes],
            "valid": [e.valid for e in episodes],
            "turns": [float(e.turns) for e in episodes],
        }
        terms = [e.reward_terms for e in episodes]
        for term in [name for name in terms[0] if all(name in each for each in terms)]:
            columns[f"reward/{term}"] = [e.reward_terms[term] for e in episodes]
        for name in dict.fromkeys(name for e in episodes for name in e.costs):
            # An episode without a resource used none. Regret is measured in some environments.
            measured = [e for e in episodes if name in e.costs or name != "regret"]
            columns[f"cost/{name}"] = [e.costs.get(name, 0.0) for e in measured]
        for name in dict.fromkeys(name for e in episodes for name in e.exploration):
            some = [e.exploration[name] for e in episodes if name in e.exploration]
            columns[f"exploration/{name}"] = some
        shares = {
            "success": sum(e.success for e in episodes),
            "truncated": sum(e.truncated for e in episodes),
            **{f"failure/{kind}": sum(e.failure == kind for e in episodes) for kind in FAILURES},
        }
        found = {name: share_interval(hits, len(episodes)) for name, hits in shares.items()}
        return found | {name: mean_interval(values) for name, values in columns.items()}

    def pass_hat(self, k: int) -> float:
        """Returns pass^k: the probability that k episodes of the same task all succeed.

        It is the mean over tasks of C(successes, k) / C(episodes, k), the unbiased estimate of
        tau-bench (arXiv 2406.12045). pass^1 is the success rate. Play each task several times, for
        example with `tasks=[*env.tasks.test[:50]] * 4`.

        Raises:
            ValueError: if k is below 1, or a task has fewer than k episodes.
        """
        tasks: dict[str, list[bool]] = {}
        for episode in self.episodes:
            tasks.setdefault(episode.task, []).append(episode.success)
        fewest = min(map(len, tasks.values()), default=0)
        if not 1 <= k <= fewest:
            raise ValueError(f"k must be 1 to {fewest}, the episodes of each task, got {k}.")
        shares = [math.comb(sum(each), k) / math.comb(len(each), k) for each in tasks.values()]
        return statistics.fmean(shares)

    def to_json(self) -> dict[str, Any]:
        """Returns everything as JSON values, with the estimates under "aggregate"."""
        aggregate = serialization.to_json(self.aggregate())
        return {**serialization.to_json(self), "aggregate": aggregate}

    def save(self, path: str | Path) -> None:
        """Writes `to_json()` to a file."""
        replace_text(Path(path), json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")

    def __rich__(self) -> Group:
        return compare([self])

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()


def compare(reports: Sequence[Report]) -> Group:
    """Returns a table of means with 95 % confidence intervals, one row per report.

    Rows are grouped by environment, arguments and split, which stand on lines of their own. The
    table fits into 80 columns: a name that is too long has a line of its own, too.
    """
    from rich.console import Group
    from rich.text import Text

    rows = [_cells(report) for report in reports]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    room = WIDTH - sum(widths) - len(widths)
    names = [printable(f"  {report.agent}") for report in reports]
    first = max((len(name) for name in ("agent", *names) if len(name) <= room), default=room)
    lines = [Text(_aligned("agent", first, COLUMNS, widths))]
    lines.append(Text("─" * len(lines[0])))
    above = None
    for report, name, cells in zip(reports, names, rows, strict=True):
        if (heading := printable(_heading(report))) != above:
            lines.append(Text(heading, "bold"))
        above = heading
        if len(name) > first:
            lines.append(Text(name))
        lines.append(Text(_aligned(name if len(name) <= first else "", first, cells, widths)))
    notes = ["success, valid and truncated in %; ± and [low, high]: 95 % confidence"]
    for kind, title in (("cost", "per episode"), ("exploration", "exploration")):
        notes += [line for report in reports if (line := _means(report, kind, title))]
    if any(report.interrupted for report in reports):
        notes.append("interrupted: short episodes are over-represented")
    return Group(*lines, *(Text(note, "italic") for note in notes))


def _aligned(name: str, first: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    """Returns a row: a name on the left, and cells on the right of their columns."""
    return " ".join([name.ljust(first), *map(str.rjust, cells, widths)])


def failure_lines(reports: Sequence[Report]) -> list[str]:
    """Returns a line with the kinds of failure, the most frequent first, per report with any."""
    lines = []
    for report in reports:
        counts = Counter(episode.failure for episode in report.episodes)
        shares = [
            f"{FAILURES.get(kind, kind)} {100 * count / len(report.episodes):.0f} %"
            for kind, count in counts.most_common()
            if kind
        ]
        if shares:
            name = f"{report.agent} on {report.env.removeprefix('AgentGym/')}"
            lines.append(f"{name}, failures: {', '.join(shares)}.")
    return lines


def _heading(report: Report) -> str:
    kwargs = (f"{key}={json.dumps(value)}" for key, value in report.env_kwargs.items())
    split = ("(training tasks)",) if report.split == "train" else ()
    return " ".join((report.env.removeprefix("AgentGym/"), *kwargs, *split))


def _cells(report: Report) -> list[str]:
    n = str(len(report.episodes)) + f"/{report.planned}" * report.interrupted
    found = report.aggregate()
    if not found:
        return [n, *[""] * (len(COLUMNS) - 1)]
    success = f"{100 * found['success'].mean:.1f}"
    if found["success"].low is not None and found["success"].high is not None:
        success += f" [{100 * found['success'].low:.1f}, {100 * found['success'].high:.1f}]"
    return [
        n,
        success,
        _plus_minus(found["reward"]),
        _plus_minus(found["progress"]),
        f"{100 * found['valid'].mean:.1f}",
        f"{found['turns'].mean:.1f}",
        f"{100 * found['truncated'].mean:.1f}",
    ]


def _means(report: Report, kind: str, title: str) -> str:
    """Returns the means of a kind as a line, such as the costs of an episode, "" without any."""
    means = {
        name.removeprefix(f"{kind}/").replace("_", " "): found.mean
        for name, found in report.aggregate().items()
        if name.startswith(f"{kind}/")
    }
    digits = dict.fromkeys(means, 1 if kind == "cost" else 2) | {"regret": 2}
    listed = ", ".join(f"{name} {mean:,.{digits[name]}f}" for name, mean in means.items())
    return printable(f"{report.agent} on {_heading(report)}, {title}: {listed}") if listed else ""


def _plus_minus(mean: Estimate) -> str:
    if mean.high is None:
        return _number(mean.mean)
    return f"{_number(mean.mean)} ± {_number(mean.high - mean.mean)}"


def _number(x: float) -> str:
    """Returns a number in at most 8 characters."""
    digits = ".2f" if abs(x) < 1e3 else ".0f" if abs(x) < 1e6 else ".1e"
    return f"{x:{digits}}"
