"""GuessMyCity: find out which city somebody comes from by asking questions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TextEnv, TimeStep, UnreadableAction
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
from agentgym.tasks import Tasks

MOST_WORDS = 40
SHOWN = 160
ONE_AT_A_TIME = "Name only one city at a time."
ORACLE_SYSTEM = (
    "Your home town is {secret}. Answer a stranger's question about it truthfully in one short "
    "sentence, beginning with Yes or No where that fits, and never say its name."
)


@dataclass
class State:
    """The number of the city, and the questions so far with their answers.

    `understood` says of each whether its answer is one by the facts.
    """

    city: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    understood: list[bool] = field(default_factory=list)


class GuessMyCity(TextEnv):
    """Find out which city somebody comes from by asking at most twenty questions.

    ## Description
    The game of LMRL-Gym and ArCHer. Somebody comes from one of 143 cities; the agent asks and
    guesses. The originals' oracles are fine-tuned language models; here a table of facts answers
    (country, regions, languages, position, size, climate, some 250 traits, 1,300 names of sights,
    waters and provinces), yes-or-no questions as well as open ones.

    ## Action Space
    Text: a question of at most 40 words. Yes-or-no: `Is your city on the coast?`,
    `Do more than five million people live there?`. Open, about continent, country, part of the
    country, language, people, climate, currency, waters, what it is known for: `What is your city
    known for?`. A question in which the city is named wins: `Is your city Rome?`. Invalid and used
    up: what is empty, longer, or names two cities, and questions that are not understood.

    ## Observation Space
    Text: how many questions are left, then all questions with their answers, one a line.

    ## Rewards
    Term `task`: 0 for the question that names the city, -1 for any other. An invalid action costs
    1, too (`invalid_penalty`).

    ## Starting State
    Nothing asked. The task names the city; one in five is a test task.

    ## Episode End
    Termination: the city is named, or `max_questions` are asked. Truncation: after `max_turns`.

    ## Information
    The common keys; `progress` is 1 - log(n + 1) / log(N + 1) for n cities left of N, 1 when named.
    `admissible` is empty, as the set of questions is open, unless `question_menu`.

    ## Arguments
    `max_questions`: default 20. `open_questions`: whether others than yes-or-no questions are
    answered (True, as in ArCHer; LMRL-Gym: no). `question_menu`: list yes-or-no questions and the
    guess of each city as admissible actions; others are still understood. `unknown_answer`: said
    to a question not understood, default "No.". `oracle`: "rules", "chat:MODEL@URL" or a function
    (city, question) -> text; an answer that names the city is withheld. `max_turns`: default None.

    ## Example Transcript
    ```
    Questions left: 20.
    > Which continent is your city on?
    Questions left: 19.
    Which continent is your city on? It is in Europe.
    > Is your city Rome?
    Questions left: 18.
    Which continent is your city on? It is in Europe.
    Is your city Rome? Yes.
    ```

    ## Baselines
    Mean return and success on the test split, n = 200 episodes each. `GuessMyCity-v0`: random words
    -20.0, 0 %; expert (the question that splits the cities best) -1.8, 100 %.
    `GuessMyCity-Menu-v0`: random choices -19.4, 6 %; expert -6.9, 100 %.
    Of the yes-or-no questions in 950 published conversations the parser understands 93 %, of the
    open ones 97 %; three of four answers agree with the language model's there, which often
    contradicts itself.

    ## Registered Configurations
    `GuessMyCity-v0`: free questions. `GuessMyCity-Menu-v0`: the menu, yes-or-no questions only.

    ## References
    ArCHer (arXiv 2402.19446) and LMRL-Gym (arXiv 2311.18232), sections on Guess My City. Rewards,
    the limit, the withheld answers and endings are the same. The original wins by any question
    that contains the name's letters ("climate" wins Lima) or a list of all cities; here the name
    must stand as a word, and alone. Cities, facts and parser are our own.

    ## Version History
    v0: first version.
    """

    instructions = (
        "I come from a large city somewhere in the world. Find out which one with at most {most} "
        "questions. Each turn ask one short question about it, {kinds}. To guess, ask for the "
        "city by its name, for example: Is your city Rome? Name only one city in a question. The "
        "game is won as soon as you name the right city; win it with as few questions as possible."
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
        kinds = "to be answered with yes or no" + (" or in a short sentence" * open_questions)
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
        said = action[: 20 * MOST_WORDS].split(maxsplit=MOST_WORDS)
        if not words(action) or len(said) > MOST_WORDS or len(action) > 20 * MOST_WORDS:
            return self._record(action, INVALID)
        question = " ".join(said)
        question = question[0].upper() + question[1:].rstrip("?.! ") + "?"
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
        """Returns the oracle's answer, or "" if the question is not understood."""
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
        """Notes a question with its answer and returns what follows."""
        shown = " ".join(question[: 20 * MOST_WORDS].split())
        if not valid and len(shown) > SHOWN:
            shown = shown[:SHOWN] + "..."
        self.state.asked.append((shown, answer))
        self.state.understood.append(valid)
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
            progress=1.0 if won else 1 - float(np.log1p(left) / np.log1p(len(cities()))),
            admissible=() if over else self.menu,
        )

    def _candidates(self) -> tuple[int, ...]:
        """Returns the cities that the answers allow, by the facts."""
        left = tuple(range(len(cities())))
        state = self.state
        for (question, answer), understood in zip(state.asked, state.understood, strict=True):
            told = replies(question)
            if understood and answer in told:
                left = tuple(i for i in left if told[i] in (answer, ""))
        return left or tuple(range(len(cities())))

    def expert(self) -> str | None:
        """Returns the question after which fewest cities are expected to be left, or a guess."""
        left = self._candidates()
        tried = {question for question, _ in self.state.asked}
        if len(left) > 2 and len(tried) < self.max_questions - 1:
            question = best_question(left, self.open_questions)
            if question and question not in tried:
                return question
        untried = [named(cities()[i]) for i in left if named(cities()[i]) not in tried]
        return untried[0] if untried else named(cities()[0])
