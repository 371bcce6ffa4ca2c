"""The scalars, histograms and transcripts of an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.credit.group import anchor_groups
from agentgym.trainers.credit.returns import observed_returns
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.alternatives import Alternatives
from agentgym.trainers.rollout.metrics import by_env_id, by_role, rollout_metrics
from agentgym.trainers.run.logger import global_step
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.metrics import correlation, explained_variance, value_error
from agentgym.trainers.update.mismatch import logprob_gap, staleness_metrics

if TYPE_CHECKING:
    from agentgym.trainers.run.parts import Parts


def log_iteration(
    trainer: Parts,
    trajectories: Sequence[Trajectory],
    batch: Batch,
    credit: Credit,
    forward: ForwardPass | None,
    rewarded: Batch,
    losses: Mapping[str, float],
    further: Mapping[str, float],
    alternatives: Alternatives,
    trust: Mapping[str, float],
) -> dict[str, float]:
    """Logs the iteration that a trainer has just finished and returns its scalars.

    Args:
        trainer: the trainer.
        trajectories: the trajectories that were played.
        batch: the trajectories that were learned from.
        credit: their credit, before normalisation.
        forward: the forward pass before the update, or None.
        rewarded: the batch with the rewards that credit was assigned from.
        losses: scalars of the update.
        further: durations, speeds and other scalars.
        alternatives: log-probabilities of the admissible actions, by turn of the batch.
        trust: the reliability of the advantages of each role.
    """
    config, state, log = trainer.config, trainer.state, trainer.log
    algorithm, returns = trainer.algorithm, None
    extra = trainer.hooks.metrics | trainer.rewards.metrics
    if algorithm.critic is not None and algorithm.estimator is not None:
        returns = observed_returns(algorithm.estimator, rewarded)
    numbers = iteration_metrics(
        config, trajectories, batch, credit, extra, forward, returns, state.iteration - 1
    )
    numbers |= trainer.rollouts.metrics()
    if greedy := [batch.turns[m].action == pairs[0][0] for m, pairs in alternatives.items()]:
        numbers["rollout/greedy"] = float(np.mean(greedy))
    if returns is not None and forward is not None and forward.values is not None:
        error = error_of_values(forward.values, returns, rewarded)
        numbers |= {} if error is None else {"losses/value_error": error}
    numbers |= {f"losses/{k}": v for k, v in losses.items()}
    if trust:
        numbers["credit/reliability"] = float(np.mean([*trust.values()]))
    numbers |= {f"credit/{role}/reliability": x for role, x in trust.items() if role}
    numbers["charts/tokens"] = float(state.tokens)
    for role, updater in trainer.updaters.parts.items():
        name = f"charts/{role}/lr" if role else "charts/lr"
        numbers[name] = float(updater.optimizer.param_groups[0]["lr"])
    numbers |= further
    log.row(state, numbers)
    log.histogram("credit/advantages", credit.advantages, global_step(state))
    values = None if forward is None else forward.values
    if values is not None:
        shown = values.turns if values.tokens is None else values.tokens
        log.histogram("credit/values", shown, global_step(state))
    count, decode = config.run.transcripts, trainer.policy.decode
    log.transcripts(batch, credit, values, state, count, decode, alternatives)
    return numbers


def error_of_values(values: Values, returns: FloatArray, batch: Batch) -> float | None:
    """Returns the error of the values of states that several episodes visit (`value_error`).

    Args:
        values: the critic's values.
        returns: the returns that they predict (`observed_returns`), of tokens if the values are.
        batch: the trajectories.
    """
    at_turns = returns if values.tokens is None else returns[batch.token_offsets[:-1]]
    return value_error(values.turns, at_turns.astype(np.float64), anchor_groups(batch))


def iteration_metrics(
    config: TrainConfig,
    trajectories: Sequence[Trajectory],
    batch: Batch,
    credit: Credit,
    extra: Mapping[str, float],
    forward: ForwardPass | None,
    returns: FloatArray | None,
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
        returns: the returns that the critic predicts (`observed_returns`), or None.
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
        if forward.logprobs is not None and not config.rollout.epsilon:  # which samples otherwise
            numbers["rollout/logprob_gap"] = logprob_gap(batch, forward.logprobs, version)
        if forward.values is not None and credit.targets is not None:
            values = forward.values.tokens
            values = forward.values.turns if values is None else values
            if returns is not None:
                numbers["losses/explained_variance"] = explained_variance(values, returns)
            numbers["credit/value_mean"] = float(values.mean())
            played = discounted_returns(batch.rewards, batch.turn_offsets, 1.0)
            numbers["losses/value_correlation"] = correlation(
                forward.values.turns, played.astype(np.float32)
            )
    return numbers
