"""`write_tool_tasks`: a language model writes tasks of tools, with solutions and failure cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.errors import DataError
from agentgym.reading.typography import without_thoughts
from agentgym.utils.action_parsing import object_of
from agentgym.utils.files import replace_text
from agentgym.utils.serialization import from_json, to_json
from agentgym.wrappers.tool_tasks import ToolTask, has_calls, played, tool_env

PROMPT = (
    "You write a task for an agent that uses tools. You read the rules with the documentation of "
    "all tools, and what the agent of another task is told at the start. Write a goal that the "
    "state at the start allows and that needs several calls, the calls of a solution, of which the "
    "last one ends the episode, and sequences of calls that end it, too, look plausible and miss "
    "the goal. The goal is what a user would ask for: it names all that decides the outcome, and "
    "no tools. Reply with one JSON object:\n"
    '{"goal": "...", "calls": [{"name": "...", "arguments": {}}], "wrong": [[{"name": "...", '
    '"arguments": {}}]]}'
)


def write_tool_tasks(
    source: str,
    env: gymnasium.Env[Any, Any],
    out: str | Path,
    *,
    count: int = 20,
    attempts: int = 4,
) -> list[ToolTask]:
    """Writes a file of tasks for the wrapper `ToolTasks`, and returns them.

    Goals come from the documentation of the tools, as in "GOAT: A Training Framework for
    Goal-Oriented Agent with Tools" (arXiv 2510.12218). A task counts only if its solution and its
    verifier agree with the environment, as in "Self-Challenging Language Model Agents" (arXiv
    2506.01716), and with its failure cases, the consistency of "EvoSyn: Generalizable Evolutionary
    Data Synthesis for Verifiable Learning" (arXiv 2510.17928):

    - The calls of the solution are valid and end the episode, twice in the same state.
    - Its last call alone ends in another state.
    - There are failure cases, which end the episode, and none in this state.

    A model whose task does not pass reads the answers to its calls, and the error.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. Its replies are kept (see
            `Replies`).
        env: an environment of tools. Written tasks have the starts of its first training tasks.
        out: the new JSON file.
        count: number of tasks.
        attempts: maximum number of requests per task.

    Raises:
        ConfigError: if the environment has no tools, or for an unknown model.
        DataError: if no task passes. The message names the error of the last one.
        ChatError: if a server sends no usable reply. Earlier replies are kept.
    """
    tool_env(env)
    ask, found, wrong = Replies(make_agent(source), source, PROMPT), list[ToolTask](), ""
    names = env.get_wrapper_attr("tasks").train
    for number in range(count):
        start = names[number % len(names)]
        observation, _ = env.reset(seed=0, options={"task": start})
        rules = str(env.get_wrapper_attr("instructions"))
        goals = "\n".join(["Goals that are taken:", *(f"- {each.goal}" for each in found)])
        parts = [rules, f"At the start:\n{observation}", goals]
        for _ in range(attempts):
            [reply] = ask(["\n\n".join(parts)])
            task, wrong = _read(reply, start, [each.goal for each in found])
            if task is not None and not (wrong := problems(env, task)):
                found.append(task)
                break
            parts += [f"An earlier reply:\n{reply.strip()}", f"What is wrong with it: {wrong}"]
    if not found:
        raise DataError(f"{source} wrote no task that passes: {wrong}")
    replace_text(Path(out), json.dumps(to_json(found), indent=1) + "\n")
    return found


def problems(env: gymnasium.Env[Any, Any], task: ToolTask) -> str:
    """Returns why the solution and the failure cases of a task do not agree, "" if they do."""

    def run(calls: list[dict[str, Any]]) -> Any:
        env.reset(seed=0, options={"task": task.start})
        return played(env, calls)

    first = run(task.calls)
    said = " | ".join(f"{text:.200}" for text in first.observations)
    if not first.valid:
        return f"a call of the solution is invalid. The calls answered: {said}"
    if not first.target or len(first.observations) < len(task.calls):
        return f"the episode does not end with the last call. The calls answered: {said}"
    if run(task.calls).target != first.target:
        return "the solution does not end in the same state twice"
    if run(task.calls[-1:]).target == first.target:
        return "the last call alone is a solution"
    if not task.wrong:
        return "there are no failure cases"
    for i, calls in enumerate(task.wrong, 1):
        if not (target := run(calls).target):
            return f"failure case {i} does not end the episode"
        if target == first.target:
            return f"failure case {i} ends in the state of the solution"
    return ""


def _read(reply: str, start: str, goals: list[str]) -> tuple[ToolTask | None, str]:
    """Returns the task in a reply, or None and the error."""
    found = object_of(without_thoughts(reply))
    try:
        data = json.loads(found) if found else None
        if not isinstance(data, dict):
            return None, "it holds no JSON object"
        task = from_json(ToolTask, {"wrong": [], **data, "start": start})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return None, f"{error!s:.300}"
    if not task.calls or not has_calls(task):
        return None, "a call has a name, which is a text, and arguments, which are an object"
    if not task.goal.strip() or task.goal in goals:
        return None, "the goal is empty or taken"
    return task, ""
