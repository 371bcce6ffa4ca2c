"""Credit from the weights and preferences that the hooks of a recipe give (see `Learn`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.credit.turn_rewards import episode_credit, outcome_returns, turn_credit
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Pair


@dataclass(frozen=True)
class Given:
    """The advantages that the hooks gave, from the rewards of the environment.

    Attributes:
        baseline: subtracts the values of a token-level critic, whose targets are the advantages.
        gamma: discount per turn of the outcomes to which the spread of the advantages is compared
            (see `credit.normalize.reliability`). None: they are trusted.
    """

    baseline: bool = False
    gamma: float | None = None

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns the advantages.

        Raises:
            ValueError: if the hooks gave none, or if `baseline` is True and values are missing.
        """
        if batch.given is None:
            raise ValueError("The hooks gave no weights: return Learn(trajectories, weights).")
        credit = given_credit(batch, values, baseline=self.baseline)
        if self.gamma is None:
            return credit
        return replace(credit, returns=outcome_returns(batch, self.gamma))


def given_credit(batch: Batch, values: Values | None = None, *, baseline: bool = False) -> Credit:
    """Returns the weights that the hooks gave, or 1 for every token if they gave none.

    Args:
        batch: the trajectories.
        values: values of a token-level critic, needed with `baseline`.
        baseline: see `turn_credit`.
    """
    given = np.ones(batch.num_turns) if batch.given is None else batch.given
    if len(given) != batch.num_turns:
        return Credit(given.astype(np.float32))
    return turn_credit(given, batch, values, baseline=baseline)


def preference_credit(
    batch: Batch, log_ratio: Float64, beta: float, *, mean: bool, thought_coef: float
) -> Credit:
    """Returns the gradient of DPO and, if the hooks gave weights, of imitation beside it.

    The advantage of a token is -d loss / d score of its trajectory, times the number of
    trajectories. The score is log pi/ref of the trajectory, a sum over its tokens, or their mean.
    Tokens weigh as much in it as in the loss, of which this is the gradient.

    Args:
        batch: the trajectories, with pairs. Without, the hooks gave weights alone.
        log_ratio: [K] log pi - log reference.
        beta: temperature of the preference loss.
        mean: compares means over the tokens, without forced ones, instead of sums.
        thought_coef: weight of thought tokens, as in the loss.
    """
    if batch.pairs is None:
        return given_credit(batch)
    count, metrics = len(batch.trajectories), {"pairs": float(len(batch.pairs))}
    weights = np.zeros(count)
    if batch.pairs:
        owner = batch.turn_trajectory[batch.token_turn]
        shares = batch.weights(thought_coef)
        ratios = log_ratio * shares
        if mean:
            ratios = ratios / np.maximum(np.bincount(owner, shares), 1e-9)[owner]
        scores = np.bincount(owner, ratios, minlength=count)
        weights, accuracy = preference_weights(scores, batch.pairs, beta)
        metrics["preference_accuracy"] = accuracy
    credit = replace(episode_credit(weights * count, batch), metrics=metrics)
    if batch.given is None:
        return credit
    turns = len(batch.given) == batch.num_turns
    imitated = batch.given[batch.token_turn] if turns else batch.given
    return replace(credit, advantages=(credit.advantages + imitated).astype(np.float32))


def preference_weights(
    scores: np.ndarray, pairs: Sequence[Pair], beta: float
) -> tuple[np.ndarray, float]:
    """Returns -d loss / d score of the mean DPO loss over pairs [n], and its accuracy.

    Args:
        scores: [n] log pi - log reference of each trajectory.
        pairs: the preferences, at least one.
        beta: temperature, which each pair multiplies by its factor.
    """
    better, worse = np.array([pair[:2] for pair in pairs], np.int64).T
    labels, factors = np.array([pair[2:] for pair in pairs], np.float64).T
    slope = beta * factors
    margin = slope * (scores[better] - scores[worse])
    odds = np.exp(np.clip(margin, -50, 50))
    pull = slope * (labels / (1 + odds) - (1 - labels) * odds / (1 + odds)) / len(pairs)
    weights = np.bincount(better, pull, minlength=len(scores))
    weights -= np.bincount(worse, pull, minlength=len(scores))
    return weights, float(((margin > 0) == (labels > 0.5)).mean())
