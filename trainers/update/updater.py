"""`Updater`: the update of policy and critic from a batch and its credit.

Every process holds all trajectories and takes its share of the rows of each minibatch. Losses are
divided by the counts of the *whole* minibatch, so the gradient does not depend on the number of
processes or on the size of microbatches.

A forced token is a token with a single legal continuation. It is excluded from the policy loss, the
entropy and the KL, and included in the value loss.

Shapes: N trajectories, M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
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
from agentgym.trainers.update import losses
from agentgym.trainers.update.learner import ForwardPass, Learner, Output, Row, Rows
from agentgym.trainers.update.memory import fitting_tokens
from agentgym.trainers.update.mismatch import importance_weights

T = TypeVar("T")

_SUMS = ("policy", "entropy", "reference_kl", "kl", "clipped", "free", "value", "values")
_OUT_OF_MEMORY = (
    "microbatch_tokens is {}, and the longest context has {} tokens. To save memory, set "
    "microbatch_tokens or max_tokens, gradient_checkpointing, or lora_rank."
)
_KL, _FREE = _SUMS.index("kl"), _SUMS.index("free")


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
        seed: int = 0,
    ):
        self.accelerator = accelerator
        self.learner = learner
        self.optimizer = optimizer
        self.loss, self.optimisation, self.critic = loss, optimisation, critic
        self.sampling, self.seed = sampling, seed
        self.module: Learner = accelerator.unwrap_model(learner)
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
            self._microbatch_tokens = fitting_tokens(self.policy, self.module, autocast)
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
        totals = np.zeros(len(_SUMS))
        steps, weight, norms, stopped = 0, 0.0, np.zeros(2), False
        for _, rng in zip(range(optimisation.epochs), rngs, strict=False):
            for part in rows.parts(optimisation.minibatches, rng, together):
                counts = data.counts(np.concatenate([rows.tokens[i] for i in part]))
                sums = self.within_memory(
                    rows,
                    partial(self._accumulate, batch, rows, part, data, counts, together),
                )
                kl = sums[_KL] / max(sums[_FREE], 1.0)
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
        return _metrics(totals, norms / max(steps, 1), steps, stopped, weight) | data.metrics

    def _data(
        self, batch: Batch, credit: Credit, forward: ForwardPass | None, iteration: int
    ) -> _Data:
        """Returns the batch and its credit as tensors on the device."""
        device = self.policy.device
        turn = torch.from_numpy(batch.token_turn)
        trajectory = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
        importance = torch.from_numpy(batch.weights(self.loss.thought_coef))
        free = importance > 0
        weights = losses.Weights(torch.zeros(len(free)), torch.zeros(len(free)))
        if free.any():
            some = losses.aggregation_weights(
                self.loss.aggregation,
                turn[free],
                trajectory[free],
                length=self.sampling.max_new_tokens,
                importance=importance[free],
            )
            weights.weight[free], weights.share[free] = some.weight, some.share
        values = None if forward is None else forward.values
        old_values = None
        if values is not None:
            old_values = values.turns if values.tokens is None else values.tokens

        def tensor(array: FloatArray | None) -> Tensor | None:
            return None if array is None else torch.from_numpy(np.asarray(array)).to(device)

        old_logprobs, advantages = tensor(batch.logprobs), tensor(credit.advantages)
        assert old_logprobs is not None and advantages is not None
        detached = None
        if self.loss.covariance_clip:
            # Over the whole batch, with the log-probs of the behaviour policy, so the selection
            # does not depend on the split into minibatches.
            detached = torch.zeros_like(free)
            detached[free] = losses.covariance_clip(
                torch.as_tensor(batch.logprobs)[free],
                torch.as_tensor(credit.advantages)[free],
                fraction=self.loss.covariance_clip,
                generator=torch.Generator().manual_seed(1_000_003 * self.seed + iteration),
            )
        span = {"token": None, "trajectory": trajectory}.get(self.loss.ratio, turn)
        importance, metrics = None, {}
        if self.loss.importance_cap is not None:
            importance, metrics = importance_weights(batch, self.loss.importance_cap)
        return _Data(
            advantages=advantages,
            old_logprobs=old_logprobs,
            reference=None if forward is None else tensor(forward.reference),
            free=free.to(device),
            weights=weights.to(device),
            span=None if span is None else span.to(device),
            turn=turn.to(device),
            targets=None if values is None else tensor(credit.targets),
            old_values=tensor(old_values),
            detached=None if detached is None else detached.to(device),
            importance=tensor(importance),
            metrics=metrics,
        )

    def _accumulate(
        self,
        batch: Batch,
        rows: Rows,
        part: NDArray[np.int64],
        data: _Data,
        counts: _Counts,
        together: bool,
        limit: int,
    ) -> NDArray[np.float64]:
        """Accumulates the gradient of a minibatch and returns its sums over all processes."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        if together:
            owner = np.array([rows.rows[i][0] for i in part])
            share = part[np.isin(owner, np.unique(owner)[rank::world])]
        else:
            share = part[rank::world]
        # DDP synchronises once per minibatch, so every process needs a backward pass. A process
        # without rows of its own computes one with the weight 0.
        idle = len(share) == 0
        micro = rows.microbatches(part[:1] if idle else share, limit, together and not idle)
        sums: Any = torch.zeros(len(_SUMS), dtype=torch.float64, device=self.policy.device)
        for i, piece in enumerate(micro):
            collated, turn = self._collate(batch, [rows.rows[j] for j in piece])
            last = i == len(micro) - 1
            with self.accelerator.no_sync(self.learner) if not last else nullcontext():
                with self.accelerator.autocast():
                    output = self.learner(collated, turn)
                    loss, terms = data.loss(collated.index, output, counts, self.loss, self.critic)
                # DDP averages over processes, and the counts are sums over processes.
                self.accelerator.backward(loss * (0.0 if idle else float(world)))
            if not idle:
                sums += terms
        if world > 1:
            sums = self.accelerator.reduce(sums, "sum")
        return sums.cpu().numpy()

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


