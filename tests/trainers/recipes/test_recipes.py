"""Every recipe solves the smallest environment; what all of them share holds for each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import agentgym.trainers
from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers import recipes
from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings import settings_of
from agentgym.trainers.settings.kinds import (
    ImitationConfig,
    PolicyGradientConfig,
    PreferenceConfig,
    RewardedConfig,
)
from agentgym.trainers.trainer import Trainer

from ...helpers import quick
from ...helpers.until_solved import UntilSolved

# An utterance-level critic that is fitted quickly.
SMALL_CRITIC = {"utterance_layers": (64, 64), "critic_batch": 128, "critic_lr": 3e-3}
# Settings with which a recipe solves NumberLine in seconds, beyond the common ones below.
SETTINGS: dict[str, dict[str, Any]] = {
    "nlpo": {"top_p": 0.95, "episodes_per_iteration": 64},
    "poad": {"episodes_per_iteration": 64},
    "ntpo": {"episodes_per_iteration": 64},
    "etpo": {"episodes_per_iteration": 64, "iterations": 20},
    "bilevel": {"episodes_per_iteration": 64},
    "vl_dac": {"episodes_per_iteration": 64},
    "steppo": {"episodes_per_iteration": 64},
    "vsc_rl": {"episodes_per_iteration": 64, "kl_coef": 0.0},
    "grpo": {"group_size": 8, "iterations": 20},
    "rloo": {"group_size": 8, "iterations": 20},
    "dr_mas": {"group_size": 8, "iterations": 20},
    "comas": {"iterations": 20, "gamma": 0.95},
    "read": {"iterations": 30, "critic_warmup": 2, "gamma": 0.8},
    "magrpo": {"group_size": 8, "iterations": 20},
    "marft": {"episodes_per_iteration": 64},
    "at_grpo": {"group_size": 4, "episodes_per_iteration": 32, "iterations": 20},
    "advantage_alignment": {"group_size": 8, "iterations": 20},
    "rae": {"iterations": 20},
    "single_stream": {"bc_epochs": 8, "iterations": 20, "train_tasks": 64},
    "rema": {"group_size": 8, "iterations": 20},
    "cory": {"iterations": 20, "kl_coef": 0.0, "gamma": 0.95},
    "spag": {
        "bc_epochs": 6,
        "env_kwargs": {"size": 4, "max_turns": 4},
        "iterations": 20,
        "kl_coef": 0.0,
        "entropy_coef": 0.0,
    },
    "malt": {
        "bc_epochs": 8,
        "group_size": 3,
        "episodes_per_iteration": 36,
        "iterations": 44,
        "lr": 1e-3,
    },
    "optima": {"group_size": 8, "iterations": 30, "entropy_coef": 0.1},
    "lspo": {"iterations": 30, "candidates": 3, "lr": 1e-3, "episodes_per_iteration": 64},
    "marshal": {"iterations": 20, "kl_coef": 0.0},
    "twosome": {"iterations": 14},
    "glam": {"iterations": 10, "episodes_per_iteration": 64},
    "chunk": {"chunk_size": 2, "episodes_per_iteration": 64},
    "loop": {"group_size": 8, "iterations": 20},
    "p3o": {"group_size": 8, "iterations": 20},
    "spo": {"group_size": 8, "iterations": 20},
    "dcpo": {"group_size": 8, "iterations": 20, "segments": 16},
    "mt_grpo": {"group_size": 8, "iterations": 20},
    "flow_grpo": {"group_size": 8, "iterations": 20},
    "gigpo": {"group_size": 8},
    "distill": {"group_size": 8, "iterations": 20, "teacher_coef": 0.02, "teacher_sees": "hint:0"},
    "spa": {"model_epochs": 4, "iterations": 20},
    "istar": {"group_size": 8, "iterations": 20},
    "agentprm": {"group_size": 4, "iterations": 20, "model_epochs": 4, "entropy_coef": 0.05},
    "agent_rlvr": {"group_size": 8, "iterations": 20},
    "sweet_rl": {"group_size": 8, "iterations": 20},
    "inverse_prm": {"episodes_per_iteration": 64, "model_epochs": 4, "iterations": 20},
    "orm": {"group_size": 8, "iterations": 20, "model_epochs": 8, "label_every": 1},
    "dpo": {"group_size": 4, "iterations": 44, "lr": 1e-3, "episodes_per_iteration": 64},
    "trpa": {"group_size": 8, "iterations": 44, "lr": 1e-3, "episodes_per_iteration": 64},
    "agent_q": {
        "group_size": 4,
        "simulations": 4,
        "iterations": 24,
        "lr": 1e-3,
        "episodes_per_iteration": 64,
    },
    "eto": {"group_size": 4, "iterations": 44, "lr": 1e-3, "episodes_per_iteration": 64},
    "archer": {
        "env_kwargs": {"size": 4, "max_turns": 5},
        "bc_epochs": 3,
        "utterance_layers": (64, 64),
        "critic_batch": 32,
        "critic_steps": 20,
        "critic_lr": 2e-3,
        "tau": 0.5,
        "iterations": 30,  # rounding decides how many
        "episodes_per_iteration": 64,
        "replayed": 128,
        "lr": 1e-3,
    },
    "archer_iql": {
        **SMALL_CRITIC,
        "critic_steps": 150,
        "iterations": 30,
        "gamma": 0.8,
        "beta": 10.0,
        "lr": 1e-3,
    },
    "sac_glam": {
        "iterations": 40,
        "gamma": 0.9,
        "replayed": 384,
        "critic_steps": 100,
        "lr": 5e-4,
    },
    "digi_q": {
        **SMALL_CRITIC,
        "iterations": 20,
        "replayed": 256,
        "best_of": 4,
        "threshold": 0.02,
        "lr": 1e-3,
    },
    "ilql": {"iterations": 14, "gamma": 0.8, "beta": 16.0},
    "mc": {"iterations": 14, "gamma": 0.8, "beta": 16.0},
    "bc": {"iterations": 20, "dataset_demonstrations": 64, "lr": 2e-3},
    "early_experience": {
        "iterations": 20,
        "demonstrations": 64,
        "world_iterations": 4,
        "transitions": 64,
        "held_out": 0,
        "lr": 2e-3,
    },
    "filtered_bc": {"iterations": 30, "top_fraction": 0.5, "entropy_coef": 0.1},
    "spear": {"group_size": 8, "iterations": 20, "ramp": 10, "tool_bonus_iterations": 4},
    "arpo_replay": {"group_size": 8, "iterations": 20},
    "grpo_roc": {"group_size": 8, "iterations": 20},
    "arpo_entropy": {
        "group_size": 4,
        "branches": 4,
        "iterations": 20,
        "episodes_per_iteration": 64,
    },
    "aepo": {"group_size": 4, "iterations": 20, "episodes_per_iteration": 64},
    "vine": {"continuations": 2, "episodes_per_iteration": 64, "iterations": 20},
    "hgpo": {"group_size": 8, "iterations": 20, "entropy_coef": 0.1},
    "agent_r": {"group_size": 8, "iterations": 20, "lr": 2e-3},
    "exit": {"teacher": "search:best_first,budget=16", "episodes_per_iteration": 64, "lr": 2e-3},
}


class UntilImproved(Callback):
    """Stops training when the reward of an evaluation exceeds the first one's by 0.12."""

    def __init__(self) -> None:
        self.rewards: list[float] = []

    @property
    def gain(self) -> float:
        return self.rewards[-1] - self.rewards[0]

    def on_evaluation_end(self, trainer: Run, report: Report) -> bool:
        self.rewards.append(report.aggregate()["reward"].mean)
        return self.gain <= 0.12


