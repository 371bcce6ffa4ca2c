"""`ReflexionAgent`: reflects on failed attempts, and tries again with the reflections."""

from __future__ import annotations

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, check_counts, transcript
from agentgym.errors import ConfigError

REFLECT = (
    "The attempt failed. Think about the strategy and the actions, without a summary of the "
    "environment. Write a short new plan that avoids the mistake and names specific actions. The "
    "next attempt at the same task will begin with this plan."
)


class ReflexionAgent(ScaffoldAgent):
    """Writes a reflection after each failed attempt, and acts with the last ones in its prompt.

    "Reflexion: Language Agents with Verbal Reinforcement Learning" (arXiv 2303.11366). Its
    environments allow several attempts at a task (`MultiTrial`). An attempt begins without the
    turns of earlier ones. The agent has only the reflections on them.

    Args:
        agent: the agent that acts and reflects.
        trials: maximum number of attempts, for the wrapper `MultiTrial`.
        memory: number of reflections in the prompt, the last ones.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1. From `act`: if the environment is not wrapped in
            `MultiTrial`.
    """

    kind = "reflexion"

    def __init__(self, agent: Agent, *, trials: int = 3, memory: int = 3, name: str | None = None):
        super().__init__(agent, name=name)
        check_counts(trials=trials, memory=memory)
        self.memory = memory
        self.wrap = (*self.wrap, f"MultiTrial:n={trials}")

    def program(self, view: View) -> Program[None]:
        """Attempts the task, and reflects after each failure."""
        if "trial_observation" not in view.info:
            raise ConfigError(
                f"{self.kind} needs an environment with several attempts: add the wrapper "
                "MultiTrial, such as --wrap MultiTrial:n=3."
            )
        reflections: list[str] = []
        while True:
            own = self.begin(view, _shown(reflections))
            yield from self.play(view, own)
            while not view.info["trial_end"]:
                yield from self.play(view, own)
            if not view.info["trial_success"]:
                attempt = transcript(own.history, view.info["trial_observation"])
                written = yield from self.write(
                    view, *([_shown(reflections)] if reflections else []),
                    "The last attempt:", attempt, REFLECT,
                )  # fmt: skip
                reflections = [*reflections, written][-self.memory :]


def _shown(reflections: list[str]) -> str:
    if not reflections:
        return ""
    return "\n\n".join(["Your reflections on earlier attempts at this task:", *reflections])
