"""Diary: remember the facts of a long diary, and answer questions about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.envs.diary.pages import RELATIONS, Pages, Question, enough_questions, pages_of
from agentgym.errors import ConfigError
from agentgym.reading import NotUnderstood, asserted, final_answer, find_numbers
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import command, plain

LONGEST_NOTE = 100
"""Maximum number of characters of a note."""
_NOTE = re.compile(r"note[ \t]+([^:\n]{1,40}):[ \t]*([^\n]{1,100})", re.IGNORECASE)


@dataclass
class State:
    """The position in the diary, and the notes.

    Attributes:
        read: number of entries that the agent has read.
        asked: number of questions that were answered.
        right: number of right answers.
        notes: subject -> note, the oldest first.
    """

    read: int = 0
    asked: int = 0
    right: int = 0
    notes: dict[str, str] = field(default_factory=dict)


class Diary(TextEnv):
    """Read a diary of many days, one entry per turn, and answer questions about it.

    ## Description
    Each entry holds at most one fact (a person moved, changed job, pet or hobby, or a thing was put
    somewhere), among sentences that change nothing. Facts replace earlier ones. Questions ask for
    the current value, the one before it, the last person or thing with a value, or the number of
    changes. An entry is shown only once: the agent needs a long context, a memory, or notes. With
    `distance`, each question comes exactly that many entries after the entry that answers it.

    ## Action Space
    Text, one of:

    - `next`: read on.
    - `note Ada home: Rome` (with `notebook`): writes a note under a subject and reads on. It
      replaces the note with the same subject.
    - after a question, the answer, such as `Rome`. A sentence that names exactly one possible
      answer counts, too.

    ## Observation Space
    Text: the current entry or question, with its day, and the notes if there is a notebook.

    ## Rewards
    1 / `questions` (term `task`) for each right answer. An invalid action costs `invalid_penalty`.

    ## Starting State
    People, facts, entries and questions are sampled from the task name.

    ## Episode End
    Termination: the last answer. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of right answers among all questions, and `success`
    is 1 if all are right. `admissible` lists the possible answers of a question, and `next`, but is
    empty where notes can be written.

    ## Arguments
    - `entries` (int, default 100): number of entries, 10 to 2,000.
    - `questions` (int, default 10): number of questions, at most a fifth of the entries. Long
      diaries have about 200 different questions, fewer with a distance, since facts change.
    - `distance` (int or None, default None): entries from the fact to its question, with the entry
      itself, at most half of the entries. None: all questions come at the end.
    - `notebook` (int, default 0): maximum number of notes. If it is full, the oldest is lost. 0: no
      notebook. The wrapper `Memory` adds numbered notes to any environment.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 20 more than the
      episode needs.

    ## References
    Questions about long conversations: LongMemEval (arXiv 2410.10813). Facts among distracting
    text: bAbI (arXiv 1502.05698) and BABILong (arXiv 2406.10149). Bounded notes: MemAgent (arXiv
    2507.02259). All texts are generated.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        entries: int = 100,
        questions: int = 10,
        distance: int | None = None,
        notebook: int = 0,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 10 <= entries <= 2000:
            raise ConfigError(f"entries must be 10 to 2,000, got {entries}.")
        if not 1 <= questions <= entries // 5:
            raise ConfigError(
                f"questions must be 1 to a fifth of the {entries} entries, got {questions}."
            )
        if distance is not None and not 1 <= distance <= entries // 2:
            raise ConfigError(
                f"distance must be None or 1 to half of the {entries} entries, got {distance}."
            )
        if not enough_questions(entries, questions, distance):
            raise ConfigError(
                f"questions must be fewer than the different ones about a diary, got {questions} "
                f"for {entries} entries with distance={distance}. Give fewer questions or a "
                "smaller distance."
            )
        if notebook < 0:
            raise ConfigError(f"notebook must be at least 0, got {notebook}.")
        limit = entries + questions + 20 if max_turns == "auto" else max_turns
        super().__init__(max_turns=limit, **kwargs)
        self.entries, self.questions, self.distance = entries, questions, distance
        self.notebook = notebook
        self.tasks = Tasks.generated()
        self.instructions = _INSTRUCTIONS.format(
            entries=entries, questions=questions, note=_TAKE_NOTES if notebook else ""
        )

    @property
    def pages(self) -> Pages:
        """The diary of the task, which snapshots do not contain."""
        return pages_of(self.task, self.entries, self.questions, self.distance)

    def question(self) -> Question | None:
        """Returns the question that must be answered now, if any."""
        asked, questions = self.state.asked, self.pages.questions
        due = asked < len(questions) and questions[asked].after == self.state.read
        return questions[asked] if due else None

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        question = self.question()
        if question is not None:
            return self._answer(question, action)
        line = command(action) if action != "next" else action
        if self.notebook and (found := _NOTE.fullmatch(line)):
            self._note(found[1].strip(), found[2].strip())
        elif line != "next" and plain(line) != "next":
            note = f", or note SUBJECT: TEXT of at most {LONGEST_NOTE} characters"
            return self._invalid(f"Reply with next{note * bool(self.notebook)}.")
        self.state.read += 1
        return self._look()

    def _note(self, subject: str, text: str) -> None:
        notes = self.state.notes
        notes.pop(subject, None)
        notes[subject] = text
        while len(notes) > self.notebook:
            del notes[next(iter(notes))]

    def _answer(self, question: Question, action: str) -> TimeStep:
        named = _named(action, question.options)
        if len(named) != 1:
            return self._invalid("Reply with the answer to the question, in one word.")
        right = named[0] == question.answer
        self.state.asked += 1
        self.state.right += right
        return self._look("Right." if right else "Wrong.", right)

    def _look(self, feedback: str = "", right: bool = False) -> TimeStep:
        state, question = self.state, self.question()
        done = state.asked == self.questions
        if done:
            text = f"That was the last question. Right answers: {state.right} of {self.questions}."
        elif question is not None:
            text = f"Question {state.asked + 1} of {self.questions}: {question.text}"
        else:
            text = f"Day {state.read + 1} of {self.entries}: {self.pages.entries[state.read]}"
        if state.notes and not done:
            notes = "\n".join(f"{subject}: {note}" for subject, note in state.notes.items())
            text = f"Notes:\n{notes}\n\n{text}"
        options = question.options if question else () if self.notebook else ("next",)
        return TimeStep(
            text=text,
            rewards={"task": right / self.questions},
            terminated=done,
            success=state.right == self.questions,
            progress=state.right / self.questions,
            admissible=() if done else options,
            feedback=feedback,
        )

    def _restored(self) -> None:
        state = self.state
        if not (0 <= state.read <= self.entries and 0 <= state.right <= state.asked):
            raise ValueError("the position is not possible")

    def expert(self) -> str | None:
        """Answers every question right, and notes every fact if there is a notebook."""
        state, diary = self.state, self.pages
        if (question := self.question()) is not None:
            return question.answer
        fact = diary.facts[state.read] if self.notebook else None
        if fact is None:
            return "next"
        changes = diary.history(fact.key, state.read)
        before = diary.facts[changes[-1]] if changes else None
        earlier = f", before {before.value}, change {len(changes) + 1}" if before else ""
        return f"note {fact.who} {RELATIONS[fact.relation].name}: {fact.value}{earlier}"