def train(recipe: str, folder: Path, **changes: Any) -> list[dict[str, Any]]:
    """Trains on NumberLine and returns the rows of metrics.jsonl."""
    settings = {
        "env_id": "NumberLine-v0",
        "env_kwargs": {"size": 4, "max_turns": 6},
        "model": "nano",
        "context": "current",
        "instructions": False,
        "constrain": True,
        "bc_demonstrations": 32,
        "bc_epochs": 6,
        "bc_batch_tokens": 8192,  # a few steps, after which the policy still fails
        "bc_lr": 2e-3,
        "iterations": 14,
        "episodes_per_iteration": 128,
        "num_envs": 128,
        "target_kl": 0.1,
        "entropy_coef": 0.02,
        "lr": 5e-4,
        "eval_every": 0,
        "eval_episodes": 64,
        "device": "cpu",
        "threads": 1,
        "quiet": True,
        "log_with": (),
        "transcripts": 0,
        "save_every": 100,
        "run_dir": str(folder),
    }
    known = settings_of(recipes.load(recipe).Config)
    given = {k: v for k, v in settings.items() if k in known} | SETTINGS.get(recipe, {}) | changes
    if not given["bc_demonstrations"] and "bc_share" not in given:
        unused = ("bc_epochs", "bc_lr", "bc_batch_tokens")
        given = {k: v for k, v in given.items() if k not in unused}
    if not given["eval_episodes"]:
        del given["eval_every"]
    agentgym.trainers.train(recipe, **given)
    return read_metrics(folder)


