"""`Report`: the certificate of an environment, as JSON and in the format of OpenEnv."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agentgym.version import __version__

Status = Literal["pass", "warn", "fail", "declared", "skip", "error"]
Verdict = Literal["pass", "warn", "fail"]
POLICY = "agentgym-2"
"""Version of the checks and their limits. A certificate of another version is made again."""
MOST_EVIDENCE = 20
"""Lines of evidence of a check."""
LEVELS = {"static": 1, "runtime": 2, "semantic": 3, "statistical": 4, "hub": 4}


@dataclass(frozen=True)
class Result:
    """The result of a check.

    Attributes:
        id: name of the check.
        status: "declared" for findings that the author declares, "skip" if the check does not
            apply or needs another one that fails, "error" if the check itself fails.
        evidence: the facts of each finding.
        reason: the declaration, or the reason of a skip.
        remedy: the change that removes the findings.
        seconds: duration. Equal certificates may differ in it.
    """

    id: str
    status: Status
    evidence: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Returns the result without its duration. Empty fields are left out."""
        values = {"id": self.id, "status": self.status, "evidence": [*self.evidence]}
        values |= {"reason": self.reason, "remedy": self.remedy}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class PlayerScore:
    """Means of a player over the tasks of a certificate."""

    total: float
    success: float
    turns: float
    tasks: int


@dataclass(frozen=True)
class Report:
    """The certificate of an environment.

    Attributes:
        env: its id or class.
        results: the result of each check.
        players: the scores of expert and canaries by name.
        exploit: the best plan without success: task, return and actions, if any.
        digest: fingerprint of the sampled tasks. It changes with the tasks or the rules.
        cut_short: the parts that the budget cuts short, with their size.
        out_of_time: those that the clock cut short: another run may cut them elsewhere.
    """

    env: str
    results: tuple[Result, ...]
    players: dict[str, PlayerScore] = field(default_factory=dict)
    exploit: dict[str, Any] | None = None
    digest: str = ""
    cut_short: dict[str, str] = field(default_factory=dict)
    out_of_time: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The worst status. Declared findings, skips and parts cut short are no fault."""
        found = {result.status for result in self.results}
        return "fail" if found & {"fail", "error"} else "warn" if "warn" in found else "pass"

    @property
    def findings(self) -> list[Result]:
        """The results that are neither passed nor skipped."""
        return [result for result in self.results if result.status not in ("pass", "skip")]

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as JSON values, without times."""
        return {
            "env": self.env,
            "policy": POLICY,
            "verdict": self.verdict,
            "results": [result.to_json() for result in self.results],
            "players": {name: asdict(score) for name, score in self.players.items()},
            "exploit": self.exploit,
            "digest": self.digest,
            "cut_short": self.cut_short,
            "out_of_time": self.out_of_time,
        }

    def to_openenv(self) -> dict[str, Any]:
        """Returns the certificate in the format of OpenEnv (`ValidationReportV2`, RFC 008)."""
        levels = {LEVELS[result.id.partition(".")[0]] for result in self.results}
        return {
            "report_schema_version": "2",
            "target": self.env,
            "source_digest": self.digest or __version__,
            "signature": "openenv.yaml",
            "manifest": None,
            "policy_version": POLICY,
            "lane": "local",
            "levels_run": sorted(levels),
            "results": [_openenv_result(result) for result in self.results],
            "verdict": "warn" if self._declares and self.verdict == "pass" else self.verdict,
        }

    @property
    def _declares(self) -> bool:
        return any(result.status == "declared" for result in self.results)


def _openenv_result(result: Result) -> dict[str, Any]:
    """Returns a result as a `CheckResult` of OpenEnv, in which a policy decides on severities."""
    status = {"warn": "fail", "declared": "fail"}.get(result.status, result.status)
    reason = {"declared": "declared: ", "skip": "skipped: "}.get(result.status, "")
    lines = [*result.evidence, *([reason + result.reason] if result.reason else [])]
    return {
        "check_id": result.id,
        "status": status,
        "measured": {"severity": result.status} if status == "fail" else {},
        "evidence": lines[:MOST_EVIDENCE],
        "remediation": result.remedy or None,
        "duration_s": result.seconds,
    }
