"""`LessonsAgent`: writes lessons after every attempt, and shows those that have helped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.scaffolds.base import (
    Program,
    ScaffoldAgent,
    check_counts,
    data_file,
    read_data,
    smoothed_success,
    transcript,
)
from agentgym.agents.scaffolds.examples import env_of
from agentgym.errors import ConfigError, DataError
from agentgym.utils.bm25 import TextIndex
from agentgym.utils.files import replace_text
from agentgym.utils.note_edits import apply_edits

DESIGNS: dict[str, dict[str, str]] = {
    "causal": {
        "needed": "what is or may be necessary for what, such as `needed: the key may be necessary "
        "to open the gate`",
        "useless": "what does or may not contribute to what",
    },
    "steps": {
        "step": "a situation, the action that was wrong in it, and a better action, such as `step: "
        "at the closed gate, not go north but use key`",
    },
    "playbook": {
        "rule": "how this world works, as far as the attempts show",
        "strategy": "what to do in order to succeed",
    },
    "manual": {
        "mechanism": "a rule of the environment that is easily overlooked",
        "method": "actions that succeed at a subtask, in order",
        "mistake": "an error that was corrected, and how",
        "open": "an error whose cause is not known yet",
    },
    "levels": {
        "strategy": "a principle for a dilemma that returns",
        "procedure": "actions that succeed at a subtask, in order",
        "tool": "how an action is used, and what it answers",
    },
}
"""Kinds of lessons of each design, with their contents."""
ASK = (
    "The attempt {outcome}. Edit the lessons, so that they help in the next attempts and in other "
    "tasks of this environment. A lesson begins with its kind:\n{kinds}\n"
    "Reply with edits, one per line, and nothing else:\n"
    "- remember: KIND: TEXT (add a lesson)\n"
    "- remember 2: KIND: TEXT (replace lesson 2)\n"
    "- forget 2 (delete lesson 2)"
)


@dataclass
class Lesson:
    """A lesson.

    Attributes:
        text: its kind and text, such as "rule: doors lead one way".
        env: id of the environment that it is about.
        uses: number of finished attempts that have shown it.
        wins: number of those that succeeded.
    """

    text: str
    env: str = ""
    uses: int = 0
    wins: int = 0

    @property
    def value(self) -> float:
        """The mean success of the attempts, see `smoothed_success`."""
        return smoothed_success(self.wins, self.uses)


class LessonsAgent(ScaffoldAgent):
    """Edits a list of lessons after every attempt, and acts with the best fitting ones.

    The writer reads each finished attempt, successes too, and edits the lessons about its
    environment. A lesson gets the outcomes of the attempts that have shown it. Of the `2 k` lessons
    that are the most similar to the first observation (BM25), the `k` with the highest mean success
    are shown, and if there are more than `size`, the one with the lowest goes, as experiences are
    dropped by use and quality in "Iterative Experience Refinement of Software-Developing Agents"
    (arXiv 2405.04219).

    The design names the kinds of lessons:

    - "causal": causes and their necessity, of CLIN (arXiv 2310.10134).
    - "steps": the wrong step and a better action, of "A Zero-Shot Language Agent for Computer
      Control with Structured Reflection" (arXiv 2310.08740).
    - "playbook": rules of the world and a strategy, of "Cogito, Ergo Ludo" (arXiv 2509.25052).
    - "manual": types of rules, of AutoManual (arXiv 2405.16247), of which the agent reads a manual
      with a chapter per type.
    - "levels": strategies, procedures and tools, of "Learning on the Job" (MUSE, arXiv 2510.08002).

    Kept of each: the contents, and that they are written after every attempt. Changed: one form of
    edits, values and retrieval for all.

    In an environment with `MultiTrial`, attempts end with its trials, else with episodes. Lessons
    outlive the episode, so results depend on the order of the episodes and on `num_envs`. Only the
    outermost agent of an evaluation learns how an episode ends.

    Args:
        agent: the agent that acts and writes.
        design: a key of `DESIGNS`, or a JSON file with the kinds of lessons and their contents.
        k: maximum number of lessons in the prompt.
        size: maximum number of lessons per environment.
        length: maximum number of characters of a lesson.
        data: JSON file of lessons. It is read at the start if it exists, and written after each
            change.
        name: name in reports.

    Raises:
        ConfigError: if a number is below 1, there is no such design, or the folder of the file does
            not exist.
        DataError: if the file holds anything else than lessons.
    """

    kind = "lessons"

    def __init__(
        self,
        agent: Agent,
        *,
        design: str = "playbook",
        k: int = 10,
        size: int = 40,
        length: int = 300,
        data: str | None = None,
        name: str | None = None,
    ):
        super().__init__(agent, name=name)
        check_counts(k=k, size=size, length=length)
        self.k, self.size, self.length = k, size, length
        self.kinds, self.data = _design(design), data_file(data)
        self.lessons = _read(self.data, read_data(self.data) or "[]")
        self._attempts: list[tuple[str, bool, str]] = []  # finished ones that nobody has read
        self._running: dict[int, tuple[list[Lesson], View]] = {}

    def program(self, view: View) -> Program[None]:
        """Learns from finished attempts, and acts with lessons after the instructions."""
        while True:
            yield from self._learn(view)
            shown = self.select(view)
            own = self.begin(view, self._manual(shown))
            self._running[id(view.rng)] = shown, own
            yield from self.play(view, own)
            while not view.info.get("trial_end"):
                yield from self.play(view, own)
            text = transcript(own.history, view.info["trial_observation"])
            self._ended(view, bool(view.info["trial_success"]), text)

    def finish(self, view: View) -> None:
        """Keeps the last attempt of an episode for the next one to learn from."""
        if id(view.rng) not in self._running:
            return
        played = len(self._running[id(view.rng)][1].history) + 1  # the last turn is not in it
        last = view.info.get("trial_observation", view.observation)
        won = bool(view.info.get("trial_success", view.info["success"]))
        self._ended(view, won, transcript(view.history[-played:], last))

    def _ended(self, view: View, won: bool, text: str) -> None:
        """Attributes the outcome of an attempt to the lessons that it has shown."""
        for lesson in self._running.pop(id(view.rng))[0]:
            lesson.uses, lesson.wins = lesson.uses + 1, lesson.wins + won
        self._attempts.append((env_of(view), won, text))
        self._save()

    def select(self, view: View) -> list[Lesson]:
        """Returns the lessons for an attempt that begins."""
        mine = [each for each in self.lessons if each.env == env_of(view)]
        known = [each for each in mine if _kind(each) in self.kinds]
        similar = TextIndex([each.text for each in known]).search(view.observation, 2 * self.k)
        # Lessons without a word of the observation come last.
        places = dict.fromkeys([*similar, *range(len(known))])
        chosen = [known[i] for i in places][: 2 * self.k]
        return sorted(chosen, key=lambda each: -each.value)[: self.k]

    def _learn(self, view: View) -> Program[None]:
        """Lets the writer read the attempts in this environment that nobody has read."""
        env = env_of(view)
        unread = [each for each in self._attempts if each[0] == env]
        self._attempts = [each for each in self._attempts if each[0] != env]
        for _, won, attempt in unread:
            numbered = [each.text for each in self.lessons if each.env == env]
            lines = [f"{i}. {text}" for i, text in enumerate(numbered, 1)]
            kinds = "\n".join(f"- {kind}: {holds}" for kind, holds in self.kinds.items())
            ask = ASK.format(outcome="succeeded" if won else "failed", kinds=kinds)
            known = "\n".join(["The lessons so far:", *(lines or ["(none)"])])
            reply = yield from self.write(view, known, f"The attempt:\n\n{attempt}", ask)
            self._edit(env, reply, numbered)

    def _edit(self, env: str, reply: str, numbered: Sequence[str]) -> None:
        """Applies the edits of a reply to the lessons about an environment."""
        old = {each.text: each for each in self.lessons if each.env == env}
        texts = [*old]
        apply_edits(reply, texts, numbered, size=len(texts) + self.size, length=self.length)
        new = [old.get(text) or Lesson(text, env) for text in dict.fromkeys(texts)]
        mine = [each for each in new if each.text in old or _kind(each) in self.kinds]
        while len(mine) > self.size:
            mine.remove(min(mine, key=lambda each: each.value))
        self.lessons = [each for each in self.lessons if each.env != env] + mine
        self._save()

    def _save(self) -> None:
        if self.data is not None:
            rows = [asdict(each) for each in self.lessons]
            replace_text(self.data, json.dumps(rows, indent=1) + "\n")

    def _manual(self, shown: Sequence[Lesson]) -> str:
        """Returns lessons as text, by their kind."""
        parts = []
        for kind in self.kinds:
            texts = [each.text.partition(":")[2].strip() for each in shown if _kind(each) == kind]
            parts += [f"{kind.capitalize()}:", *(f"- {text}" for text in texts)] if texts else []
        return "\n".join(["Lessons from earlier attempts.", *parts]) if parts else ""


def _kind(lesson: Lesson) -> str:
    return lesson.text.partition(":")[0]


def _design(design: str) -> Mapping[str, str]:
    """Returns the kinds of lessons of a design, and their contents."""
    if design in DESIGNS:
        return DESIGNS[design]
    text = read_data(data_file(design)) if design.endswith(".json") else None
    try:
        found = json.loads(text or "null")
    except ValueError:
        found = None
    words = isinstance(found, dict) and all(isinstance(each, str) for each in found.values())
    if not found or not words or any(":" in kind for kind in found):
        raise ConfigError(
            f"design must be one of {[*DESIGNS]}, or a JSON file with the kinds of lessons and "
            f"what they hold, as texts, got {design!r:.80}."
        )
    return found


def _read(file: Any, text: str) -> list[Lesson]:
    """Returns the lessons of a file."""
    try:
        found = [Lesson(**each) for each in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise DataError(f"{file} holds no list of lessons.") from error
    for each in found:
        texts = isinstance(each.text, str) and isinstance(each.env, str)
        if not texts or type(each.uses) is not int or type(each.wins) is not int:
            raise DataError(f"{file} holds a lesson that is no text with two counts: {each!r:.80}.")
    return found