@pytest.mark.parametrize("recipe", recipes.names())
def test_every_recipe_names_its_source(recipe: str):
    """A title in quotes, and where it is to be found: an arXiv id, or a venue and a year."""
    said = " ".join(str(recipes.load(recipe).__doc__).split())
    assert re.search(r'"[A-Za-z][^"]{20,}"', said)
    assert re.search(r"arXiv \d{4}\.\d{5}|\([^()]+ (19|20)\d\d\)", said)


OFFLINE = ("archer_iql", "bc", "digi_q", "early_experience", "ilql", "mc")


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", OFFLINE)
def test_offline_recipe_improves_on_what_it_imitated(recipe: str, tmp_path: Path):
    until = UntilImproved()
    rows = train(
        recipe, tmp_path / "run", seed=1, callbacks=[until], eval_episodes=128, eval_every=3
    )
    assert until.gain > 0.12
    assert rows[-1]["env_steps"] == rows[1]["env_steps"] > 0  # nothing is played after the first


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name in recipes.names() if name not in OFFLINE])
def test_recipe_solves_number_line(recipe: str, tmp_path: Path):
    until = UntilSolved()
    train(recipe, tmp_path / "run", seed=1, callbacks=[until], eval_episodes=0)
    assert until.returns[0] < 0.8, "the little imitation must not have solved it"
    assert until.solved, until.returns


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", recipes.names())
def test_every_parameter_changes_and_a_seed_repeats_a_run(recipe: str, tmp_path: Path, monkeypatch):
    before: dict[str, torch.Tensor] = {}
    after: dict[str, torch.Tensor] = {}

    def parameters(trainer: Trainer) -> dict[str, torch.Tensor]:
        named = trainer.updater.module.named_parameters()
        return {name: p.detach().clone() for name, p in named if p.requires_grad}

    run = Trainer.run

    def watched(trainer: Trainer) -> Any:
        before.update(parameters(trainer))
        reports = run(trainer)
        after.update(parameters(trainer))
        return reports

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", watched)
        found = losses(recipe, tmp_path / "a", iterations=3)
    assert before
    assert not [name for name in before if torch.equal(before[name], after[name])]
    again = losses(recipe, tmp_path / "b", iterations=2)
    assert again and again == found[: len(again)]


def losses(recipe: str, folder: Path, **changes: Any) -> list[float]:
    """Trains without imitation and returns the losses and the statistics of the rollouts."""
    rows = train_quickly(recipe, folder, bc_demonstrations=0, **changes)
    return [v for row in rows for k, v in row.items() if k.startswith(("losses", "rollout"))]


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["bc", "poad"])
def test_another_seed_gives_another_run(recipe: str, tmp_path: Path):
    one, other = (losses(recipe, tmp_path / str(n), iterations=1, seed=n) for n in range(2))
    assert one and other and one != other


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7}, {"constrain": False, "top_k": 20}])
def test_the_first_ratio_is_one(sampling: dict[str, Any], tmp_path: Path):
    rows = train_quickly("poad", tmp_path, iterations=1, epochs=1, max_new_tokens=6, **sampling)
    assert rows[-1]["rollout/logprob_gap"] < 1e-5


@pytest.mark.slow
@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("normalization", ["sum", "token", "word"])
def test_the_first_ratio_of_whole_actions_is_one(normalization: str, tmp_path: Path):
    changes = {"normalization": normalization, "temperature": 0.8}
    rows = train_quickly("twosome", tmp_path, iterations=1, epochs=1, **changes)
    assert rows[-1]["rollout/logprob_gap"] < 1e-5
    assert rows[-1]["losses/entropy"] > 0


