"""Numbers that functions of users return: of Python, NumPy, PyTorch, fractions or decimals."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any

from agentgym.errors import ConfigError


def as_number(value: Any) -> float | None:
    """Returns a real number as a float: NaN and infinities too. None for anything else."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction that no float can hold
        return math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def finite_number(value: Any) -> float | None:
    """Returns a finite real number as a float, None for anything else."""
    number = as_number(value)
    return number if number is not None and math.isfinite(number) else None


def score_of(source: str, returned: Any) -> float:
    """Returns the score that the function of a source returned.

    Raises:
        ConfigError: if it is no finite number.
    """
    score = finite_number(returned)
    if score is None:
        raise ConfigError(f"{source} must return a finite number, got {returned!r:.80}.")
    return score
