"""`certify`: runs all checks of an environment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agentgym.certify.budget import Budget
from agentgym.certify.episodes import digest, mean
from agentgym.certify.findings import STARTUP, Check, Finding, Unchecked
from agentgym.certify.processes import Processes
from agentgym.certify.registry import BY_ID, CHECKS
from agentgym.certify.report import MOST_EVIDENCE, PlayerScore, Report, Result, Status
from agentgym.certify.subject import Subject
from agentgym.errors import AgentGymError, ConfigError, did_you_mean
from agentgym.time_limits import CallTimeout
from agentgym.utils.printable import printable

Part = TypeVar("Part")
LONGEST_LINE = 300
"""Characters of a line of evidence."""


def certify(
    name: str,
    env_kwargs: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    *,
    processes: Processes | None = None,
    on_check: Callable[[Check], None] = lambda check: None,
) -> Report:
    """Returns the certificate of an environment.

    Args:
        name: an id, "module:id", or "module:Class" of an environment that is not registered.
        env_kwargs: arguments of the environment.
        budget: the limits.
        processes: processes for replays, such as those of certificates before. They hold the
            environments' modules and data. By default new ones.
        on_check: called before each check.

    Raises:
        ConfigError: if there is no such environment, or it declares a finding that no check can
            have or that may not be declared.
    """
    with contextlib.nullcontext(processes) if processes else Processes() as workers:
        return _certify(Subject(name, env_kwargs, budget or Budget(), workers), on_check)


def _certify(subject: Subject, on_check: Callable[[Check], None]) -> Report:
    name = subject.name
    _check_name(subject)
    found: dict[str, Result] = {}
    _run(BY_ID[STARTUP], subject, found, on_check)
    if found[STARTUP].status == "pass":
        check_declared(name, subject.declares)
    for each in CHECKS:
        _run(each, subject, found, on_check)
    results = tuple(found[each.id] for each in CHECKS)
    if found[STARTUP].status != "pass":
        return Report(name, results)
    scores = _unless_error(scores_of, subject, {})
    exploit = _unless_error(exploit_of, subject, None)
    tasks = _unless_error(digest_of, subject, "")
    cut_short, out_of_time = subject.cut_short, subject.out_of_time
    return Report(name, results, scores, exploit, tasks, cut_short, out_of_time)


def _unless_error(read: Callable[[Subject], Part], subject: Subject, default: Part) -> Part:
    """Returns a part of the record, or a default if it raises: checks report the error."""
    try:
        return read(subject)
    except Exception:
        return default


def _check_name(subject: Subject) -> None:
    """Raises the error of a wrong name or argument. Any other is a finding of the first check."""
    try:
        subject.make()
    except CallTimeout:
        return
    except AgentGymError:
        raise
    except Exception:
        return


def check_declared(name: str, declares: Mapping[str, str]) -> None:
    """Checks the findings that an author declares.

    Raises:
        ConfigError: for the id of no check, a check whose findings may not be declared, or an
            empty reason.
    """
    for id, reason in declares.items():
        if id not in BY_ID:
            raise ConfigError(
                f"{name} declares {id!r}, which is no check.{did_you_mean(id, BY_ID)} "
                f"Known: {', '.join(BY_ID)}."
            )
        if not BY_ID[id].declarable:
            raise ConfigError(f"{name} declares {id!r}, whose findings must be mended.")
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(f"{name} declares {id!r} without a reason, got {reason!r:.80}.")


def _run(
    check: Check, subject: Subject, found: dict[str, Result], on_check: Callable[[Check], None]
) -> Result:
    """Runs a check after those that it needs. Each runs once."""
    if check.id in found:
        return found[check.id]
    for need in check.needs:
        status = _run(BY_ID[need], subject, found, on_check).status
        if status in ("fail", "skip", "error"):
            found[check.id] = Result(check.id, "skip", reason=f"{need} does not pass")
            return found[check.id]
    on_check(check)
    begun = subject.budget.clock()
    try:
        findings = check.run(subject)
        result = result_of(check, findings, subject.declares.get(check.id, ""))
    except Unchecked as reason:
        result = Result(check.id, "skip", reason=str(reason))
    except Exception as error:  # an environment may raise anything, and the others go on
        text = printable(f"{type(error).__name__}: {error!s:.{LONGEST_LINE}}")
        result = Result(check.id, "error", (text,), remedy="Run the environment by hand.")
    seconds = subject.budget.clock() - begun
    found[check.id] = Result(
        result.id, result.status, result.evidence, result.reason, result.remedy, seconds
    )
    return found[check.id]


def result_of(check: Check, findings: Sequence[Finding], declared: str) -> Result:
    """Returns the result of a check: its worst finding, unless the author declares them."""
    if not findings:
        return Result(check.id, "pass")
    severities = {finding.severity for finding in findings}
    status: Status = "declared" if declared else "fail" if "fail" in severities else "warn"
    lines = tuple(printable(finding.evidence)[:LONGEST_LINE] for finding in findings)
    return Result(check.id, status, lines[:MOST_EVIDENCE], declared, check.remedy)


def scores_of(subject: Subject) -> dict[str, PlayerScore]:
    """Returns the means of each player."""
    return {
        player: PlayerScore(
            mean([episode.total for episode in played]),
            mean([episode.success for episode in played]),
            mean([len(episode.actions) for episode in played]),
            len(played),
        )
        for player, played in subject.record.items()
    }


def exploit_of(subject: Subject) -> dict[str, Any] | None:
    """Returns the plan without success that earns most, if a search has found one."""
    plans = [(s.task, s.failed) for s in subject.searches if s.failed and s.failed.actions]
    if not plans:
        return None
    task, way = max(plans, key=lambda plan: plan[1].total)
    return {"task": task, "return": round(way.total, 6), "actions": [*way.actions]}


def digest_of(subject: Subject) -> str:
    """Returns a digest of the first fingerprints of both splits."""
    return digest([[each.transcript for each in prints[:20]] for prints in subject.prints])
