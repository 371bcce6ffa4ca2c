"""What the trainer solves: behaviour cloning, then RL, in every environment with an expert.

The model is a decoder of 0.2 million parameters with random weights (`solve.yaml`). In a game it
plays one seat against the default opponents. The rule is the same for every id:

1. **Behaviour cloning** of the expert on training tasks, from at most `demonstrations` episodes and
   about `demonstrated_turns` turns, at least 20 episodes. It ends when the loss on a tenth of them,
   which is not fitted, has not fallen for five epochs, and keeps the best epoch. It is done once
   for each of `CONTEXTS`. The cloned policy with the highest mean return on 100 training tasks is
   kept, the first one of several that are equal.
2. **Selection**, on training tasks alone: each of `CANDIDATES` trains the cloned policy for a
   fifth of `env_steps`. The candidate with the highest mean return in the second half of its
   iterations is selected, the first one of several that are equal.
3. **RL**: the selected candidate trains the cloned policy for `env_steps`, with another seed.
4. **Keeping**: the last policy of RL is kept if its mean return on the 100 training tasks of
   cloning, played greedily, is higher than that of the cloned policy. Else the cloned one is kept.

An iteration has 16 to 64 episodes: `env_steps / iterations` turns, if their length is the mean of
those of the random agent and the expert. The random agent, the cloned policy, the trained policy
and the expert play the same held-out tasks, the policies greedily. The gain of RL is the mean
difference of the kept to the cloned policy, episode by episode. The score is the reward between
those of the random agent (0) and the expert (1). The 95 % confidence intervals are over tasks, with
one seed of training.

Each stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. The design budget is an
hour per ten ids on two cores.

The fourth step was added after the results without it (`results/solve_last_policy.json`), in which
RL ends below cloning in three of twelve environments, and before those with it. Policies with a
critic also took full steps then when all episodes had the same return (see `lr_by_reliability`).

The first rule (`results/solve_300_demonstrations.json`) had 300 demonstrations, a quarter of the
environment steps, smaller learning rates, more optimiser steps per iteration, and the last three
turns in every prompt. Cloning reached what this model can reach, and RL gained nothing. Steps 1 to
3 were written after probes of training tasks in TicTacToe, and before any other environment.

    python benchmarks/solve.py [--ids Ferry-v0 ...] [--jobs 2]
    python benchmarks/solve.py --shuffled    # a fair sample, as far as there is time
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from imitation import cloning
from learning import as_flags, launch
from result_files import kept, settings_of, versions, write
from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.evaluation.report import Report, mean_interval
from agentgym.evaluation.runner import evaluate
from agentgym.table import TABLE
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.run.sweep import training_return
from agentgym.utils.serialization import from_json

HERE = Path(__file__).parent
CONFIG = HERE / "solve.yaml"
# A new critic would be noise to a policy that has learned from demonstrations.
WARM = {"critic_warmup": 3}
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    # Token-level credit from a critic.
    "poad": ("poad", {"lr": 7e-4, **WARM}),
    # Small steps, for policies that are near the expert.
    "poad, small steps": ("poad", {"lr": 2e-4, **WARM}),
    # Comparison of episodes and of recurring states, without a critic.
    "gigpo": ("gigpo", {"lr": 7e-4}),
}
"""Recipe and settings of each candidate, by name."""
CONTEXTS = ("current", "actions", "window")
"""Contexts of the prompt: the page, the page and all earlier actions, the last three turns."""
SELECTION_SEED = 100


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ()
    """Environment ids (empty: all with an expert)."""
    shuffled: bool = False
    """Measure the environments in a random order, which is always the same: what is done when the
    benchmark is ended is a fair sample of all."""
    demonstrations: int = 30
    """Maximum number of demonstrations."""
    demonstrated_turns: int = 1500
    """Approximate maximum number of demonstrated turns."""
    env_steps: int = 30_000
    """Environment steps of RL. The selection takes a fifth per candidate."""
    iterations: int = 100
    """Approximate number of iterations of RL, fewer with long episodes."""
    episodes: int = 200
    """Maximum number of held-out tasks."""
    evaluated_turns: int = 4000
    """Approximate maximum number of turns of an evaluation. At least 50 tasks are played."""
    jobs: int = 1
    """Environments measured in parallel."""
    runs: Path = Path("runs/solve")
    """Folder of the runs."""
    out: Path = HERE / "results" / "solve.json"
    """Results."""


@dataclass(frozen=True)
class Place:
    """An environment of the benchmark.

    Attributes:
        name: its id.
        settings: the settings of the benchmark.
        chosen: the settings of its runs beyond `solve.yaml`.
    """

    name: str
    settings: Settings
    chosen: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, settings: Settings) -> Place:
        """Returns an environment with the settings that depend on the length of its episodes.

        Raises:
            NoExpertError: if it has no expert.
        """
        chosen = cloning(name, settings.demonstrations, settings.demonstrated_turns)
        reports = [evaluate(name, who, tasks=20, split="train") for who in ("random", "expert")]
        turns = sum(report.aggregate()["turns"].mean for report in reports) / 2
        episodes = round(settings.env_steps / settings.iterations / turns / 8) * 8
        held_out = max(50, round(settings.evaluated_turns / turns))
        chosen |= {
            "env_id": name,
            "episodes_per_iteration": min(64, max(16, episodes)),
            "eval_episodes": min(settings.episodes, held_out),
        }
        return cls(name, settings, chosen)

    def folder(self, run: str) -> Path:
        """Returns the folder of a run."""
        return self.settings.runs / self.name / run.replace(", ", "-").replace(" ", "-")

    def training_reward(self, run: str) -> float:
        """Returns the mean reward of the policy of a run on 100 training tasks, played greedily."""
        agent = load_agent(str(self.folder(run)), temperature=0.0)
        report = evaluate(self.name, agent, tasks=100, split="train")
        return report.aggregate()["reward"].mean

    def clone(self) -> tuple[str, list[str]]:
        """Trains the policies that RL can start from. Returns the best context, and the command."""
        flags = {**self.chosen, "iterations": 0, "eval_episodes": 0}
        commands, returns = {}, {}
        for context in CONTEXTS:
            run = f"cloned {context}"
            commands[context] = self._train("poad", run, {**flags, "context": context})
            returns[context] = self.training_reward(run)
        best = max(CONTEXTS, key=lambda each: returns[each])
        return best, commands[best]

    def reinforce(self, context: str, candidate: str, run: str, **settings: Any) -> list[str]:
        """Trains the cloned policy by RL. Returns the command."""
        recipe, own = CANDIDATES[candidate]
        start = self.folder(f"cloned {context}") / "policy"
        flags = {**self.chosen, "bc_demonstrations": 0, "model": start, "context": context}
        return self._train(recipe, run, {**flags, **own, **settings})

    def _train(self, recipe: str, run: str, settings: Mapping[str, Any]) -> list[str]:
        flags, folder = as_flags(settings), self.folder(run)
        launch(recipe, CONFIG, folder, flags)
        shown = ["agentgym", "train", recipe, "--config", "benchmarks/solve.yaml", "--run-dir"]
        return [*shown, str(folder), *flags]

    def select(self, context: str) -> dict[str, float]:
        """Trains all candidates for a part of the steps. Returns their training returns by name."""
        steps = self.settings.env_steps // 5
        found = {}
        for candidate in CANDIDATES:
            run = f"select {candidate}"
            short = {"env_steps": steps, "seed": SELECTION_SEED, "eval_episodes": 0}
            self.reinforce(context, candidate, run, **short)
            found[candidate] = training_return(self.folder(run))
        return found


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the results of an environment, with the commands that reproduce them."""
    begun = time.perf_counter()
    place = Place.of(name, settings)
    context, cloned = place.clone()
    returns = place.select(context)
    candidate = max(returns, key=lambda each: returns[each])
    trained = place.reinforce(context, candidate, "trained", env_steps=settings.env_steps)
    reports = {
        report.agent: report
        for report in (
            from_json(Report, each)
            for each in json.loads((place.folder("trained") / "report.json").read_text())
        )
    }
    agents = ("random", "start", CANDIDATES[candidate][0], "expert")
    runs = {"cloned": f"cloned {context}", "trained": "trained"}
    on_training = {each: place.training_reward(run) for each, run in runs.items()}
    kept = max(on_training, key=lambda each: on_training[each])  # of equal ones the cloned policy
    return {
        "context": context,
        "selected": candidate,
        "training_returns": {each: round(value, 4) for each, value in returns.items()},
        "episodes": len(reports["random"].episodes),
        "training_tasks": {each: round(value, 4) for each, value in on_training.items()},
        "kept": kept,
        **summary(*(reports[agent] for agent in agents), kept=kept),
        "commands": [shlex.join(cloned), shlex.join(trained)],
        "seconds": round(time.perf_counter() - begun, 1),
    }


