"""`MixedAgent`: one of several agents, sampled at the start of every episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.agents.basic.view import Agent, View
from agentgym.errors import ConfigError


class MixedAgent:
    """Samples one of its members at the start of an episode, and acts as this member until its end.

    A mixed strategy, such as the average policy of self-play. `agentgym.evaluation.nashconv`
    evaluates it exactly.

    Args:
        members: the agents.
        weights: the probability of each member, up to a factor.
        name: name of the agent in reports.

    Raises:
        ConfigError: if weights and members differ in number, weights are no probabilities, or
            members need different wrappers.
    """

    def __init__(self, members: Sequence[Agent], weights: Sequence[float], *, name: str = "mixed"):
        shares = np.asarray(weights, float)
        if len(shares) != len(members) or not np.all(shares >= 0) or not 0 < shares.sum() < np.inf:
            raise ConfigError(
                f"Expected {len(members)} weights of at least 0, one per member, got {weights}."
            )
        wraps = {tuple(getattr(member, "wrap", ())) for member in members}
        if len(wraps) > 1:
            raise ConfigError(
                f"Members act in one environment, and need different wrappers: {sorted(wraps)}."
            )
        [self.wrap] = wraps
        self.members, self.weights, self.name = tuple(members), shares / shares.sum(), name
        # Another one for each mixture within a mixture.
        self._key = f"{name} of {', '.join(member.name for member in members)}"

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view, in one batch per member."""
        chosen = [self._choose(view) for view in views]
        actions: dict[int, str] = {}
        for number, member in enumerate(self.members):
            mine = [i for i, choice in enumerate(chosen) if choice == number]
            if mine:
                acted = member.act([views[i] for i in mine])
                actions |= zip(mine, acted, strict=True)
        return [actions[i] for i in range(len(views))]

    def finish(self, view: View) -> None:
        """Tells the member that played an episode of its end, if there is one to tell."""
        for number, member in enumerate(self.members):
            if view.memory.get(self._key) == number and hasattr(member, "finish"):
                member.finish(view)  # type: ignore[attr-defined]

    def _choose(self, view: View) -> int:
        """Returns the member of an episode."""
        if view.memory.get(self._key) not in range(len(self.members)):  # or in a damaged snapshot
            view.memory[self._key] = int(view.rng.choice(len(self.members), p=self.weights))
        return view.memory[self._key]
