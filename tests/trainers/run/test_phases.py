"""Progress within an iteration: lines without a terminal, a bar with one, the time left."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.run.phases import Phases, duration, memory_gib
from agentgym.trainers.settings.running import RunConfig


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made(*, bar: bool = False, **budget: Any) -> tuple[Phases, Clock, io.StringIO]:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, width=80, force_terminal=bar)
    run = RunConfig(**{"iterations": 10, **budget})
    return Phases(console, run, RunState(), bar=bar, clock=clock), clock, out


def test_without_a_terminal_a_phase_has_a_line_a_minute():
    phases, clock, out = made()
    with phases.phase("play", 64):
        for done in range(64):
            clock.now += 5
            phases.tick(done)
    lines = out.getvalue().splitlines()
    assert lines[0] == "iteration    1  play 11/64, 60 s"
    assert len(lines) == 5 and lines[-1] == "iteration    1  play 59/64, 5 min"


def test_a_phase_whose_end_is_unknown_counts():
    phases, clock, out = made()
    with phases.phase("update"):
        for _ in range(3):
            clock.now += 61
            phases.tick()
    assert [line.rpartition("  ")[2] for line in out.getvalue().splitlines()] == [
        "update 1, 61 s", "update 2, 2 min", "update 3, 3 min",
    ]  # fmt: skip


def test_a_terminal_has_a_bar_for_the_phase():
    phases, _, out = made(bar=True)
    with phases.phase("evaluate", 8):
        for _ in range(8):
            phases.tick()
        phases._bar.refresh()  # type: ignore[union-attr]
    phases.close()
    assert "evaluate" in out.getvalue() and "8/8" in out.getvalue() and "0/10" in out.getvalue()


@pytest.mark.parametrize(("env_steps", "left"), [(None, 90.0), (200, 10.0)])
def test_the_time_left_is_that_of_the_budget_that_ends_first(env_steps, left):
    phases, clock, _ = made(env_steps=env_steps)
    assert phases.seconds_left is None
    clock.now = 1000.0  # behaviour cloning does not count
    with phases.phase("play", 4):
        clock.now += 10
    phases.advance(RunState(iteration=1, env_steps=100))
    assert phases.seconds_left == pytest.approx(left)


@settings(deadline=None)
@given(st.floats(0, 1e7))
def test_durations_are_short(seconds: float):
    assert len(duration(seconds)) <= 8


def test_the_memory_is_that_of_this_process():
    assert 0.05 < memory_gib() < 1000
