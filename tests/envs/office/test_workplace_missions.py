"""Workplace-Missions: references to earlier missions, rewards per mission, independence."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from agentgym.envs.office.follow_ups import MOST, missions_of
from agentgym.envs.office.workplace_missions import WorkplaceMissions
from agentgym.errors import ConfigError

REFERENCE = re.compile(
    r"that (?:meeting|customer|file)|mail that you|the same colleague|of mission \d"
)
FINISH = '{"name": "finish", "arguments": {}}'


def started(task: str, **kwargs: Any) -> WorkplaceMissions:
    env = WorkplaceMissions(**kwargs)
    env.reset(seed=0, options={"task": task})
    return env


def solve(env: WorkplaceMissions) -> tuple[str, float, bool, dict[str, Any]]:
    """Plays the expert to the end of the current mission."""
    while True:
        action = env.expert()
        assert action is not None
        text, reward, over, truncated, info = env.step(action)
        assert info["valid"] and not truncated
        if action == FINISH:
            return text, reward, over, info


@pytest.mark.parametrize("count", [2, 3, 4, None])
def test_the_expert_is_right_in_every_mission_and_progress_grows(count: int | None):
    lengths = set()
    for number in range(40):
        env = started(f"{'test' if number % 2 else 'train'}/{number}", missions=count)
        missions = missions_of(env.task, count)
        over, progress = False, [0.0]
        info: dict[str, Any] = {}
        for i, _ in enumerate(missions):
            assert not over
            text, reward, over, info = solve(env)
            assert text.startswith("Right.") and reward == pytest.approx(1 / len(missions))
            assert (f"Mission {i + 2} of {len(missions)}: " in text) is not over
            progress.append(info["progress"])
        assert over and info["success"] and info["progress"] == pytest.approx(1)
        assert progress == sorted(progress)
        lengths.add(len(missions))
    assert lengths == ({2, 3, 4} if count is None else {count})


def test_later_missions_refer_to_records_of_earlier_ones():
    references = Counter[str]()
    for number in range(300):
        missions = missions_of(f"train/{number}", None)
        assert not REFERENCE.search(missions[0].request)
        found = [REFERENCE.search(mission.request) for mission in missions]
        assert any(found)
        references.update(match[0] for match in found if match)
        for before, mission in enumerate(missions):
            for earlier in re.findall(r"of mission (\d)|in mission (\d)", mission.request):
                assert 1 <= int("".join(earlier)) < before
    assert {"that meeting", "that customer", "that file", "the same colleague"} <= {*references}
    assert {"of mission 1", "of mission 2", "mail that you"} <= {*references}


def test_a_mission_goes_on_in_the_world_of_the_one_before():
    env = WorkplaceMissions()
    for number in range(100):
        missions = missions_of(f"train/{number}", MOST)
        for before, after in pairwise(missions):
            result = env.expected_world(before)
            assert result != before.world
            new = {key for key in after.world["mails"] if key not in result["mails"]}
            kept = {k: mail for k, mail in after.world["mails"].items() if k not in new}
            changed = {table for table in result if after.world[table] != result[table]}
            assert kept == result["mails"] and changed <= {"mails", "files"}


def test_title_and_day_identify_a_meeting_after_every_mission():
    env = WorkplaceMissions()
    # Tasks in which a meeting is moved or put to a day with another one of its title, and others.
    for task in ("train/140", "test/420", *(f"train/{number}" for number in range(100))):
        for mission in missions_of(task, None):
            events = env.expected_world(mission)["events"].values()
            names = [(event["title"], event["date"]) for event in events]
            assert len(names) == len({*names})


def test_a_wrong_mission_costs_its_share_and_is_put_right():
    env = started("test/3", missions=3)
    text, reward, over, _, info = env.step(FINISH)
    assert text.startswith("Wrong. The user has put it right.\nMission 2 of 3: ")
    assert reward == 0 and not over and info["progress"] == 0
    assert env.state.world == missions_of("test/3", 3)[1].world
    assert solve(env)[1] == pytest.approx(1 / 3)
    _, reward, over, info = solve(env)
    assert over and reward == pytest.approx(1 / 3) and not info["success"]
    assert info["progress"] == pytest.approx(2 / 3)


def test_another_change_makes_the_mission_wrong():
    env = started("train/5", missions=2)
    note = {"customer_id": "c1", "text": "x"}
    env.step(json.dumps({"name": "add_note", "arguments": note}))
    text, reward, _, _ = solve(env)
    assert text.startswith("Wrong.") and reward == 0
    assert solve(env)[1] == 0.5


def test_the_same_calls_in_another_mission_are_another_state():
    look = '{"name": "list_files", "arguments": {}}'
    early, late = started("train/1"), started("train/1")
    early.step(look)
    key = early.step(FINISH)[-1]["state_key"]
    late.step(FINISH)
    assert late.step(look)[-1]["state_key"] != key


@pytest.mark.parametrize("missions", [0, 1, 5])
def test_numbers_of_missions_out_of_range(missions: int):
    with pytest.raises(ConfigError, match="missions must be None or 2 to 4"):
        WorkplaceMissions(missions=missions)
