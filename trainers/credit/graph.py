"""Credit on the graph of the states that a group of episodes has visited, without a critic.

An edge of the graph is a turn: from its state (`Turn.state_key`) to the next one. The last turn of
an episode leads to a success, or, if the episode terminated without one, to a failure, or, if it
was cut off, to the state after it (`Trajectory.final_state_key`). Each group has a graph of its
own. N(s) denotes all turns of the group that were taken in s, in any episode at any time.

Shapes: M turns, S nodes of all graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.credit.group import (
    anchor_groups,
    anchor_values,
    members_of,
    trajectory_outcomes,
)
from agentgym.trainers.credit.scan import Float64, reverse_scan
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, following_values
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import IntArray, Trajectory


class Node(NamedTuple):
    """A node of a graph.

    Attributes:
        group: index of the group.
        kind: a state, or how an episode ended.
        key: key of the state, "" for an end.
    """

    group: int
    kind: Literal["state", "success", "failure"]
    key: str = ""


@dataclass(frozen=True)
class Edges:
    """The graphs of a batch.

    Attributes:
        nodes: the S nodes.
        source: [M] index of the node in which each turn was taken.
        target: [M] index of the node that it led to.
    """

    nodes: tuple[Node, ...]
    source: IntArray
    target: IntArray

    @property
    def group(self) -> IntArray:
        """[S] index of the group of each node."""
        return np.array([node.group for node in self.nodes], np.int64)

    @property
    def solved(self) -> NDArray[np.bool_]:
        """[S] whether a node is a success."""
        return np.array([node.kind == "success" for node in self.nodes], bool)


def edges_of(batch: Batch) -> Edges:
    """Returns the graphs of a batch, one for each group."""
    numbers: dict[Node, int] = {}
    source, target = [], []
    for trajectory, group in zip(batch.trajectories, batch.groups.tolist(), strict=True):
        states = [Node(group, "state", turn.state_key) for turn in trajectory.turns]
        path = [numbers.setdefault(n, len(numbers)) for n in (*states, _end(trajectory, group))]
        source += path[:-1]
        target += path[1:]
    return Edges(tuple(numbers), np.array(source, np.int64), np.array(target, np.int64))


def _end(trajectory: Trajectory, group: int) -> Node:
    if trajectory.success:
        return Node(group, "success")
    if trajectory.terminated:
        return Node(group, "failure")
    return Node(group, "state", trajectory.final_state_key)


Distance = Callable[[Batch, Edges], Float64]
"""Maps the graphs of a batch to the turns from each node [S] to a success."""


def shortest_paths(batch: Batch, edges: Edges) -> Float64:
    """Returns the least number of observed turns from each node to a success of its group [S].

    A node without a path to a success is one turn farther than the farthest one with a path.
    """
    steps = np.where(edges.solved, 0.0, np.inf)
    while True:
        shorter = steps.copy()
        np.minimum.at(shorter, edges.source, steps[edges.target] + 1)
        if np.array_equal(shorter, steps):
            return bounded(steps, edges)
        steps = shorter


def bounded(steps: Float64, edges: Edges) -> Float64:
    """Returns distances [S] in which infinite ones are one more than the largest of the group."""
    known = np.isfinite(steps)
    farthest = np.zeros(edges.group.max(initial=-1) + 1)
    np.maximum.at(farthest, edges.group[known], steps[known])
    return np.where(known, steps, farthest[edges.group] + 1)


def forked(batch: Batch, edges: Edges) -> float:
    """Returns the share of repeated actions that led to several states.

    An action is repeated if it was taken in its state at least twice by the group. Chance, other
    players, or facts that the state leaves out make its outcome differ. Whether an episode was
    ended in the next state does not count, whether it succeeded there does.
    """
    turns, last = batch.turns, batch.turn_offsets[1:] - 1
    following = [turn.state_key for turn in [*turns[1:], *turns[:1]]]
    solved = np.zeros(batch.num_turns, bool)
    for trajectory, end in zip(batch.trajectories, last.tolist(), strict=True):
        following[end], solved[end] = trajectory.final_state_key, trajectory.success
    outcomes: dict[tuple[int, str], list[tuple[str, bool]]] = {}
    moves = zip(edges.source.tolist(), turns, following, solved.tolist(), strict=True)
    for node, turn, after, won in moves:
        outcomes.setdefault((node, turn.action), []).append((after, won))
    repeated = [found for found in outcomes.values() if len(found) > 1]
    differ = sum(len(found) for found in repeated if len(set(found)) > 1)
    return differ / max(sum(map(len, repeated)), 1)


@dataclass(frozen=True)
class GraphGPO:
    """Trajectory-level advantages plus comparisons of the distances from next states to a success.

        A      = A_E + A_G
        A_G(t) = (R_t - mean of R over N(s_t)) / F,    R_t = omega^d(s_{t+1})

    with the trajectory-level advantage A_E of `GiGPO`, F = std + epsilon, or 1, and the distance d
    to a success in turns, 0 for the success itself. A group without a success has A_G = 0.

    Source: "Beyond Trajectory-Level Attribution: Graph-Based Credit Assignment for Agentic
    Reinforcement Learning", arXiv 2605.26684. There, R_t is ten times as large, and so is epsilon.

    Attributes:
        omega: factor of the reward for every turn of distance.
        scale: divides by the sample standard deviation (n - 1). If False, F = 1.
        distance: the distances of nodes. By default, those in the graph of the group.
        epsilon: added to the standard deviation.

    Raises:
        ValueError: if `omega` is not in [0, 1].
    """

    omega: float = 0.8
    scale: bool = True
    distance: Distance = shortest_paths
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("omega", self.omega)

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        edges = edges_of(batch)
        rewards = (self.omega ** self.distance(batch, edges))[edges.target]
        outcomes = trajectory_outcomes(batch, "return")
        episodes, anchors = members_of(batch.groups), members_of(edges.source)
        episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        step = anchors.compare(rewards, scale=self.scale, epsilon=self.epsilon)
        metrics = episodes.metrics("group", outcomes) | anchors.metrics("anchor", rewards)
        metrics["graph/forked"] = forked(batch, edges)
        return Credit(broadcast(episode[batch.turn_trajectory] + step, batch), metrics=metrics)


@dataclass(frozen=True)
class G2PO:
    """Trajectory-level advantages plus comparisons of the values of next states.

        A      = A_E + A_S
        A_S(t) = (V(s_{t+1}) - its mean over N(s_t)) / F + (D_t - mean of D over the group) / F
        D_t    = V(s_{t+1}) - V(s_t)
        V(s)   = mean over N(s) of gamma^(T - t) R(tau)

    with the trajectory-level advantage A_E of `GiGPO`, the return R(tau) of the episode of a visit,
    its number of turns T, and F = std + epsilon, or 1. The value of the end of an episode is its
    return.

    Source: "Group-Graph Policy Optimization for Long-Horizon Agentic Reinforcement Learning", arXiv
    2606.22995. There, an end is worth 10 after a success and 0 otherwise, a tenth of which are the
    returns of an environment that rewards success alone, and epsilon is ten times as large.

    Attributes:
        gamma: discount of the return, once per turn that is left.
        scale: divides by the sample standard deviation (n - 1). If False, F = 1.
        epsilon: added to the standard deviation.

    Raises:
        ValueError: if `gamma` is not in [0, 1].
    """

    gamma: float = 0.95
    scale: bool = True
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        owner, outcomes = batch.turn_trajectory, trajectory_outcomes(batch, "return")
        left = batch.turn_offsets[1:][owner] - np.arange(batch.num_turns)
        anchors, episodes = members_of(anchor_groups(batch)), members_of(batch.groups)
        value = anchors.mean(self.gamma**left * outcomes[owner])
        following = following_values(value, outcomes, batch.turn_offsets)
        gain = members_of(batch.groups[owner]).compare(
            following - value, scale=self.scale, epsilon=self.epsilon
        )
        among = anchors.compare(following, scale=self.scale, epsilon=self.epsilon)
        episode = episodes.compare(outcomes, scale=self.scale, epsilon=self.epsilon)
        metrics = episodes.metrics("group", outcomes) | anchors.metrics("anchor", following)
        return Credit(broadcast(episode[owner] + among + gain, batch), metrics=metrics)


@dataclass(frozen=True)
class GAGPO:
    """Turn-level GAE with group-based state values instead of a critic.

        A_t  = r_t + gamma V(s_{t+1}) - V(s_t) + gamma lambda A_{t+1}
        V(s) = mean over N(s) of G_t,    G_t = sum_k gamma^k r_{t+k}

    The return after a truncation is unknown and counts as 0. With lambda = 1, the advantages equal
    GiGPO's step-level ones with F = 1. Normalise per group.

    Source: "GAGPO: Generalized Advantage Grouped Policy Optimization", arXiv 2605.13217.

    Attributes:
        gamma: discount per turn.
        lambda_: GAE lambda per turn.

    Raises:
        ValueError: if `gamma` or `lambda_` is not in [0, 1].
    """

    gamma: float = 0.95
    lambda_: float = 0.95

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        check_fraction("lambda_", self.lambda_)

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        # In float64, so that rounding errors stay tiny when advantages are normalised.
        value, ends = anchor_values(batch, self.gamma), np.zeros(len(batch.trajectories))
        following = following_values(value, ends, batch.turn_offsets)
        decay = np.full(batch.num_turns, self.gamma * self.lambda_)
        decay[batch.turn_offsets[1:] - 1] = 0.0
        delta = batch.rewards + self.gamma * following - value
        metrics = members_of(anchor_groups(batch)).metrics("anchor", delta)
        return Credit(broadcast(reverse_scan(delta, decay), batch), metrics=metrics)
