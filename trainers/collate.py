"""From trajectories to padded tensors: `segment_rows`, `collate`, `Collated`.

Shapes: B rows (segments), S positions, k action tokens in these rows, b bootstrap positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentgym.trainers.trajectory import Batch


@dataclass
class Collated:
    """Some segments as right-padded tensors, with the places of their action tokens.

    Attributes:
        tokens: int64 [B, S] token ids, padded on the right.
        attention_mask: int64 [B, S] 1 for tokens, 0 for padding.
        row: int64 [k] row of each action token.
        column: int64 [k] position whose hidden state predicts it: its own position - 1.
        target: int64 [k] its token id.
        index: int64 [k] its place in the flat order of the batch's K action tokens.
        support_offsets: int64 [k + 1] or None: action token i could have been one of
            `support_ids[support_offsets[i]:support_offsets[i + 1]]`; an empty range means the whole
            vocabulary. None: the whole vocabulary everywhere.
        support_ids: int64 [support_offsets[-1]] token ids, or None.
        bootstrap_row: int64 [b] rows that end in an observation whose value is needed.
        bootstrap_column: int64 [b] position of the last token in that row.
        bootstrap_trajectory: int64 [b] number of the trajectory in the batch.
        temperature: what the logits are divided by, as when the actions were sampled.
    """

    tokens: Tensor
    attention_mask: Tensor
    row: Tensor
    column: Tensor
    target: Tensor
    index: Tensor
    support_offsets: Tensor | None
    support_ids: Tensor | None
    bootstrap_row: Tensor
    bootstrap_column: Tensor
    bootstrap_trajectory: Tensor
    temperature: float = 1.0

    def to(self, device: torch.device | str) -> Collated:
        """Returns the same on another device."""
        raise NotImplementedError


def segment_rows(batch: Batch) -> list[tuple[int, int]]:
    """Returns all (trajectory, segment) that carry action tokens or a bootstrap, in order."""
    raise NotImplementedError


def collate(
    batch: Batch,
    rows: Sequence[tuple[int, int]],
    pad_id: int,
    temperature: float = 1.0,
) -> Collated:
    """Lays out some segments of a batch as tensors (on the CPU).

    Args:
        batch: the trajectories.
        rows: (trajectory, segment) pairs, such as a part of `segment_rows(batch)`.
        pad_id: token id of the padding (it is masked; any id will do).
        temperature: the temperature the actions were sampled with.

    Raises:
        ValueError: if there are no rows, or an action starts at position 0 of its segment (nothing
            predicts it).
    """
    raise NotImplementedError
