"""The measured figures and pictures of the documentation, made of the files in `results/`.

A function of `BLOCKS` returns the text of a block, and one of `PICTURES` draws a picture.
`figures.py` writes them into the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.shared.figure_results import digest_of, png_of, results, table
from benchmarks.shared.result_files import outer_quarters

# Speed.


def _speed(file: str) -> dict[str, Any]:
    rows = results(file)["environments"]
    return next(row for row in rows if row["id"] == "AgentGym/WebShop-v0")


def webshop_speedup() -> str:
    """Returns by which factor WebShop is faster than the original on the same files."""
    row = _speed("env_speed_webshop_files")
    factor = row["steps_per_second"] / row["reference_steps_per_second"]
    return f"{100 * (factor // 100):.0f} times"


def webshop_speed() -> str:
    """Returns the table of WebShop's speed, on the original's files and on generated products."""
    names = {
        "original files": "env_speed_webshop_files",
        "generated products": "env_speed",
    }
    rows = [
        (
            title,
            f"{row['steps_per_second']:,.0f}",
            f"{row['start_seconds']:.2f} s ({row['first_start_seconds']:.2f} s the first time)",
            f"{row['megabytes']:.0f} MiB",
        )
        for title, row in ((title, _speed(file)) for title, file in names.items())
    ]
    reference = _speed("env_speed")["reference"].rpartition(": ")[2].split(", ")
    speed, start, memory = (re.sub(r" steps/s$|^start ", "", words) for words in reference)
    rows.append(("the original program", speed, start, memory))
    header = ("1,000 products", "Steps/s, one core", "Start to first observation", "Memory")
    return table(header, rows)


def webshop_search() -> str:
    """Returns the table of search times."""
    rows = [
        (
            f"{row['products']:,}",
            f"{row['p50_milliseconds']:.2f} ms",
            f"{row['p95_milliseconds']:.2f} ms",
            f"{row['megabytes']:.0f} MiB",
        )
        for row in results("env_speed")["search"]
    ]
    return table(("Products", "Search, median", "Search, 95th percentile", "Memory"), rows)


def credit_speed() -> str:
    """Returns the table of the estimators' times."""
    found = results("credit_speed")
    base = found["estimators"]["POAD"]["ms"]
    rows = [
        (name, f"{row['ms']:.2f}", f"{row['ms'] / base:.2f}")
        for name, row in found["estimators"].items()
    ]
    rows += [
        (name, f"{ms:.2f}", f"{ms / base:.1f}")
        for name, ms in found["others"].items()
        if isinstance(ms, float)
    ]
    return table(("Estimator", "Milliseconds", "x POAD"), rows)


def generation_peers() -> str:
    """Returns the table of generated tokens per second beside those of other libraries."""
    rows = [
        (
            name,
            f"{row['tokens_per_second']:,.0f}",
            f"{row.get('generate_tokens_per_second') or row['trl_tokens_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['memory_ratio']:.2f}" if "memory_ratio" in row else "",
        )
        for name, row in results("peers")["results"].items()
    ]
    return table(
        ("Comparison", "Tokens/s", "Peer, tokens/s", "Ratio", "Ratio of peak memory"), rows
    )


# Memory.


# Credit assignment.


def credit_oracle() -> str:
    """Returns the table of bias and noise of the estimators."""
    rows = [
        (
            name,
            f"{row['bias']:.3f} ({row['bias_over_noise']:.2f})",
            f"{row['gradient_bias']:.3f} ({row['gradient_bias_over_noise']:.2f})",
            f"{row['noise_to_signal']:.2f}",
        )
        for name, row in results("credit_oracle")["estimators"].items()
    ]
    header = (
        "Estimator",
        "Bias (x noise)",
        "Gradient bias (x noise)",
        "Gradient noise / signal",
    )
    return table(header, rows)


# Learning.


def _interval(estimate: Sequence[float]) -> str:
    mean, low, high = estimate
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]" if high > low else f"{mean:.2f}"


