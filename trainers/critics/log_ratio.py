"""`LogRatio`: the implicit reward of a preference model, as a model of the values of actions."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.microbatches import CPU_TOKENS, TokenBudget


class LogRatio(nn.Module):
    """Scores an action by beta times its log-ratio under a model and under its reference.

    A model that is trained by DPO to prefer better episodes is an implicit reward model: "Direct
    Preference Optimization" (arXiv 2305.18290), and of the steps of agents "AgentRM: Enhancing
    Agent Generalization with Reward Modeling" (arXiv 2502.18407).

    Args:
        trunk: the preference model.
        reference: the policy that it is compared with, with the same tokenizer.
        beta: temperature of the preferences.
    """

    def __init__(self, trunk: Policy, reference: Policy, beta: float):
        super().__init__()
        self.trunk, self.reference, self.beta = trunk, reference, beta
        self._budget = TokenBudget(CPU_TOKENS)

    @torch.no_grad()
    def predict(self, batch: Batch) -> FloatArray:
        """Returns the scores of the turns of a batch [M]."""
        ratios = self._logprobs(self.trunk, batch) - self._logprobs(self.reference, batch)
        sums = np.bincount(batch.token_turn, ratios, minlength=batch.num_turns)
        return (self.beta * sums).astype(np.float32)

    def _logprobs(self, policy: Policy, batch: Batch) -> NDArray[np.float64]:
        """Returns the log-probabilities [K] under a policy."""
        rows, found = Rows.of(batch, bootstrap=False, scorer=policy), np.zeros(batch.num_tokens)

        def step(part: NDArray[np.int64]) -> None:
            chosen = [rows.rows[i] for i in part]
            collated = collate(batch, chosen, policy.pad_token, 1.0, None, bootstrap=False)
            output = policy(collated.to(policy.device))
            found[collated.index.cpu().numpy()] = output.logprobs.double().cpu().numpy()

        self._budget.each(rows, np.arange(len(rows.rows)), step)
        return found
