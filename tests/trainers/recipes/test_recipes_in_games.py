"""Every recipe trains both seats of a game, or refuses to with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer, recipes, train
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings import settings_of

from ...helpers.played import Played
from .test_recipes import STEPS

GAME: dict[str, Any] = {
    "env_id": "StagHunt-v0", "opponents": "mirror", "context": "current", "instructions": False,
    "constrain": True, "iterations": 1, "episodes_per_iteration": 8, "num_envs": 8, "epochs": 1,
    "minibatches": 1, "eval_episodes": 0, "device": "cpu", "threads": 1,
    "quiet": True, "log_with": (), "transcripts": 0, "group_size": 4, "train_tasks": 1,
}  # fmt: skip
ONE_AGENT = "has no opponents: it is a setting of"
SINGLE = (
    "aepo agent_q agent_r agent_rlvr archer_iql arpo_entropy bc digi_q early_experience eto ilql "
    "inverse_prm lookahead mc sac_glam sweet_rl"
)
REFUSED = {
    **dict.fromkeys(SINGLE.split(), ONE_AGENT),
    "comas": "by the scores of its role",
    "distill": "only its own state can be shown to an agent",
}
"""Recipes that do not train all seats of any game with their defaults, and the reason they give."""
CRITIC_FIRST = ("archer", "read")
"""Recipes whose policy does not move in the first iteration."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    tiny_policy("StagHunt-v0", size="nano", folder=folder, episodes=8)
    return folder


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", recipes.names())
def test_a_recipe_trains_both_seats_of_a_game(recipe: str, model: str, tmp_path: Path):
    played = Played()
    known = settings_of(recipes.load(recipe).Config)
    settings: dict[str, Any] = {**GAME, **dict.fromkeys(STEPS, 8)}
    settings = {name: value for name, value in settings.items() if name in known}
    settings |= {"model": model, "run_dir": str(tmp_path), "callbacks": [played]}
    if recipe in REFUSED:
        settings["opponents"] = "mirror"
        with pytest.raises(ConfigError, match=REFUSED[recipe]):
            train(recipe, **settings)
        return
    trainer = make_trainer(recipe, **settings)
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    trainer.run()
    agents = [t.agent for t in played.episodes]
    assert agents.count("player_0") == agents.count("player_1") > 0
    [*_, row] = read_metrics(tmp_path)
    assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))
    after = trainer.policy.state_dict()
    assert all(value.isfinite().all() for value in after.values())
    moved = any(not torch.equal(value, before[name]) for name, value in after.items())
    assert moved == (recipe not in CRITIC_FIRST)
