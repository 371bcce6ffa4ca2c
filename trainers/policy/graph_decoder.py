"""`GraphDecoder`: generates several tokens of many rows before the host looks at them again.

The keys and values of the rows in progress are copied from their `PrefixCache` to tensors at fixed
addresses, once per action. There, decode steps of static shapes are replayed, and the host takes
over their tokens, keys and values afterwards. All else stays with `Window`: prompts, shared
prefixes, rows that come and go.

Shapes: b rows, k steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from agentgym.errors import LogitsError
from agentgym.trainers.policy.continuous_batching import Burst
from agentgym.trainers.policy.graph_buffers import PENDING, Buffers
from agentgym.trainers.policy.graph_capture import (
    Capture,
    NotStaticError,
    Step,
    checked,
)
from agentgym.trainers.policy.graph_plan import Plan
from agentgym.trainers.policy.graph_residents import Residents
from agentgym.trainers.policy.graph_step import Shape, decode_step
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.system.gpu_memory import free_bytes

GRAPHS = 48
"""Maximum number of graphs. Those that were used last are kept."""

CPU_BYTES = 1 << 30
"""Maximum size of the buffers on a CPU."""

GPU_SHARE = 0.15
"""Maximum size of the buffers on a GPU, as a share of the memory that was free at first."""


class GraphDecoder:
    """Decodes in steps of static shapes, which are captured as CUDA graphs on a GPU.

    Args:
        model: the language model.
        capture: from a step to a function that repeats it. None: a CUDA graph on a GPU, and
            elsewhere the step itself.
    """

    def __init__(self, model: LanguageModel, capture: Callable[[Step], Step] | None = None):
        self._model = model
        self._buffers: Buffers | None = None
        self._graphs: dict[Shape, Step] = {}
        self._capture = capture
        self._on_gpu: Capture | None = None
        self._captured: object = None  # the weights that the graphs read
        self._most: int | None = None
        self._failure: str | None = None
        self._warned: set[str] = set()
        self._residents = Residents()

    def burst(self, sampling: Sampling) -> Burst | None:
        """Returns the generation of some tokens at once, or None if the model does not allow it."""
        reason = self._failure or _obstacle(self._model, sampling)
        if reason is not None:
            self._warn(reason)
            return None
        return _Burst(self, sampling)

    def open(self) -> None:
        """Prepares for the current weights. Keys and values of earlier ones are forgotten."""
        self._residents = Residents()
        model, buffers = self._model.model, self._buffers
        if buffers is not None and buffers.device != self._model.device:
            self._buffers = None
        addresses = [each.data_ptr() for each in (*model.parameters(), *model.buffers())]
        weights = addresses, str(model.active_adapters) if self._model.has_adapter else ""
        if weights != self._captured:
            self._graphs.clear()
        self._captured = weights

    def _warn(self, reason: str) -> None:
        """Warns once of the slower way."""
        if reason not in self._warned:
            self._warned.add(reason)
            name = type(base_model(self._model.model)).__name__
            warnings.warn(
                f"{name} generates without CUDA graphs, which is slower on a GPU: {reason}.",
                stacklevel=2,
            )

    def run(self, rows: Sequence[Row], first: int, store: PrefixCache, sampling: Sampling) -> bool:
        """Generates tokens of rows in progress.

        Args:
            rows: the rows.
            first: the row of the store that belongs to the first one.
            store: their keys and values. Those of the new tokens are added.
            sampling: sampling parameters.

        Returns:
            Whether this was possible. Otherwise nothing has changed.

        Raises:
            LogitsError: if logits are not finite.
        """
        if self._failure or max(len(row.pending) for row in rows) > PENDING:
            return False
        if sampling.epsilon and any(row.trie is not None for row in rows):
            self._warn("epsilon changes the distribution of admissible actions")
            return False
        if any(row.spelling is not None for row in rows):
            self._warn("the host looks at every token of a call that a grammar restricts")
            return False
        vocabulary = len(self._model.model.get_output_embeddings().weight)
        plan = Plan.of(rows, sampling, vocabulary)
        buffers = self._reserve(plan)
        if buffers is None or (replay := self._replay(plan.shape, buffers)) is None:
            return False
        before = sum(row.read for row in rows)
        places = self._residents.enter(buffers, rows, plan.shape.rows, first, store)
        plan.load(buffers, rows, places)
        for _ in range(plan.steps):
            replay()
        try:
            plan.take_over(buffers, rows, places)
        except LogitsError:
            self._buffers = None  # masked columns must be finite
            raise
        self._residents.give_back(buffers, rows, first, store)
        stats, fed = self._model.stats, sum(row.read for row in rows) - before
        stats.forward_passes += plan.steps
        stats.fed_tokens += fed
        stats.padded_tokens += plan.steps * plan.shape.rows * plan.shape.width - fed
        return True

    def _reserve(self, plan: Plan) -> Buffers | None:
        """Returns buffers that are large enough, or None if they would take too much memory."""
        if self._buffers is not None and self._buffers.capacity.holds(plan.capacity):
            return self._buffers
        shapes, device = self._model.layer_shapes, self._model.device
        if self._most is None:
            free = free_bytes(device) if device.type == "cuda" else 0
            self._most = int(GPU_SHARE * free) if free else CPU_BYTES
        need = plan.capacity
        wanted = need if self._buffers is None else need.widened(self._buffers.capacity)
        found = next((each for each in (wanted, need) if each.bytes(shapes) <= self._most), None)
        if found is None:
            self._warn(f"its keys and values take more than {self._most / 1e9:.1f} GB")
            return None
        self._graphs.clear()
        self._buffers = None  # its memory is free for the new ones
        self._residents = Residents()
        try:
            self._buffers = Buffers(shapes, found, self._model.format.end_tokens, device)
        except torch.OutOfMemoryError:
            self._warn("its keys and values do not fit beside those of the prompts")
        return self._buffers

    def _replay(self, shape: Shape, buffers: Buffers) -> Step | None:
        """Returns a function that runs the step, or None if it cannot be captured."""
        if (found := self._graphs.pop(shape, None)) is None:
            step = partial(decode_step, self._model, buffers, shape)
            buffers.clear()  # so that runs to warm up change no keys and values that are read
            try:
                found = self._capturing(buffers.device)(step)
            except (NotStaticError, RuntimeError) as error:
                self._graphs.clear()
                self._buffers = None
                self._failure = f"its decode step cannot be captured ({str(error).splitlines()[0]})"
                self._warn(self._failure)
                return None
            if len(self._graphs) >= GRAPHS:
                del self._graphs[next(iter(self._graphs))]
        self._graphs[shape] = found  # the last one
        return found

    def _capturing(self, device: torch.device) -> Callable[[Step], Step]:
        """Returns a function that captures steps on a device."""
        if self._capture is not None:
            return self._capture
        if device.type != "cuda":
            return checked
        if self._on_gpu is None or self._on_gpu.device != device:
            self._on_gpu = Capture(device)
        return self._on_gpu


class _Burst:
    """`Burst` of a decoder."""

    def __init__(self, decoder: GraphDecoder, sampling: Sampling):
        self._decoder, self._sampling = decoder, sampling

    def open(self) -> None:
        self._decoder.open()

    def run(self, rows: Sequence[Row], first: int, store: PrefixCache) -> bool:
        return self._decoder.run(rows, first, store, self._sampling)


def _obstacle(model: LanguageModel, sampling: Sampling) -> str | None:
    """Returns why static steps cannot be used, or None if they can."""
    if not model.blocks:
        return "its cache is not one of keys and values at columns of their own"
    if model.steered:
        return "it is steered"
    if model.guide is not None and sampling.temperature > 0:
        return "another policy ranks its tokens"
    if torch.is_autocast_enabled(model.device.type):
        return "autocast would convert the weights in every step (mixed_precision)"
    if any(type(each) is not nn.Parameter for each in model.model.parameters()):
        return "its weights are not plain tensors"
    return None
