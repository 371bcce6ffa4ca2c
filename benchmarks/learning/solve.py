"""What the trainer solves: behaviour cloning, then RL, in every environment with an expert.

The model is a decoder of 0.2 million parameters with random weights (`solve.yaml`). In a game it
plays one seat against the default opponents. The rule is the same for every id:

1. **Behaviour cloning** of the expert on training tasks, from at most `demonstrations` episodes and
   about `demonstrated_turns` turns, at least 20 episodes. It ends when the loss on a tenth of them,
   which is not fitted, has not fallen for five epochs, and keeps the best epoch. It is done once
   for each of `CONTEXTS`. The cloned policy with the highest mean return on training tasks is
   kept, the first one of several that are equal.
2. **RL**: each of `CANDIDATES` trains the cloned policy for about `env_steps` environment steps.
   The trained policy is the one with the highest mean return on training tasks.
3. **Keeping**: it is kept if its mean return on training tasks is higher than that of the cloned
   policy. Else the cloned one is kept.

Mean returns on training tasks are those of at most 100 tasks. A policy plays greedily or at the
temperature of training, whichever returns more on training tasks, and greedily if both are equal.
The explained variance of returns is that of POAD's critic, the median of the first and of the last
quarter of its iterations.
The random agent, the cloned policy, the trained policy and the expert play the same held-out tasks.
The gain of RL is the mean difference of the kept to the cloned policy, episode by episode. The
score is the reward between those of the random agent (0) and the expert (1). The 95 % confidence
intervals are over tasks, with one seed of training.

Each stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. The design budget is an
hour per ten ids on two cores.

Earlier rules gave the results in `results/solve_*.json` (see `docs/solved.md`). This one was
written before all results with it. Its settings of RL are those of `families.yaml`, with one epoch
of eight steps in place of two of four, and a learning rate that falls to 0.

    python benchmarks/learning/solve.py [--ids Ferry-v0 ...] [--jobs 2]
    python benchmarks/learning/solve.py --shuffled --longest 12    # short environments
"""

from __future__ import annotations

