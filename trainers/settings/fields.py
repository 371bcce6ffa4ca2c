"""Types of settings with their bounds, and how the command line reads them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypeVar

import tyro
from annotated_types import Ge, Interval, Lt

from agentgym.utils.arguments import parse_arguments

KeyValues = Annotated[
    dict[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="KEY=VALUE",
        instance_from_str=parse_arguments,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{key}={item}" for key, item in value.items()],
    ),
]

KeyNumbers = Annotated[KeyValues, Ge(-math.inf)]
"""Numbers by name."""


def _one_or_more(metavar: str) -> Any:
    """Returns how the command line reads one word as a str, and several as a tuple."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{metavar} [{metavar} ...]",
        instance_from_str=lambda words: words[0] if len(words) == 1 else tuple(words),
        is_instance=lambda value: isinstance(value, str | tuple),
        str_from_instance=lambda value: [value] if isinstance(value, str) else list(value),
    )


EnvIds = Annotated[str | tuple[str, ...], _one_or_more("ID")]
"""One id, or several."""
Opponents = Annotated[str | tuple[str, ...], _one_or_more("OPPONENT")]
"""One kind of opponents, or a mixture of several (`agentgym.trainers.settings.opponents`)."""
Count = Annotated[int, Ge(0)]
"""An integer of at least 0."""
Positive = Annotated[int, Ge(1)]
"""An integer of at least 1."""
NonNegative = Annotated[float, Ge(0.0)]
"""A number of at least 0."""
Fraction = Annotated[float, Interval(ge=0.0, le=1.0)]
"""A number in [0, 1]."""
Seed = Annotated[int, Ge(0), Lt(2**63)]
"""An integer of at least 0 and below 2^63."""
Normalize = Literal["batch", "env", "task", "agent", "group", "none"]

T = TypeVar("T")
if TYPE_CHECKING:
    ByModel = Annotated[T, None]
else:
    ByModel = Optional
"""A setting whose default depends on the kind of model. None stands for that default until
`TrainConfig` replaces it by the value in `model_defaults`."""
BY_MODEL: Any = None
