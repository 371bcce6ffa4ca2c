"""How many tokens an action may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentgym.trainers.policy.ensemble import Ensemble
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.sampling import Sampling

Room = Callable[[Sequence[str]], int]
"""Maps the admissible actions to the maximum number of tokens of an action."""


def action_room(policy: Policy | Ensemble, sampling: Sampling, constrain: bool) -> Room:
    """Returns a function from admissible actions to the maximum length of an action in tokens."""

    def room(admissible: Sequence[str]) -> int:
        lengths = [len(policy.encode_action(text)) for text in admissible] if constrain else []
        return max(lengths, default=sampling.max_new_tokens)

    return room
