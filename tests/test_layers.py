"""Imports run one way: trainers -> envs -> agentgym, and within them from floor to floor.

Imports in functions and those for type checkers count, too: who reads a file follows them.
"""

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
TRAINERS = "agentgym.trainers"
FLOORS = (
    ("data", "system"),
    ("policy",),
    ("rollout",),
    ("settings",),
    ("credit", "update"),
    ("critics",),
    ("policy_agent",),
    ("rewards", "imitation", "players"),
    ("hooks",),
    ("algorithm", "callbacks"),
    ("run",),
    ("trainer",),
    ("recipes",),
    ("api",),
    ("cli",),
    ("__main__",),
)
"""The folders and files of `trainers/`, from the ground up. Each imports floors below it only."""
KNOTS = ("agentgym.trainers.policy.", "agentgym.trainers.settings.")
"""Folders whose files may import each other's types in a circle."""


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


def layer(name: str) -> str:
    return next(top for top in reversed(LAYERS) if name.startswith(top))


def family(name: str) -> str:
    return name.removeprefix("agentgym.envs.").partition(".")[0]


def test_imports_are_found(imports: dict[str, set[str]]):
    assert "agentgym.core" in imports["agentgym.envs.numbers.number_line"]
    assert len(MODULES) > 250


def test_no_module_imports_a_layer_above_it(imports: dict[str, set[str]]):
    # `agentgym` itself offers public names of all layers.
    wrong = {
        (name, other)
        for name, others in imports.items()
        for other in others
        if LAYERS.index(layer(name)) < LAYERS.index(layer(other)) and name != "agentgym"
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


def room(name: str) -> str:
    """The folder or file of `trainers/` that a module is part of."""
    return name.removeprefix(f"{TRAINERS}.").partition(".")[0]


def test_every_folder_of_trainers_has_a_floor():
    rooms = {room(name) for name in MODULES if name.startswith(f"{TRAINERS}.")}
    assert rooms == {each for floor in FLOORS for each in floor}


def test_trainers_import_only_floors_below_them(imports: dict[str, set[str]]):
    floor_of = {each: number for number, floor in enumerate(FLOORS) for each in floor}
    wrong = {
        (name, other)
        for name, others in imports.items()
        for other in others
        if name.startswith(f"{TRAINERS}.") and other.startswith(f"{TRAINERS}.")
        if room(name) != room(other) and floor_of[room(name)] <= floor_of[room(other)]
    }
    assert not wrong


def knots(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules on circles of imports, with those that they import there."""
    remaining = {name: set(others) for name, others in imports.items()}
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
        name: {other for other in others if not other.startswith(KNOTS)}
        for name, others in imports.items()
        if not name.startswith(KNOTS)
    }
    assert not knots(inside)
