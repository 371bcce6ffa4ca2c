"""Names of files that every system takes, and files that are replaced."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest

from agentgym.utils.files import portable_name, replace_text

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


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path):
    (folder := tmp_path / "elsewhere").mkdir()
    (link := tmp_path / "link.txt").symlink_to(folder / "file.txt")
    for text in ("one", "two"):  # the first time it names nothing yet
        replace_text(link, text)
        assert link.is_symlink() and (folder / "file.txt").read_text() == text
    assert {each.name for each in tmp_path.iterdir()} == {"elsewhere", "link.txt"}


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path):
    os.mkfifo(pipe := tmp_path / "pipe")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        replace_text(pipe, "text")
        assert reader.read() == "text" and pipe.is_fifo()
