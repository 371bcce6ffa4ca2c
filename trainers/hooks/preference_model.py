"""Preference models of episodes: a copy of the policy whose log-ratios are rewards of turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.update.learner import Row, Rows
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.optimizer import AdamW, divide_gradients

if TYPE_CHECKING:
    from torch import nn

    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy.collate import Collated
    from agentgym.trainers.policy.policy import Policy


class PreferenceModel(RecipeHooks):
    """Keeps a copy of the policy that is trained by DPO to prefer the better episodes of a group.

    Args:
        trainer: the trainer of the policy.
        lr: learning rate of the model.
        beta: temperature of the preference loss.
    """

    def __init__(self, trainer: Run, *, lr: float, beta: float):
        super().__init__()
        self.config, self.beta = trainer.config, beta
        self.autocast = trainer.accelerator.autocast
        self.budget = TokenBudget(trainer.updater.microbatch_tokens)
        self.model = trainer.policy.clone()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = AdamW(trained, lr=lr, weight_decay=0.0)

    @property
    def fitted(self) -> bool:
        """Whether the model has taken a step. Before the first one, it has no preferences."""
        return bool(self.optimizer.state)

    @torch.no_grad()
    def logprobs(self, batch: Batch, model: Policy | None = None) -> FloatArray:
        """Returns the log-probabilities [K] of a model, by default the preference model."""
        found = np.zeros(batch.num_tokens, np.float32)

        def step(rows: list[Row]) -> None:
            collated = self._collate(batch, rows)
            with self.autocast():  # as the policy's, so that equal models have a ratio of 1
                logprobs = (model or self.model)(collated).logprobs
            found[collated.index.cpu().numpy()] = logprobs.float().cpu().numpy()

        self._each(batch, step)
        return found

    def fit(
        self, batch: Batch, ratios: Float64, share: Float64, pairs: list[tuple[int, int]]
    ) -> float:
        """Takes one step of DPO over all pairs and returns their accuracy.

        d loss / d logprob follows from the scores, so the gradient does not depend on the
        microbatches. It is divided by its largest number until the optimiser's step, because
        gradients of a mean over many tokens would underflow in float16.

        Args:
            batch: the trajectories.
            ratios: [K] log-ratios of model and reference.
            share: [K] weight of each token in the score of its trajectory.
            pairs: (better, worse) trajectories.
        """
        if not pairs:
            return 0.0
        owner = batch.turn_trajectory[batch.token_turn]
        count = len(batch.trajectories)
        scores = np.bincount(owner, ratios * share, minlength=count)
        better, worse = np.array(pairs).T
        margin = self.beta * (scores[better] - scores[worse])
        pull = self.beta / (1 + np.exp(margin)) / len(pairs)
        weight = np.bincount(better, pull, minlength=count)
        weight -= np.bincount(worse, pull, minlength=count)
        of_token = weight[owner] * share
        largest = np.abs(of_token).max() or 1.0
        tokens = torch.from_numpy((of_token / largest).astype(np.float32)).to(self.model.device)

        def step(rows: list[Row]) -> None:
            collated = self._collate(batch, rows)
            with self.autocast():
                loss = -(tokens[collated.index] * self.model(collated).logprobs).sum()
            loss.backward()

        self.optimizer.zero_grad(set_to_none=True)
        self._each(batch, step)
        divide_gradients(self.model.parameters(), 1.0 / largest)
        norm = self.config.optimisation.max_grad_norm
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        self.optimizer.step()
        return float((margin > 0).mean())

    def _each(self, batch: Batch, step: Callable[[list[Row]], None]) -> None:
        """Calls a function with the rows of each microbatch."""
        rows = Rows.of(batch, bootstrap=False, scorer=self.model)
        self.budget.each(
            rows,
            np.arange(len(rows.rows)),
            lambda part: step([rows.rows[i] for i in part]),
            drop=self.optimizer.zero_grad,
        )

    def _collate(self, batch: Batch, rows: list[Row]) -> Collated:
        config, pad = self.config, self.model.pad_token
        collated = collate(
            batch,
            rows,
            pad,
            config.rollout.temperature,
            config.rollout.normalization,
            bootstrap=False,
        )
        return collated.to(self.model.device)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the preference model."""
        return (self.model,)

    def state_dict(self) -> dict[str, Any]:
        """Returns the model and its optimiser."""
        return {"model": self.model.own_weights(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.model.load_own_weights(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
