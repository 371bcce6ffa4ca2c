"""Environments and a game whose calls may hang: in Python, asleep, or in a library in C."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any

import gymnasium

from agentgym import TextEnv, TimeStep
from agentgym.tasks import Tasks


def hang(how: str) -> None:
    """Never returns."""
    if how == "library":
        ctypes.CDLL(None).sleep(3600)
    while True:
        if how == "asleep":
            time.sleep(3600)


@dataclass
class State:
    """The turns played."""

    turns: int = 0


class Hanging(TextEnv):
    """Four turns, of which the words `hang` and the tasks of `tasks` may hang.

    Args:
        how: "python", "asleep" or "library".
        at_reset: the tasks whose reset hangs.
        at_step: the tasks whose second step hangs.
    """

    instructions = "Say anything."
    State = State

    def __init__(
        self, *, how: str = "asleep", at_reset: str = "", at_step: str = "", **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.how, self.at_reset, self.at_step = how, at_reset, at_step
        names = tuple("abcdefgh")
        self.tasks = Tasks(
            tuple(f"train/{name}" for name in names), tuple(f"test/{name}" for name in names)
        )

    def _start(self, task: str) -> TimeStep:
        if task[-1] in self.at_reset:
            hang(self.how)
        self.state = State()
        return TimeStep(text=f"Task {task}.", state_key="0")

    def _advance(self, action: str) -> TimeStep:
        self.state.turns += 1
        if action == "hang" or (self.state.turns == 2 and self.task[-1] in self.at_step):
            hang(self.how)
        over = self.state.turns == 4
        return TimeStep(
            text=f"Turn {self.state.turns}.", rewards={"task": 1.0}, terminated=over, success=over,
            state_key=str(self.state.turns),
        )  # fmt: skip

    def expert(self) -> str:
        """Returns an action."""
        return "go"


gymnasium.register("Hanging-v0", entry_point=Hanging)
