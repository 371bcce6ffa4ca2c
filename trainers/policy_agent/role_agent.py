"""`RoleAgent`: the policies of several roles of a game as one agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError, did_you_mean
from agentgym.trainers.policy.roles import role_folder
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE

if TYPE_CHECKING:
    from agentgym.trainers.policy_agent.agent import PolicyAgent


class RoleAgent:
    """Acts in each seat of a game with the policy of the seat's role.

    Args:
        agents: the policy of each role, as an agent. All have the same name and wrappers.
    """

    trained_in: tuple[Any, Mapping[str, Any]] = "", {}

    def __init__(self, agents: Mapping[str, PolicyAgent]):
        self.agents = dict(agents)
        first = next(iter(self.agents.values()))
        self.name, self.wrap = first.name, first.wrap
        if any(agent.probabilities is None for agent in self.agents.values()):
            self.probabilities = None  # type: ignore[method-assign, assignment]  # as of the agents

    def save(self, folder: Path, **notes: Any) -> None:
        """Saves the agent of each role in a folder of its own, to be loaded with `load_agent`.

        Args:
            folder: folder to write to.
            **notes: additional JSON values for the settings files.
        """
        for role, agent in self.agents.items():
            agent.save(role_folder(folder, role), **notes)
        text = json.dumps({"name": self.name, "roles": list(self.agents), **notes}, indent=1)
        (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")

    def __reduce__(self) -> Any:
        """Refuses to be copied or sent to another process, as a `PolicyAgent` does.

        Raises:
            ConfigError: always.
        """
        return next(iter(self.agents.values())).__reduce__()

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view, from one batch per role.

        Raises:
            ConfigError: if there is no policy of a view's role.
        """
        return self._of_roles("act", views)

    @property
    def memoryless(self) -> bool:
        """Whether actions depend on the instructions and the current observation only."""
        return all(agent.memoryless for agent in self.agents.values())

    def probabilities(self, views: Sequence[View]) -> list[NDArray[np.float64]]:
        """Returns the probabilities of admissible actions: see `PolicyAgent.probabilities`."""
        return self._of_roles("probabilities", views)

    def _of_roles(self, method: str, views: Sequence[View]) -> list[Any]:
        roles = [self._role(view) for view in views]
        found: dict[int, Any] = {}
        for role in dict.fromkeys(roles):
            mine = [i for i, other in enumerate(roles) if other == role]
            results = getattr(self.agents[role], method)([views[i] for i in mine])
            found |= zip(mine, results, strict=True)
        return [found[i] for i in range(len(views))]

    def _role(self, view: View) -> str:
        """Returns the role of the seat in which a view's agent acts."""
        known = ", ".join(self.agents)
        try:
            role = view.env.get_wrapper_attr("role")
        except AttributeError:
            raise ConfigError(
                f"Agent {self.name!r} plays roles of a game, {known}, and this environment has "
                "none: name the role whose policy is to act (role=...)."
            ) from None
        if role not in self.agents:
            hint = did_you_mean(role, self.agents)
            raise ConfigError(
                f"Agent {self.name!r} has policies of the roles {known}, and none of {role!r}."
                f"{hint} Let it play the game that it was trained in, or name the role whose "
                "policy is to act (role=...)."
            )
        return role
