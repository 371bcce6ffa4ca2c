"""Rubrics that a language model induces from notes on episodes, or from symptoms that it finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.text_model import TextModel
from agentgym.data.episode import RecordedEpisode
from agentgym.data.episode_text import LONGEST, episode_text, outcome_text
from agentgym.errors import DataError
from agentgym.judges.rubric import Criterion, Rubric
from agentgym.reading.typography import without_thoughts
from agentgym.utils.files import replace_text

SYMPTOM = (
    "You read the record of an episode in which an agent has failed. You know nothing about how "
    "the agent is made. Describe the symptom in one line, as in a report of a bug: what it does in "
    "which situation, and what should have happened. Do not guess causes inside of the agent."
)
CLUSTER = (
    "You read numbered notes on the behaviour of an agent, by people who have watched it. Find the "
    "few kinds of behaviour behind them, and write a criterion for each: a short name, and a "
    "statement that is true of good behaviour and that a judge can decide by reading an episode. "
    "Criteria do not overlap. Reply with one line per criterion, such as\n"
    "- reads before acting: The agent opens a page before it decides about it.\n"
    "and nothing else."
)
MATCH = (
    "You read a note on the behaviour of an agent, and numbered criteria. Name the criteria that "
    "the note is about, whether it praises or blames, as numbers on one line, such as `1, 3`, or "
    "reply with: none"
)
_CRITERION = re.compile(r"\s*[-*]\s+\**([^:*()]{1,60}?)\**:\**\s+(\S.*)")
AT_ONCE = 60
"""Notes of a request."""


def symptoms(source: str, episodes: Sequence[RecordedEpisode]) -> list[str]:
    """Returns a line about each failed episode, in order: the symptom, as an outsider sees it.

    The critic of "AgentDevel: Reframing Self-Evolving LLM Agents as Release Engineering" (arXiv
    2601.04620), which reads the actions of an agent and not how it is made. `agentgym compare` is
    the gate of its releases, and `induced` groups the lines.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME.
        episodes: the episodes. Those that succeeded are left out.

    Raises:
        ConfigError: for another model.
        ChatError: if a server sends no usable reply. Earlier replies are kept.
    """
    texts = [
        episode_text(
            each.instructions or "",
            [("", turn.observation, turn.action) for turn in each.turns],
            [f"Last observation: {each.last_observation}", outcome_text(False, each.reward)],
        )
        for each in episodes
        if not each.success
    ]
    return TextModel(source, SYMPTOM)(texts) if texts else []


@dataclass(frozen=True)
class Induced:
    """A rubric that was induced from notes.

    Attributes:
        rubric: the criteria.
        matches: the places of the criteria that each note is about. None: the reply about it cannot
            be read, and the note does not count.
    """

    rubric: Rubric
    matches: tuple[tuple[int, ...] | None, ...]

    @property
    def coverage(self) -> float:
        """The share of notes that are about a criterion."""
        read = [found for found in self.matches if found is not None]
        return sum(bool(found) for found in read) / max(1, len(read))

    @property
    def redundancy(self) -> float:
        """The share of the covered notes that are about several criteria."""
        covered = [found for found in self.matches if found]
        return sum(len(found) > 1 for found in covered) / max(1, len(covered))

    def save(self, path: str | Path) -> None:
        """Writes the rubric as a file of criteria: see `read_rubric`."""
        lines = [f"- {each.name}: {each.text}\n" for each in self.rubric.criteria]
        replace_text(Path(path), "".join(lines))


def induced(source: str, notes: Sequence[str], *, rounds: int = 2) -> Induced:
    """Returns a rubric for notes on episodes.

    "AutoLibra: Agent Metric Induction from Open-Ended Feedback" (arXiv 2505.02820): notes of people
    become criteria, whose quality is the share of notes that they cover, and how little they
    overlap. The next round reads the notes that are not covered. The best coverage counts.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME. Its replies are kept (see
            `Replies`).
        notes: at least one note, of people or of `symptoms`.
        rounds: maximum number of requests for criteria.

    Raises:
        ConfigError: for another model.
        DataError: if there are no notes, or no reply holds a criterion.
        ChatError: if a server sends no usable reply. Earlier replies are kept.
    """
    texts = [" ".join(note.split())[:LONGEST] for note in notes if note.strip()]
    if not texts:
        raise DataError("A rubric is induced from notes, and there are none.")
    agent = make_agent(source)
    ask, match = Replies(agent, source, CLUSTER), Replies(agent, source, MATCH)
    numbered = "\n".join(f"{i}. {text}" for i, text in enumerate(texts[:AT_ONCE], 1))
    parts, best = [numbered], None
    for _ in range(rounds):
        [reply] = ask(["\n\n".join(parts)])
        criteria = read_criteria(reply)
        if not criteria:
            parts.append("An earlier reply held no line of a criterion.")
            continue
        rubric = Rubric(criteria)
        replies = match([f"Criteria:\n{rubric.lines}\n\nNote: {text}" for text in texts])
        found = Induced(rubric, tuple(_numbers(each, len(criteria)) for each in replies))
        if best is None or found.coverage > best.coverage:
            best = found
        if found.coverage == 1:
            break
        left = [text for text, places in zip(texts, found.matches, strict=True) if places == ()]
        missed = "\n".join(f"- {text}" for text in left[:AT_ONCE])
        parts = [numbered, f"Earlier criteria:\n{rubric.lines}", f"They miss:\n{missed}"]
    if best is None:
        raise DataError(f"{source} wrote no criterion in {rounds} replies.")
    return best


def read_criteria(reply: str) -> tuple[Criterion, ...]:
    """Returns the criteria in a reply, the first of equal names."""
    found: dict[str, Criterion] = {}
    for line in without_thoughts(reply).split("\n"):
        if (match := _CRITERION.fullmatch(line)) and match[1].strip().lower() not in found:
            name = match[1].strip()
            found[name.lower()] = Criterion(name, match[2].strip())
    return tuple(found.values())


def _numbers(reply: str, count: int) -> tuple[int, ...] | None:
    """Returns the places of the criteria that a reply names, None if it cannot be read."""
    line = without_thoughts(reply).strip().split("\n")[0].strip(" .")
    if line.lower() == "none":
        return ()
    words = [word.strip() for word in line.split(",")]
    if not all(re.fullmatch(r"\d{1,4}", word) and 1 <= int(word) <= count for word in words):
        return None
    return tuple(sorted({int(word) - 1 for word in words}))
