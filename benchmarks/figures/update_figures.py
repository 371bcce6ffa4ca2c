"""Memory and speed of training steps in the documentation."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.shared.figure_results import results, table


def training_memory() -> str:
    """Returns the table of the memory of a training step."""
    found = results("memory")
    contexts = [str(n) for n in found["settings"]["contexts"]]
    rows = [
        (
            f"Qwen2.5-{row['model']}",
            row["adapter"],
            f"{row['weights'] / 2**30:.1f}",
            f"{row['kept_per_token'] / 2**10:.0f}",
            f"{row['kept_over_least']:.2f}",
            f"{row['kept_per_token_without_checkpointing'] / 2**10:,.0f}",
            *(f"{row['peak'][n] / 2**30:.1f}" for n in contexts),
        )
        for row in found["models"]
    ]
    header = (
        "Model",
        "Adapter of",
        "Weights, GiB",
        "Kept, KiB/token",
        "x least",
        "Without checkpointing",
        *(f"Peak at {int(n):,} tokens, GiB" for n in contexts),
    )
    return table(header, rows)


def head_memory() -> str:
    """Returns the table of the memory of a step by the way in which log-probs are computed."""
    rows = [
        (
            f"{int(tokens):,}",
            name,
            f"{row['bytes_per_token'] / 2**10:,.0f}",
            f"{row['time_ratio']:.2f}",
        )
        for tokens, programs in results("head_memory")["steps"].items()
        for name, row in programs.items()
    ]
    return table(("Tokens", "Program", "KiB/token", "CPU time, x all logits"), rows)


def packing() -> str:
    """Returns the table of passes over packed rows."""
    rows = [
        (
            row["case"],
            row["dtype"],
            f"{row['tokens']['whole']:,}",
            f"{row['tokens']['packed']:,}",
            f"{row['faster']:.1f}",
            f"{row['difference']:.0e}",
        )
        for row in results("packing")["rows"]
    ]
    header = ("Rows", "Weights", "Tokens", "Packed", "x faster", "Difference of gradients")
    return table(header, rows)


def adapters() -> str:
    """Returns the table of the time that adapters take."""
    rows = results("adapters")["rows"]
    least = rows[0]
    cells = [
        (
            row["layers"],
            row["dtype"],
            *(f"{row[part] / least[part]:.2f}" for part in ("generate", "update")),
        )
        for row in rows
    ]
    return table(("Adapter of", "in", "Generation", "Forward and backward pass"), cells)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (training_memory, head_memory, packing, adapters)
}
