"""Rewards for turns where the environment gives one only at the end.

Each function takes what a model said (trained elsewhere) or what other rollouts brought, and
returns a batch with new rewards, or values; the estimators then work on that batch as on any
other. The trajectories keep the environment's rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.group import anchor_groups, members_of
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, require_values
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, Values


def attribute_progress(
    batch: Batch, contributions: ArrayLike, *, conserve: bool = True, valid_bonus: float = 0.0
) -> Batch:
    """Replaces rewards by each turn's predicted contribution to the trajectory's return.

    r'_t = c_t + valid_bonus * [the action was valid], and at the last turn R - sum_i c_i besides

    "SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution", arXiv 2505.20732, with
    valid_bonus 0.5 and without the last term, which makes the rewards add up to R exactly where
    the model's do so only nearly. (Spread evenly over the turns, what is missing would reward
    dawdling: the slower of two successes would have more reward left at each of its turns.)

    Args:
        batch: the trajectories.
        contributions: [M] predicted contributions.
        conserve: whether what the predictions miss is added to the last turn.
        valid_bonus: reward of an action that the environment understood.
    """
    rewards = np.array(contributions, np.float64)
    if rewards.shape != (batch.num_turns,):
        raise ValueError(f"Expected {batch.num_turns} contributions; got {rewards.shape}.")
    if conserve:
        starts = batch.turn_offsets[:-1]
        rewards[batch.turn_offsets[1:] - 1] += np.add.reduceat(batch.rewards - rewards, starts)
    if valid_bonus:
        rewards += valid_bonus * np.array([turn.valid for turn in batch.turns], np.float64)
    return batch.with_rewards(rewards)


def implicit_process_rewards(
    batch: Batch, logprobs: ArrayLike, reference: ArrayLike | None = None, *, beta: float = 0.05
) -> Batch:
    """Replaces rewards by how much likelier a preference-trained model finds each turn.

    r'_t = beta sum_j [log pi_phi(w_{t,j}) - log pi_ref(w_{t,j})]

    iStar, "Agentic Reinforcement Learning with Implicit Step Rewards", arXiv 2509.19199: pi_phi is
    trained by DPO between better and worse trajectories of a group.

    Args:
        batch: the trajectories.
        logprobs: [K] log-probabilities under pi_phi.
        reference: [K] under the reference; None: under the policy that acted.
        beta: the temperature of the DPO loss that pi_phi was trained with.
    """
    base = batch.logprobs if reference is None else reference
    difference = np.asarray(logprobs, np.float64) - np.asarray(base, np.float64)
    return batch.with_rewards(
        beta * np.bincount(batch.token_turn, difference, minlength=batch.num_turns)
    )


@dataclass(frozen=True)
class StepBaseline:
    """iStar's credit: trajectories against their group, step rewards against the group's steps.

    A = A_E + omega A_S, both leave-one-out (arXiv 2509.19199). A_E compares the environment's
    returns; A_S compares the batch's rewards - those of `implicit_process_rewards` - with all other
    turns of the group.

    Attributes:
        omega: weight of the step part.
    """

    omega: float = 1.0

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        outcomes = np.array([t.episode_return for t in batch.trajectories])
        episode = _leave_one_out(outcomes, batch.groups)[batch.turn_trajectory]
        step = _leave_one_out(batch.rewards, batch.groups[batch.turn_trajectory])
        return Credit(broadcast(episode + self.omega * step, batch))


@dataclass(frozen=True)
class TurnReward:
    """The reward of a turn as the advantage of its tokens: for rewards that are advantages.

    Attributes:
        baseline: subtract a token critic's values, whose targets are these advantages: the token
            baseline b(o, a_<j) of ArCHer (arXiv 2402.19446).
    """

    baseline: bool = False

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages, and targets of the baseline."""
        advantages = broadcast(batch.rewards, batch)
        if not self.baseline:
            return Credit(advantages)
        values = require_values(values, batch, "tokens")
        assert values.tokens is not None
        return Credit(advantages - values.tokens, advantages)


