"""TwentyQuestions: identify a secret thing by asking yes-or-no questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from agentgym.core import TextEnv, UnreadableAction
from agentgym.envs.lmrl.objects import PLAIN, things
from agentgym.envs.lmrl.oracle import INVALID, NO, YES, Oracle, make_oracle, verdict
from agentgym.envs.lmrl.phrases import Lexicon, Question, words
from agentgym.envs.lmrl.questions import asked_so_far, bare_question, is_several
from agentgym.envs.lmrl.traits import FILLERS, rows
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

STARTERS = ("is", "does", "can", "do", "are", "could")
MOST_WORDS = 40
SHOWN = 120
"""Characters of an invalid question that the transcript keeps."""
IS = "="
"""Prefix of the meaning "is the thing of this number"."""
SIZES = {
    **{"breadbox": 4, "bread box": 4, "loaf of bread": 4, "shoebox": 4, "shoe box": 4},
    **{"coin": 1, "fist": 2, "pocket": 2, "hand": 3, "backpack": 4, "suitcase": 5},
    **{"person": 6, "human": 6, "human being": 6, "adult": 6, "man": 6, "child": 5},
    **{"room": 7, "building": 8, "house": 8, "football field": 8},
}
ROOM_FOR = {
    **{"pocket": 2, "hand": 2, "palm": 2, "purse": 2, "handbag": 3, "drawer": 3, "shoebox": 3},
    **{"shoe box": 3, "microwave": 3, "breadbox": 3, "box": 4, "bag": 4, "backpack": 4},
    **{"suitcase": 4, "car": 5, "trunk": 5, "room": 6, "garage": 7, "house": 7, "building": 8},
}
"""The largest size that fits into each thing."""
COMPARATIVES = "bigger|larger|taller|heavier|longer|wider|smaller|shorter|lighter|fit|fits"
COMPARED = re.compile(
    rf"\b({COMPARATIVES}) (?:than|in|into|inside)(?: of)? "
    rf"((?:(?!(?:{COMPARATIVES})\b)\w+ ?){{1,5}})"
)
SMALLER = ("smaller", "shorter", "lighter")
COMPARISON_FILLERS = frozenset(
    "a an the your my one average typical normal standard regular".split()
)
PREPOSITIONS = "with by on in to for like than at from into near under over inside".split()
SIZE_QUESTIONS = ("Is it bigger than a breadbox?", "Is it bigger than a car?")

ORACLE_SYSTEM = (
    "You are playing twenty questions. The secret thing is: {secret}. Answer each question about "
    "it with Yes or No."
)


@dataclass
class State:
    """The index of the thing, and the questions so far with their answers."""

    thing: int
    asked: list[tuple[str, str]] = field(default_factory=list)


@cache
def trait_questions() -> tuple[str, ...]:
    """Returns the questions about traits and size that the expert and the menu use."""
    return (*(question for _, question, _ in rows() if question), *SIZE_QUESTIONS)


@cache
def guesses() -> tuple[str, ...]:
    """Returns the question that guesses each thing."""
    found = []
    for thing in things():
        article = "an " if thing.name[0] in "aeiou" else "a "
        article = "" if thing.name.replace(" ", "_") in PLAIN else article
        found.append(f"Is it {article}{thing.name}?")
    return tuple(found)


@cache
def lexicon() -> Lexicon:
    """Returns the lexicon of traits, sizes and names of things."""
    phrases = {trait: listed for trait, _, listed in rows()}
    names = {f"{IS}{i}": thing.names for i, thing in enumerate(things())}
    return Lexicon(phrases, names, FILLERS, PREPOSITIONS, coded=r"size(over|under)\d\d?")


@cache
def named_sizes() -> dict[str, int]:
    """Returns the sizes of all things that a comparison may name."""
    return {name: thing.size for thing in things() for name in thing.names} | SIZES


def with_sizes(question: str) -> str:
    """Returns the question with "bigger than a car" replaced by the word "sizeover7"."""

    def coded(found: re.Match[str]) -> str:
        named = found[2].split()
        fits = found[1].startswith("fit")
        sizes = ROOM_FOR if fits else named_sizes()
        start = next((i for i, w in enumerate(named) if w not in COMPARISON_FILLERS), 0)
        for end in range(len(named), start, -1):
            if size := sizes.get(" ".join(named[start:end])):
                side = "under" if fits or found[1] in SMALLER else "over"
                return f"size{side}{size + fits} {' '.join(named[end:])} "
        return found[0]

    return COMPARED.sub(coded, " ".join(words(question)))


@lru_cache(maxsize=10_000)
def understand(question: str) -> Question:
    """Returns the parsed question."""
    return lexicon().parse(with_sizes(question))


@cache
def truth(meaning: str) -> np.ndarray:
    """Returns 1 for each thing of which a meaning is true and -1 for others, shape (things,)."""
    if meaning[0] == IS:
        found = [meaning == f"{IS}{i}" for i in range(len(things()))]
    elif coded := re.fullmatch(r"size(over|under)(\d+)", meaning):
        sign = 1 if coded[1] == "over" else -1
        found = [sign * thing.size > sign * int(coded[2]) for thing in things()]
    else:
        found = [meaning in thing.traits for thing in things()]
    return np.where(found, 1, -1).astype(np.int8)


def well_formed(question: str) -> bool:
    """Returns whether a text has the form of one question in LMRL-Gym: start, end and length."""
    parts = question.split(maxsplit=MOST_WORDS)
    if not parts or len(parts) > MOST_WORDS or parts[0].lower() not in STARTERS:
        return False
    if len(question) > 1000 or is_several(question):
        return False
    return not question.removesuffix("?").endswith(".")


def guessed(question: str) -> int | None:
    """Returns the index of the thing that a question guesses, or None if it guesses none."""
    groups = understand(question).groups
    if len(groups) != 1 or len(groups[0]) != 1 or groups[0][0].negated:
        return None
    meaning = groups[0][0].meaning
    return int(meaning[1:]) if meaning.startswith(IS) else None


@lru_cache(maxsize=10_000)
def answers(question: str) -> np.ndarray:
    """Returns the factual answer for each thing: 1 yes, -1 no, 0 unknown. Shape (things,)."""
    found = understand(question).answer(truth)
    return np.broadcast_to(np.int8(0) if found is None else found, len(things()))


@cache
def question_table() -> np.ndarray:
    """Returns the answers to all trait questions for all things, shape (questions, things)."""
    return np.stack([answers(question) for question in trait_questions()])


class TwentyQuestions(TextEnv):
    """Identify a secret thing with at most twenty yes-or-no questions.

    ## Description
    The Twenty Questions task of LMRL-Gym and ArCHer. The secret is one of 225 things in 17
    categories. The agent asks and the oracle answers. The original oracles are fine-tuned language
    models. The default oracle here is a table of facts (some 170 traits, and sizes). It parses a
    question by the phrases in it, including negations, "or" and comparisons of size. Other oracles
    can be used instead.

    ## Action Space
    Text: a question of at most 40 words that starts with Is, Does, Can, Do, Are or Could, for
    example `Does it have wheels?`. A guess asks for the thing itself: `Is it a bicycle?`.
    - Any other text is an invalid action with the answer "Invalid question."
    - A question that the oracle does not understand is also invalid. Its answer is
      `unknown_answer`.
    - Invalid actions use up a question.

    ## Observation Space
    Text: the number of questions left, then all questions with their answers, one per line.

    ## Rewards
    Term `task`: 0 for the question that guesses the thing, -1 for any other. An invalid action also
    costs 1 (`invalid_penalty`).

    ## Starting State
    No questions asked. The task is the secret thing. Every fifth thing is a test task.

    ## Episode End
    - Termination: the thing is guessed, or `max_questions` questions are used up.
    - Truncation: after `max_turns`.

    ## Information
    The common keys.
    - `progress`: 1 - log(n + 1) / log(N + 1) for n candidate things out of N, and 1 when the thing
      is guessed.
    - `admissible`: empty, because any question is allowed, unless `question_menu` is set.

    ## Arguments
    - `max_questions` (int, default 20): number of questions.
    - `objects` (int or None, default None): use only this many things (at least 10), which the
      instructions then list. None uses all things, without a list.
    - `question_menu` (bool, default False): list questions about traits and the guess of each thing
      as admissible actions, for policies that choose from a list. Other questions stay valid.
    - `unknown_answer` (str, default "No."): answer to a question that is not understood. The
      default imitates a language model. "I do not know." is more honest.
    - `oracle` (str or function, default "rules"): "rules", "chat:MODEL@URL" for a language model
      behind an OpenAI-compatible server, or a function (thing, question) -> text. The first
      "yes" or "no" in the text counts, otherwise "not" means no, and any other text marks an
      invalid question.
    - `max_turns` (int or None, default None): turns before truncation.
    - `invalid_penalty` (float, default 1): cost of an invalid action.

    ## Notes
    The expert asks the question that splits the candidates most evenly, using the oracle's own
    facts.

    ## References
    LMRL-Gym (arXiv 2311.18232) and ArCHer (arXiv 2402.19446), sections on Twenty Questions.
    Rewards, limits, the form of questions and endings are the same. A guess must name nothing but
    the thing, whereas the original ignores words that are not nouns. Things, facts and parser are
    our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "I am thinking of a thing: an everyday object, an animal, a plant, food, a vehicle, or "
        "something in nature. Find out which thing it is with at most {most} yes-or-no questions.\n"
        "Each turn, ask exactly one short question:\n"
        "- Start it with Is, Does, Can, Do, Are or Could, for example: Does it have wheels?\n"
        "- To guess the thing, ask for it alone, for example: Is it a bicycle?\n"
        "A question of another form is used up without an answer.\n"
        "Each question except the right guess scores -1. The game ends when your guess is right or "
        "you have no questions left."
    )
    State = State
    turn_bound = "max_questions"

    def __init__(
        self,
        *,
        max_questions: int = 20,
        objects: int | None = None,
        question_menu: bool = False,
        unknown_answer: str = NO,
        oracle: str | Oracle = "rules",
        max_turns: int | None = None,
        invalid_penalty: float = 1.0,
        **kwargs,
    ):
        total = len(things())
        if objects is not None and not 10 <= objects <= total:
            raise ValueError(f"objects must be None or 10 to {total}, got {objects}.")
        if max_questions < 1:
            raise ValueError(f"max_questions must be at least 1, got {max_questions}.")
        super().__init__(max_turns=max_turns, invalid_penalty=invalid_penalty, **kwargs)
        self.max_questions = max_questions
        self.unknown_answer = unknown_answer
        self.oracle = make_oracle(oracle, ORACLE_SYSTEM)
        self.meant = np.arange(total)
        self.instructions = self.instructions.replace("{most}", str(max_questions))
        if objects is not None:
            self.meant = np.arange(objects) * total // objects
            listed = ", ".join(things()[i].name for i in self.meant)
            self.instructions += f"\nThe thing is one of: {listed}."
        self.menu: tuple[str, ...] = ()
        if question_menu:
            self.menu = (*trait_questions(), *(guesses()[i] for i in self.meant))
        names = [things()[i].name for i in self.meant]
        self.tasks = Tasks([name for i, name in enumerate(names) if i % 5], names[::5])

    def _start(self, task: str) -> TimeStep:
        self.state = State(next(i for i, thing in enumerate(things()) if thing.name == task))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        question = bare_question(action)
        if not well_formed(question):
            return self._record(question, INVALID, valid=False)
        question = " ".join(question.split())
        question = question[0].upper() + question[1:].removesuffix("?") + "?"
        thing = self.state.thing
        if self.oracle is not None:
            reply = verdict(self.oracle(things()[thing].name, question))
            return self._record(question, reply, valid=reply != INVALID)
        answer = int(answers(question)[thing])
        if answer == 0:
            return self._record(question, self.unknown_answer, valid=False)
        return self._record(question, YES if answer > 0 else NO, valid=True)

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._record(str(action).strip(), INVALID, valid=False)

    def _record(self, question: str, answer: str, valid: bool) -> TimeStep:
        """Records a question with its answer and returns the next observation."""
        shown = " ".join(question[: SHOWN * 2].split())
        shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."
        self.state.asked.append((question if valid else shown, answer))
        won = valid and answer == YES and guessed(question) == self.state.thing
        return self._look(valid=valid, won=won)

    def _look(self, valid: bool = True, won: bool = False) -> TimeStep:
        left = len(self._candidates()), len(self.meant)
        return asked_so_far(
            self.state.asked, self.max_questions, self.menu, left, valid=valid, won=won
        )

    def _candidates(self) -> np.ndarray:
        """Returns the indices of the possible things that are consistent with the answers."""
        left = self.meant
        for question, answer in self.state.asked:
            if answer in (YES, NO):
                ruled_out = -1 if answer == YES else 1
                left = left[answers(question)[left] != ruled_out]
        return left if len(left) else self.meant

    def privileged_text(self) -> str:
        """Returns the secret thing and the number of things that fit the answers."""
        return f"Possible things: {len(self._candidates())}. Secret: {self.task}."

    def expert(self) -> str | None:
        """Returns the question that splits the candidates most evenly, or a guess if few remain."""
        left = self._candidates()
        asked = {question for question, _ in self.state.asked}
        if len(left) > 2 and len(self.state.asked) < self.max_questions - 1:
            yes = (question_table()[:, left] == 1).sum(axis=1)
            balance = np.abs(yes - len(left) / 2)
            best = int(np.argmin(balance))
            if 0 < yes[best] < len(left) and trait_questions()[best] not in asked:
                return trait_questions()[best]
        untried = [guesses()[i] for i in left if guesses()[i] not in asked]
        return untried[0] if untried else guesses()[self.meant[0]]
