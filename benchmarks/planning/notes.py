"""Memory against a window at equal tokens: notes that an agent edits, or its last turns.

Three readers get prompts of the same maximum length, instructions included. They use everything
that a prompt holds without a mistake, and guess if the answer is not in it, so success shows how
much of the episode a kind of memory keeps. It does not show how well a language model learns to
write notes.

- `window`: the last turns that fit.
- `notes`: the current observation with the notes of the wrapper `Memory`. New facts are added, and
  the oldest notes are lost.
- `edited notes`: as `notes`, but a fact replaces the note about its subject.

Environments: a long Diary with its questions at the end, one whose questions come ten entries after
the fact, Wordle with several attempts at the same word, in which the notes survive an attempt, and
Household with two things to find among up to thirty receptacles, many of them closed. Tokens are
words and punctuation marks.

Prints tables and writes JSON. Finished environments are kept. It takes a few minutes on one core.

    python benchmarks/planning/notes.py [--episodes 50]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import View
from agentgym.envs.diary.pages import PEOPLE, RELATIONS, THINGS
from agentgym.envs.household.household import plural
from agentgym.envs.household.things import kind_of, kinds
from agentgym.envs.lmrl.wordle import load_vocabulary
from agentgym.evaluation.runner import evaluate
from agentgym.registration.making import make_env
from benchmarks.shared.result_files import RESULTS, measured, rounded, settings_of, versions, whole

Fact = tuple[int, str, str]
"""Number of the relation, owner, value."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    diary_budgets: tuple[int, ...] = (300, 500, 1000, 2000, 4000)
    """Maximum tokens of a prompt in Diary."""
    wordle_budgets: tuple[int, ...] = (240, 300, 330, 400)
    """Maximum tokens of a prompt in Wordle."""
    household_budgets: tuple[int, ...] = (400, 450, 500, 600, 800, 1600)
    """Maximum tokens of a prompt in Household. Its first observation may be longer."""
    episodes: int = 100
    """Episodes per reader and budget."""
    seed: int = 0
    """Random seed."""
    out: Path = RESULTS / "notes.json"
    """Results."""


@lru_cache(maxsize=100_000)
def tokens(text: str) -> int:
    """Returns the number of words and punctuation marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


class Reader:
    """An agent that acts on a prompt of bounded length.

    Args:
        kind: "window", "notes" or "edited notes".
        budget: maximum number of tokens of a prompt.
    """

    note_tokens = 0
    """Maximum number of tokens of a note."""
    slack = 0
    """Maximum number of tokens of an observation without notes."""

    def __init__(self, kind: str, budget: int):
        self.name, self.kind, self.budget = f"{kind} {budget}", kind, budget

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view, and counts the tokens."""
        return [self._count(view, self.prompt(view)) for view in views]

    def _count(self, view: View, prompt: str) -> str:
        action = self.reply(view, prompt)
        size = tokens(view.instructions) + tokens(prompt)
        view.costs["prompt_tokens"] += size
        view.costs["longest_prompt"] = max(view.costs["longest_prompt"], size)
        view.costs["action_tokens"] += tokens(action)
        return action

    def prompt(self, view: View) -> str:
        """Returns the observation, in a window after the last turns that fit."""
        left = self.budget - tokens(view.instructions) - tokens(view.observation)
        turns: list[str] = []
        for observation, action in reversed(view.history if self.kind == "window" else ()):
            turns.append(f"{observation}\n> {action}")
            left -= tokens(turns[-1])
            if left < 0:
                turns.pop()
                break
        return "\n".join([*reversed(turns), view.observation])

    def reply(self, view: View, prompt: str) -> str:
        """Returns the action for a prompt."""
        raise NotImplementedError

    def size(self, instructions: str) -> int:
        """Returns the number of notes that fit into a prompt, below 1 if there is no room."""
        return (self.budget - tokens(instructions) - self.slack) // self.note_tokens


