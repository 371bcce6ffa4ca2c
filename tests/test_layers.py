"""Imports run one way: trainers -> envs -> agentgym, without circles or shortcuts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("agentgym", "agentgym.envs", "agentgym.trainers")
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


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements below a node, those for type checkers excepted."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from statements(other)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from statements(child)


def imported(name: str) -> set[str]:
    """The modules of the package that a module imports, at any place."""
    found = set()
    for statement in statements(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif statement.module is not None and statement.level == 0:
            inner = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= inner & MODULES.keys() or {statement.module}
    return (found & MODULES.keys()) - {name}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: imported(name) for name in MODULES}


def layer(name: str) -> str:
    return next(top for top in reversed(LAYERS) if name.startswith(top))


def family(name: str) -> str:
    return name.removeprefix("agentgym.envs.").partition(".")[0]


def test_imports_are_found(imports: dict[str, set[str]]):
    assert "agentgym.core" in imports["agentgym.envs.numbers.number_line"]
    assert len(MODULES) > 250


def test_no_module_imports_a_layer_above_it(imports: dict[str, set[str]]):
    wrong = {
        (name, other)
        for name, others in imports.items()
        for other in others
        if LAYERS.index(layer(name)) < LAYERS.index(layer(other))
    }
    assert not wrong


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


def test_there_is_no_circle_of_imports(imports: dict[str, set[str]]):
    remaining = {name: set(others) for name, others in imports.items()}
    while free := {name for name, others in remaining.items() if not others & remaining.keys()}:
        for name in free:
            del remaining[name]
    while free := set(remaining) - {o for others in remaining.values() for o in others}:
        for name in free:  # modules above a circle are not part of it
            del remaining[name]
    assert not {name: sorted(others & remaining.keys()) for name, others in remaining.items()}
