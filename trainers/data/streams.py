"""Random streams: all randomness of a run is derived from its seed, a purpose and indices.

The parts of every run have numbers, and the episodes that hooks play beside those of the rollout
have names.
"""

from __future__ import annotations

import zlib

# Purposes of derived randomness.
TASKS, ACTIONS, SHUFFLE, CLONING, HOOKS, CRITIC = range(6)


def stream(seed: int, name: str, *index: int) -> tuple[int, ...]:
    """Returns the key of a random stream, for `EpisodeSpec.key` or `numpy.random.SeedSequence`.

    Streams with different names are independent, without a table of their numbers.

    Args:
        seed: seed of the run.
        name: name of the stream.
        *index: place in the stream, such as the iteration and the number of the episode.
    """
    return seed, zlib.crc32(name.encode()), *index