def notes_of(observation: str) -> list[str]:
    """Returns the notes that an observation shows."""
    head = observation.partition("\n\n")[0] if observation.startswith("Notes:\n") else ""
    return [line.partition(". ")[2] for line in head.splitlines()[1:]]


OWNER = "|".join((*PEOPLE, *THINGS))


def entry_pattern(sentence: str) -> re.Pattern[str]:
    """Returns the pattern of a sentence with {who} and {value}."""
    pattern = re.escape(sentence)
    for name, values in (("who", OWNER), ("value", r"\w+")):
        pattern = pattern.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>{values})")
    return re.compile(pattern)


TOLD = [(i, entry_pattern(told)) for i, r in enumerate(RELATIONS) for told in r.told]
ASKED = [
    (i, form, entry_pattern(getattr(relation, form)))
    for i, relation in enumerate(RELATIONS)
    for form in ("now", "before", "last", "count")
]
NOTE = re.compile(rf"({OWNER}) (\w+): (\w+)(?:, before (\w+), change (\d+))?")


class DiaryReader(Reader):
    """Reads on, notes each fact, and answers from the facts of its prompt."""

    slack = 40

    @property
    def note_tokens(self) -> int:
        """A note of a fact with its number, and with the value before it if notes are edited."""
        return 13 if self.kind == "edited notes" else 7

    def reply(self, view: View, prompt: str) -> str:
        """Returns `next`, after notes, or the answer to a question."""
        now = view.observation.rpartition("\n\n")[2]
        if now.startswith("Day "):
            edits = [] if self.kind == "window" else self._edits(notes_of(view.observation), now)
            return "\n".join([*edits, "next"])
        options = [x for x in view.info["admissible"] if not re.match("remember|forget", x)]
        answer = self._answer(now, prompt)
        return answer if answer in options else options[int(view.rng.integers(len(options)))]

    def _edits(self, notes: list[str], entry: str) -> Iterator[str]:
        for relation, who, value in facts_of(entry):
            subject = f"{who} {RELATIONS[relation].name}: "
            old = [i for i, note in enumerate(notes) if note.startswith(subject)]
            text = f"{subject}{value}"
            if old and self.kind == "edited notes":
                found = NOTE.fullmatch(notes[old[0]])
                assert found is not None
                yield f"forget {old[0] + 1}"
                text += f", before {found[3]}, change {int(found[5] or 1) + 1}"
            yield f"remember: {text}"

    def _answer(self, question: str, prompt: str) -> str:
        """Returns the answer, "" if the prompt does not hold it."""
        facts, changes = [*facts_of(prompt)], dict[tuple[int, str], int]()
        names = [relation.name for relation in RELATIONS]
        for note in notes_of(prompt) if self.kind != "window" else ():
            found = NOTE.fullmatch(note)
            assert found is not None
            subject = names.index(found[2]), found[1]
            facts += [(*subject, value) for value in (found[4], found[3]) if value]
            changes[subject] = int(found[5] or 0)
        relation, form, asked = asked_in(question)
        if form == "last":
            same = [f[1] for f in facts if f[0] == relation and f[2] == asked["value"]]
            return same[-1] if same else ""
        values = [f[2] for f in facts if f[:2] == (relation, asked["who"])]
        if form == "count":
            return str(changes.get((relation, asked["who"])) or len(values)) if values else ""
        wanted = -1 if form == "now" else -2
        return values[wanted] if len(values) >= -wanted else ""


def asked_in(question: str) -> tuple[int, str, re.Match[str]]:
    """Returns the relation, the form and the names of a question."""
    for relation, form, pattern in ASKED:
        if found := pattern.search(question):
            return relation, form, found
    raise ValueError(f"Unknown form of question: {question!r}")


def facts_of(text: str) -> list[Fact]:
    """Returns the facts of diary entries, in order."""
    found = [(m.start(), i, m["who"], m["value"]) for i, p in TOLD for m in p.finditer(text)]
    return [(i, who, value) for _, i, who, value in sorted(found)]


