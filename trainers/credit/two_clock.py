"""Two-clock GAE: separate discounts inside an action and between actions.

An LLM agent has two time scales: tokens inside an action, which the environment does not observe,
and turns. With (gamma_w, lambda_w) for tokens and (gamma_a, lambda_a) for turns, backwards over the
tokens j = 1..L of turns t = 1..T:

    j < L:  delta = gamma_w V[t,j+1] - V[t,j],             A = delta + gamma_w lambda_w A[t,j+1]
    j = L:  delta = r[t] + gamma_a m V[t+1,1] - V[t,L],    A = delta + gamma_a lambda_a m A[t+1,1]
    target: R[t,j] = A[t,j] + V[t,j]

where m = 0 after the last turn of a terminated trajectory. After the last turn of a truncated
trajectory, V is the value of the final observation and A is 0. A turn without tokens keeps one slot
of value V(o_t), so that its reward reaches earlier turns.

`poad`, `ntpo` and `turn` are special cases. `bilevel.BilevelGAE` has two passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import Float64, reverse_scan
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import FloatArray, IntArray

Reads = Literal["tokens", "turns"]


@dataclass(frozen=True)
class TwoClockGAE:
    """Generalised advantage estimation with separate parameters for tokens and turns.

    The module docstring gives the equations. Source: the estimator of "Reinforcing LLM Agents via
    Policy Optimization with Action Decomposition" (arXiv 2405.15821), with free parameters for
    tokens and turns. GAE: "High-Dimensional Continuous Control Using Generalized Advantage
    Estimation" (arXiv 1506.02438, eq. 16).

    Attributes:
        gamma_token: discount per token inside an action.
        lambda_token: GAE lambda per token inside an action.
        gamma_turn: discount per turn.
        lambda_turn: GAE lambda per turn.
        reads: "tokens" needs a token-level critic and gives one advantage per token. "turns" needs
            a turn-level critic and gives one advantage per turn, shared by its tokens, without use
            of the token parameters.

    Raises:
        ValueError: if a discount or lambda is not in [0, 1], or `reads` is unknown.
    """

    gamma_token: float = 1.0
    lambda_token: float = 1.0
    gamma_turn: float = 0.99
    lambda_turn: float = 0.95
    reads: Reads = "tokens"

    def __post_init__(self) -> None:
        """Checks that every parameter is in [0, 1]."""
        for name in ("gamma_token", "lambda_token", "gamma_turn", "lambda_turn"):
            check_fraction(name, getattr(self, name))
        if self.reads not in ("tokens", "turns"):
            raise ValueError(f"reads must be 'tokens' or 'turns', got {self.reads!r}.")

    def __call__(
        self, batch: Batch, values: Values | None, token_rewards: ArrayLike | None = None
    ) -> Credit:
        """Returns advantages and value targets.

        Args:
            batch: the trajectories.
            values: values of the critic, with `tokens` if `reads` is "tokens".
            token_rewards: [K] additional reward per token, such as -beta * KL to the reference
                policy.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        gamma, lambda_ = (np.full(batch.num_turns, x) for x in (self.gamma_turn, self.lambda_turn))
        return self.between(batch, values, gamma, lambda_, token_rewards)

    def between(
        self,
        batch: Batch,
        values: Values | None,
        gamma: Float64,
        lambda_: Float64,
        token_rewards: ArrayLike | None = None,
    ) -> Credit:
        """Returns the same with a discount and a lambda for each turn, in place of the constants.

        Args:
            batch: the trajectories.
            values: values of the critic.
            gamma: [M] discount from each turn to the next.
            lambda_: [M] GAE lambda from each turn to the next.
            token_rewards: [K] additional reward per token.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, self.reads)
        last = batch.turn_offsets[1:] - 1
        decays = gamma * lambda_
        decays[last] = 0.0
        rewards = batch.rewards
        if token_rewards is not None:
            extra = np.asarray(token_rewards, np.float64)
            rewards = rewards + np.bincount(batch.token_turn, extra, batch.num_turns)
        ending = gamma.copy()
        ending[last] = 0.0
        returns = reverse_scan(rewards, ending)
        future = np.where(batch.terminated, 0.0, values.bootstrap)
        if self.reads == "turns":
            value = np.asarray(values.turns, np.float64)
            following = following_values(value, future, batch.turn_offsets)
            advantages = reverse_scan(rewards + gamma * following - value, decays)
            targets = (advantages + value).astype(np.float32)
            return Credit(broadcast(advantages, batch), targets, returns=returns)
        assert values.tokens is not None
        slots = Slots.of(batch)
        value, delta, decay = np.empty((3, slots.last[-1] + 1))
        slots.spread(values.tokens, values.turns, out=value)
        # All slots are first computed as inner ones, then turn ends and trajectory ends are fixed.
        np.multiply(value[1:], self.gamma_token, out=delta[:-1])
        decay[:] = self.gamma_token * self.lambda_token
        following = following_values(value[slots.first], future, batch.turn_offsets)
        delta[slots.last] = batch.rewards + gamma * following
        decay[slots.last] = decays
        delta -= value
        if token_rewards is not None:
            delta[slots.of_token] += np.asarray(token_rewards, np.float64)
        advantages = reverse_scan(delta, decay, out=delta)
        value += advantages
        return Credit(slots.tokens(advantages), slots.tokens(value), returns=returns)


def poad(gamma: float = 0.99, lambda_: float = 0.95, lambda_token: float = 1.0) -> TwoClockGAE:
    """Policy optimisation with action decomposition (POAD): no discount inside an action.

        V(o, w_<j) <- E V(o, w_<=j)          inside an action
        V(o, w_<L) <- E[r + gamma V(o')]     at its end

    Source: "Reinforcing LLM Agents via Policy Optimization with Action Decomposition", arXiv
    2405.15821.

    Args:
        gamma: discount per turn.
        lambda_: GAE lambda per turn.
        lambda_token: GAE lambda per token inside an action. With 1, the advantage of an action's
            first token equals the action-level advantage for any action length. The authors' code
            uses `lambda_` here, which shortens the horizon to about 1 / (1 - lambda) tokens.
    """
    return TwoClockGAE(1.0, lambda_token, gamma, lambda_)


def ntpo(gamma: float = 0.99, lambda_: float = 0.95) -> TwoClockGAE:
    """Naive token-level policy optimisation (NTPO): every token is discounted like a turn.

    The baseline of arXiv 2405.15821, equal to GAE over the action tokens of a masked chat. The
    discount of a reward depends on the number of tokens in the actions before it.

    Args:
        gamma: discount per token and per turn.
        lambda_: GAE lambda per token and per turn.
    """
    return TwoClockGAE(gamma, lambda_, gamma, lambda_)


def turn(gamma: float = 0.99, lambda_: float = 0.95) -> TwoClockGAE:
    """Turn-level GAE with a state-value critic. The tokens of an action share its advantage.

    Methods with this credit differ in the importance-sampling ratio of the loss: per action in
    "True Knowledge Comes from Practice: Aligning LLMs with Embodied Environments via Reinforcement
    Learning" (TWOSOME, arXiv 2401.14151), per turn in "Turn-PPO" (arXiv 2512.17008), per token in
    VL-DAC (arXiv 2508.04280).

    Args:
        gamma: discount per turn.
        lambda_: GAE lambda per turn.
    """
    return TwoClockGAE(gamma_turn=gamma, lambda_turn=lambda_, reads="turns")


@dataclass(frozen=True)
class Slots:
    """The slots of the scan: one per token, and one per turn without tokens.

    Attributes:
        first: [M] first slot of each turn.
        last: [M] last slot of each turn.
        of_token: [K] slot of each token, or a full slice if every turn has tokens.
    """

    first: IntArray
    last: IntArray
    of_token: IntArray | slice

    @classmethod
    def of(cls, batch: Batch) -> Slots:
        """Returns the slots of a batch."""
        lengths = np.diff(batch.token_offsets)
        stops = np.cumsum(np.maximum(lengths, 1))
        of_token: IntArray | slice = slice(None)
        if (lengths == 0).any():
            added = np.cumsum(lengths == 0)
            of_token = np.arange(batch.num_tokens) + np.repeat(added, lengths)
        return cls(stops - np.maximum(lengths, 1), stops - 1, of_token)

    def spread(self, tokens: FloatArray, turns: FloatArray, out: Float64) -> None:
        """Writes token values [K] to their slots, and turn values [M] for turns without tokens."""
        if not isinstance(self.of_token, slice):
            out[self.first] = turns
        out[self.of_token] = tokens

    def tokens(self, slots: Float64) -> FloatArray:
        """Returns the elements at the tokens' slots [K]."""
        return slots[self.of_token].astype(np.float32)


def broadcast(turns: ArrayLike, batch: Batch) -> FloatArray:
    """Repeats per-turn numbers [M] for every token of the turn [K]."""
    return np.repeat(np.asarray(turns, np.float32), np.diff(batch.token_offsets))


def require_values(values: Values | None, batch: Batch, reads: Reads) -> Values:
    """Returns the values, after a check that the needed ones are present in the right shapes.

    Args:
        values: values of a critic.
        batch: the batch of these values.
        reads: "tokens" if token values are needed, else "turns".

    Raises:
        ValueError: if values are missing or have the wrong shape.
    """
    if values is None:
        raise ValueError("This estimator needs the values of a critic, got None.")
    expected = {"turns": batch.num_turns, "bootstrap": len(batch.trajectories)}
    if reads == "tokens":
        expected["tokens"] = batch.num_tokens
    for name, length in expected.items():
        array = getattr(values, name)
        if array is None or np.shape(array) != (length,):
            got = None if array is None else np.shape(array)
            raise ValueError(f"values.{name} should have shape ({length},), got {got}.")
    return values


def check_fraction(name: str, value: float) -> None:
    """Raises ValueError unless a discount or lambda is in [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value}.")


def following_values(first: Float64, future: Float64, turn_offsets: IntArray) -> Float64:
    """Returns the value after each turn [M]: that of the next turn or of the final observation."""
    following = np.empty_like(first)
    following[:-1] = first[1:]
    following[turn_offsets[1:] - 1] = future
    return following
