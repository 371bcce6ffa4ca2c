"""`OwnStart`: starts lie in recorded episodes, where their returns differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.wrappers import OwnStart
from agentgym.wrappers.own_start import starts_of

TASK = "train/0"
SIZE = 12


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of episodes of the task with these actions."""

    def write(*episodes: list[str], size: int = SIZE, task: str = TASK) -> str:
        rows = []
        for actions in episodes:
            env = NumberLine(size=size, max_turns=9)
            observation, _ = env.reset(seed=3, options={"task": task})
            turns = []
            for action in actions:
                following, reward, *_ = env.step(action)
                turns.append({"observation": observation, "action": action, "reward": reward})
                observation = following
            rows.append({"transcript": turns, "task": task, "seed": 3})
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(file)

    return write


def solution() -> list[str]:
    env, actions, ended = NumberLine(size=SIZE, max_turns=9), list[str](), False
    env.reset(seed=3, options={"task": TASK})
    while not ended:
        actions.append(env.expert() or "")
        ended = env.step(actions[-1])[2]
    return actions


def starts(env: Any, count: int = 60) -> list[int]:
    return [env.reset(seed=s, options={"task": TASK})[1]["own_turns"] for s in range(count)]


def test_starts_are_where_a_success_and_a_failure_part(record: Callable[..., str]):
    right = solution()
    assert len(right) > 2
    wrong = {"+": "-", "-": "+"}[right[0]]
    file = record(right, right[:2] + [wrong] * 3, [wrong] * 4, [wrong] * 3)
    [found] = starts_of(file).values()
    assert sorted(start.turns for start in found) == [1, 2]
    env = OwnStart(NumberLine(size=SIZE, max_turns=9), file, share=1.0)
    assert set(starts(env)) == {1, 2} and starts(env) == starts(env)
    observation, info = env.reset(seed=0, options={"task": TASK})
    plain = NumberLine(size=SIZE, max_turns=9)
    plain.reset(seed=3, options={"task": TASK})
    path = [plain.step(action)[0] for action in right[: info["own_turns"]]]
    assert observation == path[-1] and info["turn"] == info["own_turns"] and info["valid"]
    assert set(info["reward_terms"].values()) == {0.0}


def test_a_larger_spread_is_drawn_more_often(record: Callable[..., str]):
    right = solution()
    wrong = {"+": "-", "-": "+"}[right[0]]
    failed = [right[:1] + [wrong] * 3] * 6
    env = OwnStart(
        NumberLine(size=SIZE, max_turns=9), record(right, [*right[:2], wrong], *failed), share=1.0
    )
    found = starts(env, 300)
    assert found.count(2) > found.count(1) > 0


def test_tasks_without_a_difference_or_in_the_test_split_start_at_the_beginning(
    record: Callable[..., str],
):
    right = solution()
    alike = OwnStart(NumberLine(size=SIZE, max_turns=9), record(right, right), share=1.0)
    assert set(starts(alike)) == {0}
    never = OwnStart(NumberLine(size=SIZE, max_turns=9), record(right, right[:2]), share=0.0)
    assert set(starts(never)) == {0}
    test = OwnStart(NumberLine(size=SIZE), record(["+"], ["-"], task="test/7"), share=1.0)
    assert test.reset(seed=0, options={"task": "test/7"})[1]["own_turns"] == 0


def test_episodes_of_another_environment_are_refused(record: Callable[..., str], tmp_path: Path):
    right = solution()
    env = OwnStart(NumberLine(size=30), record(right, right[:2]), share=1.0)
    with pytest.raises(DataError, match="plays otherwise here"):
        env.reset(seed=0, options={"task": TASK})
    with pytest.raises(DataError, match="nowhere"):
        OwnStart(NumberLine(), str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(ConfigError, match="share"):
        OwnStart(NumberLine(), record(right), share=2.0)
