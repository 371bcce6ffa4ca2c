"""Every setting of its own that a recipe has changes a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import recipes, train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings import groups_of
from agentgym.trainers.settings.schema import settings_of

SHARED = "agentgym.trainers.settings"
"""The package of the settings that recipes share."""

BASE: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 4}, "context": "current",
    "instructions": False, "constrain": True, "iterations": 2, "episodes_per_iteration": 8,
    "group_size": 4, "num_envs": 16, "epochs": 1, "minibatches": 1, "lr": 3e-3,
    "eval_episodes": 0, "log_with": (), "transcripts": 0, "device": "cpu", "threads": 1,
    "quiet": True, "save_every": 100,
}  # fmt: skip
# Sizes of a recipe's own, so that a run takes a fraction of a second.
SMALL: dict[str, Any] = {
    "critic_steps": 11, "critic_batch": 16, "replayed": 8, "model_epochs": 1, "head_epochs": 2,
    "dataset_episodes": 8, "dataset_demonstrations": 4, "utterance_layers": (16, 16),
    "demonstrations": 4, "world_iterations": 1, "transitions": 8, "held_out": 1,
}  # fmt: skip
# Values for settings of which half, or one more, changes nothing in so short a run.
VALUES: dict[str, Any] = {
    "buffer_size": 2,
    "max_age": 1,
    "ramp": 2,
    "arpo_entropy.alpha": 1000.0,
    "aepo.alpha": 1000.0,
    "ilql.beta": 1000.0,
    "mc.beta": 1000.0,
    "digi_q.threshold": 10.0,
    "spear.replayed": 1,
    "arpo_replay.replay_probability": (0.9, 1.0),
    "spo.preference": "success",
    "dcpo.segments": 2,
    "grpo_roc.keep_share": 0.75,
    "grpo_roc.least": 4,
    "mt_grpo.turn_score": "valid",
    "agentprm.paired": 1,
    "lspo.encoder": f"{__name__}:lengths",
    "lspo.expand_every": 1,
    "magrpo.depth": 2,
    "optima.expansions": 1,
    "optima.threshold": 1000.0,
    "lspo.situations": 2,
    "filtered_bc.judge": "progress",
    "dpo.judge": "progress",
    "trpa.levels": f"{__name__}:by_turns",
    "inverse_prm.demonstrations": 1,
    "sweet_rl.information": "none",
    "exit.teacher": "search:best_first,budget=2",
    "exit.replayed": 2,
    "agent_q.exploration": 8.0,
    "agent_q.judge": f"{__name__}:length",
    "lookahead.least_probability": 1.0,
    "agent_r.revision": " ",
    "chunk.resampled": 2,
    "agent_rlvr.hint": f"{__name__}:nothing",
    "early_experience.reflection": "outcomes",
    "early_experience.world_iterations": 2,
    "distill.teacher_sees": "hint:left",
}
EVALUATED = {"eval_episodes": 8, "eval_temperature": 1.0, "lr": 0.0}
# Several good episodes of earlier iterations.
REPLAYED = {
    "env_kwargs": {"size": 6, "max_turns": 2}, "episodes_per_iteration": 16, "group_size": 2,
    "iterations": 4, "lr": 1e-3,
}  # fmt: skip
# A few steps, after which the policy still fails.
CLONED = {"bc_demonstrations": 8, "bc_epochs": 1, "bc_batch_tokens": 8192}
# Groups with failures that a success can revise.
REVISED = {
    "model": "nano", "env_kwargs": {"size": 6, "max_turns": 8}, "episodes_per_iteration": 32,
    "group_size": 8, "constrain": False, "bc_demonstrations": 32, "bc_epochs": 4, "bc_lr": 2e-3,
    "bc_batch_tokens": 8192, "max_new_tokens": 4,
}  # fmt: skip
# Many different actions and situations.
LATENT = REVISED | {"bc_epochs": 2, "lr": 3e-4, "episodes_per_iteration": 16}
ANSWERS = {"wrap": ("ExtractAction",), "constrain": False, "max_new_tokens": 4}
DILEMMA = {
    "env_id": "PrisonersDilemma-v0", "env_kwargs": {}, "train_tasks": 1, "opponents": "mirror",
}  # fmt: skip
SHORT = {"size": 3, "max_turns": 4}
TEAM = {
    "env_id": "Team-NumberLine-v0", "env_kwargs": {"env_kwargs": SHORT}, "opponents": "mirror",
}  # fmt: skip
SCORED = TEAM | {"env_kwargs": {"roles": "solver-evaluator-scorer", "env_kwargs": SHORT}}
TREES = {"update": "dpo", "threshold": 0.05}
# Settings that need another one.
COMPANIONS: dict[str, dict[str, Any]] = {
    **{f"spear.{name}": REPLAYED for name in ("buffer_size", "max_age", "replayed")},
    # Of the mask of top_p. Without listed actions, hardly an episode succeeds.
    "mask_every": {
        "iterations": 4,
        "constrain": False,
        "top_p": 0.5,
        "lr_by_reliability": False,
    },
    **{f"advantage_alignment.{name}": DILEMMA for name in ("beta", "average")},
    "dr_mas.by_agent": DILEMMA,
    "comas.task_coef": SCORED,
    **{f"optima.{name}": TREES for name in ("beta", "threshold", "expansions")},
    "magrpo.joint": DILEMMA | {"depth": 1, "group_size": 2},
    **{f"marft.{name}": TEAM for name in ("gamma_hop", "lambda_hop")},
    # Episodes of different lengths in a group.
    "grpo_roc.least": {"group_size": 16, "episodes_per_iteration": 64},
    "spear.tool_bonus": {"env_kwargs": {"size": 6, "max_turns": 8}, "episodes_per_iteration": 32},
    "exit.replayed": {"iterations": 3},
    "exit.visited": {
        "env_id": "TicTacToe-v0",
        "env_kwargs": {"board": "line"},
        "model": "nano",
        "opponents": "mirror",
        "teacher": "search:mcts,budget=2",
    },  # in games
    "chunk.lambda_turn": {"chunk_size": 1},  # several chunks in an episode
    "chunk.resampled": {"chunk_size": 1, "group_size": 8, "episodes_per_iteration": 32},
    "trpa.anisotropy": {"env_kwargs": {"size": 6, "max_turns": 8}, "group_size": 8},  # pairs
    **{
        f"agentprm.{name}": {"update": "dpo", "normalize_advantages": "none"}
        for name in ("beta", "paired")
    },
    "agentprm.update": {"normalize_advantages": "none"},
    **{f"agent_r.{name}": REVISED for name in ("wrong_turns", "revision")},
    **{f"lspo.{name}": LATENT for name in ("latents", "situations", "expand_every", "encoder")},
    "early_experience.reflection": ANSWERS,
    "early_experience.own_actions": {"constrain": False, "max_new_tokens": 4},  # many actions
    "agentprm.best_of": EVALUATED,  # acts in evaluations
    **{f"read.{name}": EVALUATED for name in ("attempts", "threshold")},
    "ilql.beta": EVALUATED,
    "mc.beta": EVALUATED,
    "agent_q.judge": {"alpha": 0.0},
    "arpo_replay.replay_probability": REPLAYED | {"train_tasks": 6},
}


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A policy that solves some of the tasks."""
    folder = tmp_path_factory.mktemp("start")
    few = {"model": "nano", "iterations": 0, **CLONED, "bc_lr": 1e-3}
    train("grpo", **BASE | few, run_dir=str(folder))
    return folder / "policy"