import random
import shlex
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents.basic.expert import NoExpertError
from agentgym.errors import AgentGymError, MissingExtraError
from agentgym.evaluation.report import Report, mean_interval
from agentgym.evaluation.runner import evaluate
from agentgym.registration.ids import TABLE
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.run.logger import critic_curve, read_metrics
from benchmarks.learning.imitation import cloning, mean_turns
from benchmarks.learning.learning import as_flags, launch
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import (
    BENCHMARKS,
    RESULTS,
    kept,
    outer_quarters,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

CONFIG = BENCHMARKS / "solve.yaml"
CANDIDATES: dict[str, dict[str, Any]] = {
    # Token-level credit from a critic, which is fitted to two iterations before the policy moves.
    "poad": {
        "critic_backbone": "separate",
        "critic_window": 1,
        "critic_lr": 2e-3,
        "critic_warmup": 2,
    },
    # Comparison of episodes and of recurring states, without a critic.
    "gigpo": {},
}
"""Recipes that train the cloned policy, with their settings beyond `solve.yaml`."""
CONTEXTS = ("current", "actions", "window")
"""Contexts of the prompt: the page, the page and all earlier actions, the last three turns."""
TEMPERATURES = (0.0, 1.0)
"""Temperatures at which a policy may play: greedily, or as in training."""


class TooLongError(AgentGymError):
    """The episodes of an environment are longer than `longest`."""


PASSED_OVER = (MissingExtraError, NoExpertError, TooLongError)
"""Errors of environments that are not measured. The others are failures."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ()
    """Environment ids (empty: all with an expert)."""
    shuffled: bool = False
    """Measure the environments in a random order, which is always the same: what is done when the
    benchmark is ended is a fair sample of all."""
    longest: float | None = None
    """Measure only environments whose expert needs at most this many turns on average, which are
    faster (None: all)."""
    demonstrations: int = 30
    """Maximum number of demonstrations."""
    demonstrated_turns: int = 1500
    """Approximate maximum number of demonstrated turns."""
    env_steps: int = 10_000
    """Approximate number of environment steps of each candidate, if the episodes of a policy are as
    long as those of the random agent and the expert on average."""
    iterations: int = 40
    """Number of iterations of RL. There are fewer, at least 10, if 16 episodes are longer than an
    iteration's share of the steps."""
    episodes: int = 200
    """Maximum number of held-out tasks."""
    evaluated_turns: int = 3000
    """Approximate maximum number of turns of an evaluation. At least 30 tasks are played."""
    jobs: int = 1
    """Environments measured in parallel."""
    runs: Path = Path("runs/solve")
    """Folder of the runs."""
    out: Path = RESULTS / "solve.json"
    """Results."""


@dataclass(frozen=True)
class Place:
    """An environment of the benchmark.

    Attributes:
        name: its id.
        settings: the settings of the benchmark.
        chosen: the settings of its runs beyond `solve.yaml`.
        held_out: number of held-out tasks of the evaluation.
    """

    name: str
    settings: Settings
    chosen: Mapping[str, Any]
    held_out: int

    @classmethod
    def of(cls, name: str, settings: Settings) -> Place:
        """Returns an environment with the settings that depend on the length of its episodes.

        Raises:
            NoExpertError: if it has no expert.
        """
        chosen = cloning(name, settings.demonstrations, settings.demonstrated_turns)
        turns = (mean_turns(name, "random") + mean_turns(name, "expert")) / 2
        episodes = round(settings.env_steps / settings.iterations / turns / 8) * 8
        episodes = min(128, max(16, episodes))
        iterations = round(settings.env_steps / episodes / turns)
        held_out = max(30, round(settings.evaluated_turns / turns))
        chosen |= {
            "env_id": name,
            "episodes_per_iteration": episodes,
            "iterations": min(settings.iterations, max(10, iterations)),
        }
        return cls(name, settings, chosen, min(settings.episodes, held_out))

    def folder(self, run: str) -> Path:
        """Returns the folder of a run."""
        return self.settings.runs / self.name / run.replace(" ", "-")

    def play(self, run: str, temperature: float, split: str, tasks: int) -> Report:
        """Returns the episodes of the policy of a run."""
        agent = load_agent(str(self.folder(run)), temperature=temperature)
        return whole(evaluate(self.name, agent, tasks=tasks, split=split, num_envs=64))

    def decode(self, run: str) -> tuple[float, float]:
        """Returns the best temperature for the policy of a run, and its reward there.

        Both are found on training tasks.
        """
        tasks = min(100, self.held_out)
        rewards = {
            each: self.play(run, each, "train", tasks).aggregate()["reward"].mean
            for each in TEMPERATURES
        }
        best = max(rewards, key=lambda each: rewards[each])
        return best, rewards[best]

    def clone(self) -> tuple[str, list[str]]:
        """Trains the policies that RL can start from. Returns the best context, and the command."""
        flags = {**self.chosen, "iterations": 0}
        commands, returns = {}, {}
        for context in CONTEXTS:
            run = f"cloned {context}"
            commands[context] = self._train("poad", run, {**flags, "context": context})
            _, returns[context] = self.decode(run)
        best = max(CONTEXTS, key=lambda each: returns[each])
        return best, commands[best]

    def reinforce(self, context: str, recipe: str) -> list[str]:
        """Trains the cloned policy with a recipe, a run of its name. Returns the command."""
        start = self.folder(f"cloned {context}") / "policy"
        flags = {**self.chosen, "bc_demonstrations": 0, "model": start, "context": context}
        return self._train(recipe, recipe, flags | CANDIDATES[recipe])

    def _train(self, recipe: str, run: str, settings: Mapping[str, Any]) -> list[str]:
        """Trains a run unless it has finished. Returns its command, in the default folder."""
        flags, folder = as_flags(settings), self.folder(run)
        launch(recipe, CONFIG, folder, flags)
        shown = ["agentgym", "train", recipe, "--config", "benchmarks/solve.yaml", "--run-dir"]
        words = [*shown, str(folder), *flags]
        return [word.replace(str(self.settings.runs), str(Settings.runs)) for word in words]


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the results of an environment, with the commands that reproduce them.

    Raises:
        NoExpertError: if it has no expert.
        TooLongError: if its episodes are too long.
    """
    if settings.longest is not None and (turns := mean_turns(name, "expert")) > settings.longest:
        raise TooLongError(f"the expert needs {turns:.1f} turns, more than {settings.longest:g}.")
    begun = time.perf_counter()
    place = Place.of(name, settings)
    context, cloned = place.clone()
    training = {recipe: place.reinforce(context, recipe) for recipe in CANDIDATES}
    runs = {"cloned": f"cloned {context}", **{recipe: recipe for recipe in CANDIDATES}}
    decoded = {each: place.decode(run) for each, run in runs.items()}
    on_training = {each: reward for each, (_, reward) in decoded.items()}
    selected = max(CANDIDATES, key=lambda each: on_training[each])
    # Of equal ones the cloned policy is kept.
    kept = "trained" if on_training[selected] > on_training["cloned"] else "cloned"
    reports = {
        who: whole(evaluate(name, who, tasks=place.held_out, split="test"))
        for who in ("random", "expert")
    }
    for agent, each in (("cloned", "cloned"), ("trained", selected)):
        reports[agent] = place.play(runs[each], decoded[each][0], "test", place.held_out)
    rows = {recipe: read_metrics(place.folder(recipe)) for recipe in CANDIDATES}
    critic = [value for _, value in critic_curve(rows["poad"])]
    return {
        "context": context,
        "selected": selected,
        "env_steps": rows[selected][-1]["env_steps"],
        "episodes": place.held_out,
        "training_tasks": {each: round(value, 4) for each, value in on_training.items()},
        "temperatures": {each: temperature for each, (temperature, _) in decoded.items()},
        "kept": kept,
        **summary(**reports, kept=kept),
        "explained_variance": [round(median(part), 4) for part in outer_quarters(critic) if part],
        "commands": [shlex.join(cloned), shlex.join(training[selected])],
        "seconds": round(time.perf_counter() - begun, 1),
        "versions": versions("torch"),
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
        found[name] = {key: rounded(means[key]) for key in ("reward", "success")}
    episodes = named[kept].episodes
    kinds = Counter(episode.failure for episode in episodes if episode.failure)
    found["failures"] = {k: round(n / len(episodes), 4) for k, n in kinds.most_common()}
    pairs = zip(cloned.episodes, episodes, strict=True)
    gains = [after.reward - before.reward for before, after in pairs]
    found["gain"] = rounded(mean_interval(gains))
    agents = ("random", "cloned", kept, "expert")
    low, before, reached, high = (found[name]["reward"][0] for name in agents)
    if high > low:
        found["scores"] = [round((x - low) / (high - low), 4) for x in (before, reached)]
    return found


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    names = list(settings.ids) or [entry.name for entry in TABLE if not entry.files]
    if settings.shuffled:
        random.Random(0).shuffle(names)
    about = settings_of(settings, "ids", "jobs", "longest", "runs", "shuffled")
    known = kept(settings.out, about)
    failed: dict[str, BaseException] = {}
    jobs = {name: (name, settings) for name in names if name not in known}
    for name, row in finished(ThreadPoolExecutor(settings.jobs), measure, jobs, failed):
        known[name] = row
        found = {entry.name: known[entry.name] for entry in TABLE if entry.name in known}
        write(settings.out, {"settings": about, "environments": found})
    table = Table(title="Held-out tasks: reward")
    for column in ("environment", "random", "cloned", "trained", "expert", "gain", "selected"):
        table.add_column(column)
    for name, found in known.items():
        rewards = (found[who]["reward"][0] for who in ("random", "cloned", "trained", "expert"))
        gain = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found["gain"])
        table.add_row(name, *(f"{x:.2f}" for x in rewards), gain, found["selected"])
    Console(width=120).print(table)
    end(name for name, error in failed.items() if not isinstance(error, PASSED_OVER))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
