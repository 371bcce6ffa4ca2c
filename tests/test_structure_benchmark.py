"""Rooms, arrows, floors and circles of a small project, and the way to a loss of this one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.structure import house, module_imports

ROOT = Path(__file__).parents[1]
FILES = {
    "agentgym/__init__.py": "",
    "agentgym/core.py": "",
    "envs/__init__.py": "import agentgym.core\n",
    "trainers/__init__.py": "",
    "trainers/data.py": "def late():\n    from agentgym.trainers.run.loop import go\n",
    "trainers/run/__init__.py": "",
    "trainers/run/loop.py": "from agentgym.trainers import data\nfrom agentgym import core\n",
    "trainers/run/words.py": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"
        "    from agentgym.trainers.run.loop import Loop\n"
    ),
    "tests/test_layers.py": (
        "FLOORS = {'agentgym': ('core', 'trainers', 'envs'), "
        "'agentgym.trainers': ('data', ('run',))}\n"
    ),
    "README.md": "# Two words\n\n<!-- not these --> and a `third-one`\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_in_functions_are_arrows_and_close_circles(project: Path):
    found = house.structure(project, module_imports.floors(project))
    assert (found["agentgym"]["rooms"], found["agentgym"]["arrows"]) == (3, 2)
    assert found["agentgym"]["circles_of_folders"] == []
    assert found["agentgym"]["back_up"] == []
    trainers = found["agentgym.trainers"]
    assert (trainers["rooms"], trainers["arrows"]) == (2, 2)
    assert trainers["circles_of_folders"] == [["data", "run"]]
    assert trainers["back_up"] == ["data -> run"]
    modules = ["agentgym.trainers.data", "agentgym.trainers.run.loop"]
    assert trainers["circles_of_files"] == [modules]


def test_imports_for_types_are_left_out_on_request(project: Path):
    loop, words = project / "trainers/run/loop.py", "agentgym.trainers.run.words"
    loop.write_text(f"import {words}\n")
    own = house.structure(project, {})["agentgym.trainers"]
    assert own["circles_of_files"] == [["agentgym.trainers.run.loop", words]]
    assert own["circles_of_files_without_types"] == []


def test_floors_without_a_package_are_those_of_trainers(project: Path):
    (project / "tests/test_layers.py").write_text('FLOORS = ("data", ("run",))\n')
    assert module_imports.floors(project) == {"agentgym.trainers": (("data",), ("run",))}
    (project / "tests/test_layers.py").write_text("")
    assert ("policy",) in module_imports.floors(project)["agentgym.trainers"]


def test_a_room_on_no_floor_stands_out():
    arrows = {"a": {"b"}, "b": {"new"}, "new": set()}
    assert module_imports.back_up(arrows, [("b",), ("a",)]) == ["b -> new"]


def test_comments_of_a_page_are_no_words():
    assert house.words(FILES["README.md"]) == 5


@pytest.mark.slow
def test_the_way_to_the_loss_begins_with_train_and_ends_with_a_loss(
    monkeypatch: pytest.MonkeyPatch,
):
    pytest.importorskip("torch")
    from .helpers.launch import run_forked

    monkeypatch.setattr(house, "subprocess", SimpleNamespace(run=run_forked))
    found = house.way_to_the_loss(ROOT)
    assert found["frames"][0].endswith(": train") and "loss" in found["frames"][-1]
    assert any("two_clock" in name for name in found["files"])  # POAD's credit
    assert 0 < found["lines_that_run"] < found["lines"]
    assert sum("loss" in frame.partition(":")[0] for frame in found["frames"]) == 1
