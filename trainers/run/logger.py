"""The logs of a run: metrics.jsonl, TensorBoard and other trackers, transcripts, console, curve.

metrics.jsonl has one line per iteration and one per evaluation: "iteration", "env_steps",
"episodes", then scalars named "rollout/return", "losses/kl", "credit/...", "charts/...",
"eval/reward", "time/...". Only the "time/" scalars differ when a run is repeated on a CPU.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate import Accelerator
from rich.console import Console

from agentgym.evaluation.runs import METRICS, read_metrics
from agentgym.trainers.credit.compare import side_by_side
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.run.diagnostics import Watch
from agentgym.trainers.run.phases import Phases, duration, memory_gib
from agentgym.trainers.settings.running import RunConfig
from agentgym.trainers.system.checkpoint import writing
from agentgym.trainers.system.json_lines import truncate_jsonl

if TYPE_CHECKING:
    from agentgym.trainers.data.run_state import RunState
    from agentgym.trainers.policy.alternatives import Alternatives

COUNTERS = ("iteration", "env_steps", "episodes")
LONGEST_PROMPT = 20_000
"""Longest prompt that is logged, in characters. The middle of a longer one is left out."""
LARGEST_BIN = 1e19
TRANSCRIPTS = "trajectories.jsonl"


class Output(Console):
    """Standard output without highlights. A run goes on if its reader leaves, as `| head` does."""

    def __init__(self, quiet: bool = False):
        super().__init__(quiet=quiet, highlight=False)

    def on_broken_pipe(self) -> None:
        """Drops all further output. rich would exit with 1."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class RunLog:
    """Writes the logs of a run on the main process.

    Args:
        folder: the run's folder.
        state: the counters of the run. Log lines of later iterations and evaluations are dropped,
            and so are later events of TensorBoard.
        run: the budget, the trackers and whether to print nothing while training.
        accelerator: the accelerator. Its main process writes, its trackers receive the scalars.
        settings: the settings of the run, for trackers.
        watch: gives warnings. None: those of a run with default settings.

    Attributes:
        phases: shows what the run does within an iteration.
    """

    def __init__(
        self,
        folder: Path,
        state: RunState,
        run: RunConfig,
        accelerator: Accelerator,
        *,
        settings: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
    ):
        self.folder = folder
        self.active = active = accelerator.is_main_process
        self.console = Output(run.quiet or not active)
        self._board: Any = None
        self._accelerator = accelerator
        self._watch = Watch() if watch is None else watch
        shown = active and not run.quiet and self.console.is_terminal
        self.phases = Phases(self.console, run, state, bar=shown)
        if not active:
            return
        start, evaluated = state.iteration, state.evaluated
        for name in (METRICS, TRANSCRIPTS):
            truncate_jsonl(
                folder / name,
                lambda line: line["iteration"] <= (evaluated if "eval/reward" in line else start),
            )
        if "tensorboard" in run.log_with:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(
                str(folder / "tensorboard"), purge_step=global_step(state) + 1
            )
        if accelerator.log_with:
            accelerator.project_configuration.set_directories(str(folder))
            accelerator.init_trackers("agentgym", config=dict(settings or {}))

    def say(self, text: str) -> None:
        """Prints a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def row(
        self,
        progress: RunState,
        metrics: Mapping[str, float],
        alarms: Mapping[str, str] | None = None,
    ) -> None:
        """Logs the scalars of an iteration, or of an evaluation after it.

        Args:
            progress: the counters of the run.
            metrics: the scalars.
            alarms: warnings of an evaluation of self-play, by their causes.
        """
        if not self.active:
            return
        counters = {name: getattr(progress, name) for name in COUNTERS}
        line = {**counters, **{name: _number(value) for name, value in metrics.items()}}
        _append(self.folder / METRICS, [line])
        step, counted = global_step(progress), ("iteration", "env_steps")
        scalars = {**metrics, **{f"charts/{name}": float(counters[name]) for name in counted}}
        if self._board is not None:
            with writing(self.folder / "tensorboard"):
                for name, value in scalars.items():
                    self._board.add_scalar(name, value, step)
                self._board.flush()
        if self._accelerator.trackers:
            self._accelerator.log(scalars, step=step)
        note = " ".join(
            f"{label} {metrics[name]:.{digits}f}"
            for label, name, digits, always in _SHOWN
            if name in metrics and (always or metrics[name])
        )
        self.phases.advance(progress)
        if "time/update" in metrics:
            note += f" {self._times(metrics)}"
        self.say(f"iteration {progress.iteration:4d}  {note}")
        for warning in self._watch.warnings(metrics, alarms):
            self.say(f"warning: {warning}")

    def _times(self, metrics: Mapping[str, float]) -> str:
        """Returns the seconds of an iteration, the memory and the time left in words."""
        seconds = metrics.get("time/collect", 0.0) + metrics["time/update"]
        found = [f"{seconds:.1f} s/iteration", f"{memory_gib():.1f} GiB"]
        if (left := self.phases.seconds_left) is not None:
            found.append(f"{duration(left)} left")
        return ", ".join(found)

    def histogram(self, name: str, values: Any, step: int) -> None:
        """Logs a distribution at a global step. Values that are not finite are left out."""
        if self._board is None:
            return
        values = np.asarray(values, float)
        values = values[np.isfinite(values)]
        if values.size:
            # TensorBoard's default bins end at 1e20.
            values = values.clip(-LARGEST_BIN, LARGEST_BIN)
            with writing(self.folder / "tensorboard"):
                self._board.add_histogram(name, values, step)

    def transcripts(
        self,
        batch: Batch,
        credit: Credit,
        values: Values | None,
        progress: RunState,
        count: int,
        decode: Callable[[Sequence[int]], str],
        alternatives: Alternatives | None = None,
    ) -> None:
        """Writes the first trajectories of an iteration, with the credit of every token.

        The advantages of other estimators on the same batch go to TensorBoard, under `credit/`.

        Args:
            batch: the trajectories.
            credit: the recipe's credit.
            values: the critic's values, if there is a critic.
            progress: the counters after the iteration.
            count: the number of trajectories to write.
            decode: from token ids to text.
            alternatives: log-probabilities of the admissible actions, by turn of the batch.
        """
        if not self.active:
            return
        others, step = side_by_side(batch, values), global_step(progress)
        self.histogram("credit/rewards", batch.rewards, step)
        for name, advantages in others.items():
            self.histogram(f"credit/estimators/{name}", advantages, step)
        lines = []
        for n, trajectory in enumerate(batch.trajectories[:count]):
            numbers = range(*batch.turn_offsets[n : n + 2])
            lines.append(
                {
                    "iteration": progress.iteration,
                    "env": trajectory.env_id,
                    "task": trajectory.task,
                    "seed": trajectory.seed,
                    "reward": trajectory.episode_return,
                    "success": trajectory.success,
                    "terminated": trajectory.terminated,
                    "truncated": trajectory.truncated,
                    "at_limit": trajectory.stats.at_limit,
                    **_seat(trajectory),
                    "turns": [
                        _turn(batch, m, credit, values, others, decode)
                        | {
                            "prompt": _prompt(trajectory, m - numbers[0], decode),
                            "alternatives": (alternatives or {}).get(m),
                        }
                        for m in numbers
                    ],
                    "last_observation": trajectory.final_observation,
                }
            )
        _append(self.folder / TRANSCRIPTS, lines)

    def close(self) -> None:
        """Ends the progress bar and closes the files."""
        self.phases.close()
        if self._board is not None:
            self._board.close()
        if self._accelerator.trackers:
            self._accelerator.end_training()
            self._accelerator.trackers = []


def global_step(progress: RunState) -> int:
    """Returns the step of trackers: environment steps, or iterations if none have been played.

    Recipes are compared by environment steps. A recipe that learns from a data set plays none.
    """
    return progress.env_steps if progress.episodes else progress.iteration


# Label, metric, digits, and whether it is shown when it is 0.
_SHOWN = (
    ("return", "rollout/return", 3, True),
    ("success", "rollout/success", 2, True),
    ("valid", "rollout/valid", 2, True),
    ("turns", "rollout/turns", 1, True),
    ("observations cut", "rollout/observations_cut", 0, False),
    ("timeouts", "rollout/timeouts", 0, False),
    ("context overflows", "rollout/context_overflows", 0, False),
    ("kl", "losses/kl", 4, True),
    ("entropy", "losses/entropy", 2, True),
    ("explained variance", "losses/explained_variance", 2, True),
    ("tokens/s", "time/tokens_per_second", 0, True),
    ("held-out tasks: reward", "eval/reward", 3, True),
    ("success", "eval/success", 3, True),
    ("turns", "eval/turns", 1, True),
    ("NashConv", "eval/nashconv", 3, True),
    ("exploitability", "eval/exploitability", 3, True),
)


def critic_curve(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Returns environment steps and the critic's explained variance, none without a critic.

    Args:
        rows: the lines of `read_metrics`.
    """
    names = ("losses/explained_variance", "credit/explained_variance")  # a critic, continuations
    return [(r["env_steps"], r[name]) for r in rows for name in names if name in r]


