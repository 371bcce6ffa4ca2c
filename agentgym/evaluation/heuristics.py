"""`write_heuristic`: a language model writes values of states for a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.search.agent import SearchAgent
from agentgym.agents.search.code_value import CodeValue
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation.description import described
from agentgym.evaluation.runner import evaluate
from agentgym.reading.typography import without_thoughts
from agentgym.registration.making import split_id
from agentgym.utils.action_parsing import program_of

PROMPT = (
    "You write heuristics for a planner. It tries actions in an environment and goes on from the "
    "state with the highest value. You read what the environment is and some observations. Reply "
    "with a Python function value(observation), in one code block, which reads the text of an "
    "observation and returns a number from 0 (far from solved) to 1 (solved). Use no classes and "
    "no files. Of the standard library, re, math and json are there."
)
EXAMPLES = 3
"""Observations of training tasks that the model reads."""


@dataclass(frozen=True)
class Heuristic:
    """A program that a model has written, and what a search with it reaches on training tasks.

    Attributes:
        code: the program, "" if the reply holds none.
        success: the share of tasks that are solved.
        steps: mean number of environment steps of the searches of an episode.
        problem: why it was not tried, or "".
    """

    code: str
    success: float = 0.0
    steps: float = 0.0
    problem: str = ""


def write_heuristic(
    setting: str, source: str, file: str, *, count: int = 5, tasks: int = 20, budget: int = 100
) -> list[Heuristic]:
    """Lets a language model write heuristics, and keeps the best one on training tasks.

    "Classical Planning with LLM-Generated Heuristics: Challenging the State of the Art with Python
    Code" (arXiv 2503.18809): a model writes several heuristics for a domain, a greedy best-first
    search tries each on training tasks, and the best one plans for all others:
    `--agent search:best_first,value=code:FILE`. The best one solves the most tasks, with the fewest
    steps among equals, the first one of several. Programs run in a sandbox (extra `code`).

    Args:
        setting: an id, with arguments as in "Blocksworld-v0:blocks=4".
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. Its replies are kept (see
            `Replies`).
        file: the file that is written.
        count: number of heuristics, each of a request.
        tasks: number of training tasks.
        budget: environment steps per search.

    Returns:
        All heuristics, in the order in which they were written.

    Raises:
        ConfigError: for a count or a number of tasks below 1.
        DataError: if none of them runs. The message names what is wrong.
        ChatError: if a server sends no usable reply.
        MissingExtraError: if the sandbox is not installed.
    """
    for name, value in (("count", count), ("tasks", tasks)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}.")
    id, arguments = split_id(setting)
    ask = Replies(make_agent(source), source, PROMPT)
    text = described(setting, observations=EXAMPLES)
    numbers = range(1, count + 1)
    replies = ask([f"{text}\n\nHeuristic {number} of {count}." for number in numbers])
    found = [_tried(reply, id, arguments, tasks, budget) for reply in replies]
    working = [each for each in found if not each.problem]
    if not working:
        problems = "\n".join(f"- {each.problem}" for each in found)
        raise DataError(f"{source} wrote no heuristic for {id} that runs:\n{problems}")
    best = max(working, key=lambda each: (each.success, -each.steps))
    Path(file).write_text(best.code, "utf-8")
    return found


def _tried(reply: str, id: str, arguments: Mapping[str, Any], tasks: int, budget: int) -> Heuristic:
    """Returns the heuristic of a reply, tried on training tasks."""
    code = program_of(without_thoughts(reply), "value")
    if not code:
        return Heuristic("", problem="expected a code block with a function value, got none")
    try:
        agent = SearchAgent("best_first", value="code", judge=CodeValue(code), budget=budget)
    except ConfigError as error:
        return Heuristic(code, problem=str(error))
    report = evaluate(id, agent, tasks=tasks, split="train", env_kwargs=dict(arguments))
    steps = [episode.costs.get("search_steps", 0) for episode in report.episodes]
    success = sum(episode.success for episode in report.episodes) / len(report.episodes)
    return Heuristic(code, success, sum(steps) / len(steps))