class WordleReader(Reader):
    """Guesses a word that is consistent with all marks of its prompt, and notes the marks."""

    slack = 60
    note_tokens = 13
    marks = re.compile(r"^(?:\d+\. )?((?:\w ){4}\w): ((?:[gyb] ){4}[gyb])$", re.MULTILINE)

    def reply(self, view: View, prompt: str) -> str:
        """Returns a guess, after the notes of new marks."""
        vocabulary = load_vocabulary("common", letter_counts=True)  # as in Wordle-Fixed
        seen = dict.fromkeys((m[1], m[2]) for m in self.marks.finditer(prompt))
        history = tuple((w.replace(" ", ""), m.replace(" ", "")) for w, m in seen)
        left = vocabulary.consistent(history)
        guess = vocabulary.spelled[int(left[int(view.rng.integers(len(left)))])]
        if self.kind == "window":
            return guess
        known = notes_of(view.observation)
        new = [f"{word}: {marks}" for word, marks in seen if f"{word}: {marks}" not in known]
        return "\n".join([*(f"remember: {note}" for note in new), guess])


class HouseholdReader(Reader):
    """Finds two things and puts them in the same receptacle, the first one of the target kind.

    It searches a random admissible receptacle that the prompt does not show as searched. It notes
    the receptacles that it has searched and the places of the things that it needs.
    """

    slack, note_tokens = 80, 7
    chore = re.compile(r"Your chore: Put two (\w+) (?:in|on) the same (\w+)\.")
    contents = re.compile(r"You are at (\w+ \d+)\.(?: It is open\.)? (?:In|On) it: (.+)\.")

    def reply(self, view: View, prompt: str) -> str:
        """Returns a command, after notes of new facts."""
        now = view.observation.rpartition("\n\n")[2]
        chore = self.chore.search(now)
        assert chore is not None
        kind, goal = next(k for k in kinds() if plural(k) == chore[1]), f"{chore[2]} 1"
        command = self._command(view, now, self._facts(prompt, kind), kind, goal)
        if self.kind == "window":
            return command
        return "\n".join([*self._edits(notes_of(view.observation), now, kind), command])

    def _facts(self, text: str, kind: str) -> dict[str, str]:
        """Returns what a text shows: searched receptacles and places of things of a kind."""
        found = dict(note.split(": ") for note in notes_of(text)) if self.kind != "window" else {}
        for match in self.contents.finditer(text):
            found[match[1]] = "searched"
            found |= {x: match[1] for x in match[2].split(", ") if kind_of(x) == kind}
        return found

    def _edits(self, notes: list[str], now: str, kind: str) -> Iterator[str]:
        known = dict(note.split(": ") for note in notes)
        for subject, value in self._facts(now, kind).items():
            if known.get(subject) == value:
                continue
            old = [i for i, note in enumerate(notes, 1) if note.startswith(f"{subject}: ")]
            place = f" {old[0]}" if old and self.kind == "edited notes" else ""
            yield f"remember{place}: {subject}: {value}"

    def _command(self, view: View, now: str, facts: dict[str, str], kind: str, goal: str) -> str:
        at, held = re.search(r"at (\w+ \d+)", now), re.search(r"holding (\w+ \d+)", now)
        here, closed, command = at[1] if at else "", "It is closed." in now, ""
        needed = [
            (place != here, thing, place)
            for thing, place in facts.items()
            if kind_of(thing) == kind and place != goal
        ]
        if held:
            place, command = goal, f"put {held[1]} in/on {goal}"
        elif needed:
            _, thing, place = min(needed)
            command = f"take {thing} from {place}"
        else:
            places = [x[6:] for x in view.info["admissible"] if x.startswith("go to ")]
            unknown = [x for x in places if x not in facts] or places
            place = here if closed else unknown[int(view.rng.integers(len(unknown)))]
        if here != place:
            return f"go to {place}"
        return f"open {place}" if closed else command