def own_settings(recipe: str) -> dict[str, Any]:
    """The settings that only this recipe has, by flat names, with their type hints."""
    kind = recipes.load(recipe).Config
    hints = get_type_hints(kind)
    for group, cls in groups_of(kind).items():
        del hints[group]
        if not cls.__module__.startswith(SHARED):
            hints |= get_type_hints(cls)
    return {name: hint for name, hint in hints.items() if name in settings_of(kind)}


def others(hint: Any, value: Any) -> Iterator[Any]:
    """Values of a type other than the given one. They may be out of bounds."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from (choice for choice in get_args(hint) if choice != value)
    elif isinstance(value, tuple):
        yield tuple(2 * item for item in value)
    elif isinstance(value, int):
        yield from (value // 2, value + 1)
    elif value is None:
        yield 0.5
    else:
        yield from (value / 2, 0.5)[not value :]


def legal(recipe: str, name: str, hint: Any, base: dict[str, Any]) -> Any:
    """Another value of a setting that the recipe accepts."""
    kind = recipes.load(recipe).Config
    for value in others(hint, kind.of(**base).values()[name]):
        try:
            kind.of(**base | {name: value})
        except ConfigError:
            continue
        return value
    raise AssertionError(f"{recipe}: no other legal value of {name}")


def reward(transition: Any) -> float:
    """Returns that differ between successes."""
    return transition.reward + 0.1 * (transition.action == "+")


def length(view: Any, action: str) -> float:
    """A critic that prefers long actions, and the first of equally long ones."""
    return len(action) + 0.5 * (action == "+")


def nothing(env: Any) -> str:
    """A hint that is none."""
    return "none"


def lengths(texts: list[str]) -> list[list[float]]:
    """Vectors of texts."""
    return [[float(len(text))] for text in texts]


def by_turns(trajectory: Any) -> int:
    """Levels by the length of an episode."""
    return len(trajectory.turns)


class UntilDifferent(Callback):
    """Stops a run when its metrics differ from the rows of another run."""

    def __init__(self, rows: list[Any]):
        self.rows = rows

    def on_update_end(self, trainer: Run, metrics: Mapping[str, float]) -> bool:
        rows = timeless(trainer.folder.path)
        return rows == self.rows[: len(rows)]


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without times."""
    return [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_metrics(folder)
    ]


