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


def turn_credit(
    advantages: ArrayLike, batch: Batch, values: Values | None = None, *, baseline: bool = False
) -> Credit:
    """Returns the credit in which all tokens of a turn share its advantage.

    Args:
        advantages: [M] the advantage of each turn, or its weight in an imitation loss.
        batch: the trajectories.
        values: of a token critic, if there is a baseline.
        baseline: subtract the token critic's values, whose targets are these advantages: the token
            baseline b(o, a_<j) of ArCHer (arXiv 2402.19446).
    """
    tokens = broadcast(np.asarray(advantages, np.float64), batch)
    if not baseline:
        return Credit(tokens)
    values = require_values(values, batch, "tokens")
    assert values.tokens is not None
    return Credit(tokens - values.tokens, tokens)


def weights_of(advantages: ArrayLike, beta: float, limit: float = 20.0) -> FloatArray:
    """Returns min(exp(beta A), limit) of any shape (arXiv 1910.00177)."""
    exponent = np.minimum(beta * np.asarray(advantages, np.float64), np.log(limit))
    return np.exp(exponent).astype(np.float32)


def episode_credit(advantages: ArrayLike, batch: Batch) -> Credit:
    """Returns the credit in which all tokens of an episode share its advantage.

    Args:
        advantages: [N] the advantage of each trajectory, or its weight in a preference loss.
        batch: the trajectories.
    """
    return turn_credit(np.asarray(advantages, np.float64)[batch.turn_trajectory], batch)


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


def value_gains(batch: Batch, values: ArrayLike, gamma: float = 0.95) -> Float64:
    """Returns [M] the increase of the expected outcome by each action.

    With Q_t as in `monte_carlo_values`, the state that an action was taken in has the value V_t =
    Q_{t-1} / gamma, so Q_t - Q_{t-1} / gamma is the advantage of the action. The value of the first
    states of a group is the mean of its first Q.

    Args:
        batch: the trajectories.
        values: [M] Q of the action taken at each turn.
        gamma: the discount in Q; above 0.
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must be in (0, 1], got {gamma}.")
    values = np.asarray(values, np.float64)
    first = batch.turn_offsets[:-1]
    expected = np.append(0.0, values[:-1]) / gamma
    expected[first] = members_of(batch.groups).mean(values[first])
    return values - expected


def _leave_one_out(x: Float64, groups: ArrayLike) -> Float64:
    """[n] each item minus the mean of the others of its group; alone: 0."""
    members = members_of(np.asarray(groups))
    difference = members.compare(x, scale=False, epsilon=0.0)
    return difference * members.count / np.maximum(members.count - 1, 1)
