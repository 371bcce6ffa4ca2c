"""Every training command of README and docs is placed: a short run learns, or a fact prevents it.

A short run is the command itself with smaller numbers. Its policy is clearly better than a random
agent on held-out tasks. In self-play of a zero-sum game, it is nearer to an equilibrium than at the
start.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym.evaluation import evaluate
from agentgym.evaluation.report import Report
from agentgym.trainers.cli.train import main, read_config
from agentgym.trainers.run.logger import read_metrics
from agentgym.utils.serialization import from_json

from .test_tutorials import FENCE, ROOT, commands

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRAINING = re.compile(r"(agentgym (train|sweep)|accelerate launch|python -m agentgym\.trainers) .*")


@dataclass(frozen=True)
class Short:
    """A command that learns, by its first words, and the flags that shorten it.

    `equilibrium`: learning is a lower NashConv than at the start. `explains`: the critic explains
    more than half of the variance, too.
    """

    start: str
    flags: str
    equilibrium: bool = False
    explains: bool = False


LEARNS = (
    Short("poad --config benchmarks/first_run.yaml", "--iterations 1", explains=True),
    Short("poad turn --config benchmarks/numberline.yaml", "--iterations 4"),
    Short("poad turn rloo --env-id KG-QA-v0", "--iterations 4"),
    Short("poad turn --env-id KG-QA-v0", "--iterations 4"),
    Short(
        "poad --env-id vault:Vault-v0",
        "--iterations 1 --episodes-per-iteration 16 --bc-demonstrations 40 --bc-batch-tokens 4096",
    ),
    Short("rae --env-id KuhnPoker-v0 --env-kwargs hands=1", "--iterations 8", equilibrium=True),
    Short("poad --env-id nim:Mine/Nim-v0", "--iterations 1"),
    Short("poad --env-id TicTacToe-v0", "--iterations 2"),
    Short("exit --env-id NumberLine-v0", "--iterations 5"),
    Short("poad --env-id TowerOfHanoi-v0", "--iterations 1 --episodes-per-iteration 16"),
    Short("bc --env-id TowerOfHanoi-v0", "--iterations 20"),
    Short("agent_q --config benchmarks/small.yaml", "--iterations 1"),
    Short(
        "rae --config benchmarks/kuhn.yaml --opponents league=0.5",
        "--iterations 12",
        equilibrium=True,
    ),
    Short(
        "rae --config benchmarks/kuhn.yaml --opponents mirror past:5=auto",
        "--iterations 12",
        equilibrium=True,
    ),
)

FACTS: dict[str, Callable[[list[str]], bool]] = {
    "trains a world model alone": lambda words: (
        "--world-iterations" in words
        and dict(pairwise(words))["--world-iterations"] == dict(pairwise(words)).get("--iterations")
    ),
    "prints the help": lambda words: words[-1] == "--help",
    "starts several processes": lambda words: words[0] == "accelerate",
    "reads a file of the reader": lambda words: "--data" in words,
    "runs a program of the reader": lambda words: "--harness" in words,
    "goes on with a run": lambda words: "--resume" in words,
    "asks a served model": lambda words: any("@http" in word for word in words),
    "trains a pre-trained model": lambda words: "/" in dict(pairwise(words)).get("--model", ""),
}
"""Reasons why a command has no short run here, each with a test of its words."""

ELSEWHERE = {
    "poad --config benchmarks/demo.yaml": "make demo, whose results are in README",
    "poad --env-id desk:Desk-v0": "tests/test_agent_pages.py follows the skill",
    "poad grpo --env-id desk:Desk-v0": "a sweep of the command above it",
    "poad --env-id stock:Stock-v0": "tests/test_agent_pages.py follows the skill",
    'poad --env-id NumberLine-v0 --wrap Compose:n=2,ids=["TowerOfHanoi-v0"]': (
        "benchmarks/learning/compose.py, whose results are in own_environment.md"
    ),
    "poad --env-id GeneratedWorlds-v0": (
        "benchmarks/learning/worlds.py, whose results are in generated_worlds.md"
    ),
    "exit --env-id TicTacToe-v0": "benchmarks/games/multiagent.py, with more iterations",
    "rae --config benchmarks/kuhn.yaml --opponents mirror=0.5": "docs/multi_agent_results.md",
    "rae --config benchmarks/kuhn.yaml --opponents psro:nash": "docs/multi_agent_results.md",
    "rae --config benchmarks/kuhn.yaml --opponents mirror=1": "docs/multi_agent_results.md",
    "turn --config benchmarks/kuhn.yaml": "docs/multi_agent_results.md",
}
"""Commands that are run elsewhere, by their first words."""


def training_commands() -> dict[str, Path]:
    """Returns the training commands of all pages, without comments, each with its first page."""
    found: dict[str, Path] = {}
    for page in PAGES:
        for line in commands(page):
            line = " ".join(shlex.split(line, comments=True))
            if TRAINING.match(line):
                found.setdefault(line, page)
    return found


def settings(line: str) -> str:
    """Returns a command from its recipes on."""
    return re.sub(r"^agentgym (train|sweep) ", "", line)


def places(line: str) -> list[str]:
    """Returns where a command is placed: each reason or short run that holds for it."""
    words = line.split(" ")
    starts = [short.start for short in LEARNS] + list(ELSEWHERE)
    facts = [reason for reason, holds in FACTS.items() if holds(words)]
    return facts or [
        start
        for start in starts
        if settings(line).startswith(f"{start} ") or settings(line) == start
    ]


def test_every_training_command_is_placed():
    lines = training_commands()
    assert len(lines) > 50
    unplaced = [f"{page.name}: {line}" for line, page in lines.items() if not places(line)]
    assert unplaced == [], "place each in LEARNS, or in ELSEWHERE with a reason that is a fact"
    twice = [line for line in lines if len(places(line)) > 1 and places(line)[0] not in FACTS]
    assert twice == []
    used = {place for line in lines for place in places(line)}
    assert used >= {short.start for short in LEARNS} | set(ELSEWHERE) | set(FACTS)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("agentgym train poad --env-id Sokoban-v0", []),
        ("agentgym train poad --env-id Sokoban-v0 ...", []),
        (
            "agentgym train poad --env-id Sokoban-v0 --model my/model",
            ["trains a pre-trained model"],
        ),
        ("agentgym train poad --env-id Sokoban-v0 --model nano", []),
    ],
)
def test_a_new_command_has_no_place_without_a_reason(line: str, place: list[str]):
    assert places(line) == place


def one_run(line: str) -> list[str]:
    """Returns the recipe and the flags of the first run of `agentgym train` or `sweep`."""
    words = shlex.split(settings(line))
    for flag in ("--seeds", "--jobs", "--vary", "--draws", "--out", "--run-dir"):
        if flag in words:
            at = words.index(flag)
            stop = next((i for i in range(at + 1, len(words)) if words[i].startswith("--")), None)
            del words[at:stop]
    first = next(i for i, word in enumerate(words) if word.startswith("--"))
    return [words[0], *words[first:]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the settings of the repository, from which modules are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "benchmarks").mkdir()
    for file in (ROOT / "benchmarks").glob("*.yaml"):
        shutil.copy(file, tmp_path / "benchmarks")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("own_ids")
@pytest.mark.parametrize("short", LEARNS, ids=lambda short: short.start)
def test_a_training_command_learns(short: Short, folder: Path):
    [(line, page)] = [(a, b) for a, b in training_commands().items() if places(a) == [short.start]]
    for _, title, body in FENCE.findall(page.read_text("utf-8")):
        if title:
            (folder / title).write_text(body, "utf-8")
    recipe, *words = one_run(line)
    words += shlex.split(f"--run-dir run --eval-episodes 100 --threads 1 --quiet {short.flags}")
    assert main([recipe, *words]) == 0
    rows = read_metrics(folder / "run")
    if short.equilibrium:
        before, *_, after = [row["eval/nashconv"] for row in rows if "eval/nashconv" in row]
        assert after < 0.8 * before
        return
    if short.explains:
        assert [r[key] for r in rows if (key := "losses/explained_variance") in r][-1] > 0.5
    *_, report = json.loads((folder / "run" / "report.json").read_text("utf-8"))
    trained = from_json(Report, report).aggregate()["success"]
    config = read_config(recipe, words).environment
    random = evaluate(config.env_id, "random", tasks=100, env_kwargs=dict(config.env_kwargs))
    chance = random.aggregate()["success"]
    assert trained.low is not None and chance.high is not None
    assert trained.low > chance.high
