"""Agents around agents, with and without what they remember.

The inner agents are scripts that can use a text if they get it, so the benchmark shows that the
text reaches them and helps. It says nothing about the texts of a language model.

- `reflexion` in Wordle: three attempts of two guesses at one word. The inner agent guesses words
  that fit all marks in its prompt, and its reflection is the marks of the attempt. Without:
  the same attempts with empty reflections.
- `examples` and `cases` in TextCraft: every task is played three times. The inner agent repeats
  the actions of an example of its own task, and else acts like the expert or at random, each with
  probability 1/2, in 10 turns. Without: the same agent without examples.
- A to-do list in TextCraft-Deep: a planner that reads the page with the goal writes its plan into
  notes (`Memory`), or reads as many turns as fit into the prompt (`window`).

Prints tables and writes JSON. Finished agents are kept. It takes some minutes on one core.

    python benchmarks/planning/scaffolds.py [--episodes 100]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import Agent, ExpertAgent, View
from agentgym.agents.scaffolds import CasesAgent, ExamplesAgent, ReflexionAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.envs.lmrl.wordle import load_vocabulary
from agentgym.envs.textcraft.book import load_book
from agentgym.envs.textcraft.textcraft import steps
from agentgym.evaluation.runner import evaluate
from agentgym.registration.making import make_env, tasks_of
from benchmarks.planning.notes import Reader, Setting, WordleReader, notes_of, run, table
from benchmarks.planning.planning import numbers
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    measured,
    settings_of,
    versions,
    whole,
    write,
)

GOAL = re.compile(r"^Goal: craft (.+)\.$", re.MULTILINE)


@dataclass
class Settings:
    """Settings of the benchmark."""

    episodes: int = 100
    """Episodes per agent."""
    tasks: int = 50
    """Tasks of TextCraft that are played three times."""
    budgets: tuple[int, ...] = (600, 700, 850, 1000)
    """Maximum tokens of a prompt in TextCraft-Deep. Its first page may be longer."""
    seed: int = 0
    """Random seed."""
    out: Path = RESULTS / "scaffolds.json"
    """Results."""


class Guesser:
    """Guesses a word of Wordle that fits all marks of its prompt.

    Args:
        reflects: whether it writes the marks of an attempt as its reflection.
    """

    name = "guesser"

    def __init__(self, reflects: bool):
        self.reflects = reflects

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns a guess or a reflection for each view."""
        return [self._act(view) for view in views]

    def _act(self, view: View) -> str:
        past = [observation for observation, _ in view.history]
        text = "\n".join([view.instructions, *past, view.observation])
        found = dict.fromkeys((m[1], m[2]) for m in WordleReader.marks.finditer(text))
        if view.instructions == WRITER:
            return "\n".join(f"{word}: {marks}" for word, marks in found) * self.reflects
        vocabulary = load_vocabulary("common", letter_counts=True)  # as in Wordle-Fixed
        history = tuple((w.replace(" ", ""), m.replace(" ", "")) for w, m in found)
        left = vocabulary.consistent(history)
        return vocabulary.spelled[int(left[int(view.rng.integers(len(left)))])]


class Imitator:
    """Repeats the actions of an example that begins like its own task, and else errs at times."""

    name = "imitator"

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        return [self._act(view) for view in views]

    def _act(self, view: View) -> str:
        first = view.history[0][0] if view.history else view.observation
        for example in view.instructions.split("Example ")[1:]:
            actions = re.findall(r"^> (.+)$", example, re.MULTILINE)
            if first in example and len(view.history) < len(actions):
                return actions[len(view.history)]
        admissible = view.info["admissible"]
        if view.rng.random() < 0.5:
            return admissible[int(view.rng.integers(len(admissible)))]
        return ExpertAgent().act([view])[0]


class Planner(Reader):
    """Plans when it reads the page with the goal, and forgets its plan unless it is in the prompt.

    With notes, these are the rest of its plan.
    """

    note_tokens = 16
    slack = 300

    def reply(self, view: View, prompt: str) -> str:
        """Returns the next command of the plan, or a random action if there is none."""
        goal = GOAL.search(prompt)
        todo = notes_of(view.observation)
        if todo:
            return f"forget 1\n{todo[0]}"
        if goal is None or (self.kind != "window" and view.history):
            options = [x for x in view.info["admissible"] if not re.match("remember|forget", x)]
            return options[int(view.rng.integers(len(options)))]
        plan = list(steps(load_book(None), goal[1], {}))
        if self.kind == "window":
            return plan[min(len(view.history), len(plan) - 1)]
        return "\n".join([*(f"remember: {each}" for each in plan[1:]), plan[0]])


CRAFTING = Setting("TextCraft-Deep-v0", {}, (), Planner, ("window", "notes"), "success")
WORDLE, SHORT = {"max_turns": 2}, {"max_turns": 10}
AGENTS: dict[str, tuple[str, dict[str, Any], Callable[[], Agent]]] = {
    "Wordle, empty reflections": (
        "Wordle-Fixed-v0",
        WORDLE,
        lambda: ReflexionAgent(Guesser(False)),
    ),
    "Wordle, reflexion": ("Wordle-Fixed-v0", WORDLE, lambda: ReflexionAgent(Guesser(True))),
    "TextCraft, no examples": ("TextCraft-v0", SHORT, Imitator),
    "TextCraft, examples": ("TextCraft-v0", SHORT, lambda: ExamplesAgent(Imitator())),
    "TextCraft, cases": ("TextCraft-v0", SHORT, lambda: CasesAgent(Imitator())),
}
"""Environment, arguments and agent of each row."""


def evaluated(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the numbers of an agent."""
    env, kwargs, make = AGENTS[name]
    if not name.startswith("TextCraft"):
        report = evaluate(
            env, make(), tasks=settings.episodes, seed=settings.seed, env_kwargs=kwargs
        )
        return numbers(whole(report))
    some = list(tasks_of(make_env(env)).test)[: settings.tasks]
    report = evaluate(
        env, make(), tasks=3 * some, seed=settings.seed, num_envs=1, env_kwargs=kwargs
    )
    return numbers(whole(report))


def main(settings: Settings) -> None:
    """Measures all agents, prints tables and writes the results."""
    about = {"config": settings_of(settings), "versions": versions("agentgym")}
    measures = {name: partial(evaluated, name, settings) for name in AGENTS}
    console, shown = Console(width=100), Table("agent", "success")
    found = dict(measured(settings.out, about, "agents", measures))
    for name, row in found.items():
        mean, low, high = (100 * x for x in row["success"])
        shown.add_row(name, f"{mean:.0f} [{low:.0f}, {high:.0f}]")
    console.print(shown)
    crafting = kept(settings.out, rows="crafting")
    if not crafting:
        crafting = run(CRAFTING, settings.budgets, settings)  # type: ignore[arg-type]
        write(settings.out, {**about, "agents": found, "crafting": crafting})
    console.print(table("TextCraft-Deep", crafting))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
