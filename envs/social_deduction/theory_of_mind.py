"""TheoryOfMind: questions about what people know and believe in a played episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentgym.core import TextEnv
from agentgym.envs.social_deduction import house_story as house
from agentgym.envs.social_deduction import village_story as village
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks, draw_level, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.fast_pcg64 import Draws

ORDERS = ("reality", "memory", "first", "second")
"""Questions about a house: where a thing is, was at the start, is believed to be."""


@dataclass
class Question:
    """A question.

    Attributes:
        text: the question.
        answers: the possible answers.
        answer: the right one.
        tricky: whether the answer differs from the obvious one: reality, or that nobody knows.
    """

    text: str
    answers: list[str]
    answer: str
    tricky: bool = False


@dataclass
class State:
    """The report of an episode, its questions, and whether each answer so far was right."""

    story: list[str]
    questions: list[Question]
    right: list[bool] = field(default_factory=list)


def house_questions(played: house.House, order: str) -> list[Question]:
    """Returns all questions of an order about an episode in a house.

    Args:
        played: the episode.
        order: one of `ORDERS`.
    """
    places = [*played.containers]
    if order == "reality":
        return [Question(f"Where is the {t} now?", places, at) for t, at in played.places.items()]
    if order == "memory":
        asked = "Where was the {} at the start?"
        return [
            Question(asked.format(thing), places, at, at != played.places[thing])
            for thing, at in played.first.items()
        ]
    answers, found = [*places, house.UNKNOWN], []
    for believer, belief in played.beliefs.items():
        if len(believer) == (1 if order == "first" else 2):
            minds = " thinks that ".join(believer[1:])
            minds = f" that {minds} thinks" if minds else ""
            for thing, at in belief.items():
                text = f"Where does {believer[0]} think{minds} that the {thing} is?"
                found.append(Question(text, answers, at, at != played.places[thing]))
    return found


def chosen(questions: list[Question], count: int, rng: Draws) -> list[Question]:
    """Returns some questions in random order, at least half of them tricky if there are enough."""
    order = shuffled(questions, rng)
    first = [question for question in order if question.tricky][: (count + 1) // 2]
    rest = [question for question in order if question not in first]
    return shuffled(first + rest[: count - len(first)], rng)


def shuffled(questions: list[Question], rng: Draws) -> list[Question]:
    """Returns the questions in random order."""
    left = [*questions]
    return [left.pop(rng.below(len(left))) for _ in questions]


class TheoryOfMind(TextEnv):
    """Answer questions about the knowledge and the beliefs of people in a played episode.

    ## Description
    Scripted people have played an episode, and a report tells all of it. Then questions are asked
    about the state of their minds. The answers come from the hidden state of the episode.

    In a house, people move things between containers, open them, and tell each other where things
    are. Half of these claims are lies, and people believe them. Someone in another room notices
    nothing. So people believe differently, and differ in what they believe about each other
    (second order). At least half of the questions, if there are as many, have an answer that
    differs from reality.

    In a village, a game of Werewolf is played up to its second day. A player knows whether another
    is a werewolf if all deals of the roles that fit its own knowledge agree on it. Talk may be a
    lie, so that nobody knows anything from it. Here the answer to at least half is yes.

    ## Action Space
    Text: one of the listed answers.

    ## Observation Space
    Text: the report of the episode, and the current question.

    ## Rewards
    Term `task`: 1 divided by the number of questions, for each right answer.

    ## Starting State
    The episode and the questions are sampled from the task name.

    ## Episode End
    - Termination: all questions are answered.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: all answers are right. `progress`: right answers so far, divided by
    the number of questions.

    ## Arguments
    - `episode` (str, default "house"): "house" or "village".
    - `order` (str, default "mixed"): kind of questions in a house. "reality": where a thing is.
      "memory": where it was at the start. "first": where a person thinks that it is. "second":
      where a person thinks that another one thinks that it is. "mixed": all of them, four in five
      of the first and second order.
    - `questions` (int, default 5): number of questions, 1 to 20, or fewer if there are not enough.
    - `people` (int, default 3): people in the house, 2 to 6.
    - `events` (int, default 12): events in the house, 1 to 100.
    - `max_turns` (int or None, default 50): turn limit.

    ## References
    Le et al., Revisiting the Evaluation of Theory of Mind through Question Answering (2019): ToMi,
    and Wu et al., Hi-ToM, arXiv 2310.16755: beliefs of higher order, and lies. Li et al., Theory of
    Mind for Multi-Agent Collaboration via Large Language Models, arXiv 2310.10701: belief questions
    about episodes that agents have played. Texts and rules are our own.

    ## Version History
    v0: first version.
    """

    State = State
    state: State

    def __init__(
        self,
        *,
        episode: Literal["house", "village"] = "house",
        order: Literal["mixed", "reality", "memory", "first", "second"] = "mixed",
        questions: int = 5,
        people: int = 3,
        events: int = 12,
        max_turns: int | None = 50,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        for name, value, bounds in (
            ("questions", questions, range(1, 21)),
            ("people", people, range(2, 7)),
            ("events", events, range(1, 101)),
        ):
            if value not in bounds:
                raise ConfigError(f"{name} must be from {bounds[0]} to {bounds[-1]}, got {value}.")
        if order != "mixed" and episode == "village":
            raise ConfigError(f"order must be 'mixed' in a village, got {order!r}.")
        self.episode, self.order, self.questions = episode, order, questions
        self.people, self.events = people, events
        self.tasks = Tasks.generated()
        self.instructions = (
            "You read the report of an episode and answer questions about what the people in it "
            "know and believe.\n"
            + (
                "Rules of the episode:\n"
                "- People see only what happens in the room in which they are. They do not notice "
                "who goes to another room and what happens there.\n"
                "- People believe what they are told, although it may be a lie. The speaker does "
                "not believe its own lie.\n"
                "- Everyone in the room notices that the others there see and hear the same.\n"
                f"- The answer is {house.UNKNOWN!r} if a person has seen that a thing is gone and "
                "does not know where it is.\n"
                if episode == "house"
                else "Rules of the episode:\n"
                "- Seven players: two werewolves, a seer, a doctor and three villagers.\n"
                "- A player knows for certain only its own role, the roles of dead players, as a "
                "werewolf the other werewolf, as the seer its findings, and all that follows from "
                "these. Statements may be lies.\n"
            )
            + "Action: one of the listed answers. All questions are worth the same."
        )

    def _start(self, task: str) -> TimeStep:
        rng = task_draws(task, f"TheoryOfMind/{self.episode}")
        self.state = draw_level(task, lambda: self._drawn(rng))
        return self._look()

    def _drawn(self, rng: Draws) -> State:
        if self.episode == "village":
            story, asked = village.played(rng.below(2**31))
            questions = [Question(text, ["yes", "no"], a, a == "yes") for text, a in asked]
            return State(story, chosen(questions, self.questions, rng))
        played = house.played(rng, self.people, self.events)
        kinds = [self.order] * self.questions
        if self.order == "mixed":
            kinds = [("first", "second")[i % 2] for i in range(self.questions)]
            kinds[4::5] = [ORDERS[rng.below(2)] for _ in kinds[4::5]]
        questions = []
        for kind in sorted(set(kinds)):
            questions += chosen(house_questions(played, kind), kinds.count(kind), rng)
        return State(played.story, shuffled(questions, rng))

    def _advance(self, action: str) -> TimeStep:
        question = self.state.questions[len(self.state.right)]
        if action not in question.answers:
            return self._invalid(
                f"Invalid answer {action[:40]!r}. The answers are: {', '.join(question.answers)}."
            )
        self.state.right.append(action == question.answer)
        return self._look(float(self.state.right[-1]))

    def _look(self, gain: float = 0.0) -> TimeStep:
        state = self.state
        count, asked = len(state.questions), len(state.right)
        over = asked == count
        lines = [*state.story, ""]
        if over:
            lines.append("All questions are answered.")
        else:
            question = state.questions[asked]
            lines.append(f"Question {asked + 1} of {count}: {question.text}")
            lines.append(f"Answers: {', '.join(question.answers)}")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": gain / count},
            terminated=over,
            success=over and all(state.right),
            progress=sum(state.right) / count,
            admissible=() if over else tuple(state.questions[asked].answers),
        )

    def privileged_text(self) -> str:
        """Returns the answers of the remaining questions."""
        left = self.state.questions[len(self.state.right) :]
        return f"Answers: {', '.join(question.answer for question in left)}."

    def expert(self) -> str | None:
        """Returns the right answer."""
        return None if self._over else self.state.questions[len(self.state.right)].answer
