"""Recipes: one file per algorithm, discovered by name.

A recipe is a module with a docstring whose first line is its summary, a dataclass `Config` (a
subclass of `TrainConfig`) and a function `build(config)` that returns its `Algorithm`. The name of
the file is the name of the recipe.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError, did_you_mean


@cache
def names() -> tuple[str, ...]:
    """Returns the names of all recipes, sorted."""
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__)))


def summary(name: str) -> str:
    """Returns the first line of a recipe's docstring, without importing it."""
    file = next(path for folder in __path__ if (path := Path(folder, f"{name}.py")).is_file())
    source = ast.parse(file.read_text(encoding="utf-8"))
    return (ast.get_docstring(source) or "").partition("\n")[0]


def load(name: str) -> Any:
    """Returns the module of a recipe, with `Config` and `build`.

    Raises:
        ConfigError: if there is no such recipe.
    """
    if not isinstance(name, str):
        raise ConfigError(f"A recipe is the name of one, such as 'poad', got {name!r:.80}.")
    if name not in names():
        known = ", ".join(names())
        raise ConfigError(f"Unknown recipe {name!r}.{did_you_mean(name, names())} Known: {known}.")
    return importlib.import_module(f"{__name__}.{name}")
