"""`Ensemble`: several policies that act as one. `Request.weights` names the policy of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentgym.trainers.policy.sampling import Request, Sample, Sampling

if TYPE_CHECKING:
    from agentgym.trainers.policy.engine import Session
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.prefix_cache import Slot


class Sessions:
    """The sessions of the policies of an ensemble."""

    def __init__(self, sessions: Mapping[str, Session]):
        self.of = dict(sessions)

    def drop(self, slot: Slot) -> None:
        """Forgets the context of a slot."""
        for session in self.of.values():
            session.drop(slot)

    def clear(self) -> None:
        """Forgets all contexts."""
        for session in self.of.values():
            session.clear()


class Ensemble:
    """Several policies with the same tokenizer that act in one call.

    Args:
        policy: the policy of requests without a name of weights.
        others: the other policies by name.
    """

    def __init__(self, policy: Policy, others: Mapping[str, Policy]):
        self._policies = {"": policy, **others}
        self.encode_action, self.decode = policy.encode_action, policy.decode

    def session(self, *, by_slot: bool = True, recurring: bool = False) -> Sessions:
        """Returns empty sessions: see `Policy.session`."""
        each = {"by_slot": by_slot, "recurring": recurring}
        return Sessions({name: policy.session(**each) for name, policy in self._policies.items()})

    def act(
        self, requests: Sequence[Request], sampling: Sampling, session: Sessions | None = None
    ) -> list[Sample]:
        """Generates an action for each request, in one batch per policy: see `Policy.act`."""
        samples: dict[int, Sample] = {}
        for name, policy in self._policies.items():
            mine = [i for i, request in enumerate(requests) if request.weights == name]
            if mine:
                own = None if session is None else session.of[name]
                acted = policy.act([requests[i] for i in mine], sampling, own)
                samples |= zip(mine, acted, strict=True)
        return [samples[i] for i in range(len(requests))]
