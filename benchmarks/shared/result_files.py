"""Result files of the benchmarks: JSON with the settings and versions of the measurement."""

from __future__ import annotations

import importlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the start of environments is measured
    from agentgym.evaluation.report import Estimate, Report


BENCHMARKS = Path(__file__).resolve().parents[1]
RESULTS = BENCHMARKS / "results"


def versions(*packages: str) -> dict[str, str]:
    """Returns the versions of packages and of Python, and the kind of machine."""
    found = {name: importlib.import_module(name).__version__ for name in packages}
    return found | {"python": platform.python_version(), "machine": platform.machine()}


def settings_of(settings: Any, *apart: str) -> dict[str, Any]:
    """Returns the settings of a script without its output: a file may get another name.

    Args:
        settings: the settings.
        *apart: names of others that do not count.
    """
    return {k: value for k, value in asdict(settings).items() if k not in ("out", *apart)}


def read(path: Path) -> dict[str, Any]:
    """Returns the content of a result file, empty if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def kept(
    path: Path, settings: Mapping[str, Any] | None = None, rows: str = "environments"
) -> dict[str, Any]:
    """Returns the environments of a result file by name, empty if there is no file.

    Args:
        path: the file.
        settings: settings that results must share to stand in one file.
        rows: name of the results in the file.

    Raises:
        SystemExit: if the file holds results of other settings.
    """
    found = read(path)
    refuse_other(path, found.get("settings", found.get("config", {})), settings or {}, "--out")
    return found.get(rows, {})


def measured(
    path: Path, about: Mapping[str, Any], rows: str, measures: Mapping[str, Callable[[], Any]]
) -> Iterator[tuple[str, Any]]:
    """Yields results by name: those of a file, and the missing ones, each written once measured.

    Args:
        path: the file.
        about: what else to write, with the settings that all results share as `settings` or
            `config`.
        rows: name of the results in the file.
        measures: a function that measures it, by name of the result.

    Raises:
        SystemExit: if the file holds results of other settings.
    """
    found = kept(path, about.get("settings", about.get("config")), rows)
    if old := [name for name in measures if name in found]:
        print(f"Kept from {path}: {', '.join(old)}. To measure again, set --out to a new name.")
    content = {**read(path), **about, rows: found}
    for name, measure in measures.items():
        if name not in found:
            found[name] = measure()
            write(path, content)
        yield name, found[name]


def refuse_other(
    path: Path, before: Mapping[str, Any], settings: Mapping[str, Any], option: str
) -> None:
    """Compares the settings that a file was written with to those of now.

    Args:
        path: the file.
        before: settings of the file. Those that it does not name may have any value.
        settings: settings that must be the same.
        option: the option that names another place.

    Raises:
        SystemExit: if they differ.
    """
    different = ", ".join(
        f"{name} = {before[name]!r} -> {value!r}"
        for name, value in json.loads(json.dumps(settings)).items()
        if name in before and before[name] != value
    )
    if different:
        raise SystemExit(
            f"{path} holds results of other settings ({different}): set {option} to a new name."
        )


def rounded(estimate: Estimate) -> list[float]:
    """Returns a mean with the ends of its interval, which is the mean itself if there is none."""
    low, high = (estimate.mean if x is None else x for x in (estimate.low, estimate.high))
    return [round(x, 4) for x in (estimate.mean, low, high)]


def outer_quarters(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Returns the first and the last quarter of the values, rounded up."""
    quarter = -(-len(values) // 4)
    return values[:quarter], values[len(values) - quarter :]


def whole(report: Report) -> Report:
    """Returns the report of an evaluation.

    Raises:
        KeyboardInterrupt: if Ctrl-C ended the evaluation early. Its part is no result.
    """
    if report.interrupted:
        raise KeyboardInterrupt
    return report


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Writes a result file atomically, and its folder."""
    from agentgym.utils.files import replace_text

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(results, indent=1) + "\n")
