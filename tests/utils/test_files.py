"""Names of files that every system takes."""

from __future__ import annotations

from itertools import combinations

import pytest

from agentgym.utils.files import portable_name

NAMES = [
    "desk:Desk-v0",
    "desk/Desk-v0",
    "desk-Desk-v0",
    "desk.Desk-v0",
    "Mine/Desk-v0",
    "KG-QA-v0:hops=1",
    'Maze-v0:maze=a|b?*<>"\\',
    "tricky:\u00c4-v0",
    "tricky:\u00d6-v0",
    "x" * 300,
    "x" * 301,
]


def test_a_portable_name_stays():
    for name in ("WebShop-v0", "NumberLine-v0+Maze-Random-v0", "my_lab.my_recipe"):
        assert portable_name(name) == name


@pytest.mark.parametrize("text", NAMES)
def test_other_names_are_flat_and_short(text: str):
    name = portable_name(text)
    assert name.isascii() and len(name) < 120
    assert not set(name) & set('<>:"/\\|?* '), name


def test_different_texts_have_different_names():
    assert portable_name("desk:Desk-v0").startswith("desk-Desk-v0-")
    for one, other in combinations(NAMES, 2):
        assert portable_name(one) != portable_name(other)
