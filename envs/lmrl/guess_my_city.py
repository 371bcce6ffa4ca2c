"""GuessMyCity: identify a secret city by asking questions."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.core import TextEnv, UnreadableAction
from agentgym.envs.lmrl.cities import cities
from agentgym.envs.lmrl.city_answers import (
    IS,
    MASKED,
    best_question,
    closed_questions,
    is_open,
    leaks,
    lexicon,
    named,
    replies,
    title,
)
from agentgym.envs.lmrl.oracle import INVALID, NO, YES, Oracle, make_oracle, verdict
from agentgym.envs.lmrl.phrases import words
from agentgym.envs.lmrl.questions import asked_so_far, bare_question, is_several
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

MOST_WORDS = 40
SHOWN = 160
ONE_QUESTION = "Ask only one question at a time."
ONE_AT_A_TIME = "Name only one city per question."
CLOSED = "- a yes-or-no question, for example: Is your city on the coast?\n"
OPEN = "- a question with a short sentence as its answer, for example: Which country is it in?\n"
"""The instructions' lines on the kinds of questions."""
ORACLE_SYSTEM = (
    "Your home town is {secret}. Answer each question about it truthfully in one short sentence. "
    "Begin with Yes or No if the question allows it. Never mention the name of the town."
)


@dataclass
class State:
    """The index of the city, and the questions so far with their answers.

    `understood` holds for each question whether it was answered.
    """

    city: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    understood: list[bool] = field(default_factory=list)


