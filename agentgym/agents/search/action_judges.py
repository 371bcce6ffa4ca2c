"""Judges of single actions, as the values of a search: a language model, or a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentgym.agents.basic.replies import Replies
from agentgym.agents.basic.view import Agent, View
from agentgym.data.episode_text import LONGEST, episode_text
from agentgym.utils.importing import imported
from agentgym.utils.returned_numbers import score_of

PROMPT = (
    "You judge the next action of an agent in an episode. You read the rules, the earlier turns, "
    "the current observation and the next action. Estimate how likely the agent is to solve the "
    "task after this action, from 0 (impossible) to 10 (certain). Reply with one line, such as\n"
    "score: 7"
)
UNKNOWN = 0.5
"""Value of an action for which the reply holds no score."""
_SCORE = re.compile(r"\W*(?:score\W*[:=]\W*)?([0-9]+(?:\.[0-9]+)?)(?:\s*/\s*10)?[\s*.]*", re.I)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class ActionJudge(Protocol):
    """Scores actions. It may count its tokens in `tokens`, and unreadable replies in `unread`.

    Attributes:
        whole: whether a score predicts the return of the whole episode, and not that of the rest,
            from the action on.
    """

    whole: bool

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the score of an action in each view."""
        ...


class ModelValue:
    """A language model that estimates by a number how likely an action leads to success.

    Answers of a served model are kept in the cache (see `AnswerFile`), so that a search repeats.

    Args:
        agent: the model.
        source: its specification.

    Attributes:
        unread: number of replies without a score so far. Their value is `UNKNOWN`.
    """

    whole = True

    def __init__(self, agent: Agent, source: str):
        self.agent, self.unread = agent, 0
        self._replies = Replies(agent, source, PROMPT)

    @property
    def usage(self) -> Any:
        """The tokens that a served model reports, None for another one."""
        return getattr(self.agent, "usage", None)

    @property
    def tokens(self) -> int:
        """The tokens that a model counts by itself."""
        return getattr(self.agent, "tokens", 0)

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the estimated probability of success after an action in each view.

        Raises:
            ChatError: if a server sends no usable reply.
        """
        texts = [
            episode_text(
                view.instructions,
                [("", observation, played) for observation, played in view.history],
                [f"Observation: {view.observation[:LONGEST]}", f"Next action: {action[:LONGEST]}"],
            )
            for view, action in zip(views, actions, strict=True)
        ]
        found = [read_score(reply) for reply in self._replies(texts)]
        self.unread += found.count(None)
        return [UNKNOWN if score is None else score for score in found]


def read_score(reply: str) -> float | None:
    """Returns the only score of a reply in [0, 1], None if it holds none, several or another one.

    It is a line with a number from 0 to 10, as in `score: 7`. Thoughts between the tags <think> and
    </think> are ignored.
    """
    lines = (line for line in _THOUGHT.sub("", reply).split("\n") if len(line) <= LONGEST)
    scores = {float(match[1]) / 10 for line in lines if (match := _SCORE.fullmatch(line))}
    return scores.pop() if len(scores) == 1 and max(scores) <= 1 else None


class FunctionValue:
    """A function of a view and an action that estimates the return of the whole episode.

    Args:
        source: "module:function".

    Raises:
        ConfigError: if there is no such function.
    """

    whole = True

    def __init__(self, source: str):
        self.source = source
        self._function: Callable[[View, str], float] = imported(source, "value")

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the score of an action in each view.

        Raises:
            ConfigError: for a score that is not a finite number.
        """
        return [
            score_of(f"value={self.source}", self._function(view, action))
            for view, action in zip(views, actions, strict=True)
        ]
