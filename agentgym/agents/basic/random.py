"""`RandomAgent`: plays random actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError


class RandomAgent:
    """Samples uniformly from `info["admissible"]`. It is the lower baseline.

    If an environment lists no admissible actions because the set is open, the action is a sample of
    the action space: a few words, which are an invalid action in most environments.

    In an environment with the wrapper `ExtractAction`, actions are written in its answer format.

    Samples use only `View.rng`, so actions are determined by the task and the seed of the episode.
    """

    name = "random"
    memoryless = True

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view.

        Raises:
            ConfigError: for a view without an environment and admissible actions.
        """
        return [write_answer(view, self._draw(view)) for view in views]

    def probabilities(self, views: Sequence[View]) -> list[np.ndarray]:
        """Returns the probabilities of the admissible actions of each view."""
        counts = [len(view.info["admissible"]) for view in views]
        return [np.full(count, 1 / max(count, 1)) for count in counts]

    def _draw(self, view: View) -> str:
        admissible = view.info["admissible"]
        if admissible:
            return admissible[int(view.rng.integers(len(admissible)))]
        if view.env is None:
            raise ConfigError(
                "The random agent samples admissible actions or the action space, and this episode "
                "has none of them: name another agent."
            )
        space = view.env.action_space
        space.seed(int(view.rng.integers(2**31)))
        return space.sample()


def write_answer(view: View, action: str) -> str:
    """Returns an action in the answer format of its environment, if there is one."""
    try:
        answer_format = view.env.get_wrapper_attr("answer_format")
    except AttributeError:
        return action
    return answer_format.write(action)
