"""The scalars of an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.rollout.collector import by_env_id, by_role, rollout_metrics
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.mismatch import logprob_gap, staleness_metrics
from agentgym.trainers.update.update_data import correlation, explained_variance


def iteration_metrics(
    config: TrainConfig,
    trajectories: Sequence[Trajectory],
    batch: Batch,
    credit: Credit,
    extra: Mapping[str, float],
    forward: ForwardPass | None,
    version: int,
) -> dict[str, float]:
    """Returns the scalars of the rollout, the credit and the critic.

    Args:
        config: the settings.
        trajectories: the trajectories that were played.
        batch: the trajectories that were learned from.
        credit: their credit, before normalisation.
        extra: metrics of the hooks.
        forward: the forward pass before the update, or None.
        version: version of the weights in that forward pass.
    """
    numbers = {f"rollout/{k}": v for k, v in rollout_metrics(trajectories).items()}
    several = len(config.environment.ids) > 1
    for name, some in by_env_id(trajectories):
        parts = [(f"{name}/{role}" if several else role, few) for role, few in by_role(some)]
        for label, few in [(name, some), *parts] if several else parts:
            each = rollout_metrics(few)
            numbers |= {f"rollout/{label}/{k}": each[k] for k in ("return", "success", "turns")}
    if config.rollout.rollout_workers or config.rollout.cross_policy:
        numbers |= {f"rollout/{k}": v for k, v in staleness_metrics(batch, version).items()}
    numbers["rollout/kept"] = len(batch.trajectories) / len(trajectories)
    numbers |= {f"credit/{k}": v for k, v in (credit.metrics | dict(extra)).items()}
    numbers["credit/advantage_mean"] = float(credit.advantages.mean())
    numbers["credit/advantage_std"] = float(credit.advantages.std())
    if forward is not None:
        numbers["rollout/logprob_gap"] = logprob_gap(batch, forward.logprobs, version)
        if forward.values is not None and credit.targets is not None:
            values = forward.values.tokens
            values = forward.values.turns if values is None else values
            numbers["losses/explained_variance"] = explained_variance(values, credit.targets)
            numbers["credit/value_mean"] = float(values.mean())
            returns = discounted_returns(batch.rewards, batch.turn_offsets, 1.0)
            numbers["losses/value_correlation"] = correlation(
                forward.values.turns, returns.astype(np.float32)
            )
    return numbers
