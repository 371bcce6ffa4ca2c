"""`PlanExecuteAgent` and `PlanRefineAgent`: a plan before the first action."""

from __future__ import annotations

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, transcript
from agentgym.errors import ConfigError

PLAN = "Write a plan that solves the task: a short numbered list of steps, nothing else."
REFINE = (
    "The last action failed. Write a new plan for the rest of the task that avoids the mistake: a "
    "short numbered list of steps, nothing else."
)


class PlanExecuteAgent(ScaffoldAgent):
    """Writes a plan before the first action, and acts with it in the prompt.

    "Plan-and-Solve Prompting" (arXiv 2305.04091), for tasks of several turns.

    Args:
        agent: the agent that plans and acts.
        name: name in reports.
    """

    kind = "plan_execute"
    refinements = 0

    def program(self, view: View) -> Program[None]:
        """Plans, acts, and plans again after failures as long as refinements are left."""
        plan = yield from self.write(view, "The situation:", view.observation, PLAN)
        own, left = self.begin(view, _shown(plan)), self.refinements
        while True:
            yield from self.play(view, own)
            if left and _failed(own):
                left -= 1
                past = transcript(own.history, own.observation)
                plan = yield from self.write(view, _shown(plan), "The turns so far:", past, REFINE)
                history, own = own.history, self.begin(view, _shown(plan))
                own.history = history


class PlanRefineAgent(PlanExecuteAgent):
    """Writes a plan before the first action, and a new one for the rest after a failed action.

    "AdaPlanner: Adaptive Planning from Feedback with Language Models" (arXiv 2305.16653), with
    plans in words instead of code. An action has failed if it is invalid or leaves the observation
    as it was.

    Args:
        agent: the agent that plans and acts.
        refinements: maximum number of new plans in an episode.
        name: name in reports.

    Raises:
        ConfigError: if `refinements` is below 1.
    """

    kind = "plan_refine"

    def __init__(self, agent: Agent, *, refinements: int = 3, name: str | None = None):
        super().__init__(agent, name=name)
        if refinements < 1:
            raise ConfigError(
                f"refinements must be at least 1, got {refinements}. Without them, plan_execute "
                "is the agent."
            )
        self.refinements = refinements


def _shown(plan: str) -> str:
    return f"Your plan:\n{plan}"


def _failed(own: View) -> bool:
    """Returns whether the last action was invalid or has changed nothing that is observed."""
    return not own.info.get("valid", True) or own.observation == own.history[-1][0]
