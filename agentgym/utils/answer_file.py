"""`AnswerFile`: answers of a served model on disk, so that judgements repeat and resume."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence

from agentgym.utils.cache import cache_root

AT_ONCE = 32
"""Requests that are sent at the same time."""


class AnswerFile:
    """Answers by question, in a file of the cache (see `cache_root`).

    A question is asked once: later calls, in this process or another one, read its answer. Answers
    are written as soon as they arrive, up to `AT_ONCE` at a time.

    Args:
        source: the model and its instructions, which name the file.
    """

    def __init__(self, *source: str):
        digest = hashlib.sha256(json.dumps(source).encode()).hexdigest()
        self.path = cache_root() / "answers" / f"{digest[:32]}.jsonl"
        self._known: dict[str, str] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8", errors="replace").split("\n"):
                self._read(line)

    def _read(self, line: str) -> None:
        """Reads a line. One that a killed process has left incomplete is asked again."""
        try:
            key, answer = json.loads(line)
        except (ValueError, TypeError):
            return
        if isinstance(key, str) and isinstance(answer, str):
            self._known[key] = answer

    def __call__(
        self, questions: Sequence[str], ask: Callable[[list[str]], Sequence[str]]
    ) -> list[str]:
        """Returns the answers to questions, of which `ask` answers the new ones."""
        texts = (each.encode("utf-8", "surrogatepass") for each in questions)
        keys = [hashlib.sha256(text).hexdigest() for text in texts]
        new = dict(zip(keys, questions, strict=True))
        left = [key for key in new if key not in self._known]
        for start in range(0, len(left), AT_ONCE):
            part = left[start : start + AT_ONCE]
            answers = ask([new[key] for key in part])
            self._add(dict(zip(part, answers, strict=True)))
        return [self._known[key] for key in keys]

    def _add(self, answers: dict[str, str]) -> None:
        self._known |= answers
        # A line break comes first, as a killed process may have left half a line.
        text = "".join(f"\n{json.dumps(pair)}" for pair in answers.items()) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            warnings.warn(f"Answers are not kept: {error}.", RuntimeWarning, stacklevel=3)
