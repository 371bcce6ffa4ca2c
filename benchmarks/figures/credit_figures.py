"""Tables of critics and of credit, for the documentation.

A table without its file in `results/` is replaced by a note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from statistics import fmean
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
SETTINGS = {
    "shared": "head on the policy (default)",
    "own": "own trunk",
    "hidden": "own trunk, hidden state beside the prompt",
    "state": "own trunk, hidden state in place of the prompt",
}
"""Critics that differ in their settings, as the documentation calls them."""
NEAR = "At least 80 %"
EPISODES = (300, 1000, 3000)
OTHER_PLAYERS = ("expert", "noisy expert", "random")
AUDITED = {
    "return": "return to go",
    "exact, again": "exact, other continuations",
}
"""Estimators that are no recipes, as the documentation calls them."""
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
    """Returns the shares of the possible that the best critics explain, by their input."""
    best = {
        "the default": ("shared",),
        "the best that reads the prompt": ("shared", "shared, normalised", "own"),
        "the best that reads the hidden state": ("hidden", "state"),
    }
    rows = [
        (label, _percents(shares.values()), f"{_near(shares.values())} of {len(shares)}")
        for label, names in best.items()
        if (shares := _shares(*names))
    ]
    return table(("Critic", "Share of the possible", NEAR), rows) if rows else NOTHING


def critics_settings() -> str:
    """Returns the share of the possible that critics explain, by their settings."""
    default, rows = _shares("shared"), []
    for name, label in SETTINGS.items():
        if shares := _shares(name):
            higher = "-" if name == "shared" else _higher(shares, default)
            near, worse = _near(shares.values()), sum(share < 0 for share in shares.values())
            counts = (f"{count} of {len(shares)}" for count in (near, worse))
            rows.append((label, _percents(shares.values()), higher, *counts))
    header = ("Critic", "Share of the possible", "Above the head", NEAR, "Worse than a constant")
    return table(header, rows) if rows else NOTHING


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

    def share(critic: str, player: str, episodes: int) -> str:
        row = found["rows"].get(f"{critic}: {episodes}, {player}")
        return "-" if row is None else f"{100 * row['explained'][0] / found['possible'][0]:.0f} %"

    rows = [
        (label, player, *(share(critic, player, count) for count in EPISODES))
        for critic, label in (("state", "scalar"), ("state, two-hot", "two-hot"))
        for player in (("policy", *OTHER_PLAYERS) if critic == "state" else ("policy",))
    ]
    header = ("Head", "Episodes of", *(f"{count:,} episodes" for count in EPISODES))
    return table(header, rows)


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


def audits_correlation() -> str:
    """Returns the correlation of each estimator with exact advantages, by environment."""
    return _audits("correlation")


def audits_signs() -> str:
    """Returns the sign errors of each estimator, by environment."""
    return _audits("sign_errors")


def _audits(measure: str) -> str:
    found = results_if_any("audits")
    if found is None:
        return NOTHING
    audits = found["audits"]
    names = list(dict.fromkeys(key.split()[0] for key in audits))
    rows = [
        (
            AUDITED.get(estimator, f"`{estimator}`"),
            *(_audited(audits, name, estimator, measure) for name in names),
        )
        for estimator in next(iter(audits.values()))["estimators"]
        if estimator != "run"
    ]
    return table(("Credit", *names), rows)


def of_seeds(audits: Mapping[str, Any], name: str, estimator: str, measure: str) -> list[float]:
    """Returns a measure in each audit of an environment that has it: a turn must matter."""
    found = [
        each["estimators"].get(estimator, {}).get(measure)
        for key, each in audits.items()
        if key.split()[0] == name
    ]
    return [value for value in found if value is not None]


def _audited(audits: Mapping[str, Any], name: str, estimator: str, measure: str) -> str:
    """Returns the mean and the range of a measure over the seeds of an environment."""
    found = of_seeds(audits, name, estimator, measure)
    if not found:
        return "-"
    return f"{fmean(found):.2f} ({min(found):.2f} to {max(found):.2f})"


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
        audits_correlation,
        audits_signs,
        decisive_turns,
        decisive_tokens,
        decisive_tokens_found,
    )
}
