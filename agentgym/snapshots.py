"""Snapshots: of wrapped environments, their checks, errors, and the state before a refused one."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from agentgym.errors import SnapshotError, UnknownTaskError

Env = gymnasium.Env[Any, Any]


def snapshot_of(env: Env) -> dict[str, Any]:
    """Returns a snapshot of an environment in wrappers, with the steps that `TimeLimit` counted.

    Raises:
        AttributeError: if the environment has no snapshots.
    """
    if isinstance(env, TimeLimit):
        inner = snapshot_of(env.env)
        return {"wrapper": "TimeLimit", "memory": env._elapsed_steps, "env": inner}
    if isinstance(env, gymnasium.Wrapper) and not hasattr(env, "snapshot"):
        return snapshot_of(env.env)
    return env.snapshot()  # type: ignore[attr-defined]


def restore_snapshot(env: Env, snapshot: Any) -> tuple[Any, dict[str, Any]]:
    """Continues an environment in wrappers from a snapshot of `snapshot_of`.

    It needs no reset before, also not for the wrappers that `gymnasium.make` adds.

    Raises:
        SnapshotError: if the snapshot is of another environment or damaged.
    """
    if isinstance(env, TimeLimit):
        check_wrapper(snapshot, "TimeLimit")
        elapsed = snapshot.get("memory")
        if type(elapsed) is not int or elapsed < 0:
            raise SnapshotError(f"Expected the steps of TimeLimit, got {reprlib.repr(elapsed)}.")
        found = restore_snapshot(env.env, snapshot["env"])
        env._elapsed_steps = elapsed
        return found
    if isinstance(env, gymnasium.Wrapper) and not hasattr(env, "restore"):
        found = restore_snapshot(env.env, snapshot)
        if isinstance(env, OrderEnforcing):
            env._has_reset = True
        if isinstance(env, PassiveEnvChecker):
            env._previous_data = found
        return found
    return env.restore(snapshot)  # type: ignore[attr-defined]


def chance_probe(env: Env) -> Callable[[], bool]:
    """Returns a function that returns whether a chance event has taken part in a step since now.

    An environment of another process has the answer in `chance_in_last_step`.
    """
    inner: Any = env.unwrapped
    if hasattr(type(inner), "chance_in_last_step"):
        return lambda: inner.chance_in_last_step
    before = inner.np_random.bit_generator.state
    return lambda: inner.np_random.bit_generator.state != before


def state_key(snapshot: dict[str, Any]) -> str:
    """Returns a text that is equal for snapshots of the same state.

    Turn, last step and random state are left out: they may differ between equal states.
    """
    memories = []
    while "wrapper" in snapshot:
        if snapshot["wrapper"] != "TimeLimit":
            memories.append(snapshot["memory"])
        snapshot = snapshot["env"]
    return json.dumps([memories, snapshot["task"], _without_generators(snapshot["state"])])


def _without_generators(value: Any) -> Any:
    """Returns JSON values without the random states among them, such as that of a game."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "rng" and isinstance(v, dict))}
        return {key: _without_generators(item) for key, item in kept.items()}
    return [_without_generators(item) for item in value] if isinstance(value, list) else value


def check_wrapper(snapshot: Any, name: str) -> None:
    """Checks that a snapshot is of a wrapper or a mixture, with the environment in it.

    Raises:
        SnapshotError: if it is of another class than `name`, or no snapshot.
    """
    known = isinstance(snapshot, Mapping)
    if not known or snapshot.get("wrapper") != name or "env" not in snapshot:
        raise other_snapshot(snapshot, name)


def owner_of(owner: object) -> dict[str, Any]:
    """Returns what a snapshot says about its environment or game (see `CheckedArguments`)."""
    return {"env": type(owner).__name__, "arguments": dict(getattr(owner, "_made_with", {}))}


def check_owner(snapshot: Any, owner: object) -> None:
    """Checks that a snapshot is of an environment or game of the same class and arguments.

    Raises:
        SnapshotError: if it is of another one, or no snapshot.
    """
    name, made_with = owner_of(owner).values()
    if not isinstance(snapshot, Mapping) or snapshot.get("env") != name:
        raise other_snapshot(snapshot, name)
    given = snapshot.get("arguments", {})  # not in older snapshots
    if not isinstance(given, Mapping):
        raise SnapshotError(f"Expected the arguments of {name}, got {reprlib.repr(given)}.")
    for key, value in made_with.items():
        if key in given and given[key] != value:
            raise SnapshotError(
                f"Expected a snapshot of {name} with {key} = {reprlib.repr(value)}, got one with "
                f"{reprlib.repr(given[key])}: make the environment with the same arguments."
            )


def other_snapshot(snapshot: Any, name: str) -> SnapshotError:
    """Returns the error for a snapshot of another owner than `name`, or no snapshot."""
    keys = ("wrapper", "env") if isinstance(snapshot, Mapping) else ()
    owner = next((snapshot[key] for key in keys if key in snapshot), None)
    got = reprlib.repr(snapshot) if owner in (None, name) else f"one of {reprlib.repr(owner)}"
    return SnapshotError(f"Expected a snapshot of {name}, got {got}.")


def generator_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Returns the random generator of a saved state."""
    generator: Any = np.random.PCG64()
    generator.state = state
    return np.random.Generator(generator)


@contextmanager
def restoring(*objects: Any) -> Iterator[None]:
    """Returns a context in which the objects are restored. An error leaves them as they were.

    Raises:
        SnapshotError: in place of any error.
    """
    before = [dict(vars(each)) for each in objects]
    try:
        yield
    except Exception as error:
        for each, attributes in zip(objects, before, strict=True):
            vars(each).clear()
            vars(each).update(attributes)
        raise refused(error) from error


def refused(error: Exception) -> SnapshotError:
    """Returns the error to raise for a snapshot whose restoration raised another one."""
    if isinstance(error, SnapshotError):
        return error
    if isinstance(error, UnknownTaskError):
        return SnapshotError(
            f"This snapshot is of an environment made with other arguments: {error!s:.500}"
        )
    return SnapshotError(
        "This snapshot is damaged or of an environment made with other arguments: "
        f"{type(error).__name__}: {error!s:.500}"
    )
