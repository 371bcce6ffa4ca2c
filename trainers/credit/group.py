"""Group-relative credit: trajectories that began in the same state are each other's baseline.

No critic. A group u holds the trajectories with equal `Batch.groups`; a trajectory without a
companion cannot be compared and gets advantage 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import Float64, discounted_returns
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, turn
from agentgym.trainers.trajectory import Batch, Credit, IntArray, Values


@dataclass(frozen=True)
class GroupBaseline:
    """One advantage a trajectory: its return against its group's, for every token.

    A(tau) = R(tau) - mean_u R,   or   R(tau) - mean of the others,   and / (std_u R + epsilon).

    Attributes:
        leave_one_out: compare with the others only, without oneself; unbiased.
        scale: divide by the group's standard deviation (of n - 1).
        outcome: what is compared: the sum of rewards, or 1 for success and 0 without.
        epsilon: keeps the division finite.
    """

    leave_one_out: bool = False
    scale: bool = False
    outcome: Literal["return", "success"] = "return"
    epsilon: float = 1e-6

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        outcomes = trajectory_outcomes(batch, self.outcome)
        members = members_of(batch.groups)
        advantages = members.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        if self.leave_one_out:
            advantages *= members.count / np.maximum(members.count - 1, 1)
        return Credit(
            broadcast(advantages[batch.turn_trajectory], batch),
            metrics=members.metrics("group", outcomes),
        )


def grpo() -> GroupBaseline:
    """GRPO: mean and standard deviation of the group ("DeepSeekMath", arXiv 2402.03300, 4.1)."""
    return GroupBaseline(scale=True)


def dr_grpo() -> GroupBaseline:
    """GRPO without the division by the standard deviation, which over-weights easy and hard tasks.

    "Understanding R1-Zero-Like Training", arXiv 2503.20783; aggregate its loss by "constant". Also
    the credit of MAGRPO (arXiv 2508.04652), where each agent is its own group.
    """
    return GroupBaseline()


def rloo() -> GroupBaseline:
    """REINFORCE leave-one-out ("Back to Basics", arXiv 2402.14740).

    LOOP (arXiv 2502.01600) is this credit with a clipped ratio for each token.
    """
    return GroupBaseline(leave_one_out=True)


def flow_grpo() -> GroupBaseline:
    """Flow-GRPO (AgentFlow, arXiv 2510.05592): one verified outcome, sent to every turn."""
    return GroupBaseline(scale=True, outcome="success")


@dataclass(frozen=True)
class GiGPO:
    """Group-in-group: the trajectory against its group, each step against its state's visits.

    A_E(tau) = (R(tau) - mean_u R) / F, A_S(t) = (G_t - mean G over the anchor group) / F, with
    G_t = sum_k gamma^k r_{t+k}; F = std + epsilon, or 1; A = A_E + omega A_S. The anchor group of a
    turn: all turns of its group taken in the state with the same `state_key`, whatever the
    trajectory or time. A state visited once gives A_S = 0.

    Source: "Group-in-Group Policy Optimization for LLM Agent Training", arXiv 2505.10978.

    Attributes:
        gamma: discount of the return to go.
        omega: weight of the step part.
        scale: F = std (of n - 1); False: F = 1.
        statistics: "trajectories": mean_u and std_u count each trajectory once, as the paper has
            it; "steps": once for each of its turns, as the authors' code does by default.
        epsilon: keeps the division finite.
    """

    gamma: float = 0.95
    omega: float = 1.0
    scale: bool = True
    statistics: Literal["trajectories", "steps"] = "trajectories"
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        if self.statistics not in ("trajectories", "steps"):
            raise ValueError(f"statistics is 'trajectories' or 'steps', not {self.statistics!r}.")

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        outcomes = trajectory_outcomes(batch, "return")
        weights = np.diff(batch.turn_offsets) if self.statistics == "steps" else None
        episodes = members_of(batch.groups, weights)
        episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        anchors = members_of(anchor_groups(batch))
        step = anchors.compare(returns, scale=self.scale, epsilon=self.epsilon)
        metrics = episodes.metrics("group", outcomes) | anchors.metrics("anchor", returns)
        advantages = episode[batch.turn_trajectory] + self.omega * step
        return Credit(broadcast(advantages, batch), metrics=metrics)


@dataclass(frozen=True)
class HGPO:
    """Hierarchy of groups: steps that share longer histories are compared more strictly.

    At level k = 1..history + 1, a turn's group holds the turns of its task group whose last k
    states (its own included) are the same, and A_k(t) = (G_t - mean) / F there. Turn t has levels
    up to t + 1. A(t) = sum_k w_k A_k(t) over the levels where it has company, with weights
    proportional to (k + 1)^alpha; 0 where it has none.

    Source: "Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks", arXiv
    2602.22817. The authors' code also drops levels whose advantage happens to be exactly 0; here
    they count as the zeros they are.

    Attributes:
        history: K, how many states before the current one count.
        alpha: how much longer histories weigh.
        gamma: discount of the return to go.
        scale: F = std (of n); False: F = 1.
        base: adds the trajectory's advantage over its group as level 0.
        epsilon: keeps the division finite.
    """

    history: int = 2
    alpha: float = 1.0
    gamma: float = 0.95
    scale: bool = True
    base: bool = False
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        if self.history < 0:
            raise ValueError(f"history counts earlier states; got {self.history}.")

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        states = anchor_groups(batch)
        place = np.arange(batch.num_turns) - batch.turn_offsets[batch.turn_trajectory]
        total, weight = np.zeros(batch.num_turns), np.zeros(batch.num_turns)
        metrics: dict[str, float] = {}
        if self.base:
            outcomes = trajectory_outcomes(batch, "return")
            episodes = members_of(batch.groups, np.diff(batch.turn_offsets))
            episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
            companions = members_of(batch.groups).count > 1
            total += (episode * companions)[batch.turn_trajectory]
            weight += companions[batch.turn_trajectory]
        chain = states
        for k in range(1, self.history + 2):
            if k > 1:  # the last k states: the last k - 1 as of one turn ago, and this one
                chain = np.append(0, chain[:-1]) * (states.max() + 1) + states
                chain = np.unique(chain, return_inverse=True)[1]
            here = np.flatnonzero(place >= k - 1)
            members = members_of(chain[here])
            level = members.compare(
                returns[here], scale=self.scale, epsilon=self.epsilon, correction=0
            )
            share = (members.count > 1) * float(k + 1) ** self.alpha
            total[here] += share * level
            weight[here] += share
            metrics[f"level_{k}/alone"] = float(1 - (members.count > 1).sum() / batch.num_turns)
        advantages = total / np.where(weight > 0, weight, 1.0)
        return Credit(broadcast(advantages, batch), metrics=metrics)


@dataclass(frozen=True)
class GAGPO:
    """Turn GAE on values that the group itself provides: no critic, but temporal differences.

    V(s) = mean of G_t over the group's visits to s (`anchor_values`); then A from `turn` with
    these values. At lambda = 1 it is GiGPO's step part with F = 1.

    After the abstract of GAGPO, arXiv 2605.13217 (details are ours); normalise per group.

    Attributes:
        gamma: discount of a turn.
        lambda_: trace decay of a turn.
    """

    gamma: float = 0.95
    lambda_: float = 0.95

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        proxies = anchor_values(batch, self.gamma)
        return Credit(turn(self.gamma, self.lambda_)(batch, proxies).advantages)


def anchor_values(batch: Batch, gamma: float) -> Values:
    """Values of states as the mean return to go of the group's visits.

    The future of a trajectory that was cut off is not known without a critic and counts as 0.
    """
    returns = discounted_returns(batch.rewards, batch.turn_offsets, gamma)
    means = members_of(anchor_groups(batch)).mean(returns)
    zeros = np.zeros(len(batch.trajectories), np.float32)
    return Values(None, means.astype(np.float32), zeros)


def trajectory_outcomes(batch: Batch, outcome: Literal["return", "success"]) -> Float64:
    """[N] the sum of rewards of each trajectory, or whether it succeeded."""
    if outcome == "success":
        return np.array([t.success for t in batch.trajectories], np.float64)
    if outcome != "return":
        raise ValueError(f"outcome is 'return' or 'success', not {outcome!r}.")
    return np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])


def anchor_groups(batch: Batch) -> IntArray:
    """[M] equal numbers for turns of one group taken in states with the same key."""
    numbers: dict[str, int] = {}
    keys = np.array(
        [
            numbers.setdefault(turn.state_key, len(numbers))
            for trajectory in batch.trajectories
            for turn in trajectory.turns
        ],
        np.int64,
    )
    groups = np.unique(batch.groups, return_inverse=True)[1]
    joined = groups[batch.turn_trajectory] * len(numbers) + keys
    return np.unique(joined, return_inverse=True)[1]


@dataclass(frozen=True)
class Members:
    """Which of n items belong together.

    Attributes:
        group: [n] number of each item's group, 0..groups - 1.
        weight: [n] how much each item counts in its group's statistics.
        count: [n] how many items each item's group has.
    """

    group: IntArray
    weight: Float64
    count: IntArray

    def mean(self, x: Float64) -> Float64:
        """[n] the weighted mean of each item's group."""
        sums = np.bincount(self.group, self.weight * x)
        return (sums / np.bincount(self.group, self.weight))[self.group]

    def compare(self, x: Float64, *, scale: bool, epsilon: float, correction: int = 1) -> Float64:
        """[n] each item minus its group's mean, over its standard deviation if `scale`.

        Args:
            x: [n].
            scale: whether to divide.
            epsilon: added to the standard deviation.
            correction: the variance is a sum over the total weight minus this.
        """
        difference = np.where(self.count > 1, x - self.mean(x), 0.0)
        if not scale:
            return difference
        total = np.bincount(self.group, self.weight)
        squares = np.bincount(self.group, self.weight * difference**2)
        std = np.sqrt(squares / np.maximum(total - correction, 1.0))
        return difference / (std[self.group] + epsilon)

    def metrics(self, name: str, x: Float64) -> dict[str, float]:
        """How many items are alone, and how many are in groups where all are equal."""
        low = np.full(self.group.max() + 1, np.inf)
        high = -low
        np.minimum.at(low, self.group, x)
        np.maximum.at(high, self.group, x)
        return {
            f"{name}/alone": float((self.count == 1).mean()),
            f"{name}/all_equal": float((low == high)[self.group].mean()),
        }


def members_of(labels: IntArray, weights: ArrayLike | None = None) -> Members:
    """Groups items by label; without weights each counts once."""
    group = np.unique(labels, return_inverse=True)[1]
    weight = np.ones(len(group)) if weights is None else np.asarray(weights, np.float64)
    return Members(group, weight, np.bincount(group)[group] if len(group) else group)
