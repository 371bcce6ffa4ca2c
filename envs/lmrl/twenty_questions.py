"""TwentyQuestions: find out which thing is meant by asking yes-or-no questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from agentgym.core import TextEnv, TimeStep, UnreadableAction
from agentgym.envs.lmrl.objects import PLAIN, things
from agentgym.envs.lmrl.oracle import INVALID, NO, YES, Oracle, make_oracle, verdict
from agentgym.envs.lmrl.phrases import Lexicon, Question, words
from agentgym.envs.lmrl.traits import FILLERS, rows
from agentgym.tasks import Tasks

STARTERS = ("is", "does", "can", "do", "are", "could")
MOST_WORDS = 40
SHOWN = 120
"""Characters of a question that the transcript keeps."""
IS = "="
"""What starts the meaning "is the thing of this number"."""
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
"""The largest size that fits into something."""
COMPARED = re.compile(
    r"\b(bigger|larger|taller|heavier|longer|wider|smaller|shorter|lighter|fit|fits) "
    r"(?:than|in|into|inside)(?: of)? ((?:\w+ ?){1,5})"
)
SMALLER = ("smaller", "shorter", "lighter")
COMPARISON_FILLERS = frozenset(
    "a an the your my one average typical normal standard regular".split()
)
PREPOSITIONS = "with by on in to for like than at from into near under over inside".split()
SIZE_QUESTIONS = ("Is it bigger than a breadbox?", "Is it bigger than a car?")

ORACLE_SYSTEM = (
    "You play twenty questions. The secret thing is: {secret}. Answer the question about it with "
    "Yes or No."
)


@dataclass
class State:
    """The number of the thing, and the questions so far with their answers."""

    thing: int
    asked: list[tuple[str, str]] = field(default_factory=list)


@cache
def trait_questions() -> tuple[str, ...]:
    """Returns the questions that the expert and the menu ask about traits and size."""
    return (*(question for _, question, _ in rows() if question), *SIZE_QUESTIONS)


@cache
def guesses() -> tuple[str, ...]:
    """Returns for every thing the question that guesses it."""
    found = []
    for thing in things():
        article = "an " if thing.name[0] in "aeiou" else "a "
        article = "" if thing.name.replace(" ", "_") in PLAIN else article
        found.append(f"Is it {article}{thing.name}?")
    return tuple(found)


@cache
def lexicon() -> Lexicon:
    """Returns the phrases for traits and sizes and the names of things."""
    phrases = {trait: listed for trait, _, listed in rows()}
    names = {f"{IS}{i}": thing.names for i, thing in enumerate(things())}
    return Lexicon(phrases, names, FILLERS, PREPOSITIONS, coded=r"size(over|under)\d\d?")


@cache
def named_sizes() -> dict[str, int]:
    """Returns the sizes of all that something may be compared with."""
    return {name: thing.size for thing in things() for name in thing.names} | SIZES


def with_sizes(question: str) -> str:
    """Returns the question with "bigger than a car" as the one word "sizeover7"."""

    def coded(found: re.Match[str]) -> str:
        said = found[2].split()
        fits = found[1].startswith("fit")
        sizes = ROOM_FOR if fits else named_sizes()
        start = next((i for i, w in enumerate(said) if w not in COMPARISON_FILLERS), 0)
        for end in range(len(said), start, -1):
            if size := sizes.get(" ".join(said[start:end])):
                side = "under" if fits or found[1] in SMALLER else "over"
                return f"size{side}{size + fits} {' '.join(said[end:])} "
        return found[0]

    return COMPARED.sub(coded, " ".join(words(question)))


@lru_cache(maxsize=10_000)
def understand(question: str) -> Question:
    """Returns what a question asks."""
    return lexicon().parse(with_sizes(question))


@cache
def truth(meaning: str) -> np.ndarray:
    """Returns whether a meaning is true of each thing: 1 true, -1 false; shape (things,)."""
    if meaning[0] == IS:
        found = [meaning == f"{IS}{i}" for i in range(len(things()))]
    elif coded := re.fullmatch(r"size(over|under)(\d+)", meaning):
        sign = 1 if coded[1] == "over" else -1
        found = [sign * thing.size > sign * int(coded[2]) for thing in things()]
    else:
        found = [meaning in thing.traits for thing in things()]
    return np.where(found, 1, -1).astype(np.int8)


def well_formed(question: str) -> bool:
    """Returns whether the original takes a text for a question: how it starts and ends, length."""
    said = question.split(maxsplit=MOST_WORDS)
    if not said or len(said) > MOST_WORDS or said[0].lower() not in STARTERS:
        return False
    return len(question) <= 1000 and not question.removesuffix("?").endswith(".")


def guessed(question: str) -> int | None:
    """Returns the number of the thing that a question guesses, or None: "Is it a pair of skis?"."""
    groups = understand(question).groups
    if len(groups) != 1 or len(groups[0]) != 1 or groups[0][0].negated:
        return None
    meaning = groups[0][0].meaning
    return int(meaning[1:]) if meaning.startswith(IS) else None


@lru_cache(maxsize=10_000)
def answers(question: str) -> np.ndarray:
    """Returns the answer by the facts for every thing: 1 yes, -1 no, 0 open; shape (things,)."""
    found = understand(question).answer(truth)
    return np.broadcast_to(np.int8(0) if found is None else found, len(things()))


@cache
def question_table() -> np.ndarray:
    """Returns the answers of all things to all trait questions, shape (questions, things)."""
    return np.stack([answers(question) for question in trait_questions()])


class TwentyQuestions(TextEnv):
    """Find out which thing is meant by asking twenty yes-or-no questions.

    ## Description
    The game of LMRL-Gym and ArCHer. One of 225 things in 17 categories is meant; the agent asks,
    the oracle answers. The originals' oracles are fine-tuned language models; here a table of
    facts answers (some 170 traits, and sizes), which takes a question apart by the phrases in it,
    with negations, "or", comparisons of size. Another oracle can be put in its place.

    ## Action Space
    Text: a question that starts with Is, Does, Can, Do, Are or Could, of at most 40 words, such as
    `Does it have wheels?`. A thing is guessed by asking for it: `Is it a bicycle?`. Anything else
    is an invalid action, and so is a question that the oracle does not understand; both are used
    up, the first answered "Invalid question.", the second `unknown_answer`.

    ## Observation Space
    Text: how many questions are left, then all questions with their answers, one a line.

    ## Rewards
    Term `task`: 0 for the question that guesses the thing, -1 for any other. An invalid action
    costs 1, too (`invalid_penalty`).

    ## Starting State
    Nothing asked. The task names the thing; one in five is a test task.

    ## Episode End
    Termination: the thing is guessed, or `max_questions` are asked. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` is 1 - log(n + 1) / log(N + 1) for n things left of N, 1 when
    guessed. `admissible` is empty, as the set of questions is open, unless `question_menu`.

    ## Arguments
    `max_questions`: default 20. `objects`: play with so many things only, which the instructions
    then list (10 or more; default: all, not listed). `question_menu`: list the questions for
    traits and for each thing as admissible actions, for policies that choose among them; others
    are still understood. `unknown_answer`: said to a question not understood, "No." by default as
    a model would; "I do not know." is the more honest. `oracle`: "rules", "chat:MODEL@URL" for a
    language model behind an OpenAI-compatible server, or a function (thing, question) -> text; a
    text with "yes" in it means yes, else with "no" no, else an invalid question. `max_turns`:
    default None.

    ## Example Transcript
    ```
    Questions left: 20.
    > Is it an animal?
    Questions left: 19.
    Is it an animal? No.
    > Is it a bicycle?
    Questions left: 18.
    Is it an animal? No.
    Is it a bicycle? Yes.
    ```

    ## Baselines
    Mean return and success on the test split, n = 200 episodes each. `TwentyQuestions-v0`: random
    words -20.0, 0 %; expert (halves the things left) -7.6, 100 %. `TwentyQuestions-Menu-v0`:
    random choices -19.3, 6 %; expert -7.6, 100 %. The expert needs 7 to 10 questions for any of
    the things.

    ## Registered Configurations
    `TwentyQuestions-v0`: free questions. `TwentyQuestions-Menu-v0`: with the menu.

    ## References
    LMRL-Gym (arXiv 2311.18232) and ArCHer (arXiv 2402.19446), sections on Twenty Questions.
    Rewards, the limit, the form of questions and endings are the same; a guess must ask for
    nothing but the thing (the original lets other parts of speech than nouns stand beside it).
    Things, facts and parser are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "I am thinking of a thing: an everyday object, an animal, a plant, food, a vehicle, or "
        "something in nature. Find out what it is with at most {most} yes-or-no questions. Each "
        "turn ask one short question that starts with Is, Does, Can, Do, Are or Could. To guess "
        "the thing, ask for it alone, for example: Is it a bicycle? The game is won when the "
        "guess is right; win it with as few questions as possible."
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
            self.instructions += f" It is one of: {listed}."
        self.menu: tuple[str, ...] = ()
        if question_menu:
            self.menu = (*trait_questions(), *(guesses()[i] for i in self.meant))
        names = [things()[i].name for i in self.meant]
        self.tasks = Tasks([name for i, name in enumerate(names) if i % 5], names[::5])

    def _start(self, task: str) -> TimeStep:
        self.state = State(next(i for i, thing in enumerate(things()) if thing.name == task))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        question = action.strip()
        if not well_formed(question):
            return self._record(question, INVALID, valid=False)
        question = " ".join(question.split())
        question = question[0].upper() + question[1:].removesuffix("?") + "?"
        thing = self.state.thing
        if self.oracle is not None:
            said = verdict(self.oracle(things()[thing].name, question))
            return self._record(question, said, valid=said != INVALID)
        answer = int(answers(question)[thing])
        if answer == 0:
            return self._record(question, self.unknown_answer, valid=False)
        return self._record(question, YES if answer > 0 else NO, valid=True)

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._record(str(action).strip(), INVALID, valid=False)

    def _record(self, question: str, answer: str, valid: bool) -> TimeStep:
        """Notes a question with its answer and returns what follows."""
        shown = " ".join(question[: SHOWN * 2].split())
        shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."
        self.state.asked.append((question if valid else shown, answer))
        won = valid and answer == YES and guessed(question) == self.state.thing
        return self._look(valid=valid, won=won)

    def _look(self, valid: bool = True, won: bool = False) -> TimeStep:
        asked = self.state.asked
        over = won or len(asked) >= self.max_questions
        left = len(self._candidates())
        lines = [f"{question} {answer}" for question, answer in asked]
        return TimeStep(
            text="\n".join([f"Questions left: {self.max_questions - len(asked)}.", *lines]),
            rewards={"task": -1.0} if asked and valid and not won else {},
            terminated=over,
            valid=valid,
            success=won,
            progress=1.0 if won else 1 - float(np.log1p(left) / np.log1p(len(self.meant))),
            admissible=() if over else self.menu,
        )

    def _candidates(self) -> np.ndarray:
        """Returns the things that the answers allow, by the facts; those that might be meant."""
        left = self.meant
        for question, answer in self.state.asked:
            if answer in (YES, NO):
                ruled_out = -1 if answer == YES else 1
                left = left[answers(question)[left] != ruled_out]
        return left if len(left) else self.meant

    def expert(self) -> str | None:
        """Returns the question that halves the things left, or a guess when two are left."""
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
