"""TwentyQuestions for two: one player knows the thing and answers, the other asks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.lmrl.objects import things
from agentgym.envs.lmrl.questions import bare_question
from agentgym.envs.lmrl.twenty_questions import (
    SHOWN,
    answers,
    guessed,
    guesses,
    question_table,
    trait_questions,
    well_formed,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import match_action

YES, NO, UNKNOWN = "Yes.", "No.", "I do not know."
ANSWERS = (YES, NO, UNKNOWN)


@dataclass
class State:
    """The index of the thing, the questions with their answers, and the open question."""

    thing: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    open: str = ""
    won: bool = False


def truth(question: str, thing: int) -> str:
    """Returns the answer according to the table of facts."""
    answer = int(answers(question)[thing])
    return UNKNOWN if answer == 0 else YES if answer > 0 else NO


def candidates(asked: list[tuple[str, str]]) -> np.ndarray:
    """Returns the indices of the things consistent with the answers (all if none is)."""
    every = left = np.arange(len(things()))
    for question, answer in asked:
        if answer != UNKNOWN:
            left = left[answers(question)[left] != (-1 if answer == YES else 1)]
    return left if len(left) else every


class TwentyQuestionsTwoPlayer(TextGame):
    """Twenty questions for two players, who win or lose together.

    ## Description
    player_0, the answerer, knows one of 225 things. player_1, the asker, finds it with yes-or-no
    questions. This is the game of `TwentyQuestions-v0` with an agent in place of the oracle.

    - The game answers a question that guesses a thing.
    - The answerer answers any other question. Its answers are not checked.

    ## Action Space
    Text:

    - Asker: a question that starts with Is, Does, Can, Do, Are or Could, of at most 40 words. A
      guess asks for the thing alone: `Is it a bicycle?`.
    - Answerer: `Yes.`, `No.` or `I do not know.`.

    With `action_mode="discrete"` (with `question_menu` only): the index of the action.

    ## Observation Space
    Text: the role, the thing (answerer only), the number of questions left, all questions with
    their answers, and the question to answer.

    ## Rewards
    - `task`: -1 for both players for each answered question, except for the right guess.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    No question is asked. The task is the name of the thing, as in `TwentyQuestions-v0`. One thing
    in five is a test task. `info["task"]` must be hidden from the asker.

    ## Episode End
    Termination: the thing is guessed, or `max_questions` questions are asked. Truncation: after
    `max_turns` turns. After `max_invalid` invalid actions in a row, a random question or answer is
    taken.

    ## Information
    The common keys.

    - `success`: whether the thing was guessed.
    - `progress`: 1 - log(n + 1) / log(N + 1) if n of N things are consistent with the answers
      according to the table of facts, 1 after the right guess.

    ## Arguments
    - `max_questions` (int, default 20): number of questions.
    - `question_menu` (bool, default False): list the questions for traits and things as admissible.
      Other questions are still understood.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): player_0 (answerer) or player_1 (asker).
    - `opponents` (single seat only, default "expert"): the player of the other seat.
      - "random": questions of the menu, any answer.
      - "simple": answers by the table of facts and asks any question that separates the things
        left.
      - "expert": answers by the table of facts and asks the question that best halves the things
        left.

    ## References
    LMRL-Gym (arXiv 2311.18232), Twenty Questions: rewards, limit and form of questions. Things and
    facts are those of `TwentyQuestions-v0`.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        [thing.name for i, thing in enumerate(things()) if i % 5],
        [thing.name for thing in things()[::5]],
    )
    State = State
    state: State
    common_reward = True
    levels = ("random", "simple", "expert")
    expert_level = "expert"
    default_opponents = "expert"

    def __init__(self, *, max_questions: int = 20, question_menu: bool = False, **kwargs):
        if max_questions < 1:
            raise ConfigError(f"max_questions must be at least 1, got {max_questions}.")
        super().__init__(**kwargs)
        self.max_questions = max_questions
        self.menu: tuple[str, ...] = ()
        if question_menu:
            self.menu = (*trait_questions(), *guesses())
            self.actions = (*ANSWERS, *self.menu)
        self.instructions = (
            "Twenty questions for two players, who win or lose together. player_0, the answerer, "
            "knows a secret thing. player_1, the asker, has to find it with at most "
            f"{max_questions} yes-or-no questions.\n"
            "\n"
            "Rules:\n"
            "- The thing is an everyday object, an animal, a plant, food, a vehicle, or something "
            "in nature.\n"
            "- To guess, the asker asks for the thing alone. The game answers guesses.\n"
            "- The answerer answers all other questions truthfully.\n"
            "\n"
            "Actions:\n"
            "- Asker: a short question that starts with Is, Does, Can, Do, Are or Could, for "
            "example: Does it have wheels? A guess, for example: Is it a bicycle?\n"
            "- Answerer: Yes. or No. or I do not know.\n"
            "\n"
            "Score: both players lose 1 for each question, except for the right guess. The right "
            "guess wins and ends the game."
        )

    def _start(self, task: str) -> None:
        self.state = State(next(i for i, thing in enumerate(things()) if thing.name == task))

    def _acting(self) -> tuple[str, ...]:
        if self.state.won or len(self.state.asked) == self.max_questions:
            return ()
        return ("player_0",) if self.state.open else ("player_1",)

    def _look(self, agent: str) -> TimeStep:
        state = self.state
        asks = agent == "player_1"
        name = things()[state.thing].name
        over = state.won or len(state.asked) == self.max_questions
        left = self.max_questions - len(state.asked)
        role = "asker" if asks else f"answerer. The thing is: {name}"
        end = " You have won." if state.won else " You have lost." if over else ""
        lines = [f"You are the {role}. Questions left: {left}.{end}"]
        lines += [f"{question} {answer}" for question, answer in state.asked]
        if state.open:
            lines.append(f"Question to answer: {state.open}")
        n = len(candidates(state.asked))
        return TimeStep(
            text="\n".join(lines),
            success=state.won,
            progress=1.0 if state.won else 1 - float(np.log1p(n) / np.log1p(len(things()))),
            admissible=self.menu if asks else ANSWERS,
        )

    def privileged_text(self, agent: str) -> str:
        """Returns the secret, the number of things that fit the answers, and the open question."""
        state = self.state
        return (
            f"You are {agent}. Secret: {things()[state.thing].name}. "
            f"Possible things: {len(candidates(state.asked))}. "
            f"Questions left: {self.max_questions - len(state.asked)}. "
            f"Question to answer: {state.open or 'none'}"
        )

    def _parse(self, agent: str, action: str) -> str:
        if agent == "player_0":
            return super()._parse(agent, action)
        listed = match_action(action, self.menu)
        if listed:
            return listed
        action = bare_question(action)
        if not well_formed(action):
            raise InvalidMove(
                f"{action[:40]!r} is not a question. Ask one that starts with Is, Does, Can, Do, "
                "Are or Could, of at most 40 words, for example: Does it have wheels?"
            )
        question = " ".join(action.split())
        question = question[0].upper() + question[1:].removesuffix("?") + "?"
        if len(question) > 2 * SHOWN:
            raise InvalidMove(f"Ask a shorter question, of at most {2 * SHOWN} characters.")
        return question

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        if "player_0" in moves:
            state.asked.append((state.open, moves["player_0"]))
            state.open = ""
        else:
            question = moves["player_1"]
            guess = guessed(question)
            if guess is None:
                state.open = question
                return {}
            state.won = guess == state.thing
            state.asked.append((question, YES if state.won else NO))
        return {agent: {"task": 0.0 if state.won else -1.0} for agent in self.possible_agents}

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        options = ANSWERS if agent == "player_0" else (*trait_questions(), *guesses())
        return options[int(rng.integers(len(options)))]

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state = self.state
        if agent == "player_0":
            return truth(state.open, state.thing)
        left = candidates(state.asked)
        done = {question for question, _ in state.asked}
        if len(left) > 2 and len(state.asked) < self.max_questions - 1:
            yes = (question_table()[:, left] == 1).sum(axis=1)
            split = np.flatnonzero((yes > 0) & (yes < len(left)))
            useful = [int(i) for i in split if trait_questions()[i] not in done]
            if useful and level == "simple":
                return trait_questions()[useful[int(rng.integers(len(useful)))]]
            if useful:
                best = min(useful, key=lambda i: abs(int(yes[i]) - len(left) / 2))
                return trait_questions()[best]
        untried = [guesses()[i] for i in left if guesses()[i] not in done] or list(guesses())
        return untried[int(rng.integers(len(untried)))]


env, raw_env, parallel_env = make_pettingzoo(TwentyQuestionsTwoPlayer)
