"""Trajectories as plain values: `pack` for one in JSON, `pack_all` for many in a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.trajectory import (
    RolloutStats,
    Segment,
    Support,
    Trajectory,
    Turn,
    equal_tokens,
)

DTYPES = ("int32", "float32", "bool")
"""Types of the arrays of a trajectory."""
ARRAYS = {
    "logprobs": "float32",
    "recomputed": "float32",
    "thought": "bool",
    "token_versions": "int32",
}
"""Types of the arrays of a turn."""
RECORDS = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (Trajectory, Turn, Segment, Support, RolloutStats)
}
"""Names of the fields of the classes in a trajectory."""
ATOMS = {bool, float, int, type(None)}
"""Types that are plain already."""


def pack(
    trajectory: Trajectory,
    array: Callable[[NDArray[Any]], list[Any]] = np.ndarray.tolist,
    same: Callable[[Any], Any] = lambda value: value,
) -> dict[str, Any]:
    """Returns a trajectory as plain Python values, exactly.

    Args:
        trajectory: the trajectory.
        array: maps an array to plain values.
        same: maps a text or a tuple of texts to an equal one.
    """

    def plain(value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        if kind in RECORDS:
            return {name: plain(getattr(value, name)) for name in RECORDS[kind]}
        if kind is np.ndarray:
            return array(value)
        if kind is list:
            return [plain(item) for item in value]
        texts = kind is str or (kind is tuple and value and all(type(x) is str for x in value))
        return same(value) if texts else value

    return plain(trajectory)


def unpack(
    packed: dict[str, Any], array: Callable[[Any, str], NDArray[Any]] = np.array
) -> Trajectory:
    """Returns the trajectory of a `pack`.

    Args:
        packed: the plain values.
        array: maps plain values and the name of a type to an array.
    """
    turns = []
    for turn in packed["turns"]:
        support = turn["support"]
        if support is not None:
            offsets, ids = (array(support[name], "int32") for name in ("offsets", "ids"))
            support = Support(offsets, ids)
        rest = {"support": support, "admissible": tuple(turn["admissible"])}
        # Those of earlier versions have no term.
        rest["delayed"] = tuple((*part, "")[:3] for part in turn.get("delayed", ()))
        for name, kind in ARRAYS.items():
            if turn.get(name) is not None:
                rest[name] = array(turn[name], kind)
        turns.append(Turn(**turn | rest))
    segments = [Segment(array(s["tokens"], "int32")) for s in packed["segments"]]
    rest = {
        "turns": turns,
        "segments": segments,
        "episode": tuple(packed.get("episode", ())),
        "stats": RolloutStats(**packed["stats"]),
        "actors": tuple(packed["actors"]),
    }
    return Trajectory(**packed | rest)


def pack_all(trajectories: Iterable[Trajectory]) -> dict[str, Any]:
    """Returns trajectories as plain Python values and a tensor for all arrays of a type, exactly.

    A segment is stored without the prefix that it shares with the one before it, such as the
    instructions, and equal texts are one object, which `torch.save` writes once.
    """
    import torch

    arrays: dict[str, list[NDArray[Any]]] = {kind: [np.zeros(0, kind)] for kind in DTYPES}
    sizes: dict[str, int] = dict.fromkeys(DTYPES, 0)
    known: dict[Any, Any] = {}
    packed: list[dict[str, Any]] = []
    shared: list[int] = []
    last = np.zeros(0, np.int32)

    def span(values: NDArray[Any]) -> list[int]:
        kind = values.dtype.name
        arrays[kind].append(values)
        sizes[kind] += len(values)
        return [sizes[kind] - len(values), sizes[kind]]

    for trajectory in trajectories:
        segments = []
        for segment in trajectory.segments:
            tokens = segment.tokens
            shared.append(equal_tokens(last, tokens, min(len(last), len(tokens))))
            segments.append(Segment(tokens[shared[-1] :]))
            last = tokens
        short = dataclasses.replace(trajectory, segments=segments)
        packed.append(pack(short, span, lambda value: known.setdefault(value, value)))
    tensors = {kind: torch.from_numpy(np.concatenate(some)) for kind, some in arrays.items()}
    return {"trajectories": packed, "shared": shared, **tensors}


def unpack_all(packed: dict[str, Any]) -> list[Trajectory]:
    """Returns the trajectories of a `pack_all`."""

    def array(span: list[int], kind: str) -> NDArray[Any]:
        return packed[kind][span[0] : span[1]].numpy().copy()

    trajectories = [unpack(each, array) for each in packed["trajectories"]]
    segments = [segment for trajectory in trajectories for segment in trajectory.segments]
    last = np.zeros(0, np.int32)
    for segment, shared in zip(segments, packed["shared"], strict=True):
        last = segment.tokens = np.concatenate([last[:shared], segment.tokens])
    return trajectories
