"""No recipe learns from the outcome of an episode without a readable verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.tasks import task_number
from agentgym.time_step import UNJUDGED
from agentgym.trainers import recipes
from agentgym.trainers.policy.tiny import tiny_policy

from .test_extremes import SEARCHES, played


class Judged(NumberLine):
    """A judge likes minus, and one of four ways to play each task leaves it without words.

    Args:
        bribe: the reward of these. From 1 on, they are successes.
    """

    def __init__(self, bribe: float = 0.0):
        super().__init__(size=40, max_turns=2)
        self.bribe = bribe

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.taken = list[bool]()
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        self.taken.append("-" in action)
        if not (terminated or truncated):
            return observation, 0.0, False, False, info
        first, last = self.taken[0], self.taken[-1]
        unread = 2 * first + last == task_number(self.task) % 4
        reward = self.bribe if unread else float(first) + last
        info |= {"success": reward >= 1} | ({UNJUDGED: True} if unread else {})
        return observation, reward, True, False, info


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    gymnasium.register("Judged-v0", entry_point=lambda **kwargs: Judged(**kwargs))
    folder = str(tmp_path_factory.mktemp("model"))
    tiny_policy("Judged-v0", size="nano", folder=folder, episodes=8)
    return folder


MORE: dict[str, dict[str, Any]] = {
    "chunk": {"resampled": 2},
    "magrpo": {"depth": 2, "joint": "cross"},
    "optima": {"update": "dpo"},
}
"""Settings with which a recipe plays further episodes."""


def hooked(recipe: str) -> bool:
    """Whether a recipe computes anything from episodes but their credit, as `poad` does not."""
    module = recipes.load(recipe)
    return recipe in (*MORE, "poad") or module.build(module.Config()).hooks is not None


RECIPES = [name for name in recipes.names() if name not in SEARCHES and hooked(name)]
"""The trainer takes the episodes from all others before they see them, as from `poad`."""


@pytest.mark.usefixtures("without_files")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_outcome_of_an_episode_without_a_verdict_changes_nothing(
    recipe: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])
    found: list[dict[str, torch.Tensor]] = []
    for bribe in (0.0, 100.0):
        folder, kwargs = tmp_path / str(bribe), {"bribe": bribe}
        more = {"episodes_per_iteration": 32, "num_envs": 32, **MORE.get(recipe, {})}
        trainer = played(recipe, folder, "Judged-v0", model, env_kwargs=kwargs, lr=1e-3, **more)
        found.append({name: each.clone() for name, each in trainer.policy.own_weights().items()})
    one, other = found
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
