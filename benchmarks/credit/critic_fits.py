"""Critics fitted to episodes, and the variance of the return that they explain, for `critic.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trainers.critics.heads import TurnValueHead, ValueHead
from agentgym.trainers.critics.privileged import critic_view
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.update.metrics import explained_variance
from benchmarks.credit.critic_episodes import Settings, returns_to_go


@dataclass(frozen=True)
class Critic:
    """Settings of a critic.

    Attributes:
        lr: learning rate.
        sees: its input, as the setting `critic_sees`.
        trunk: its language model, as the setting `critic_backbone`.
        times: multiple of the tokens that it is fitted with.
        normalize: whether it predicts normalised returns.
        bins: number of bins of a two-hot head. 1: a scalar head.
    """

    lr: float
    sees: str = "own"
    trunk: str = "own"
    times: int = 1
    normalize: bool = True
    bins: int = 1


CRITICS = {
    "shared": Critic(1e-3, trunk="policy", normalize=False),
    "shared, normalised": Critic(1e-3, trunk="policy"),
    "own": Critic(3e-4),
    "hidden": Critic(3e-4, "hidden"),
    "hidden, 3 x": Critic(3e-4, "hidden", times=3),
    "state": Critic(1e-3, "state"),
}


def fit(
    critic: Critic,
    agent: PolicyAgent,
    batch: Batch,
    settings: Settings,
    kind: type[ValueHead] = TurnValueHead,
) -> tuple[ValueModel, int]:
    """Returns a critic fitted to the returns of episodes, of turns or of tokens, and its epochs."""
    policy = agent.policy
    generator = torch.Generator().manual_seed(settings.seed)
    head = kind(policy.hidden_size, (256,), bins=critic.bins, generator=generator)
    own = critic.trunk == "own"
    view = critic_view(critic.sees, make_context(policy, agent.settings))
    seen = batch if view is None else view(batch)
    length = sum(len(segment.tokens) for each in seen.trajectories for segment in each.segments)
    epochs = min(settings.epochs, max(1, round(settings.tokens * critic.times / length)))
    model = ValueModel(
        policy if own else policy.frozen_copy(), head, lr=critic.lr, epochs=epochs,
        batch_tokens=settings.batch_tokens, normalize=critic.normalize, view=view,
    )  # fmt: skip
    returns = returns_to_go(batch)
    targets = returns[batch.token_turn] if head.reads == "tokens" else returns
    model.fit(batch, targets, np.random.default_rng(settings.seed))
    return model, epochs


def explained(values: FloatArray, returns: FloatArray) -> float:
    """Returns the explained variance of values [S] over returns [S, K]."""
    return explained_variance(np.repeat(values, returns.shape[1]), returns.reshape(-1))


def possible(returns: FloatArray) -> float:
    """Returns the share of the variance of returns [S, K] that lies between states."""
    total = float(returns.var())
    within = float(returns.var(axis=1, ddof=1).mean())
    return 0.0 if total < 1e-12 else 1.0 - within / total


def interval(
    statistic: Callable[..., float], episode: NDArray[np.int64], *arrays: NDArray[Any]
) -> list[float]:
    """Returns a statistic and its 95 % interval from a bootstrap over episodes.

    Args:
        statistic: maps the arrays to a number.
        episode: [S] the index of the episode of each state.
        arrays: arrays [S, ...].
    """
    members = [np.flatnonzero(episode == each) for each in np.unique(episode)]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(1000):
        chosen = np.concatenate([members[i] for i in rng.integers(len(members), size=len(members))])
        drawn.append(statistic(*(array[chosen] for array in arrays)))
    found = [statistic(*arrays), *np.quantile(drawn, [0.025, 0.975])]
    return [round(float(x), 4) for x in found]
