"""The types of settings, and which of them the code of a run reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args, get_origin

import agentgym.trainers
from agentgym.trainers.settings import groups_of, settings_of
from agentgym.trainers.settings.config import TrainConfig

TRAINERS = str(Path(agentgym.trainers.__file__).parent)
SETTINGS = f"{TRAINERS}/settings/"
CHECKS = (f"{TRAINERS}/run/checks.py", f"{TRAINERS}/cli/")
"""Code that refuses settings, or shows them."""
COPIES = ("__post_init__", "values", "_value", "_of")
"""Methods and functions that check settings or list all of them."""


def _acts(frame: FrameType | None, kinds: tuple[type, ...]) -> bool:
    """Whether a read is one of the run: properties of settings read for their callers."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename == __file__:  # a property of settings
            frame = frame.f_back
            continue
        if not code.co_filename.startswith(TRAINERS) or code.co_filename.startswith(CHECKS):
            return False  # dataclasses.replace, for example
        own = isinstance(frame.f_locals.get("self"), kinds)
        if not own and not code.co_filename.startswith(SETTINGS):
            return True
        if code.co_name in COPIES:
            return False
        frame = frame.f_back
    return False


@contextmanager
def reads_of(kind: type[TrainConfig]) -> Iterator[set[str]]:
    """Yields the set of the settings that are read, which grows during a run."""
    owners = (kind, *groups_of(kind).values())
    known = settings_of(kind).keys()
    found: set[str] = set()

    def read(self: Any, name: str) -> Any:
        if name in known and name not in found and _acts(sys._getframe(1), owners):
            found.add(name)
        return object.__getattribute__(self, name)

    for owner in owners:
        owner.__getattribute__ = read  # type: ignore[method-assign]
    try:
        yield found
    finally:
        for owner in owners:
            del owner.__getattribute__


def plain(hint: Any) -> tuple[Any, ...]:
    """The types in an annotation."""
    inner = get_args(hint)
    if get_origin(hint) is Literal or not inner or get_origin(hint) in (dict, tuple, list):
        return (hint,)
    return tuple(
        p for each in inner if isinstance(each, type) or get_args(each) for p in plain(each)
    )