class GuessMyCity(TextEnv):
    """Identify a secret city with at most twenty questions.

    ## Description
    The Guess My City task of LMRL-Gym and ArCHer. The secret is one of 143 cities, the home of the
    person who answers. The agent asks questions and guesses. The original oracles are fine-tuned
    language models. The default oracle here is a table of facts: country, regions, languages,
    position, size, climate, some 250 traits, and 1,300 names of sights, waters and provinces. It
    answers both yes-or-no and open questions.

    ## Action Space
    Text: a question of at most 40 words.
    - Yes-or-no: `Is your city on the coast?`, `Do more than five million people live there?`
    - Open, about continent, country, part of the country, language, people, climate, currency,
      waters or attractions: `Which country is your city in?`
    - A guess: `Is your city Rome?`. Any question that names the city wins.

    Empty texts, longer texts, questions that name two cities and questions that are not understood
    are invalid actions and use up a question.

    ## Observation Space
    Text: the number of questions left, then all questions with their answers, one per line.

    ## Rewards
    Term `task`: 0 for the question that names the city, -1 for any other. An invalid action also
    costs 1 (`invalid_penalty`).

    ## Starting State
    No questions asked. The task is the city. Every fifth city is a test task.

    ## Episode End
    - Termination: the city is named, or `max_questions` questions are used up.
    - Truncation: after `max_turns`.

    ## Information
    The common keys.
    - `progress`: 1 - log(n + 1) / log(N + 1) for n candidate cities out of N, and 1 when the city
      is named.
    - `admissible`: empty, because any question is allowed, unless `question_menu` is set.

    ## Arguments
    - `max_questions` (int, default 20): number of questions.
    - `open_questions` (bool, default True, as in ArCHer): answer open questions. LMRL-Gym allows
      only yes-or-no questions.
    - `question_menu` (bool, default False): list yes-or-no questions and the guess of each city as
      admissible actions. Other questions stay valid.
    - `unknown_answer` (str, default "No."): answer to a question that is not understood.
    - `oracle` (str or function, default "rules"): "rules", "chat:MODEL@URL" or a function (city,
      question) -> text. An answer that names the city is withheld.
    - `max_turns` (int or None, default None): turns before truncation.
    - `invalid_penalty` (float, default 1): cost of an invalid action.

    ## Notes
    The parser understands nearly all questions of the 950 published conversations. Most of its
    answers agree with those of the language model there, which often contradicts itself.

    ## References
    ArCHer (arXiv 2402.19446) and LMRL-Gym (arXiv 2311.18232), sections on Guess My City. Rewards,
    limits, the withheld answers and endings are the same. In the original, any question that
    contains the letters of the name wins ("climate" wins Lima), and so does a list of all cities.
    Here the name must be a word of its own, and the only city in the question. Cities, facts and
    parser are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "I come from a large city somewhere in the world. Find out which city it is with at most "
        "{most} questions.\n"
        "Each turn, ask exactly one short question:\n"
        "{kinds}"
        "- a guess of the city, for example: Is your city Rome?\n"
        "Name only one city per question. A question that is not understood is used up.\n"
        "Each question that does not name the right city scores -1. The game ends when you name "
        "the right city or have no questions left."
    )
    State = State
    turn_bound = "max_questions"

    def __init__(
        self,
        *,
        max_questions: int = 20,
        open_questions: bool = True,
        question_menu: bool = False,
        unknown_answer: str = NO,
        oracle: str | Oracle = "rules",
        max_turns: int | None = None,
        invalid_penalty: float = 1.0,
        **kwargs,
    ):
        if max_questions < 1:
            raise ValueError(f"max_questions must be at least 1, got {max_questions}.")
        super().__init__(max_turns=max_turns, invalid_penalty=invalid_penalty, **kwargs)
        self.max_questions = max_questions
        self.open_questions = open_questions
        self.unknown_answer = unknown_answer
        self.oracle = make_oracle(oracle, ORACLE_SYSTEM)
        kinds = CLOSED + OPEN * open_questions
        self.instructions = self.instructions.replace("{most}", str(max_questions))
        self.instructions = self.instructions.replace("{kinds}", kinds)
        self.menu: tuple[str, ...] = ()
        if question_menu:
            self.menu = (*closed_questions(), *map(named, cities()))
        names = [city.name for city in cities()]
        self.tasks = Tasks([name for i, name in enumerate(names) if i % 5], names[::5])

    def _start(self, task: str) -> TimeStep:
        self.state = State(next(i for i, city in enumerate(cities()) if city.name == task))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        action = bare_question(action)
        parts = action[: 20 * MOST_WORDS].split(maxsplit=MOST_WORDS)
        if not words(action) or len(parts) > MOST_WORDS or len(action) > 20 * MOST_WORDS:
            return self._record(action, INVALID)
        question = " ".join(parts)
        question = question[0].upper() + question[1:].rstrip("?.! ") + "?"
        if is_several(question):
            return self._record(question, ONE_QUESTION)
        mentioned = lexicon().mentions(question)
        if len(mentioned) > 1:
            return self._record(question, ONE_AT_A_TIME)
        if mentioned == {f"{IS}{self.state.city}"}:
            return self._record(question, YES, valid=True, won=True)
        if is_open(question) and not self.open_questions:
            return self._record(question, INVALID)
        answer = self._answer(question)
        return self._record(question, answer or self.unknown_answer, valid=bool(answer))

    def _answer(self, question: str) -> str:
        """Returns the oracle's answer, or "" if it does not understand the question."""
        city = cities()[self.state.city]
        if self.oracle is None:
            return replies(question)[self.state.city]
        text = " ".join(self.oracle(title(city.name), question)[: 2 * SHOWN].split())
        if not self.open_questions:
            text = verdict(text)
        return MASKED if leaks(city, text) else "" if text == INVALID else text

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._record(str(action), INVALID)

    def _record(
        self, question: str, answer: str, valid: bool = False, won: bool = False
    ) -> TimeStep:
        """Records a question with its answer and returns the next observation."""
        shown = " ".join(question[: 20 * MOST_WORDS].split())
        if not valid and len(shown) > SHOWN:
            shown = shown[:SHOWN] + "..."
        self.state.asked.append((shown, answer))
        self.state.understood.append(valid)
        return self._look(valid=valid, won=won)

    def _look(self, valid: bool = True, won: bool = False) -> TimeStep:
        left = len(self._candidates()), len(cities())
        return asked_so_far(
            self.state.asked, self.max_questions, self.menu, left, valid=valid, won=won
        )

    def _candidates(self) -> tuple[int, ...]:
        """Returns the indices of the cities that are consistent with the answers."""
        left = tuple(range(len(cities())))
        state = self.state
        for (question, answer), understood in zip(state.asked, state.understood, strict=True):
            possible = replies(question)
            if understood and answer in possible:
                left = tuple(i for i in left if possible[i] in (answer, ""))
        return left or tuple(range(len(cities())))

    def privileged_text(self) -> str:
        """Returns the secret city and the number of cities that fit the answers."""
        return f"Possible cities: {len(self._candidates())}. Secret: {self.task}."

    def expert(self) -> str | None:
        """Returns the question with the fewest expected remaining cities, or a guess."""
        left = self._candidates()
        tried = {question for question, _ in self.state.asked}
        if len(left) > 2 and len(tried) < self.max_questions - 1:
            question = best_question(left, self.open_questions)
            if question and question not in tried:
                return question
        untried = [named(cities()[i]) for i in left if named(cities()[i]) not in tried]
        return untried[0] if untried else named(cities()[0])
