"""`Judgements`: the verdicts of a judge on the episodes of evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from agentgym.cli.kept_episodes import kept_after_errors
from agentgym.data.reading import read_episodes
from agentgym.evaluation.agreement import Agreement
from agentgym.evaluation.report import Report, share_interval
from agentgym.judges import Judge, Verdict, make_judge
from agentgym.time_step import UNJUDGED
from agentgym.utils.serialization import to_json

Judges = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[JUDGE ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class Judgement:
    """The verdicts on the episodes of a report, in their order."""

    report: Report
    verdicts: list[Verdict]

    @property
    def agreement(self) -> Agreement:
        """The agreement of the judge with the environment, on the episodes with an outcome."""
        pairs = [
            (record.success, verdict.success)
            for record, verdict in zip(self.report.episodes, self.verdicts, strict=True)
            if record.failure != UNJUDGED
        ]
        return Agreement.of([outcome for outcome, _ in pairs], [verdict for _, verdict in pairs])


class Judgements:
    """The verdicts of a judge on finished evaluations.

    Args:
        sources: the judge, several are a jury (see `make_judge`). Empty: no judge.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, sources: Sequence[str]):
        self.judge: Judge | None = make_judge(*sources) if sources else None
        self._found: list[Judgement] = []
        self._file: Path | None = None

    @contextmanager
    def transcripts(self, save: Path | None) -> Iterator[Path | None]:
        """Yields the file for transcripts, a temporary one if only the judge needs them.

        It is kept after an error, whose note says how the evaluation goes on from it.
        """
        if save is not None or self.judge is None:
            self._file = save
            yield save
            return
        advice = "the same command with --save {} --resume goes on from them."
        with kept_after_errors(advice) as folder:
            self._file = folder / "episodes.jsonl"
            yield self._file

    def read(self, reports: Sequence[Report]) -> None:
        """Judges the episodes of reports, whose transcripts are in the file of `transcripts`."""
        played = [report for report in reports if report.episodes]
        if self.judge is None or self._file is None or not played:
            return
        episodes = {(e.env, e.agent, e.task, e.seed): e for e in read_episodes([self._file])}
        for report in played:
            mine = [
                episodes[report.env, report.agent, record.task, record.seed]
                for record in report.episodes
            ]
            self._found.append(Judgement(report, self.judge(mine)))

    def to_json(self, report: Report) -> dict[str, Any]:
        """Returns {"judge": verdicts and agreement} of a report, {} without a judge."""
        if (found := self._of(report)) is None or self.judge is None:
            return {}
        return {
            "judge": {
                "name": self.judge.name,
                "agreement": found.agreement.to_json(),
                "verdicts": to_json(found.verdicts),
            }
        }

    def _of(self, report: Report) -> Judgement | None:
        return next((each for each in self._found if each.report is report), None)

    def lines(self) -> list[str]:
        """Returns lines about the verdicts on each report."""
        name = "" if self.judge is None else self.judge.name
        return [line for found in self._found for line in _lines(found, name)]


def _lines(found: Judgement, judge: str) -> list[str]:
    report, agreement = found.report, found.agreement
    title = f"{report.agent} on {report.env.removeprefix('AgentGym/')}"
    unread = f", {agreement.unread} without a readable verdict" if agreement.unread else ""
    if not agreement.n:
        return [f"{title}, judged by {judge}: no readable verdict on {agreement.unread} episodes."]
    share = share_interval(agreement.judged, agreement.n)
    lines = [
        f"{title}, judged by {judge}: success {100 * share.mean:.1f} % "
        f"[{100 * (share.low or 0):.1f}, {100 * (share.high or 0):.1f}] of {agreement.n}{unread}.",
        f"{title}, agreement with the environment: {100 * (agreement.share or 0):.0f} %, kappa "
        f"{_rate(agreement.kappa)}. Solved by both {agreement.both}, by the judge only "
        f"{agreement.judge_only}, by the environment only {agreement.environment_only}, by "
        f"neither {agreement.neither}.",
    ]
    failed = [each for each in found.verdicts if each.success is False]
    if any(each.cause for each in failed):
        counts = Counter(each.cause or "unnamed" for each in failed)
        causes = [
            f"{name} {100 * count / len(failed):.0f} %" for name, count in counts.most_common()
        ]
        lines.append(f"{title}, causes of failure by the judge: {', '.join(causes)}.")
    return lines


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
