"""Rules of small worlds as data: variables, and actions that change them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from agentgym.errors import DataError

Values = tuple[int, ...]
"""A state: the place of each variable's value in its list."""

EXAMPLE = """{
  "about": "A lamp hangs in a workshop. Its plug has to be in before its switch works.",
  "variables": {"plug": ["out", "in"], "lamp": ["dark", "dim", "bright"], "door": ["shut", "open"]},
  "actions": {
    "move plug": [{"add": {"plug": 1}, "set": {"lamp": "dark"}}],
    "press switch": [{"when": {"plug": "in", "door": "shut"}, "add": {"lamp": 1}}],
    "push door": [{"when": {"lamp": ["dark", "dim"]}, "add": {"door": 1}}]
  },
  "goal": ["lamp", "door"]
}"""
"""Rules in JSON, as an example for writers."""


@dataclass(frozen=True)
class Case:
    """What an action does where a condition holds.

    Attributes:
        when: the values that variables must have. Empty: always.
        put: the values that variables get.
        add: the number of places by which variables move in the circle of their values.
        copy: variables that get the value of another one, as it was before the action.
    """

    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    put: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    copy: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    """The dynamics of a world.

    Attributes:
        about: a sentence about the world.
        variables: the values of each variable. The first ones are the first state.
        actions: the cases of each action. The first one whose condition holds applies. Without
            one, the action has no effect.
        goal: the variables that goals name.
    """

    about: str
    variables: dict[str, tuple[str, ...]]
    actions: dict[str, tuple[Case, ...]]
    goal: tuple[str, ...]

    def move(self, state: Values, action: str) -> Values:
        """Returns the state after an action."""
        names = list(self.variables)
        old = {name: self.variables[name][i] for name, i in zip(names, state, strict=True)}
        for case in self.actions[action]:
            if all(old[name] in values for name, values in case.when.items()):
                break
        else:
            return state
        new = old | dict(case.put) | {name: old[other] for name, other in case.copy.items()}
        after = {name: self.variables[name].index(new[name]) for name in names}
        for name, places in case.add.items():
            after[name] = (after[name] + places) % len(self.variables[name])
        return tuple(after.values())

    def content(self) -> tuple[Any, ...]:
        """Returns the variables and the cases of actions with numbers in place of all names.

        Rules have equal contents if they differ in names, in the order of variables and actions, in
        their text or the variables of goals alone.
        """
        return min(map(self._numbered, permutations(self.variables)))

    def _numbered(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Returns the contents with the numbers of one order of the variables."""
        of = {name: i for i, name in enumerate(names)}
        values = dict.fromkeys(value for name in names for value in self.variables[name])
        number = {value: i for i, value in enumerate(values)}

        def numbered(case: Case) -> list[list[Any]]:
            when = ((of[name], sorted(number[v] for v in vs)) for name, vs in case.when.items())
            put = ((of[name], number[value]) for name, value in case.put.items())
            add = ((of[name], places) for name, places in case.add.items())
            copy = ((of[name], of[other]) for name, other in case.copy.items())
            return [sorted(part) for part in (when, put, add, copy)]

        variables = [[number[value] for value in self.variables[name]] for name in names]
        return variables, sorted(sorted(map(numbered, cases)) for cases in self.actions.values())

    def told(self, action: str) -> str:
        """Returns in words what an action does."""
        cases = [
            _condition(case) + (_effect(case) or "nothing changes") for case in self.actions[action]
        ]
        return "; else ".join(cases)


def _condition(case: Case) -> str:
    parts = [f"{name} is {' or '.join(values)}" for name, values in case.when.items()]
    return f"if {' and '.join(parts)}, " if parts else ""


def _effect(case: Case) -> str:
    parts = [f"{name} becomes {value}" for name, value in case.put.items()]
    parts += [f"{name} gets the value of {other}" for name, other in case.copy.items()]
    parts += [
        f"{name} moves {'on' if places > 0 else 'back'} by {abs(places)}"
        for name, places in case.add.items()
    ]
    return " and ".join(parts)


def load_rules(file: str | Path) -> Rules:
    """Returns the rules of a file in JSON (see `EXAMPLE`).

    Raises:
        DataError: if it cannot be read, or holds no rules.
    """
    try:
        return parse_rules(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as a text file in UTF-8: {error}") from error


def parse_rules(text: str) -> Rules:
    """Returns the rules of a text in JSON (see `EXAMPLE`).

    Raises:
        DataError: if it holds no rules. The message names the first error.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"Rules must be a JSON object: {error}.") from error
    if not isinstance(data, dict) or data.keys() - {"about", "variables", "actions", "goal"}:
        raise DataError(
            f"Rules must be a JSON object of about, variables, actions, goal: got {data!r:.60}."
        )
    variables = {
        _word(name): tuple(_word(value) for value in _listed(values, f"variable {name!r:.40}"))
        for name, values in _mapping(data.get("variables"), "variables").items()
    }
    for name, values in variables.items():
        if not 2 <= len({*values}) == len(values):
            raise DataError(f"variable {name!r} must have two or more different values: {values}.")
    actions = {
        _word(name): tuple(
            _case(case, variables, f"action {name!r:.40}")
            for case in _listed(cases, f"action {name!r:.40}")
        )
        for name, cases in _mapping(data.get("actions"), "actions").items()
    }
    goal = tuple(_listed(data.get("goal", [*variables]), "goal"))
    _known(goal, variables, "goal")
    return Rules(_word(data.get("about", "A small world."), 300), variables, actions, goal)


def _case(data: Any, variables: Mapping[str, tuple[str, ...]], where: str) -> Case:
    """Returns a case, all of whose names are known."""
    data = _mapping(data, where, empty=True)
    if unknown := data.keys() - {"when", "set", "add", "copy"}:
        raise DataError(
            f"{where} must have cases of when, set, add and copy, got {min(unknown)!r}."
        )
    parts = {
        key: _mapping(data.get(key, {}), f"{key} of {where}", empty=True)
        for key in ("when", "set", "add", "copy")
    }
    for key, part in parts.items():
        _known(part, variables, f"{key} of {where}")
    when = {
        name: tuple([values] if isinstance(values, str) else _listed(values, where))
        for name, values in parts["when"].items()
    }
    for name, values in [*when.items(), *((n, (v,)) for n, v in parts["set"].items())]:
        _known(values, variables[name], f"values of {name!r} in {where}")
    for name, other in parts["copy"].items():
        _known([other], variables, f"copy of {where}")
        if {*variables[name]} != {*variables[other]}:
            raise DataError(f"{where} copies {other!r} to {name!r}, which has other values.")
    for name, places in parts["add"].items():
        if type(places) is not int or not places:
            raise DataError(
                f"{where} must add a whole number but 0 to {name!r}, got {places!r:.40}."
            )
    return Case(when, parts["set"], parts["add"], parts["copy"])


def _known(names: Any, known: Any, where: str) -> None:
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise DataError(f"{where} must be among {[*known][:8]}, got {name!r:.40}.")


def _listed(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list) or not data:
        raise DataError(f"{where} must be a list with an element, got {data!r:.40}.")
    return data


def _mapping(data: Any, where: str, empty: bool = False) -> dict[str, Any]:
    if not isinstance(data, dict) or not (data or empty):
        raise DataError(f"{where} must be an object with a name, got {data!r:.40}.")
    return data


def _word(text: Any, longest: int = 40) -> str:
    """Returns a name on one line."""
    if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= longest:
        raise DataError(
            f"Names and values must be texts of 1 to {longest} characters: {text!r:.60}."
        )
    return text
