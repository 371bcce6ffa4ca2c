"""A token-level decision process small enough to solve, and episodes sampled from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.trajectory import Batch, Segment, Trajectory, Turn, Values

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

END = 0
VOCABULARY = 3  # the end token and two words


@dataclass
class World:
    """A token-level decision process and its exact values.

    Prefixes are numbered as in a heap: 0 is the empty one, prefix p followed by word w is
    2 p + w; if actions have at most L tokens, 2^L - 1 prefixes are followed by one. An action is
    numbered by its last prefix and last token.

    Attributes:
        policy: [states, prefixes, vocabulary].
        rewards: [states, prefixes, vocabulary] of ending an action there.
        transitions: [states, prefixes, vocabulary, states + 1]; the last entry is the game's end.
        final: [prefixes, vocabulary] whether that token completes the action.
        values: [turns + 1, states + 1, prefixes] exact V.
        q: [turns, states, prefixes, vocabulary] exact Q.
    """

    policy: Array
    rewards: Array
    transitions: Array
    final: NDArray[np.bool_]
    gamma: float
    turns: int
    values: Array = field(init=False)
    q: Array = field(init=False)

    def __post_init__(self) -> None:
        """Solves for V and Q, backwards over turns and prefixes."""
        states, prefixes, vocabulary = self.policy.shape
        self.values = np.zeros((self.turns + 1, states + 1, prefixes))
        self.q = np.zeros((self.turns, states, prefixes, vocabulary))
        for t in range(self.turns - 1, -1, -1):
            after = self.rewards + self.gamma * self.transitions @ self.values[t + 1, :, 0]
            for p in range(prefixes - 1, -1, -1):
                for w in range(vocabulary):
                    if self.final[p, w]:
                        self.q[t, :, p, w] = after[:, p, w]
                    else:
                        self.q[t, :, p, w] = self.values[t, :states, 2 * p + w]
                self.values[t, :states, p] = (self.policy[:, p] * self.q[t, :, p]).sum(-1)


def make_world(states: int, turns: int, tokens: int, gamma: float, seed: int) -> World:
    """A random world; the same for each gamma.

    Args:
        states: number of states.
        turns: turns after which the game ends at the latest.
        tokens: longest action.
        gamma: discount of a turn.
        seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    prefixes = 2**tokens - 1
    shape = (states, prefixes, VOCABULARY)
    logits = rng.normal(size=shape)
    logits[:, :, END] -= 0.5
    policy = np.exp(logits)
    policy /= policy.sum(-1, keepdims=True)
    final = np.zeros((prefixes, VOCABULARY), bool)
    final[:, END] = True
    final[prefixes // 2 :] = True  # the longest prefixes: any token is the last
    rewards = rng.normal(size=shape) + 0.5
    transitions = rng.dirichlet(np.full(states + 1, 0.5), size=shape)
    return World(policy, rewards, transitions, final, gamma, turns)


@dataclass
class Samples:
    """Sampled trajectories, flat, with the place of every token.

    Attributes:
        batch: what estimators read.
        values: exact values.
        place: [K] number of (turn, state, prefix).
        token: [K].
        action: [M] number of (turn, state, last prefix, last token).
    """

    batch: Batch
    values: Values
    place: Ints
    token: Ints
    action: Ints


def draw(probabilities: Array, rng: np.random.Generator) -> Ints:
    """One draw from each row."""
    return (rng.random(len(probabilities))[:, None] > probabilities.cumsum(-1)[:, :-1]).sum(-1)


def sample(world: World, count: int, group: int, rng: np.random.Generator) -> Samples:
    """Plays `count` episodes; `group` at a time begin in the same state."""
    states, prefixes, _ = world.policy.shape
    longest = int(np.log2(prefixes + 1))
    state = np.repeat(rng.integers(states, size=-(-count // group)), group)[:count]
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []  # who, turn, position, place, token
    turns: list[tuple[Ints, Ints, Ints, Array, Ints]] = []  # who, turn, length, reward, action
    who = np.arange(count)
    for t in range(world.turns):
        prefix, length = np.zeros(len(who), np.int64), np.zeros(len(who), np.int64)
        last = np.zeros(len(who), np.int64)
        speaking = np.arange(len(who))
        for j in range(longest):
            here = prefix[speaking]
            token = draw(world.policy[state[speaking], here], rng)
            place = (t * states + state[speaking]) * prefixes + here
            columns.append(
                (who[speaking], np.full(len(speaking), t), np.full(len(speaking), j), place, token)
            )
            length[speaking] += 1
            last[speaking] = token
            going = ~world.final[here, token]
            prefix[speaking[going]] = 2 * here[going] + token[going]
            speaking = speaking[going]
        action = ((t * states + state) * prefixes + prefix) * VOCABULARY + last
        turns.append(
            (who, np.full(len(who), t), length, world.rewards[state, prefix, last], action)
        )
        following = draw(world.transitions[state, prefix, last], rng)
        alive = following < states
        who, state = who[alive], following[alive]
    return lay_out(world, columns, turns, group)


def lay_out(world: World, columns: list, turns: list, group: int) -> Samples:
    """Sorts what was sampled turn by turn into the flat order of a batch."""
    who, t, j, place, token = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((j, t, who))
    place, token = place[order], token[order]
    who, t, length, reward, action = (np.concatenate(c) for c in zip(*turns, strict=True))
    order = np.lexsort((t, who))
    who, t, length = who[order], t[order], length[order]
    reward, action = reward[order], action[order]
    states, prefixes, _ = world.policy.shape
    flat = world.values[:-1, :states].reshape(-1).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(length)])
    keys = (place[starts[:-1]] // prefixes).astype(str)
    nothing = np.zeros(0, np.float32)
    per_turn = [
        Turn(0, 0, int(n), nothing, None, "", str(a), float(r), {}, True, 0.0, str(k))
        for n, a, r, k in zip(length, action, reward, keys, strict=True)
    ]
    counts = np.bincount(who)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    segments: list[Segment] = []
    trajectories = [
        Trajectory(
            "world",
            str(n // group),
            0,
            segments,
            per_turn[offsets[n] : offsets[n + 1]],
            True,
            False,
            False,
        )
        for n in range(len(counts))
    ]
    batch = Batch.of(trajectories)
    values = Values(flat[place], flat[place[starts[:-1]]], np.zeros(len(counts), np.float32))
    return Samples(batch, values, place, token, action)
