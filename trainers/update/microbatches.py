"""Microbatches: forward and backward passes that fit into memory, of which gradients are sums."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from agentgym.trainers.update.rows import Rows

T = TypeVar("T")

CPU_TOKENS = 4096
"""Tokens per microbatch on a CPU, whose activations fit into its caches."""
MOST_PADDING = 1024
"""Tokens that a pass has in addition to those of its step, for padding and the last row."""

_ADVICE = (
    "Out of memory with {} tokens per forward and backward pass, and the longest context has {} "
    "tokens (with normalization, its admissible actions included). To save memory, set max_tokens, "
    "gradient_checkpointing, or lora_rank."
)
_RELIEVED = (
    "Out of memory with {} tokens per forward and backward pass: from now on, the backward pass "
    "computes the layers again (gradient checkpointing)."
)
_SHARDED = (
    "Out of memory with {} tokens per forward and backward pass. Sharded processes exchange "
    "weights and gradients in every layer, so they cannot repeat a pass with fewer tokens: set "
    "microbatch_tokens to {}, and continue with --resume."
)


def padded(tokens: int) -> int:
    """Returns the tokens of one pass for a step of about `tokens` tokens: its padding fits, too.

    With no more than `tokens`, nearly every step would have a small second pass, which takes about
    as long as the first if steps are small. Padding of more than a half is split off.
    """
    return tokens + min(tokens // 2, MOST_PADDING)


class Attempt:
    """Passes of at most `tokens` tokens, in a `with` block that keeps an error of memory.

    Attributes:
        tokens: tokens per forward and backward pass, padding included.
        error: the error, if the device ran out of memory.
    """

    def __init__(self, tokens: int):
        self.tokens = tokens
        self.error: torch.OutOfMemoryError | None = None

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        if not isinstance(error, torch.OutOfMemoryError):
            return False
        # Without its traceback, which holds the tensors of the attempt.
        self.error = error.with_traceback(None)
        return True


class TokenBudget:
    """Tokens per forward and backward pass, halved whenever a device runs out of memory.

    Args:
        tokens: number of tokens, padding included, or a function that computes it at first use.
        shared: whether the processes halve it together. Each must then take part in every call of
            `attempts` and `each`. Otherwise a process halves its own.
        relieve: makes passes need less memory, and returns whether it could. It is tried before
            the tokens are halved.
    """

    def __init__(
        self,
        tokens: int | Callable[[], int],
        *,
        shared: bool = False,
        relieve: Callable[[], bool] = lambda: False,
    ):
        self._tokens, self._shared, self._relieve = tokens, shared, relieve

    @property
    def tokens(self) -> int:
        """Tokens per forward and backward pass, padding included."""
        if callable(self._tokens):
            self._tokens = self._tokens()
        return self._tokens

    def each(
        self,
        rows: Rows,
        part: NDArray[np.int64],
        step: Callable[[NDArray[np.int64]], T],
        *,
        drop: Callable[[], Any] = lambda: None,
        together: bool = False,
    ) -> list[T]:
        """Returns the results of a function for each microbatch of some rows.

        Args:
            rows: all rows.
            part: indices of the rows to split.
            step: maps the row indices of a microbatch to a result. It may add to gradients.
            drop: drops the gradients of a failed attempt.
            together: keep the rows of a trajectory in one microbatch.

        Raises:
            torch.OutOfMemoryError: as `attempts`.
        """
        results: list[T] = []
        for attempt in self.attempts(rows, drop):
            with attempt:
                results = [step(it) for it in rows.passes(part, attempt.tokens, together)]
        return results

    def attempts(
        self, rows: Rows, drop: Callable[[], Any] = lambda: None, *, repeatable: bool = True
    ) -> Iterator[Attempt]:
        """Yields attempts, each with half the tokens of the last, until no process lacks memory.

        The second one has the same tokens if `relieve` could reduce the memory that they need.

            for attempt in budget.attempts(rows):
                with attempt:
                    ...  # passes of at most `attempt.tokens` tokens

        Args:
            rows: the rows of all attempts.
            drop: drops the gradients of a failed attempt.
            repeatable: False: the processes communicate in an attempt and wait there for one that
                ran out of memory, so its error is raised, with the setting to change.

        Raises:
            torch.OutOfMemoryError: if a single row does not fit, or with `repeatable` False.
        """
        longest = int(rows.lengths.max(initial=0))
        while True:
            attempt = Attempt(self.tokens)
            yield attempt
            limit, error = attempt.tokens, attempt.error
            failed = error is not None
            if self._shared and repeatable:
                failed = _anywhere(failed)
            if not failed:
                return
            if repeatable and self._relieve():
                drop()
                torch.cuda.empty_cache()
                warnings.warn(_RELIEVED.format(limit), RuntimeWarning, stacklevel=2)
                continue
            if limit <= longest or not repeatable:
                error = error or torch.OutOfMemoryError("Another process ran out of memory.")
                fits = limit > longest
                error.add_note(
                    _SHARDED.format(limit, limit // 2) if fits else _ADVICE.format(limit, longest)
                )
                raise error
            drop()
            torch.cuda.empty_cache()
            self._tokens = limit // 2
            warnings.warn(
                f"Out of memory with {limit} tokens per forward and backward pass: continuing with "
                f"{limit // 2}.",
                RuntimeWarning,
                stacklevel=2,
            )


def _anywhere(failed: bool) -> bool:
    """Returns whether an attempt failed in any process."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return failed
    return any(gather_object([failed]))