def _learned(name: str) -> list[dict[str, Any]]:
    return [run["agents"] | {"run": run} for run in results(f"learning_{name}")["runs"]]


LEARNED = {
    "Random": "random",
    "After behaviour cloning": "imitation",
    "After POAD": "poad",
    "Expert": "expert",
}
"""Columns of tables of learning, and the agent of each."""
FILES = {"truncate": "webshop_files", "terminate": "webshop_files_terminal"}
"""Results on the original's products, by turn limit."""


def _by_seed(name: str) -> str:
    rows = []
    for agents in _learned(name):
        run, each = agents["run"], [_interval(agents[id]["reward"]) for id in LEARNED.values()]
        rows.append((str(run["seed"]), *each, _range(run["explained_variance"])))
    return table(("Seed", *LEARNED, "Explained variance"), rows)


def learning_webshop() -> str:
    """Returns the rewards on generated products, and what the critic explains, by seed."""
    return _by_seed("webshop")


def learning_first_run() -> str:
    """Returns the rewards of the first run, and what its critic explains, by seed."""
    return _by_seed("first_run")


def _range(curve: Sequence[Sequence[float]]) -> str:
    """Returns the least and the largest explained variance of an iteration."""
    shares = [share for _, share in curve]
    return f"{min(shares):.2f} to {max(shares):.2f}"


def learning_webshop_files() -> str:
    """Returns rewards and truncated episodes on the original's products, by turn limit."""
    rows = []
    for limit, name in FILES.items():
        for agents in _learned(name):
            stuck = [f"{100 * agents[a]['truncated'][0]:.1f} %" for a in ("imitation", "poad")]
            rewards = (_interval(agents[a]["reward"]) for a in LEARNED.values())
            rows.append((f"`{limit}`", *rewards, " to ".join(stuck)))
    return table(("Turn limit", *LEARNED, "Truncated episodes"), rows)


def _gain(name: str) -> str:
    agents = _learned(name)
    before, after = (
        np.mean([a[key]["reward"][0] for a in agents]) for key in ("imitation", "poad")
    )
    return f"{before:.2f} to {after:.2f}"


def learning_webshop_gain() -> str:
    """Returns the mean reward before and after POAD on generated products."""
    return _gain("webshop")


def first_run_gain() -> str:
    """Returns the mean reward before and after POAD in the first run."""
    return _gain("first_run")


def learning_webshop_files_one_epoch() -> str:
    """Returns the reward before and after POAD from a policy that was cloned in one epoch."""
    return _gain("webshop_files_one_epoch")


def learning_webshop_success() -> str:
    """Returns the range of success rates after POAD on generated products."""
    rates = [100 * agents["poad"]["success"][0] for agents in _learned("webshop")]
    return f"{min(rates):.0f}-{max(rates):.0f} %"