def outcome(recipe: str, folder: Path, settings: dict[str, Any], other: Any = None) -> Any:
    """The metrics and the weights of a run, up to a difference from another one's."""
    own = None if "opponents" in settings else reward
    until = [] if other is None else [UntilDifferent(other[0])]
    trainer = make_trainer(recipe, **settings, reward=own, callbacks=until, run_dir=str(folder))
    trainer.run()
    return timeless(folder), [float(p.detach().double().sum()) for p in trainer.policy.parameters()]


@pytest.mark.slow
@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", recipes.names())
def test_every_own_setting_changes_a_run(recipe: str, start: Path, tmp_path: Path):
    hints = own_settings(recipe)
    known = settings_of(recipes.load(recipe).Config)
    base = {k: v for k, v in (BASE | SMALL | {"model": str(start)}).items() if k in known}
    values = VALUES | {"distill.teacher": str(start), "dpo.adversary": f"policy:{start}"}
    runs: dict[str, Any] = {}
    idle = []
    for number, (name, hint) in enumerate(hints.items()):
        full = f"{recipe}.{name}"
        companions = COMPANIONS.get(full, COMPANIONS.get(name, {}))
        settings = base | companions
        if (key := str(companions)) not in runs:
            runs[key] = outcome(recipe, tmp_path / f"base{number}", settings)
        value = values.get(full, values.get(name)) or legal(recipe, name, hint, settings)
        if outcome(recipe, tmp_path / name, settings | {name: value}, runs[key]) == runs[key]:
            idle.append(f"{name}={value!r}")
    assert not idle


@pytest.mark.slow
@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["dpo", "grpo", "poad"])
def test_a_run_with_equal_settings_has_no_difference(recipe: str, start: Path, tmp_path: Path):
    settings = BASE | {"model": str(start), "eval_episodes": 8}
    known = settings_of(recipes.load(recipe).Config)
    settings = {key: value for key, value in settings.items() if key in known}
    one = outcome(recipe, tmp_path / "one", settings)
    assert outcome(recipe, tmp_path / "other", settings, one) == one
