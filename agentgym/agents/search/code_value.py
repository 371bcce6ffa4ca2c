"""`CodeValue`: a program as the value of a search, run in a sandbox."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from agentgym.errors import ConfigError, DataError
from agentgym.sandbox import run_cell

_CALL = """
def _value(text):
    try:
        return float(value(text))
    except Exception:
        return None

_values = [_value(_text) for _text in {texts!r}]
for _each in _values:
    print(_each)
"""


class CodeValue:
    """A program that estimates the return of an episode from an observation.

    It defines `value(observation)`, which returns a number, in the subset of Python of the sandbox
    (extra `code`). So it may come from a language model.

    Args:
        code: the program.

    Attributes:
        unread: number of observations so far for which the program found no finite number. Their
            value is 0.

    Raises:
        ConfigError: if the program does not run, or defines no function of this name.
        MissingExtraError: if the sandbox is not installed.
    """

    def __init__(self, code: str):
        self.code, self.unread = code, 0
        for cells, reason in (((code,), "runs"), ((code, "value"), "defines value(observation)")):
            if error := run_cell(cells).error.strip():
                raise ConfigError(f"Expected a program that {reason}, got:\n{error[-500:]}")

    @classmethod
    def of_file(cls, path: str) -> Self:
        """Returns the program of a file.

        Raises:
            DataError: if there is no such text in UTF-8.
            ConfigError: see above.
        """
        try:
            return cls(Path(path).read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: expected a program in UTF-8: {error}.") from None

    def values(self, observations: Sequence[str]) -> list[float]:
        """Returns the value of each observation. All of them share the limits of a program."""
        if not observations:
            return []
        outcome = run_cell((self.code, _CALL.format(texts=list(observations))))
        # The program may print, too: the values are the last lines.
        lines = outcome.output.split("\n")[:-1][-len(observations) :]
        complete = not outcome.error and len(lines) == len(observations)
        found = [_number(line) for line in lines] if complete else [None] * len(observations)
        self.unread += found.count(None)
        return [0.0 if each is None else each for each in found]


def _number(line: str) -> float | None:
    try:
        found = float(line)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