def learning_webshop_few() -> str:
    """Returns the rewards of recipes after few demonstrations, a row per recipe and seed."""
    header = (
        "Recipe", "Seed", "After behaviour cloning", "Half way", "At the end",
        "Environment steps", "Explained variance",
    )  # fmt: skip
    rows = []
    for agents in sorted(_learned("webshop_few"), key=lambda each: each["run"]["recipe"]):
        run = agents["run"]
        points, explained = run["curve"], _range(run["explained_variance"])
        rewards = (_interval(points[i][1:]) for i in (0, len(points) // 2, -1))
        rows.append(
            (f"`{run['recipe']}`", str(run["seed"]), *rewards, f"{run['env_steps']:,}", explained)
        )
    return table(header, rows)


def learning_longer() -> str:
    """Returns the longer runs in environments that the short ones do not solve, a row per seed."""
    rows = []
    names = {"sokoban": "`Sokoban-v0`", "wordle": "`Wordle-v0`"}
    for id, agents in ((id, each) for name, id in names.items() for each in _learned(name)):
        run = agents["run"]
        rewards = (_interval(agents[each]["reward"]) for each in LEARNED.values())
        before, after = (100 * agents[each]["success"][0] for each in ("imitation", "poad"))
        quarters = outer_quarters([share for _, share in run["explained_variance"]])
        first, last = map(median, quarters)
        success = f"{before:.0f} % to {after:.0f} %"
        explained = f"{first:.2f} to {last:.2f}"
        rows.append((id, str(run["seed"]), *rewards, success, explained))
    header = ("Environment", "Seed", *LEARNED, "Success", "Explained variance")
    return table(header, rows)


def engines() -> str:
    """Returns the rewards of the same runs with each engine, a row per seed."""
    header = ("Seed", "After behaviour cloning", "Own", "vLLM", "Mean of the curve, own", "vLLM")
    rows = []
    for own, other in zip(_learned("numberline_own"), _learned("numberline_vllm"), strict=True):
        both = own, other
        curves = [np.mean([point[1] for point in each["run"]["curve"]]) for each in both]
        rows.append(
            (
                str(own["run"]["seed"]),
                _interval(own["imitation"]["reward"]),
                *(_interval(each["poad"]["reward"]) for each in both),
                *(f"{mean:.2f}" for mean in curves),
            )
        )
    return table(header, rows)


def demo_table() -> str:
    """Returns the table of seed 0, the run of `make demo`."""
    [agents] = [a for a in _learned("webshop") if a["run"]["seed"] == 0]
    episodes = results("learning_webshop")["config"]
    count = episodes["iterations"] * episodes["episodes_per_iteration"]
    names = {
        "random": "random",
        "imitation": "after behaviour cloning",
        "poad": f"after POAD, {count:,} episodes",
        "expert": "scripted expert",
    }
    rows = [
        (
            title,
            _interval(agents[name]["reward"]),
            f"{100 * agents[name]['success'][0]:.0f} %",
            f"{agents[name]['turns'][0]:.1f}",
        )
        for name, title in names.items()
    ]
    return table(("Agent", "Reward (95 % confidence interval)", "Success", "Turns"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        webshop_speedup,
        webshop_speed,
        webshop_search,
        credit_speed,
        generation_peers,
        credit_oracle,
        learning_webshop,
        learning_webshop_files,
        learning_webshop_gain,
        learning_webshop_files_one_epoch,
        learning_webshop_success,
        learning_webshop_few,
        learning_longer,
        learning_first_run,
        first_run_gain,
        engines,
        demo_table,
    )
}


# Pictures.


def demo_curve() -> tuple[str, Callable[[], bytes]]:
    """Returns what the picture of `make demo` shows, as a digest, and a function that draws it."""
    [run] = [run for run in results("learning_webshop")["runs"] if run["seed"] == 0]
    digest = digest_of(run)
    return digest, lambda: _draw_run(run, digest)


def _draw_run(run: dict[str, Any], digest: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    training, evaluated = np.array(run["training_return"]), np.array(run["curve"])
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(training[:, 0], training[:, 1], color="C0", alpha=0.5, label="training tasks")
    steps, means, lows, highs = evaluated.T
    errors = np.stack([means - lows, highs - means])
    label = "held-out tasks, greedy, 95 % interval"
    axes.errorbar(steps, means, errors, fmt="o-", color="C1", capsize=3, label=label)
    for agent, style in (("random", ":"), ("expert", "--")):
        reward = run["agents"][agent]["reward"][0]
        axes.axhline(reward, color="0.5", linestyle=style, label=agent)
    title = f"{run['recipe'].upper()} on WebShop-v0, seed {run['seed']}"
    axes.set(xlabel="environment steps", ylabel="reward", title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.4))
    return png_of(figure, digest, dpi=120)


PICTURES: dict[str, Callable[[], tuple[str, Callable[[], bytes]]]] = {"docs/curve.png": demo_curve}
"""Picture -> digest of its data, which the picture carries in its metadata, and how to draw it."""