QUICK = {
    "episodes_per_iteration": 16, "group_size": 4, "epochs": 1, "minibatches": 2, "bc_epochs": 1,
    "eval_episodes": 0,
}  # fmt: skip
STEPS = (
    "critic_steps model_epochs head_epochs dataset_demonstrations dataset_episodes replayed "
    "demonstrations transitions"
).split()


def train_quickly(recipe: str, folder: Path, **changes: Any) -> list[dict[str, Any]]:
    """Trains as little as the recipe's own settings allow."""
    fields = settings_of(recipes.load(recipe).Config)
    few = {name: 8 for name in STEPS} | QUICK
    return train(recipe, folder, **{k: v for k, v in few.items() if k in fields} | changes)


class Copied(Callback):
    """Copies the folder of a run at the start of an iteration: all that a killed run leaves."""

    def __init__(self, iteration: int, target: Path):
        self.iteration, self.target = iteration, target

    def on_iteration_start(self, trainer: Run) -> None:
        if trainer.state.iteration == self.iteration:
            shutil.copytree(trainer.folder.path, self.target)


Rows = list[dict[str, Any]]


def whole_and_resumed(
    folder: Path, run: Callable[..., Rows], iterations: int, at: int
) -> tuple[Rows, ...]:
    """Returns the metrics of a run, and of one that goes on from its checkpoint in the middle.

    Args:
        folder: an empty folder.
        run: trains in a folder, such as `partial(train, "poad")`.
        iterations: iterations of the run.
        at: iterations of the checkpoint.
    """
    few: dict[str, Any] = {"iterations": iterations, "save_every": 1}
    whole = run(folder=folder / "whole", callbacks=[Copied(at, folder / "rest")], **few)
    rest = run(folder=folder / "rest", resume=True, **few)
    assert len(whole) == len(rest)
    return tuple(
        [{k: v for k, v in row.items() if not k.startswith(("time/", "eval/"))} for row in rows]
        for rows in (whole, rest)
    )


@pytest.mark.usefixtures("without_files")
def test_copied_imitation_is_imitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    known: dict[str, list[torch.Tensor]] = {}
    monkeypatch.setattr(quick, "FITTED", known)
    one, other = (
        [v for k, v in row.items() if k.startswith(("losses", "rollout"))]
        for row in (train_quickly("poad", tmp_path / name, iterations=1)[-1] for name in "ab")
    )
    assert len(known) == 1 and one == other


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", recipes.names())
def test_the_first_step_starts_at_ratio_one(recipe: str, tmp_path: Path):
    one = {"iterations": 1, "epochs": 1, "minibatches": 1}
    rows = train_quickly(recipe, tmp_path, **one)
    assert rows[-1]["losses/kl"] < 1e-9
    assert rows[-1]["losses/clip_fraction"] == 0


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["archer_iql", "bc", "ilql", "mc"])
def test_neither_a_clip_nor_a_kl_ends_the_cloning_of_a_data_set(recipe: str, tmp_path: Path):
    rows = train_quickly(recipe, tmp_path, iterations=1, epochs=8, lr=1e-2)
    assert rows[-1]["losses/steps"] >= 8 and rows[-1]["losses/clip_fraction"] == 0


SWITCHES: dict[str, Any] = {
    "clip_high": 0.3,
    "surrogate": "aepo",
    "dual_clip": 3.0,
    "entropy_coef": 0.01,
    "entropy_floor": 1.0,
    "covariance_clip": 0.02,
    "ratio": "turn",
    "aggregation": "constant",
    "normalize_advantages": "task",
    "overlong_margin": 2,
    "max_new_tokens": 3,
    "kl_coef": 0.01,
    "kl_in": "reward",
    "importance_cap": 2.0,
    "mask_truncated": "all",
    "trained_turns": 0.5,
    "check_logprobs": 1e-3,
    "overflow": "terminate",
    "lr_warmup": 2,
    "adam_betas": (0.9, 0.95),
    "shape_progress": 0.5,
    "process_reward": "progress",
    "reward_constraints": {"task": 0.5},
    "novelty_bonus": 0.1,
    "count_bonus": 0.1,
    "group_weight": "difficulty",
}
FILTER = {"filter_groups": True}  # works without the rewards below
REWARDS = {
    *("shape_progress", "process_reward", "reward_constraints", "novelty_bonus", "count_bonus"),
    *("overlong_margin", "group_weight"),
}
LACKING: dict[type, set[str]] = {
    PreferenceConfig: {
        "normalize_advantages",
        "covariance_clip",
        "importance_cap",
        "aggregation",
        "mask_truncated",
        "trained_turns",
    },
    ImitationConfig: {
        "normalize_advantages",
        "covariance_clip",
        "importance_cap",
        "mask_truncated",
        "trained_turns",
    },
    PolicyGradientConfig: set(),
}
"""Switches that recipes of a kind do not have, apart from those of rewards."""


