"""Names of files that every system takes, and files that are replaced."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import Any

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


def test_a_link_to_an_open_pipe_is_written_to():
    """As `/dev/stdout` in a pipeline: the name that the link resolves to is no path."""
    one, other = os.pipe()
    with os.fdopen(one) as reader:
        replace_text(Path(f"/dev/fd/{other}"), "text")
        os.close(other)
        assert reader.read() == "text"


def test_a_file_keeps_its_mode_and_is_written_where_its_folder_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (file := tmp_path / "file").write_text("old")
    file.chmod(0o600)  # as mktemp makes it
    replace_text(file, "new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(Path, "open", _opener(Path.open))
    replace_text(file, "newer")
    assert file.read_text() == "newer"


def _opener(original: Any) -> Any:
    """Refuses to make other files than "file", as a folder without permission does."""

    def opened(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name != "file":
            raise PermissionError(path)
        return original(path, *arguments, **options)

    return opened
