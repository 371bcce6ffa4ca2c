"""Result files of the benchmarks: JSON with the settings and versions of the measurement."""

from __future__ import annotations

import importlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any


def versions(*packages: str) -> dict[str, str]:
    """Returns the versions of packages and of Python, and the kind of machine."""
    found = {name: importlib.import_module(name).__version__ for name in packages}
    return found | {"python": platform.python_version(), "machine": platform.machine()}


def settings_of(settings: Any) -> dict[str, Any]:
    """Returns the settings of a script, with the name of its output alone, as paths are private."""
    return asdict(settings) | {"out": settings.out.name}


def kept(path: Path) -> dict[str, Any]:
    """Returns the environments of a result file by name, empty if there is no file."""
    return json.loads(path.read_text(encoding="utf-8"))["environments"] if path.exists() else {}


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Writes a result file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