def refused(recipe: str) -> set[str]:
    """The switches that a recipe does not have, or that its defaults leave without effect."""
    config = recipes.load(recipe).Config()
    idle = {"kl_in"} if "overlong_margin" not in config.acting() else set()
    switches = config.acting() | {"entropy_floor", "kl_in"}  # the others are switched on
    return idle | (SWITCHES | FILTER).keys() - switches


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_recipe_has_the_settings_of_its_kind(recipe: str):
    kind = recipes.load(recipe).Config
    [lacking] = [names for base, names in LACKING.items() if issubclass(kind, base)]
    rewards = set() if issubclass(kind, RewardedConfig) else REWARDS
    for name in lacking | rewards:
        assert name not in settings_of(kind)
        with pytest.raises(ConfigError, match=rf"^{recipe} has no {name}: it is a setting of "):
            kind.of(**{name: SWITCHES[name]})


COMPARING = (
    "aepo", "arpo_entropy", "arpo_replay", "flow_grpo", "grpo", "grpo_roc", "loop", "rloo", "spear",
)  # fmt: skip
"""Recipes that compare nothing but the outcomes of episodes."""


@pytest.mark.parametrize("recipe", COMPARING)
@pytest.mark.parametrize("ignored", [{"kl_in": "reward", "kl_coef": 0.1}, {"overlong_margin": 2}])
def test_rewards_that_success_ignores_are_refused(recipe: str, ignored: dict[str, Any]):
    kind = recipes.load(recipe).Config
    with pytest.raises(ConfigError, match=r"belongs to outcome return|assigns no credit"):
        kind.of(outcome="success", max_new_tokens=3, **ignored)
    kind.of(outcome="return", max_new_tokens=3, **ignored)


@pytest.mark.slow
@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["archer", "sac_glam", "etpo", "agentprm", "vine"])
def test_hooks_with_credit_of_their_own_read_a_reward_function(recipe: str, tmp_path: Path):
    """They have no options of rewards. A reward function replaces the rewards."""
    with pytest.raises(ConfigError, match="has no shape_progress"):
        train_quickly(recipe, tmp_path / "refused", shape_progress=0.5)

    def learnt(name: str, reward: Any) -> list[Any]:
        rows = train_quickly(recipe, tmp_path / name, iterations=1, reward=reward)
        kinds = ("losses/", "credit/", "optimisation/")
        return [{k: v for k, v in row.items() if k.startswith(kinds)} for row in rows]

    assert learnt("plain", None) == learnt("same", lambda step: step.reward)
    assert learnt("own", lambda step: float("+" in step.action)) != learnt("again", None)


@pytest.mark.parametrize("recipe", [*COMPARING, "dcpo", "istar"])
def test_groups_are_filtered_by_the_outcome_that_a_recipe_compares(recipe: str):
    kind = recipes.load(recipe).Config
    for outcome in ("return", "success"):
        assert kind.of(outcome=outcome).compared_outcome == outcome


def test_groups_are_filtered_by_the_preference_of_spo():
    kind = recipes.load("spo").Config
    for preference in ("return", "success"):
        assert kind.of(preference=preference).compared_outcome == preference


def declared(name: str) -> Algorithm:
    """The declaration of a recipe."""
    module = recipes.load(name)
    return module.build(module.Config())


FOREIGN = [name for name in recipes.names() if declared(name).data != "own"]


GRADIENT = [n for n in FOREIGN if issubclass(recipes.load(n).Config, PolicyGradientConfig)]


