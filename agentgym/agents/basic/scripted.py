"""`ScriptedAgent`: a scripted player of a multi-agent game."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.agents.basic.view import View


class ScriptedAgent:
    """Plays a level of the game's scripted players, such as "equilibrium".

    It can only act in the seats of a game: see `agentgym.multiagent.seats.GameSeat`.

    Args:
        level: one of the game's `levels`.
    """

    memoryless = True

    def __init__(self, level: str):
        self.name = self.level = level

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        return [view.env.get_wrapper_attr("script")(self.level, view.rng) for view in views]

    def probabilities(self, views: Sequence[View]) -> list[np.ndarray]:
        """Returns the probabilities of the admissible actions of each view."""
        return [view.env.get_wrapper_attr("script_probabilities")(self.level) for view in views]
