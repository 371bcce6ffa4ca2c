"""An argument `split` of a plain Gymnasium environment is its own, and has an effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from agentgym.evaluation import evaluate
from agentgym.registration.games import make_parallel
from agentgym.spaces import UnicodeText
from agentgym.trainers.recipes import poad
from agentgym.trainers.run.environment import environment_factory


class Quiz(gymnasium.Env[str, str]):
    """Asks one question of a data set."""

    def __init__(self, split: str = "easy"):
        self.observation_space = self.action_space = UnicodeText()
        self.split = split

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return f"A question of {self.split}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "Over.", float(action == "answer"), True, False, {}


class Player:
    """Answers, and keeps what it sees."""

    name = "player"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def act(self, views: Any) -> list[str]:
        self.seen += [view.observation for view in views]
        return ["answer"] * len(views)


@pytest.fixture(autouse=True)
def quiz() -> Iterator[None]:
    gymnasium.register("Quiz-v0", entry_point=Quiz)  # type: ignore[arg-type]
    yield
    del gymnasium.registry["Quiz-v0"]


def test_an_evaluation_takes_it():
    player = Player()
    report = evaluate("Quiz-v0", player, tasks=2, env_kwargs={"split": "hard"})
    assert player.seen == ["A question of hard."] * 2
    assert report.env_kwargs == {"split": "hard"}


def test_training_takes_it():
    config = poad.Config.of(env_id="Quiz-v0", env_kwargs={"split": "hard"})
    make, _ = environment_factory(config, None, None)
    assert make().reset(seed=0)[0] == "A question of hard."


def test_a_team_takes_it():
    made = {"env": "Quiz-v0", "env_kwargs": {"split": "hard"}, "roles": "pioneer-observer"}
    team = make_parallel("AgentGym/Team-Countdown-v0", **made).game
    team.reset(seed=0)
    assert "A question of hard." in team.seen(team.acting[0]).observation
