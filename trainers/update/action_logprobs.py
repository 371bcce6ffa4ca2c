"""`action_logprobs`: a model's log-probabilities of the action tokens of a batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.rows import Rows

TOKENS = 8192
"""Tokens per forward pass, padding included."""


@torch.no_grad()
def action_logprobs(policy: Policy, batch: Batch, sampling: Sampling) -> FloatArray:
    """Returns the log-probabilities of the action tokens under a model [K].

    They are those of the distribution that actions are sampled from: admissible actions only if
    actions are constrained, at the temperature of sampling.

    Args:
        policy: the model.
        batch: the trajectories.
        sampling: how actions are sampled.
    """
    rows, found = Rows.of(batch, bootstrap=False, scorer=policy), np.zeros(batch.num_tokens)

    def step(part: NDArray[np.int64]) -> None:
        collated = collate(
            batch, [rows.rows[i] for i in part], policy.pad_token, sampling.temperature,
            sampling.normalization, bootstrap=False,
        ).to(policy.device)  # fmt: skip
        found[collated.index.cpu().numpy()] = policy(collated).logprobs.float().cpu().numpy()

    TokenBudget(TOKENS).each(rows, np.arange(len(rows.rows)), step)
    return found.astype(np.float32)
