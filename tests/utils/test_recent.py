from __future__ import annotations

import copy
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.utils.recent import Recent


@given(puts=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60))))
@settings(deadline=None)
def test_the_size_is_that_of_the_values_and_bounded(puts):
    cache: Recent[int] = Recent(100)
    sizes: dict[int, int] = {}
    for key, size in puts:
        cache.put(key, key, size)
        sizes[key] = size
        assert cache.get(key) == key
        kept = [each for each in sizes if cache.get(each) is not None]
        assert cache.size == sum(sizes[each] for each in kept)
        assert len(cache) == len(kept) and (cache.size <= 100 or len(kept) == 1)


def test_the_values_used_last_are_kept():
    cache: Recent[str] = Recent(3)
    for key in "abc":
        cache.put(key, key, 1)
    assert cache.get("a") == "a"
    cache.put("d", "d", 1)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]


def test_copies_are_empty():
    cache: Recent[str] = Recent(3)
    cache.put("a", "a", 1)
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert len(other) == 0
        other.put("b", "b", 2)
        assert other.get("b") == "b"


def test_a_cleared_cache_is_empty_and_has_its_whole_limit():
    cache = Recent[str](10)
    cache.put("a", "x", 10)
    cache.clear()
    assert (len(cache), cache.size, cache.get("a")) == (0, 0, None)
    cache.put("b", "y", 5)
    cache.put("c", "z", 5)
    assert (cache.get("b"), cache.get("c")) == ("y", "z")
