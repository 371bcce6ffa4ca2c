"""iStar: implicit step rewards from a preference model that is trained online.

"Agentic Reinforcement Learning with Implicit Step Rewards" (also OPRL, arXiv 2509.19199). A second
copy of the policy is trained by DPO to prefer the better episodes of a group. The reward of a turn
is beta times the log-ratio between this model and the behaviour policy. The advantage is that of
the episode plus that of the turn, both leave-one-out.

Kept: beta = 0.05, the score of an episode as the mean over its turns, both advantages. Changed: a
turn is compared with all other turns of its group (the authors' code uses first turns only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import StepBaseline, implicit_process_rewards
from agentgym.trainers.hooks.base import RecipeHooks, pairs_of
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.settings import GroupRolloutConfig, NonNegative, RolloutConfig, defaults
from agentgym.trainers.trainer import Algorithm, Trainer
from agentgym.trainers.trajectory import Batch, FloatArray
from agentgym.trainers.update.learner import ForwardPass, Row, Rows
from agentgym.trainers.update.memory import TokenBudget
from agentgym.trainers.update.optimizer import AdamW


@dataclass
class Config(TrainConfig):
    """Settings of iStar."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    beta: NonNegative = 0.05
    """Temperature of the preference loss, and scale of the step rewards."""
    omega: NonNegative = 1.0
    """Weight of the turn-level comparison."""
    scale: bool = False
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""
    model_lr: NonNegative = 6e-4
    """Learning rate of the preference model."""


class ImplicitReward(RecipeHooks):
    """Rewards turns with the log-ratios of a preference model.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    one_policy = True

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.config = config
        self.autocast = trainer.accelerator.autocast
        self.budget = TokenBudget(trainer.updater.microbatch_tokens)
        self.model = trainer.policy.clone()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = AdamW(trained, lr=config.model_lr, weight_decay=0.0)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the pairs of the batch and returns the batch with implicit rewards."""
        logprobs = self._logprobs(batch)
        pairs = pairs_of(batch.trajectories)
        accuracy = self._fit(batch, logprobs, pairs)
        if pairs:
            logprobs = self._logprobs(batch)
        self.metrics = {"pairs": float(len(pairs)), "preference_accuracy": accuracy}
        return implicit_process_rewards(batch, logprobs, beta=self.config.beta)

    @torch.no_grad()
    def _logprobs(self, batch: Batch) -> FloatArray:
        found = np.zeros(batch.num_tokens, np.float32)

        def step(rows: list[Row]) -> None:
            collated = self._collate(batch, rows)
            with self.autocast():  # as the policy's, so that equal models have a ratio of 1
                logprobs = self.model(collated).logprobs
            found[collated.index.cpu().numpy()] = logprobs.float().cpu().numpy()

        self._each(batch, step)
        return found

    def _fit(self, batch: Batch, logprobs: FloatArray, pairs: list[tuple[int, int]]) -> float:
        """Takes one step of DPO over all pairs and returns their accuracy.

        d loss / d logprob is the same for all tokens of an episode and follows from the scores, so
        the gradient does not depend on the microbatches.
        """
        if not pairs:
            return 0.0
        config = self.config
        turns = np.diff(batch.turn_offsets)
        owner = batch.turn_trajectory[batch.token_turn]
        ratios = logprobs.astype(np.float64) - batch.logprobs
        scores = np.bincount(owner, ratios, minlength=len(turns)) / turns
        better, worse = np.array(pairs).T
        margin = config.beta * (scores[better] - scores[worse])
        pull = config.beta / (1 + np.exp(margin)) / len(pairs)
        weight = np.bincount(better, pull, minlength=len(turns))
        weight = (weight - np.bincount(worse, pull, minlength=len(turns))) / turns
        tokens = torch.from_numpy((weight[owner]).astype(np.float32)).to(self.model.device)

        def step(rows: list[Row]) -> None:
            collated = self._collate(batch, rows)
            with self.autocast():
                loss = -(tokens[collated.index] * self.model(collated).logprobs).sum()
            loss.backward()

        self.optimizer.zero_grad(set_to_none=True)
        self._each(batch, step)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.optimisation.max_grad_norm)
        self.optimizer.step()
        return float((margin > 0).mean())

    def _each(self, batch: Batch, step: Callable[[list[Row]], None]) -> None:
        """Calls a function with the rows of each microbatch."""
        rows = Rows.of(batch, bootstrap=False)
        self.budget.each(
            rows,
            np.arange(len(rows.rows)),
            lambda part: step([rows.rows[i] for i in part]),
            drop=self.optimizer.zero_grad,
        )

    def _collate(self, batch: Batch, rows: list[Row]):
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


def build(config: Config) -> Algorithm:
    """Returns the parts of iStar."""
    return Algorithm(
        credit=StepBaseline(config.omega, config.scale, config.outcome),
        hooks=lambda trainer: ImplicitReward(trainer, config),
    )
