"""`described`: what an environment is, for a language model that writes about it."""

from __future__ import annotations

import inspect
import re
from typing import Any

from agentgym.registration.making import make_env, split_id, tasks_of
from agentgym.registration.single_seat import SingleSeat

LONGEST = 4000
"""Characters of the arguments' description."""


def described(setting: str, *, arguments: bool = False, observations: int = 0) -> str:
    """Returns what the environment of a setting is: the first line of its documentation, and more.

    Args:
        setting: an id, with arguments as in "Blocksworld-v0:blocks=4".
        arguments: whether to describe its arguments.
        observations: number of training tasks of which the first observation is shown, after the
            instructions. 0: neither is shown.
    """
    id, given = split_id(setting)
    env = make_env(id, **given)
    try:
        text = inspect.getdoc(author_of(env)) or ""
        parts = [f"{setting}: {text.partition(chr(10))[0]}"]
        if arguments:
            section = re.search(r"^## Arguments\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
            listed = section[1].strip() if section else "(none)"
            parts.append(f"Arguments:\n{listed[:LONGEST]}")
        if observations:
            parts.append(str(env.get_wrapper_attr("instructions")))
            train = tasks_of(env).train
            for _, name in zip(range(observations), train, strict=False):
                observation, _ = env.reset(seed=0, options={"task": name})
                parts.append(f"An observation:\n{observation}")
    finally:
        env.close()
    return "\n\n".join(parts)


def author_of(env: Any) -> type:
    """Returns the class that an author wrote: of the environment, or of the game of its seat."""
    inner = env.unwrapped
    return type(inner.game if isinstance(inner, SingleSeat) else inner)
