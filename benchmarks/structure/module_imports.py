"""Imports between the modules of a checkout: rooms, floors and circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PARTS = ("envs", "trainers")
"""Folders beside `agentgym/` that links make part of it."""
FLOORS = (
    "trajectory", "model_defaults", "policy", "rollout", "opponents", "settings", "config_checks",
    "config", "credit", "critics", "update", "policy_agent", "hooks", "callbacks", "algorithm",
    "run", "trainer", "recipes", "api", "__main__",
)  # fmt: skip
"""Rooms of `trainers/` from the ground up, of a checkout whose tests list none."""
Graph = Mapping[str, Iterable[str]]
TRAINERS = "agentgym.trainers"


def modules(root: Path) -> dict[str, Path]:
    """Returns the files of all modules of a checkout by name. Links are left out."""
    places = ((root / "agentgym", "agentgym"), *((root / n, f"agentgym.{n}") for n in PARTS))
    found = {}
    for top, name in places:
        for path in sorted(top.rglob("*.py")):
            parts = path.relative_to(top).with_suffix("").parts
            if top.name == "agentgym" and parts[0] in PARTS:
                continue
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((name, *parts))] = path
    return found


def statements(node: ast.AST, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yields the imports below a node, with those for type checkers if `types`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not types:
            for other in child.orelse:
                yield from statements(other, types)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.expr):
            yield from statements(child, types)


@cache
def statements_of(path: Path, types: bool) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Returns the imports of a file."""
    return tuple(statements(ast.parse(path.read_text(encoding="utf-8")), types))


def imports(files: Mapping[str, Path], types: bool = True) -> dict[str, set[str]]:
    """Returns the modules of the project that each module imports, at any place."""
    graph = {}
    for name, path in files.items():
        found: set[str] = set()
        for statement in statements_of(path, types):
            if isinstance(statement, ast.Import):
                found |= {alias.name for alias in statement.names}
            elif statement.module is not None and statement.level == 0:
                inner = {f"{statement.module}.{alias.name}" for alias in statement.names}
                found |= (inner & files.keys()) or {statement.module}
        graph[name] = (found & files.keys()) - {name}
    return graph


def reachable(graph: Graph, start: str) -> set[str]:
    """Returns the nodes that arrows lead to from a node."""
    found: set[str] = set()
    waiting = [*graph.get(start, ())]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Returns the groups of nodes that all reach each other, the largest first."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {
        frozenset(other for other in reach[node] if node in reach.get(other, ()))
        for node in graph
        if node in reach[node]
    }
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))


def room(name: str, scope: str) -> str:
    """Returns the room of a module in a package, empty for the package itself and others."""
    return name.removeprefix(f"{scope}.").partition(".")[0] if name.startswith(f"{scope}.") else ""


def rooms(graph: Graph, scope: str) -> dict[str, set[str]]:
    """Returns the rooms of a package, each with the rooms that it imports."""
    found: dict[str, set[str]] = {room(name, scope): set() for name in graph}
    for name, others in graph.items():
        found[room(name, scope)] |= {room(other, scope) for other in others}
    return {here: there - {here, ""} for here, there in found.items() if here}


def floors(root: Path) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Returns the floors of packages that the tests of a checkout list, from the ground up.

    A floor is a room, or several ones that do not import each other in a circle. A list of floors
    without a package is that of `trainers/`.
    """
    listed: Any = FLOORS
    for node in ast.parse((root / "tests" / "test_layers.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(node).startswith("FLOORS"):
            assert node.value is not None
            listed = ast.literal_eval(node.value)
    packages = listed if isinstance(listed, dict) else {TRAINERS: listed}
    return {
        package: tuple((floor,) if isinstance(floor, str) else tuple(floor) for floor in own)
        for package, own in packages.items()
    }


def back_up(arrows: Graph, levels: Iterable[Iterable[str]]) -> list[str]:
    """Returns the arrows that lead to no floor below, and those of a room that is on none."""
    height = {name: number for number, floor in enumerate(levels) for name in floor}
    wrong = [
        f"{here} -> {there}"
        for here, others in arrows.items()
        for there in others
        if height.get(here, -1) <= height.get(there, len(height))
    ]
    return sorted(wrong)
