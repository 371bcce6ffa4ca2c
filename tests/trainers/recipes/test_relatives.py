"""Recipes that differ from another one in defaults only, which their docstrings list."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from agentgym.trainers import recipes

LINE = re.compile(
    r"^`(\w+)` with th(?:ese defaults|is default): (.*?)\.$", re.MULTILINE | re.DOTALL
)
RELATIVES = {
    name: (match[1], " ".join(match[2].split()))
    for name in recipes.names()
    if (match := LINE.search(inspect.getdoc(recipes.load(name)) or "")) is not None
}


def defaults(name: str) -> dict[str, Any]:
    return recipes.load(name).Config().values()


def text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def test_recipes_that_are_settings_of_another_one_say_so():
    assert {"rloo": "grpo", "twosome": "turn", "ntpo": "poad"}.items() <= {
        name: other for name, (other, _) in RELATIVES.items()
    }.items()


@pytest.mark.parametrize("name", RELATIVES)
def test_the_listed_defaults_are_those_that_differ(name: str):
    other, listed = RELATIVES[name]
    own, theirs = defaults(name), defaults(other)
    named = dict(
        part.split() for part in listed.split(", ") if not part.startswith("and ") and " " in part
    )
    for setting, value in named.items():
        assert text(own[setting]) == value
    assert {key for key in own.keys() & theirs.keys() if own[key] != theirs[key]} <= named.keys()
