"""Collation of trajectories into padded tensors: `segment_rows`, `collate`, `Collated`.

Shapes: B rows (segments), S positions, k action tokens in these rows, b bootstrap positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import IntArray, Turn
from agentgym.trainers.policy.sampling import Normalization


@dataclass(frozen=True)
class Choice:
    """An admissible action that was sampled as a whole.

    Attributes:
        place: index of the action's first token among the k action tokens.
        prompt: [P] token ids of the prompt.
        candidates: the admissible actions it was sampled from.
        choice: index of the sampled action in `candidates`.
    """

    place: int
    prompt: NDArray[np.int32]
    candidates: tuple[str, ...]
    choice: int


@dataclass
class Collated:
    """Segments as right-padded tensors, with the positions of their action tokens.

    Equal segments share a row: small environments and groups repeat whole prompts and actions.
    Action tokens are in the order of the segments and, within a segment, of the batch.

    Attributes:
        tokens: int64 [B, S] token ids, padded on the right.
        attention_mask: int64 [B, S] 1 for tokens, 0 for padding.
        row: int64 [k] row of each action token.
        column: int64 [k] position whose hidden state predicts it (its own position - 1).
        target: int64 [k] its token id.
        index: int64 [k] its index among the batch's K action tokens.
        support_offsets: int64 [k + 1] or None. Action token i was sampled from
            `support_ids[support_offsets[i]:support_offsets[i + 1]]`, see `distribution.score`. None
            means the whole vocabulary for all tokens.
        support_ids: int64 [support_offsets[-1]] token ids, or None.
        bootstrap_row: int64 [b] rows that end in an observation whose value is bootstrapped.
        bootstrap_column: int64 [b] position of the last token in that row.
        bootstrap_trajectory: int64 [b] index of the trajectory in the batch.
        temperature: sampling temperature of the actions, which divides the logits.
        choices: the actions that were sampled as a whole, from a softmax over candidates.
        normalization: length normalisation of the candidates' scores.
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
    choices: Sequence[Choice] = ()
    normalization: Normalization | None = None

    def to(self, device: torch.device | str) -> Collated:
        """Returns a copy on another device."""
        moved = {
            field.name: value.to(device)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **moved)

    @property
    def reads(self) -> list[tuple[Tensor, Tensor]]:
        """Rows and positions of the action tokens [k] and of the bootstraps [b]."""
        ends = self.bootstrap_row, self.bootstrap_column
        return [(self.row, self.column), ends]

    def undecided(self) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Returns the indices of the tokens that are not forced, and the support of these alone.

        The log-probability of a forced token is 0 under any model. If all tokens are forced, the
        first one is returned, so that every parameter has a gradient on every process.
        """
        everything = torch.arange(len(self.target), device=self.target.device)
        if self.support_offsets is None or self.support_ids is None or not len(everything):
            return everything, None
        counts = self.support_offsets.diff()
        forced = counts == 1
        forced[forced.clone()] = self.support_ids[self.support_offsets[:-1][forced]] >= 0
        free = ~forced
        free[0] |= ~free.any()
        ids = self.support_ids[torch.repeat_interleave(free, counts)]
        offsets = torch.nn.functional.pad(counts[free].cumsum(0), (1, 0))
        return everything[free], (offsets, ids)


def pick(states: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Returns the entries [p, H] of states [B, S, H] at p places, some of which may be equal."""
    if states.dtype in (torch.bfloat16, torch.float16):
        return _Pick.apply(states, row, column)  # type: ignore[no-any-return]
    return states[row, column]