@dataclass(frozen=True)
class Setting:
    """An environment of the benchmark.

    Attributes:
        env: the id.
        arguments: arguments of the environment.
        wrappers: its wrappers, inside `Memory`.
        reader: makes a reader of a kind with a budget.
        kinds: the kinds of readers.
        score: the number of the reports that measures a reader.
    """

    env: str
    arguments: dict[str, Any]
    wrappers: tuple[str, ...]
    reader: Callable[[str, int], Reader]
    kinds: tuple[str, ...]
    score: str


KINDS = ("window", "notes", "edited notes")
DIARY: dict[str, Any] = {"entries": 200, "questions": 20}
SETTINGS = {
    "Diary, questions at the end": Setting("Diary-v0", DIARY, (), DiaryReader, KINDS, "progress"),
    "Diary, questions 10 entries later": Setting(
        "Diary-v0", {**DIARY, "distance": 10}, (), DiaryReader, KINDS, "progress"
    ),
    "Wordle, 3 attempts of 2 guesses": Setting(
        "Wordle-Fixed-v0", {"max_turns": 2}, ("MultiTrial:n=3",), WordleReader, KINDS[:2], "success"
    ),
    "Household, two things to find": Setting(
        "Household-v0", {"family": "pick2"}, (), HouseholdReader, KINDS, "success"
    ),
}


def measure(setting: Setting, kind: str, budget: int, settings: Settings) -> dict[str, Any]:
    """Returns means with 95 % confidence intervals of a reader's episodes, and its tokens.

    The result is empty if a prompt has no room for a note.
    """
    reader = setting.reader(kind, budget)
    wrap = setting.wrappers
    if kind != "window":
        noted = make_env(setting.env, wrap=(*wrap, "Memory"), **setting.arguments)
        size = reader.size(noted.get_wrapper_attr("instructions"))
        if size < 1:
            return {}
        wrap = (*wrap, f"Memory:size={size}")
    report = evaluate(
        setting.env, reader, tasks=settings.episodes, seed=settings.seed,
        env_kwargs={**setting.arguments, "wrap": list(wrap)},
    )  # fmt: skip
    found: dict[str, Any] = {"n": len(whole(report).episodes)}
    for name in (setting.score, "turns"):
        found[name] = rounded(report.aggregate()[name])
    costs = [episode.costs for episode in report.episodes]
    found["longest_prompt"] = int(max(cost["longest_prompt"] for cost in costs))
    for name in ("prompt_tokens", "action_tokens"):
        found[name] = round(sum(cost[name] for cost in costs) / len(costs))
    return found


def table(title: str, found: dict[str, Any]) -> Table:
    """Returns the score with its interval and the tokens, one row per reader and budget."""
    shown = Table("reader", found["score"], "longest prompt", "read", "written", title=title)
    for kind, rows in found["readers"].items():
        for budget, row in rows.items():
            mean, low, high = (100 * x for x in row[found["score"]])
            shown.add_row(
                f"{kind} {budget}", f"{mean:.0f} [{low:.0f}, {high:.0f}]",
                f"{row['longest_prompt']:,}", f"{row['prompt_tokens']:,}",
                f"{row['action_tokens']:,}",
            )  # fmt: skip
    return shown


def run(setting: Setting, budgets: Sequence[int], settings: Settings) -> dict[str, Any]:
    """Returns the numbers of every reader with every budget that has room for it."""
    readers = {}
    for kind in setting.kinds:
        rows = {str(budget): measure(setting, kind, budget, settings) for budget in budgets}
        readers[kind] = {budget: row for budget, row in rows.items() if row}
    return {"score": setting.score, "budgets": list(budgets), "readers": readers}


def main(settings: Settings) -> None:
    """Measures every reader, prints tables and writes the results."""
    measures = {}
    for title, setting in SETTINGS.items():
        budgets = getattr(settings, setting.env.partition("-")[0].lower() + "_budgets")
        measures[title] = partial(run, setting, budgets, settings)
    about = {"config": settings_of(settings), "versions": versions("agentgym")}
    console = Console(width=100)
    for title, found in measured(settings.out, about, "environments", measures):
        console.print(table(title, found))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
