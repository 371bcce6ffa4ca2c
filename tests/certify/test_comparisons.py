"""Comparisons of players: in the tasks that both played, and beyond luck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.certify import Budget
from agentgym.certify.episodes import Episode
from agentgym.certify.oracle_checks import outdone
from agentgym.certify.players import canaries
from agentgym.certify.processes import Processes
from agentgym.certify.reward_checks import difficulty_separation, nonsense_floor
from agentgym.certify.subject import EXPERT, Subject

NAME = "tests.certify.planted:Planted"
SMALL = Budget(tasks=4, search=1, prints=2, turns=20, seconds=1e6)


@pytest.fixture
def subject() -> Iterator[Subject]:
    with Processes() as started:
        yield Subject(NAME, {}, SMALL, started)


def episode(success: bool) -> Episode:
    row = {"reward": float(success), "info": {"success": success, "admissible": []}}
    return Episode("test/1", 0, ["go"], [row | {"observation": "You stand in a hall."}])


def test_players_that_time_cuts_short_are_compared_in_the_tasks_that_both_played(subject: Subject):
    for player in subject.record.keys() - {EXPERT}:
        del subject.record[player][2:]
    assert len(subject.experts) == 4
    assert [len(each) for each in subject.paired(EXPERT, "random")] == [2, 2]
    assert nonsense_floor.run(subject) == difficulty_separation.run(subject) == []


@pytest.mark.parametrize(
    ("expert", "other", "found"),
    [
        ([True, True, False, True], [False, True, True, False], 0),  # luck
        ([False, True, False, False], [True, True, True, True], 1),
        ([False] * 4, [False] * 4, 0),
    ],
)
def test_a_player_outdoes_the_expert_by_more_than_luck(
    subject: Subject, expert: list[bool], other: list[bool], found: int
):
    players = {EXPERT: expert, "random": other}
    subject.record = {name: [*map(episode, played)] for name, played in players.items()}
    assert len(outdone(subject)) == found


def test_a_single_task_has_no_plan_of_another_one():
    only = episode(True)
    assert "plan of another task" not in canaries(only, None, [])
    assert "plan of another task" in canaries(only, episode(True), [])
