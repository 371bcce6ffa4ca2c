"""An agent that acts at random: the lower baseline."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents.view import View


class RandomAgent:
    """Draws uniformly from `info["admissible"]`.

    Where an environment lists no admissible actions, because the set is open, it says a sample of
    the action space: a few words, for most environments an invalid action.

    All draws come from the episode's own generator; the seed is the evaluation's.
    """

    name = "random"

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        return [self._draw(view) for view in views]

    def _draw(self, view: View) -> str:
        admissible = view.info["admissible"]
        if admissible:
            return admissible[int(view.rng.integers(len(admissible)))]
        space = view.env.action_space
        space.seed(int(view.rng.integers(2**31)))
        return space.sample()
