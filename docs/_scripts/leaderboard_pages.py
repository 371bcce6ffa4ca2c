"""The leaderboard: agents by environment, from the results files, with the command of each row."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import project
from project import grid_tables
from writing import table

from agentgym.evaluation.report import Estimate, mean_interval

HEADER = ("Agent", "Command", "Reward", "Success", "Measured on")
INDEX = """
Agents by mean reward on held-out tasks, with 95 % confidence intervals, from the files in
`benchmarks/results`. The command of a row measures it again, in a clone of the repository.
Intervals of scripted agents are over episodes, and those of trained ones over seeds. Budgets of
training differ: [Benchmarks](benchmarks.md) describes them. A multi-agent id is one seat against
its default opponents.
"""


@dataclass(frozen=True)
class Row:
    """A result.

    Attributes:
        env: name of the environment.
        agent: name of the agent.
        reward: mean reward.
        success: share of successes. None: not measured.
        measured: number of episodes or seeds.
        command: the command that measures it.
        trained: whether the agent is trained by a recipe or another library.
    """

    env: str
    agent: str
    reward: Estimate
    success: float | None
    measured: str
    command: str
    trained: bool = False

    def cells(self) -> tuple[str, ...]:
        """Returns the cells of the table."""
        success = "-" if self.success is None else f"{100 * self.success:.0f} %"
        reward = grid_tables.plus_minus(self.reward)
        return self.agent, f"`{self.command}`", reward, success, self.measured


def pages() -> dict[str, str]:
    """Returns the generated Markdown by path."""
    by_env: dict[str, list[Row]] = {}
    for row in rows():
        by_env.setdefault(row.env, []).append(row)
    for found in by_env.values():
        found.sort(key=lambda row: -row.reward.mean)
    lines = ["# Leaderboard", "", *inspect.cleandoc(INDEX).split("\n")]
    trained = [env for env, found in by_env.items() if any(row.trained for row in found)]
    for env in trained:
        lines += ["", f"## {env}", "", *table(HEADER, (r.cells() for r in by_env[env]), 3)]
    others = [
        (f"`{env}`", *row.cells())
        for env, found in sorted(by_env.items())
        for row in found
        if env not in trained
    ]
    lines += ["", "## Environments without trained agents", ""]
    lines += table(("Environment", *HEADER), others, 3)
    return {"leaderboard.md": "\n".join(lines) + "\n"}


def rows() -> Iterator[Row]:
    """Yields the results of all files."""
    yield from _scripted()
    yield from _cloned()
    yield from _grid()
    yield from _learning()
    yield from _other_library()


def _scripted() -> Iterator[Row]:
    for env, measured in project.results("baselines")["environments"].items():
        for agent in ("random", "expert"):
            if (row := measured.get(f"{agent}/test")) is not None:
                command = f"agentgym eval {env} --agent {agent} --episodes {row['n']}"
                reward, success = Estimate(*row["reward"]), row["success"][0]
                yield Row(env, agent, reward, success, f"{row['n']} episodes", command)


def _cloned() -> Iterator[Row]:
    found = project.results("imitation")
    for env, measured in found["environments"].items():
        if (row := measured.get("imitation")) is not None:
            command = f"python benchmarks/learning/imitation.py --ids {env} --again"
            if "characters" not in measured:  # from before these limits
                command += " --characters None --evaluated-turns None"
            reward = Estimate(row["reward"], None, None)
            yield Row(env, "behaviour cloning", reward, row["success"], "1 seed", command)


def _grid() -> Iterator[Row]:
    grid = project.results("grid")
    for env, measured in grid["envs"].items():
        for recipe in dict.fromkeys(run["recipe"] for run in grid["runs"] if run["env"] == env):
            runs = [r["final"] for r in grid["runs"] if (r["env"], r["recipe"]) == (env, recipe)]
            quoted = shlex.quote(recipe)
            command = f"python benchmarks/learning/grid.py --envs {env} --recipes {quoted}"
            name = measured["config"]["env_id"]
            yield Row(name, recipe, mean_interval(runs), None, f"{len(runs)} seeds", command, True)


def _learning() -> Iterator[Row]:
    found = project.results("learning_webshop")
    for recipe in dict.fromkeys(run["recipe"] for run in found["runs"]):
        runs = [run["agents"][recipe] for run in found["runs"] if run["recipe"] == recipe]
        reward = mean_interval([run["reward"][0] for run in runs])
        success = sum(run["success"][0] for run in runs) / len(runs)
        command = f"python benchmarks/learning/learning.py --recipes {recipe}"
        name = f"{recipe}, settings of `make demo`"
        env = found["config"]["env_id"]
        yield Row(env, name, reward, success, f"{len(runs)} seeds", command, True)


def _other_library() -> Iterator[Row]:
    found = project.results("sb3_webshop")
    agent, row = list(found["players"].items())[-1]
    reward = Estimate(row["reward"], None, None)
    command = f"python benchmarks/learning/sb3_webshop.py --steps {found['settings']['steps']}"
    yield Row("WebShop-v0", f"sb3: {agent}", reward, row["success"], "1 seed", command, True)