_TIMES = {"once": "1", "twice": "2", "thrice": "3"}


def _named(action: str, options: Sequence[str]) -> list[str]:
    """Returns the options that an answer claims: "not Rome", "Rome?" and "if Rome" claim none."""
    try:
        text = final_answer(action)
    except NotUnderstood:
        return []
    claimed = " ".join(asserted(text))
    words = set(re.findall(r"\w+", claimed.casefold()))
    if all(option.isdecimal() for option in options):  # "five times"
        words |= {str(number.value) for number in find_numbers(claimed)}
        words.add(text.casefold())  # "once" alone is no condition
        words |= {number for word, number in _TIMES.items() if word in words}
    return [option for option in options if words >= {*option.casefold().split()}]


_TAKE_NOTES = (
    "- note SUBJECT: TEXT (write a note and read on), such as note Ada home: Rome. The notes are "
    "shown every turn. A new note with the same subject replaces the old one.\n"
)
_INSTRUCTIONS = (
    "You read a diary of {entries} days. Each day is shown once. Remember the facts: {questions} "
    "questions about them come later.\n"
    "Each turn, reply with one action:\n"
    "- next (read on)\n"
    "{note}"
    "- after a question, the answer in one word, such as Rome or 3\n"
    "Rules:\n"
    "- New facts replace old ones: people move, and change their job, pet or hobby, and things are "
    "put elsewhere.\n"
    "- Talk about a town, a job, a pet, a hobby or a place changes nothing.\n"
    "- A first home, job, pet, hobby or place that the diary tells of counts as a change.\n"
    "Each right answer earns an equal share of the reward of 1."
)
