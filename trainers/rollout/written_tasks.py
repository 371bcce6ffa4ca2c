"""`Written`: a curriculum of goals that a language model writes from failed tasks."""

from __future__ import annotations

import re

import numpy as np

from agentgym.data.episode_text import LONGEST
from agentgym.reading.typography import without_thoughts
from agentgym.trainers.rollout.learning_progress import Related
from agentgym.trainers.rollout.task_sampling import Curriculum, filled
from agentgym.wrappers.written_goal import GOAL, GoalTasks, clean_goal, parted

PROMPT = (
    "You write new tasks for an agent that learns. You read the beginnings of tasks that it has "
    "failed, with numbers. For a new task, the agent begins in the same way and pursues another "
    "goal, which you write. Write goals of the same kind that are possible there, that differ in "
    "details, and that are not harder. Reply with one line per goal: the number of the beginning, "
    "a colon, and the goal in one sentence, such as\n"
    "2: Buy a red shirt for less than 20 dollars.\n"
    "1: Open the settings and turn on the alarm."
)
_LINE = re.compile(r"[\s*_`>#-]*(\d{1,4})[\s*_`]*[:.)]\s*(\S.*)")


class Written(Related):
    """Plays new goals that a language model writes from tasks that fail.

    Half of the tasks are written ones. A goal is played from the beginning of a failed task (see
    the wrapper `WrittenGoal`) if its predicted success rate is in `within`, which is the critic's
    filter of WebRL (arXiv 2411.02337). Written tasks that fail lead to further ones.
    """

    shown = 8
    """Maximum number of failed tasks that the model reads."""

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` tasks, each with a seed."""
        drawn, wanted = Curriculum.draw(self, count, rng), min(count // 2, self.most)
        if not (self.failed and wanted):
            return drawn
        names = list(self.failed)
        sample = rng.choice(len(names), min(self.shown, len(names)), replace=False)
        chosen = [names[int(i)] for i in sample]
        parts = [f"{i}. {self.failed[name][:LONGEST]}" for i, name in enumerate(chosen, 1)]
        [reply] = self.ask(["\n\n".join([*parts, f"Write {2 * wanted} goals."])])
        assert isinstance(self.tasks, GoalTasks)
        starts = [parted(name, self.tasks.own)[0] for name in chosen]
        found: list[str] = []
        for task in dict.fromkeys(read_goals(reply, starts)[: 4 * wanted]):
            if len(found) < wanted and task not in self.rates:
                text = self.describe(task)
                if text and self.within[0] <= self.progress.predict([text])[0] <= self.within[1]:
                    found.append(task)
        return filled([(task, int(rng.integers(2**31))) for task in found], drawn)


def read_goals(reply: str, starts: list[str]) -> list[str]:
    """Returns the tasks in a reply, a goal and the number of its start per line.

    Args:
        reply: the reply. Thoughts and lines of another form are ignored.
        starts: the tasks with whose beginnings goals may be played.
    """
    found = []
    for line in without_thoughts(reply).split("\n"):
        match = _LINE.fullmatch(line.rstrip())
        if match and 1 <= int(match[1]) <= len(starts):
            if goal := clean_goal(match[2].strip("*_` ")):
                found.append(f"{starts[int(match[1]) - 1]}{GOAL}{goal}")
    return found
