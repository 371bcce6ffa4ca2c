"""`Rubric`: the criteria of a judge, from a text or a JSON file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError
from agentgym.utils.serialization import from_json

_CRITERION = re.compile(r"[-*]\s+([^:()]+?)\s*(?:\((?:weight\s+)?([^()]*)\))?:\s+(\S.*)")
_OUTCOME = re.compile(r"outcome:\s*(\S+)", re.IGNORECASE)
_SHOWN = {"shown": True, "hidden": False}
RESERVED = ("cause", "turn")
"""Names of the other lines of a reply."""


@dataclass(frozen=True)
class Criterion:
    """A criterion of a rubric.

    Attributes:
        name: its name.
        text: the question that the judge answers by a score.
        weight: its weight in the score of the episode.
    """

    name: str
    text: str
    weight: float = 1.0


DEFAULT = (Criterion("task", "The agent has done all that the rules ask for."),)


@dataclass(frozen=True)
class Rubric:
    """The criteria of a judge.

    Attributes:
        criteria: the criteria, at least one.
        text: further guidance.
        outcome: whether the judge reads the outcome of the episode: success and return.
    """

    criteria: tuple[Criterion, ...] = DEFAULT
    text: str = ""
    outcome: bool = False

    def __post_init__(self) -> None:
        """Checks the criteria."""
        names = [each.name.lower() for each in self.criteria]
        taken = [name for name in names if name in RESERVED or name.isdecimal() or not name]
        if not names or len(set(names)) < len(names) or taken:
            raise ConfigError(
                "A rubric needs criteria with different names, which are no numbers and not "
                f"{' or '.join(RESERVED)}, got {names}."
            )
        for each in self.criteria:
            if not 0 < each.weight < math.inf:
                raise ConfigError(
                    f"The weight of the criterion {each.name!r} must be finite and above 0, got "
                    f"{each.weight}."
                )

    @property
    def lines(self) -> str:
        """The numbered criteria as text."""
        return "\n".join(f"{i}. {c.name}: {c.text}" for i, c in enumerate(self.criteria, 1))

    def score(self, scores: Mapping[str, float]) -> float:
        """Returns the weighted mean of the scores of all criteria."""
        total = math.fsum(each.weight for each in self.criteria)
        return math.fsum(each.weight * scores[each.name] for each in self.criteria) / total


def read_rubric(path: Path) -> Rubric:
    """Returns the rubric of a file.

    In a text or Markdown file, each line `- NAME (WEIGHT): QUESTION` is a criterion, with weight 1
    by default. A line `outcome: shown` or `outcome: hidden` (the default) decides whether the judge
    reads the outcome. All other lines are guidance. A text without criteria is a single one. A JSON
    file holds an object with `criteria` (objects with `name`, `text` and `weight`), `text` and
    `outcome`.

    Raises:
        ConfigError: if the file is missing, empty, or holds anything else.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The rubric {str(path)!r} cannot be read as text: {error}.") from error
    if not text.strip():
        raise ConfigError(f"The rubric {str(path)!r} is empty. Expected criteria.")
    try:
        return _of_json(text) if path.suffix == ".json" else _of_text(text)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not a rubric: {error!s:.300}") from error


@dataclass(frozen=True)
class _Fields:
    """The fields of a JSON file."""

    criteria: list[dict[str, Any]]
    text: str = ""
    outcome: bool = False


def _of_json(text: str) -> Rubric:
    found = json.loads(text)
    known = {"criteria", "text", "outcome"}
    if not isinstance(found, dict) or not found.keys() <= known or "criteria" not in found:
        raise ValueError(f"expected an object with criteria, text and outcome, got {text:.80}")
    fields = from_json(_Fields, {"text": "", "outcome": False} | found)
    for each in fields.criteria:
        if not each.keys() <= {"name", "text", "weight"}:
            raise ValueError(f"expected criteria with name, text and weight, got {each}")
    criteria = tuple(from_json(Criterion, {"weight": 1.0} | each) for each in fields.criteria)
    return Rubric(criteria, fields.text, fields.outcome)


def _of_text(text: str) -> Rubric:
    criteria, others, outcome = [], [], False
    for line in text.strip().split("\n"):
        if found := _CRITERION.fullmatch(line.strip()):
            name, weight, question = found.groups()
            criteria.append(Criterion(name, question, 1.0 if weight is None else float(weight)))
        elif found := _OUTCOME.fullmatch(line.strip()):
            if found[1].lower() not in _SHOWN:
                raise ValueError(f"expected outcome: shown or outcome: hidden, got {line!r}")
            outcome = _SHOWN[found[1].lower()]
        else:
            others.append(line)
    guidance = "\n".join(others).strip()
    if criteria:
        return Rubric(tuple(criteria), guidance, outcome)
    if not guidance:
        raise ValueError("it holds no criterion")
    return Rubric((Criterion("quality", guidance),), "", outcome)
