"""`ExpertAgent`: plays the actions of the environment's scripted expert."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents.basic.view import View
from agentgym.errors import AgentGymError


class NoExpertError(AgentGymError, RuntimeError):
    """The environment has no scripted expert, or its expert has no action in this state."""


class ExpertAgent:
    """Plays the actions of `env.expert()`. It is the upper baseline."""

    name = "expert"

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns the expert's action for each view.

        Raises:
            NoExpertError: if the environment has no expert, or the expert has no action.
        """
        return [self._ask(view) for view in views]

    def _ask(self, view: View) -> str:
        action = view.env.get_wrapper_attr("expert")()
        if action is None:
            name = type(view.env.unwrapped).__name__
            raise NoExpertError(
                f"{name} has no scripted expert"
                if not view.history
                else f"{name}'s expert has no action at turn {len(view.history)} "
                f"of task {view.info['task']!r}"
            )
        return action
