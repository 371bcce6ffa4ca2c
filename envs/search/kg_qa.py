"""KG-QA: answer questions by following the relations of a generated knowledge graph."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from agentgym.core import TextEnv
from agentgym.envs.search.questions import MOST_HOPS, Question, draw_question, world_of
from agentgym.envs.search.world import BY_SUBJECT, World
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_command, match_action

_ACTION = re.compile(r"(get|answer)\s*\[([^\[\]]{1,200})\][ .]{0,3}", re.IGNORECASE)


@dataclass
class State:
    """The entities and years that the agent has reached, in order, and the end.

    Attributes:
        known: entities that can be asked about.
        values: entities and years that can be the answer.
        answered: the answer, or None before it.
    """

    known: list[str]
    values: list[str] = field(default_factory=list)
    answered: str | None = None


@lru_cache(maxsize=8192)
def question_of(task: str, hops: int | None) -> Question:
    """Returns the question of a task. Environments share it."""
    return draw_question(task, world_of(task, 0.0), hops, described=False)


def _usual_form(action: str) -> str:
    """Returns a look-up or an answer without quotes, and with spaces around the bar."""
    found = _ACTION.fullmatch(code_command(action))
    if found is None:
        return action
    parts = [part.strip(" \t\"'`").replace("_", " ") for part in found[2].split("|")]
    return f"{found[1].lower()}[{' | '.join(parts)}]"


class KGQA(TextEnv):
    """Answer a question by following relations in a knowledge graph, without text to search.

    ## Description
    The graph has the facts of the worlds of `SearchQA-v0`: 108 entities and 16 relations. The
    question names the first entity of a chain of 1 to 4 facts. The agent asks for one fact at a
    time, of the entities that it has reached, and answers with one of the values found.

    ## Action Space
    Text, one of:

    - `get[Ada Brin | birthplace]`: show the object of a relation of a reached entity.
    - `answer[Trast]`: answer with a value found.

    ## Observation Space
    Text: the result of the last action, the reached entities with their kinds, and the question.

    ## Rewards
    1 (term `task`) for the right answer, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    A graph and a question sampled from the task name. Each split has 64 graphs of its own.

    ## Episode End
    Termination: an answer. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` lists a `get` action for each relation of each reached entity, and
    an `answer` for each value found. `progress` is the share of the chain that has been reached,
    and 1 for the right answer.

    ## Arguments
    - `hops` (int or None, default None): number of facts of a question, 1 to 4. None: sampled.
    - `max_turns` (int or None, default 12): turn limit.

    ## References
    Tools over a knowledge graph as in KG-Agent (arXiv 2402.11163), on generated graphs.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Answer a question with a knowledge graph of a made-up world.\n"
        "Each turn, reply with one action and nothing else:\n"
        "- get[Ada Brin | birthplace]: look up a relation of a known entity. The result is then "
        "known too.\n"
        "- answer[Trast]: answer with a value that you found. This ends the episode.\n"
        "Rules:\n"
        + "".join(
            f"- Relations of a {kind}: {', '.join(relation.name for relation in relations)}.\n"
            for kind, relations in BY_SUBJECT.items()
        )
        .replace("of a event", "of an event")
        .replace("of a organisation", "of an organisation")
        + "The reward is 1 if the answer is right."
    )
    State = State

    def __init__(self, *, hops: int | None = None, max_turns: int | None = 12, **kwargs):
        if hops is not None and not 1 <= hops <= MOST_HOPS:
            raise ValueError(f"hops must be None or 1 to {MOST_HOPS}, got {hops}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.hops = hops
        self.tasks = Tasks.generated()

    @property
    def question(self) -> Question:
        """The question of the task."""
        return question_of(self.task, self.hops)

    @property
    def graph(self) -> World:
        """The facts, which environments share."""
        return world_of(self.task, 0.0)

    def _start(self, task: str) -> TimeStep:
        self.state = State([self.question.titles[0]])
        return self._look("The graph is open.")

    def _advance(self, action: str) -> TimeStep:
        assert self._last is not None
        listed = self._last.admissible
        action = action if action in listed else match_action(_usual_form(action), listed) or ""
        if not action:
            return self._invalid("Reply with get[known entity | relation] or answer[value found].")
        kind, _, rest = action.rstrip("]").partition("[")
        if kind == "answer":
            self.state.answered = rest
            right = rest == self.question.answer
            return self._look("Right." if right else "Wrong.")
        entity, _, relation = rest.partition(" | ")
        value = self.graph.facts[entity, relation]
        if value not in self.state.values:
            self.state.values.append(value)
        if value in self.graph.kinds and value not in self.state.known:
            self.state.known.append(value)
        return self._look(f"The {relation} of {entity} is {value}.")

    def _look(self, result: str) -> TimeStep:
        state, question, kinds = self.state, self.question, self.graph.kinds
        done, right = state.answered is not None, state.answered == question.answer
        chain = (*question.titles[1:], question.answer)
        actions = [
            *(f"get[{e} | {r.name}]" for e in state.known for r in BY_SUBJECT[kinds[e]]),
            *(f"answer[{value}]" for value in state.values),
        ]
        known = ", ".join(f"{entity} ({kinds[entity]})" for entity in state.known)
        text = f"{result}\n\nKnown: {known}\nQuestion: {question.text}"
        return TimeStep(
            text=text,
            state_key=f"{text}\n{sorted(state.values)}",  # values that only the actions show
            rewards={"task": float(right)},
            terminated=done,
            success=right,
            progress=1.0 if right else sum(x in state.values for x in chain) / (1 + len(chain)),
            admissible=() if done else tuple(actions),
        )

    def expert(self) -> str | None:
        """Follows the chain of the question and answers with its end."""
        question, state = self.question, self.state
        chain = (*question.titles[1:], question.answer)
        for entity, relation, value in zip(question.titles, question.relations, chain, strict=True):
            if value not in state.values:
                return f"get[{entity} | {relation}]"
        return f"answer[{question.answer}]"
