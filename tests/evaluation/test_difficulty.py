"""Results on easy and on hard tasks, by the turns of the scripted expert."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.cli.main import main
from agentgym.evaluation.difficulty import LEAST, by_difficulty, difficulty_lines
from agentgym.evaluation.report import Record, Report


def record(task: str, turns: int, success: bool = True) -> Record:
    return Record(task, 0, float(success), {}, success, float(success), turns, 1.0, True, False)


def report(agent: str, episodes: list[Record]) -> Report:
    return Report("AgentGym/X-v0", agent, "test", 0, len(episodes), {}, episodes)


def test_tasks_are_split_at_the_median_of_the_experts_turns():
    tasks = [f"{number}" for number in range(12)]
    expert = report("expert", [record(task, 2 if int(task) < 6 else 9) for task in tasks])
    agent = report("agent", [record(task, 20, int(task) < 4) for task in tasks])
    assert difficulty_lines([agent, expert]) == [
        "agent on X-v0, success where the expert needs up to 2 turns: 67 % [30, 90] of 6; more: "
        "0 % [0, 39] of 6."
    ]


def test_there_is_no_split_without_a_difference_or_an_expert():
    same = report("expert", [record(f"{number}", 3) for number in range(40)])
    few = report("expert", [record(f"{number}", number) for number in range(2 * LEAST - 1)])
    agent = report("agent", [record(f"{number}", 3) for number in range(40)])
    assert difficulty_lines([agent, same]) == difficulty_lines([agent]) == []
    assert difficulty_lines([agent, few]) == []
    failed = report("expert", [record(f"{number}", number, False) for number in range(40)])
    assert by_difficulty(agent, failed) is None


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.booleans()), max_size=40))
def test_every_task_that_the_expert_solves_is_on_one_side(
    rows: list[tuple[int, bool, bool]],
):
    expert = report("expert", [record(f"{i}", turns, ok) for i, (turns, ok, _) in enumerate(rows)])
    agent = report("agent", [record(f"{i}", 1, ok) for i, (*_, ok) in enumerate(rows)])
    found = by_difficulty(agent, expert)
    if found is None:
        return
    limit, easy, hard = found
    turns = {e.task: e.turns for e in expert.episodes if e.success}
    assert {e.task for e in easy.episodes} | {e.task for e in hard.episodes} == turns.keys()
    assert all(turns[e.task] <= limit for e in easy.episodes)
    assert all(turns[e.task] > limit for e in hard.episodes)
    assert min(len(easy.episodes), len(hard.episodes)) >= LEAST


def test_the_command_shows_it_beside_the_expert(capsys: pytest.CaptureFixture[str]):
    words = ["eval", "TowerOfHanoi-v0", "--agent", "random", "expert", "--episodes", "40"]
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "random on TowerOfHanoi-v0, success where the expert needs up to" in shown
    assert "expert on" not in shown
