"""`SUITES`: named sets of ids, with the summary of the benchmark after which they are modelled.

The environments are those of this package. Their tasks and prompts differ from the original
benchmarks, so that results are comparable with each other, and not with published ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import fmean

from agentgym.errors import MissingExtraError
from agentgym.evaluation.report import Estimate, Report
from agentgym.registration.ids import TABLE
from agentgym.registration.making import full_id
from agentgym.registration.registry import find


@dataclass(frozen=True)
class Suite:
    """A named set of ids with a summary.

    Attributes:
        source: the benchmark.
        groups: names of ids by category.
        metrics: the estimates of reports that the summary averages. Empty: no summary.
        skills: by sub-skill, how much the environments of `groups` need it, in their order.
    """

    source: str
    groups: Mapping[str, Sequence[str]]
    metrics: Sequence[str] = ("progress", "success")
    skills: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """The ids, in order."""
        return [full_id(name) for names in self.groups.values() for name in names]


SUITES: dict[str, Suite] = {
    "core": Suite(
        "all environments without an extra",
        {"core": [entry.name for entry in TABLE if entry.extra is None]},
        (),
    ),
    "balrog": Suite(
        "BALROG, arXiv 2411.13543, without Crafter and NetHack",
        {
            "grid worlds": ["BabyAI-Text-v0", "BabaIsAI-v0"],
            "text games": [
                "TextWorld-TreasureHunter-v0",
                "TextWorld-Cooking-v0",
                "TextWorld-CoinCollector-v0",
            ],
        },
        ("progress",),
    ),
    "agentboard": Suite(
        "AgentBoard, arXiv 2401.13178, without WebArena, Jericho and Barman",
        {
            "embodied": ["Household-v0", "ScienceWorld-v0", "BabyAI-Text-v0"],
            "games": ["Blocksworld-v0", "Gripper-v0", "Tyreworld-v0"],
            "web": ["WebShop-v0"],
            "tools": ["Weather-v0", "Movie-v0", "Academia-v0", "Sheet-v0", "Todo-v0"],
        },
        # Embodied, games, web and tools. The ratings from 0 to 3 are our own.
        skills={
            "memory": (1, 2, 1, 1, 1, 2, 1, 2, 2, 2, 2, 1),
            "planning": (2, 2, 2, 3, 3, 3, 2, 2, 2, 2, 2, 2),
            "world modelling": (3, 3, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1),
            "reflection": (3, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1),
            "grounding": (3, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3),
            "navigation": (2, 2, 3, 0, 1, 0, 1, 0, 0, 0, 0, 0),
        },
    ),
    "agentbench": Suite(
        "AgentBench, arXiv 2308.03688, without its card game, lateral thinking and browsing",
        {
            "code": ["Shell-v0", "SQL-v0", "KG-QA-v0"],
            "games": ["Household-v0"],
            "web": ["WebShop-v0"],
        },
        ("success",),
    ),
}


def available(ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the ids that can be played here, and a note for each that needs a missing extra."""
    found, notes = [], []
    for id in ids:
        entry = find(id)
        if entry.extra and entry.package and find_spec(entry.package) is None:
            error = MissingExtraError("It", entry.extra, entry.package)
            notes.append(f"{id} is left out. {error}")
        else:
            found.append(id)
    return found, notes


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of independent estimates, each with the same weight."""
    mean = fmean(each.mean for each in estimates)
    bounds = [(each.low, each.high) for each in estimates]
    widths = [(high - low) / 2 for low, high in bounds if low is not None and high is not None]
    if len(widths) < len(bounds):
        return Estimate(mean, None, None)
    half = math.sqrt(sum(width**2 for width in widths)) / len(widths)
    return Estimate(mean, mean - half, mean + half)


def summary(suite: Suite, reports: Sequence[Report]) -> list[str]:
    """Returns a line per agent, split and metric: the mean over environments, and by category.

    Reports of other environments are left out. Interrupted ones count with their episodes.
    """
    lines = []
    for split, agent in dict.fromkeys((report.split, report.agent) for report in reports):
        found = {
            report.env: report.aggregate()
            for report in reports
            if (report.split, report.agent) == (split, agent) and report.episodes
        }
        for metric in suite.metrics:
            groups = {
                group: [found[id][metric] for id in map(full_id, names) if id in found]
                for group, names in suite.groups.items()
            }
            training = " (training tasks)" if split == "train" else ""
            if line := _means(groups):
                lines.append(f"{agent}{training}: {metric} {line}")
            if metric == "progress" and (line := _by_skill(suite, found)):
                lines.append(f"{agent}{training}: progress by sub-skill: {line}")
    return lines


def _by_skill(suite: Suite, found: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Returns the mean progress for each sub-skill, weighed by the need for it.

    Source: the sub-skill analysis of AgentBoard (arXiv 2401.13178).
    """
    parts = []
    for skill, needs in suite.skills.items():
        weights = {id: need for id, need in zip(suite.ids, needs, strict=True) if id in found}
        if total := sum(weights.values()):
            mean = sum(found[id]["progress"].mean * need for id, need in weights.items()) / total
            parts.append(f"{skill} {100 * mean:.1f}")
    return ", ".join(parts)


def _means(groups: Mapping[str, Sequence[Estimate]]) -> str:
    """Returns the mean of all estimates in percent, then those of the groups, "" without any."""
    everything = [each for estimates in groups.values() for each in estimates]
    if not everything:
        return ""
    whole = mean_of(everything)
    text = f"{100 * whole.mean:.1f}"
    if whole.high is not None:
        text += f" ± {100 * (whole.high - whole.mean):.1f}"
    parts = [f"{name} {100 * mean_of(each).mean:.1f}" for name, each in groups.items() if each]
    return f"{text} %, mean of {len(everything)} environments ({', '.join(parts)})"