def summary(
    random: Report, cloned: Report, trained: Report, expert: Report, *, kept: str = "trained"
) -> dict[str, Any]:
    """Returns mean rewards and success rates with their intervals, the gain of RL and the scores.

    The kinds of failure of the kept policy come with their shares of all episodes.

    Args:
        random: the episodes of the random agent.
        cloned: those of the cloned policy.
        trained: those of the last policy of RL.
        expert: those of the expert.
        kept: the policy whose gain, score and failures are returned, "cloned" or "trained".
    """
    named = {"random": random, "cloned": cloned, "trained": trained, "expert": expert}
    found: dict[str, Any] = {}
    for name, report in named.items():
        means = report.aggregate()
        found[name] = {key: _interval(means[key]) for key in ("reward", "success")}
    episodes = named[kept].episodes
    kinds = Counter(episode.failure for episode in episodes if episode.failure)
    found["failures"] = {k: round(n / len(episodes), 4) for k, n in kinds.most_common()}
    pairs = zip(cloned.episodes, episodes, strict=True)
    gains = [after.reward - before.reward for before, after in pairs]
    found["gain"] = _interval(mean_interval(gains))
    agents = ("random", "cloned", kept, "expert")
    low, before, reached, high = (found[name]["reward"][0] for name in agents)
    if high > low:
        found["scores"] = [round((x - low) / (high - low), 4) for x in (before, reached)]
    return found


