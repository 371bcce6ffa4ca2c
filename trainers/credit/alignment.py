"""Advantage alignment: agents of a general-sum game count each other's advantages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.scan import Float64, discounted_returns
from agentgym.trainers.credit.two_clock import broadcast, check_fraction
from agentgym.trainers.trajectory import Batch, Credit, IntArray, Values


@dataclass(frozen=True)
class AdvantageAlignment:
    """Group-relative advantages and, weighted by an agent's own past ones, those of its opponents.

    For agent i in turn t of the environment, with its return G_i(t) from then on,

        A_i(t) = G_i(t) - mean of the group's other G_i(t)
        W_i(t) = gamma sum_{k < t} gamma^(t - k) A_i(k), divided by 1 + t with `average`
        A'_i(t) = A_i(t) + beta W_i(t) sum_{j != i} A_j(t)

    Actions that are good for the others are reinforced if the past was good for the agent, and
    discouraged if it was bad. The group holds the episodes with the same start and agent.

    Source: "Advantage Alignment Algorithms" (arXiv 2406.14662, eq. 6), with the group-relative
    baseline of "Learning Robust Social Strategies with Large Language Models" (arXiv 2511.19405).

    Attributes:
        beta: weight of the others' advantages.
        gamma: discount between turns of the environment.
        average: divides the sum of past advantages by their number and 1.

    Raises:
        ValueError: if `gamma` is not in [0, 1].
    """

    beta: float = 1.0
    gamma: float = 0.96
    average: bool = True

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        joint = Joint.of(batch)
        owner, time = batch.turn_trajectory, np.empty(batch.num_turns, np.int64)
        time[joint.turns] = joint.clock
        span = int(time.max()) + 1
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        members = members_of(batch.groups[owner] * span + time)
        own = members.compare(returns, scale=False, epsilon=0.0)
        own *= members.count / np.maximum(members.count - 1, 1)
        together, alone = joint.episode[owner] * span + time, owner * span + time
        others = np.bincount(together, own)[together] - np.bincount(alone, own)[alone]
        shaping = self.beta * self._past(own, time, batch) * others
        metrics = members.metrics("group", returns)
        metrics["alignment"] = float(np.abs(shaping).mean())
        return Credit(broadcast(own + shaping, batch), metrics=metrics)

    def _past(self, advantages: Float64, time: IntArray, batch: Batch) -> Float64:
        """Returns the weight W of each turn [M]."""
        weights = np.zeros(batch.num_turns)
        for start, stop in zip(batch.turn_offsets, batch.turn_offsets[1:], strict=False):
            past = 0.0
            for m in range(start + 1, stop):
                past = (past + advantages[m - 1]) * self.gamma ** (time[m] - time[m - 1])
                weights[m] = past
        weights *= self.gamma
        return weights / (1 + time) if self.average else weights
