"""Every recipe with episodes that teach nothing: equal returns, one turn, nothing but errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer, recipes
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings import settings_of
from agentgym.trainers.trainer import Trainer

from .test_recipes import QUICK, SETTINGS, STEPS

IMITATES = "it imitates actions, whatever their returns are"
MOVES = {
    **dict.fromkeys(("archer_iql", "bc", "filtered_bc", "ilql", "mc", "optima"), IMITATES),
    "inverse_prm": "its rewards compare the policy with the expert",
    "etpo": "it maximises the entropy too",
    "distill": "it learns from a teacher too",
    "single_stream": "tasks that were played more often have other baselines",
}
"""Recipes whose policy moves without a difference in outcome, and why."""
SEARCHES = ("early_experience", "exit")  # their experts need a simulator, and they imitate


class Nothing(gymnasium.Env[str, str]):
    """Two actions and two turns. The reward is 0 whatever the agent does."""

    observation_space = action_space = gymnasium.spaces.Text(100)
    admissible = "red", "blue"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 2
        return f"room {self.np_random.integers(9)}", {"admissible": self.admissible}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return f"room of {action}", 0.0, not self.left, False, {"admissible": self.admissible}

    def expert(self) -> str:
        return "red"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models by environment."""
    gymnasium.register("Nothing-v0", entry_point=lambda **kwargs: Nothing(**kwargs))
    found = {}
    for name in ("Nothing-v0", "NumberLine-v0"):
        found[name] = str(tmp_path_factory.mktemp("model"))
        tiny_policy(name, size="nano", folder=found[name], episodes=8)
    return found


@pytest.fixture(autouse=True)
def registered(models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without a report."""
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])


def played(recipe: str, folder: Path, env_id: str, model: str, **changes: Any) -> Trainer:
    """Trains for two iterations, without behaviour cloning."""
    fields = settings_of(recipes.load(recipe).Config)
    own = {k: v for k, v in SETTINGS.get(recipe, {}).items() if k in fields}
    few = {k: v for k, v in (QUICK | {name: 4 for name in STEPS}).items() if k in fields}
    settings: dict[str, Any] = {
        "env_id": env_id, "model": model, "context": "current", "instructions": False,
        "constrain": True, "num_envs": 8, "device": "cpu", "threads": 1, "quiet": True,
        "log_with": (), "transcripts": 0, "run_dir": str(folder),
    }  # fmt: skip
    last: dict[str, Any] = {
        "env_kwargs": {},
        "iterations": 2,
        "episodes_per_iteration": 8,
        "bc_demonstrations": 0,
    }
    if recipe == "malt":
        last |= {"group_size": 4}
    settings |= own | few | last | changes
    del settings["bc_epochs"]
    settings.pop("bc_batch_tokens", None)
    trainer = make_trainer(recipe, **settings)
    trainer.run()
    return trainer


def finite(folder: Path) -> bool:
    """Whether a run has logged numbers, all of them finite."""
    numbers = [x for row in read_metrics(folder) for x in row.values() if isinstance(x, float)]
    return bool(numbers) and bool(np.isfinite(numbers).all())


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name in recipes.names() if name not in SEARCHES])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_without_a_difference_in_outcome_the_policy_stays_as_it_is(
    recipe: str, models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start: dict[str, torch.Tensor] = {}
    run = Trainer.run

    def watched(trainer: Trainer) -> Any:
        start.update({k: v.clone() for k, v in trainer.policy.own_weights().items()})
        return run(trainer)

    monkeypatch.setattr(Trainer, "run", watched)
    still: dict[str, Any] = {"kl_coef": 0.0, "entropy_coef": 0.0, "lr": 1e-3, "weight_decay": 0.0}
    trainer = played(recipe, tmp_path, "Nothing-v0", models["Nothing-v0"], **still)
    end = trainer.policy.own_weights()
    moved = max(float((end[name] - weight).abs().max()) for name, weight in start.items())
    assert (moved > 1e-6) == (recipe in MOVES), (moved, MOVES.get(recipe))
    assert finite(tmp_path)


SHORT = {"one turn": {"max_turns": 1}, "errors": {"max_turns": 3}}


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("case", SHORT)
@pytest.mark.parametrize("recipe", recipes.names())
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_short_episodes_and_nothing_but_errors_give_finite_numbers(
    recipe: str, case: str, models: dict[str, str], tmp_path: Path
):
    if case == "errors" and recipe in ("lookahead", "sac_glam"):
        pytest.skip("it compares admissible actions")
    cut: dict[str, Any] = {"constrain": False, "max_new_tokens": 1} if case == "errors" else {}
    kwargs = {"size": 6, **SHORT[case]}
    model = models["NumberLine-v0"]
    played(recipe, tmp_path, "NumberLine-v0", model, env_kwargs=kwargs, **cut)
    assert finite(tmp_path)


def test_a_context_without_room_for_any_outcome_is_explained(
    models: dict[str, str], tmp_path: Path
):
    left_out = pytest.warns(RuntimeWarning, match=r"of \d+ transitions to predict")
    with left_out, pytest.raises(ConfigError, match=r"nothing to predict: raise max_tokens"):
        played(
            "early_experience", tmp_path, "NumberLine-v0", models["NumberLine-v0"],
            env_kwargs={"size": 9, "max_turns": 9}, context="full", max_tokens=44,
        )  # fmt: skip
