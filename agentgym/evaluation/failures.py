"""Why episodes fail: `failure_of` gives an episode without success one of `FAILURES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.time_limits import TIMED_OUT
from agentgym.time_step import UNJUDGED

FAILURES = {
    "timeout": "environment too slow",
    "unjudged": "verdict unreadable",
    "overflow": "context overflow",
    "invalid": "invalid actions",
    "wrong": "wrong end",
    "loop": "repeated states",
    "turns": "out of turns",
}
"""Kind of failure -> its name in tables."""
OVERFLOWS = "context_overflows"
"""Name under which agents count in `View.costs` how often a prompt exceeded their context."""


def failure_of(
    state_key: str, infos: Sequence[Mapping[str, Any]], *, terminated: bool, overflows: int = 0
) -> str:
    """Returns the kind of failure of an episode, the first that applies, or "" for a success.

    - timeout: a call of the environment took longer than its time limit.
    - unjudged: a judge should have decided the outcome, and its reply is unreadable.
    - overflow: the context of the agent overflowed.
    - invalid: at least half of the actions were invalid.
    - wrong: the episode terminated, with a wrong answer or a lost game for example.
    - loop: out of turns, at least half of which led to a state that the episode had been in.
    - turns: out of turns otherwise.

    Args:
        state_key: the `info["state_key"]` at the start.
        infos: the info after each turn, at least one.
        terminated: whether the episode terminated.
        overflows: number of prompts that exceeded the agent's context.
    """
    if infos[-1]["success"]:
        return ""
    if infos[-1].get(TIMED_OUT):
        return "timeout"
    if infos[-1].get(UNJUDGED):
        return "unjudged"
    if overflows:
        return "overflow"
    if 2 * sum(not info["valid"] for info in infos) >= len(infos):
        return "invalid"
    if terminated:
        return "wrong"
    visited = len({state_key, *(info["state_key"] for info in infos)})
    return "loop" if 2 * (len(infos) + 1 - visited) >= len(infos) else "turns"
