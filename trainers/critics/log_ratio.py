"""`LogRatio`: the implicit reward of a preference model, as a model of the values of actions."""

from __future__ import annotations

import numpy as np
from torch import nn

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.update.action_logprobs import action_logprobs


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

    def predict(self, batch: Batch) -> FloatArray:
        """Returns the scores of the turns of a batch [M]."""
        model, reference = (
            action_logprobs(each, batch, Sampling()).astype(np.float64)
            for each in (self.trunk, self.reference)
        )
        sums = np.bincount(batch.token_turn, model - reference, minlength=batch.num_turns)
        return (self.beta * sums).astype(np.float32)
