"""Advantage alignment: agents of a general-sum game count each other's advantages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.scan import Float64, discounted_returns
from agentgym.trainers.credit.two_clock import broadcast, check_fraction
from agentgym.trainers.data.batch import Batch, Credit, Values


@dataclass(frozen=True)
class AdvantageAlignment:
    """Group-relative advantages and, weighted by an agent's own past ones, those of its opponents.

    For agent i in turn t of the environment, with its return G_i(t) from then on,

        A_i(t) = G_i(t) - mean of the group's other G_i(t)
        W_i(t) = gamma sum_{k < t} gamma^(t - k) A_i(k), divided by 1 + t with `average`
        A'_i(t) = A_i(t) + beta W_i(t) sum_{j != i} A_j(t)

    The turns are those in which any agent acts. In a game of alternating turns, the others do
    nothing in an agent's turn, and have an advantage by what it does.

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
        joint, owner = Joint.of(batch), batch.turn_trajectory
        rewards, time = joint.rewards_by_time(), joint.time
        lengths = np.zeros(len(batch.trajectories), np.int64)  # turns of the environment
        np.maximum.at(lengths, joint.episode[owner], time + 1)
        lengths = lengths[joint.episode]
        turns = np.arange(rewards.shape[1])
        played = turns < lengths[:, None]
        starts = len(turns) * np.arange(len(rewards) + 1)
        returns = discounted_returns(rewards.ravel(), starts, self.gamma)[played.ravel()]
        members = members_of((batch.groups[:, None] * len(turns) + turns)[played])
        own = np.zeros_like(rewards)
        own[played] = members.compare(returns, scale=False, epsilon=0.0)
        own[played] *= members.count / np.maximum(members.count - 1, 1)
        together = np.zeros_like(rewards)
        np.add.at(together, joint.episode, own)
        shaping = self.beta * self._past(own) * (together[joint.episode] - own)
        metrics = members.metrics("group", returns)
        metrics["alignment"] = float(np.abs(shaping[owner, time]).mean())
        return Credit(broadcast((own + shaping)[owner, time], batch), metrics=metrics)

    def _past(self, advantages: Float64) -> Float64:
        """Returns the weights W [N, T] of advantages [N, T]."""
        weights = np.zeros_like(advantages)
        for t in range(1, advantages.shape[1]):
            weights[:, t] = self.gamma * (weights[:, t - 1] + self.gamma * advantages[:, t - 1])
        return weights / (1 + np.arange(advantages.shape[1])) if self.average else weights
