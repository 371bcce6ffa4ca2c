"""Speed of programs on the gateway, beside the trainer's own loop.

Both play the same episodes with the same model: 64 at once, with some turns each, whose replies
have a fixed maximum of tokens. The program is a function whose requests go over a connection that
stays open, as those of client libraries do. 64 threads send them at once. Both loops alternate in
one process, after one run that does not count.
Times are CPU seconds of the process: of the model, the server and the programs.
The tokens of each pair of runs are compared: a program in lockstep must sample the same ones.

Prints a table and writes JSON. Finished rows are kept. The second command needs the weights of
SmolLM2-135M-Instruct (see `benchmarks/learning/pretrained.py`).

    python benchmarks/speed/program_speed.py
    python benchmarks/speed/program_speed.py --model smollm2 --turns 1 --tokens 8 --out FILE
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, get_args

import torch
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.evaluation.report import mean_interval
from agentgym.trainers.gateway.executor import HarnessExecutor
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.programs import FunctionProgram
from agentgym.trainers.gateway.sessions import Batching
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import LocalExecutor
from benchmarks.learning.pretrained import smollm2
from benchmarks.shared.chat_program import play
from benchmarks.shared.result_files import RESULTS, measured, rounded, settings_of, versions


@dataclass
class Settings:
    """Settings of the benchmark."""

    sessions: int = 64
    """Episodes, all at the same time."""
    turns: int = 10
    """Turns of an episode."""
    tokens: int = 16
    """Maximum number of tokens of a reply."""
    model: str = "tiny"
    """Size of a new model, or "smollm2" for the pre-trained one."""
    repetitions: int = 8
    """Pairs of runs."""
    out: Path = RESULTS / "program_speed.json"
    """File of the results."""


def load(model: str) -> Policy:
    """Returns the model of the settings."""
    if model == "smollm2":
        return Policy.load(smollm2(Path("runs/models/smollm2")))
    return tiny_policy("NumberLine-v0", size=model)


class Runs:
    """Both loops, with the same model and episodes.

    Args:
        settings: the settings.
        policy: the model.
        batching: which requests of programs are generated together.
    """

    def __init__(self, settings: Settings, policy: Policy, batching: Batching):
        self._sampling = Sampling(max_new_tokens=settings.tokens)
        self._pool = EnvPool(
            lambda: NumberLine(size=10**6, max_turns=settings.turns), settings.sessions
        )
        self._specs = [
            EpisodeSpec(f"train/{n}", n, (0, 0, n), bootstraps=False)
            for n in range(settings.sessions)
        ]
        context = make_context(policy, ContextSettings())
        self.trainer = LocalExecutor(policy, self._pool, context, self._sampling, False)
        gateway = Gateway(policy, self._sampling, batching=batching)
        self.program = HarnessExecutor(gateway, FunctionProgram(play), self._pool)

    def speed(self, executor: LocalExecutor | HarnessExecutor) -> tuple[float, list[list[int]]]:
        """Returns the sampled tokens per CPU second of all episodes, and their tokens."""
        begun = time.process_time()
        played = [each for [each] in executor.start(self._specs)()]
        seconds = time.process_time() - begun
        count = sum(turn.stop - turn.start for each in played for turn in each.turns)
        return count / seconds, [each.segments[0].tokens.tolist() for each in played]

    def close(self) -> None:
        """Ends the gateway and the environments."""
        self.program.close()
        self._pool.close()


def measure(settings: Settings, policy: Policy, batching: Batching) -> dict[str, Any]:
    """Returns the speeds of both loops in alternation, and the mean of their ratios."""
    runs = Runs(settings, policy, batching)
    speeds: dict[str, list[float]] = {"trainer": [], "program": []}
    equal = True
    for number in range(settings.repetitions + 1):
        own, expected = runs.speed(runs.trainer)
        other, found = runs.speed(runs.program)
        equal &= found == expected
        if number:
            speeds["trainer"].append(round(own, 1))
            speeds["program"].append(round(other, 1))
    runs.close()
    ratios = [b / a for a, b in zip(*speeds.values(), strict=True)]
    return {**speeds, "ratio": rounded(mean_interval(ratios)), "equal_tokens": equal}


def main(settings: Settings) -> None:
    """Measures the missing rows, writes the file after each one, and prints a table."""
    torch.set_num_threads(1)
    policy = load(settings.model)
    about = {
        "settings": settings_of(settings),
        "versions": versions("torch"),
        "parameters": sum(weight.numel() for weight in policy.parameters()),
    }
    measures = {name: partial(measure, settings, policy, name) for name in get_args(Batching)[:2]}
    table = Table("batching", "trainer", "program", "ratio", "equal tokens")
    for name, row in measured(settings.out, about, "batchings", measures):
        shown = (f"{median(row[loop]):,.0f} tokens/s" for loop in ("trainer", "program"))
        ratio = "{:.2f} [{:.2f}, {:.2f}]".format(*row["ratio"])
        table.add_row(name, *shown, ratio, str(row["equal_tokens"]))
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
