"""`Proposal`: the values of a change that a scripted user expects a service agent to propose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentgym.envs.service.vocabulary import Words

CANCEL = r"\bcancel\w*"
"""Topic of cancellations."""
Value = tuple[str, str]
"""Kind and value: "order" (or reservation), "flight", "date", "amount", "bags", "method" (id of a
payment method), "name", "number", "place" (origin, then destination), or another kind of
`Proposal.words`."""


@dataclass(frozen=True)
class Proposal:
    """The values of a change, by which the user judges a proposal.

    Attributes:
        topic: pattern of the words that name the change.
        needed: the values that the agent must name.
        known: further values that the agent may name. Of a kind of `words`, only needed and known
            values may be named.
        base: amounts of the records concerned. Their sums, differences and multiples are known.
        methods: the user's payment methods by id.
        original: id of the original payment method of the order, if it matters.
        words: kind -> the words of its values, such as the colors of a product.
    """

    topic: str = ""
    needed: tuple[Value, ...] = ()
    known: tuple[Value, ...] = ()
    base: tuple[float, ...] = ()
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    original: str = ""
    words: Words = field(default_factory=dict)

    @cached_property
    def allowed(self) -> dict[str, frozenset[str]]:
        """Kind -> its needed and known values."""
        found: dict[str, set[str]] = {}
        for kind, value in (*self.needed, *self.known):
            found.setdefault(kind, set()).add(value)
        return {kind: frozenset(values) for kind, values in found.items()}
