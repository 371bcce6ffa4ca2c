"""The results of `solve.py` for the documentation. Without results, a note takes their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from agentgym.evaluation.failures import FAILURES
from benchmarks.shared.figure_results import NOTHING, results, results_if_any, table

AGENTS = ("random", "cloned", "trained", "expert")
RULES = {
    "solve": "this one",
    "solve_last_policy": "the last policy counts",
    "solve_300_demonstrations": "300 demonstrations",
    "solve_5_demonstrations": "5 demonstrations",
    "solve_longer": "30,000 steps, 1,000 held-out tasks",
}
"""Results by the present rule, by two earlier ones, and by the present one with other settings. The
oldest cloned until the held-out loss rose."""
OTHER = ("solve_5_demonstrations", "solve_longer")
SEEDS = ("learning_first_run", "learning_wordle", "learning_sokoban")
"""Results of several seeds with settings of their own."""


def measured(name: str = "solve") -> dict[str, Any]:
    """Returns the results by environment, empty if there are none."""
    return (results_if_any(name) or {"environments": {}})["environments"]


def solve_table() -> str:
    """Returns the rewards of all agents, the gain of RL and the scores, a row per environment."""
    found = measured()
    keeps = any("kept" in row for row in found.values())
    header = ("Environment", "Random", "Cloned", "Trained", "Expert", *(("Kept",) if keeps else ()))
    rows = [
        (
            env,
            *(_interval(row[agent]["reward"]) for agent in AGENTS),
            *((row["kept"],) if keeps else ()),
            _interval(row["gain"], "+.2f"),
            " to ".join(f"{score:.2f}" for score in row.get("scores", ())) or "-",
            ", ".join(_selected(row)),
            ", ".join(f"{FAILURES[kind]} {100 * x:.0f} %" for kind, x in row["failures"].items()),
            limit(row),
        )
        for env, row in found.items()
    ]
    header = (*header, "Gain of RL", "Score", "Selected", "Failures", "Limit")
    return table(header, rows) if rows else NOTHING


def solve_limits() -> str:
    """Returns the rule of `limit`."""
    return """\
The *limit* is what holds the kept policy below a score of 0.9, by the first rule that holds:

- *RL*: the kept policy is below the cloned one, since the interval of the gain is below 0.
- *exploration*: the cloned policy succeeds in at most 5 % of episodes, with a score of at most
  0.05, so that RL sees hardly any reward.
