"""Two-clock GAE: one discount inside an action, another between actions.

A language agent lives on two clocks. Tokens tick inside an action, and the environment does not
notice them; turns tick between actions. With (gamma_w, lambda_w) for tokens and (gamma_a, lambda_a)
for turns, backwards over the tokens j = 1..L of turns t = 1..T:

    j < L:  delta = gamma_w V[t,j+1] - V[t,j],             A = delta + gamma_w lambda_w A[t,j+1]
    j = L:  delta = r[t] + gamma_a m V[t+1,1] - V[t,L],    A = delta + gamma_a lambda_a m A[t+1,1]
    target: R[t,j] = A[t,j] + V[t,j]

where m = 0 after the last turn of a trajectory that terminated. After the last turn of one that
was cut off, V is the value of the final observation and A is 0. A turn without tokens keeps one
slot, valued V(o_t), so that its reward reaches earlier turns.

Which numbers make which method: `poad`, `ntpo`, `turn`; `BilevelGAE` takes two passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import Float64, reverse_scan
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, IntArray, Values

Reads = Literal["tokens", "turns"]


@dataclass(frozen=True)
class TwoClockGAE:
    """Generalised advantage estimation on two clocks (equations: the module's docstring).

    Source: the estimator of "Reinforcing LLM Agents via Policy Optimization with Action
    Decomposition" (arXiv 2405.15821) with the two clocks' parameters set free; GAE itself is
    "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (arXiv
    1506.02438, eq. 16).

    Attributes:
        gamma_token: discount from one token to the next of an action.
        lambda_token: trace decay from one token to the next of an action.
        gamma_turn: discount from one turn to the next.
        lambda_turn: trace decay from one turn to the next.
        reads: "tokens": the critic values every token, each token gets its own advantage;
            "turns": the critic values observations, all tokens of a turn share one advantage (the
            token parameters play no part).
    """

    gamma_token: float = 1.0
    lambda_token: float = 1.0
    gamma_turn: float = 0.99
    lambda_turn: float = 0.95
    reads: Reads = "tokens"

    def __post_init__(self) -> None:
        """Checks that every parameter is a discount."""
        for name in ("gamma_token", "lambda_token", "gamma_turn", "lambda_turn"):
            check_fraction(name, getattr(self, name))
        if self.reads not in ("tokens", "turns"):
            raise ValueError(f"reads is 'tokens' or 'turns', not {self.reads!r}.")

    def __call__(
        self, batch: Batch, values: Values | None, token_rewards: ArrayLike | None = None
    ) -> Credit:
        """Estimates advantages and value targets.

        Args:
            batch: the trajectories.
            values: needs `tokens` where `reads` is "tokens".
            token_rewards: [K] added to the reward of each token, say -beta * KL to a reference.
        """
        values = require_values(values, batch, self.reads)
        future = np.where(batch.terminated, 0.0, values.bootstrap)
        if self.reads == "turns":
            rewards = batch.rewards
            if token_rewards is not None:
                extra = np.asarray(token_rewards, np.float64)
                rewards = rewards + np.bincount(batch.token_turn, extra, batch.num_turns)
            return self._turns(batch, values, rewards, future)
        assert values.tokens is not None
        slots = Slots.of(batch)
        value, delta, decay = np.empty((3, slots.last[-1] + 1))
        slots.spread(values.tokens, values.turns, out=value)
        # Every slot is treated as inner first; the M turn ends and N trajectory ends are patched.
        np.multiply(value[1:], self.gamma_token, out=delta[:-1])
        decay[:] = self.gamma_token * self.lambda_token
        following = _following(value[slots.first], future, batch.turn_offsets)
        delta[slots.last] = batch.rewards + self.gamma_turn * following
        decay[slots.last] = self.gamma_turn * self.lambda_turn
        decay[slots.last[batch.turn_offsets[1:] - 1]] = 0.0
        delta -= value
        if token_rewards is not None:
            delta[slots.of_token] += np.asarray(token_rewards, np.float64)
        advantages = reverse_scan(delta, decay, out=delta)
        value += advantages
        return Credit(slots.tokens(advantages), slots.tokens(value))

    def _turns(self, batch: Batch, values: Values, rewards: Float64, future: Float64) -> Credit:
        value = np.asarray(values.turns, np.float64)
        following = _following(value, future, batch.turn_offsets)
        decay = np.full(len(value), self.gamma_turn * self.lambda_turn)
        decay[batch.turn_offsets[1:] - 1] = 0.0
        advantages = reverse_scan(rewards + self.gamma_turn * following - value, decay)
        return Credit(broadcast(advantages, batch), targets=(advantages + value).astype(np.float32))


def poad(gamma: float = 0.99, lambda_: float = 0.95, lambda_token: float = 1.0) -> TwoClockGAE:
    """Policy optimisation with action decomposition: no discount inside an action.

    "Reinforcing LLM Agents via Policy Optimization with Action Decomposition", arXiv 2405.15821:
    V(o, w_<j) <- E V(o, w_<=j) inside an action, V(o, w_<L) <- E[r + gamma V(o')] at its end.

    Args:
        gamma: discount of a turn.
        lambda_: trace decay of a turn.
        lambda_token: trace decay inside an action. 1: the advantage of a first token is exactly
            the action-level one, however long actions are. The authors' code has `lambda_` here,
            which shortens the horizon to about 1 / (1 - lambda) tokens.
    """
    return TwoClockGAE(1.0, lambda_token, gamma, lambda_)


def ntpo(gamma: float = 0.99, lambda_: float = 0.95) -> TwoClockGAE:
    """Naive token-level policy optimisation: every token ticks like a turn.

    The baseline that arXiv 2405.15821 argues against: a reward's worth depends on how many tokens
    it took to say the actions before it. What a GAE over a masked chat computes.
    """
    return TwoClockGAE(gamma, lambda_, gamma, lambda_)


def turn(gamma: float = 0.99, lambda_: float = 0.95) -> TwoClockGAE:
    """One advantage a turn from a critic of observations, shared by the action's tokens.

    "True Knowledge Comes from Practice: Aligning LLMs with Embodied Environments via Reinforcement
    Learning" (TWOSOME, arXiv 2401.14151) with an action's ratio; "Turn-PPO" (arXiv 2512.17008) with
    a turn's; with a token's ratio it is VL-DAC (arXiv 2508.04280): the same credit, another loss.
    """
    return TwoClockGAE(1.0, 1.0, gamma, lambda_, reads="turns")


@dataclass(frozen=True)
class BilevelGAE:
    """GAE over turns, then GAE over the tokens of each turn towards the turn's advantage.

    First pass, over the last tokens of turns: delta_t = r_t + gamma_a m V[t+1,L] - V[t,L] and
    A[t,L] = delta_t + gamma_a lambda_a A[t+1,L]. Second pass, inside each turn: A[t,j] =
    gamma_w V[t,j+1] - V[t,j] + gamma_w lambda_w A[t,j+1], starting from A[t,L].

    Source: "VAGEN: Reinforcing World Model Reasoning for Multi-Turn VLM Agents", arXiv 2510.16907.
    The authors' code finds the ends of turns by non-zero rewards, so that turns rewarded 0 melt
    into the next; here ends are known. A turn bootstraps from the next turn's *last* token, and
    which one that is shows only afterwards: a slight bias even with exact values.

    Attributes:
        gamma_token: discount inside a turn.
        lambda_token: trace decay inside a turn.
        gamma_turn: discount from turn to turn.
        lambda_turn: trace decay from turn to turn.
    """

    gamma_token: float = 1.0
    lambda_token: float = 1.0
    gamma_turn: float = 0.95
    lambda_turn: float = 1.0

    def __post_init__(self) -> None:
        """Checks that every parameter is a discount."""
        for name in ("gamma_token", "lambda_token", "gamma_turn", "lambda_turn"):
            check_fraction(name, getattr(self, name))

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Estimates advantages and value targets of a token critic."""
        values = require_values(values, batch, "tokens")
        assert values.tokens is not None
        future = np.where(batch.terminated, 0.0, values.bootstrap)
        slots = Slots.of(batch)
        value, delta, decay = np.empty((3, slots.last[-1] + 1))
        slots.spread(values.tokens, values.turns, out=value)
        ends = value[slots.last]
        following = _following(ends, future, batch.turn_offsets)
        turn_decay = np.full(len(ends), self.gamma_turn * self.lambda_turn)
        turn_decay[batch.turn_offsets[1:] - 1] = 0.0
        turns = reverse_scan(batch.rewards + self.gamma_turn * following - ends, turn_decay)
        np.multiply(value[1:], self.gamma_token, out=delta[:-1])
        np.subtract(delta[:-1], value[:-1], out=delta[:-1])
        decay[:] = self.gamma_token * self.lambda_token
        delta[slots.last], decay[slots.last] = turns, 0.0
        advantages = reverse_scan(delta, decay, out=delta)
        value += advantages
        return Credit(slots.tokens(advantages), slots.tokens(value))


@dataclass(frozen=True)
class Slots:
    """The places of the scan: one a token, and one for each turn without tokens.

    Attributes:
        first: [M] first slot of each turn.
        last: [M] last slot of each turn.
        of_token: [K] slot of each token, or the slice of everything where no turn is empty.
    """

    first: IntArray
    last: IntArray
    of_token: IntArray | slice

    @classmethod
    def of(cls, batch: Batch) -> Slots:
        """Lays out the slots of a batch."""
        lengths = np.diff(batch.token_offsets)
        stops = np.cumsum(np.maximum(lengths, 1))
        of_token: IntArray | slice = slice(None)
        if (lengths == 0).any():
            added = np.cumsum(lengths == 0)
            of_token = np.arange(batch.num_tokens) + np.repeat(added, lengths)
        return cls(stops - np.maximum(lengths, 1), stops - 1, of_token)

    def spread(self, tokens: FloatArray, turns: FloatArray, out: Float64) -> None:
        """Lays tokens' values [K] in their slots, and turns' [M] where a turn has no token."""
        if not isinstance(self.of_token, slice):
            out[self.first] = turns
        out[self.of_token] = tokens

    def tokens(self, slots: Float64) -> FloatArray:
        """What lies at the tokens' slots, [K]."""
        return slots[self.of_token].astype(np.float32)


def broadcast(turns: ArrayLike, batch: Batch) -> FloatArray:
    """Gives every token [K] the number of its turn [M]."""
    return np.repeat(np.asarray(turns, np.float32), np.diff(batch.token_offsets))


def require_values(values: Values | None, batch: Batch, reads: Reads) -> Values:
    """Checks that a critic said what is needed, in the right shapes."""
    if values is None:
        raise ValueError("This estimator needs a critic's values; got None.")
    expected = {"turns": batch.num_turns, "bootstrap": len(batch.trajectories)}
    if reads == "tokens":
        expected["tokens"] = batch.num_tokens
    for name, length in expected.items():
        array = getattr(values, name)
        if array is None or np.shape(array) != (length,):
            got = None if array is None else np.shape(array)
            raise ValueError(f"values.{name} should have shape ({length},); got {got}.")
    return values


def check_fraction(name: str, value: float) -> None:
    """Raises unless a discount or trace decay is in [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is a factor in [0, 1]; got {value}.")


def _following(first: Float64, future: Float64, turn_offsets: IntArray) -> Float64:
    """[M] the value after each turn: of the next one, or of the trajectory's future."""
    following = np.empty_like(first)
    following[:-1] = first[1:]
    following[turn_offsets[1:] - 1] = future
    return following