class _Pick(torch.autograd.Function):
    """Entries of a tensor in low precision. Gradients of equal places are added up in float32."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, row: Tensor, column: Tensor) -> Tensor:
        ctx.shape, ctx.places = states.shape, (row, column)
        return states[row, column]

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None]:
        found = torch.zeros(ctx.shape, dtype=torch.float32, device=gradient.device)
        found.index_put_(ctx.places, gradient.float(), accumulate=True)
        return found.to(gradient.dtype), None, None


def segment_rows(batch: Batch, bootstrap: bool = True) -> list[tuple[int, int]]:
    """Returns the sorted (trajectory, segment) pairs that hold action tokens.

    Args:
        batch: the trajectories.
        bootstrap: also return those that hold an observation whose value is bootstrapped.
    """
    rows: set[tuple[int, int]] = set()
    for number, trajectory in enumerate(batch.trajectories):
        rows.update((number, turn.segment) for turn in trajectory.turns)
        if bootstrap and trajectory.bootstrap is not None:
            rows.add((number, trajectory.bootstrap))
    return sorted(rows)


def collate(
    batch: Batch,
    rows: Sequence[tuple[int, int]],
    pad_id: int,
    temperature: float = 1.0,
    normalization: Normalization | None = None,
    *,
    bootstrap: bool = True,
) -> Collated:
    """Collates segments of a batch into padded tensors on the CPU.

    Args:
        batch: the trajectories.
        rows: (trajectory, segment) pairs, for example a subset of `segment_rows(batch)`.
        pad_id: token id of the padding. It is masked, so any id is valid.
        temperature: sampling temperature of the actions.
        normalization: length normalisation of candidate scores, if actions were sampled as a whole.
        bootstrap: keep the observations whose values are bootstrapped. Otherwise a segment ends
            with its last action.

    Raises:
        ValueError: if there are no rows, if an action starts at position 0 of its segment (no
            token predicts it), or if the temperature is not positive.
    """
    if not rows:
        raise ValueError("Expected at least one (trajectory, segment) to collate, got none.")
    if not temperature > 0:
        raise ValueError(
            f"temperature must be positive, got {temperature}. Greedy actions (temperature 0) are "
            "for evaluation only and cannot be used for training."
        )
    found = [(m, row) for row, place in enumerate(rows) for m in batch.segment_turns.get(place, ())]
    turn_number, turn_row = np.array(found, np.int64).reshape(-1, 2).T
    turns = [batch.turns[m] for m, _ in found]
    sequences, bootstraps = _sequences(batch, rows, bootstrap)
    place, first = distinct_rows(sequences, turns, turn_row.tolist())
    sequences, turn_row = [sequences[row] for row in first.tolist()], place[turn_row]
    tokens, mask = _pad(sequences, pad_id)
    starts, stops = batch.spans[turn_number].T
    lengths = stops - starts
    if (starts < 1).any():
        raise ValueError("An action starts at position 0 of its segment; no token predicts it.")
    row = np.repeat(turn_row, lengths)
    column = _ranges(starts, lengths)
    first_token = batch.token_offsets[turn_number]
    offsets, ids = _supports(turns, lengths)
    ends = torch.tensor(bootstraps, dtype=torch.int64).reshape(-1, 3)
    return Collated(
        tokens=torch.from_numpy(tokens),
        attention_mask=torch.from_numpy(mask),
        row=torch.from_numpy(row),
        column=torch.from_numpy(column - 1),
        target=torch.from_numpy(tokens[row, column]),
        index=torch.from_numpy(_ranges(first_token, lengths)),
        support_offsets=None if offsets is None else torch.from_numpy(offsets),
        support_ids=None if ids is None else torch.from_numpy(ids),
        bootstrap_row=torch.from_numpy(place)[ends[:, 0]],
        bootstrap_column=ends[:, 1],
        bootstrap_trajectory=ends[:, 2],
        temperature=float(temperature),
        choices=_choices(turns, [sequences[row] for row in turn_row], lengths),
        normalization=normalization,
    )


def _sequences(
    batch: Batch, rows: Sequence[tuple[int, int]], bootstrap: bool
) -> tuple[list[NDArray[np.int32]], list[tuple[int, int, int]]]:
    """Returns the tokens of the rows, and (row, column, trajectory) of bootstrapped values."""
    sequences, bootstraps = [], []
    for row, (n, segment) in enumerate(rows):
        trajectory = batch.trajectories[n]
        tokens = trajectory.segments[segment].tokens
        if not bootstrap:
            tokens = tokens[: max(batch.turns[m].stop for m in batch.segment_turns[n, segment])]
        elif trajectory.bootstrap == segment:
            bootstraps.append((row, len(tokens) - 1, n))
        sequences.append(tokens)
    return sequences, bootstraps


def distinct_rows(
    sequences: Sequence[NDArray[np.int32]], turns: Sequence[Turn], turn_row: Sequence[int]
) -> tuple[IntArray, IntArray]:
    """Returns the place of each row among the different ones, and the first row of each place.

    Args:
        sequences: the tokens of the rows.
        turns: turns. The candidates of those that were sampled as a whole follow their row.
        turn_row: the row of each turn.
    """
    keys: list[Any] = [sequence.tobytes() for sequence in sequences]
    for turn, row in zip(turns, turn_row, strict=True):
        if turn.choice is not None:
            keys[row] = keys[row], turn.start, turn.admissible
    first: dict[Any, int] = {}
    same = [first.setdefault(key, row) for row, key in enumerate(keys)]
    rows = np.array(list(first.values()), np.int64)
    return np.searchsorted(rows, same), rows


def _choices(
    turns: Sequence[Turn], sequences: Sequence[NDArray[np.int32]], lengths: IntArray
) -> list[Choice]:
    """Returns the actions that were sampled as a whole."""
    places = np.cumsum(lengths) - lengths
    return [
        Choice(int(place), sequence[: turn.start], turn.admissible, turn.choice)
        for place, turn, sequence in zip(places, turns, sequences, strict=True)
        if turn.choice is not None
    ]


def _pad(sequences: Sequence[np.ndarray], pad_id: int) -> tuple[IntArray, IntArray]:
    """Returns sequences padded on the right, and their mask."""
    lengths = np.array([len(sequence) for sequence in sequences])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(mask.shape, pad_id, np.int64)
    tokens[mask] = np.concatenate(sequences)
    return tokens, mask.astype(np.int64)


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Returns the concatenation of start, start + 1, ... for each range."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def _supports(
    turns: Sequence[Turn], lengths: IntArray
) -> tuple[IntArray, IntArray] | tuple[None, None]:
    """Returns offsets [k + 1] and ids of all supports, or None if no turn has one."""
    if all(turn.support is None for turn in turns):
        return None, None
    none = np.zeros(0, np.int32)
    parts = [none if turn.support is None else turn.support.offsets for turn in turns]
    ids = [turn.support.ids for turn in turns if turn.support is not None]
    supported = np.array([len(part) > 0 for part in parts])
    counts = np.zeros(int(lengths.sum()), np.int64)
    # Differences of the joined offsets, without those from the end of a turn to the next one.
    ends = np.cumsum([len(part) for part in parts if len(part)])[:-1]
    counts[np.repeat(supported, lengths)] = np.delete(np.diff(np.concatenate(parts)), ends - 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return offsets, np.concatenate(ids).astype(np.int64)
