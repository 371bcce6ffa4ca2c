"""A batch without a difference in outcome: what its update changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from agentgym.trainers import make_trainer
from agentgym.trainers.run.logger import read_metrics


class AlwaysOne(gymnasium.Env[str, str]):
    """Two actions and two turns. The reward is 1 whatever the agent does."""

    observation_space = action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 2
        return f"room {self.np_random.integers(9)}", {"admissible": ("red", "blue")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return f"room of {action}", 1.0, self.left == 0, False, {"admissible": ("red", "blue")}

    def expert(self) -> str:
        return "red"


@pytest.fixture
def always_one():
    gymnasium.register("AlwaysOne-v0", entry_point=lambda **kwargs: AlwaysOne(**kwargs))
    yield "AlwaysOne-v0"
    del gymnasium.registry["AlwaysOne-v0"]


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["poad", "turn", "bilevel", "chunk"])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_policy_takes_no_step_without_a_difference_in_outcome(
    recipe: str, guarded: bool, always_one: str, tmp_path: Path
):
    trainer = make_trainer(
        recipe, env_id=always_one, model="nano", context="current", constrain=True,
        bc_demonstrations=0, iterations=2, episodes_per_iteration=8, eval_episodes=0,
        entropy_coef=0.01, lr_by_reliability=guarded, quiet=True, device="cpu", threads=1,
        run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    assert trainer.critic is not None
    modules = trainer.policy, trainer.critic
    before = [[p.detach().clone() for p in module.parameters()] for module in modules]
    trainer.run()
    moved = [
        any(not torch.equal(a, b) for a, b in zip(old, module.parameters(), strict=True))
        for old, module in zip(before, modules, strict=True)
    ]
    assert moved == [not guarded, True]  # the critic learns in any case
    rows = [row for row in read_metrics(tmp_path / "run") if "credit/reliability" in row]
    assert [row["credit/reliability"] < 1e-6 for row in rows] == [True, True]
    assert [row["charts/lr"] > 1e-9 for row in rows] == [not guarded, not guarded]
