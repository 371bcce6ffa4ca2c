"""`Outcome`: instructions that end with the outcome that the agent is to reach."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.wrappers.base import TextWrapper


def with_outcome(instructions: str, success: bool) -> str:
    """Returns instructions that end with the outcome of the episode."""
    outcome = f"Outcome of this episode: {'success' if success else 'failure'}."
    return f"{instructions}\n\n{outcome}" if instructions else outcome


class Outcome(TextWrapper):
    """Ends the instructions with an outcome, for policies that learned from both.

    They are fine-tuned on successes and failures alike, with the outcome of each episode in its
    instructions (`agentgym export --failures condition`), and play with the outcome "success":
    feedback-aware fine-tuning of "Can We Rely on LLM Agents to Draft Long-Horizon Plans?" (arXiv
    2408.06318). Kept: one sentence of good or bad before the actions. Changed: it is about the
    whole episode.

    **Actions**, **observations**, **rewards**, **info**: unchanged.

    Args:
        env: an environment with text observations.
        success: whether the outcome is a success.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], success: bool = True):
        super().__init__(env, success=success)
        self._need_text("observations")
        self.success = success

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by the outcome."""
        return with_outcome(self.env.get_wrapper_attr("instructions"), self.success)
