"""Returns as credit, without a critic or a group, and returns to measure critics against."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from agentgym.trainers.credit.alignment import AdvantageAlignment
from agentgym.trainers.credit.joint import JointGAE, JointReturns
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.data.batch import Batch, Credit, CreditFn, Values
from agentgym.trainers.data.trajectory import FloatArray


@dataclass(frozen=True)
class ReturnToGo:
    """The discounted return from each turn on, shared by its tokens.

    Attributes:
        gamma: discount between turns.
    """

    gamma: float = 1.0

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        return Credit(broadcast(returns, batch))


def observed_returns(credit: CreditFn, batch: Batch) -> FloatArray | None:
    """Returns the returns that the values of a critic predict, from rewards of the batch alone.

    They have the discounts of the estimator, per turn and per token. No value of the critic enters
    them, so that a truncated episode counts as if it ended there, with no reward after it. They are
    the targets of the estimator with every lambda 1 and every value 0: with lambda 1, GAE plus the
    value is the discounted return (arXiv 1506.02438, eq. 18).

    Args:
        credit: the estimator, a dataclass whose fields `lambda*` and `gamma*` are its lambdas and
            discounts, also those of an estimator in a field.
        batch: the trajectories, with the rewards that credit is assigned from.

    Returns:
        float32 returns in the shape of the value targets, [K] or [M]. None if the estimator gives
        no targets, or if returns do not vary. Where they are equal without a discount, only the
        time to the end differs, which does not count as a variation.
    """
    if not is_dataclass(credit):
        return None
    lengths = batch.num_tokens, batch.num_turns, len(batch.trajectories)
    zeros = Values(*(np.zeros(length, np.float32) for length in lengths))
    found = None
    for names in (("lambda", "gamma"), ("lambda",)):
        found = _with(credit, names, 1.0)(batch, zeros).targets
        # Sums of float32 numbers are equal up to rounding.
        if found is None or float(np.ptp(found)) <= 1e-6 * float(np.abs(found).max()):
            return None
    return found


@dataclass(frozen=True)
class OwnTargets:
    """Advantages of one estimator, and value targets of another.

    Attributes:
        advantages: the estimator of advantages.
        targets: the estimator of value targets.
    """

    advantages: CreditFn
    targets: CreditFn

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns the credit of the first estimator, with the targets of the second."""
        credit = self.advantages(batch, values)
        return replace(credit, targets=self.targets(batch, values).targets)


def with_critic_lambda(credit: CreditFn, lambda_: float) -> OwnTargets:
    """Returns an estimator whose value targets have a lambda of their own.

    Targets with lambda 1 are returns, without the bias of the critic, while advantages with a lower
    one have less variance. Source: "What's Behind PPO's Collapse in Long-CoT? Value Optimization
    Holds the Secret" (VC-PPO, arXiv 2503.01491), decoupled GAE.

    Args:
        credit: the estimator, a dataclass whose fields `lambda*` are its lambdas, also those of an
            estimator in a field.
        lambda_: the lambda of the targets.
    """
    return OwnTargets(credit, cast(CreditFn, _with(credit, ("lambda",), lambda_)))


def turn_discount(credit: CreditFn | None) -> float:
    """Returns the discount per turn of an estimator, 1 if it has none.

    Args:
        credit: the estimator, a dataclass whose field `gamma_turn` or else `gamma` is the discount,
            also that of an estimator in a field. None: there is no estimator.
    """
    if not is_dataclass(credit):
        return 1.0
    values = {each.name: getattr(credit, each.name) for each in fields(credit)}
    for name in ("gamma_turn", "gamma"):
        if name in values:
            return float(values[name])
    inner = next((value for value in values.values() if is_dataclass(value)), None)
    return turn_discount(cast("CreditFn | None", inner))


def is_joint(credit: CreditFn | None) -> bool:
    """Returns whether an estimator counts the rewards of all agents, by turns of the environment.

    Args:
        credit: the estimator, or one in a field. None: there is no estimator.
    """
    if isinstance(credit, OwnTargets):
        return is_joint(credit.advantages)
    return isinstance(credit, JointGAE | JointReturns | AdvantageAlignment)


def _with(estimator: Any, names: tuple[str, ...], number: float) -> Any:
    """Returns an estimator whose parameters that begin with one of these names are a number."""
    changes: dict[str, Any] = {}
    for each in fields(estimator):
        value = getattr(estimator, each.name)
        if is_dataclass(value):
            changes[each.name] = _with(value, names, number)
        elif each.name.startswith(names):
            changes[each.name] = number
    return replace(estimator, **changes)
