"""Modules and functions that a user names: every option says what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import make_agent
from agentgym.certify.making import make_text_env
from agentgym.errors import ConfigError
from agentgym.judges import make_judge
from agentgym.registration.making import make_env
from agentgym.trainers.audit.given import given_credit
from agentgym.trainers.rewards.shaping import scorer

LINE = "NumberLine-v0"


OPTIONS: dict[str, Callable[[str], Any]] = {
    "judge": make_judge,
    "value": lambda name: make_agent(f"search:best_first,value={name}"),
    "by": lambda name: make_env(LINE, wrap=[f"AbridgedObservation:by={name}"]),
    "function": lambda name: make_env(LINE, wrap=[f"RewardFunction:function={name}"]),
    "propose": lambda name: make_env(LINE, wrap=[f"Subgoals:propose={name}"]),
    "answerer": lambda name: make_env("SearchQA-v0", answerer=name),
    "turn_score": lambda name: scorer(name, option="turn_score"),
    "--credit": lambda name: given_credit(name, []),
    "the wrapper": lambda name: make_env(LINE, wrap=[name]),
    "the environment": make_text_env,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_names_what_is_wrong_with_a_module_or_function(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"mine_{re.sub('[^a-z]', '', option)}"
    for ending, text in {
        "": "def score(*args):\n    return 1\n\n\nclass Layer:\n    pass\n",
        "_needs": "import os\nimport a_library_that_is_missing\n",
        "_breaks": "def score(:\n",
        "_fails": "rows = []\n\nprint(rows[0])\n",
        "_ends": "import sys\n\nsys.exit(3)\n",
    }.items():
        (tmp_path / f"{name}{ending}.py").write_text(text)
    attribute = "Layer" if option.startswith("the ") else "score"
    for given, message in {
        f"{name}:{attribute}s": f"Did you mean: {attribute}",
        f"no_{name}:{attribute}": f"There is no module 'no_{name}'",
        f"{name}_needs:{attribute}": "_needs.py, line 2: ModuleNotFoundError: No module named 'a_l",
        f"{name}_breaks:{attribute}": r"SyntaxError: invalid syntax \(.*_breaks.py, line 1\)",
        f"{name}_fails:{attribute}": "_fails.py, line 3: IndexError: list index out of range",
        f"{name}_ends:{attribute}": "_ends.py, line 3: SystemExit: 3",
    }.items():
        with pytest.raises(ConfigError, match=message) as found:
            OPTIONS[option](given)
        assert option.removeprefix("the ") in str(found.value).lower()
    with pytest.raises(ConfigError, match=f"The module '{name}_needs' that could register"):
        make_env(f"{name}_needs:Mine-v0")
