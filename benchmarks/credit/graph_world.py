"""Small worlds with a success state, tables of logits that act in them, and exact gradients.

States and actions are numbers. An episode starts in `start` and ends in state 0, with a reward of
1, or after `turns` turns. One token is an action.

Shapes: S states, A actions, T turns, G groups of E episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn

Array = NDArray[np.float64]
GOAL = 0


@dataclass(frozen=True)
class GraphWorld:
    """A world.

    Attributes:
        moves: [S, A, S] probability of the next state.
        start: the state in which an episode starts.
        turns: T, the limit of turns.
        distance: [S] least number of turns to the goal.
    """

    moves: Array
    start: int
    turns: int
    distance: Array

    def values(self, policy: Array) -> Array:
        """Returns the probability of a success by turn and state [T + 1, S].

        Args:
            policy: [S, A] probabilities of actions.
        """
        found = np.zeros((self.turns + 1, len(policy)))
        found[:, GOAL] = 1.0
        for turn in reversed(range(self.turns)):
            found[turn] = (policy * (self.moves @ found[turn + 1])).sum(-1)
            found[turn, GOAL] = 1.0
        return found

    def gradient(self, policy: Array) -> Array:
        """Returns the gradient of the success rate with respect to the logits [S, A]."""
        values, found = self.values(policy), np.zeros_like(policy)
        visits = np.eye(len(policy))[self.start]
        for turn in range(self.turns):
            visits[GOAL] = 0.0
            after = self.moves @ values[turn + 1]
            found += visits[:, None] * policy * (after - values[turn][:, None])
            visits = np.einsum("s,sa,sat->t", visits, policy, self.moves)
        return found


def probabilities(logits: Array) -> Array:
    """Returns the policy [S, A] of logits [S, A]."""
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def distances_to_goal(moves: Array) -> Array:
    """Returns the least number of turns to the goal, infinite without a path [S]."""
    steps = np.where(np.arange(len(moves)) == GOAL, 0.0, np.inf)
    reachable = moves.max(1) > 0
    for _ in range(len(moves)):
        through = np.where(reachable, steps, np.inf).min(1) + 1
        steps = np.minimum(steps, through)
    return steps


def random_world(
    rng: np.random.Generator, slip: float, states: int = 16, actions: int = 4, turns: int = 14
) -> GraphWorld:
    """Returns a random world whose start is 4 to 8 turns from the goal.

    Every state has an action that leads to it, and one that leads to a state with a lower number.

    Args:
        rng: the randomness.
        slip: probability that another action, drawn uniformly, takes the place of the chosen one.
        states: S.
        actions: A.
        turns: T.
    """
    while True:
        following = rng.integers(0, states, (states, actions))
        lower = np.maximum(np.arange(states) - rng.integers(1, 3, states), 0)
        following[np.arange(states), rng.integers(0, actions, states)] = lower
        chosen = np.eye(states)[following]
        steps = distances_to_goal(chosen)
        if 4 <= steps.max() <= 8:
            moves = (1 - slip) * chosen + slip * chosen.mean(1, keepdims=True)
            return GraphWorld(moves, int(steps.argmax()), turns, steps)


def gamble_world(odds: float, turns: int = 8) -> GraphWorld:
    """Returns a world in which two actions of the start win at once with these odds, or lose.

    The other two lead to the goal safely, in three turns in which half of the actions advance.
    """
    goal, near, middle, start, lost = range(5)
    moves = np.zeros((5, 4, 5))
    moves[[goal, lost], :, [goal, lost]] = 1.0
    moves[near, :2, goal] = moves[near, 2:, near] = 1.0
    moves[middle, :2, near] = moves[middle, 2:, middle] = 1.0
    moves[start, :2, goal], moves[start, :2, lost] = odds, 1 - odds
    moves[start, 2:, middle] = 1.0
    return GraphWorld(moves, start, turns, distances_to_goal(moves))


@dataclass(frozen=True)
class Played:
    """Episodes of a world.

    Attributes:
        batch: the episodes, E of each group after another.
        states: [M] state of each turn.
        actions: [M] its action.
        times: [M] its number in the episode, from 0.
        group: [M] its group.
    """

    batch: Batch
    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    times: NDArray[np.int64]
    group: NDArray[np.int64]

    def critic(self, values: Array) -> Values:
        """Returns exact values [T + 1, S] as those of a critic."""
        ends = np.zeros(len(self.batch.trajectories), np.float32)
        return Values(None, values[self.times, self.states].astype(np.float32), ends)

    def gradients(self, policy: Array, advantages: Array, groups: int) -> Array:
        """Returns the policy gradient of each group with respect to the logits [G, S, A]."""
        found, total = np.zeros((groups, *policy.shape)), np.zeros((groups, len(policy)))
        np.add.at(found, (self.group, self.states, self.actions), advantages)
        np.add.at(total, (self.group, self.states), advantages)
        return found - total[..., None] * policy


def play(
    world: GraphWorld, policy: Array, groups: int, episodes: int, rng: np.random.Generator
) -> Played:
    """Plays G groups of E episodes."""
    count = groups * episodes
    state, running = np.full(count, world.start), np.ones(count, bool)
    paths: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
    limits, odds = policy.cumsum(-1), world.moves.cumsum(-1)
    for _ in range(world.turns):
        here = np.flatnonzero(running)
        action = _drawn(limits[state[here]], rng)
        after = _drawn(odds[state[here], action], rng)
        for n, *move in zip(
            here, state[here].tolist(), action.tolist(), after.tolist(), strict=True
        ):
            paths[n].append((move[0], move[1], move[2]))
        state[here] = after
        running[here] = after != GOAL
    batch = Batch.of([_trajectory(path, n // episodes) for n, path in enumerate(paths)])
    turns = np.array([move[:2] for path in paths for move in path])
    times = np.concatenate([np.arange(len(path)) for path in paths])
    group = np.repeat(np.arange(count) // episodes, [len(path) for path in paths])
    return Played(batch, turns[:, 0], turns[:, 1], times, group)


def _drawn(limits: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws from each of several distributions, given as cumulative sums."""
    drawn = (rng.random((len(limits), 1)) >= limits).sum(-1)
    return np.minimum(drawn, limits.shape[-1] - 1)


_LOGPROBS = np.zeros(1, np.float32)


def _trajectory(path: list[tuple[int, int, int]], group: int) -> Trajectory:
    """Returns an episode of (state, action, next state) as a trajectory of one-token actions."""
    solved = path[-1][2] == GOAL
    turns = [
        Turn(
            segment=0, start=t, stop=t + 1, logprobs=_LOGPROBS, support=None, observation="",
            action=str(action), reward=float(after == GOAL), reward_terms={}, valid=True,
            progress=0.0, state_key=str(state),
        )
        for t, (state, action, after) in enumerate(path)
    ]  # fmt: skip
    return Trajectory(
        "world", "task", group, [Segment(np.zeros(len(path), np.int32))], turns,
        terminated=solved, truncated=not solved, success=solved, final_state_key=str(path[-1][2]),
    )  # fmt: skip
