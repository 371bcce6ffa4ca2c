"""Tables of critics and of credit, for the documentation.

A table without its file in `results/` is replaced by a note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from benchmarks.shared.figure_results import (
    NOTHING,
    interval,
    percent_interval,
    results_if_any,
    table,
)

FEWEST = 30
"""States that an explained variance by turn needs."""
COLUMNS = ("place", "sign", "within", "correlation")
ALIKE = ("rloo", "dr_grpo", "flow_grpo")
"""Estimators that order the tokens of an episode as `grpo` does."""


def critics() -> str:
    """Returns the explained variance of each critic beside the best possible, by environment."""
    environments = _environments("critic")
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
    for env, row in _environments("critic").items():
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
        for env, row in _environments("critic").items()
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


def _best(row: dict[str, Any]) -> str:
    """Returns the critic with the highest explained variance over all turns."""
    return max(row["critics"], key=lambda name: row["critics"][name]["all"][0])


def critics_by_data() -> str:
    """Returns the explained variance of critics by the episodes that they are fitted to."""
    rows = []
    for env, found in _environments("critic_data").items():
        rows.append((env, "best possible", "", "", interval(found["possible"]), ""))
        for name, row in found["rows"].items():
            critic, _, episodes = name.partition(": ")
            count, _, player = episodes.partition(", ")
            both = interval(row["explained"]), interval(row["correlation"])
            rows.append((env, critic, player, f"{int(count):,}", *both))
    header = ("Environment", "Critic", "Player", "Episodes", "Explained variance", "Correlation")
    return table(header, rows) if rows else NOTHING


def critics_data_summary() -> str:
    """Returns the shares of the possible that critics explain in WebShop, by their episodes."""
    found = _environments("critic_data").get("WebShop-v0")
    if found is None:
        return NOTHING

    def share(critic: str, episodes: int, player: str) -> str:
        row = found["rows"][f"{critic}: {episodes}, {player}"]
        return f"{100 * row['explained'][0] / found['possible'][0]:.0f} %"

    return (
        "In `WebShop-v0`, `--critic-sees state` explains "
        f"{share('state', 300, 'policy')} of the possible after a fit to 300 episodes of the "
        f"policy, {share('state', 1000, 'policy')} after 1,000 and "
        f"{share('state', 3000, 'policy')} after 3,000, from about equal numbers of tokens. With "
        f"`--critic-head two_hot`, it is {share('state, two-hot', 300, 'policy')} and "
        f"{share('state, two-hot', 3000, 'policy')}. From 3,000 episodes of the expert it is "
        f"{share('state', 3000, 'expert')}, of random actions {share('state', 3000, 'random')}, "
        "and of an expert with random actions in three turns of ten "
        f"{share('state', 3000, 'noisy expert')}."
    )


def decisive_turns() -> str:
    """Returns how often the turn that decides an episode comes first, by estimator."""
    environments = _environments("decisive_turn")
    if not environments:
        return NOTHING
    decided = {name: f"{row['decided']} of {row['episodes']}" for name, row in environments.items()}
    header = [f"{k} ({v} decided): {x}" for k, v in decided.items() for x in ("place", "first")]
    rows = []
    for estimator in next(iter(environments.values()))["estimators"]:
        found = [row["estimators"][estimator] for row in environments.values()]
        cells = [
            cell for x in found for cell in (interval(x["place"]), percent_interval(x["first"]))
        ]
        rows.append((estimator, *cells))
    chance = [x for row in environments.values() for x in ("0.50", f"{100 * row['chance']:.0f}")]
    return table(("Estimator", *header), [*rows, ("chance", *chance)])


def decisive_tokens() -> str:
    """Returns how estimators order the tokens of an episode, by environment."""
    rows = [
        (env, estimator, *(interval(scores[c]) if c in scores else "-" for c in COLUMNS))
        for env, row in _environments("decisive_token").items()
        for estimator, scores in row["estimators"].items()
        if estimator not in ALIKE
    ]
    header = ("Environment", "Estimator", *(column.capitalize() for column in COLUMNS))
    return table(header, rows) if rows else NOTHING


def decisive_tokens_found() -> str:
    """Returns the number of decisive tokens and the explained variance of the critic."""
    rows = [
        (
            env,
            f"{row['decided']} of {row['episodes']}",
            f"{row['decided_within']}",
            f"{row['return']:.2f}",
            interval(row["explained"]),
            interval(row["possible"]),
        )
        for env, row in _environments("decisive_token").items()
    ]
    header = (
        "Environment", "Decided", "Of which within an action", "Return", "Explained variance",
        "Best possible",
    )  # fmt: skip
    return table(header, rows) if rows else NOTHING


def _environments(name: str) -> dict[str, Any]:
    """Returns the environments of a result file, none without the file."""
    return (results_if_any(name) or {"environments": {}})["environments"]


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        critics,
        critics_by_turn,
        critics_summary,
        critics_settings,
        critics_by_data,
        critics_data_summary,
        decisive_turns,
        decisive_tokens,
        decisive_tokens_found,
    )
}
