"""The audit of a run: a table per estimator, with the ceiling of the measure itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError
from agentgym.trainers.audit.continuations import Auditor, Played
from agentgym.trainers.audit.given import given_credit
from agentgym.trainers.audit.measures import (
    CriticError,
    Exact,
    Floats,
    Quality,
    Steps,
    advantages,
    critic_error,
    quality,
    steps,
)
from agentgym.trainers.audit.recorded import Recorded, read_run

RUN, CEILING = "run", "exact, again"
"""Names of the credit of the run, and of the exact advantages from other continuations."""
LOW_CEILING = 0.8
"""Correlation of the ceiling below which there are too few continuations."""
MANY_SIGN_ERRORS = 0.4


@dataclass(frozen=True)
class Audit:
    """The audit of an iteration.

    Attributes:
        iteration: number of the iteration.
        qualities: quality of each estimator by name: first the credit of the run, last the ceiling.
        steps: how much turns contribute.
        critic: error of the critic, if there is one.
        episodes: task and seed of each trajectory, and the exact numbers of its turns.
        played: the continuations.
        warnings: reasons to doubt the credit, or the audit.
    """

    iteration: int
    qualities: dict[str, Quality]
    steps: Steps
    critic: CriticError | None
    episodes: list[dict[str, Any]]
    played: Played
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        """Returns the audit as JSON values. Measures without a value are None."""
        return _finite({
            "iteration": self.iteration,
            "continuations": self.played.returns.shape[1],
            "env_steps": self.played.env_steps,
            "largest_logprob_difference": self.played.drift if self.played.checked else None,
            "estimators": {name: asdict(each) for name, each in self.qualities.items()},
            "steps": asdict(self.steps),
            "critic": None if self.critic is None else asdict(self.critic),
            "episodes": self.episodes,
            "warnings": self.warnings,
        })  # fmt: skip


def audit_run(
    run: Path,
    *,
    continuations: int = 32,
    episodes: int = 24,
    iteration: int | None = None,
    credit: Sequence[str] = (),
) -> Audit:
    """Audits the credit of an iteration of a run.

    Args:
        run: folder of the run.
        continuations: continuations per recorded state, at least 4.
        episodes: maximum number of trajectories.
        iteration: number of the iteration. None: the last one that can be audited.
        credit: further credit to judge, of other trainers (see `given_credit`).

    Raises:
        ConfigError: if the run cannot be audited, or a credit does not fit its turns. The message
            names the remedy.
        Exception: another error, or Ctrl-C. Its attribute `audit` is the audit of the trajectories
            that were played before it, if there are any.
    """
    recorded = read_run(run, iteration, episodes)
    given = dict(given_credit(source, recorded.trajectories) for source in credit)
    auditor = Auditor(recorded, continuations)
    try:
        auditor.play()
    except ConfigError:  # what was played before is not what was recorded either
        raise
    except (Exception, KeyboardInterrupt) as error:
        if auditor.finished:
            error.audit = _judge_finished(auditor, given)  # type: ignore[union-attr]
        raise
    return _judge_finished(auditor, given)


def _judge_finished(auditor: Auditor, given: Mapping[str, Floats]) -> Audit:
    played = auditor.played
    some = {name: each[: len(played.returns)] for name, each in given.items()}
    return judge(auditor.recorded.first(auditor.finished), played, auditor.gamma, some)


def judge(
    recorded: Recorded, played: Played, gamma: float, given: Mapping[str, Floats] | None = None
) -> Audit:
    """Returns the audit of trajectories whose continuations were played.

    Args:
        recorded: the trajectories.
        played: the continuations.
        gamma: discount per turn.
        given: credit of each turn [M] that is judged, too, by name.
    """
    turns = [turn for line in recorded.trajectories for turn in line["turns"]]
    lengths = [len(line["turns"]) for line in recorded.trajectories]
    episodes = np.repeat(np.arange(len(lengths)), lengths)
    success = np.repeat([bool(line["success"]) for line in recorded.trajectories], lengths)
    rewards = np.array([turn["reward"] for turn in turns], float)

    def exact_of(returns: Floats) -> Exact:
        return Exact(*advantages(rewards, returns, episodes, gamma), episodes, success)

    exact = exact_of(played.returns)
    judged = credits_of(turns) | dict(given or {})
    qualities = {name: quality(each, exact) for name, each in judged.items()}
    half = played.returns.shape[1] // 2
    once, again = (exact_of(each) for each in (played.returns[:, :half], played.returns[:, half:]))
    qualities[CEILING] = quality(again.advantages, once)
    values = played.returns.mean(axis=1)
    predicted = [turn.get("value") for turn in turns]
    critic = None
    if all(each is not None for each in predicted):
        critic = critic_error(np.array(predicted, float), values)
    contributions = steps(exact)
    rows = [
        {"task": line["task"], "seed": line["seed"], "turns": each}
        for line, each in zip(recorded.trajectories, _per_turn(exact, values), strict=True)
    ]
    warnings = warnings_of(qualities, contributions)
    return Audit(recorded.iteration, qualities, contributions, critic, rows, played, warnings)


def credits_of(turns: list[dict[str, Any]]) -> dict[str, Floats]:
    """Returns the credit of each turn, that of its first token, by estimator."""
    found = {RUN: np.array([turn["advantages"][0] for turn in turns], float)}
    names = turns[0]["estimators"]
    for name in names:
        found[name] = np.array([turn["estimators"][name][0] for turn in turns], float)
    return found


def warnings_of(qualities: dict[str, Quality], contributions: Steps) -> list[str]:
    """Returns the reasons to doubt the credit of the run, or the audit."""
    found, own = [], qualities[RUN]
    if not qualities[CEILING].correlation >= LOW_CEILING:
        found.append(
            "The exact advantages are noisy: raise --continuations until the correlation of "
            f"{CEILING!r} is at least {LOW_CEILING}."
        )
    if own.sign_errors >= MANY_SIGN_ERRORS:
        found.append(
            f"{own.sign_errors:.0%} of the turns that matter have credit of the wrong sign."
        )
    if own.moot_credit > contributions.moot:
        found.append(
            f"{own.moot_credit:.0%} of the credit is on turns that are not known to matter, which "
            f"are {contributions.moot:.0%} of all turns."
        )
    return found


def _per_turn(exact: Exact, values: NDArray[np.float64]) -> list[list[dict[str, float]]]:
    """Returns the exact numbers of each turn, by trajectory."""
    decisive = {turn for _, turn in exact.decisive()}
    rows = [
        {
            "exact": round(float(exact.advantages[number]), 5),
            "error": round(float(exact.errors[number]), 5),
            "value": round(float(values[number]), 5),
            "moot": not exact.clear[number],
            "decisive": number in decisive,
        }
        for number in range(len(values))
    ]
    return [rows[span] for span in exact.spans()]


def _finite(value: Any) -> Any:
    """Returns JSON values with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
