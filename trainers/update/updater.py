"""`Updater`: the update of policy and critic from a batch and its credit.

Every process holds all trajectories and takes its share of the rows of each minibatch. Losses are
divided by the counts of the *whole* minibatch, so the gradient does not depend on the number of
processes or on the size of microbatches.

Shapes: N trajectories, M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.errors import AgentGymError
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.collate import Collated, collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.settings import CriticConfig, LossConfig, OptimisationConfig
from agentgym.trainers.update.accumulation import accumulate
from agentgym.trainers.update.learner import ForwardPass, Learner, Output, Row, Rows
from agentgym.trainers.update.memory import TokenBudget, fitting_tokens
from agentgym.trainers.update.sharding import (
    copy_weights,
    free_weights,
    is_sharded,
    optimizer_state,
)
from agentgym.trainers.update.update_data import FREE, KL, SUMS, Counts, UpdateData, metrics_of


class Diverged(AgentGymError, RuntimeError):
    """Training diverged: a loss or gradient is not finite, or the KL exceeds `max_kl`.

    It is also raised if `check_logprobs` finds that generation and training disagree.
    """


@dataclass(frozen=True)
class _Kept:
    """A forward pass of all rows with its gradient."""

    trajectories: Sequence[Trajectory]
    version: int
    index: Tensor
    output: Output

    def fits(self, batch: Batch, policy: Policy) -> bool:
        """Returns whether the pass is of this batch under these weights."""
        same = batch.trajectories is self.trajectories
        return same and self.version == policy.weights_version()


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
        self._kept: _Kept | None = None
        self.budget = TokenBudget(
            optimisation.microbatch_tokens or self._fitting_tokens, shared=True
        )

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.module.policy

    @property
    def _bootstraps(self) -> bool:
        """Whether the last observations of truncated episodes are read."""
        return self.module.critic is not None

    @property
    def microbatch_tokens(self) -> int:
        """Tokens per forward and backward pass, padding included."""
        return self.budget.tokens

    def _fitting_tokens(self) -> int:
        autocast = self.accelerator.mixed_precision != "no"
        fitting = fitting_tokens(self.policy, self.trained, autocast)
        # The processes must agree on the number of microbatches (FSDP2).
        return min(gather_object([fitting]))

    def withdraw(self) -> None:
        """Frees the weights of `module` until `publish`, if the trained weights are sharded."""
        if self.module is not self.trained:
            free_weights(self.module)

    def publish(self) -> None:
        """Copies the trained weights into `module` if they are sharded."""
        if self.module is not self.trained:
            copy_weights(self.trained, self.module)

    def state_of(self, optimizer: Any) -> dict[str, Any]:
        """Returns the state of an optimiser of the trained weights. All processes must take part.

        Args:
            optimizer: `optimizer`, or another one of the same weights.
        """
        return optimizer_state(optimizer, self.trained, self.module)

    def _collate(self, batch: Batch, rows: Sequence[Row]) -> tuple[Collated, Tensor]:
        sampling = self.sampling
        collated = collate(
            batch,
            rows,
            self.policy.pad_token,
            sampling.temperature,
            sampling.normalization,
            bootstrap=self._bootstraps,
        )
        turn = torch.from_numpy(batch.token_turn)[collated.index]
        return collated.to(self.policy.device), turn.to(self.policy.device)

    @torch.no_grad()
    def evaluate_actions(
        self, batch: Batch, reference: bool, *, reuse: bool = False
    ) -> ForwardPass:
        """Returns log-probabilities, entropies and values of a batch, without gradients.

        Args:
            batch: the trajectories. The processes share their rows.
            reference: whether to compute the reference policy's log-probabilities too.
            reuse: keep the pass with its gradient for the first step of `update`, if that step is
                over the whole batch in one microbatch.
        """
        rows, self._kept = Rows.of(batch, self._bootstraps, self.policy), None
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        share = rows.share(np.arange(len(rows.rows)), rank, world)
        one_step = self.optimisation.minibatches == world == 1
        reuse = reuse and one_step and self.module is self.trained
        step = partial(self._evaluate, batch, rows, reference, reuse)
        parts = self.budget.each(rows, share, step, drop=self.forget)
        found = [each for part in parts for each in part]
        everything = gather_object(found) if world > 1 else found
        return ForwardPass.of(batch, everything, self.module.critic)

    def forget(self) -> None:
        """Frees the pass that `evaluate_actions` kept for an update, if there is one."""
        self._kept = None

    def _evaluate(
        self, batch: Batch, rows: Rows, reference: bool, reuse: bool, part: NDArray[np.int64]
    ) -> list[tuple[str, NDArray[np.int64], FloatArray]]:
        """Returns the name, indices and numbers of each output of a microbatch."""
        reuse = reuse and len(part) == len(rows.rows)
        found: list[tuple[str, NDArray[np.int64], FloatArray]] = []

        def keep(name: str, index: Tensor, numbers: Tensor) -> None:
            found.append((name, index.cpu().numpy(), numbers.detach().float().cpu().numpy()))

        collated, turn = self._collate(batch, [rows.rows[i] for i in part])
        with self.accelerator.autocast():
            with torch.set_grad_enabled(reuse):
                output = self.module(collated, turn)
            if reuse:
                version = self.policy.weights_version()
                self._kept = _Kept(batch.trajectories, version, collated.index, output)
            keep("logprobs", collated.index, output.logprobs)
            keep("entropy", collated.index, output.entropy)
            if output.values is not None and output.bootstrap is not None:
                keep("values", output.value_index, output.values)
                keep("bootstrap", collated.bootstrap_trajectory, output.bootstrap)
            if reference:
                keep("reference", collated.index, self.policy.reference_logprobs(collated))
        return found

    def update(
        self,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        iteration: int,
        rngs: Iterator[np.random.Generator],
        *,
        first_pass: bool = False,
    ) -> dict[str, float]:
        """Optimises policy and critic on a batch and returns scalars to log.

        A minibatch without a gradient, such as one of groups with equal returns, takes no step, and
        neither does a policy without a critic while `critic_warmup` lasts.

        Args:
            batch: the trajectories.
            credit: normalised advantages and value targets.
            forward: the result of `evaluate_actions`. None if there is no critic and no reference.
            iteration: number of finished iterations.
            rngs: the generators that shuffle the rows, one per epoch.
            first_pass: ratios compare with the log-probabilities of the first pass of the update
                itself, in place of those of the batch. This needs one epoch of one minibatch.

        Raises:
            Diverged: if the loss or the gradient is not finite, or the KL to the behaviour policy
                exceeds `max_kl`.
        """
        loss, optimisation = self.loss, self.optimisation
        rows = Rows.of(batch, self._bootstraps, self.policy)
        data = self._data(batch, credit, forward, iteration, first_pass)
        together = loss.ratio.startswith("trajectory")
        critic_only = iteration < self.critic.critic_warmup
        still, skips = self._still(rows, data, critic_only), self._may_skip_passes()
        totals = np.zeros(len(SUMS))
        steps, weight, norms, stopped = 0, 0.0, np.zeros(2), False
        self.withdraw()
        for _, rng in zip(range(optimisation.epochs), rngs, strict=False):
            for part in rows.parts(optimisation.minibatches, rng, together):
                counts = data.counts(np.concatenate([rows.tokens[i] for i in part]))
                step = partial(self._loss, batch, rows, data, counts)
                sums = accumulate(
                    self.accelerator, self.learner, self.budget, rows, part, step,
                    together=together, idle=still if skips else None,
                )  # fmt: skip
                kl = sums[KL] / max(sums[FREE], 1.0)
                self._check(sums, kl)
                totals += sums
                weight += counts.policy
                if loss.target_kl is not None and kl > loss.target_kl:
                    self.optimizer.zero_grad(set_to_none=True)
                    stopped = True
                    break
                if still is not None and still[part].all():
                    # Without a gradient, Adam would repeat its last steps and forget their size.
                    self.optimizer.zero_grad(set_to_none=True)
                    continue
                norms += self._step(critic_only)
                steps += 1
                if data.at_reference:  # no longer
                    data = replace(data, at_reference=False)
                    still = self._still(rows, data, critic_only)
            if stopped:
                break
        self.publish()
        self.forget()
        norms, weighted = norms / max(steps, 1), data.sampler_logprobs is not None
        return metrics_of(totals, norms, steps, stopped, weight, weighted)

    def _data(
        self,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        iteration: int,
        first_pass: bool = False,
    ) -> UpdateData:
        return UpdateData.of(
            batch,
            credit,
            forward,
            self.loss,
            length=self.sampling.max_new_tokens,
            device=self.policy.device,
            generator=torch.Generator().manual_seed((1_000_003 * self.seed + iteration) % 2**63),
            first_pass=first_pass,
        )

    def _still(self, rows: Rows, data: UpdateData, critic_only: bool) -> NDArray[np.bool_] | None:
        """Returns True for the rows of trajectories without a gradient, one number per row.

        None if every row has one, for a term of the loss.
        """
        if critic_only and self.module.critic is None:  # the critic has its own optimiser
            return np.ones(len(rows.rows), bool)
        tokens = data.idle(self.loss)
        if tokens is None:
            return None
        owners = np.array([trajectory for trajectory, _ in rows.rows])
        idle = np.array([tokens[each].all() for each in rows.tokens])
        # The ratio of a trajectory depends on all its rows.
        return ~np.isin(owners, owners[~idle])

    def _may_skip_passes(self) -> bool:
        """Whether rows without a gradient need no backward pass.

        They need one with sharded processes, the gradient scaler of fp16, or a forward pass that
        was kept with its gradient.
        """
        scaled = self.accelerator.scaler is not None
        return not (scaled or self._kept is not None or is_sharded(self.learner))

    def _loss(
        self,
        batch: Batch,
        rows: Rows,
        data: UpdateData,
        counts: Counts,
        piece: NDArray[np.int64],
    ) -> tuple[Tensor, Tensor]:
        """Returns a microbatch's terms of the loss and of the sums."""
        kept, self._kept = self._kept, None
        if kept is not None and len(piece) == len(rows.rows) and kept.fits(batch, self.policy):
            return data.loss(kept.index, kept.output, counts, self.loss, self.critic)
        del kept
        collated, turn = self._collate(batch, [rows.rows[i] for i in piece])
        output = self.trained(collated, turn)
        return data.loss(collated.index, output, counts, self.loss, self.critic)

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
    its optimisers at every call, which torch allows only once per step, and cannot tell the
    parameters of several sharded models apart.

    Args:
        accelerator: the accelerator.
        optimizer: the optimiser.
        limit: bound of the norm of each group.
    """
    if accelerator.scaler is not None:
        accelerator.unscale_gradients(optimizer)
    groups = [group["params"] for group in optimizer.param_groups]
    return [float(nn.utils.clip_grad_norm_(group, limit)) for group in groups]
