"""`Learner`: policy and critic in one module. `ForwardPass` has its outputs.

A single module holds all trained parameters, so a single wrapper of accelerate suffices.

Shapes: N trajectories, M turns and K action tokens per batch. A microbatch has b trajectories and k
action tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.policy import Policy

Found = tuple[str, NDArray[np.int64], FloatArray]


class Output(NamedTuple):
    """The outputs of a forward pass over a microbatch.

    Attributes:
        logprobs: [k] log-probabilities of the action tokens.
        entropy: [k] entropies of the distributions they were sampled from.
        values: [k] values of a token critic, or one value per turn of a turn critic. None without a
            critic.
        value_index: index of each value among the K tokens or M turns of the batch.
        bootstrap: [b] values of the last observations. None without a critic.
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor | None
    value_index: Tensor
    bootstrap: Tensor | None

    def found(self, collated: Collated, reference: Tensor | None) -> list[Found]:
        """Returns the name, indices and numbers of each output, as `ForwardPass.of` reads them.

        Args:
            collated: the padded rows.
            reference: [k] log-probabilities of the reference policy.
        """
        parts = [("logprobs", self.logprobs), ("entropy", self.entropy), ("reference", reference)]
        found = [(name, collated.index, numbers) for name, numbers in parts if numbers is not None]
        if self.values is not None and self.bootstrap is not None:
            found.append(("values", self.value_index, self.values))
            found.append(("bootstrap", collated.bootstrap_trajectory, self.bootstrap))
        return [
            (name, index.cpu().numpy(), numbers.detach().float().cpu().numpy())
            for name, index, numbers in found
        ]


@dataclass(frozen=True)
class Kept:
    """A forward pass of all rows with its gradient."""

    trajectories: Sequence[Trajectory]
    version: int
    index: Tensor
    output: Output

    def fits(self, batch: Batch, policy: Policy) -> bool:
        """Returns whether the pass is of this batch under these weights."""
        same = batch.trajectories is self.trajectories
        return same and self.version == policy.weights_version()


class Learner(nn.Module):
    """A policy and a critic on its hidden states.

    Args:
        policy: the policy.
        critic: a value head with `reads` = "tokens" or "turns". None: no critic.
    """

    def __init__(self, policy: Policy, critic: nn.Module | None):
        super().__init__()
        self.policy = policy
        self.critic = critic

    @property
    def _no_split_modules(self) -> list[str]:
        """The names of the model's layers, which FSDP shards one by one."""
        return list(getattr(self.policy.model, "_no_split_modules", None) or [])

    def forward(self, collated: Collated, turn: Tensor) -> Output:
        """Returns log-probabilities, entropies and values of the action tokens of a microbatch.

        Args:
            collated: the padded rows.
            turn: [k] index in the batch of each token's turn.
        """
        scores = self.policy(collated)
        if self.critic is None:
            return Output(scores.logprobs, scores.entropy, None, collated.index, None)
        hidden, index = scores.hidden, collated.index
        if self.critic.reads == "turns":
            first = self.critic.positions(turn)  # type: ignore[operator]
            hidden, index = hidden[first], turn[first]
        return Output(
            scores.logprobs,
            scores.entropy,
            self.critic(hidden),
            index,
            self.critic(scores.bootstrap_hidden),
        )


@dataclass(frozen=True)
class ForwardPass:
    """Log-probabilities and values of a batch before the update, without gradients.

    Attributes:
        logprobs: [K] log-probabilities of the action tokens under the policy, computed as in the
            update. None if only a critic with a separate backbone read the batch.
        values: the critic's values. None without a critic.
        reference: [K] log-probabilities under the reference policy. None without a reference.
        entropy: [K] entropies of the distributions that the tokens were sampled from. None with
            `logprobs`.
    """

    logprobs: FloatArray | None = None
    values: Values | None = None
    reference: FloatArray | None = None
    entropy: FloatArray | None = None

    @property
    def log_ratio(self) -> NDArray[np.float64]:
        """[K] log-probabilities under the policy minus those under the reference."""
        assert self.logprobs is not None and self.reference is not None
        return self.logprobs.astype(np.float64) - self.reference

    @classmethod
    def of(cls, batch: Batch, found: Sequence[Found], critic: nn.Module | None) -> ForwardPass:
        """Returns the forward pass of a batch from the outputs of its microbatches.

        Args:
            batch: the trajectories.
            found: (name, indices, numbers) of each output, from all processes.
            critic: the critic, or None.
        """
        reads = None if critic is None else critic.reads
        sizes = {
            "logprobs": batch.num_tokens,
            "entropy": batch.num_tokens,
            "reference": batch.num_tokens,
            "values": batch.num_turns if reads == "turns" else batch.num_tokens,
            "bootstrap": len(batch.trajectories),
        }
        arrays: dict[str, FloatArray] = {}
        for name, index, numbers in found:
            arrays.setdefault(name, np.zeros(sizes[name], np.float32))[index] = numbers
        values = None
        if reads is not None:
            tokens = None if reads == "turns" else arrays["values"]
            turns = arrays["values"] if tokens is None else tokens[batch.token_offsets[:-1]]
            bootstrap = arrays.get("bootstrap", np.zeros(sizes["bootstrap"], np.float32))
            values = Values(tokens, turns, bootstrap)
        return cls(arrays["logprobs"], values, arrays.get("reference"), arrays["entropy"])
