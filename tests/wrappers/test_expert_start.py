"""`ExpertStart`: where episodes start, and that training finds rewards from there."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.envs.puzzle.tower_of_hanoi import TowerOfHanoi
from agentgym.errors import ConfigError, SnapshotError
from agentgym.wrappers import (
    ExpertStart,
    ExtractAction,
    HistoryObservation,
    RewardFunction,
    expert_start,
)

from ..helpers.echo import DictEcho, Echo


def start(env: Any, seed: int, task: str = "train/7") -> tuple[str, int]:
    observation, info = env.reset(seed=seed, options={"task": task})
    assert info["turn"] == info["expert_turns"]
    return observation, info["expert_turns"]


def test_starts_lie_on_the_experts_path():
    plain = NumberLine(size=30)
    path = [plain.reset(seed=0, options={"task": "train/7"})[0]]
    terminated = False
    while not terminated:
        observation, _, terminated, *_ = plain.step(plain.expert() or "")
        path.append(observation)
    env = ExpertStart(NumberLine(size=30), share=1.0)
    found = [start(env, seed) for seed in range(200)]
    assert {turns for _, turns in found} == set(range(len(path) - 1))  # never the end
    assert all(observation == path[turns] for observation, turns in found)


def test_one_task_and_seed_has_one_start_and_a_share_starts_in_the_middle():
    env = ExpertStart(NumberLine(size=30), share=0.5)
    found = [start(env, seed) for seed in range(100)]
    assert [start(env, seed) for seed in range(100)] == found
    assert 25 < sum(turns > 0 for _, turns in found) < 75
    env = ExpertStart(NumberLine(size=30), share=0.0)
    assert {start(env, seed)[1] for seed in range(20)} == {0}


def test_an_expert_without_an_end_is_not_followed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(expert_start, "MANY_TURNS", 20)
    said: list[str] = []
    monkeypatch.setattr(NumberLine, "expert", lambda self: said.append("?") or "?")
    assert start(ExpertStart(NumberLine(max_turns=None), share=1.0), 0)[1] == 0
    assert len(said) == 20


def test_training_tasks_may_have_any_name():
    tower = TowerOfHanoi(disks=3)
    env = ExpertStart(tower, share=1.0)
    train, test = tower.tasks.train[0], tower.tasks.test[0]
    assert train.startswith("rods/")
    assert max(start(env, seed, train)[1] for seed in range(9)) > 0
    assert max(start(env, seed, test)[1] for seed in range(9)) == 0


def test_the_last_turns_are_left_and_an_episode_goes_on_from_there():
    env = ExpertStart(NumberLine(size=30), share=1.0, last=2)
    lengths = set()
    for seed in range(20):
        begun = start(env, seed)[1]
        terminated, reward, info = False, 0.0, {}
        while not terminated:
            _, reward, terminated, _, info = env.step(env.get_wrapper_attr("expert")())
        assert reward == 1 and info["success"] and info["expert_turns"] == begun
        lengths.add(info["turn"] - begun)
    assert lengths == {1, 2}


def test_other_tasks_start_at_the_beginning():
    env = ExpertStart(NumberLine(size=30), share=1.0)
    assert {start(env, seed, "test/7")[1] for seed in range(20)} == {0}


def test_a_history_inside_shows_the_experts_turns():
    env = ExpertStart(HistoryObservation(NumberLine(size=30)), share=1.0)
    observation, turns = max((start(env, seed) for seed in range(20)), key=lambda found: found[1])
    assert observation.count("\n> ") >= turns > 0


def test_a_start_has_no_rewards_of_the_experts_turns():
    """Nor the rest that describes its last action: valid or not, and its text."""
    inside = ExtractAction(RewardFunction(GoesAstray(size=30), lambda step: 0.5), format_reward=0.1)
    env = ExpertStart(inside, share=1.0)
    for seed in range(20):
        _, info = env.reset(seed=seed, options={"task": "train/7"})
        assert info["reward_terms"] == {"custom": 0.0, "format": 0.0}
        assert info["valid"] and info["action"] == ""
    _, reward, _, _, info = env.step(env.get_wrapper_attr("expert")())
    assert reward == pytest.approx(0.6) == pytest.approx(sum(info["reward_terms"].values()))


class GoesAstray(NumberLine):
    """Its expert takes an invalid action in every second turn."""

    def expert(self) -> str | None:
        return super().expert() if self.snapshot()["turn"] % 2 == 0 else "dance"


class GivesUp(NumberLine):
    """Its expert has no action after the first turn."""

    def expert(self) -> str | None:
        return super().expert() if self.snapshot()["turn"] == 0 else None


def test_an_expert_that_gives_up_leaves_the_beginning():
    env = ExpertStart(GivesUp(size=30), share=1.0)
    assert {start(env, seed)[1] for seed in range(10)} == {0}


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match=r"share must be in \[0, 1\], got 2"):
        ExpertStart(Echo(), share=2.0)
    with pytest.raises(ConfigError, match="last must be at least 1, got 0"):
        ExpertStart(Echo(), last=0)
    with pytest.raises(ConfigError, match="observations are text"):
        ExpertStart(DictEcho())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"needs an expert, and .* has none"):
        ExpertStart(Echo(), share=1.0).reset(seed=0, options={"task": "train/0"})


@pytest.mark.parametrize("turns", [-1, "2", True])
def test_a_damaged_snapshot_is_refused(turns: Any):
    env = ExpertStart(NumberLine(size=6), share=1.0)
    env.reset(seed=0, options={"task": "train/0"})
    with pytest.raises(SnapshotError):
        env.restore(env.snapshot() | {"memory": {"turns": turns}})
