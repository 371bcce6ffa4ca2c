"""The bandit over roles of a team."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import agentgym
from agentgym.envs.team.importance import Message
from agentgym.envs.team.roles import Role
from agentgym.errors import ConfigError

CANDIDATES = [
    *(Role(name, "note", "Write a note.") for name in ("poet", "scout", "critic", "cook")),
    Role("walker", "act", "Reply with the next step."),
]
SETTINGS: dict[str, Any] = {"rounds": 12, "episodes": 1, "max_turns": 30}


def trusts_the_scout(message: Message, earlier: Sequence[Message]) -> list[float]:
    return [float(each.role == "scout") for each in earlier]


def search(size: int = 2, **changes: Any) -> Any:
    arguments = {"agents": "expert", "rate": trusts_the_scout} | SETTINGS | changes
    candidates = arguments.pop("candidates", CANDIDATES)
    return agentgym.search_team("NumberLine-v0", candidates, size, **arguments)


def test_the_helpful_roles_are_found_and_played_most():
    found = search()
    assert [role.name for role in found.roles] == ["scout", "walker"]
    assert found.helpfulness["scout"] == pytest.approx(0.5)
    assert found.helpfulness["poet"] == found.helpfulness["cook"] == 0
    assert found.plays["walker"] == len(found.returns) == 12
    assert sum(found.plays.values()) == 24 and min(found.plays.values()) >= 1
    notes = [found.plays[name] for name in ("poet", "critic", "cook")]
    assert found.plays["scout"] > max(notes)
    assert search() == found


def test_candidates_that_have_not_played_play_together():
    actors = [Role(name, "act", "Reply with the next step.") for name in "abcdef"]
    assert search(candidates=actors, rounds=3).plays == dict.fromkeys("abcdef", 1)


def test_each_candidate_has_its_own_agent():
    agents = dict.fromkeys([role.name for role in CANDIDATES], "expert")
    assert search(agents=agents) == search()
    with pytest.raises(ConfigError, match=r"agents must name the roles \['poet', 'walker'\]"):
        search(agents={"walker": "expert"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 7}, "No 7 of the roles"),
        ({"candidates": CANDIDATES[:4]}, "No 2 of the roles of kinds"),
        ({"candidates": [*CANDIDATES, CANDIDATES[0]]}, "different names"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rate": None}, "gives no ratings"),
    ],
)
def test_errors(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        search(**changes)
