"""The communication graph of a team that changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.team.edges import drawn_edges
from agentgym.envs.team.team import TeamGame
from agentgym.errors import ConfigError

ROLES = [
    {"name": name, "kind": kind, "instructions": f"{name}."}
    for name, kind in (("a", "note"), ("b", "note"), ("c", "act"), ("d", "score"))
]


def read(edges: float, task: str = "train/0") -> list[list[str]]:
    """The authors that each role reads when it acts, in the first three actions."""
    game = TeamGame(env="NumberLine-v0", env_kwargs={"size": 60}, roles=ROLES, edges=edges)
    game.reset(seed=0, task=task)
    found = []
    for action in ("hi", "ho", "+", "3") * 3:
        (agent,) = game.acting
        lines = game.seen(agent).text.split("\n\n")
        found.append([line[0] for line in lines if line[:3] in ("a: ", "b: ", "c: ")])
        game.play({agent: action})
    return found


def test_each_role_reads_the_messages_along_the_edges_of_this_action():
    for turn, found in enumerate(zip(*[iter(read(0.5))] * 4, strict=True)):
        edges = drawn_edges("train/0", f"edges {turn}", 4, 0.5)
        for reader, authors in enumerate(found):
            wanted = [
                author
                for number, author in enumerate("abc"[:reader])
                if edges[reader][number] or author == "c"  # the scorer reads the proposal
            ]
            assert authors == wanted
    graphs = {drawn_edges("train/0", f"edges {turn}", 4, 0.5) for turn in range(3)}
    assert len(graphs) == 3


def test_all_or_no_messages_are_read():
    assert read(1.0) == [[], ["a"], ["a", "b"], ["a", "b", "c"]] * 3
    assert read(0.0) == [[], [], [], ["c"]] * 3


@given(st.integers(2, 8), st.floats(0, 1))
def test_a_role_reads_its_own_messages(roles: int, share: float):
    found = drawn_edges("t", "k", roles, share)
    assert len(found) == roles and all(row[i] for i, row in enumerate(found))
    assert found == drawn_edges("t", "k", roles, share)


@pytest.mark.parametrize("kwargs", [{"edges": 1.5}, {"edges": -0.1}, {"edges": 0.5, "memory": 2}])
def test_invalid_arguments(kwargs: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"edges must be in \[0, 1\]"):
        TeamGame(roles=ROLES, **kwargs)
