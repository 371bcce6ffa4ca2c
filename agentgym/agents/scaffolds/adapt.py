"""`AdaptAgent`: splits a task into subtasks as soon as the agent fails at it."""

from __future__ import annotations

import re

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import Program, ScaffoldAgent, check_counts, transcript

SPLIT = (
    "The agent could not do this. Split it into subtasks, one per line, as in\n"
    "Step 1: ...\n"
    "Step 2: ...\n"
    "The last line is the execution order: `Execution order: Step 1 AND Step 2` if all are needed, "
    "or `Execution order: Step 1 OR Step 2` if one of them is enough."
)
SIGNALS = (
    "If it is done, reply `task completed` instead of an action. If you cannot go on, reply `task "
    "failed`."
)
_SIGNAL = re.compile(r"\btask (completed|failed)\b", re.IGNORECASE)
_STEP = re.compile(r"^[ \t]*(?:step[ \t]+)?\d+[ \t]*[.:)][ \t]*(\S.*)$", re.IGNORECASE | re.M)
_ORDER = re.compile(r"^[ \t]*execution order:(.*)$", re.IGNORECASE | re.M)


class AdaptAgent(ScaffoldAgent):
    """Tries a task, and splits it into subtasks only if that fails, up to a depth.

    "ADaPT: As-Needed Decomposition and Planning with Language Models" (arXiv 2311.05772). The agent
    (the executor) acts until it reports `task completed` or `task failed`, or has taken `steps`
    actions, which counts as a failure. A failed task is split by the planner into subtasks that all
    (AND) or of which one (OR) must succeed. Each of them is tried in the same way, in the state
    that the one before has left. Orders that combine AND and OR are read as AND.

    Args:
        agent: the agent that acts and splits tasks.
        depth: maximum depth of subtasks. The task of the episode has depth 1.
        steps: maximum number of actions in an attempt at a task or subtask.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1.
    """

    kind = "adapt"

    def __init__(self, agent: Agent, *, depth: int = 3, steps: int = 20, name: str | None = None):
        super().__init__(agent, name=name)
        check_counts(depth=depth, steps=steps)
        self.depth, self.steps = depth, steps

    def program(self, view: View) -> Program[None]:
        """Solves the task of the episode. After a failure it begins again with one more action."""
        while True:
            yield from self._solve(view, (), ())
            yield from self.play(view, self.begin(view))

    def _solve(self, view: View, goals: tuple[str, ...], done: tuple[str, ...]) -> Program[bool]:
        """Tries a task, and its subtasks if that fails. Returns whether it succeeded.

        Args:
            view: the episode.
            goals: the subtask, after those that it is part of. (): the task of the episode.
            done: the subtasks beside it that are done.
        """
        own = self.begin(view, _shown(goals, done))
        if (yield from self._execute(view, own)):
            return True
        if len(goals) + 1 >= self.depth:
            return False
        past = transcript(own.history, own.observation)
        plan = yield from self.write(view, _shown(goals, done), "The attempt:", past, SPLIT)
        subtasks, any_of = [found.strip() for found in _STEP.findall(plan)], _either(plan)
        finished: tuple[str, ...] = ()
        for subtask in subtasks:
            success = yield from self._solve(view, (*goals, subtask), finished)
            if success == any_of:
                return success
            finished += (subtask,) if success else ()
        return bool(subtasks) and not any_of

    def _execute(self, view: View, own: View) -> Program[bool]:
        """Acts until a report or the maximum number of actions. Returns whether it succeeded."""
        for _ in range(self.steps):
            reply = yield self.agent, own
            if signal := _SIGNAL.search(reply):
                return signal[1].lower() == "completed"
            yield from self.take(view, own, reply)
        return False


def _shown(goals: tuple[str, ...], done: tuple[str, ...]) -> str:
    lines = [f"Part of: {goal}" for goal in goals[:-1]]
    lines += [f"Already done: {subtask}" for subtask in done]
    lines += [f"Your current subtask: {goal}" for goal in goals[-1:]]
    return "\n".join([*lines, SIGNALS])


def _either(plan: str) -> bool:
    """Returns whether one of the subtasks is enough."""
    order = _ORDER.search(plan)
    words = set(re.findall(r"\w+", order[1].upper())) if order else set()
    return "OR" in words and "AND" not in words
