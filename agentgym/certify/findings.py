"""Findings of checks, and `check`, which makes a check of a function.

Ids are those of OpenEnv's RFC 008 where the meaning is equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentgym.certify.subject import Subject

Severity = Literal["fail", "warn"]


@dataclass(frozen=True)
class Finding:
    """A fault that a check has found.

    Attributes:
        evidence: the facts, in a line.
        severity: whether the certificate fails, or only warns.
    """

    evidence: str
    severity: Severity = "fail"


class Unchecked(Exception):  # no error: the check does not apply
    """The reason for which a check does not apply to an environment."""


Run = Callable[[Subject], list[Finding]]


@dataclass(frozen=True)
class Check:
    """A check of environments.

    Attributes:
        id: name of the check, "level.name".
        run: returns the findings, none if the environment passes.
        remedy: the change that removes a finding.
        needs: ids of the checks that must pass before. Otherwise it is skipped.
        declarable: whether the author of an environment may declare a finding with a reason.
    """

    id: str
    run: Run
    remedy: str
    needs: tuple[str, ...] = ()
    declarable: bool = True

    @property
    def meaning(self) -> str:
        """The first line of the check's docstring."""
        return (self.run.__doc__ or "").partition("\n")[0]


def check(
    id: str, remedy: str, *, needs: tuple[str, ...] = (), declarable: bool = True
) -> Callable[[Run], Check]:
    """Returns a decorator that makes a `Check` of a function. The arguments are its attributes."""
    return lambda run: Check(id, run, remedy, needs, declarable)


STARTUP = "runtime.startup"
DETERMINISM = "runtime.episode_determinism"
ISOLATION = "runtime.episode_isolation"
SNAPSHOTS = "runtime.snapshot_fidelity"
SEMANTIC = (DETERMINISM, ISOLATION)
"""Checks without which no episode can be compared with another one."""
ORACLE = "semantic.oracle_max"
"""Id of the check that an expert exists and solves the tasks."""
FLOOR = "semantic.floor_gap"
CONSISTENT = "semantic.success_consistent"
CYCLE = "semantic.positive_cycle"
