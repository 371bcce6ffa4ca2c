"""Recipes: one file per algorithm, discovered by name.

A recipe is a module with a docstring whose first line is its summary, a dataclass `Config` (a
subclass of `TrainConfig`) and a function `build(config)` that returns its `Algorithm`. The name of
the file is the name of the recipe. A recipe that is not in this folder has the import path of its
module as its name, such as "my_lab.my_recipe".
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
    """Returns the names of the recipes in this folder, sorted."""
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__)))


def summary(name: str) -> str:
    """Returns the first line of a recipe's docstring. It imports none of the recipes here."""
    if "." in name:
        return (load(name).__doc__ or "").partition("\n")[0]
    file = next(path for folder in __path__ if (path := Path(folder, f"{name}.py")).is_file())
    source = ast.parse(file.read_text(encoding="utf-8"))
    return (ast.get_docstring(source) or "").partition("\n")[0]


def load(name: str) -> Any:
    """Returns the module of a recipe, with `Config` and `build`.

    Args:
        name: the name of a recipe here, or the import path of a module elsewhere, with a dot.

    Raises:
        ConfigError: if there is no such recipe.
    """
    if not isinstance(name, str):
        raise ConfigError(f"A recipe is the name of one, such as 'poad', got {name!r:.80}.")
    if "." in name:
        return _own(name)
    if name not in names():
        known = ", ".join(names())
        raise ConfigError(
            f"Unknown recipe {name!r}.{did_you_mean(name, names())} Known: {known}. The name "
            "of your own is the import path of its module, with a dot, such as my_lab.my_recipe."
        )
    return importlib.import_module(f"{__name__}.{name}")


def _own(name: str) -> Any:
    """Returns the module of a recipe that is not in this folder."""
    try:
        module = importlib.import_module(name)
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        missing = getattr(error, "name", None)
        if missing is not None and not f"{name}.".startswith(f"{missing}."):
            raise  # an import of the recipe
        raise ConfigError(
            f"Unknown recipe {name!r}: there is no such module ({error}). Start the command in the "
            "folder that holds its package, or install the package."
        ) from error
    if missing := [part for part in ("Config", "build") if not hasattr(module, part)]:
        raise ConfigError(
            f"The module {name} is no recipe: it has no {' and no '.join(missing)} (see "
            "CONTRIBUTING.md, An algorithm in one file)."
        )
    return module
