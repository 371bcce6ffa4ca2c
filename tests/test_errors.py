"""Errors that name a missing extra."""

from __future__ import annotations

import importlib
import pickle

import pytest

from agentgym import errors
from agentgym.errors import MissingExtraError, needs_extra


def test_a_missing_package_names_its_extra():
    message = r"A server needs the package 'nowhere'.*pip install 'agentgym-suite\[serve\]'"
    with pytest.raises(MissingExtraError, match=message), needs_extra("A server", "serve"):
        importlib.import_module("nowhere")


def test_a_missing_module_of_agentgym_is_a_fault_of_agentgym():
    with pytest.raises(ModuleNotFoundError), needs_extra("A server", "serve"):
        importlib.import_module("agentgym.nowhere")


def test_a_missing_package_can_be_raised_in_another_process():
    error = MissingExtraError("A server", "serve", "nowhere")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, MissingExtraError) and str(copy) == str(error)


@pytest.mark.parametrize(("extra", "spec"), [("train", None), ("train", "found"), ("serve", None)])
def test_a_machine_without_torch_is_told_of_its_builds(
    extra: str, spec: str | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(errors, "find_spec", lambda name: spec)
    message = str(MissingExtraError("Training", extra, "annotated_types"))
    assert ("pytorch.org/whl/cpu" in message) == (extra == "train" and spec is None)
