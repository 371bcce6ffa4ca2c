"""A game for two roles whose rewards have different scales, for the multi-agent benchmark.

Importing the module registers `AgentGym/TwoScales-v0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from agentgym.core import TimeStep
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.registration import registry
from agentgym.registration.entry import Entry
from agentgym.tasks import Tasks, task_rng

COLOURS = ("red", "green", "blue", "black")
SCALES = (1.0, 10.0)
"""The reward of each player for a right answer."""


@dataclass
class State:
    """The colour that each player sees, and whether the players have answered."""

    shown: tuple[str, ...]
    answered: bool = False
    right: tuple[bool, ...] = (False, False)


class TwoScales(TextGame):
    """Name the colour that is shown. Player 1 gets ten times the reward of player 0."""

    tasks = Tasks.generated()
    State = State
    state: State
    levels = ("random",)
    expert_level = None
    default_opponents = "random"
    actions = COLOURS
    instructions = "Reply with the colour that is shown."

    def _start(self, task: str) -> None:
        self.state = State(tuple(COLOURS[i] for i in task_rng(task).integers(len(COLOURS), size=2)))

    def _acting(self) -> tuple[str, ...]:
        return () if self.state.answered else self.possible_agents

    def _look(self, agent: str) -> TimeStep:
        me = self.possible_agents.index(agent)
        return TimeStep(
            text=f"The colour is {self.state.shown[me]}.",
            success=self.state.right[me],
            progress=float(self.state.right[me]),
            admissible=COLOURS if self._acting() else (),
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        pairs = zip(self.possible_agents, self.state.shown, strict=True)
        self.state.right = tuple(moves[agent] == colour for agent, colour in pairs)
        self.state.answered = True
        return self._pay(np.multiply(self.state.right, SCALES).tolist())

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        return self._random(agent, rng)


env, raw_env, parallel_env = make_pettingzoo(TwoScales)

_ENTRY: Any = Entry("TwoScales-v0", __name__)
registry.REGISTRY[_ENTRY.id] = _ENTRY
if _ENTRY.id not in gymnasium.registry:
    gymnasium.register(
        _ENTRY.id,
        entry_point="agentgym.registration.single_seat:SingleSeat",
        kwargs={"game": _ENTRY.id},
    )