def draw_curve(folder: Path, title: str) -> None:
    """Draws `curve.png`: the return in training and of evaluations over environment steps.

    Panels below show the explained variance of the critic, and NashConv or the lower bound of
    exploitability, if there are any.
    """
    # The object interface: pyplot would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = read_metrics(folder)
    exact = [(r["env_steps"], r["eval/nashconv"]) for r in rows if "eval/nashconv" in r]
    label = "NashConv"
    if not exact:
        name, label = "eval/exploitability", "exploitability\n(lower bound)"
        exact = [(r["env_steps"], r[name]) for r in rows if name in r]
    curves = {"explained\nvariance": critic_curve(rows), label: exact}
    curves = {label: points for label, points in curves.items() if points}
    figure = Figure(figsize=(7, 4.2 + 1.2 * len(curves)), layout="constrained")
    FigureCanvasAgg(figure)
    heights = [3, *[1] * len(curves)]
    axes, *below = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[
        :, 0
    ]
    for panel, (label, points) in zip(below, curves.items(), strict=True):
        panel.axhline(0, color="0.7", linewidth=1)
        panel.plot(*zip(*points, strict=True), color="C1", marker="." if points is exact else "")
        panel.set(ylabel=label, ylim=(0, None) if points is exact else (-1, 1))
        panel.grid(alpha=0.3)
    train = [(r["env_steps"], r["rollout/return"]) for r in rows if "rollout/return" in r]
    if train:
        axes.plot(*zip(*train, strict=True), color="0.7", label="training tasks, sampled")
    held = [
        (r["env_steps"], r["eval/reward"], r["eval/reward_low"], r["eval/reward_high"])
        for r in rows
        if "eval/reward" in r
    ]
    if held:
        steps, means, low, high = (np.array(column) for column in zip(*held, strict=True))
        axes.errorbar(
            steps, means, yerr=[means - low, high - means], marker="o", capsize=3, color="C0",
            label="held-out tasks (95 % confidence)",
        )  # fmt: skip
    axes.set(ylabel="return", title=title)
    (axes, *below)[-1].set_xlabel("environment steps")
    if train or held:
        axes.legend()
    axes.grid(alpha=0.3)
    with writing(folder / "curve.png"):
        figure.savefig(folder / "curve.png", dpi=120)


