"""Names of a package that are imported on first access, so that the package is imported fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: `__name__` of the package.
        modules: the module of each name. A name that is a module of the package itself is mapped to
            that module, such as "wrappers" to "agentgym.wrappers". Access imports its other
            modules, too.
    """

    def __getattr__(name: str) -> Any:
        home = modules.get(name)
        public = name.isidentifier() and not name.startswith("_")
        if home is None and public and find_spec(f"{package}.{name}"):
            home = f"{package}.{name}"  # a module of the package that nobody has imported yet
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return __getattr__, __dir__
