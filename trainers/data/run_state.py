"""`RunState`: the counters and evaluations of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentgym.utils.serialization import ADDED


@dataclass
class SelfPlayHistory:
    """What the alarms of self-play compare.

    Attributes:
        exploitability: that of each evaluation, or its lower bound.
        errors: their standard errors. 0: exact.
        beaten: members of the pool that the policy has beaten in an evaluation.
        entropy: mean entropy per token in the last iteration, in nats (None: not known).
        largest_entropy: the largest one of all iterations.
    """

    exploitability: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    beaten: list[int] = field(default_factory=list)
    entropy: float | None = None
    largest_entropy: float = 0.0

    def observe(self, entropy: float | None) -> None:
        """Takes the entropy of an iteration into account."""
        self.entropy = entropy
        self.largest_entropy = max(self.largest_entropy, entropy or 0.0)


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
        best_exploitability: that of the best evaluation (None: it was chosen by its reward).
        self_play: what the alarms of self-play compare.
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
    best_exploitability: float | None = field(default=None, metadata=ADDED)
    self_play: SelfPlayHistory = field(default_factory=SelfPlayHistory, metadata=ADDED)
