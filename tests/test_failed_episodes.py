"""The last observation of a failed episode does not hold the solution, in any id.

Agents see it again: `MultiTrial` with transcripts, `Reflector` and Reflexion show failed attempts
to an agent that then tries the same task. A solution counts as shown if the text after the end
tells the answers of several tasks apart, and all that the agent saw before does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, NamedTuple

import gymnasium
import pytest

import agentgym
from agentgym.agents import View
from agentgym.tasks import Tasks
from agentgym.wrappers import MultiTrial, Reflector

from .test_all_envs import ENTRIES, parameter

TASKS = 6
ENOUGH = 4
"""Failed episodes of one kind that are compared."""
MOST_TURNS = 400
"""Turns that an expert plays. Longer episodes have no single answer."""
MOST_FAILED = 60
"""Turns of an episode that is meant to fail, if its own limit is higher."""
NONSENSE = "zzz"


class Failed(NamedTuple):
    """The texts of a failed episode.

    Attributes:
        before: instructions, observations before the last one, and the agent's actions.
        prompt: the observation before the last one.
        after: the lines of the last observation that are not in the one before.
    """

    before: str
    prompt: str
    after: str


def answers(action: str) -> dict[str, str]:
    """Returns the parts of an action that may be the answer, by their kind."""
    found = {"all": action, "rest": action.partition(" ")[2], "label": action.rpartition(":")[2]}
    found["bracket"] = (re.findall(r"\[([^\[\]]+)\]", action) or [""])[-1]
    try:
        call = json.loads(action)
    except ValueError:
        call = None
    if isinstance(call, dict) and isinstance(call.get("arguments"), dict):
        found |= {f"argument {key}": str(value) for key, value in call["arguments"].items()}
    return {kind: text for kind, part in found.items() if (text := part.strip(" .?!\"'"))}


def holds(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer.casefold())}(?!\w)", text.casefold()) is not None


def solution(env: gymnasium.Env[Any, Any], task: str) -> list[str]:
    """Returns the actions of the expert, [] if it does not solve the task."""
    env.reset(seed=3, options={"task": task})
    actions: list[str] = []
    inner: Any = env.unwrapped
    while len(actions) < MOST_TURNS and (action := inner.expert()) is not None:
        actions.append(action)
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return actions if info["success"] else []
    return []


def alternatives(action: str, admissible: tuple[str, ...], other: str) -> Iterator[str]:
    """Yields answers of the same form, then that of another task without end."""
    form = re.split(r"[ \[:]", action)[0]
    alike = [text for text in admissible if re.split(r"[ \[:]", text)[0] == form]
    yield from [text for text in alike if text != action][:3]
    yield from repeat(other)


def fail(env: MultiTrial, task: str, first: list[str], other: str, wrong: bool) -> Failed | None:
    """Plays an attempt that is meant to fail, after some right actions. None if it succeeds."""
    inner: Any = env.unwrapped
    options: dict[str, Any] = {"task": task}
    if inner.turn_limit is None or inner.turn_limit > MOST_FAILED + len(first):
        options["max_turns"] = MOST_FAILED + len(first)
    text, info = env.reset(seed=3, options=options)
    before = [getattr(inner, "instructions", ""), text]
    for action in chain(first, repeat("")):
        if not action:
            break
        text, _, terminated, truncated, info = env.step(action)
        before += [action, text]
        if info["trial_end"] or terminated or truncated:
            return None
    rest = alternatives(inner.expert() or "", info["admissible"], other) if wrong else None
    while not info["trial_end"]:
        action = next(rest) if rest else NONSENSE
        text, _, terminated, truncated, info = env.step(action)
        before += [action] if info["trial_end"] else [action, text]
    if info["trial_success"]:
        return None
    new = [line for line in info["trial_observation"].splitlines() if line not in before[-2]]
    return Failed("\n".join(before), before[-2], "\n".join(new))


def tells(texts: list[str], found: list[str]) -> float:
    """Returns how much more often a text holds the answer of its own task than those of others."""
    own = sum(holds(text, answer) for text, answer in zip(texts, found, strict=True))
    others = [
        holds(text, answer)
        for i, text in enumerate(texts)
        for j, answer in enumerate(found)
        if i != j and answer != found[i]
    ]
    return own / len(texts) - (sum(others) / len(others) if others else 1.0)


def names(tasks: Tasks) -> list[str]:
    return list(dict.fromkeys(tasks.train[i] for i in range(min(TASKS, len(tasks.train)))))


def shown(id: str) -> list[str]:
    """Returns how the ends of failed episodes show the answers, [] if they do not."""
    env = MultiTrial(gymnasium.make(id), 2, transcripts=True)
    inner: Any = env.unwrapped
    solutions = {task: solution(env.env, task) for task in names(inner.tasks)}
    solutions = {task: actions for task, actions in solutions.items() if actions}
    reports, game = [], agentgym.REGISTRY[id].multi_agent
    ways: dict[str, Callable[[str, str], Failed | None]] = {
        "nonsense": lambda task, other: fail(env, task, [], NONSENSE, False),
        "a wrong answer": lambda task, other: fail(env, task, [], other, True),
        "a wrong end": lambda task, other: fail(env, task, solutions[task][:-1], other, True),
    }
    order = list(solutions)
    for way, play in ways.items():
        played: dict[str, Failed] = {}
        for task, following in zip(order, [*order[1:], *order[:1]], strict=True):
            if (failed := play(task, solutions[following][-1])) is not None:
                played[task] = failed
        if len(played) < ENOUGH:
            continue
        kinds = [answers(solutions[task][-1]) for task in played]
        for kind in set.intersection(*map(set, kinds)):
            found = [each[kind] for each in kinds]
            if len(set(found)) < 2 or (game and min(map(len, found)) < 3):
                continue  # moves of a game recur in its record
            texts = list(zip(*played.values(), strict=True))
            before, prompt, after = (tells(list(each), found) for each in texts)
            if after > 0.6 and max(before, prompt) < 0.5:
                reports.append(f"{way}, {kind} {found[0]!r}: {texts[2][0][-200:]!r}")
    return reports


@pytest.mark.parametrize("id", [parameter(entry) for entry in ENTRIES])
def test_the_end_of_a_failed_episode_does_not_show_the_answer(id: str):
    assert not shown(id)


class Wrong:
    """An actor that always gives the same wrong answer."""

    def act(self, views: list[View]) -> list[str]:
        return ["answer[nobody]"] * len(views)


def test_a_reflector_reads_no_answer_in_a_failed_attempt():
    for number in range(TASKS):
        inner: Any = gymnasium.make("AgentGym/SearchQA-v0")
        [*_, last] = solution(inner, f"train/{number}")
        env = Reflector(inner, "random", trials=2)
        env.actor = Wrong()  # pyright: ignore[reportAttributeAccessIssue]
        text, info = env.reset(seed=3, options={"task": f"train/{number}"})
        assert not info["success"] and "Wrong." in text
        assert not holds(text, answers(last)["bracket"])
