"""`RunState`: the counters and evaluations of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentgym.utils.serialization import ADDED


@dataclass
class RunState:
    """Counters and evaluations of a run.

    Attributes:
        iteration: finished iterations.
        env_steps: turns played.
        episodes: episodes played.
        tokens: action tokens generated.
        evaluated: the iteration after which the policy was last evaluated (-1: never).
        best_iteration: the iteration of the best evaluation (-1: none).
        best_reward: the mean reward of the best evaluation (None: none).
        first: the evaluation before the first iteration, as JSON.
        last: the latest evaluation.
        reference: the iteration in which the reference policy last moved (-1: never).
        demonstrated: success rate of the demonstrations that were cloned (None: none were).
        cloned: success rate of their clone on held-out tasks (None: it was not evaluated).
    """

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0
    tokens: int = 0
    evaluated: int = -1
    best_iteration: int = -1
    best_reward: float | None = None
    first: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    reference: int = field(default=-1, metadata=ADDED)
    demonstrated: float | None = field(default=None, metadata=ADDED)
    cloned: float | None = field(default=None, metadata=ADDED)
