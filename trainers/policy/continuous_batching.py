"""`Window`: continuous batching. Waiting rows take the places of finished ones.

The rows of a call are consecutive rows of a `PrefixCache`. Those in progress are a window over
them: finished rows move to its front, which it leaves behind, and it grows at its back. A row moves
only when another one ends, so no keys or values are copied from token to token. With `refill`, the
next actions of finished rows' episodes take their places: the window grows at its front, too. Rows
of an `eager` window begin as soon as they come: those that find no place in front go to its back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy.cache_layers import Span
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.prefix_cache import PrefixCache, swapped
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.shared_attention import WIDEST, Prefixes, Sharing, common_prefixes

Advance = Callable[[Sequence[Row], Tensor, Tensor | None], None]
"""Appends a sampled token to each row, given the logits [b, V] of the model and of its guide."""

Refill = Callable[[Sequence[Row], bool], list[Row]]
"""Takes finished rows, and whether others are in progress, and returns further rows."""


class Burst(Protocol):
    """Generates several tokens of rows at once."""

    def open(self) -> None:
        """Forgets all keys and values, which other weights may have computed."""
        ...

    def run(self, rows: Sequence[Row], first: int, store: PrefixCache) -> bool:
        """Appends tokens to rows. Returns False, without an effect, if it cannot.

        Args:
            rows: the rows, with few pending tokens.
            first: the row of the store that belongs to the first one.
            store: their keys and values. Those of the tokens that are fed are added.
        """
        ...


PREFILL_CPU, PREFILL = 2048, 32768
"""Maximum number of prompt tokens per forward pass, on a CPU and on other devices."""

PASS_CPU, PASS = 128, 4096
"""Padding tokens that cost as much as a further forward pass. The second number is an estimate."""

MOVE = 8
"""Padding tokens that cost as much as moving the keys and values of a row."""

SHARED = 256
"""Tokens that a forward pass over a shared prefix must save."""


class Window:
    """Generates the actions of rows, of a model that allows padding at any position.

    Args:
        rows: the rows.
        model: the language model.
        guide: model whose logits are passed to `advance`, too.
        cache: keys and values of earlier prompts, which are used and extended. None: no reuse.
        advance: appends a sampled token to rows.
        refill: called with the rows that have finished since the last call. If no others are in
            progress, it may wait for further rows. None: there are no further rows.
        burst: generates several tokens at once. None: each pass generates one token per row.
        eager: further rows begin at once. Otherwise they wait until a third has finished, which
            makes larger batches of prompts.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        model: LanguageModel,
        guide: LanguageModel | None,
        cache: PrefixCache | None,
        advance: Advance,
        refill: Refill | None = None,
        burst: Burst | None = None,
        *,
        eager: bool = False,
    ):
        self._waiting = list(rows)
        self._model, self._advance, self._keep = model, advance, cache is not None
        self._refill, self._finished, self._next = refill, list[Row](), list[Row]()
        self._caches = [(model, cache if cache is not None else PrefixCache())]
        if guide is not None:
            self._caches.append((guide, PrefixCache()))
        self._burst, self._eager = burst, eager
        # Each step asks whether they have changed, and a walk through the model takes longer.
        self._weights = [list(owner.model.parameters()) for owner, _ in self._caches]
        self._open()
        self._columns = _reach(rows)
        cpu = model.device.type == "cpu"
        self._prefill, self._pass = (PREFILL_CPU, PASS_CPU) if cpu else (PREFILL, PASS)
        self._first = self._last = 0  # the rows in progress
        self._split = False  # whether more rows begin in the next pass, because they are shorter
        self._rows: list[Row] = []
        self._prefixes: Prefixes | None = None

    def run(self) -> None:
        """Generates until all rows are done."""
        while self._waiting:
            at_once = min(store.max_rows(self._columns) for _, store in self._caches)
            self._place(self._waiting[:at_once])
            del self._waiting[:at_once]
            while self._first < len(self._rows):
                self._step()
                if self._refill is not None:
                    self._go_on(self._refill)

    def _open(self) -> None:
        """Prepares the caches for the current weights."""
        self._versions = self._weights_versions()
        for (owner, store), version in zip(self._caches, self._versions, strict=True):
            store.open(owner.layer_shapes, owner.device, version)
        if self._burst is not None:
            self._burst.open()

    def _weights_versions(self) -> list[tuple[int, str]]:
        adapters = str(self._model.model.active_adapters) if self._model.has_adapter else ""
        return [(sum(each._version for each in weights), adapters) for weights in self._weights]

    def _renew(self) -> None:
        """Drops all keys and values if the weights have changed. They are computed again."""
        if self._weights_versions() == self._versions:
            return
        self._open()
        self._prefixes = None
        for row in self._rows[self._first :]:
            row.restart()
        self._share(range(self._first, len(self._rows)), 0)

    def _go_on(self, refill: Refill) -> None:
        """Hands out finished rows, and begins with further ones if a quarter has finished."""
        active, count = len(self._rows) - self._first, len(self._next)
        finished, self._finished = self._finished, []
        self._next += refill(finished, active + len(self._waiting) + count > 0)
        self._renew()
        self._columns = max(self._columns, _reach(self._next[count:]))
        if not active:
            self._waiting, self._next = self._waiting + self._next, []
        elif self._next:
            few = len(self._next) * 3 < self._last - self._first
            if self._first and (self._eager or not few):
                self._rejoin()
            if self._eager and self._next:
                self._queue()

    def _rejoin(self) -> None:
        """Begins with further rows, in the places before the window."""
        if any(store.max_rows(self._columns) < store.rows for _, store in self._caches):
            return  # they wait until the window is empty and contexts can be evicted
        rows, self._next = self._next[: self._first], self._next[self._first :]
        placed = self._placed(rows, range(self._first, len(self._rows)))
        begin, self._first = self._first, self._first - len(rows)
        self._seat(rows, placed)
        known = sum(self._known(row) for row in rows)
        if known:  # they take part in the next pass
            self._sort(self._first, begin, always=True)
        if known < len(rows):
            self._feed_all(self._first, begin - known)

    def _queue(self) -> None:
        """Appends further rows at the back, where they begin as soon as there are free places."""
        busy = range(self._first, len(self._rows))
        most = min(store.max_rows(self._columns) for _, store in self._caches) - busy.stop
        rows, self._next = self._next[: max(0, most)], self._next[max(0, most) :]
        if rows:
            placed = self._placed(rows, busy, behind=True)
            self._rows += rows
            self._seat(rows, placed)

    def _placed(
        self, rows: Sequence[Row], busy: range | None = None, *, behind: bool = False
    ) -> list[tuple[int, int]]:
        """Returns the places of rows in the caches: see `PrefixCache.place`."""
        sequences = [(row.request.slot if self._keep else None, row.pending) for row in rows]
        found, *_ = [
            store.place(sequences, self._columns, busy, behind=behind) for _, store in self._caches
        ]
        return found

    def _place(self, rows: list[Row]) -> None:
        """Assigns a row of the cache to each of the rows."""
        rows.sort(key=lambda row: -len(row.pending))
        placed = self._placed(rows)
        self._rows = list(rows)
        self._seat(rows, placed)
        self._first = self._last = 0
        self._sort(0, len(rows), always=any(map(self._known, rows)))
        self._share(range(len(rows)), 0)
        self._sort(0, len(rows))

    def _seat(self, rows: Sequence[Row], placed: Sequence[tuple[int, int]]) -> None:
        """Enters rows at the numbers that `PrefixCache.place` gave them."""
        for row, (number, cached) in zip(rows, placed, strict=True):
            row.skip(cached)
            self._rows[number] = row
        self._model.stats.cached_tokens += sum(row.read for row in rows)

    def _known(self, row: Row) -> bool:
        """Returns whether a row of a cache that remembers has nothing but one token to read."""
        return self._caches[0][1].remembers and len(row.pending) == 1

    def _sort(self, first: int, last: int, *, always: bool = False) -> None:
        """Sorts consecutive rows by the number of pending tokens if this saves enough padding."""
        lengths = [len(row.pending) for row in self._rows[first:last]]
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        moves = {first + to: first + of for to, of in enumerate(order) if to != of}
        if always or self._waste(lengths) - self._waste(sorted(lengths)[::-1]) > MOVE * len(moves):
            self._move(moves)

    def _waste(self, lengths: list[int]) -> int:
        """Returns the padding of rows that are fed in turn, and that which their passes cost."""
        places, found = self._model.rows_at_once(self._columns), 0
        while lengths:
            count = self._together(lengths[:places])
            found += max(lengths[:count]) * count - sum(lengths[:count]) + self._pass
            lengths = lengths[count:]
        return found

    def _together(self, lengths: Sequence[int]) -> int:
        """Returns how many of the first rows are fed together, given their pending tokens."""
        longest = 0
        for count, length in enumerate(lengths):
            longest = max(longest, length)
            padding = (len(lengths) - count) * (longest - length)  # later rows are shorter
            if count and (padding > self._pass or (count + 1) * longest > self._prefill):
                return count
        return len(lengths)

    def _share(self, rows: Sequence[int], read: int) -> None:
        """Computes prefixes that rows have in common once, for rows of which `read` is cached.

        First the prefix of all rows, then those of groups, whose first rows are fed together.
        """
        cold = [i for i in rows if self._rows[i].read == read]
        if len(cold) < 2:
            return
        tokens = [self._rows[i].pending for i in cold]
        most = min(map(len, tokens)) - 1
        common = min(equal_tokens(other, tokens[0], most) for other in tokens)
        families = [list(range(len(cold)))]
        if common * (len(cold) - 1) < SHARED:
            common, families = common_prefixes(tokens, most)
        if common * (len(cold) - len(families)) < SHARED:
            return
        shared = [[cold[n] for n in family] for family in families if len(family) > 1]
        together = [[family] for family in shared]
        if len(shared) > 1 and cold[-1] - cold[0] < len(cold):
            shared = self._lead(cold, shared)
            together = [shared]
        for some in together:
            first, last = some[0][0], some[0][0] + len(some)
            at_once = max(1, self._prefill // len(some))
            for part in range(0, common, at_once):
                self._feed(first, last, min(at_once, common - part))
            self._copy_prefixes(some, read, read + common)
        for family in shared:
            self._share(family, read + common)

    def _lead(self, cold: list[int], families: list[list[int]]) -> list[list[int]]:
        """Moves the first row of each family to the first places of rows with equal columns."""
        leaders = [family[0] for family in families]
        order = dict.fromkeys([*leaders, *cold])  # equal columns need not be moved
        place = dict(zip(order, cold, strict=True))
        rows = [self._rows[i] for i in order]
        for i, row in zip(cold, rows, strict=True):
            self._rows[i] = row
        return [[place[i] for i in family] for family in families]

    def _copy_prefixes(self, families: list[list[int]], start: int, stop: int) -> None:
        """Copies the columns that the first row of each family has read to its other rows."""
        of = [family[0] for family in families for _ in family[1:]]
        to = [i for family in families for i in family[1:]]
        for _, store in self._caches:
            store.copy(of, to, slice(start, stop))
        for i in to:
            self._rows[i].skip(stop - start)
        self._model.stats.cached_tokens += (stop - start) * len(to)

    def _step(self) -> None:
        """Feeds new rows if a quarter of the places are free, otherwise those in progress."""
        new = self._admitted()
        if not new and self._burst is not None:
            rows = self._rows[self._first : self._last]
            if self._burst.run(rows, self._first, self._caches[0][1]):
                self._let_go()
                return
        first, last = (self._last, self._last + new) if new else (self._first, self._last)
        self._last = last
        self._feed_all(first, last)

    def _feed_all(self, first: int, last: int) -> None:
        """Feeds consecutive rows until any of them gets a new token."""
        ready = self._feed(first, last)
        while not ready:  # a prompt that is fed in parts
            ready = self._feed(first, last)
        self._let_go()

    def _admitted(self) -> int:
        """Returns how many waiting rows to begin with."""
        active, waiting = self._last - self._first, len(self._rows) - self._last
        places = self._model.rows_at_once(self._columns)
        if not waiting or (active > places * 3 // 4 and not self._split):
            return 0
        first = self._rows[self._last :][: places - active]
        count = self._together([len(row.pending) for row in first])
        self._split = count < len(first)
        return count

    def _feed(self, first: int, last: int, most: int | None = None) -> bool:
        """Feeds pending tokens of consecutive rows. Returns whether any row got a new token.

        Args:
            first: the first row.
            last: the row after the last one.
            most: maximum number of tokens per row. If None, it depends on the device.
        """
        rows = self._rows[first:last]
        starts = np.array([row.read for row in rows])
        most = most or max(1, self._prefill // len(rows))
        width = min(most, max(len(row.pending) for row in rows))
        lengths = np.array([min(len(row.pending), width) for row in rows])
        new = np.concatenate([row.feed(width) for row in rows]).astype(np.int64)
        sharing = self._sharing(first, rows, int(starts.min())) if width <= WIDEST else None
        span = Span(first, starts, lengths, self._model.device, sharing)
        tokens = new[(np.cumsum(lengths) - lengths)[:, None] + span.inside]
        stats = self._model.stats
        stats.forward_passes += 1
        stats.fed_tokens += len(new)
        stats.padded_tokens += tokens.size - len(new)
        logits = []
        for model, store in self._caches:
            cache, mask = store.reading(span)
            logits.append(model.next_logits(tokens, mask, span.positions, cache, lengths - 1))
        ready = [i for i, row in enumerate(rows) if not len(row.pending)]
        if not ready:
            return False
        if len(ready) < len(rows):
            logits = [some[ready] for some in logits]
        store = self._caches[0][1]
        for i in ready if store.remembers else ():
            if len(rows[i].tokens) == rows[i].forced:  # nothing was sampled yet
                store.remember(first + i, rows[i].sequence)
        self._advance([rows[i] for i in ready], logits[0], logits[1] if len(logits) > 1 else None)
        return True

    def _sharing(self, first: int, rows: Sequence[Row], read: int) -> Sharing | None:
        """Returns the prefixes that rows share, of which at least `read` columns are written."""
        if self._prefixes is None or not self._prefixes.know(rows):
            prompts = [row.request.prompt for row in rows]
            length, families = common_prefixes(prompts, min(read, *map(len, prompts)))
            leaders = [first + family[0] for family in families]
            number = {rows[i]: n for n, family in enumerate(families) for i in family}
            store = self._caches[0][1]
            self._prefixes = Prefixes(
                length, number, lambda: store.prefixes(leaders, length), self._model.device
            )
        return self._prefixes.of(rows)

    def _let_go(self) -> None:
        """Removes finished rows from the window."""
        window = range(self._first, self._last)
        done = [i for i in window if self._rows[i].done]
        if not done:
            return
        for i in done:
            row = self._rows[i]
            self._finished.append(row)
            if self._keep and row.request.slot is not None:
                self._caches[0][1].keep(i, row.request.slot, row.sequence[: row.read])
        front = self._first + len(done)
        late = [i for i in done if i >= front and front < self._last]
        early = [i for i in window[: len(done)] if late and not self._rows[i].done]
        self._move(swapped(late, early))
        self._first = front

    def _move(self, order: dict[int, int]) -> None:
        """Permutes rows: see `PrefixCache.move`."""
        columns = max((self._rows[i].read for i in order), default=0)
        for _, store in self._caches:
            store.move(order, columns)
        moved = {to: self._rows[of] for to, of in order.items()}
        for i, row in moved.items():
            self._rows[i] = row


def _reach(rows: Sequence[Row]) -> int:
    """Returns the number of tokens that the longest row can reach."""
    return max((len(row.pending) + row.limit for row in rows), default=0)
