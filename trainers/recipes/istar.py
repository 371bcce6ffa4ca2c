"""iStar: implicit step rewards from a model of preferences, trained online (arXiv 2509.19199).

"Agentic Reinforcement Learning with Implicit Step Rewards" (also OPRL). A second copy of the policy
is trained by DPO to prefer the better episodes of a group; how much likelier than the acting policy
it finds a turn is that turn's reward. The advantage is that of the episode plus that of the turn,
both leave-one-out.

Kept: beta = 0.05, the score of an episode as the mean over its turns, both advantages. Changed: a
turn is compared with all other turns of its group (the authors' code uses first turns only).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize
from agentgym.trainers.credit.turn_rewards import StepBaseline, implicit_process_rewards
from agentgym.trainers.hooks.base import Experience, pairs_of
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, FloatArray
from agentgym.trainers.update.learner import Reading, Rows


@dataclass
class Config(grpo.Config):
    """Settings of iStar."""

    normalize_advantages: Normalize = "batch"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    beta: float = 0.05
    """Temperature of the preference loss, and scale of the step rewards."""
    omega: float = 1.0
    """Weight of the comparison of turns."""
    model_lr: float = 6e-4
    """Learning rate of the preference model."""


class ImplicitReward(Experience):
    """Rewards of turns as log-ratios of a model of preferences."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.config = config
        self.model = trainer.policy.clone()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=config.model_lr, weight_decay=0.0)

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with implicit step rewards, then fits the model to its pairs."""
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
        for rows in self._parts(batch):
            collated = self._collate(batch, rows)
            found[collated.index.cpu().numpy()] = self.model(collated).logprobs.cpu().numpy()
        return found

    def _fit(self, batch: Batch, logprobs: FloatArray, pairs: list[tuple[int, int]]) -> float:
        """Takes one step of DPO over all pairs; returns the share that were the right way round.

        d loss / d logprob is the same for all tokens of an episode and known from the scores, so
        the gradient is exact however the batch is cut.
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
        self.optimizer.zero_grad(set_to_none=True)
        for rows in self._parts(batch):
            collated = self._collate(batch, rows)
            loss = -(tokens[collated.index] * self.model(collated).logprobs).sum()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm)
        self.optimizer.step()
        return float((margin > 0).mean())

    def _parts(self, batch: Batch) -> list[list[tuple[int, int]]]:
        rows = Rows.of(batch)
        parts = rows.microbatches(np.arange(len(rows.rows)), self.config.microbatch_tokens)
        return [[rows.rows[i] for i in part] for part in parts]

    def _collate(self, batch: Batch, rows: list[tuple[int, int]]):
        config, pad = self.config, self.model.pad_token
        collated = collate(batch, rows, pad, config.temperature, config.normalization)
        return collated.to(self.model.device)

    def state_dict(self) -> dict[str, Any]:
        """Returns the model."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with the model."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def main(config: Config) -> list[Report]:
    """Trains a policy with iStar; returns its evaluations."""
    return Trainer(
        "istar",
        config,
        credit=StepBaseline(config.omega),
        experience=lambda trainer: ImplicitReward(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("istar", sys.argv[1:]))
