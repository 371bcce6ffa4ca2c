"""Turn-level rewards for environments with a reward only at the end of an episode.

Each function takes predictions of a learned model or outcomes of other rollouts, and returns values
or a batch with new rewards, to be used with any estimator. The trajectories keep the environment's
rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.group import anchor_groups, members_of, trajectory_outcomes
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, require_values
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import FloatArray, IntArray


def attribute_progress(
    batch: Batch, contributions: ArrayLike, *, valid_bonus: float = 0.0
) -> Batch:
    """Replaces rewards by each turn's predicted contribution to the trajectory's return.

        r'_t = c_t + valid_bonus * [the action was valid]
             + (R - sum_i c_i) * [t is the last turn]

    "SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution", arXiv 2505.20732, has
    valid_bonus = 0.5 and no residual term. The residual makes the contributions sum to the return R
    exactly. It is not spread over all turns, because this would favour longer episodes: the slower
    of two successes would have more reward left at each turn.

    Args:
        batch: the trajectories.
        contributions: [M] predicted contributions c.
        valid_bonus: additional reward for a valid action.

    Raises:
        ValueError: if `contributions` does not have the shape [M].
    """
    rewards = np.array(contributions, np.float64)
    if rewards.shape != (batch.num_turns,):
        raise ValueError(
            f"Expected {batch.num_turns} contributions, one per turn, got shape {rewards.shape}."
        )
    starts = batch.turn_offsets[:-1]
    rewards[batch.turn_offsets[1:] - 1] += np.add.reduceat(batch.rewards - rewards, starts)
    if valid_bonus:
        rewards += valid_bonus * np.array([turn.valid for turn in batch.turns], np.float64)
    return batch.with_rewards(rewards)


def implicit_process_rewards(batch: Batch, logprobs: ArrayLike, *, beta: float = 0.05) -> Batch:
    """Replaces rewards by the implicit rewards of a model trained on preferences.

        r'_t = beta sum_j [log pi_phi(w_{t,j}) - log pi_ref(w_{t,j})]

    Source: iStar, "Agentic Reinforcement Learning with Implicit Step Rewards", arXiv 2509.19199.
    pi_phi is trained with DPO on pairs of better and worse trajectories of a group, and pi_ref is
    the behaviour policy.

    Args:
        batch: the trajectories.
        logprobs: [K] log-probabilities under pi_phi.
        beta: temperature of the DPO loss that pi_phi was trained with.
    """
    difference = np.asarray(logprobs, np.float64) - np.asarray(batch.logprobs, np.float64)
    return batch.with_rewards(
        beta * np.bincount(batch.token_turn, difference, minlength=batch.num_turns)
    )


@dataclass(frozen=True)
class StepBaseline:
    """The credit of iStar (arXiv 2509.19199): A = A_E + omega A_S, with leave-one-out baselines.

    A_E compares the environment's return of a trajectory, or its success, with the others of its
    group. A_S compares the batch's reward of a turn (from `implicit_process_rewards`) with all
    other turns of the group.

    Attributes:
        omega: weight of the step-level advantage A_S.
        scale: divides both by the group's sample standard deviation (n - 1).
        outcome: "return" compares undiscounted returns, "success" compares 1 for success, else 0.
        epsilon: added to the standard deviation.
    """

    omega: float = 1.0
    scale: bool = False
    outcome: Literal["return", "success"] = "return"
    epsilon: float = 1e-6

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        played = batch.with_rewards([turn.reward for turn in batch.turns])
        outcomes = trajectory_outcomes(played, self.outcome)
        episode = self._leave_one_out(outcomes, batch.groups)[batch.turn_trajectory]
        step = self._leave_one_out(batch.rewards, batch.groups[batch.turn_trajectory])
        return Credit(broadcast(episode + self.omega * step, batch))

    def _leave_one_out(self, x: Float64, groups: IntArray) -> Float64:
        """Returns each item minus the mean of the others of its group [n], 0 for single items."""
        members = members_of(groups)
        difference = members.compare(x, scale=self.scale, epsilon=self.epsilon)
        return difference * members.count / np.maximum(members.count - 1, 1)


def turn_credit(
    advantages: ArrayLike, batch: Batch, values: Values | None = None, *, baseline: bool = False
) -> Credit:
    """Returns turn-level credit: all tokens of a turn share its advantage.

    Args:
        advantages: [M] advantage of each turn, or its weight in a behaviour-cloning loss.
        batch: the trajectories.
        values: values of a token-level critic, needed with `baseline`.
        baseline: subtracts the values of a token-level critic whose targets are these advantages,
            the token baseline b(o, a_<j) of ArCHer (arXiv 2402.19446).

    Raises:
        ValueError: if `baseline` is True and values are missing or have the wrong shape.
    """
    tokens = broadcast(np.asarray(advantages, np.float64), batch)
    if not baseline:
        return Credit(tokens)
    values = require_values(values, batch, "tokens")
    assert values.tokens is not None
    return Credit(tokens - values.tokens, tokens)


def weights_of(advantages: ArrayLike, beta: float) -> FloatArray:
    """Returns the weights min(exp(beta A), 20) of advantage-weighted regression.

    Source: "Advantage-Weighted Regression", arXiv 1910.00177.

    Args:
        advantages: advantages of any shape.
        beta: inverse temperature.
    """
    exponent = np.minimum(beta * np.asarray(advantages, np.float64), np.log(20.0))
    return np.exp(exponent).astype(np.float32)


def episode_credit(advantages: ArrayLike, batch: Batch) -> Credit:
    """Returns trajectory-level credit: all tokens of a trajectory share its advantage.

    Args:
        advantages: [N] advantage of each trajectory, or its weight in a preference loss.
        batch: the trajectories.
    """
    return turn_credit(np.asarray(advantages, np.float64)[batch.turn_trajectory], batch)


def outcome_returns(batch: Batch, gamma: float) -> Float64:
    """Returns the discounted outcome of each turn [M], gamma^(T - 1 - t) R.

    R is the return of the trajectory, as if all of it was received at the end.

    Args:
        batch: the trajectories.
        gamma: discount per turn.
    """
    check_fraction("gamma", gamma)
    to_end = batch.turn_offsets[1:][batch.turn_trajectory] - 1 - np.arange(batch.num_turns)
    totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
    return np.power(gamma, to_end, dtype=np.float64) * totals[batch.turn_trajectory]


def monte_carlo_values(batch: Batch, gamma: float = 0.95) -> Float64:
    """Returns Monte Carlo action values [M]: the mean outcome of turns with equal state and action.

    Q(s, a) is the mean of gamma^(T - 1 - t) R over the visits, with R the trajectory's return, the
    regression target of "Process Reward Models for LLM Agents: Practical Framework and Directions"
    (AgentPRM, arXiv 2502.10325). The exponent counts the turns to the *end* of the episode, while
    the authors' code counts from the start. States are compared within a group only.

    Args:
        batch: the trajectories.
        gamma: discount per turn.
    """
    outcomes = outcome_returns(batch, gamma)
    numbers: dict[str, int] = {}
    actions = [numbers.setdefault(turn.action, len(numbers)) for turn in batch.turns]
    pairs = anchor_groups(batch) * len(numbers) + np.array(actions, np.int64)
    return members_of(pairs).mean(outcomes)


def value_gains(batch: Batch, values: ArrayLike, gamma: float = 0.95) -> Float64:
    """Returns advantages [M]: the increase of the expected outcome by each action.

    With Q_t as in `monte_carlo_values`, the value of the state before action t is V_t =
    Q_{t-1} / gamma, so the advantage of the action is Q_t - Q_{t-1} / gamma. The value of the
    initial state of a group is the mean of its first Q.

    Args:
        batch: the trajectories.
        values: [M] Q of the action taken at each turn.
        gamma: discount in Q, in (0, 1].

    Raises:
        ValueError: if `gamma` is not in (0, 1].
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must be in (0, 1], got {gamma}.")
    values = np.asarray(values, np.float64)
    first = batch.turn_offsets[:-1]
    expected = np.append(0.0, values[:-1]) / gamma
    expected[first] = members_of(batch.groups).mean(values[first])
    return values - expected
