"""Tables of the smaller studies, for the documentation.

A table without its file in `results/` is replaced by a note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agentgym.evaluation.report import mean_interval
from benchmarks.shared.figure_results import (
    NOTHING,
    interval,
    percent_interval,
    results,
    results_if_any,
    table,
)


def planning() -> str:
    """Returns the success of searches by budget, a row per environment and search."""
    content = results_if_any("planning")
    if content is None:
        return NOTHING
    budgets = content["config"]["budgets"]
    rows = [
        (
            env,
            search,
            *(_success(agents[f"search:{search},budget={budget}"]) for budget in budgets),
            *(_success(agents[bound]) for bound in ("random", "expert")),
        )
        for env, agents in content["search"].items()
        for search in content["config"]["algorithms"]
    ]
    header = ("Environment", "Search", *(f"{budget} steps" for budget in budgets))
    return table((*header, "random", "expert"), rows)


def planning_exit() -> str:
    """Returns the success of a policy before and after `exit`, alone and as a proposer."""
    content = results_if_any("planning")
    if content is None:
        return NOTHING
    names = ("before", "after", "search, policy before", "search, policy after")
    rows = [
        (env, *(_success(agents[name]) for name in names))
        for env, agents in content["learning"].items()
    ]
    return table(("Environment", *names), rows)


def world_model() -> str:
    """Returns the errors of world models and the success of plans made in them."""
    content = results_if_any("world_model")
    if content is None:
        return NOTHING
    rows = [
        (
            env,
            *(f"{100 * found['errors'][name]:.0f}" for name in ("world_exact", "world_over")),
            *(_success(row) for row in found["agents"].values()),
        )
        for env, found in content["environments"].items()
    ]
    agents = next(found["agents"] for found in content["environments"].values())
    return table(("Environment", "Exact pages", "Right ends", *agents), rows)


def early_experience() -> str:
    """Returns the success of early experience and of cloning the same demonstrations."""
    content = results_if_any("early_experience")
    if content is None or not all("early experience" in x for x in content["success"].values()):
        return NOTHING
    rows = [
        (f"{name}, {count} demonstrations", *_mean_and_values(values))
        for count, found in content["success"].items()
        for name, values in found.items()
    ]
    return table(("Policy", "Success", "By seed"), rows)


def _mean_and_values(values: Sequence[float]) -> tuple[str, str]:
    shown = ", ".join(f"{100 * value:.0f}" for value in values)
    return f"{100 * sum(values) / len(values):.0f}", shown


def propose_solve() -> str:
    """Returns the success of solvers on held-out tasks, by what they learned from."""
    content = results_if_any("propose_solve")
    if content is None:
        return NOTHING
    seeds = content["seeds"].values()
    rows = [
        (name, *_mean_and_values([seed[name]["success"][0] for seed in seeds]))
        for name in ("cloned", "self-play", "random tasks")
    ]
    first, last = (
        [seed["curves"]["proposer/return"][place] for seed in seeds] for place in (0, -1)
    )
    shown = table(("Policy", "Success (%)", "By seed"), rows)
    means = (sum(values) / len(values) for values in (first, last))
    return shown + "\n\nThe return of the proposer goes from {:.3f} to {:.3f}.".format(*means)


def alarms() -> str:
    """Returns the exploitability of self-play and of its remedies, a row per game and variant."""
    content = results_if_any("alarms")
    if content is None:
        return NOTHING
    groups: dict[str, list[list[float]]] = {}
    for name, run in content["runs"].items():
        groups.setdefault(name.rpartition(" ")[0], []).append(run["exploitability"])
    rows = []
    for name, runs in groups.items():
        ends = [float(np.mean(values[-max(1, len(values) // 4) :])) for values in runs]
        found = mean_interval(ends)
        low, high = (found.mean if end is None else end for end in (found.low, found.high))
        lowest = np.mean([min(values) for values in runs])
        by_seed = ", ".join(f"{end:.3f}" for end in ends)
        end = f"{found.mean:.3f} [{low:.3f}, {high:.3f}]"
        rows.append((*name.split(" "), f"{lowest:.3f}", end, by_seed))
    return table(("Game", "Self-play", "Lowest", "Last quarter", "By seed"), rows)


def own_loop() -> str:
    """Returns the held-out reward of a program and of the trainer's own loop, before and after."""
    content = results_if_any("own_loop")
    if content is None:
        return NOTHING
    rows = [
        (
            name.replace(" ", ", seed "),
            *("{:.2f} [{:.2f}, {:.2f}]".format(*x) for x in run.values()),
        )
        for name, run in content["runs"].items()
    ]
    return table(("Loop", "Clone", "After GRPO"), rows)


def tool_calls() -> str:
    """Returns what a small pre-trained model plays with any text and with well-formed calls."""
    content = results_if_any("tool_calls")
    if content is None:
        return NOTHING
    rows = []
    for name, row in content["environments"].items():
        shares = (np.clip(row[measure], 0, 1) for measure in ("valid", "success"))
        rows.append((*name.split(", "), *("{:.2f} [{:.2f}, {:.2f}]".format(*x) for x in shares)))
    return table(("Environment", "Actions", "Valid", "Success"), rows)


def scaffolds() -> str:
    """Returns the success of agents with and without what they remember."""
    content = results_if_any("scaffolds")
    if content is None:
        return NOTHING
    return table(
        ("Agent", "Success"), [(name, _success(row)) for name, row in content["agents"].items()]
    )


