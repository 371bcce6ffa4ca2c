"""Tables of the smaller studies, for the documentation.

A table without its file in `results/` is replaced by a note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from figure_results import NOTHING, interval, results, results_if_any, table

FEWEST = 30
"""States that an explained variance by turn needs."""


def critics() -> str:
    """Returns the explained variance of each critic beside the best possible, by environment."""
    environments = _critics()
    if not environments:
        return NOTHING
    names = list(max((row["critics"] for row in environments.values()), key=len))
    rows = []
    for env, row in environments.items():
        critics = row["critics"]
        cells = (interval(critics[x]["all"]) if x in critics else "-" for x in names)
        rows.append((env, interval(row["possible"]["all"]), *cells))
    return table(("Environment", "Best possible", *names), rows)


def critics_by_turn() -> str:
    """Returns the best possible explained variance and that of the best critic, by turn."""
    rows = []
    for env, row in _critics().items():
        cells = [
            f"{best[0]:.2f} / {row['critics'][_best(row)][turns][0]:.2f}"
            if row["states"][turns] >= FEWEST
            else "-"
            for turns, best in row["possible"].items()
        ]
        rows.append((env, _best(row), *cells, *["-"] * (4 - len(cells))))
    header = ("Environment", "Critic", "All turns", "Turn 1", "Turns 2-3", "Turns 4-")
    return table(header, rows) if rows else NOTHING


def critics_summary() -> str:
    """Returns the shares of the possible that critics explain, by their input."""
    default = _shares("shared")
    if not default:
        return NOTHING
    prompt = _shares("shared", "shared, normalised", "own").values()
    privileged = _shares("hidden", "state").values()
    return (
        f"In {len(default)} environments, the default critic explains "
        f"{_percents(default.values())} of the possible. The best critic that reads the prompt "
        f"alone explains {_percents(prompt)} (at least 80 % in {_near(prompt)}), and the best one "
        "that reads a text of the hidden state, which the policy does not see, "
        f"{_percents(privileged)} (at least 80 % in {_near(privileged)})."
    )


def critics_settings() -> str:
    """Returns the share of the possible that critics explain, by their settings."""
    default = _shares("shared")
    if not default:
        return NOTHING
    parts = [f"{_percents(default.values())} with a head on the policy's hidden states"]
    for name, label in (
        ("own", "a trunk of its own"),
        ("hidden", "a trunk of its own and the hidden state beside the prompt"),
        ("state", "a trunk of its own and the hidden state in place of the prompt"),
    ):
        shares = _shares(name)
        parts.append(
            f"{_percents(shares.values())} with {label} (more than the head in "
            f"{_higher(shares, default)}, at least 80 % in {_near(shares.values())}, worse than "
            f"a constant in {sum(share < 0 for share in shares.values())})"
        )
    return (
        f"From about equal numbers of tokens, in {len(default)} environments, critics explain "
        f"these shares of the possible: {', '.join(parts[:-1])}, and {parts[-1]}. In place of the "
        "prompt, the hidden state explains more than beside it in "
        f"{_higher(_shares('state'), _shares('hidden'))}."
    )


def _shares(*names: str) -> dict[str, float]:
    """Returns the explained share of the possible of the best of critics, by environment."""
    return {
        env: max(row["critics"][name]["all"][0] for name in known) / row["possible"]["all"][0]
        for env, row in _critics().items()
        if (known := [name for name in names if name in row["critics"]])
    }


def _higher(some: dict[str, float], others: dict[str, float]) -> str:
    """Returns in how many environments of both the first shares are higher."""
    both = some.keys() & others.keys()
    return f"{sum(some[env] > others[env] for env in both)} of {len(both)}"


def _near(shares: Collection[float]) -> int:
    return sum(share >= 0.8 for share in shares)


def _percents(shares: Collection[float]) -> str:
    return f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"


def _critics() -> dict[str, Any]:
    return (results_if_any("critic") or {"environments": {}})["environments"]


def _best(row: dict[str, Any]) -> str:
    """Returns the critic with the highest explained variance over all turns."""
    return max(row["critics"], key=lambda name: row["critics"][name]["all"][0])


def decisive_turns() -> str:
    """Returns how often the turn that decides an episode comes first, by estimator."""
    environments = (results_if_any("decisive_turn") or {"environments": {}})["environments"]
    if not environments:
        return NOTHING
    decided = {name: f"{row['decided']} of {row['episodes']}" for name, row in environments.items()}
    header = [f"{k} ({v} decided): {x}" for k, v in decided.items() for x in ("place", "first")]
    rows = []
    for estimator in next(iter(environments.values()))["estimators"]:
        found = [row["estimators"][estimator] for row in environments.values()]
        cells = [cell for x in found for cell in (interval(x["place"]), _percent_range(x["first"]))]
        rows.append((estimator, *cells))
    chance = [x for row in environments.values() for x in ("0.50", f"{100 * row['chance']:.0f}")]
    return table(("Estimator", *header), [*rows, ("chance", *chance)])


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
    return _percent_range(row[name])


def _percent_range(estimate: Sequence[float]) -> str:
    mean, low, high = (100 * x for x in estimate)
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"


def serve_load() -> str:
    """Returns the load of a server, in one sentence."""
    row = results_if_any("serve_load")
    if row is None:
        return NOTHING
    return (
        f"{row['settings']['clients']} clients, {row['steps']:,} steps, "
        f"{row['wrong_observations']} wrong observations, {row['steps_per_second']:,.0f} steps/s, "
        f"{row['median_ms']:.0f} ms per step (99 %: {row['p99_ms']:.0f} ms)"
    )


def reader() -> str:
    """Returns reward and success of cloned models in the showcase environments."""
    content = results_if_any("reader")
    if content is None:
        return NOTHING
    rows = []
    for env_id, models in content["environments"].items():
        for model, found in models.items():
            success = _percent_range(found["success"]) + " %"
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
        critics,
        critics_by_turn,
        critics_summary,
        critics_settings,
        decisive_turns,
        planning,
        planning_exit,
        world_model,
        early_experience,
        propose_solve,
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
