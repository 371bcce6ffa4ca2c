"""`ChatJudge`: a language model on a chat server that scores the turns of episodes.

Like the judge of "Advancing Language Multi-Agent Learning with Credit Re-Assignment for Interactive
Environment Generalization" (arXiv 2502.14496), it reads a whole episode, with its outcome, and
scores what each agent did in each turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym.agents import View, make_agent
from agentgym.agents.basic.chat import ChatAgent
from agentgym.data.episode_text import episode_text, outcome_text
from agentgym.errors import ConfigError
from agentgym.judges.judge import split_source
from agentgym.trainers.data.trajectory import Trajectory, rules_of

SYSTEM = (
    "You judge how much each turn of an episode contributed to its outcome. You read the rules, "
    "the turns with their observations and actions, and the outcome. Give every turn a score from "
    "0 (useless or harmful) to 10 (decisive). Reply with one line per turn, such as\n"
    "1: 7\n"
    "2: 0"
)
PRINCIPLES = "Score the turns by these criteria:"
AT_ONCE = 32
"""Requests that are sent at the same time."""
UNKNOWN = 0.5
"""Score of every turn of an episode for which the judge's reply does not hold all scores."""


class ChatJudge:
    """Scores the turns of episodes by the replies of a language model.

    Equal episodes are judged once per call. The processes of a run share the requests, so each must
    take part in every call, with the same episodes.

    Args:
        word: the model and its server, chat:MODEL@URL (see `ChatAgent`), or with the criteria of a
            file, rubric=FILE:chat:MODEL@URL (see `agentgym.judges.read_rubric`), which also decides
            whether the judge reads the outcome.
        instructions: instructions of the environments by id (see `rules_of`).

    Attributes:
        unread: fraction of the episodes of the last call whose scores were not in the reply.
        missing: whether this is so, for each of them.

    Raises:
        ConfigError: for a malformed address, or a file that is no rubric.
    """

    def __init__(self, word: str, instructions: Mapping[str, str]):
        rubric, model = split_source(word)
        if not model.startswith("chat:"):
            raise ConfigError(f"Expected rubric=FILE:chat:MODEL@URL, got {word!r}.")
        parts = [SYSTEM] if rubric is None else [SYSTEM, PRINCIPLES, rubric.text, rubric.lines]
        agent = make_agent(model, system="\n\n".join(part for part in parts if part))
        assert isinstance(agent, ChatAgent)
        self.shows_outcome = rubric is None or rubric.outcome
        self.agent, self.instructions = agent, instructions
        self.unread, self.missing = 0.0, list[bool]()

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Returns the scores in [0, 1] of the turns of each trajectory.

        Raises:
            ChatError: if the server sends no usable reply.
        """
        from accelerate import PartialState  # the checks of settings need no torch

        from agentgym.trainers.system.processes import map_across_processes

        texts = [self.text(trajectory) for trajectory in trajectories]
        asked = list(dict.fromkeys(texts))
        replies = map_across_processes(PartialState(), asked, self._ask)
        reply_to = dict(zip(asked, replies, strict=True))
        found = [
            read_scores(reply_to[text], len(trajectory.turns))
            for text, trajectory in zip(texts, trajectories, strict=True)
        ]
        self.missing = [scores is None for scores in found]
        self.unread = sum(self.missing) / max(len(found), 1)
        return [
            [UNKNOWN] * len(trajectory.turns) if scores is None else scores
            for scores, trajectory in zip(found, trajectories, strict=True)
        ]

    def _ask(self, texts: Sequence[str]) -> list[str]:
        """Returns the replies to some texts."""
        replies: list[str] = []
        for start in range(0, len(texts), AT_ONCE):
            replies += self.agent.act([View.of_text("", t) for t in texts[start : start + AT_ONCE]])
        return replies

    def text(self, trajectory: Trajectory) -> str:
        """Returns the text of an episode that the judge reads."""
        actors = trajectory.actors or [""] * len(trajectory.turns)
        outcome = outcome_text(trajectory.success, trajectory.episode_return)
        turns = zip(trajectory.turns, actors, strict=True)
        return episode_text(
            rules_of(trajectory, self.instructions),
            [(actor, turn.observation, turn.action) for turn, actor in turns],
            [outcome] * self.shows_outcome,
        )


def read_scores(reply: str, turns: int) -> list[float] | None:
    """Returns the scores in a judge's reply, divided by 10, or None if they are not all there."""
    lines = re.findall(r"^\W*(?:turn\s+)?(\d{1,9})\s*[:.)=]\s*(\d+(?:\.\d+)?)", reply, re.M | re.I)
    scores = {int(number): float(score) / 10 for number, score in lines}
    found = [scores.get(number, -1.0) for number in range(1, turns + 1)]
    return found if all(0 <= score <= 1 for score in found) else None
