"""No command of a first hour prints a warning: neither of this project nor of a library."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..helpers.first_hour import COMMANDS, check

pytest.importorskip("torch")


@pytest.mark.slow
def test_no_command_of_a_first_hour_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    for verb in ("train", "view"):  # `make check-wheel` runs them all
        check(next(each for each in COMMANDS if each.startswith(verb)))
