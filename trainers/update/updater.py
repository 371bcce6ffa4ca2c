"""`Updater`: the update of policy and critic from a batch and its credit.

Every process holds all trajectories and takes its share of the rows of each minibatch. Losses are
divided by the counts of the *whole* minibatch, so the gradient does not depend on the number of
processes or on the size of microbatches.

Shapes: N trajectories, M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from agentgym.trainers.data.streams import SHUFFLE
from agentgym.trainers.policy.collate import Collated, collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.settings import CriticConfig, LossConfig, OptimisationConfig
from agentgym.trainers.update.learner import ForwardPass, Found, Kept, Learner
from agentgym.trainers.update.memory import ENOUGH_TOKENS, fitting_tokens
from agentgym.trainers.update.metrics import FREE, KL, SUMS, metrics_of
from agentgym.trainers.update.microbatches import CPU_TOKENS, Microbatch, TokenBudget
from agentgym.trainers.update.objective import Counts, UpdateData, microbatch_loss
from agentgym.trainers.update.optimizer import clip_gradients
from agentgym.trainers.update.rows import Row, Rows
from agentgym.trainers.update.sharding import copy_weights, free_weights, optimizer_state
from agentgym.trainers.update.shared_gradients import accumulation_of, share_of


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
        lr: learning rate of the policy. None: that of `optimisation`.
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
        lr: float | None = None,
        seed: int = 0,
    ):
        self.accelerator = accelerator
        self.learner = learner
        self.optimizer = optimizer
        self.loss, self.optimisation, self.critic = loss, optimisation, critic
        self.sampling, self.seed = sampling, seed
        self.lr = optimisation.lr if lr is None else lr
        self.trained: Learner = accelerator.unwrap_model(learner)
        self.module: Learner = self.trained if module is None else module
        self._kept: Kept | None = None
        tokens = optimisation.microbatch_tokens or self._fitting_tokens
        self._keeps_layers = False
        self.budget = TokenBudget(tokens, shared=True, relieve=self._compute_again)
        self._accumulation = accumulation_of(accelerator, learner, self.budget)

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
        """Returns the tokens that fit, and turns gradient checkpointing off if enough do without.

        On a CPU both are fixed, so that results do not depend on the memory that others leave.
        """
        policy = self.policy
        if policy.device.type != "cuda":
            return CPU_TOKENS
        autocast = self.accelerator.mixed_precision != "no"
        fitting = [fitting_tokens(policy, self.trained, autocast, each) for each in (True, False)]
        # The processes must agree on the number of microbatches (FSDP2).
        least, without = map(min, zip(*gather_object([fitting]), strict=True))
        if not policy.gradient_checkpointing:
            return without
        if without < ENOUGH_TOKENS or not self._accumulation.repeatable:
            return least
        policy.gradient_checkpointing, self._keeps_layers = False, True
        return without

    def _compute_again(self) -> bool:
        """Turns gradient checkpointing on if `_fitting_tokens` has turned it off."""
        changes, self._keeps_layers = self._keeps_layers, False
        self.policy.gradient_checkpointing |= changes
        return changes

    def withdraw(self) -> None:
        """Frees the weights of `module` until `publish`, if the trained weights are sharded."""
        if self.module is not self.trained:
            free_weights(self.module)

    def publish(self) -> None:
        """Copies the trained weights into `module` if they are sharded."""
        if self.module is not self.trained:
            copy_weights(self.trained, self.module)

    def state_of(self, optimizer: Any) -> dict[str, Any]:
        """Returns the state of an optimiser of the weights. All processes must take part."""
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
        share = np.arange(len(rows.rows))
        if world > 1:
            share = share_of(rows, share, rank, world)
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
    ) -> list[Found]:
        """Returns the outputs of a microbatch."""
        reuse = reuse and len(part) == len(rows.rows)
        collated, turn = self._collate(batch, [rows.rows[i] for i in part])
        with self.accelerator.autocast():
            with torch.set_grad_enabled(reuse):
                output = self.module(collated, turn)
            if reuse:
                version = self.policy.weights_version()
                self._kept = Kept(batch.trajectories, version, collated.index, output)
            logprobs = self.policy.reference_logprobs(collated) if reference else None
        return output.found(collated, logprobs)

    def set_learning_rates(self, left: float, reliability: float = 1.0) -> None:
        """Sets the learning rates of policy and critic.

        Args:
            left: factor of both, of the schedule.
            reliability: factor of the policy's (see `credit.normalize.reliability`).
        """
        rates = self.lr * reliability, self.critic.critic_lr
        for group, rate in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * left

    def update(
        self,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        iteration: int,
        *,
        first_pass: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Optimises policy and critic on a batch and returns scalars to log.

        A minibatch without a gradient, such as one of groups with equal returns, takes no step, and
        neither does a policy without a critic while `critic_warmup` lasts.

        Args:
            batch: the trajectories.
            credit: normalised advantages and value targets.
            forward: the result of `evaluate_actions`. None if there is no critic and no reference.
            iteration: number of finished iterations.
            first_pass: ratios compare with the log-probabilities of the first pass of the update
                itself, in place of those of the batch. This needs one epoch of one minibatch.
            check: called before each forward pass. An exception from it ends the update, and the
                weights are then of no use.

        Raises:
            Diverged: if the loss or the gradient is not finite, or the KL to the behaviour policy
                exceeds `max_kl`.
        """
        rows = Rows.of(batch, self._bootstraps, self.policy)
        data = UpdateData.of(
            batch, credit, forward, self.loss, length=self.sampling.max_new_tokens,
            device=self.policy.device, seed=1_000_003 * self.seed + iteration,
            first_pass=first_pass, end_tokens=self.policy.format.end_tokens,
        )  # fmt: skip
        critic_only = iteration < self.critic.critic_warmup
        warming_up = critic_only and self.module.critic is None  # the critic has its own optimiser
        idle, skips = data.idle(rows, self.loss) | warming_up, self._may_skip_passes()
        together = self.loss.joins_trajectories
        totals, weight, steps, norms, stopped = np.zeros(len(SUMS)), 0.0, 0, np.zeros(2), False
        self.withdraw()
        for epoch in range(self.optimisation.epochs):
            rng = np.random.default_rng([self.seed, SHUFFLE, iteration, epoch])
            for part in rows.parts(self.optimisation.minibatches, rng, together):
                counts = data.counts(np.concatenate([rows.tokens[i] for i in part]))
                for microbatch in self._accumulation.microbatches(
                    rows, part, together=together, idle=idle if skips else None
                ):
                    check()
                    with microbatch:
                        self._backward(batch, rows, data, counts, microbatch)
                sums = self._accumulation.sums
                kl = self._checked_kl(sums)
                totals += sums
                weight += counts.policy
                stopped = self.loss.target_kl is not None and kl > self.loss.target_kl
                if stopped or idle[part].all():
                    # Without a gradient, Adam would repeat its last steps and forget their size.
                    self.optimizer.zero_grad(set_to_none=True)
                else:
                    norms += self._step(critic_only)
                    steps += 1
                    if data.at_reference:  # no longer
                        data = replace(data, at_reference=False)
                        idle = data.idle(rows, self.loss)
                if stopped:
                    break
            if stopped:
                break
        self.publish()
        self.forget()
        importance = data.sampler_logprobs is not None
        found = metrics_of(totals, norms / max(steps, 1), steps, stopped, weight, importance)
        return found | ({"masked": data.masked} if self.loss.masks_tokens else {})

    def _backward(
        self, batch: Batch, rows: Rows, data: UpdateData, counts: Counts, microbatch: Microbatch
    ) -> None:
        """Adds the gradient of a microbatch's terms of the loss."""
        kept, self._kept = self._kept, None
        whole = len(microbatch.rows) == len(rows.rows)
        with microbatch.forward():
            if kept is not None and whole and kept.fits(batch, self.policy):
                index, output = kept.index, kept.output
            else:
                kept = None  # frees its memory
                collated, turn = self._collate(batch, [rows.rows[i] for i in microbatch.rows])
                index, output = collated.index, self.trained(collated, turn)
            loss, sums = microbatch_loss(index, output, data, counts, self.loss, self.critic)
        microbatch.backward(loss, sums)

    def _checked_kl(self, sums: NDArray[np.float64]) -> float:
        """Returns the KL to the behaviour policy, in nats per token, if all is well."""
        if not np.isfinite(sums).all():
            raise Diverged("The loss is not finite. Lower the learning rate, or use float32.")
        kl = sums[KL] / max(sums[FREE], 1.0)
        if kl > self.loss.max_kl:
            raise Diverged(
                f"The KL to the behaviour policy is {kl:.3g} nats per token (limit max_kl = "
                f"{self.loss.max_kl}). Lower lr or epochs, or set target_kl."
            )
        return kl

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

    def _may_skip_passes(self) -> bool:
        """Whether rows without a gradient need no backward pass.

        They need one with sharded processes, the gradient scaler of fp16, or a forward pass that
        was kept with its gradient.
        """
        scaled = self.accelerator.scaler is not None
        return not (scaled or self._kept is not None or self._accumulation.sharded)