def _seat(trajectory: Trajectory) -> dict[str, str]:
    """Returns the seat of a game, its role and the other players, {} for an environment."""
    if not trajectory.agent:
        return {}
    return {"seat": trajectory.agent, "role": trajectory.role, "opponent": trajectory.opponent}


def _turn(
    batch: Batch,
    m: int,
    credit: Credit,
    values: Values | None,
    others: Mapping[str, FloatArray],
    decode: Callable[[Sequence[int]], str],
) -> dict[str, Any]:
    """Turn m of a batch as JSON values."""
    turn, span = batch.turns[m], slice(*batch.token_offsets[m : m + 2])
    segments = batch.trajectories[batch.turn_trajectory[m]].segments
    tokens = segments[turn.segment].tokens[turn.start : turn.stop]
    return {
        "observation": turn.observation,
        "action": turn.action,
        "reward": turn.reward,
        "reward_terms": turn.reward_terms,
        "valid": turn.valid,
        "progress": turn.progress,
        "tokens": [decode([int(token)]) for token in tokens],
        "free": batch.free[span].tolist(),
        "thought": None if turn.thought is None else turn.thought.tolist(),
        "logprobs": _rounded(turn.logprobs),
        "advantages": _rounded(credit.advantages[span]),
        "estimators": {name: _rounded(a[span]) for name, a in others.items()},
        "value": None if values is None else _rounded(values.turns[m : m + 1])[0],
    }


def _prompt(
    trajectory: Trajectory, number: int, decode: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Returns the prompt of a turn as JSON values; of a longer segment only what was added to it.

    "continues": whether the text follows the previous turn's action in the same segment.
    """
    turn, start, continues = trajectory.turns[number], 0, False
    if number and (before := trajectory.turns[number - 1]).segment == turn.segment:
        start, continues = before.stop, True
    text = decode(trajectory.segments[turn.segment].tokens[start : turn.start].tolist())
    if len(text) > LONGEST_PROMPT:
        half = LONGEST_PROMPT // 2
        left_out = len(text) - 2 * half
        text = f"{text[:half]}\n[{left_out:,} characters]\n{text[-half:]}"
    return {"text": text, "continues": continues}


def _append(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(text)


def _rounded(values: Any) -> list[float]:
    return [round(float(x), 5) for x in values]


def _number(value: float) -> float | None:
    value = float(value)
    return value if np.isfinite(value) else None
