"""TwentyQuestions for two: one knows the thing and answers, the other asks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.lmrl.objects import things
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
from agentgym.multiagent.game import InvalidMove, Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import match_action

YES, NO, UNKNOWN = "Yes.", "No.", "I do not know."
ANSWERS = (YES, NO, UNKNOWN)


@dataclass
class State:
    """The number of the thing, the questions answered, and the one that waits for an answer."""

    thing: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    open: str = ""
    won: bool = False


def truth(question: str, thing: int) -> str:
    """Returns the answer by the table of facts."""
    answer = int(answers(question)[thing])
    return UNKNOWN if answer == 0 else YES if answer > 0 else NO


def candidates(asked: list[tuple[str, str]]) -> np.ndarray:
    """Returns the numbers of the things that the answers allow, by the table; all if none."""
    every = left = np.arange(len(things()))
    for question, answer in asked:
        if answer != UNKNOWN:
            left = left[answers(question)[left] != (-1 if answer == YES else 1)]
    return left if len(left) else every


class TwentyQuestionsTwoPlayer(TextGame):
    """Twenty questions for two, who win or lose together.

    ## Description
    player_0, the answerer, knows which of 225 things is meant; player_1, the asker, finds it by
    yes-or-no questions. The game of `TwentyQuestions-v0`, with an agent in the oracle's place. A
    question that guesses a thing is judged by the rules; any other is for the answerer to answer,
    which is trusted to be truthful.

    ## Action Space
    Text. Asker: a question that starts with Is, Does, Can, Do, Are or Could, of at most 40 words; a
    guess asks for the thing alone: `Is it a bicycle?`. Answerer: `Yes.`, `No.` or `I do not know.`.
    With `action_mode="discrete"` (with `question_menu` only): the index of the action.

    ## Observation Space
    Text: one's role, the thing (for the answerer only), how many questions are left, all questions
    with their answers, and the question to be answered.

    ## Rewards
    Term `task`, to both: -1 for each question that does not guess the thing, when it is answered.
    An invalid action costs `invalid_penalty`, the one who took it.

    ## Starting State
    Nothing asked. The task names the thing, as in `TwentyQuestions-v0`; one in five is for testing.
    `info["task"]` is not for players.

    ## Episode End
    Termination: the thing is guessed, or `max_questions` are asked. Truncation: after `max_turns`
    turns. After `max_invalid` invalid actions in a row a random question or answer is given.

    ## Information
    The common keys; `success`: the thing was guessed; `progress` is 1 - log(n + 1) / log(N + 1) for
    n things of N that the answers allow by the table of facts, 1 when guessed.

    ## Arguments
    `max_questions`: default 20. `question_menu`: list the questions for traits and things as
    admissible; others are still understood. `max_turns`: default None. As a single seat: `seat` and
    `opponents` (one's partner): "random" (questions of the menu; any answer), "simple" (answers by
    the table of facts; asks anything about which the things left differ) or "expert" (the default:
    answers by the table; asks what halves the things left).

    ## Example Transcript
    ```
    You are the asker. Questions left: 19.
    Is it an animal? No.
    > Does it have wheels?
    You are the answerer. The thing is: bicycle. Questions left: 18.
    Is it an animal? No.
    Asked: Does it have wheels?
    > Yes.
    ```

    ## Baselines
    A single seat with an "expert" partner, 200 test episodes, mean return (success): random -19.7
    (2 %), with the menu -19.6 (3 %); expert -7.6 (100 %). Answerer
    and asker alike: random -19.5 (6 %), simple -15.6 (55 %), expert -7.5 (100 %).

    ## Registered Configurations
    `TwentyQuestions-TwoPlayer-v0`: free questions. `TwentyQuestions-TwoPlayer-Menu-v0`: with the
    menu.

    ## References
    LMRL-Gym (arXiv 2311.18232), Twenty Questions: rewards, the limit and the form of questions.
    Things and facts are those of `TwentyQuestions-v0`.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        [thing.name for i, thing in enumerate(things()) if i % 5],
        [thing.name for thing in things()[::5]],
    )
    State = State
    state: State
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
            "Twenty questions for two who win together. player_0, the answerer, is told a thing: "
            "an everyday object, an animal, a plant, food, a vehicle, or something in nature. "
            f"player_1, the asker, has at most {max_questions} yes-or-no questions to find out "
            "what it is; the fewer the better. A question is short and starts with Is, Does, Can, "
            "Do, Are or Could. To guess the thing, the asker asks for it alone, for example: Is it "
            "a bicycle? A guess is answered by the game. Any other question is answered by the "
            "answerer, truthfully, with: Yes. or No. or I do not know."
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
        end = " You have won." if state.won else f" You have lost; it was: {name}." if over else ""
        lines = [f"You are the {role}. Questions left: {left}.{end}"]
        lines += [f"{question} {answer}" for question, answer in state.asked]
        if state.open:
            lines.append(f"Asked: {state.open}")
        n = len(candidates(state.asked))
        return TimeStep(
            text="\n".join(lines),
            success=state.won,
            progress=1.0 if state.won else 1 - float(np.log1p(n) / np.log1p(len(things()))),
            admissible=self.menu if asks else ANSWERS,
        )

    def _read(self, agent: str, said: str) -> str:
        if agent == "player_0":
            return super()._read(agent, said)
        listed = match_action(said, self.menu)
        if listed:
            return listed
        if not well_formed(said.strip()):
            raise InvalidMove(
                f"{said[:40]!r} is no question. Ask one that starts with Is, Does, Can, Do, Are or "
                "Could, in at most 40 words."
            )
        question = " ".join(said.split())
        question = question[0].upper() + question[1:].removesuffix("?") + "?"
        if len(question) > 2 * SHOWN:
            raise InvalidMove(f"Ask a shorter question, of at most {2 * SHOWN} letters.")
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
