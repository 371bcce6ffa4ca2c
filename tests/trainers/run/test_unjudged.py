"""Episodes on which the verdict of a judge is unreadable are counted and left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.time_step import UNJUDGED, TimeStep
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.data.trajectory import Trajectory


class Watched(Callback):
    """Keeps the returns of the episodes that an iteration learns from."""

    def __init__(self) -> None:
        self.returns: list[list[float]] = []

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        self.returns.append([each.episode_return for each in trajectories])


def run(folder: Path, unread: Callable[[int], bool], **more: Any) -> list[list[float]]:
    """Trains where the verdicts on some episodes are unreadable, by their number.

    The return of an episode is its number. Returns those that each iteration learns from.
    """
    numbers = iter(range(1000))

    class Judged(NumberLine):
        def _start(self, task: str) -> TimeStep:
            self.number = next(numbers)
            return super()._start(task)

        def step(self, action: str) -> Any:
            observation, _, terminated, truncated, info = super().step(action)
            over = terminated or truncated
            info |= {UNJUDGED: True} if over and unread(self.number) else {}
            return observation, float(self.number * over), terminated, truncated, info

    watched = Watched()
    trainer = make_trainer(
        "grpo", env=lambda: Judged(size=40, max_turns=2), model="nano", group_size=2, num_envs=1,
        episodes_per_iteration=4, iterations=2, eval_episodes=0, max_new_tokens=2, device="cpu",
        threads=1, quiet=True, run_dir=str(folder), callbacks=[watched], **more,
    )  # fmt: skip
    numbers = iter(range(1000))  # the tokenizer has been made
    trainer.run()
    return watched.returns


def test_they_are_left_out_and_counted(tmp_path: Path):
    [first, second] = run(tmp_path, lambda number: number in (1, 5, 6))
    assert len(first) == 3 and len(second) == 2
    assert not {1.0, 5.0, 6.0} & {*first, *second}
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("rollout/unjudged") for line in lines if "rollout/return" in line] == [1, 2]


def test_without_any_verdict_the_run_ends_and_a_resumed_one_asks_again(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none on 4 episodes can be read\. Give another judge"):
        run(tmp_path, lambda number: number > 3)
    assert run(tmp_path, lambda number: False, resume=True) == [[0.0, 1.0, 2.0, 3.0]]
