"""`Updater`: the update of policy and critic from a batch and its credit.

Every process holds all trajectories and takes its share of the rows of each minibatch. Losses are
divided by the counts of the *whole* minibatch, so the gradient does not depend on the number of
processes or on the size of microbatches.

Shapes: N trajectories, M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.errors import AgentGymError
from agentgym.trainers.policy.collate import Collated, collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.settings import CriticConfig, LossConfig, OptimisationConfig
from agentgym.trainers.trajectory import Batch, Credit, FloatArray
from agentgym.trainers.update.learner import ForwardPass, Learner, Row, Rows
from agentgym.trainers.update.memory import fitting_tokens
from agentgym.trainers.update.sharding import copy_weights, free_weights
from agentgym.trainers.update.update_data import FREE, KL, SUMS, Counts, UpdateData, metrics_of

T = TypeVar("T")

_OUT_OF_MEMORY = (
    "microbatch_tokens is {}, and the longest context has {} tokens. To save memory, set "
    "microbatch_tokens or max_tokens, gradient_checkpointing, or lora_rank."
)


class Diverged(AgentGymError, RuntimeError):
    """Training diverged: a loss or gradient is not finite, or the KL exceeds `max_kl`.

    It is also raised if `check_logprobs` finds that generation and training disagree.
    """


class Updater:
    """Evaluates actions with a learner and updates it.

    Args:
        accelerator: the accelerator.
        learner: the learner, as prepared by accelerate.
        optimizer: the optimiser, likewise. Group 0 holds the policy's parameters, group 1 the
            critic's.
        loss: settings of the policy loss.
        optimisation: epochs, minibatches, microbatches and gradient clip.
        critic: settings of the value loss.
        sampling: the decoding parameters of the behaviour policy.
        module: the policy and the critic that act and are saved: a whole copy of a sharded learner,
            freed by `withdraw` and renewed by `publish`. None: the learner itself.
        seed: the seed of the run.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        learner: nn.Module,
        optimizer: Any,
        *,
        loss: LossConfig,
        optimisation: OptimisationConfig,
        critic: CriticConfig,
        sampling: Sampling,
        module: Learner | None = None,
        seed: int = 0,
    ):
        self.accelerator = accelerator
        self.learner = learner
        self.optimizer = optimizer
        self.loss, self.optimisation, self.critic = loss, optimisation, critic
        self.sampling, self.seed = sampling, seed
        self.trained: Learner = accelerator.unwrap_model(learner)
        self.module: Learner = self.trained if module is None else module
        self._microbatch_tokens = optimisation.microbatch_tokens

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.module.policy

    @property
    def microbatch_tokens(self) -> int:
        """Tokens per forward and backward pass, padding included."""
        if self._microbatch_tokens is None:
            autocast = self.accelerator.mixed_precision != "no"
            fitting = fitting_tokens(self.policy, self.trained, autocast)
            # The processes must agree on the number of microbatches (FSDP2).
            self._microbatch_tokens = min(gather_object([fitting]))
        return self._microbatch_tokens

    def within_memory(self, rows: Rows, attempt: Callable[[int], T]) -> T:
        """Calls a function, and again with smaller microbatches if the GPU runs out of memory.

        Gradients of a failed attempt are dropped.

        Args:
            rows: the rows of all attempts.
            attempt: maps a number of tokens per microbatch to a result.

        Raises:
            torch.OutOfMemoryError: if a single row does not fit, or with several processes, which
                wait for each other's gradients and cannot repeat them.
        """
        while True:
            limit = self.microbatch_tokens
            try:
                return attempt(limit)
            except torch.OutOfMemoryError as error:
                if limit <= rows.lengths.max() or self.accelerator.num_processes > 1:
                    error.add_note(_OUT_OF_MEMORY.format(limit, rows.lengths.max()))
                    raise
            # Out of the handler, because the traceback holds the tensors of the attempt.
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            self._microbatch_tokens = limit // 2
            warnings.warn(
                f"Out of memory with {limit} tokens per forward and backward pass: continuing with "
                f"microbatch_tokens = {limit // 2}.",
                RuntimeWarning,
                stacklevel=2,
            )

    def withdraw(self) -> None:
        """Frees the weights of `module` until `publish`, if the trained weights are sharded."""
        if self.module is not self.trained:
            free_weights(self.module)

    def publish(self) -> None:
        """Copies the trained weights into `module` if they are sharded."""
        if self.module is not self.trained:
            copy_weights(self.trained, self.module)

    def _collate(self, batch: Batch, rows: Sequence[Row]) -> tuple[Collated, Tensor]:
        sampling = self.sampling
        collated = collate(
            batch, rows, self.policy.pad_token, sampling.temperature, sampling.normalization
        )
        turn = torch.from_numpy(batch.token_turn)[collated.index]
        return collated.to(self.policy.device), turn.to(self.policy.device)

    @torch.no_grad()
    def evaluate_actions(self, batch: Batch, reference: bool) -> ForwardPass:
        """Returns log-probabilities, entropies and values of a batch, without gradients.

        Args:
            batch: the trajectories. The processes share their rows.
            reference: whether to compute the reference policy's log-probabilities too.
        """
        rows = Rows.of(batch)
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        share = np.arange(len(rows.rows))[rank::world]
        found = self.within_memory(
            rows, lambda limit: self._evaluate(batch, rows, share, 2 * limit, reference)
        )
        everything = gather_object(found) if world > 1 else found
        return ForwardPass.of(batch, everything, self.module.critic)

    def _evaluate(
        self, batch: Batch, rows: Rows, share: NDArray[np.int64], limit: int, reference: bool
    ) -> list[tuple[str, NDArray[np.int64], FloatArray]]:
        """Returns the name, indices and numbers of each output of a share of the rows."""
        found: list[tuple[str, NDArray[np.int64], FloatArray]] = []

        def keep(name: str, index: Tensor, numbers: Tensor) -> None:
            found.append((name, index.cpu().numpy(), numbers.float().cpu().numpy()))

        for part in rows.microbatches(share, limit):
            collated, turn = self._collate(batch, [rows.rows[i] for i in part])
            with self.accelerator.autocast():
                output = self.module(collated, turn)
                keep("logprobs", collated.index, output.logprobs)
                keep("entropy", collated.index, output.entropy)
                if output.values is not None and output.bootstrap is not None:
                    keep("values", output.value_index, output.values)
                    keep("bootstrap", collated.bootstrap_trajectory, output.bootstrap)
                if reference:
                    logprobs = self.policy.reference_logprobs(collated)
                    keep("reference", collated.index, logprobs)
        return found

    def update(
        self,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        iteration: int,
        rngs: Iterator[np.random.Generator],
    ) -> dict[str, float]:
        """Optimises policy and critic on a batch and returns scalars to log.

        Args:
            batch: the trajectories.
            credit: normalised advantages and value targets.
            forward: the result of `evaluate_actions`. None if there is no critic and no reference.
            iteration: number of finished iterations.
            rngs: the generators that shuffle the rows, one per epoch.

        Raises:
            Diverged: if the loss or the gradient is not finite, or the KL to the behaviour policy
                exceeds `max_kl`.
        """
        loss, optimisation = self.loss, self.optimisation
        rows = Rows.of(batch)
        data = self._data(batch, credit, forward, iteration)
        together = loss.ratio == "trajectory"
        totals = np.zeros(len(SUMS))
        steps, weight, norms, stopped = 0, 0.0, np.zeros(2), False
        self.withdraw()
        for _, rng in zip(range(optimisation.epochs), rngs, strict=False):
            for part in rows.parts(optimisation.minibatches, rng, together):
                counts = data.counts(np.concatenate([rows.tokens[i] for i in part]))
                sums = self.within_memory(
                    rows,
                    partial(self._accumulate, batch, rows, part, data, counts, together),
                )
                kl = sums[KL] / max(sums[FREE], 1.0)
                self._check(sums, kl)
                if loss.target_kl is not None and kl > loss.target_kl:
                    self.optimizer.zero_grad(set_to_none=True)
                    stopped = True
                    break
                norms += self._step(critic_only=iteration < self.critic.critic_warmup)
                totals += sums
                weight += counts.policy
                steps += 1
            if stopped:
                break
        self.publish()
        return metrics_of(totals, norms / max(steps, 1), steps, stopped, weight) | data.metrics

    def _data(
        self, batch: Batch, credit: Credit, forward: ForwardPass | None, iteration: int
    ) -> UpdateData:
        return UpdateData.of(
            batch,
            credit,
            forward,
            self.loss,
            length=self.sampling.max_new_tokens,
            device=self.policy.device,
            generator=torch.Generator().manual_seed(1_000_003 * self.seed + iteration),
        )

    def _accumulate(
        self,
        batch: Batch,
        rows: Rows,
        part: NDArray[np.int64],
        data: UpdateData,
        counts: Counts,
        together: bool,
        limit: int,
    ) -> NDArray[np.float64]:
        """Accumulates the gradient of a minibatch and returns its sums over all processes."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        micro = self._microbatches(rows, part, together, rank, limit)
        # DDP synchronises once per minibatch, so every process needs a backward pass, and FSDP2 at
        # every pass, so all need the same number. The additional ones have the weight 0.
        own, needed = len(micro), 1
        if self.accelerator.is_fsdp2:
            everyone = (self._microbatches(rows, part, together, i, limit) for i in range(world))
            needed = max(map(len, everyone))
        micro += [part[:1]] * (needed - own)
        sums: Any = torch.zeros(len(SUMS), dtype=torch.float64, device=self.policy.device)
        for i, piece in enumerate(micro):
            collated, turn = self._collate(batch, [rows.rows[j] for j in piece])
            last = i == len(micro) - 1
            with self.accelerator.no_sync(self.learner) if not last else nullcontext():
                with self.accelerator.autocast():
                    output = self.learner(collated, turn)
                    loss, terms = data.loss(collated.index, output, counts, self.loss, self.critic)
                # DDP averages over processes, and the counts are sums over processes.
                self.accelerator.backward(loss * (float(world) if i < own else 0.0))
            if i < own:
                sums += terms
        if world > 1:
            sums = self.accelerator.reduce(sums, "sum")
        return sums.cpu().numpy()

    def _microbatches(
        self, rows: Rows, part: NDArray[np.int64], together: bool, rank: int, limit: int
    ) -> list[NDArray[np.int64]]:
        """Returns the microbatches of a process."""
        world = self.accelerator.num_processes
        if together:
            owner = np.array([rows.rows[i][0] for i in part])
            share = part[np.isin(owner, np.unique(owner)[rank::world])]
        else:
            share = part[rank::world]
        if not len(share):
            return []
        return rows.microbatches(share, limit, together)

    def _check(self, sums: NDArray[np.float64], kl: float) -> None:
        if not np.isfinite(sums).all():
            raise Diverged("The loss is not finite. Lower the learning rate, or use float32.")
        if kl > self.loss.max_kl:
            raise Diverged(
                f"The KL to the behaviour policy is {kl:.3g} nats per token (limit max_kl = "
                f"{self.loss.max_kl}). Lower lr or epochs, or set target_kl."
            )

    def _step(self, critic_only: bool) -> NDArray[np.float64]:
        """Clips and applies the gradient and returns the gradient norms of policy and critic."""
        norms = np.zeros(2)
        if critic_only:
            for parameter in self.optimizer.param_groups[0]["params"]:
                parameter.grad = None
        found = clip_gradients(self.accelerator, self.optimizer, self.optimisation.max_grad_norm)
        norms[: len(found)] = found
        if not np.isfinite(norms).all() and self.accelerator.scaler is None:
            raise Diverged("The gradient is not finite. Lower the learning rate, or use float32.")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norms


def clip_gradients(accelerator: Accelerator, optimizer: Any, limit: float) -> list[float]:
    """Clips the gradient norm of each parameter group separately and returns the norms before.

    Under fp16 the gradients are scaled. `accelerator.clip_grad_norm_` would unscale those of all
    its optimisers at every call, which torch allows only once per step.

    Args:
        accelerator: the accelerator.
        optimizer: the optimiser.
        limit: bound of the norm of each group.
    """
    clip: Any = accelerator.clip_grad_norm_
    if accelerator.scaler is not None:
        accelerator.unscale_gradients(optimizer)
        clip = nn.utils.clip_grad_norm_
    norms = [clip(group["params"], limit) for group in optimizer.param_groups]
    return [0.0 if norm is None else float(norm) for norm in norms]
