from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.utils.word_hash import WordHash


@given(st.lists(st.text(min_size=1, max_size=4), max_size=20), st.integers(1, 9))
def test_hashing_is_the_signed_sum_of_the_words(words: list[str], size: int):
    together = WordHash(size)
    parts = sum((WordHash(size).vector([word]) for word in words), np.zeros(size, np.float32))
    norm = float(np.linalg.norm(parts))
    expected = parts / norm if norm else parts
    assert together.vector(words) == pytest.approx(expected, abs=1e-6)
    assert together.vector(reversed(words)) == pytest.approx(expected, abs=1e-6)
    assert together.vector(words).dtype == np.float32


@pytest.mark.slow
def test_hashes_are_pinned_and_do_not_depend_on_the_process():
    script = (
        "from agentgym.utils.word_hash import WordHash\n"
        "print(WordHash(8).vector(['red', 'shoes', '\\u6771']).tolist())"
    )
    here = WordHash(8).vector(["red", "shoes", "東"]).tolist()
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert done.stdout.strip() == str(here)
    assert np.flatnonzero(WordHash(64).vector(["red"])).tolist() == [7]
