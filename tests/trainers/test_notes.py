"""A policy that reads one observation at a time learns to take notes (`Memory`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import pytest

from agentgym.core import TextEnv
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.trainers import Callback, train
from agentgym.trainers.hooks.run import Run
from agentgym.wrappers import Memory

WORDS = ("red", "blue")


@dataclass
class State:
    """The word, and whether it has been asked for."""

    word: str
    asked: bool = False


class Recall(TextEnv):
    """Shows a word, and asks for it in the next turn."""

    instructions = "Remember the word."
    State = State

    def __init__(self) -> None:
        super().__init__(max_turns=4)
        self.tasks = Tasks.generated(100)

    def _start(self, task: str) -> TimeStep:
        self.state = State(WORDS[int(self.np_random.integers(2))])
        return TimeStep(f"The word is {self.state.word}.", admissible=("next",))

    def _advance(self, action: str) -> TimeStep:
        if not self.state.asked:
            self.state.asked = True
            return TimeStep("Which word?", admissible=WORDS)
        right = action == self.state.word
        return TimeStep("Done.", rewards={"task": float(right)}, terminated=True, success=right)


class Returns(Callback):
    """Keeps the mean returns, and stops when two of them are above 0.9."""

    def __init__(self) -> None:
        self.last = [0.0, 0.0]

    def on_update_end(self, trainer: Run, metrics: Mapping[str, float]) -> bool:
        self.last = [self.last[-1], metrics["rollout/return"]]
        return min(self.last) <= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("notes", [True, False])
def test_notes_are_learned_where_the_context_is_too_short(notes: bool, tmp_path: Path):
    def make() -> gymnasium.Env[str, str]:
        return Memory(Recall(), 2, turns=2) if notes else Recall()

    returns = Returns()
    train(
        "poad", env=make, model="nano", context="current", constrain=True, instructions=False,
        iterations=12 if notes else 4, episodes_per_iteration=64, num_envs=64, lr=1e-3, seed=1,
        eval_episodes=0, device="cpu", threads=1, quiet=True, log_with=(), transcripts=0,
        run_dir=str(tmp_path), callbacks=[returns],
    )  # fmt: skip
    if notes:
        assert min(returns.last) > 0.9
    else:
        assert max(returns.last) < 0.75  # one of two words
