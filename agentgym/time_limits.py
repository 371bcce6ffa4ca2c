"""Calls with a time limit, and environments whose slow calls end the episode.

A call that hangs in a library cannot be interrupted, so it runs in a thread that is abandoned when
time is up. The threads are daemons: none of them keeps the process from exiting. The environment is
abandoned with its thread, and a new one takes its place.

A call that never releases the global lock of Python, as some loops in C extensions do, stops all
threads and cannot be bounded. No environment of the suite makes one.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium

from agentgym.errors import AgentGymError, ConfigError
from agentgym.snapshots import restore_snapshot, snapshot_of

Result = TypeVar("Result")
TIMED_OUT = "timed_out"
"""Key of `info` that is True where a time limit ended the episode. Otherwise it is absent."""
MANY_TURNS = 1000
"""Turns after which an episode may have no end. No environment of the suite has a higher limit."""
MOST_UNPLAYED = 100
"""Actions that an adapter refuses before they reach an environment or server of others, which
truncate an episode without a turn limit: the environment itself counts none of them."""
NOT_STARTED = "(The environment did not start in time.)"


class CallTimeout(AgentGymError, RuntimeError):
    """A call took longer than its time limit and was abandoned."""


class _Call:
    """A call, and its result."""

    def __init__(self, function: Callable[[], Any]):
        self._function = function
        self.done = threading.Event()
        self.abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
        self.done.set()


class BoundedCalls:
    """Runs calls one after the other in a thread, each with a time limit.

    After a call that took too long, the next one has a new thread.

    Args:
        seconds: the limit of a call.

    Raises:
        ConfigError: if it is not above 0.
    """

    def __init__(self, seconds: float):
        if not seconds > 0:
            raise ConfigError(f"env_seconds must be above 0, got {seconds}.")
        self.seconds = seconds
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, function: Callable[[], Result]) -> Result:
        """Returns the result of a call, or raises its error.

        Raises:
            CallTimeout: if it takes too long.
        """
        if self._thread is None:
            self._start()
        call = _Call(function)
        self._calls.put(call)
        try:
            in_time = call.done.wait(self.seconds)
        except BaseException:  # Ctrl-C
            self._abandon(call)
            raise
        if not in_time:
            self._abandon(call)
            raise CallTimeout(f"took more than {self.seconds:g} s")
        if call.error is not None:
            raise call.error
        return call.result

    def close(self) -> None:
        """Ends the thread after the call in progress."""
        self._calls.put(None)
        self._thread = None

    def _start(self) -> None:
        self._calls = queue.SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._calls,), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._calls.put, None).atexit = False

    def _abandon(self, call: _Call) -> None:
        """Leaves the thread to its call. A call in Python's own code ends at its next line."""
        thread, self._thread = self._thread, None
        call.abandoned = True
        if thread is not None and thread.ident is not None and not call.done.is_set():
            ident, error = ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)


def _work(calls: queue.SimpleQueue[_Call | None]) -> None:
    with contextlib.suppress(SystemExit):
        while (call := calls.get()) is not None:
            call.run()
            if call.abandoned:
                return
            del call  # a result must not outlive its call


def limit_calls(seconds: float | None) -> Callable[[Callable[[], Any]], Any]:
    """Returns a function that runs calls, with a time limit if there is one."""
    return BoundedCalls(seconds) if seconds is not None else lambda call: call()


def limit_env(
    make: Callable[[], gymnasium.Env[Any, Any]], seconds: float | None
) -> Callable[[], gymnasium.Env[Any, Any]]:
    """Returns a maker of environments with a time limit, or `make` itself if there is no limit."""
    return make if seconds is None else lambda: BoundedEnv(make, seconds)


class BoundedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in which a `reset` or `step` that takes too long truncates the episode.

    The observation is then the last one, the reward is 0, and `info` has the key `timed_out`. After
    a slow reset, the episode has one turn. A warning names the environment, the task and the
    action. The next episode is played in a new environment.

    Args:
        make: makes an environment.
        seconds: time limit of a call.
        on_timeout: called with the message in place of a warning.

    Raises:
        ConfigError: if `seconds` is not above 0.
        CallTimeout: if the first environment is not made in time.
    """

    def __init__(
        self,
        make: Callable[[], gymnasium.Env[Any, Any]],
        seconds: float,
        on_timeout: Callable[[str], None] | None = None,
    ):
        self._make, self._on_timeout = make, on_timeout or _warn
        self._calls = BoundedCalls(seconds)
        super().__init__(self._calls(make))
        self._last: tuple[Any, Mapping[str, Any]] | None = None
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see the environment."""
        env, self._over = self.env, False
        try:
            found = self._calls(lambda: env.reset(seed=seed, options=options))
        except CallTimeout as error:
            task = str((options or {}).get("task") or "")
            self._abandon(f"reset of task {task!r} with seed {seed} {error}")
            self._over = True
            found = NOT_STARTED, unstarted_info(task)
        self._last = found
        return found

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays a turn: see the environment."""
        if self._over:
            return self._ended()
        env = self.env
        try:
            found: Any = self._calls(lambda: env.step(action))
        except CallTimeout as error:
            task = self._last[1].get("task", "") if self._last is not None else ""
            self._abandon(f"step in task {task!r} {error}, after the action {action!r:.300}")
            return self._ended()
        self._last = found[0], found[4]
        return found

    def snapshot(self) -> dict[str, Any]:
        """Returns a snapshot of the environment.

        Raises:
            CallTimeout: if it takes too long. The environment is then replaced, as after a step.
        """
        return self._bounded("snapshot", lambda env: snapshot_of(env))

    def restore(self, snapshot: Any) -> tuple[Any, dict[str, Any]]:
        """Continues from a snapshot of the environment.

        Raises:
            SnapshotError: if it is of another environment or damaged.
            CallTimeout: if it takes too long. The environment is then replaced, as after a step.
        """
        found = self._bounded("restore", lambda env: restore_snapshot(env, snapshot))
        self._last, self._over = found, False
        return found

    def _bounded(self, name: str, call: Callable[[gymnasium.Env[Any, Any]], Any]) -> Any:
        env = self.env
        try:
            return self._calls(lambda: call(env))
        except CallTimeout as error:
            self._abandon(f"{name} {error}")
            raise

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The spec of the environment, which changes in a mixture."""
        return self.env.spec

    def _abandon(self, problem: str) -> None:
        """Replaces the environment, whose call never returned, by a new one."""
        name = self.env.spec.id if self.env.spec is not None else type(self.env.unwrapped).__name__
        self._on_timeout(f"{name}: {problem}. The episode is truncated.")
        self.env = self._calls(self._make)

    def close(self) -> None:
        """Closes the environment, if that takes no longer than another call."""
        with contextlib.suppress(CallTimeout):
            self._calls(self.env.close)
        self._calls.close()

    def _ended(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Returns the last turn of an episode that took too long."""
        observation, before = self._last or (NOT_STARTED, unstarted_info(""))
        self._over = False
        info = timed_out_info(before)
        return observation, 0.0, False, True, info | {"turn": before.get("turn", 0) + 1}

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the thread."""
        return {**vars(self), "_calls": self._calls.seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a copy, with a thread of its own."""
        vars(self).update(state)
        self._calls = BoundedCalls(state["_calls"])


def unstarted_info(task: str) -> dict[str, Any]:
    """Returns the info of an environment that did not start."""
    return {
        "task": task,
        "turn": 0,
        "valid": True,
        "success": False,
        "progress": 0.0,
        "admissible": (),
        "state_key": "",
        "reward_terms": {"task": 0.0},
    }


def timed_out_info(before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the info of the turn that took too long, from the info before it."""
    terms = dict.fromkeys(before.get("reward_terms", ()), 0.0)
    found = {**before, "reward_terms": terms, "success": False, "valid": True}
    return {**found, TIMED_OUT: True}


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