def _interval(estimate: Any) -> list[float]:
    low, high = (estimate.mean if x is None else x for x in (estimate.low, estimate.high))
    return [round(x, 4) for x in (estimate.mean, low, high)]


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    known = kept(settings.out)
    names = list(settings.ids) or [entry.name for entry in TABLE if not entry.files]
    if settings.shuffled:
        random.Random(0).shuffle(names)
    apart = ("ids", "jobs", "runs", "shuffled")
    about = {k: v for k, v in settings_of(settings).items() if k not in apart}
    with ThreadPoolExecutor(settings.jobs) as pool:
        begun = {pool.submit(measure, name, settings): name for name in names if name not in known}
        for done in as_completed(begun):
            name = begun[done]
            try:
                known[name] = done.result()
            except (AgentGymError, subprocess.CalledProcessError) as error:
                print(f"{name}: {error}", flush=True)
                continue
            found = {entry.name: known[entry.name] for entry in TABLE if entry.name in known}
            results = {"versions": versions("torch"), "settings": about, "environments": found}
            write(settings.out, results)
    table = Table(title="Held-out tasks: reward")
    for column in ("environment", "random", "cloned", "trained", "expert", "gain", "selected"):
        table.add_column(column)
    for name, found in known.items():
        rewards = (found[who]["reward"][0] for who in ("random", "cloned", "trained", "expert"))
        gain = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found["gain"])
        table.add_row(name, *(f"{x:.2f}" for x in rewards), gain, found["selected"])
    Console(width=120).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
