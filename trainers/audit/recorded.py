"""The recorded trajectories of a run, and whether they can be audited."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError
from agentgym.utils.json_lines import whole_lines

REMEDY = "Train with --save-every 1 --keep N, so that the last N checkpoints are kept."


@dataclass(frozen=True)
class Recorded:
    """The trajectories of an iteration and the policy that played them.

    Attributes:
        iteration: number of the iteration.
        policy: folder of the checkpoint before it.
        trajectories: lines of `trajectories.jsonl`.
        config: settings of the run.
        max_turns: turn limit of the iteration. None: that of the environment.
    """

    iteration: int
    policy: Path
    trajectories: list[dict[str, Any]]
    config: dict[str, Any]
    max_turns: int | None = None

    def first(self, count: int) -> Recorded:
        """Returns the first trajectories alone."""
        return replace(self, trajectories=self.trajectories[:count])


def read_run(run: Path, iteration: int | None = None, episodes: int = 24) -> Recorded:
    """Returns the trajectories of an iteration whose policy is kept.

    Args:
        run: folder of a training run.
        iteration: number of the iteration. None: the last one that can be audited.
        episodes: maximum number of trajectories.

    Raises:
        ConfigError: if the run has no trajectories or no policy that played them, or trained in a
            way that cannot be replayed. The message names the remedy.
    """
    config, lines = _config(run), _lines(run)
    _check_config(run, config)
    known = sorted({line["iteration"] for line in lines})
    kept = [number for number in known if policy_before(run, number).is_dir()]
    if iteration is not None and iteration not in kept:
        raise ConfigError(
            f"Iteration {iteration} of {run} cannot be audited: its trajectories are those of the "
            f"iterations {known}, and the policies before {kept} are kept. {REMEDY}"
        )
    if not kept:
        raise ConfigError(
            f"No policy that played recorded trajectories of {run} (iterations {known}) is kept. "
            f"{REMEDY}"
        )
    number = kept[-1] if iteration is None else iteration
    chosen = [line for line in lines if line["iteration"] == number and line["turns"]]
    _check_trajectories(run, chosen)
    stages = config.get("horizons") or (None,)
    stage = min((number - 1) // (config.get("horizon_every") or 1), len(stages) - 1)
    return Recorded(number, policy_before(run, number), chosen[:episodes], config, stages[stage])


def policy_before(run: Path, iteration: int) -> Path:
    """Returns the folder of the policy that played an iteration."""
    return run / "checkpoints" / f"{iteration - 1:06d}" / "policy"


def _config(run: Path) -> dict[str, Any]:
    path = run / "config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"Expected the folder of a training run with its settings, got {str(run)!r}: "
            f"{path.name} is missing or damaged."
        ) from error


def _lines(run: Path) -> list[dict[str, Any]]:
    path = run / "trajectories.jsonl"
    try:
        lines = [json.loads(line) for line in whole_lines(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is missing or damaged. Train with --transcripts above 0, which records "
            "trajectories."
        ) from error
    if not lines:
        raise ConfigError(f"{path} is empty. Train with --transcripts above 0.")
    return lines


def _check_config(run: Path, config: dict[str, Any]) -> None:
    """Raises a ConfigError for settings under which episodes cannot be replayed."""
    several = {
        "max_staleness": "episodes of older weights (--max-staleness)",
        "cross_policy": "episodes of other weights (--cross-policy)",
        "mix": "several environments (--mix): audit a run in one of them",
        "novelty_bonus": "rewards that depend on other episodes (--novelty-bonus)",
        "count_bonus": "rewards that depend on other episodes (--count-bonus)",
    }
    for name, reason in several.items():
        if config.get(name):
            raise ConfigError(f"{run} cannot be audited: it has {reason}.")
    if config.get("horizons") and not config.get("horizon_every"):
        raise ConfigError(
            f"{run} cannot be audited: each task has a turn limit of its own, which is not "
            "recorded. Train with --horizon-every above 0."
        )
    if config.get("opponents", "scripted") != "scripted":
        raise ConfigError(
            f"{run} cannot be audited: its opponents are policies ({config['opponents']!r}). "
            "Train with --opponents scripted."
        )


def _check_trajectories(run: Path, lines: list[dict[str, Any]]) -> None:
    thoughts = sum(any(turn.get("thought") for turn in line["turns"]) for line in lines)
    if thoughts:
        raise ConfigError(
            f"{run} cannot be audited: {thoughts} of its episodes have thoughts, which the record "
            "keeps apart from the actions. Train a policy without thoughts."
        )
    seats = sorted({line["seat"] for line in lines if line.get("seat")})
    if len(seats) > 1:
        raise ConfigError(
            f"{run} cannot be audited: its trajectories are those of several seats "
            f"({', '.join(seats)}) of a game. Train one seat against scripted opponents."
        )
    if not all(turn.get("advantages") for line in lines for turn in line["turns"]):
        raise ConfigError(
            f"{run} cannot be audited: recipe {lines[0].get('recipe', '')!r} assigns no credit to "
            "turns. Audit a run of a policy-gradient recipe."
        )