- *horizon*: most failures run out of turns or repeat states.
- *wrong answers*: episodes end in time, but wrongly, also by a lost game."""


def limit(row: dict[str, Any]) -> str:
    """Returns what holds the kept policy below a score of 0.9, by the rule of `solve_limits`."""
    before, after = row.get("scores", (0.0, 0.0))
    if after >= 0.9:
        return "-"
    if row["gain"][2] < 0:
        return "RL"
    if max(row["cloned"]["success"][0], before) <= 0.05:
        return "exploration"
    out_of_time = sum(row["failures"].get(kind, 0.0) for kind in ("turns", "loop"))
    return "horizon" if out_of_time > sum(row["failures"].values()) / 2 else "wrong answers"


def solve_summary() -> str:
    """Returns in how many environments RL gains, and in how many it is near the expert."""
    rows = [(rule, *counts(measured(name))) for name, rule in RULES.items() if measured(name)]
    header = (
        "Rule", "Environments", "RL above cloning", "RL below", "Near the expert",
        "Already cloned", "Clone kept", "Lower after RL",
    )  # fmt: skip
    return table(header, rows) if rows else NOTHING


def counts(found: dict[str, Any]) -> list[str]:
    """Returns the numbers of environments of a rule, in the order of `solve_summary`.

    A gain counts if its interval excludes 0. Only the last rule keeps the better policy.
    """
    rows = found.values()
    near = [row["scores"] for row in rows if "scores" in row and row["scores"][1] >= 0.9]
    numbers = [
        len(rows),
        sum(row["gain"][1] > 0 for row in rows),
        sum(row["gain"][2] < 0 for row in rows),
        len(near),
        sum(cloned >= 0.9 for cloned, _ in near),
    ]
    if not any("kept" in row for row in rows):
        return [*map(str, numbers), "-", "-"]
    kept = sum(row.get("kept") == "cloned" for row in rows)
    lower = sum(row["trained"]["reward"][0] < row["cloned"]["reward"][0] for row in rows)
    return [*map(str, numbers), str(kept), str(lower)]


def solve_gains() -> str:
    """Returns the environments in which RL gains by this rule, or with other settings alone."""
    if not measured():
        return NOTHING
    gained = [env for env, row in measured().items() if row["gain"][1] > 0]
    rows = [("this rule", f"{len(measured())}", f"{len(gained)}", "the long table")]
    others = {
        RULES[name]: {env: row["gain"][1] > 0 for env, row in measured(name).items()}
        for name in OTHER
    }
    others["of their own, in each of three seeds"] = dict(map(_gains_in_all_seeds, SEEDS))
    for about, found in others.items():
        more = [env for env, gains in found.items() if gains and env not in gained]
        gained += more
        listed = ", ".join(f"`{env}`" for env in more)
        rows.append((about, f"{len(found)}", f"{len(more)}", listed))
    rows.append(("together", "", f"{len(gained)}", ""))
    return table(("Settings", "Measured", "RL above cloning, for the first time", "Where"), rows)


def _gains_in_all_seeds(name: str) -> tuple[str, bool]:
    """Returns the environment of a result, and whether POAD is above cloning in all its seeds."""
    found = results(name)
    runs = [run["agents"] for run in found["runs"] if run["recipe"] == "poad"]
    above = [run["poad"]["reward"][1] > run["imitation"]["reward"][2] for run in runs]
    return found["config"]["env_id"], all(above)


def solve_budget() -> str:
    """Returns how many environments were measured, and the budget of each."""
    rows = measured()
    if not rows:
        return NOTHING
    settings = results("solve")["settings"]
    steps = [row["env_steps"] for row in rows.values()]
    return (
        f"Environments measured by this rule: {len(rows)}. Each has at most "
        f"{settings['demonstrations']} demonstrations. The aim is {settings['env_steps']:,} "
        f"environment steps of each recipe. The selected recipe took from {min(steps):,} to "
        f"{max(steps):,} (median {median(steps):,.0f}), because the numbers of episodes "
        "and iterations follow from the lengths of random and expert episodes."
    ) + _explained(list(rows.values()))


def _explained(rows: Sequence[dict[str, Any]]) -> str:
    """Returns how much POAD's critic explains, in the rows that say so."""
    found = [both for row in rows if (both := row.get("explained_variance"))]
    if not found:
        return ""
    first, last = (median(part) for part in zip(*found, strict=True))
    above = sum(end > 0.1 for _, end in found)
    return (
        f" POAD's critic explains a median of {first:.2f} of the variance of returns in the first "
        f"quarter of its iterations and {last:.2f} in the last one. It explains more than 0.1 in "
        f"{above} of the {len(found)} environments in which it was recorded and returns vary."
    )


def solve_commands() -> str:
    """Returns the commands that train the policies of each environment."""
    parts = [f"# {name}\n" + "\n".join(row["commands"]) for name, row in measured().items()]
    return "```bash\n" + "\n\n".join(parts) + "\n```" if parts else NOTHING


def solve_missing() -> str:
    """Returns the environments without results, the shortest episodes first."""
    if not measured():
        return NOTHING
    cloned, played = results("imitation")["environments"], results("baselines")["environments"]
    turns = {
        name: sum(played[name][f"{agent}/test"]["turns"][0] for agent in ("random", "expert"))
        for name in cloned.keys() - measured().keys()
    }
    parts: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(turns, key=lambda each: (turns[each], each)):
        share = cloned[name]["imitation"]["success"]
        parts[0.1 <= share <= 0.9].append(f"`{name.removesuffix('-v0')}`")
    return (
        f"Without a row: {len(turns)} of {len(cloned)}. A clone of 300 demonstrations "
        "(`imitation.json`) succeeds in a tenth to nine tenths of the episodes of "
        f"{', '.join(parts[True])}, so that RL has something to find. In the others, it succeeds "
        f"less or more often: {', '.join(parts[False])}."
    )


def _selected(row: dict[str, Any]) -> list[str]:
    """Returns the recipe of RL, the context, and how the kept policy plays."""
    found = [row["selected"]]
    if "context" in row:
        found.append(row["context"])
    if "temperatures" in row:
        run = "cloned" if row["kept"] == "cloned" else row["selected"]
        found.append("sampled" if row["temperatures"][run] else "greedy")
    return found


def _interval(estimate: Sequence[float], form: str = ".2f") -> str:
    mean, low, high = (format(x, form) for x in estimate)
    return f"{mean} [{low}, {high}]" if high != low else mean


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        solve_table,
        solve_summary,
        solve_gains,
        solve_budget,
        solve_commands,
        solve_limits,
        solve_missing,
    )
}
