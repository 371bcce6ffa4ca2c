"""A run closes every environment that it has made."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers import train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.run.logger import read_metrics


class Counted(NumberLine):
    """Keeps the environments that are open."""

    opened: list[NumberLine] = []  # noqa: RUF012  # shared by all instances
    made = 0

    def __init__(self, **kwargs: Any):
        super().__init__(size=6, max_turns=2, **kwargs)
        Counted.made += 1
        self.opened.append(self)

    def close(self) -> None:
        self.opened.remove(self)


class Broken(Callback):
    """Fails in the second iteration."""

    def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> None:
        if trainer.state.iteration == 2:
            raise RuntimeError("broken")


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    Counted.opened.clear()
    Counted.made = 0


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "env": Counted,
        "model": "nano",
        "context": "current",
        "group_size": 2,
        "episodes_per_iteration": 4,
        "eval_episodes": 2,
        "iterations": 2,
        "device": "cpu",
        "quiet": True,
        "log_with": (),
        "run_dir": str(folder),
        **changes,
    }


@pytest.mark.parametrize("recipe", ["grpo", "agent_rlvr"])
def test_all_environments_are_closed_at_the_end(recipe: str, tmp_path: Path):
    train(recipe, **settings(tmp_path))
    assert Counted.made and not Counted.opened


@pytest.mark.parametrize("recipe", ["grpo", "agent_rlvr"])
def test_all_environments_are_closed_after_an_error(recipe: str, tmp_path: Path):
    with pytest.raises(RuntimeError, match="broken"):
        train(recipe, **settings(tmp_path), callbacks=[Broken()])
    assert Counted.made and not Counted.opened


def test_all_environments_are_closed_if_a_run_cannot_be_set_up(tmp_path: Path):
    with pytest.raises(Exception, match="missing"):
        make_trainer("grpo", **settings(tmp_path, model=str(tmp_path / "missing")))
    assert Counted.made and not Counted.opened


class Impatient(NumberLine):
    """Presses Ctrl-C twice in the second evaluation, after its first episode."""

    resets = 0

    def reset(self, *, options: Any = None, **arguments: Any) -> Any:
        if str((options or {}).get("task")).startswith("test"):
            Impatient.resets += 1
            if Impatient.resets == EVALUATED + 2:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
        return super().reset(options=options, **arguments)


EVALUATED = 4


def test_an_evaluation_that_is_stopped_immediately_does_not_count(tmp_path: Path):
    Impatient.resets = 0
    changes = {"env": lambda: Impatient(size=6, max_turns=2), "eval_every": 1, "num_envs": 1}
    with pytest.raises(KeyboardInterrupt):
        train("grpo", **settings(tmp_path, eval_episodes=EVALUATED, **changes))
    [line] = [row for row in read_metrics(tmp_path) if "eval/reward" in row]
    assert line["iteration"] == 0
