"""Preference models of episodes: a copy of the policy whose log-ratios are rewards of turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.optimizer import AdamW, divide_gradients
from agentgym.trainers.update.rows import Row, Rows

if TYPE_CHECKING:
    from torch import Tensor, nn

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
        self._trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = AdamW(self._trained, lr=lr, weight_decay=0.0)
        self._last: Read | None = None
        self._kept: Kept | None = None

    @property
    def fitted(self) -> bool:
        """Whether the model has taken a step. Before the first one, it has no preferences."""
        return bool(self.optimizer.state)

    @torch.no_grad()
    def logprobs(
        self, batch: Batch, model: Policy | None = None, *, reuse: bool = False
    ) -> FloatArray:
        """Returns the log-probabilities [K] of a model, by default the preference model.

        Args:
            batch: the trajectories.
            model: the model. None: the preference model.
            reuse: keep the pass with its gradient for a `fit` that follows, if it is only one and
                of the preference model.
        """
        found, read = np.zeros(batch.num_tokens, np.float32), self._read(batch)
        reuse = reuse and model is None

        def step(part: NDArray[np.int64]) -> None:
            collated, keeps = read.collated(part), reuse and len(part) == len(read.rows.rows)
            with torch.set_grad_enabled(keeps), self.autocast():
                # As the policy's, so that equal models have a ratio of 1.
                logprobs = (model or self.model)(collated).logprobs
            if keeps:
                self._kept = Kept(batch, self.model.weights_version(), logprobs)
            found[collated.index.cpu().numpy()] = logprobs.detach().float().cpu().numpy()

        self._each(read, step)
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
        kept, self._kept = self._kept, None
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

        read = self._read(batch)

        def step(part: NDArray[np.int64]) -> None:
            nonlocal kept
            collated, last, kept = read.collated(part), kept, None
            with self.autocast():
                if last is not None and last.fits(batch, self.model):
                    logprobs = last.logprobs
                else:
                    last = None  # frees its memory
                    logprobs = self.model(collated).logprobs
                loss = -(tokens[collated.index] * logprobs).sum()
            loss.backward()

        self.optimizer.zero_grad(set_to_none=True)
        self._each(read, step)
        divide_gradients(self._trained, 1.0 / largest)
        torch.nn.utils.clip_grad_norm_(self._trained, self.config.optimisation.max_grad_norm)
        self.optimizer.step()
        return float((margin > 0).mean())

    def _each(self, read: Read, step: Callable[[NDArray[np.int64]], None]) -> None:
        """Calls a function with the rows of each microbatch."""

        def drop() -> None:
            self.optimizer.zero_grad()
            self._kept = None

        self.budget.each(read.rows, np.arange(len(read.rows.rows)), step, drop=drop)

    def _read(self, batch: Batch) -> Read:
        """Returns the rows of a batch. Those of the last one are kept: it is read many times."""
        if self._last is None or self._last.batch is not batch:
            rows = Rows.of(batch, bootstrap=False, scorer=self.model)
            self._last = Read(batch, rows, partial(self._collate, batch))
        return self._last

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


class Read:
    """The rows of a batch, collated once for all passes.

    Args:
        batch: the batch.
        rows: its rows.
        collate: collates some of them.
    """

    def __init__(self, batch: Batch, rows: Rows, collate: Callable[[list[Row]], Collated]):
        self.batch, self.rows, self._collate = batch, rows, collate
        self._found: dict[bytes, Collated] = {}

    def collated(self, part: NDArray[np.int64]) -> Collated:
        """Returns the collated rows with some indices."""
        key = part.tobytes()
        if key not in self._found:
            self._found[key] = self._collate([self.rows.rows[i] for i in part])
        return self._found[key]


class Kept(NamedTuple):
    """A pass of all rows with its gradient: the log-probabilities [K] in the order of the rows."""

    batch: Batch
    version: int
    logprobs: Tensor

    def fits(self, batch: Batch, model: Policy) -> bool:
        """Returns whether the pass is of this batch under these weights."""
        return batch is self.batch and self.version == model.weights_version()
