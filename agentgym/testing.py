"""Tests of functions that assign credit, of this project or of any other trainer.

`check_credit` holds a function to what every estimator keeps: padding, observation tokens, the
order of episodes, microbatches and the names of roles change nothing. `credit_quality` measures its
bias and its noise in a small world whose advantages are known exactly.

A function takes `Episodes`, padded arrays as trainers hold them, and returns an advantage for each
token [N, L]. Numbers at other tokens than those of actions are not read.

    >>> def returns_to_go(episodes):
    ...     return np.cumsum(episodes.rewards[:, ::-1], 1)[:, ::-1]
    >>> check_credit(returns_to_go)
    >>> credit_quality(returns_to_go).turn_bias_over_noise > 2  # it has no baseline
    True
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Episodes:
    """N episodes as arrays that are padded to L tokens.

    Attributes:
        actions: [N, L] whether the policy wrote the token. The others are observations or padding.
        turns: [N, L] index of the turn of an action token, -1 at the others.
        rewards: [N, L] reward of a turn at the last token of its action, 0 elsewhere.
        values: [N, L] value of the critic before an action token, 0 elsewhere.
        bootstrap: [N] value of the critic after an episode that was cut off, 0 after others.
        groups: [N] number of the group. The episodes of a group start in the same state.
        roles: [N] number of the role that acts.
    """

    actions: NDArray[np.bool_]
    turns: Ints
    rewards: Floats
    values: Floats
    bootstrap: Floats
    groups: Ints
    roles: Ints


Credit = Callable[[Episodes], ArrayLike]
"""Returns an advantage for each token [N, L]."""


class CreditError(AssertionError):
    """A function that assigns credit does not keep what every estimator keeps."""


def check_credit(
    credit: Credit,
    *,
    leave_out: Collection[str] = (),
    draws: int = 20,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> None:
    """Checks a function with random episodes.

    Args:
        credit: the function.
        leave_out: names in `CHECKS` that are not asked for. An estimator that compares all episodes
            of a batch leaves out "microbatches".
        draws: number of random batches.
        tolerance: largest difference of an advantage, beside that of rounding.
        seed: seed of the batches.

    Raises:
        CreditError: if a check fails. The message names each, with the largest difference.
        ValueError: for a name to leave out that is none.
    """
    if unknown := sorted(set(leave_out) - CHECKS.keys()):
        raise ValueError(f"leave_out has names of CHECKS, {', '.join(CHECKS)}, got {unknown}.")
    failed: dict[str, float] = {}
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        drawn = _Drawn.of(rng)
        before = _numbers(credit, drawn.padded())
        scale = max(1.0, float(np.abs(before).max(initial=0.0)))
        for name, change in CHECKS.items():
            if name in leave_out:
                continue
            gap = float(np.abs(change(credit, drawn, rng) - before).max(initial=0.0)) / scale
            if not gap <= tolerance:
                failed[name] = max(gap, failed.get(name, 0.0))
    if failed:
        shown = ", ".join(f"{name} (by {gap:.2g} of the largest)" for name, gap in failed.items())
        raise CreditError(f"Advantages change with: {shown}.")


def random_episodes(rng: np.random.Generator) -> Episodes:
    """Returns episodes of one to four turns in groups of different sizes, some of them cut off."""
    return _Drawn.of(rng).padded()


@dataclass(frozen=True)
class _Drawn:
    """Episodes before they are padded.

    Attributes:
        lengths: number of tokens of each action of each episode.
        gaps: number of observation tokens before each of them.
        rewards: reward of each turn.
        values: value before each action token.
        bootstrap: see `Episodes`, as the next two.
    """

    lengths: list[Ints]
    gaps: list[Ints]
    rewards: list[Floats]
    values: list[Floats]
    bootstrap: Floats
    groups: Ints
    roles: Ints

    @classmethod
    def of(cls, rng: np.random.Generator) -> _Drawn:
        groups = np.repeat(np.arange(3), rng.integers(1, 5, 3))
        lengths = [rng.integers(1, 5, rng.integers(1, 5)) for _ in groups]
        gaps = [rng.integers(0, 4, len(each)) for each in lengths]
        values = [rng.normal(size=int(each.sum())) for each in lengths]
        rewards = [rng.normal(size=len(each)) for each in lengths]
        bootstrap = rng.normal(size=len(groups)) * (rng.random(len(groups)) < 0.3)
        roles = rng.integers(0, 2, len(groups))
        return cls(lengths, gaps, rewards, values, bootstrap, groups, roles)

    def padded(self, left: int = 0, right: int = 0) -> Episodes:
        """Lays the episodes out, with more padding on both sides."""
        sizes = [a.sum() + b.sum() for a, b in zip(self.lengths, self.gaps, strict=True)]
        shape = len(sizes), int(max(sizes)) + left + right
        actions, turns = np.zeros(shape, bool), np.full(shape, -1)
        rewards, values = np.zeros(shape), np.zeros(shape)
        for n, lengths in enumerate(self.lengths):
            stops = left + np.cumsum(lengths + self.gaps[n])
            for t, (stop, length) in enumerate(zip(stops, lengths, strict=True)):
                actions[n, stop - length : stop] = True
                turns[n, stop - length : stop] = t
                rewards[n, stop - 1] = self.rewards[n][t]
            values[n, actions[n]] = self.values[n]
        return Episodes(actions, turns, rewards, values, self.bootstrap, self.groups, self.roles)


def _numbers(credit: Credit, episodes: Episodes) -> Floats:
    """Returns the advantages of the action tokens, by episode.

    Raises:
        CreditError: for another shape, numbers that are not finite, or if the function writes into
            its arrays.
    """
    given = Episodes(*(getattr(episodes, field.name).copy() for field in fields(Episodes)))
    found = np.asarray(credit(given), np.float64)
    if found.shape != episodes.actions.shape:
        raise CreditError(
            f"Expected an advantage for each token, of shape {episodes.actions.shape}, got "
            f"{found.shape}."
        )
    for field in fields(Episodes):
        if not np.array_equal(getattr(given, field.name), getattr(episodes, field.name)):
            raise CreditError(f"The function writes into {field.name}: it must copy them.")
    if not np.isfinite(advantages := found[episodes.actions]).all():
        raise CreditError("Not every action token has a finite number.")
    return advantages


def _more_padding(credit: Credit, drawn: _Drawn, rng: np.random.Generator) -> Floats:
    left, right = rng.integers(0, 9, 2)
    return _numbers(credit, drawn.padded(int(left), int(right) + 1))


def _other_observations(credit: Credit, drawn: _Drawn, rng: np.random.Generator) -> Floats:
    gaps = [rng.integers(0, 9, len(each)) for each in drawn.gaps]
    return _numbers(credit, replace(drawn, gaps=gaps).padded())


def _in_parts(credit: Credit, episodes: Episodes, parts: list[Ints]) -> Floats:
    """Returns the advantages of the action tokens from batches with some episodes each."""
    found = np.zeros(episodes.actions.shape)
    for rows in parts:
        part = Episodes(*(getattr(episodes, field.name)[rows] for field in fields(Episodes)))
        advantages = np.zeros(part.actions.shape)
        advantages[part.actions] = _numbers(credit, part)
        found[rows] = advantages
    return found[episodes.actions]


def _other_order(credit: Credit, drawn: _Drawn, rng: np.random.Generator) -> Floats:
    return _in_parts(credit, drawn.padded(), [rng.permutation(len(drawn.groups))])


def _groups_alone(credit: Credit, drawn: _Drawn, rng: np.random.Generator) -> Floats:
    parts = [np.flatnonzero(drawn.groups == group) for group in np.unique(drawn.groups)]
    return _in_parts(credit, drawn.padded(), parts)


def _other_names(credit: Credit, drawn: _Drawn, rng: np.random.Generator) -> Floats:
    renamed = replace(drawn, roles=1 - drawn.roles, groups=7 - 2 * drawn.groups)
    return _numbers(credit, renamed.padded())


CHECKS: dict[str, Callable[[Credit, _Drawn, np.random.Generator], Floats]] = {
    "padding": _more_padding,
    "observation tokens": _other_observations,
    "order": _other_order,
    "microbatches": _groups_alone,
    "names of roles and groups": _other_names,
}
"""By name, a change that changes no advantage."""


@dataclass(frozen=True)
class CreditQuality:
    """Errors of advantages in a world with exact ones.

    Attributes:
        bias: root mean square of the bias of a token's advantage, without the noise in it.
        bias_over_noise: the same with it, over the noise. About 1 if there is no bias.
        turn_bias: bias of the first token's advantage, against that of the whole action.
        turn_bias_over_noise: the same over the noise. About 1 if there is no bias.
        noise: root mean square deviation of an advantage from its mean for the same token.
        cosine: cosine of the policy gradients of mean and exact advantages of tokens.
    """

    bias: float
    bias_over_noise: float
    turn_bias: float
    turn_bias_over_noise: float
    noise: float
    cosine: float


_STATES, _WORDS, _TURNS, _TOKENS = 3, 3, 3, 2
_LEAST = 30
"""Samples of a token in its place from which on it counts."""


def credit_quality(
    credit: Credit, *, gamma: float = 1.0, episodes: int = 4096, group: int = 8, seed: int = 0
) -> CreditQuality:
    """Returns the errors of a function in a random world of a few states and exact values.

    Episodes have up to three turns with actions of two tokens. The values in `Episodes.values` are
    exact. All episodes are one batch.

    Args:
        credit: the function.
        gamma: discount between turns, 1 inside of them.
        episodes: number of episodes.
        group: episodes that start in the same state.
        seed: seed of the world and of the episodes.

    Raises:
        CreditError: if an advantage is missing or not finite.
        ValueError: unless the episodes are whole groups.
    """
    if episodes < 1 or group < 1 or episodes % group:
        raise ValueError(f"episodes must be whole groups of {group}, got {episodes}.")
    world = _World(gamma, np.random.default_rng(seed))
    batch, places, tokens, whole = world.sample(episodes, group, np.random.default_rng(seed + 1))
    found = _numbers(credit, batch)
    bins, exact = places * _WORDS + tokens, world.advantages.reshape(-1)
    mean, variance, count = _moments(bins, found, len(exact))
    bias, ratio = _bias(mean - exact, variance, count)
    first = np.arange(0, len(found), _TOKENS)
    actions = world.action_advantages.reshape(-1)
    turn_mean, turn_variance, turn_count = _moments(whole, found[first], len(actions))
    turn_bias, turn_ratio = _bias(turn_mean - actions, turn_variance, turn_count)
    noise = float(np.sqrt((variance * count).sum() / count.sum()))
    cosine = _cosine(mean, exact, count, world.probabilities)
    return CreditQuality(bias, ratio, turn_bias, turn_ratio, noise, cosine)


class _World:
    """Actions of two tokens a, b in a state s: place 0 before a, place 1 + a before b."""

    def __init__(self, gamma: float, rng: np.random.Generator):
        states, words = _STATES, _WORDS
        policy = np.exp(rng.normal(size=(states, 1 + words, words)))
        self.policy = policy / policy.sum(-1, keepdims=True)
        self.rewards = rng.normal(size=(states, words, words)) + 0.5
        shape = states, words, words
        self.transitions = rng.dirichlet(np.full(states + 1, 0.5), size=shape)
        self.values = np.zeros((_TURNS + 1, states + 1, 1 + words))
        self.advantages = np.zeros((_TURNS, states, 1 + words, words))
        self.action_advantages = np.zeros((_TURNS, *shape))
        for t in reversed(range(_TURNS)):
            q = self.rewards + gamma * self.transitions @ self.values[t + 1, :, 0]
            self.values[t, :states, 1:] = (self.policy[:, 1:] * q).sum(-1)
            first = self.values[t, :states, 1:]
            self.values[t, :states, 0] = (self.policy[:, 0] * first).sum(-1)
            self.advantages[t, :, 0] = first - self.values[t, :states, 0, None]
            self.advantages[t, :, 1:] = q - first[:, :, None]
            self.action_advantages[t] = q - self.values[t, :states, 0, None, None]
        self.probabilities = np.broadcast_to(self.policy, self.advantages.shape)

    def sample(
        self, count: int, group: int, rng: np.random.Generator
    ) -> tuple[Episodes, Ints, Ints, Ints]:
        """Returns episodes, the place and the word of each token, and the action of each turn."""
        groups = np.repeat(np.arange(count // group), group)
        state = np.repeat(rng.integers(_STATES, size=count // group), group)
        shape = count, 1 + 3 * _TURNS
        actions, turns = np.zeros(shape, bool), np.full(shape, -1)
        rewards, values = np.zeros(shape), np.zeros(shape)
        places, words = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        whole = np.full((count, _TURNS), -1)
        alive = np.arange(count)
        for t in range(_TURNS):
            here, column = state[alive], 1 + 3 * t
            a = _drawn(self.policy[here, 0], rng)
            b = _drawn(self.policy[here, 1 + a], rng)
            for j, (place, word) in enumerate(((np.zeros_like(a), a), (1 + a, b))):
                actions[alive, column + j], turns[alive, column + j] = True, t
                values[alive, column + j] = self.values[t, here, place]
                places[alive, column + j] = (t * _STATES + here) * (1 + _WORDS) + place
                words[alive, column + j] = word
            rewards[alive, column + 1] = self.rewards[here, a, b]
            whole[alive, t] = ((t * _STATES + here) * _WORDS + a) * _WORDS + b
            state[alive] = _drawn(self.transitions[here, a, b], rng)
            alive = alive[state[alive] < _STATES]
        zeros = np.zeros(count, np.int64)
        batch = Episodes(actions, turns, rewards, values, np.zeros(count), groups, zeros)
        return batch, places[actions], words[actions], whole[whole >= 0]


def _drawn(probabilities: Floats, rng: np.random.Generator) -> Ints:
    """Returns an index for each row of probabilities."""
    return (rng.random(len(probabilities))[:, None] > probabilities.cumsum(-1)[:, :-1]).sum(-1)


def _moments(bins: Ints, numbers: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """Returns mean, variance and count of the numbers in each bin, 0 for rare ones."""
    count = np.bincount(bins, minlength=size).astype(np.float64)
    count[count < _LEAST] = 0
    least = np.maximum(count, 1)
    mean = np.bincount(bins, numbers, size) / least
    square = np.bincount(bins, (numbers - mean[bins]) ** 2, size)
    return mean, np.where(count > 0, square / np.maximum(count - 1, 1), 0.0), count


def _bias(error: Floats, variance: Floats, count: Floats) -> tuple[float, float]:
    """Returns the root mean square error without the noise in it, and with it over the noise."""
    noise = variance / np.maximum(count, 1) + 1e-12  # rounding, if there is no noise
    weight = count / count.sum()
    square, spread = (weight * error**2).sum(), (weight * noise).sum()
    return float(np.sqrt(max(square - spread, 0.0))), float(np.sqrt(square / spread))


def _cosine(mean: Floats, exact: Floats, count: Floats, policy: Floats) -> float:
    """Returns the cosine of the gradients with respect to the logits of all places."""
    shape = policy.shape
    seen = (count.reshape(shape) > 0).all(-1, keepdims=True)
    visits = count.reshape(shape).sum(-1, keepdims=True) * seen

    def gradient(numbers: Floats) -> Floats:
        table = numbers.reshape(shape)
        return visits * policy * (table - (policy * table).sum(-1, keepdims=True))

    one, two = gradient(mean), gradient(exact)
    return float((one * two).sum() / np.sqrt((one**2).sum() * (two**2).sum()))
