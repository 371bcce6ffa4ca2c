"""Random streams by name: the seeds of episodes that hooks play beside those of the rollout."""

from __future__ import annotations

import zlib


def stream(seed: int, name: str, *index: int) -> tuple[int, ...]:
    """Returns the key of a random stream, for `EpisodeSpec.key` or `numpy.random.SeedSequence`.

    Streams with different names are independent, without a table of their numbers.

    Args:
        seed: seed of the run.
        name: name of the stream.
        *index: place in the stream, such as the iteration and the number of the episode.
    """
    return seed, zlib.crc32(name.encode()), *index
