"""Result files of the benchmarks: JSON with the settings and versions of the measurement."""

from __future__ import annotations

import importlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the start of environments is measured
    from agentgym.evaluation.report import Estimate, Report


def versions(*packages: str) -> dict[str, str]:
    """Returns the versions of packages and of Python, and the kind of machine."""
    found = {name: importlib.import_module(name).__version__ for name in packages}
    return found | {"python": platform.python_version(), "machine": platform.machine()}


def settings_of(settings: Any) -> dict[str, Any]:
    """Returns the settings of a script without its output: a file may get another name."""
    return {name: value for name, value in asdict(settings).items() if name != "out"}


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
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    refuse_other(path, found.get("settings", found.get("config", {})), settings or {}, "--out")
    return found.get(rows, {})


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