@dataclass(frozen=True)
class AdvantageWeight:
    """Weights of imitation, min(exp(beta A), limit), from rewards that are advantages.

    "Advantage-Weighted Regression", arXiv 1910.00177: one step of the surrogate on these weights
    is one step of weighted likelihood.

    Attributes:
        beta: how much better actions count more.
        limit: largest weight.
    """

    beta: float = 1.0
    limit: float = 20.0

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns the weights as advantages; `values` are not used."""
        return Credit(broadcast(weights_of(batch.rewards, self.beta, self.limit), batch))


def weights_of(advantages: ArrayLike, beta: float, limit: float = 20.0) -> FloatArray:
    """Returns min(exp(beta A), limit) of any shape (arXiv 1910.00177)."""
    exponent = np.minimum(beta * np.asarray(advantages, np.float64), np.log(limit))
    return np.exp(exponent).astype(np.float32)


@dataclass(frozen=True)
class EpisodeReward:
    """The sum of an episode's rewards as the advantage of all its tokens; no baseline."""

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Estimates advantages; `values` are not used."""
        totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
        return Credit(broadcast(totals[batch.turn_trajectory], batch))


def monte_carlo_values(batch: Batch, gamma: float = 0.95) -> Float64:
    """[M] mean discounted outcome of all turns that took the same action in the same state.

    Q(s, a) = mean of gamma^(T - 1 - t) R over the visits, with R the trajectory's return: what
    "Process Reward Models for LLM Agents: Practical Framework and Directions" (AgentPRM, arXiv
    2502.10325) regresses its model on. The exponent counts the turns to the *end* (the authors'
    code counts from the start). States are compared inside a group only.
    """
    check_fraction("gamma", gamma)
    to_end = batch.turn_offsets[1:][batch.turn_trajectory] - 1 - np.arange(batch.num_turns)
    totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
    outcomes = np.power(gamma, to_end, dtype=np.float64) * totals[batch.turn_trajectory]
    numbers: dict[str, int] = {}
    actions = [numbers.setdefault(turn.action, len(numbers)) for turn in batch.turns]
    pairs = anchor_groups(batch) * len(numbers) + np.array(actions, np.int64)
    return members_of(pairs).mean(outcomes)


def value_gains(batch: Batch, values: ArrayLike, gamma: float = 0.95) -> Batch:
    """Replaces rewards by how much each action improved what could be expected.

    With Q_t as in `monte_carlo_values`, the state that an action is taken in was worth V_t =
    Q_{t-1} / gamma, so r'_t = Q_t - Q_{t-1} / gamma is the action's advantage; the first states of
    a group are worth the mean of its first Q.

    Args:
        batch: the trajectories.
        values: [M] Q of the action taken at each turn.
        gamma: the discount in Q; above 0.
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma divides here: it is above 0 and at most 1; got {gamma}.")
    values = np.asarray(values, np.float64)
    first = batch.turn_offsets[:-1]
    expected = np.append(0.0, values[:-1]) / gamma
    expected[first] = members_of(batch.groups).mean(values[first])
    return batch.with_rewards(values - expected)


def shape_rewards(
    batch: Batch, potentials: ArrayLike, gamma: float, final: ArrayLike | None = None
) -> Batch:
    """Adds potential-based shaping, r'_t = r_t + gamma Phi(s_{t+1}) - Phi(s_t).

    Leaves the best policy as it is: "Policy Invariance Under Reward Transformations" (Ng, Harada,
    Russell, ICML 1999). Phi is 0 after a termination.

    Args:
        batch: the trajectories.
        potentials: [M] Phi of the state each action is taken in.
        gamma: discount of a turn.
        final: [N] Phi of the state after the last turn, where the trajectory was cut off.
    """
    potentials = np.asarray(potentials, np.float64)
    if potentials.shape != (batch.num_turns,):
        raise ValueError(f"Expected {batch.num_turns} potentials; got {potentials.shape}.")
    if final is None:
        if not batch.terminated.all():
            raise ValueError("A trajectory was cut off: pass the potential of its last state.")
        final = np.zeros(len(batch.trajectories))
    following = np.append(potentials[1:], 0.0)
    following[batch.turn_offsets[1:] - 1] = np.where(batch.terminated, 0.0, final)
    return batch.with_rewards(batch.rewards + gamma * following - potentials)


def _leave_one_out(x: Float64, groups: ArrayLike) -> Float64:
    """[n] each item minus the mean of the others of its group; alone: 0."""
    members = members_of(np.asarray(groups))
    difference = members.compare(x, scale=False, epsilon=0.0)
    return difference * members.count / np.maximum(members.count - 1, 1)