class Microbatch:
    """A term of the loss of a minibatch. Its `with` block keeps an error of memory.

    Attributes:
        rows: the row indices.
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        accelerator: Accelerator,
        attempt: Attempt,
        learns: bool,
        factor: float,
    ):
        self.rows, self.sums = rows, torch.zeros(1)
        self._accelerator, self._attempt = accelerator, attempt
        self._learns, self._factor = learns, factor

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        return self._attempt.__exit__(kind, error, traceback)

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Sets precision and gradients of the forward pass and the loss."""
        with self._accelerator.autocast(), torch.set_grad_enabled(self._learns):
            yield

    def backward(self, loss: Tensor, sums: Tensor) -> None:
        """Adds the gradient of a loss, if the rows have one.

        Args:
            loss: the microbatch's term of the loss of the minibatch.
            sums: numbers to sum up over the minibatch.
        """
        if self._learns:
            self._accelerator.backward(loss * self._factor)
        self.sums = sums


class Accumulation:
    """The gradient of a minibatch: a sum over microbatches.

        for microbatch in accumulation.microbatches(rows, minibatch):
            with microbatch:
                with microbatch.forward():
                    loss, sums = ...
                microbatch.backward(loss, sums)

    If the device runs out of memory, it begins again with smaller microbatches. `shared_gradients`
    has the one of several processes.

    Args:
        accelerator: the accelerator.
        learner: the learner, as prepared by accelerate.
        budget: tokens per forward and backward pass.

    Attributes:
        sums: sums of the numbers of all microbatches of the last minibatch.
        sharded: whether the parameters are sharded.
        repeatable: whether an attempt that failed can be repeated.
        scale: factor of all losses.
    """

    sharded = False
    repeatable = True
    scale = 1

    def __init__(self, accelerator: Accelerator, learner: nn.Module, budget: TokenBudget):
        self.accelerator, self.learner, self.budget = accelerator, learner, budget
        self.sums: NDArray[np.float64] = np.zeros(0)

    def microbatches(
        self,
        rows: Rows,
        part: NDArray[np.int64],
        *,
        together: bool = False,
        idle: NDArray[np.bool_] | None = None,
    ) -> Iterator[Microbatch]:
        """Yields the microbatches of a minibatch, of which the caller computes the gradients.

        Args:
            rows: all rows.
            part: the row indices of the minibatch.
            together: keep the rows of a trajectory in one microbatch.
            idle: bool, one per row: True if the gradient does not depend on the row, which then
                gets no backward pass. If all rows of the minibatch are idle, the gradient is 0. Not
                supported with FSDP2 or a gradient scaler. None: no row is idle.

        Raises:
            torch.OutOfMemoryError: as `TokenBudget.attempts`.
        """
        total = torch.zeros(1)
        idle = np.zeros(len(rows.rows), bool) if idle is None else idle
        drop = self.learner.zero_grad
        for attempt in self.budget.attempts(rows, drop, repeatable=self.repeatable):
            limit = attempt.tokens
            for i, (piece, factor) in enumerate(self._pieces(rows, part, together, idle, limit)):
                learns = not idle[piece].any()
                microbatch = Microbatch(
                    piece, self.accelerator, attempt, learns, factor * self.scale
                )
                yield microbatch
                if attempt.error is not None:
                    break
                sums = microbatch.sums * factor
                total = sums if i == 0 else total + sums
        self._finish(total, unused=bool(idle[part].all()))

    def _pieces(
        self,
        rows: Rows,
        part: NDArray[np.int64],
        together: bool,
        idle: NDArray[np.bool_],
        limit: int,
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Returns the rows of the microbatches and their weights."""
        groups = part[~idle[part]], part[idle[part]]
        return [(each, 1.0) for some in groups for each in rows.passes(some, limit, together)]

    def _finish(self, sums: Tensor, unused: bool) -> None:
        """Keeps the sums.

        Args:
            sums: the sums of all microbatches.
            unused: whether there is no gradient.
        """
        if unused:
            fill_gradients(p for p in self.learner.parameters() if p.requires_grad)
        self.sums = sums.cpu().numpy()


def fill_gradients(trained: Iterable[nn.Parameter]) -> None:
    """Sets missing gradients to 0: of parameters that are unused in this process."""
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)
