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
from agentgym.trainers.rollout.episode import EpisodeSpec

DATA_SET: dict[str, Any] = {
    "dataset_episodes": 4,
    "dataset_demonstrations": 0,
    "episodes_per_iteration": 4,
}


class Watched(Callback):
    """Keeps the returns of the episodes that an iteration learns from."""

    def __init__(self) -> None:
        self.returns: list[list[float]] = []

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        self.returns.append([each.episode_return for each in trajectories])


class OfDataSet(Watched):
    """Keeps the returns in a data set."""

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        self.returns.append([each.episode_return for each in trainer.hooks.kept.since(0)])


class Branching(Watched):
    """Keeps the weights of further episodes that an iteration plays."""

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        episodes = [EpisodeSpec("train/1", 1, (9, 9, n)) for n in range(2)]
        played = trainer.play(episodes)
        self.returns.append([turn.weight for each in played for turn in each.turns])


def run(
    folder: Path,
    unread: Callable[[int], bool],
    recipe: str = "grpo",
    watched: Watched | None = None,
    **more: Any,
) -> list[list[float]]:
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

    watched = watched or Watched()
    if recipe == "grpo":
        more = {"group_size": 2, "episodes_per_iteration": 4} | more
    trainer = make_trainer(
        recipe, env=lambda: Judged(size=40, max_turns=2), model="nano", num_envs=1, iterations=2,
        eval_episodes=0, max_new_tokens=2, device="cpu", threads=1, quiet=True,
        run_dir=str(folder), callbacks=[watched], **more,
    )  # fmt: skip
    numbers = iter(range(1000))  # the tokenizer has been made
    trainer.run()
    return watched.returns


def test_they_are_left_out_and_counted(tmp_path: Path):
    [first, second] = run(tmp_path, lambda number: number in (1, 5, 6))
    assert len(first) == 3 and len(second) == 2
    assert not {1.0, 5.0, 6.0} & {*first, *second}
    assert counts(tmp_path) == [1, 2]


def counts(folder: Path) -> list[float | None]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line.get("rollout/unjudged") for line in lines if "rollout/return" in line]


def test_further_episodes_keep_their_places_and_the_loss_leaves_them_out(tmp_path: Path):
    found = run(tmp_path, lambda number: number in (1, 5), watched=Branching())
    assert found[0] == [1, 1, 0, 0] and found[1] == [1] * 4  # two turns of each episode
    assert counts(tmp_path) == [2, None]


def test_data_sets_leave_them_out(tmp_path: Path):
    found = run(tmp_path, lambda number: number == 2, "ilql", OfDataSet(), **DATA_SET)
    assert found[-1] == [0, 1, 3]
    assert counts(tmp_path) == [1, None]


def test_without_any_verdict_the_run_ends_and_a_resumed_one_asks_again(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none on 4 episodes can be read\. Give another judge"):
        run(tmp_path, lambda number: number > 3)
    assert run(tmp_path, lambda number: False, resume=True) == [[0.0, 1.0, 2.0, 3.0]]


def test_a_data_set_without_any_verdict_ends_the_run(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none on 4 episodes can be read\. Give another judge"):
        run(tmp_path, lambda number: True, "ilql", **DATA_SET)
    found = run(tmp_path, lambda number: False, "ilql", OfDataSet(), **DATA_SET, resume=True)
    assert found[-1] == [0, 1, 2, 3]