@dataclass(frozen=True)
class _Counts:
    """The denominators of a minibatch's sums."""

    policy: float
    free: float
    values: float


@dataclass(frozen=True)
class _Data:
    """A batch and its credit as tensors on the device, of shape [K] unless noted."""

    advantages: Tensor
    old_logprobs: Tensor
    reference: Tensor | None
    free: Tensor
    weights: losses.Weights
    span: Tensor | None
    turn: Tensor
    targets: Tensor | None  # [K] or [M]
    old_values: Tensor | None  # [K] or [M]
    detached: Tensor | None
    importance: Tensor | None
    metrics: dict[str, float]

    def counts(self, tokens: NDArray[np.int64]) -> _Counts:
        """Returns the denominators of sums over these action tokens."""
        index = torch.from_numpy(tokens).to(self.turn.device)
        values = len(index)
        if self.targets is not None and len(self.targets) != len(self.turn):
            values = len(torch.unique(self.turn[index]))
        policy = float(self.weights.share[index].double().sum())
        return _Counts(max(policy, 1e-8), max(float(self.free[index].sum()), 1.0), max(values, 1))

    def loss(
        self,
        index: Tensor,
        output: Output,
        counts: _Counts,
        settings: LossConfig,
        critic: CriticConfig,
    ) -> tuple[Tensor, Tensor]:
        """Returns a microbatch's terms of the loss and of the sums, the latter [len(_SUMS)]."""
        free = self.free[index]
        chosen = index[free]
        weights = self.weights[chosen]
        logprobs = output.logprobs[free].float()
        weighted = weights
        if self.importance is not None:
            weighted = replace(weights, weight=weights.weight * self.importance[chosen])
        surrogate = losses.clipped_surrogate(
            logprobs,
            self.old_logprobs[chosen],
            self.advantages[chosen],
            span=None if self.span is None else self.span[chosen],
            span_ratio="product" if settings.ratio == "turn_product" else "mean",
            clip_low=settings.clip,
            clip_high=settings.clip if settings.clip_high is None else settings.clip_high,
            dual_clip=settings.dual_clip,
            detached=None if self.detached is None else self.detached[chosen],
            weights=weighted,
        )
        entropy = losses.aggregate(output.entropy[free], weights).total
        bonus = entropy
        if settings.entropy_floor is not None:
            capped = output.entropy[free].clamp(max=settings.entropy_floor)
            bonus = losses.aggregate(capped, weights).total
        loss = surrogate.loss.total - settings.entropy_coef * bonus
        kl = torch.zeros_like(entropy)
        if self.reference is not None:
            penalty = losses.kl_penalty(logprobs, self.reference[chosen])
            kl = losses.aggregate(penalty, weights).total
            if settings.kl_in == "loss":
                loss = loss + settings.kl_coef * kl
        loss = loss / counts.policy
        value, read = torch.zeros_like(entropy), 0
        if output.values is not None:
            assert self.targets is not None
            at, read = output.value_index, len(output.values)
            value = losses.value_loss(
                output.values,
                self.targets[at],
                None if self.old_values is None else self.old_values[at],
                clip=critic.value_clip,
            ).total
            # The bootstrap values enter with the weight 0: DDP needs every parameter in the graph.
            value = value + 0.0 * (output.bootstrap.sum() if output.bootstrap is not None else 0.0)
            loss = loss + critic.value_coef * value / counts.values
        parts = [surrogate.loss.total, entropy, kl, surrogate.kl.total, surrogate.clipped.total]
        numbers = [*(x.detach().double() for x in parts), free.sum().double()]
        numbers += [value.detach().double(), torch.tensor(float(read)).to(entropy.device)]
        return loss, torch.stack([x.double() for x in numbers])


def explained_variance(values: FloatArray, targets: FloatArray) -> float:
    """Returns the explained variance 1 - Var[target - value] / Var[target].

    It is 1 for perfect values, at most 0 for values that are no better than a constant, and 0 if
    the targets are constant.

    Args:
        values: values of tokens or turns.
        targets: their targets.
    """
    variance = float(np.var(targets))
    return 0.0 if variance < 1e-12 else 1.0 - float(np.var(targets - values)) / variance


def _metrics(
    totals: NDArray[np.float64],
    norms: NDArray[np.float64],
    steps: int,
    stopped: bool,
    weight: float,
) -> dict[str, float]:
    sums = dict(zip(_SUMS, totals.tolist(), strict=True))
    free, values = max(sums["free"], 1.0), max(sums["values"], 1.0)
    return {
        "policy_loss": sums["policy"] / max(weight, 1e-8),
        "value_loss": sums["value"] / values,
        "entropy": sums["entropy"] / max(weight, 1e-8),
        "reference_kl": sums["reference_kl"] / max(weight, 1e-8),
        "kl": sums["kl"] / free,
        "clip_fraction": sums["clipped"] / free,
        "policy_grad_norm": float(norms[0]),
        "value_grad_norm": float(norms[1]),
        "steps": float(steps),
        "kl_stopped": float(stopped),
    }
