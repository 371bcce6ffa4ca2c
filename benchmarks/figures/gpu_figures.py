"""Figures of `gpu.py` in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.shared.figure_results import NOTHING, results, results_if_any, table

ENGINES = {
    "graph": "own, with CUDA graphs",
    "own": "own",
    "generate": "`generate` of `transformers`",
    "vllm": "vLLM",
    "continuous": "continuous batching of `transformers`",
}
"""The engines, as the documentation calls them."""


def part(name: str, header: Sequence[str], cells: Callable[[Any], tuple[str, ...]]) -> str:
    """Returns a table of the measurements of one part that did not fail, one per row.

    Args:
        name: name of the part in the results.
        header: the titles of the columns after the model.
        cells: maps a measurement to the cells after the model.
    """
    content = results_if_any("gpu")
    if content is None:
        return NOTHING
    rows = [(model_name(row), *cells(row)) for row in content[name] if "error" not in row]
    return table(("Model", *header), rows)


def model_name(row: dict[str, Any]) -> str:
    """Returns the name of the model of a measurement."""
    return f"Qwen2.5-{row['model']}"


def gpu_generation() -> str:
    """Returns the speed of each engine."""
    return part(
        "generation",
        ("Engine", "Tokens/s"),
        lambda row: (ENGINES[row["engine"]], f"{row['tokens_per_second']:,.0f}"),
    )


def gpu_decoding() -> str:
    """Returns the speed of decoding of each engine, beside the bound of the memory."""
    content = results_if_any("gpu_decoding")
    if content is None:
        return NOTHING
    rows = [
        (
            model_name(row),
            ENGINES[row["engine"]],
            str(row["rows"]),
            f"{row['prefill_seconds']:.2f}",
            f"{row['decode_tokens_per_second']:,.0f}",
            f"{row['bound']:,.0f}",
            f"{100 * row['share_of_bound']:.1f} %",
        )
        for row in content["rows"]
        if "error" not in row
    ]
    header = ("Model", "Engine", "Rows", "Prefill, s", "Decoding, tokens/s", "Bound", "Share")
    return table(header, rows)


def gpu_training() -> str:
    """Returns speed and memory of updates, with the memory that `memory.py` predicts."""
    adapter = "queries and values"  # of the measured updates
    counted = [row for row in results("memory")["models"] if row["adapter"] == adapter]
    predicted = {row["model"]: row for row in counted}

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        known = predicted[row["model"]]
        kept = known["kept_per_token_without_checkpointing"] * row["length"] * row["rows"]
        return (
            f"{row['rows']} x {row['length']:,}",
            f"{row['tokens_per_second']:,.0f}",
            f"{100 * row['mfu']:.0f} %",
            f"{row['peak_gib']:.0f}",
            f"{(known['weights'] + kept) / 2**30:.0f}",
        )

    return part("training", ("Rows", "Tokens/s", "MFU", "Peak, GiB", "In one pass, GiB"), cells)


def gpu_runs() -> str:
    """Returns the seconds of an iteration of training."""
    return part(
        "runs",
        ("Environment", "Recipe", "Episodes", "Collect, s", "Update, s"),
        lambda row: (
            f"`{row['env_id']}`",
            f"`{row['recipe']}`",
            str(row["episodes"]),
            f"{row['collect']:.1f}",
            f"{row['update']:.1f}",
        ),
    )


def gpu_updates() -> str:
    """Returns the seconds of the phases of an iteration."""
    content = results_if_any("updates")
    if content is None:
        return NOTHING
    names = (
        "play", "values", "reference", "forward", "backward", "optimiser", "collate", "credit",
        "alternatives", "rest",
    )  # fmt: skip
    rows = [
        (
            model_name(row),
            f"`{row['recipe']}`",
            *(f"{row[name]:.2f}" for name in names),
            f"{100 * row['padding']:.0f} %",
            "" if row["mfu"] is None else f"{100 * row['mfu']:.0f} %",
        )
        for row in content["rows"]
        if "error" not in row
    ]
    header = ("Model", "Recipe", *(name.capitalize() for name in names), "Padding", "MFU")
    return table(header, rows)


TABLES = gpu_generation, gpu_decoding, gpu_training, gpu_runs, gpu_updates
BLOCKS = {block.__name__: block for block in TABLES}
