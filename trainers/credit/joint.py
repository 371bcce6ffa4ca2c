"""Joint credit: the agents of an episode share one trajectory, in the order of acting.

A *joint trajectory* holds the turns of all agents of an episode. Its rewards are the team's: the
mean over its agents, received at the end of a turn of the environment. Agents that act one after
another in one turn of the environment (see `Turn.clock`) are *hops* of it, as tokens are of an
action, and no discount lies between them. The joint trajectory of a single agent is its own. The
agent of each turn is named in `actors`, by its role if it has one.

Shapes: N trajectories of agents, E joint trajectories, M turns and K tokens, the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.scan import Float64, reverse_scan
from agentgym.trainers.credit.two_clock import (
    Reads,
    TwoClockGAE,
    broadcast,
    check_fraction,
    require_values,
)
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import IntArray, Trajectory, episode_numbers


@dataclass(frozen=True)
class Joint:
    """The joint trajectories of a batch.

    Attributes:
        source: the batch.
        batch: the joint trajectories as a batch, with the team's rewards, for any estimator.
        episode: [N] index of the joint trajectory of each trajectory.
        turns: [M] index in `source` of each turn of `batch`.
        tokens: [K] index in `source` of each token of `batch`.
        hops: [M] whether a turn of `batch` is followed by one in the same turn of the environment.
    """

    source: Batch
    batch: Batch
    episode: IntArray
    turns: IntArray
    tokens: IntArray
    hops: NDArray[np.bool_]

    @classmethod
    def of(cls, batch: Batch) -> Joint:
        """Returns the joint trajectories: one for the agents with equal `Trajectory.episode`."""
        episode = np.array(episode_numbers(batch.trajectories), np.int64)
        order, clock = _times(batch)
        turns = np.lexsort((batch.turn_trajectory, order, episode[batch.turn_trajectory]))
        owner, clock = episode[batch.turn_trajectory][turns], clock[turns]
        hops = np.append((owner[1:] == owner[:-1]) & (clock[1:] == clock[:-1]), False)
        lengths = np.diff(batch.token_offsets)[turns]
        starts = batch.token_offsets[turns] - (np.cumsum(lengths) - lengths)
        tokens = np.arange(batch.num_tokens) + np.repeat(starts, lengths)
        members = np.split(np.argsort(episode, kind="stable"), np.cumsum(np.bincount(episode))[:-1])
        spans = np.split(turns, np.cumsum(np.bincount(owner))[:-1])
        joined = Batch.of([_joined(batch, *pair) for pair in zip(members, spans, strict=True)])
        joined = replace(joined, logprobs=batch.logprobs[tokens])
        rewards = _team_rewards(batch, turns, owner, clock) / np.bincount(episode)[owner]
        return cls(batch, joined.with_rewards(rewards), episode, turns, tokens, hops)

    @property
    def begins(self) -> NDArray[np.bool_]:
        """[M] whether a turn of `batch` is the first one in its turn of the environment."""
        return ~np.append(False, self.hops[:-1])

    @property
    def clock(self) -> IntArray:
        """[M] turn of the environment in the episode, from 0, of each turn of `batch`."""
        count = np.cumsum(self.begins)
        return count - count[self.batch.turn_offsets[:-1]][self.batch.turn_trajectory]

    @property
    def clocks(self) -> list[list[int]]:
        """[E] clock of each turn of the environment in the episode (see `Turn.clock`)."""
        found = _times(self.source)[1][self.turns][self.begins]
        owner = self.batch.turn_trajectory[self.begins]
        return [part.tolist() for part in np.split(found, np.cumsum(np.bincount(owner))[:-1])]

    @property
    def shared_turn(self) -> IntArray:
        """[M] index of a turn of the environment for each turn of `source`, of all episodes."""
        found = np.empty_like(self.turns)
        found[self.turns] = np.cumsum(self.begins) - 1
        return found

    def returns(self, gamma: float) -> Float64:
        """Returns the team's return-to-go [M] from each turn of `batch` on.

        Args:
            gamma: discount between turns of the environment.
        """
        decay = np.where(self.hops, 1.0, gamma)
        decay[self.batch.turn_offsets[1:] - 1] = 0.0
        return reverse_scan(self.batch.rewards, decay)

    @property
    def time(self) -> IntArray:
        """[M] turn of the environment in the episode, from 0, of each turn of `source`."""
        found = np.empty_like(self.turns)
        found[self.turns] = self.clock
        return found

    def rewards_by_time(self) -> Float64:
        """Returns the rewards [N, T] of each trajectory of `source` by turn of the environment."""
        batch, owner, time = self.source, self.source.turn_trajectory, self.time
        found = np.zeros((len(batch.trajectories), int(time.max()) + 1))
        np.add.at(found, (owner, time), batch.rewards)
        clock, joint_time = _times(batch)[1][self.turns], self.clock
        for m, at, reward, _ in batch.delayed:
            episode = self.episode[owner[m]]
            span = slice(*self.batch.turn_offsets[episode : episode + 2])
            last = np.searchsorted(clock[span], at, side="right") - 1
            found[owner[m], time[m]] -= reward
            found[owner[m], joint_time[span][max(int(last), 0)]] += reward
        return found

    def common_rewards(self) -> Float64:
        """Returns the team's rewards [M] in the turns of each agent of `source`.

        A turn has what the team receives from its time up to the agent's next turn, the first one
        also what it received before. The reward of the team is the mean over its agents.
        """
        source, owner, starts = self.source, self.source.turn_trajectory, self.time
        each = self.rewards_by_time()
        team = np.zeros((len(self.batch.trajectories), each.shape[1]))
        np.add.at(team, self.episode, each)
        team /= np.bincount(self.episode)[:, None]
        starts[source.turn_offsets[:-1]] = 0
        starts += owner * each.shape[1]
        found = np.add.reduceat(team[self.episode].ravel(), starts)
        found[:-1][starts[1:] == starts[:-1]] = 0.0  # an agent that acts twice in a turn
        return found

    def values(self, values: Values) -> Values:
        """Returns a critic's values of `source` for `batch`.

        The value after a truncated episode is the mean over its truncated agents.
        """
        some = ~self.source.terminated
        total, count = (np.bincount(self.episode, x) for x in (some * values.bootstrap, some))
        return Values(
            tokens=None if values.tokens is None else values.tokens[self.tokens],
            turns=values.turns[self.turns],
            bootstrap=(total / np.maximum(count, 1)).astype(np.float32),
        )

    def credit(self, credit: Credit, reads: Reads) -> Credit:
        """Returns credit of `batch` for `source`.

        Args:
            credit: credit of `batch`.
            reads: "tokens" if its value targets are of tokens, "turns" if they are of turns.
        """
        advantages = np.empty_like(credit.advantages)
        advantages[self.tokens] = credit.advantages
        targets = None
        if credit.targets is not None:
            targets = np.empty_like(credit.targets)
            targets[self.tokens if reads == "tokens" else self.turns] = credit.targets
        returns = None
        if credit.returns is not None:
            returns = np.empty_like(credit.returns)
            returns[self.turns] = credit.returns
        return replace(credit, advantages=advantages, targets=targets, returns=returns)


@dataclass(frozen=True)
class JointGAE:
    """GAE over joint trajectories, with parameters of its own for hops between agents.

    With `gae` as `turn`, for agents i = 1..n that act in this order in each turn t:

        i < n:  delta = gamma_hop V[t,i+1] - V[t,i],     A = delta + gamma_hop lambda_hop A[t,i+1]
        i = n:  delta = r[t] + gamma V[t+1,1] - V[t,n],  A = delta + gamma lambda A[t+1,1]

    and with `gae` as `poad` the same between the last token of an agent and the first of the next.
    With gamma_hop = lambda_hop = 1, the advantage of the first agent is that of the joint action,
    for any number of agents. Agents that act at once do not see each other's actions, and each
    advantage is then that of the joint action, with the agent's own baseline.

    Source: the multi-agent advantages of "MARFT: Multi-Agent Reinforcement Fine-Tuning" (arXiv
    2504.16129), which discounts hops as turns.

    Attributes:
        gae: estimator inside an action and between turns of the environment.
        gamma_hop: discount from an agent to the next one in a turn of the environment.
        lambda_hop: GAE lambda, likewise.

    Raises:
        ValueError: if a discount or lambda is not in [0, 1].
    """

    gae: TwoClockGAE = field(default_factory=TwoClockGAE)
    gamma_hop: float = 1.0
    lambda_hop: float = 1.0

    def __post_init__(self) -> None:
        """Checks that every parameter is in [0, 1]."""
        for name in ("gamma_hop", "lambda_hop"):
            check_fraction(name, getattr(self, name))

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a critic of the team's return.

        Args:
            batch: the trajectories of the agents.
            values: values of the critic, as for `gae`.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, self.gae.reads)
        joint = Joint.of(batch)
        gamma = np.where(joint.hops, self.gamma_hop, self.gae.gamma_turn)
        lambda_ = np.where(joint.hops, self.lambda_hop, self.gae.lambda_turn)
        found = self.gae.between(joint.batch, joint.values(values), gamma, lambda_)
        return joint.credit(found, self.gae.reads)


@dataclass(frozen=True)
class JointReturns:
    """Group-relative joint returns: the same advantage for all agents in a turn of the environment.

        G_t = r_t + gamma G_{t+1},    A_t = G_t - mean over the group of G_t

    with the team's rewards r. The group of turn t holds the episodes with the same start that reach
    turn t. A turn that is alone has advantage 0.

    Source: MAGRPO, "LLM Collaboration With Multi-Agent Reinforcement Learning" (arXiv 2508.04652).

    Attributes:
        gamma: discount between turns of the environment.
        scale: divides by the group's sample standard deviation (n - 1).
        epsilon: added to the standard deviation.

    Raises:
        ValueError: if `gamma` is not in [0, 1].
    """

    gamma: float = 1.0
    scale: bool = False
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        joint = Joint.of(batch)
        returns = joint.returns(self.gamma)
        first, clock = np.flatnonzero(joint.begins), joint.clock
        groups = joint.batch.groups[joint.batch.turn_trajectory] * (clock.max() + 1) + clock
        members = members_of(groups[first])
        found = members.compare(returns[first], scale=self.scale, epsilon=self.epsilon)
        advantages = np.repeat(found, np.diff(np.append(first, len(groups))))
        metrics = members.metrics("joint", returns[first])
        return joint.credit(Credit(broadcast(advantages, joint.batch), metrics=metrics), "turns")


def returns_by_order(members: Sequence[Trajectory], gamma: float) -> dict[int, float]:
    """Returns the team's return-to-go from each turn of the game on, in which any agent acts.

    Args:
        members: the trajectories of an episode.
        gamma: discount between turns of the environment.
    """
    batch = Batch.of(members)
    joint, (order, _) = Joint.of(batch), _times(batch)
    pairs = zip(order[joint.turns].tolist(), joint.returns(gamma).tolist(), strict=True)
    return dict(reversed([*pairs]))  # the first agent's, if several act at once


def _times(batch: Batch) -> tuple[IntArray, IntArray]:
    """Returns the turns of the game and of the environment [M] in which agents acted."""
    own = np.arange(batch.num_turns) - batch.turn_offsets[batch.turn_trajectory]
    order, clock = own.copy(), own.copy()
    for m, turn in enumerate(batch.turns):
        if turn.order is not None:
            order[m] = turn.order
        if turn.clock is not None:
            clock[m] = turn.clock
    return order, clock


def _joined(batch: Batch, members: IntArray, turns: IntArray) -> Trajectory:
    """Returns the joint trajectory of some trajectories, with their turns in a given order."""
    agents = [batch.trajectories[n] for n in members]
    begins = np.cumsum([0] + [len(agent.segments) for agent in agents])
    offset = dict(zip(members.tolist(), begins.tolist(), strict=False))
    owner, found = batch.turn_trajectory, batch.turns
    names = {n: agent.role or agent.agent for n, agent in zip(offset, agents, strict=True)}
    bootstraps = [
        begin + agent.bootstrap
        for begin, agent in zip(begins.tolist(), agents, strict=False)
        if agent.bootstrap is not None
    ]
    return replace(
        agents[0],
        segments=[segment for agent in agents for segment in agent.segments],
        turns=[replace(found[m], segment=found[m].segment + offset[int(owner[m])]) for m in turns],
        terminated=all(agent.terminated for agent in agents),
        truncated=any(agent.truncated for agent in agents),
        success=any(agent.success for agent in agents),
        bootstrap=min(bootstraps, default=None),
        agent="",
        role="",
        replayed=any(agent.replayed for agent in agents),
        actors=tuple(names[int(owner[m])] for m in turns),
        instructions=_joint_instructions(agents),
    )


def _joint_instructions(agents: Sequence[Trajectory]) -> str:
    """Returns what the agents read, each text once and, if they differ, with its readers."""
    readers: dict[str, list[str]] = {}
    for agent in agents:
        readers.setdefault(agent.instructions, []).append(agent.role or agent.agent)
    if len(readers) == 1:
        return agents[0].instructions
    return "\n\n".join(
        f"Rules of {', '.join(dict.fromkeys(names))}:\n{text}" for text, names in readers.items()
    )


def _team_rewards(batch: Batch, turns: IntArray, owner: IntArray, clock: IntArray) -> Float64:
    """Returns the sum of the agents' rewards [M] at the last action before they were received.

    Args:
        batch: the trajectories of the agents.
        turns: [M] the turns in joint order.
        owner: [M] the joint trajectory of each of them.
        clock: [M] the turn of the environment of each of them, which never decreases in one.
    """
    rewards = np.zeros(batch.num_turns)
    own = batch.rewards[turns]
    starts = np.searchsorted(owner, np.arange(owner[-1] + 1))
    stops = np.append(starts[1:], len(owner))
    later: dict[int, list[tuple[int, float]]] = {}
    for m, at, reward, _ in batch.delayed:
        later.setdefault(m, []).append((at, reward))
    for k, m in enumerate(turns.tolist()):
        start, stop = starts[owner[k]], stops[owner[k]]
        delayed = later.get(m, [])
        parts = [(clock[k], own[k] - sum(reward for _, reward in delayed)), *delayed]
        for at, reward in parts:
            last = np.searchsorted(clock[start:stop], at, side="right") - 1
            rewards[start + max(int(last), 0)] += reward
    return rewards