@pytest.mark.parametrize(
    ("recipe", "setting"),
    [
        *((name, {"cross_policy": 0.5}) for name in FOREIGN),
        *((name, {"importance_cap": 2.0}) for name in FOREIGN),
        # Actions that are imitated or preferred may be found by exploration.
        *((name, {"epsilon": 0.1, "constrain": True}) for name in GRADIENT),
    ],
)
def test_actions_without_behaviour_probabilities(recipe: str, setting: dict[str, Any]):
    with pytest.raises(ConfigError, match="has no "):
        recipes.load(recipe).Config.of(**setting)


IMITATING: dict[str, dict[str, Any]] = {
    "agentprm": {"update": "dpo", "normalize_advantages": "none"},
    **{name: {} for name in ("dpo", "filtered_bc", "lspo", "malt", "optima", "trpa")},
}
"""Recipes that imitate or prefer actions of their policy, with settings."""


@pytest.mark.parametrize("recipe", IMITATING)
def test_imitated_and_preferred_actions_have_no_importance_weights(recipe: str):
    """The weights would make actions that only exploration finds count for next to nothing."""
    kind, settings = recipes.load(recipe).Config, IMITATING[recipe]
    for other in ({"epsilon": 0.1, "constrain": True}, {"cross_policy": 0.5}):
        config = kind.of(**settings, **other)
        assert config.loss.importance_cap is None and config.recompute_logprobs
    with pytest.raises(ConfigError, match=r"has no importance_cap|belongs to update ppo"):
        kind.of(**settings, importance_cap=2.0)


@pytest.mark.usefixtures("without_files")
def test_what_exploration_finds_is_cloned_with_full_weight(tmp_path: Path):
    few = {"iterations": 1, "epsilon": 0.5, "epochs": 1, "minibatches": 1, "bc_demonstrations": 0}
    row = train_quickly("filtered_bc", tmp_path, **few)[-1]
    # Every token has the weight 1 and the ratio 1.
    assert row["losses/policy_loss"] == pytest.approx(-1.0)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", recipes.names())
def test_every_switch_works_or_is_refused(recipe: str, tmp_path: Path):
    missing, config = refused(recipe), recipes.load(recipe).Config()
    size = {"group_size": config.rollout.group_size} if "group_size" in config.acting() else {}
    for name in missing:
        on = {name: (SWITCHES | FILTER)[name], "max_new_tokens": 3, "kl_coef": 0.01, **size}
        with pytest.raises(ConfigError, match=r"has no |belongs to |assigns no credit"):
            train_quickly(recipe, tmp_path / "refused", **on)
    on = {name: value for name, value in SWITCHES.items() if name not in missing}
    if recipe == "cory":
        on["gamma"] = 1.0  # its default, which shape_progress needs
    logged = {"log_with": ("tensorboard",), "transcripts": 2}
    rows = train_quickly(recipe, tmp_path / "run", iterations=2, **logged, **on)
    numbers = [v for k, v in rows[-1].items() if k.startswith(("losses", "credit"))]
    assert np.isfinite(np.array(numbers, float)).all()
    if not FILTER.keys() & missing:
        train_quickly(recipe, tmp_path / "filtered", iterations=1, **FILTER)


@pytest.mark.slow
def test_an_adapter_is_trained_and_its_base_is_not(tmp_path: Path):
    from agentgym.trainers.policy.policy import Policy
    from agentgym.trainers.policy.tiny import tiny_policy

    kwargs = {"size": 6, "max_turns": 8}
    tiny_policy("NumberLine-v0", seed=0, size="nano", folder=tmp_path / "base", env_kwargs=kwargs)
    settings = {"model": str(tmp_path / "base"), "lora_rank": 4, "kl_coef": 0.01}
    few = {"iterations": 2, "episodes_per_iteration": 16, "eval_episodes": 4, "bc_epochs": 1}
    rows = train("poad", tmp_path / "run", **settings, **few)
    assert rows[-1]["losses/reference_kl"] > 0
    base = Policy.load(tmp_path / "base").model.state_dict()
    trained = Policy.load(tmp_path / "run" / "policy")
    assert trained.has_adapter
    frozen = trained.model.get_base_model().state_dict()
    for name, weight in base.items():
        kept = frozen.get(name, frozen.get(name.replace(".weight", ".base_layer.weight")))
        assert torch.equal(kept, weight), name
    resumed = train("poad", tmp_path / "run", **settings, **few | {"iterations": 3}, resume=True)
    assert resumed[-1]["iteration"] == 3


