from __future__ import annotations

import json
import os
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accelerate import Accelerator
from matplotlib.image import imread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from agentgym.cli.viewer import render
from agentgym.trainers import train
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.run.logger import RunLog, critic_curve, draw_curve, global_step, read_metrics
from agentgym.trainers.settings.running import RunConfig


@pytest.mark.parametrize("name", [None, "losses/explained_variance", "credit/explained_variance"])
def test_the_curve_has_a_panel_for_the_critic_if_there_is_one(tmp_path: Path, name: str | None):
    rows: list[dict[str, Any]] = [
        {"iteration": i, "env_steps": 10 * i, "rollout/return": 0.1 * i} for i in range(3)
    ]
    for row in rows[1:]:
        row |= {} if name is None else {name: 0.5}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = critic_curve(read_metrics(tmp_path))
    assert found == ([] if name is None else [(10, 0.5), (20, 0.5)])
    draw_curve(tmp_path, "title")
    assert _height(tmp_path) == round(120 * (4.2 if name is None else 5.4))


def test_the_curve_has_a_panel_for_nashconv_if_it_was_computed(tmp_path: Path):
    rows = [
        {"iteration": i, "env_steps": i, "losses/explained_variance": 0.1, "eval/nashconv": 1 / i}
        for i in (1, 2)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    draw_curve(tmp_path, "title")
    assert _height(tmp_path) == round(120 * 6.6)


@pytest.mark.parametrize("terminal", [False, True])
def test_every_iteration_is_a_whole_line_on_the_console(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", str(int(terminal)))
    log = RunLog(tmp_path, RunState(), RunConfig(iterations=9, log_with=()), Accelerator())
    names = ("losses/kl", "losses/entropy", "losses/explained_variance", "time/tokens_per_second")
    for iteration in (1, 2):
        log.row(
            RunState(iteration=iteration),
            dict.fromkeys(names, 0.5) | {"rollout/return": iteration / 4},
        )
    log.close()
    shown = capsys.readouterr().out
    rest = "kl 0.5000 entropy 0.50 explained variance 0.50 tokens/s 0"
    assert f"iteration    1  return 0.250 {rest}\n" in shown
    assert f"iteration    2  return 0.500 {rest}\n" in shown
    assert ("2/9" in shown) == terminal


def test_a_run_goes_on_when_the_reader_of_its_output_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        log = RunLog(tmp_path, RunState(), RunConfig(iterations=9, log_with=()), Accelerator())
        for iteration in (1, 2):
            log.row(RunState(iteration=iteration), {"rollout/return": 0.5})
        log.close()
        monkeypatch.undo()
    assert [row["iteration"] for row in read_metrics(tmp_path)] == [1, 2]


@pytest.mark.parametrize("plays", [True, False])
def test_tensorboard_counts_environment_steps_and_a_resumed_run_replaces_later_ones(
    plays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Files of one second are ordered by a number in their names, 10 before 9.
    seconds = SimpleNamespace(time=partial(next, count(1_800_000_000)))
    monkeypatch.setattr(event_file_writer, "time", seconds)

    def state(iteration: int) -> RunState:
        steps = 40 * iteration * plays
        return RunState(iteration=iteration, env_steps=steps, evaluated=iteration, episodes=steps)

    def write(start: int, value: float) -> None:
        run = RunConfig(iterations=9, quiet=True)
        log = RunLog(tmp_path, state(start), run, Accelerator(cpu=True))
        for iteration in range(start + 1, 4):
            log.row(state(iteration), {"rollout/return": value})
            log.histogram("credit/advantages", [1.0], global_step(state(iteration)))
        log.close()

    write(0, 0.25)
    write(1, 0.5)  # the checkpoint of iteration 1
    board = EventAccumulator(str(tmp_path / "tensorboard"), {"histograms": 0}).Reload()
    steps = [40, 80, 120] if plays else [1, 2, 3]
    found = [(event.step, event.value) for event in board.Scalars("rollout/return")]
    assert found == list(zip(steps, (0.25, 0.5, 0.5), strict=True))
    assert [event.step for event in board.Histograms("credit/advantages")] == steps
    assert [event.value for event in board.Scalars("charts/iteration")] == [1, 2, 3]


def _height(folder: Path) -> int:
    return imread(folder / "curve.png").shape[0]


@pytest.mark.parametrize("turn_limit", ["truncate", "terminate"])
def test_episodes_at_the_turn_limit_are_told_apart_from_others(tmp_path: Path, turn_limit: str):
    train(
        "turn", env_id="NumberLine-v0", env_kwargs={"max_turns": 4}, model="nano", constrain=True,
        turn_limit=turn_limit, iterations=1, episodes_per_iteration=16, transcripts=16,
        eval_episodes=0, device="cpu", quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    lines = (tmp_path / "trajectories.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for each in found:
        assert each["at_limit"] == (not each["success"])
        assert each["truncated"] == (each["at_limit"] and turn_limit == "truncate")
        assert each["terminated"] != each["truncated"]
    assert {each["at_limit"] for each in found} == {True, False}
    at_limit = sum(each["at_limit"] for each in found) / len(found)
    assert read_metrics(tmp_path)[-1]["rollout/truncated"] == at_limit
    assert '"at_limit":true' in render(tmp_path).replace(" ", "")