def notes_in_textcraft() -> str:
    """Returns the success of a planner with a window and with a to-do list."""
    content = results_if_any("scaffolds")
    if content is None:
        return NOTHING
    crafting = content["crafting"]
    rows = [
        (kind, budget, _success(row), f"{row['prompt_tokens']:,}")
        for kind, found in crafting["readers"].items()
        for budget, row in found.items()
    ]
    return table(("Memory", "Budget", "Success", "Tokens read per episode"), rows)


def notes() -> str:
    """Returns the right answers of readers with a window and with notes, by prompt length."""
    return _readers("Diary")


def notes_in_wordle() -> str:
    """Returns the solved words of readers with a window and with notes, by prompt length."""
    return _readers("Wordle")


def notes_in_household() -> str:
    """Returns the success and the turns of readers with a window and with notes."""
    content = results_if_any("notes")
    if content is None:
        return NOTHING
    rows = [
        (kind, budget, _success(row), interval(row["turns"]), f"{row['prompt_tokens']:,}")
        for name, found in content["environments"].items()
        if name.startswith("Household")
        for kind, cells in found["readers"].items()
        for budget, row in cells.items()
    ]
    return table(("Memory", "Budget", "Success", "Turns", "Tokens read per episode"), rows)


def _readers(family: str) -> str:
    content = results_if_any("notes")
    if content is None:
        return NOTHING
    found = {name: x for name, x in content["environments"].items() if name.startswith(family)}
    rows = [
        (env, kind, *(_share(cells.get(str(b)), of["score"]) for b in of["budgets"]))
        for env, of in found.items()
        for kind, cells in of["readers"].items()
    ]
    budgets = next(iter(found.values()))["budgets"]
    return table(("Environment", "Memory", *(f"{budget:,} tokens" for budget in budgets)), rows)


def _success(row: dict[str, Sequence[float]]) -> str:
    return _share(row, "success")


def _share(row: dict[str, Sequence[float]] | None, name: str) -> str:
    if row is None:
        return "-"
    return percent_interval(row[name])


def serve_load() -> str:
    """Returns the load of a server."""
    row = results_if_any("serve_load")
    if row is None:
        return NOTHING
    cells = {
        "Clients": f"{row['settings']['clients']}",
        "Steps": f"{row['steps']:,}",
        **({"Forks": f"{row['forks']:,}"} if "forks" in row else {}),
        "Wrong observations": f"{row['wrong_observations']}",
        "Steps/s": f"{row['steps_per_second']:,.0f}",
        "Time of a step, median": f"{row['median_ms']:.0f} ms",
        "99th percentile": f"{row['p99_ms']:.0f} ms",
    }
    return table([*cells], [[*cells.values()]])


def reader() -> str:
    """Returns reward and success of cloned models in the showcase environments."""
    content = results_if_any("reader")
    if content is None:
        return NOTHING
    rows = []
    for env_id, models in content["environments"].items():
        for model, found in models.items():
            success = percent_interval(found["success"]) + " %"
            seconds = f"{found['cpu_seconds']:.0f} s"
            rows.append((env_id, model, seconds, interval(found["reward"]), success))
    return table(("Environment", "Model", "CPU time", "Reward", "Success"), rows)


def reading() -> str:
    """Returns the share of right answers of the pre-trained model, by kind of page."""
    content = results_if_any("pretraining")
    if content is None:
        return NOTHING
    known = content["accuracy"]
    kinds = [name for name in known if not name.endswith("-v0")]
    pages = [(kind, f"{100 * known[kind]:.0f} %") for kind in kinds]
    others = [share for name, share in known.items() if name not in kinds]
    mean = sum(others) / len(others)
    row = (f"actions of experts (mean of {len(others)} ids)", f"{100 * mean:.0f} %")
    return table(("Kind", "Right answers"), [*pages, row])


def reading_find() -> str:
    """Returns the share of pages in which the pre-trained model finds a line."""
    content = results_if_any("pretraining")
    return NOTHING if content is None else f"{100 * content['accuracy']['find']:.0f} %"


def sb3_webshop() -> str:
    """Returns MaskablePPO's reward in words."""
    players = results("sb3_webshop")["players"]
    last = next(reversed(players))
    steps = last.removeprefix("MaskablePPO, ").removesuffix(" steps")
    return (
        f"{players['random']['reward']:.2f} (random) to {players[last]['reward']:.2f} "
        f"after {steps} environment steps"
    )


def sb3_webshop_table() -> str:
    """Returns the table of MaskablePPO's evaluations."""
    rows = [
        (
            name,
            f"{row['reward']:.2f} ± {1.96 * row['standard_error']:.2f}",
            f"{100 * row['success']:.0f} %",
            f"{row['turns']:.1f}",
        )
        for name, row in results("sb3_webshop")["players"].items()
    ]
    return table(("Player", "Reward (95 % interval)", "Success", "Turns"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        planning,
        planning_exit,
        world_model,
        early_experience,
        propose_solve,
        alarms,
        own_loop,
        tool_calls,
        scaffolds,
        notes_in_textcraft,
        notes,
        notes_in_wordle,
        notes_in_household,
        serve_load,
        reader,
        reading,
        reading_find,
        sb3_webshop,
        sb3_webshop_table,
    )
}
