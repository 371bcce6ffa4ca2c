"""`Draws` equals numpy's generator."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentgym.utils.fast_pcg64 import Draws

CALLS = st.one_of(
    st.just(("random",)),
    st.tuples(st.just("below"), st.integers(1, 2**32 - 1)),
    st.tuples(st.just("below"), st.sampled_from([1, 2, 3, 4, 6, 2**31 + 1, 3 * 2**30])),
    st.tuples(st.just("bits"), st.integers(1, 31)),
    st.tuples(st.just("permutation"), st.integers(0, 40)),
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(st.just("choice"), st.just(range(n)), st.integers(0, n))
    ),
)


@given(st.integers(0, 2**128 - 1), st.integers(1, 9), st.lists(CALLS, max_size=60))
def test_any_sequence_of_calls_draws_what_numpy_draws(seed, block, calls):
    draws, numpy = Draws(seed, block), np.random.Generator(np.random.PCG64(seed))
    for name, *args in calls:
        options = {"replace": False} if name == "choice" else {}
        if name == "bits":
            theirs = numpy.integers(2 ** args[0])
        else:
            theirs = getattr(numpy, "integers" if name == "below" else name)(*args, **options)
        ours = getattr(draws, name)(*args)
        assert ours == (theirs.tolist() if isinstance(theirs, np.ndarray) else theirs)
