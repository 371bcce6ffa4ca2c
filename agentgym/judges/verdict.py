"""`Verdict`: the judgement of an episode, and the strict reading of a model's reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.judges.rubric import Rubric

CAUSES = {
    "memory": "forgets or misremembers earlier observations or actions",
    "reflection": "misjudges its progress, or the result of an action",
    "planning": "pursues an impossible, inefficient or wrong plan",
    "action": "means the right step, and writes a wrong or malformed action",
    "system": "is stopped by the environment or a limit, by no mistake of its own",
}
"""Causes of failures by module of the agent, as in the taxonomy of "Where LLM Agents Fail and How
They can Learn From Failures" (arXiv 2509.25370)."""
SOLVED = 0.5
"""From this score on, an episode counts as solved."""
MOST = 10
LONGEST_LINE = 200
"""Characters of a line with a score."""
_BEFORE, _AFTER = r"[\s*_`>#-]*", r"[\s*_`.]*"
_SCORE = re.compile(
    rf"{_BEFORE}(\w[^:=]*?)[\s*_`]*[:=][\s*_`]*([0-9]+(?:\.[0-9]+)?)(?:\s*/\s*{MOST})?{_AFTER}"
)
_WORD = re.compile(rf"{_BEFORE}(cause|turn)[\s*_`]*[:=][\s*_`]*(\w+){_AFTER}", re.IGNORECASE)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Verdict:
    """The judgement of an episode.

    Attributes:
        score: in [0, 1]. None: the reply of the judge is unreadable.
        scores: scores of the criteria in [0, 1], by name.
        cause: cause of the failure, one of `CAUSES`, "" for a solved episode or if none is named.
        turn: number of the turn with the decisive mistake, from 1 on. None: none is named.
    """

    score: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    cause: str = ""
    turn: int | None = None

    @property
    def success(self) -> bool | None:
        """Whether the judge considers the task solved. None: unreadable."""
        return None if self.score is None else self.score >= SOLVED


UNREADABLE = Verdict()


def read_verdict(reply: str, rubric: Rubric, turns: int) -> Verdict:
    """Returns the verdict in a reply, `UNREADABLE` unless it holds one score of each criterion.

    A score is a line `NUMBER: SCORE`, `NAME: SCORE` or `NUMBER. NAME: SCORE`, from 0 to 10. Two
    different scores of a criterion make the reply unreadable. The cause and the turn are read
    likewise, each by itself. Thoughts between the tags <think> and </think> are ignored.

    Args:
        reply: the reply.
        rubric: the criteria.
        turns: number of turns of the episode.
    """
    lines = [each for each in _THOUGHT.sub("", reply).split("\n") if len(each) <= LONGEST_LINE]
    found: dict[str, set[float]] = {each.name: set() for each in rubric.criteria}
    names: dict[str, str] = {}
    for i, name in enumerate(found, 1):
        names |= dict.fromkeys((str(i), name.lower(), f"{i}. {name.lower()}"), name)
    for line in lines:
        if (match := _SCORE.fullmatch(line)) and (name := names.get(match[1].lower())):
            found[name].add(float(match[2]) / MOST)
    if any(len(scores) != 1 or not 0 <= max(scores) <= 1 for scores in found.values()):
        return UNREADABLE
    scores = {name: scores.pop() for name, scores in found.items()}
    score = rubric.score(scores)
    if score >= SOLVED:
        return Verdict(score, scores)
    cause, turn = _words(lines)
    at = int(turn) if re.fullmatch(r"\d{1,6}", turn, re.ASCII) else 0
    cause = cause if cause in CAUSES else ""
    return Verdict(score, scores, cause, at if 1 <= at <= turns else None)


def _words(lines: list[str]) -> tuple[str, str]:
    """Returns the cause and the turn that some lines name, "" without one or with several."""
    named: Mapping[str, set[str]] = {"cause": set(), "turn": set()}
    for line in lines:
        if match := _WORD.fullmatch(line):
            named[match[1].lower()].add(match[2].lower())
    cause, turn = (each.pop() if len(each) == 1 else "" for each in named.values())
    return cause, turn
