"""Random streams by name: no two of them share their numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

from agentgym.trainers.data import streams

TRAINERS = Path(__file__).parents[3] / "trainers"


def names() -> set[str]:
    """The names of all streams in the source."""
    found = set()
    for path in TRAINERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "stream":
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return found


def test_no_two_streams_share_a_number():
    known = names()
    assert {"branches", "continuations", "trees", "opponents"} <= known
    numbers = {streams.stream(0, name)[1] for name in known}
    assert len(numbers) == len(known)
    # The streams of the trainer itself are numbered from 0.
    assert not numbers & {streams.TASKS, streams.ACTIONS, streams.SHUFFLE, streams.CLONING}
    assert not numbers & {streams.HOOKS, streams.CRITIC}


def test_a_stream_depends_on_seed_name_and_place_alone():
    def first(*key: int) -> float:
        return float(np.random.default_rng(np.random.SeedSequence(key)).random())

    keys = [
        streams.stream(seed, name, iteration, number)
        for seed in (0, 1)
        for name in ("branches", "trees")
        for iteration in (0, 1)
        for number in (0, 1)
    ]
    assert len({first(*key) for key in keys}) == len(keys)
    assert first(*streams.stream(1, "trees", 2)) == first(*streams.stream(1, "trees", 2))
