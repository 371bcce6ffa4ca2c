"""Group-relative credit: trajectories that start in the same state are each other's baseline.

No critic is needed. A group u holds the trajectories with equal `Batch.groups`. A trajectory that
is alone in its group gets advantage 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import Float64, discounted_returns
from agentgym.trainers.credit.two_clock import broadcast, check_fraction
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import IntArray

Anchor = Literal["state", "observation"]
"""The label of the state of a turn: `Turn.state_key` or `Turn.observation`."""


@dataclass(frozen=True)
class GroupBaseline:
    """Trajectory-level advantage: the return relative to the group, shared by all tokens.

        A(tau) = R(tau) - mean_u R, or R(tau) - mean of the other returns with `leave_one_out`,

    divided by std_u R + epsilon with `scale`.

    Attributes:
        leave_one_out: excludes a trajectory from its own baseline, which makes it unbiased.
        scale: divides by the group's sample standard deviation (n - 1).
        outcome: "return" compares undiscounted returns, "success" compares 1 for success, else 0.
        statistics: weighting of mean and standard deviation. "trajectories" counts each trajectory
            once, "turns" counts it once per turn (not with `leave_one_out`).
        by_agent: gives every agent of a game a group of its own. Otherwise all agents that start in
            the same state are compared.
        epsilon: added to the standard deviation.
    """

    leave_one_out: bool = False
    scale: bool = False
    outcome: Literal["return", "success"] = "return"
    statistics: Literal["trajectories", "turns"] = "trajectories"
    by_agent: bool = True
    epsilon: float = 1e-6

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        outcomes = trajectory_outcomes(batch, self.outcome)
        weights = np.diff(batch.turn_offsets) if self.statistics == "turns" else None
        groups = batch.groups if self.by_agent else starts_of(batch)
        members = members_of(groups, weights)
        advantages = members.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        if self.leave_one_out:
            advantages *= members.count / np.maximum(members.count - 1, 1)
        return Credit(
            broadcast(advantages[batch.turn_trajectory], batch),
            metrics=members.metrics("group", outcomes),
        )


def starts_of(batch: Batch) -> IntArray:
    """Returns the index of the start of each trajectory [N], equal for all agents of an episode."""
    numbers: dict[tuple[str, str, int], int] = {}
    starts = [numbers.setdefault(t.group[:3], len(numbers)) for t in batch.trajectories]
    return np.array(starts, np.int64)


def grpo() -> GroupBaseline:
    """GRPO ("DeepSeekMath", arXiv 2402.03300, section 4.1): group mean and standard deviation."""
    return GroupBaseline(scale=True)


def dr_grpo() -> GroupBaseline:
    """Dr. GRPO: GRPO without division by the standard deviation.

    The division over-weights tasks that are very easy or very hard. Source: "Understanding
    R1-Zero-Like Training", arXiv 2503.20783. Use it with loss aggregation "constant". It is also
    the credit of MAGRPO (arXiv 2508.04652), with one group per agent.
    """
    return GroupBaseline()


def rloo() -> GroupBaseline:
    """REINFORCE leave-one-out ("Back to Basics", arXiv 2402.14740).

    LOOP (arXiv 2502.01600) combines this credit with a clipped token-level ratio.
    """
    return GroupBaseline(leave_one_out=True)


def flow_grpo() -> GroupBaseline:
    """Flow-GRPO (AgentFlow, arXiv 2510.05592): the verified outcome is broadcast to every turn."""
    return GroupBaseline(scale=True, outcome="success")


@dataclass(frozen=True)
class GiGPO:
    """Group-in-group: trajectory-level plus step-level group-relative advantages.

        A      = A_E + omega A_S
        A_E    = (R(tau) - mean_u R) / F
        A_S(t) = (G_t - mean G over the anchor group) / F
        G_t    = sum_k gamma^k r_{t+k}

    with F = std + epsilon, or 1. The anchor group of a turn holds all turns of its group in the
    same state, in any trajectory and at any time. A state visited once gives A_S = 0.

    Source: "Group-in-Group Policy Optimization for LLM Agent Training", arXiv 2505.10978.

    Attributes:
        gamma: discount of the return-to-go.
        omega: weight of the step-level advantage.
        scale: divides by the sample standard deviation (n - 1). If False, F = 1.
        statistics: weighting of mean_u and std_u. "trajectories" counts each trajectory once, as in
            the paper. "steps" counts it once per turn, as the authors' code does by default.
        anchor: states are the same if their keys are ("state"), or the texts that the agent read
            ("observation").
        epsilon: added to the standard deviation.

    Raises:
        ValueError: if `gamma` is not in [0, 1], or `statistics` or `anchor` is unknown.
    """

    gamma: float = 0.95
    omega: float = 1.0
    scale: bool = True
    statistics: Literal["trajectories", "steps"] = "trajectories"
    anchor: Anchor = "state"
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        _check_anchor(self.anchor)
        if self.statistics not in ("trajectories", "steps"):
            raise ValueError(
                f"statistics must be 'trajectories' or 'steps', got {self.statistics!r}."
            )

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        outcomes = trajectory_outcomes(batch, "return")
        weights = np.diff(batch.turn_offsets) if self.statistics == "steps" else None
        episodes = members_of(batch.groups, weights)
        episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        anchors = members_of(anchor_groups(batch, self.anchor))
        step = anchors.compare(returns, scale=self.scale, epsilon=self.epsilon)
        metrics = episodes.metrics("group", outcomes) | anchors.metrics("anchor", returns)
        metrics |= _merged(batch, anchors, self.anchor)
        advantages = episode[batch.turn_trajectory] + self.omega * step
        return Credit(broadcast(advantages, batch), metrics=metrics)


@dataclass(frozen=True)
class HGPO:
    """Hierarchy of groups: step-level advantages in groups of turns with equal recent histories.

    At level k = 1..history + 1, the group of a turn holds the turns of its task group with the same
    last k states, including the current one, and A_k(t) = (G_t - mean) / F in this group. Turn t
    (from 0) has levels up to t + 1. A(t) = sum_k w_k A_k(t) over the levels at which the group has
    more than one member, with weights in proportion to (k + 1)^alpha. If there is no such level,
    A(t) = 0.

    Source: "Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks", arXiv
    2602.22817. Difference: the authors' code drops levels whose advantage is exactly 0. Here these
    levels are included.

    Attributes:
        history: K, the number of states before the current one.
        alpha: exponent of the level weights. Larger values favour longer histories.
        gamma: discount of the return-to-go.
        scale: divides by the population standard deviation (n), at level 0 by that of the sample (n
            - 1). If False, F = 1.
        base: adds the trajectory-level group-relative advantage as level 0.
        anchor: as in `GiGPO`.
        epsilon: added to the standard deviation.

    Raises:
        ValueError: if `gamma` is not in [0, 1], `history` is negative or `anchor` is unknown.
    """

    history: int = 2
    alpha: float = 1.0
    gamma: float = 0.95
    scale: bool = True
    base: bool = False
    anchor: Anchor = "state"
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        _check_anchor(self.anchor)
        if self.history < 0:
            raise ValueError(f"history must be at least 0, got {self.history}.")

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        states = anchor_groups(batch, self.anchor)
        anchors = members_of(states)
        place = np.arange(batch.num_turns) - batch.turn_offsets[batch.turn_trajectory]
        total, weight = np.zeros(batch.num_turns), np.zeros(batch.num_turns)
        metrics = anchors.metrics("anchor", returns) | _merged(batch, anchors, self.anchor)
        if self.base:
            outcomes = trajectory_outcomes(batch, "return")
            episodes = members_of(batch.groups, np.diff(batch.turn_offsets))
            episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
            companions = members_of(batch.groups).count > 1
            total += (episode * companions)[batch.turn_trajectory]
            weight += companions[batch.turn_trajectory]
        chain = states
        for k in range(1, self.history + 2):
            if k > 1:  # the last k states: the previous turn's last k - 1 states, and this one
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


def weigh_by_difficulty(credit: Credit, batch: Batch) -> Credit:
    """Returns the credit with larger advantages for groups with fewer successes.

    The weight of a group is 2 - its share of successes, divided by the mean over the trajectories.
    All members of a group share it, so the direction of the gradient of each task is unchanged.
    Weights by difficulty are in "UniVG-R1" (arXiv 2505.14231) and GRPO-LEAD (arXiv 2504.09696). The
    function is ours.

    Args:
        credit: the credit.
        batch: its batch.
    """
    success = np.array([t.success for t in batch.trajectories], np.float64)
    weight = 2.0 - members_of(batch.groups).mean(success)
    weight = (weight / weight.mean())[batch.turn_trajectory][batch.token_turn]
    return replace(credit, advantages=credit.advantages * weight.astype(np.float32))


def trajectory_outcomes(batch: Batch, outcome: Literal["return", "success"]) -> Float64:
    """Returns the undiscounted return, or the success (0 or 1), of each trajectory [N].

    Raises:
        ValueError: if `outcome` is unknown.
    """
    if outcome == "success":
        return np.array([t.success for t in batch.trajectories], np.float64)
    if outcome != "return":
        raise ValueError(f"outcome must be 'return' or 'success', got {outcome!r}.")
    return np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])


def anchor_groups(batch: Batch, anchor: Anchor = "state") -> IntArray:
    """Returns group indices [M], equal for turns of one group in the same state.

    Args:
        batch: the trajectories.
        anchor: the label of a state, its key or the observation.
    """
    numbers: dict[str, int] = {}
    labels = (t.state_key if anchor == "state" else t.observation for t in batch.turns)
    keys = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
    groups = np.unique(batch.groups, return_inverse=True)[1]
    joined = groups[batch.turn_trajectory] * len(numbers) + keys
    return np.unique(joined, return_inverse=True)[1]


def anchor_values(batch: Batch, gamma: float) -> Float64:
    """Returns the mean return-to-go of the group's visits to the state of each turn [M].

    Without a critic, the return after a truncation is unknown and counts as 0.
    """
    returns = discounted_returns(batch.rewards, batch.turn_offsets, gamma)
    return members_of(anchor_groups(batch)).mean(returns)


def _check_anchor(anchor: str) -> None:
    """Raises ValueError for an unknown anchor."""
    if anchor not in get_args(Anchor):
        raise ValueError(f"anchor must be 'state' or 'observation', got {anchor!r}.")


def _merged(batch: Batch, anchors: Members, anchor: Anchor) -> dict[str, float]:
    """Returns the share of turns whose observation the group has read in several states.

    Empty if states are compared by their keys, which merge none.
    """
    if anchor == "state":
        return {}
    low, high = anchors.range(anchor_groups(batch).astype(np.float64))
    return {"anchor/merged": float((low != high).mean())}


@dataclass(frozen=True)
class Members:
    """Partition of n items into groups.

    Attributes:
        group: [n] index of each item's group, 0..groups - 1.
        weight: [n] weight of each item in its group's statistics.
        count: [n] size of each item's group.
    """

    group: IntArray
    weight: Float64
    count: IntArray

    def mean(self, x: Float64) -> Float64:
        """Returns the weighted mean of each item's group [n]."""
        sums = np.bincount(self.group, self.weight * x)
        return (sums / np.bincount(self.group, self.weight))[self.group]

    def range(self, x: Float64) -> tuple[Float64, Float64]:
        """Returns the smallest and the largest item of each item's group [n]."""
        low = np.full(self.group.max(initial=-1) + 1, np.inf)
        high = -low
        np.minimum.at(low, self.group, x)
        np.maximum.at(high, self.group, x)
        return low[self.group], high[self.group]

    def compare(self, x: Float64, *, scale: bool, epsilon: float, correction: int = 1) -> Float64:
        """Returns each item minus its group's mean [n], exactly 0 in groups of equal items.

        Args:
            x: [n] items.
            scale: divides by the group's standard deviation.
            epsilon: added to the standard deviation.
            correction: subtracted from the total weight in the variance (1: sample variance).
        """
        mean = np.clip(self.mean(x), *self.range(x))  # that of equal items may be rounded
        difference = np.where(self.count > 1, x - mean, 0.0)
        if not scale:
            return difference
        total = np.bincount(self.group, self.weight)
        squares = np.bincount(self.group, self.weight * difference**2)
        std = np.sqrt(squares / np.maximum(total - correction, 1.0))
        return difference / (std[self.group] + epsilon)

    def metrics(self, name: str, x: Float64) -> dict[str, float]:
        """Returns the fractions of items that are alone, and of those in groups of equal items."""
        low, high = self.range(x)
        return {
            f"{name}/alone": float((self.count == 1).mean()),
            f"{name}/all_equal": float((low == high).mean()),
        }


def members_of(labels: IntArray, weights: ArrayLike | None = None) -> Members:
    """Groups items by label.

    Args:
        labels: [n] label of each item.
        weights: [n] weight of each item. If None, all weights are 1.
    """
    group = np.unique(labels, return_inverse=True)[1]
    weight = np.ones(len(group)) if weights is None else np.asarray(weights, np.float64)
    return Members(group, weight, np.bincount(group)[group] if len(group) else group)
