"""Own documents: a small decoder learns to search, read and answer in the docstrings of NumPy.

The documents and questions are those of the tutorial: about 400 docstrings, and the first parameter
of each function. One question in five is a test question, about a page that no training question
needs. A decoder of 0.2 million parameters with random weights clones the expert, which searches,
opens the page and answers, and GiGPO goes on from the clone. Policies play every test question
greedily. A constant answer, the most frequent one of the training questions, is what can be known
without reading.

The settings followed a probe of two seeds with half as many epochs of cloning and a learning rate
of 7e-4, which raised the success of one clone and destroyed the other.

Prints a table and writes JSON. Finished seeds are kept.

    python benchmarks/learning/own_documents.py [--seeds 3]
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import tyro
from rich.console import Console
from rich.markdown import Markdown

from agentgym.evaluation.paired import paired_interval
from agentgym.evaluation.report import Report
from agentgym.evaluation.runner import evaluate
from agentgym.registration.making import make_env
from agentgym.trainers import train
from benchmarks.figures import documents_figures
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

ENV = "SearchQA-v0"
TURNS = 4
"""Turn limit: the expert needs three."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    epochs: int = 10
    """Epochs over the expert's episodes of all training questions."""
    iterations: int = 8
    """Iterations of GiGPO."""
    episodes: int = 64
    """Episodes of an iteration."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "own_documents.json"
    """Results."""


def write_documents(folder: Path) -> dict[str, Any]:
    """Writes docstrings and questions to a folder. Returns the arguments of the environment."""
    pages, questions = [], []
    for name in sorted(dir(numpy)):
        text = inspect.getdoc(getattr(numpy, name)) or ""
        found = re.search(r"^Parameters\n-+\n(\w+)", text, re.MULTILINE)
        if found and not name.startswith("_"):
            pages.append({"title": name, "text": text})
            question = f"What is the first parameter of {name}?"
            row = {"id": name, "question": question, "answer": found[1], "document": name}
            questions.append(row)
    for file, rows in (("corpus", pages), ("questions", questions)):
        lines = (f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{file}.jsonl").write_text("".join(lines), "utf-8")
    names = {name: str(folder / f"{name}.jsonl") for name in ("corpus", "questions")}
    return {**names, "max_turns": TURNS}


def constant_answer(files: dict[str, Any]) -> dict[str, Any]:
    """Returns the most frequent answer in training, and its share of the test questions."""
    tasks = make_env(ENV, **files).get_wrapper_attr("tasks")
    rows = map(json.loads, Path(files["questions"]).read_text("utf-8").splitlines())
    answers = {f"question/{row['id']}": row["answer"] for row in rows}
    [(answer, _)] = Counter(answers[task] for task in tasks.train).most_common(1)
    share = numpy.mean([answers[task] == answer for task in tasks.test])
    sizes = {"train": len(tasks.train), "test": len(tasks.test)}
    return {"answer": answer, "success": round(float(share), 4), "questions": sizes}


def trained(files: dict[str, Any], folder: str, seed: int, **changes: Any) -> Report:
    """Trains a policy and returns its episodes in the test questions."""
    train(
        "gigpo", env_id=ENV, env_kwargs=files, context="current", instructions=False,
        max_new_tokens=32, lr=2e-4, group_size=8, eval_episodes=0,
        seed=seed, threads=1, device="cpu", quiet=True, log_with=(), run_dir=folder, **changes,
    )  # fmt: skip
    return whole(evaluate(ENV, f"policy:{folder}", tasks=None, env_kwargs=files, seed=seed))


def measure(seed: int, settings: Settings, files: dict[str, Any], questions: int) -> dict[str, Any]:
    """Returns the results of the clone, of all training questions, and of the policy after RL."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        cloning = {"bc_demonstrations": questions, "bc_epochs": settings.epochs}
        cloning |= {"bc_lr": 3e-3, "bc_batch_tokens": 4096}
        clone = trained(files, f"{folder}/clone", seed, model="nano", iterations=0, **cloning)
        more = {"iterations": settings.iterations, "episodes_per_iteration": settings.episodes}
        policy = f"{folder}/clone/policy"
        after = trained(files, f"{folder}/rl", seed, model=policy, bc_demonstrations=0, **more)
    found: dict[str, Any] = {"cpu_seconds": round(time.process_time() - begun, 1)}
    for name, report in (("clone", clone), ("RL", after)):
        solved = [episode.task for episode in report.episodes if episode.success]
        found[name] = {"success": rounded(report.aggregate()["success"]), "solved": solved}
    return found


def difference(runs: list[dict[str, Any]], questions: int) -> list[float]:
    """Returns RL minus clone, paired by question and seed, with questions as clusters."""
    solved = {task for run in runs for name in ("clone", "RL") for task in run[name]["solved"]}
    changes = [
        [float(task in run["RL"]["solved"]) - (task in run["clone"]["solved"]) for run in runs]
        for task in sorted(solved)
    ]
    never = [[0.0] * len(runs)] * (questions - len(solved))
    return rounded(paired_interval(changes + never, flips=len(runs) == 1))


def main(settings: Settings) -> None:
    """Measures the missing seeds, prints a table and writes the results."""
    config = settings_of(settings, "seeds")
    with tempfile.TemporaryDirectory() as folder:
        files = write_documents(Path(folder))
        constant = constant_answer(files)
        runs: Any = kept(settings.out, config, "runs") or []
        for seed in range(len(runs), settings.seeds):
            runs.append(measure(seed, settings, files, constant["questions"]["train"]))
            content = {
                "config": config,
                "versions": versions("torch", "numpy"),
                "constant": constant,
                "runs": runs,
                "difference": difference(runs, constant["questions"]["test"]),
            }
            write(settings.out, content)
    Console(width=100).print(Markdown(documents_figures.own_documents(settings.out)))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
