"""`RciAgent`: criticises its plan and its actions, and improves them before it acts."""

from __future__ import annotations

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, check_counts

PLAN = "Write a plan that solves the task: a short numbered list of steps, nothing else."
CRITIQUE_PLAN = "Find the problems with this plan."
IMPROVE_PLAN = "Write the plan again without these problems, nothing else."
CRITIQUE_ACTION = (
    "Find the problems with the next action: does it serve the task and the plan, is it possible "
    "in the current observation, and is it written as the instructions ask?"
)


class RciAgent(ScaffoldAgent):
    """Criticises its plan and each action, and improves them before it acts.

    "Language Models can Solve Computer Tasks" (RCI, arXiv 2303.17491): recursive criticism and
    improvement, first of a plan, then of every action, which is grounded in the task, the
    observation and the form of actions. Changed: one critique asks for the three kinds of grounding
    of an action (theirs: one prompt each).

    Args:
        agent: the agent that plans, criticises and acts.
        rounds: critiques of the plan, and of each action.
        name: name in reports.

    Raises:
        ConfigError: if `rounds` is below 1.
    """

    kind = "rci"

    def __init__(self, agent: Agent, *, rounds: int = 1, name: str | None = None):
        super().__init__(agent, name=name)
        check_counts(rounds=rounds)
        self.rounds = rounds

    def program(self, view: View) -> Program[None]:
        """Plans, and acts with criticised actions."""
        situation = "The situation:", view.observation
        plan = yield from self.write(view, *situation, PLAN)
        for _ in range(self.rounds):
            critique = yield from self.write(view, *situation, _plan(plan), CRITIQUE_PLAN)
            plan = yield from self.write(
                view, *situation, _plan(plan), _critique(critique), IMPROVE_PLAN
            )
        own = self.begin(view, _plan(plan))
        while True:
            action = yield self.agent, own
            for _ in range(self.rounds):
                proposed = f"The next action:\n{action}"
                critique = yield from self.write(
                    view, _plan(plan), "Observation:", view.observation, proposed, CRITIQUE_ACTION
                )
                notes = [_plan(plan), f"Your proposal:\n{action}", _critique(critique)]
                improved = self.begin(view, "\n\n".join(notes))
                improved.history = list(own.history)
                action = yield self.agent, improved
            yield from self.take(view, own, action)


def _plan(plan: str) -> str:
    return f"Your plan:\n{plan}"


def _critique(critique: str) -> str:
    return f"Problems with it:\n{critique}"
