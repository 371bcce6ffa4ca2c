"""A small token-level Markov decision process with exact values, and sampled episodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

END = 0
VOCABULARY = 3  # the end token and two words


@dataclass
class World:
    """A token-level Markov decision process and its exact values.

    Prefixes are indexed as in a heap: 0 is the empty prefix, and prefix p followed by word w is
    2 p + w. If actions have at most L tokens, there are 2^L - 1 prefixes. An action is identified
    by its last prefix and its last token.

    Attributes:
        policy: [states, prefixes, vocabulary] probabilities of the next token.
        rewards: [states, prefixes, vocabulary] reward of the action that ends there.
        transitions: [states, prefixes, vocabulary, states + 1] probabilities of the next state. The
            last entry is the end of the episode.
        final: [prefixes, vocabulary] whether the token completes the action.
        gamma: discount between turns.
        turns: maximum number of turns.
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
        """Computes V and Q by dynamic programming, backwards over turns and prefixes."""
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
    """Returns a random world, the same for every gamma.

    Args:
        states: number of states.
        turns: maximum number of turns.
        tokens: maximum number of tokens per action.
        gamma: discount between turns.
        seed: seed of policy, rewards and transitions.
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
    final[prefixes // 2 :] = True  # any token after a longest prefix is the last
    rewards = rng.normal(size=shape) + 0.5
    transitions = rng.dirichlet(np.full(states + 1, 0.5), size=shape)
    return World(policy, rewards, transitions, final, gamma, turns)


@dataclass
class Samples:
    """Sampled trajectories in flat arrays.

    Attributes:
        batch: the trajectories.
        values: their exact values.
        place: [K] index of (turn, state, prefix) of each token.
        token: [K] the tokens.
        action: [M] index of (turn, state, last prefix, last token) of each action.
    """

    batch: Batch
    values: Values
    place: Ints
    token: Ints
    action: Ints


def draw(probabilities: Array, rng: np.random.Generator) -> Ints:
    """Samples one index per row of probabilities."""
    return (rng.random(len(probabilities))[:, None] > probabilities.cumsum(-1)[:, :-1]).sum(-1)


def sample(world: World, count: int, group: int, rng: np.random.Generator) -> Samples:
    """Samples `count` episodes, of which each `group` in a row start in the same state."""
    states, prefixes, _ = world.policy.shape
    longest = int(np.log2(prefixes + 1))
    state = np.repeat(rng.integers(states, size=-(-count // group)), group)[:count]
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []  # episode, turn, position, place, token
    turns: list[tuple[Ints, Ints, Ints, Array, Ints]] = []  # episode, turn, length, reward, action
    episode = np.arange(count)
    for t in range(world.turns):
        prefix, length = np.zeros(len(episode), np.int64), np.zeros(len(episode), np.int64)
        last = np.zeros(len(episode), np.int64)
        active = np.arange(len(episode))
        for j in range(longest):
            here = prefix[active]
            token = draw(world.policy[state[active], here], rng)
            place = (t * states + state[active]) * prefixes + here
            columns.append(
                (episode[active], np.full(len(active), t), np.full(len(active), j), place, token)
            )
            length[active] += 1
            last[active] = token
            going = ~world.final[here, token]
            prefix[active[going]] = 2 * here[going] + token[going]
            active = active[going]
        action = ((t * states + state) * prefixes + prefix) * VOCABULARY + last
        turns.append(
            (episode, np.full(len(episode), t), length, world.rewards[state, prefix, last], action)
        )
        following = draw(world.transitions[state, prefix, last], rng)
        alive = following < states
        episode, state = episode[alive], following[alive]
    return lay_out(world, columns, turns, group)


def lay_out(world: World, columns: list, turns: list, group: int) -> Samples:
    """Sorts samples, collected turn by turn, into the flat order of a batch."""
    episode, t, j, place, token = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((j, t, episode))
    place, token = place[order], token[order]
    episode, t, length, reward, action = (np.concatenate(c) for c in zip(*turns, strict=True))
    order = np.lexsort((t, episode))
    episode, t, length = episode[order], t[order], length[order]
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
    counts = np.bincount(episode)
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


def divide(batch: Batch, values: Values) -> tuple[Batch, Values, Ints]:
    """Divides the actions of a batch between two agents who act one after the other.

    The first agent generates the first token of each action, the second one the others, if there
    are any. Both get the reward of every turn.

    Args:
        batch: the trajectories.
        values: values of a token-level critic.

    Returns:
        The trajectories of the agents, their values, and the index of each of their tokens.
    """
    assert values.tokens is not None
    trajectories: list[Trajectory] = []
    tokens: list[Ints] = []
    for n, whole in enumerate(batch.trajectories):
        first = int(batch.turn_offsets[n])
        for i in range(2):
            found: list[Turn] = []
            early: list[tuple[int, float, str]] = []
            for t, turn in enumerate(whole.turns):
                start, stop = batch.token_offsets[first + t : first + t + 2]
                span = np.arange(start, stop)[slice(1) if i == 0 else slice(1, None)]
                if not len(span):  # the agent does not act, but gets the reward
                    early.append((t, turn.reward, ""))
                    if found:
                        found[-1].delayed += tuple(early)
                        found[-1].reward += early.pop()[1]
                    continue
                own = turn.reward + sum(reward for _, reward, _ in early)
                part = replace(turn, stop=len(span), logprobs=np.zeros(len(span), np.float32))
                found.append(
                    replace(part, reward=own, delayed=tuple(early), order=2 * t + i, clock=t)
                )
                early = []
                tokens.append(span)
            if found:
                agent = replace(whole, turns=found, agent=f"player_{i}", episode=(n,))
                trajectories.append(agent)
    index = np.concatenate(tokens)
    divided = Batch.of(trajectories)
    read = values.tokens[index]
    owner = [trajectory.episode[0] for trajectory in trajectories]
    part = Values(read, read[divided.token_offsets[:-1]], values.bootstrap[owner])
    return divided, part, index