@pytest.mark.slow
def test_the_reference_of_an_adapter_is_the_imitated_policy(tmp_path: Path):
    from agentgym.trainers.policy.tiny import tiny_policy

    kwargs = {"size": 6, "max_turns": 8}
    tiny_policy("NumberLine-v0", seed=0, size="nano", folder=tmp_path / "base", env_kwargs=kwargs)
    # A single step per iteration: the loss of the first one is that of the reference itself.
    few = {"episodes_per_iteration": 16, "eval_episodes": 0, "epochs": 1, "minibatches": 1}
    few |= {"kl_coef": 0.01, "lr": 0.01}
    start = {"model": str(tmp_path / "base"), "lora_rank": 8, "bc_demonstrations": 16}

    def divergences(run: str, **settings: Any) -> list[float]:
        rows = train("poad", tmp_path / run, **few | settings)
        return [row["losses/reference_kl"] for row in rows if "losses/reference_kl" in row]

    whole = divergences("whole", **start, iterations=3)
    assert abs(whole[0]) < 1e-6
    assert min(whole[1:]) > 1e-5
    divergences("resumed", **start, iterations=1)
    assert divergences("resumed", **start, iterations=3, resume=True) == whole
    # The reference of a run that begins with an adapter is this adapter.
    again = divergences("again", model=str(tmp_path / "whole" / "policy"), iterations=2)
    assert abs(again[0]) < 1e-6 < again[1]


def test_losses_stay_finite_without_any_reward(tmp_path: Path):
    rows = train_quickly("grpo", tmp_path, iterations=2, env_kwargs={"size": 60, "max_turns": 2})
    numbers = [v for k, v in rows[-1].items() if k.startswith("losses")]
    assert np.isfinite(np.array(numbers, float)).all()


def test_settings_that_cannot_work_are_refused(tmp_path: Path):
    for recipe, changes, match in [
        ("poad", {"temperature": 0.0}, "temperature"),
        ("poad", {"episodes_per_iteration": 10, "group_size": 4}, "group_size"),
        ("grpo", {"group_size": 1}, "at least 2"),
        ("rloo", {"group_size": 1}, "at least 2"),
        ("poad", {"lora_rank": 4}, "lora_rank"),
        ("poad", {"context": "whole"}, "context"),
        ("poad", {"lr": -1.0}, "lr"),
        ("poad", {"dual_clip": 1.0}, "dual_clip"),
        ("poad", {"entropy_floor": 0.5, "entropy_coef": 0.0}, "entropy_coef"),
        ("poad", {"filter_groups": True}, "group_size"),
        ("digi_q", {"token_baseline": True}, "token_baseline"),
        ("orm", {"label_every": 0}, "label_every"),
        ("poad", {"gamma": 1.5}, "gamma"),
        ("bilevel", {"lambda_token": -0.1}, "lambda_token"),
        ("agentprm", {"gamma": 0.0}, "gamma"),
        ("chunk", {"chunk_size": 0}, "chunk_size"),
        ("hgpo", {"history": -1}, "history"),
        ("archer_iql", {"expectile": 1.0}, "expectile"),
    ]:
        with pytest.raises(ConfigError, match=match):
            train(recipe, tmp_path / "run", **changes)


@pytest.mark.slow
def test_a_budget_is_divided_between_demonstrations_and_play(tmp_path: Path):
    budget = {"bc_demonstrations": 0, "env_steps": 120, "eval_episodes": 8, "iterations": 50}
    few = {"episodes_per_iteration": 8, "bc_epochs": 1}
    rows = train("poad", tmp_path / "half", bc_share=0.5, **budget, **few)
    begun = rows[0]["env_steps"]
    assert 60 <= begun < 70  # the last demonstration is played to its end
    played = [row for row in rows if "rollout/turns" in row]
    assert played and rows[-1]["env_steps"] >= 120 > played[-2]["env_steps"]
    rows = train("poad", tmp_path / "all", bc_share=1.0, **budget, **few)
    assert not any("rollout/turns" in row for row in rows)
    for wrong in ({"bc_share": 1.5}, {"bc_share": 0.5, "env_steps": None}):
        with pytest.raises(ConfigError, match="bc_share"):
            train("poad", tmp_path / "wrong", **budget | wrong)
