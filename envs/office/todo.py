"""Todo: questions about a list of tasks, and changes of it."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.office.assignment import Assignment, AssignmentEnv
from agentgym.tasks import task_rng
from agentgym.tools import Call, ToolError, tool

PROJECTS: dict[str, tuple[str, ...]] = {
    "Garden": ("Plant tomatoes", "Water the roses", "Mow the lawn", "Repair the fence"),
    "House": ("Paint the kitchen", "Clean the windows", "Fix the door", "Sort the cellar"),
    "School": ("Write the essay", "Solve the equations", "Read chapter four", "Learn the poem"),
    "Band": ("Book the hall", "Rehearse the songs", "Print the posters", "Tune the piano"),
    "Trip": ("Reserve the cabin", "Pack the tent", "Check the tyres", "Buy the maps"),
    "Office": ("Send the invoice", "Order the paper", "Prepare the talk", "Call the supplier"),
}
START = date(2025, 3, 1)


@lru_cache(maxsize=4096)
def draw_assignment(task: str) -> Assignment:
    """Returns the assignment of a task."""
    rng = task_rng(task, "todo")
    names = [list(PROJECTS)[i] for i in rng.permutation(len(PROJECTS))[:3].tolist()]
    tasks: dict[str, Any] = {}
    for project in names:
        days = rng.permutation(28).tolist()
        for i in rng.permutation(4)[: int(rng.integers(3, 5))].tolist():
            tasks[PROJECTS[project][i]] = {
                "project": project,
                "due": str(START + timedelta(days=days.pop())),
                "minutes": int(rng.integers(1, 13)) * 10,
                "priority": int(rng.integers(1, 5)),
                "done": bool(rng.random() < 0.25),
            }
    project = names[int(rng.integers(3))]
    mine = {title: entry for title, entry in tasks.items() if entry["project"] == project}
    title = list(mine)[int(rng.integers(len(mine)))]
    write = (_ask_due, _ask_minutes, _ask_last, _finish_until, _postpone, _add, _tidy)
    request, calls, answer = write[int(rng.integers(len(write)))](rng, project, title, mine)
    return Assignment(request, {"tasks": tasks}, calls, answer)


Written = tuple[str, tuple[Call, ...], str | None]
Entries = dict[str, dict[str, Any]]


def _ask_due(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    return (
        f"When is {title!r} in the project {project} due? Answer with the date.",
        (_look(title),),
        mine[title]["due"],
    )


def _ask_minutes(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    total = sum(entry["minutes"] for entry in mine.values() if not entry["done"])
    return (
        f"How many minutes do the open tasks of the project {project} take in all?",
        (_list(project), *(_look(t) for t, entry in mine.items() if not entry["done"])),
        str(total),
    )


def _ask_last(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    return (
        f"Which task of the project {project} is due last, whether done or not?",
        (_list(project), *map(_look, mine)),
        max(mine, key=lambda t: mine[t]["due"]),
    )


def _finish_until(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    undone = [t for t, entry in mine.items() if not entry["done"]]
    if not undone:
        return _postpone(rng, project, title, mine)
    day = mine[undone[int(rng.integers(len(undone)))]]["due"]
    late = [t for t, entry in mine.items() if entry["due"] <= day and not entry["done"]]
    return (
        f"Complete all open tasks of the project {project} that are due until {day}.",
        (
            _list(project),
            *map(_look, undone),
            *(Call("complete_task", {"title": t}) for t in late),
        ),
        None,
    )


def _postpone(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    days = int(rng.integers(1, 10))
    due = str(date.fromisoformat(mine[title]["due"]) + timedelta(days=days))
    return (
        f"Postpone {title!r} in the project {project} by {days} days.",
        (_look(title), Call("set_due_date", {"title": title, "date": due})),
        None,
    )


def _add(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    day = mine[title]["due"]
    new = {"project": project, "title": "Ask for help", "due_date": day}
    return (
        f"Add the task 'Ask for help' to the project {project}, due on the same day as {title!r}.",
        (_look(title), Call("add_task", new)),
        None,
    )


def _tidy(rng: np.random.Generator, project: str, title: str, mine: Entries) -> Written:
    done = [t for t, entry in mine.items() if entry["done"]]
    kept = [t for t in mine if t not in done]
    if not kept:
        return _add(rng, project, title, mine)
    first, priority = kept[0], mine[kept[0]]["priority"] % 4 + 1
    return (
        f"Delete the completed tasks of the project {project}, and give {first!r} the priority "
        f"{priority}.",
        (
            _list(project),
            *(Call("delete_task", {"title": t}) for t in done),
            Call("set_priority", {"title": first, "priority": priority}),
        ),
        None,
    )


def _look(title: str) -> Call:
    return Call("get_task", {"title": title})


def _list(project: str) -> Call:
    return Call("list_tasks", {"project": project})


class Todo(AssignmentEnv):
    """Answer questions about a list of tasks, or change the list.

    ## Description
    Three projects have three or four tasks each, with due dates, durations and priorities. An
    assignment is a question (a date, a total, the last task) or a change (complete, postpone, add,
    delete, set a priority).

    ## Action Space
    Text: a tool call, such as `{"name": "get_task", "arguments": {"title": "Mow the lawn"}}`, in
    any of the formats of `agentgym.tools.CallFormat`. `finish` ends the episode.

    ## Observation Space
    Text: first the assignment, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the list is exactly as requested and the answer, if a question
    was asked, is right. Else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    List and assignment are sampled from the task name.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the solution's calls that were made. `admissible`
    is empty. `state_key` identifies the state, and the calls and results whatever their order.

    ## Arguments
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 20): turn limit.

    ## References
    The to-do tasks of the AgentGym framework of Xi et al. (arXiv 2406.04151), which come from
    AgentBoard (arXiv 2401.13178). Lists and assignments are generated. There, an episode is a
    success as soon as one subgoal is met.

    ## Version History
    v0: first version.
    """

    rules = (
        "You manage a list of tasks. Do the assignment with the tools, then call finish. For a "
        "question, give the answer to finish. The reward is 1 if the answer is right and the list "
        "is exactly as requested, else 0."
    )

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return draw_assignment(task)

    @tool
    def list_projects(self) -> list[str]:
        """Lists the projects."""
        entries = self.state.world["tasks"].values()
        return list(dict.fromkeys(entry["project"] for entry in entries))

    @tool
    def list_tasks(self, project: str) -> dict[str, str]:
        """Lists the tasks of a project, done or open.

        Args:
            project: name of the project.
        """
        entries = self.state.world["tasks"].items()
        found = {t: "done" if e["done"] else "open" for t, e in entries if e["project"] == project}
        if not found:
            raise ToolError(f"There is no project {project[:60]!r}.")
        return found

    @tool
    def get_task(self, title: str) -> dict[str, Any]:
        """Shows project, due date, minutes, priority and status of a task.

        Args:
            title: title of the task.
        """
        return self._find("tasks", title)

    @tool
    def complete_task(self, title: str) -> None:
        """Marks a task as done.

        Args:
            title: title of the task.
        """
        self._find("tasks", title)["done"] = True

    @tool
    def set_due_date(self, title: str, date: str) -> None:
        """Changes the due date of a task.

        Args:
            title: title of the task.
            date: such as "2025-03-09".
        """
        self._find("tasks", title)["due"] = _checked_date(date)

    @tool
    def set_priority(self, title: str, priority: int) -> None:
        """Changes the priority of a task.

        Args:
            title: title of the task.
            priority: 1 (high) to 4 (low).
        """
        if not 1 <= priority <= 4:
            raise ToolError("A priority is 1, 2, 3 or 4.")
        self._find("tasks", title)["priority"] = priority

    @tool
    def add_task(self, project: str, title: str, due_date: str) -> None:
        """Adds an open task of 30 minutes with priority 4.

        Args:
            project: an existing project.
            title: title of the task, at most 100 characters.
            due_date: such as "2025-03-09".
        """
        if project not in self.list_projects():
            raise ToolError(f"There is no project {project[:60]!r}.")
        if title in self.state.world["tasks"] or not 0 < len(title) <= 100:
            raise ToolError("A title must be new and have 1 to 100 characters.")
        self.state.world["tasks"][title] = {
            "project": project,
            "due": _checked_date(due_date),
            "minutes": 30,
            "priority": 4,
            "done": False,
        }

    @tool
    def delete_task(self, title: str) -> None:
        """Deletes a task.

        Args:
            title: title of the task.
        """
        self._find("tasks", title)
        del self.state.world["tasks"][title]


def _checked_date(text: str) -> str:
    try:
        return str(date.fromisoformat(text))
    except ValueError:
        raise ToolError(f"A date is written like 2025-03-09, got {text[:20]!r}.") from None
