"""Imports run one way: from floor to floor of `agentgym/` and of `trainers/`.

Imports in functions and those for type checkers count, too: who reads a file follows them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Families that play on the engine of another one, on purpose.
SHARED = {
    "baba": {"grid"},  # directions and the parsing of moves
    "communication": {"lmrl"},  # two-player Twenty Questions
    "jericho": {"textworld"},  # its small game is made by TextWorld
    "propose_solve": {"code", "numbers"},  # the judge of programs, and the parsing of expressions
    "search": {"webshop"},  # the terms of its search engine
}


def modules() -> dict[str, Path]:
    """All modules of the package by name."""
    found = {}
    for top, name in (("agentgym", "agentgym"), ("envs", "agentgym.envs"), ("trainers", "")):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT / top).with_suffix("").parts
            if top == "agentgym" and parts[0] in ("envs", "trainers"):
                continue  # the links
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((name or "agentgym.trainers", *parts))] = path
    return found


MODULES = modules()
FLOORS = {
    "agentgym": (
        ("lazy_names",),
        ("checkout", "errors", "goals", "reading", "spaces", "testing", "version"),
        ("rendering", "snapshots", "time_step", "utils"),
        ("sandbox", "tasks", "time_limits"),
        ("core",),
        ("tokens", "tools"),
        ("data",),
        ("agents",),
        ("judges",),
        ("multiagent",),
        ("textify", "wrappers"),
        ("registration",),
        ("certify", "evaluation", "integrations", "serving"),
        ("cli", "envs"),
        ("__main__", "trainers"),
    ),
    "agentgym.trainers": (
        ("data", "system"),
        ("policy",),
        ("rollout",),
        ("settings",),
        ("credit", "update"),
        ("critics",),
        ("policy_agent",),
        ("audit", "rewards", "imitation", "players"),
        ("hooks",),
        ("algorithm", "callbacks"),
        ("gateway",),
        ("run",),
        ("trainer",),
        ("recipes",),
        ("api",),
        ("cli",),
        ("__main__",),
    ),
}
"""The folders and files of a package, from the ground up. Each imports floors below it only."""
KNOT = "agentgym.trainers.settings."
"""The folder whose files may import each other's types in a circle."""


def imported(name: str, *, types: bool = True) -> set[str]:
    """The modules of the package that a module imports, at any place.

    Args:
        name: the module.
        types: whether imports for type checkers count.
    """
    found = set()
    for statement in statements(ast.parse(MODULES[name].read_text(encoding="utf-8")), types):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif statement.module is not None and statement.level == 0:
            inner = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= inner & MODULES.keys() or {statement.module}
    return (found & MODULES.keys()) - {name}


def statements(node: ast.AST, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not types:
            for other in child.orelse:
                yield from statements(other, types)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from statements(child, types)


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: imported(name) for name in MODULES}


def family(name: str) -> str:
    return name.removeprefix("agentgym.envs.").partition(".")[0]


def test_imports_are_found(imports: dict[str, set[str]]):
    assert "agentgym.core" in imports["agentgym.envs.numbers.number_line"]
    assert len(MODULES) > 250


def test_families_of_environments_import_only_themselves(imports: dict[str, set[str]]):
    wrong = {
        (name, other)
        for name, others in imports.items()
        for other in others
        if name.startswith("agentgym.envs.") and other.startswith("agentgym.envs.")
        if family(other) not in {family(name)} | SHARED.get(family(name), set())
    }
    assert not wrong


def test_recipes_import_the_engine_and_never_each_other(imports: dict[str, set[str]]):
    recipes = "agentgym.trainers.recipes"
    users = {
        (name, other)
        for name, others in imports.items()
        for other in others
        if other.startswith(f"{recipes}.")
    }
    assert not users


def room(name: str, package: str) -> str | None:
    """The folder or file of a package that a module is part of. None: it is outside of it."""
    inside = name.startswith(f"{package}.")
    return name.removeprefix(f"{package}.").partition(".")[0] if inside else None


def folder(name: str) -> str:
    """The folder of a module. The files of packages with floors stand for themselves."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    return name if package in FLOORS else package


@pytest.mark.parametrize("package", FLOORS)
def test_everything_has_a_floor(package: str):
    rooms = {room(name, package) for name in MODULES} - {None}
    assert rooms == {each for floor in FLOORS[package] for each in floor}


@pytest.mark.parametrize("package", FLOORS)
def test_modules_import_only_floors_below_them(package: str, imports: dict[str, set[str]]):
    floors = {each: number for number, floor in enumerate(FLOORS[package]) for each in floor}
    wrong = set()
    for name, others in imports.items():
        here = room(name, package)
        for other in others:
            there = room(other, package)
            if here is not None and there not in (here, None) and floors[here] <= floors[there]:
                wrong.add((name, other))
    assert not wrong


def test_only_users_import_the_package_that_offers_all_public_names(imports: dict[str, set[str]]):
    assert not [name for name, others in imports.items() if "agentgym" in others]


def test_there_is_no_circle_of_folders(imports: dict[str, set[str]]):
    graph: dict[str, set[str]] = {folder(name): set() for name in MODULES}
    for name, others in imports.items():
        graph[folder(name)] |= {folder(other) for other in others} - {folder(name)}
    assert not knots(graph)


def knots(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The nodes on circles, with those that they import there."""
    remaining = {name: set(others) for name, others in graph.items()}
    while free := {name for name, others in remaining.items() if not others & remaining.keys()}:
        for name in free:
            del remaining[name]
    while free := set(remaining) - {o for others in remaining.values() for o in others}:
        for name in free:  # modules above a circle are not part of it
            del remaining[name]
    return {name: others & remaining.keys() for name, others in remaining.items()}


def test_there_is_no_circle_of_imports():
    assert not knots({name: imported(name, types=False) for name in MODULES})


def test_types_form_circles_only_where_files_describe_one_thing(imports: dict[str, set[str]]):
    inside = {
        name: {other for other in others if not other.startswith(KNOT)}
        for name, others in imports.items()
        if not name.startswith(KNOT)
    }
    assert not knots(inside)
