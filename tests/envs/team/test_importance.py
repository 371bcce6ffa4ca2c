"""Importance of the roles of a team: ratings, their propagation, and the choice of roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.agents import View
from agentgym.envs.team.importance import Message, importance, read_ratings
from agentgym.envs.team.roles import Role
from agentgym.errors import ConfigError, UnknownArgumentError

ROLES = [
    Role("scout", "note", "Describe the way."),
    Role("poet", "note", "Write a poem."),
    Role("walker", "act", "Reply with the next step."),
]
NUMBER_LINE: dict[str, Any] = {"episodes": 4, "max_turns": 30}


def trusts_the_scout(message: Message, earlier: Sequence[Message]) -> list[float]:
    return [float(message.role == "walker" and each.role == "scout") for each in earlier]


layer = st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=3, max_size=3)


@given(st.lists(layer, min_size=1, max_size=4))
@settings(deadline=None)
def test_in_a_layered_network_it_is_the_score_of_dylan(layers: list[list[list[float]]]):
    """Agents of a layer rate those of the layer before. A last message collects all answers."""
    ratings = [np.array(each) + 1e-3 for each in layers]
    ratings = [each / each.sum(1, keepdims=True) for each in ratings]
    expected = [np.full(3, 1 / 3)]
    for each in reversed(ratings):
        expected.insert(0, each.T @ expected[0])
    weights: list[list[float]] = [[]] * 3
    for number, each in enumerate(ratings):
        weights += [[0.0] * 3 * number + row for row in each.tolist()]
    weights.append([0.0] * 3 * len(ratings) + [1 / 3] * 3)
    found = importance(weights)
    assert found[-1] == 1
    np.testing.assert_allclose(np.reshape(found[:-1], (-1, 3)), expected)
    np.testing.assert_allclose(np.reshape(found[:-1], (-1, 3)).sum(1), 1)


def test_importance_flows_back_from_the_last_message():
    assert importance([[]]) == [1.0]
    assert importance([[], [0.5], [0.25, 0.75]]) == [0.25 + 0.5 * 0.75, 0.75, 1.0]


def test_a_role_that_helps_no_one_is_dropped():
    found = agentgym.team_importance(
        "NumberLine-v0", ROLES, "expert", rate=trusts_the_scout, **NUMBER_LINE
    )
    scores = {name: score.mean for name, score in found.scores().items()}
    assert scores == pytest.approx({"scout": 0.5, "walker": 0.5, "poet": 0.0})
    assert [role.name for role in found.best(2)] == ["scout", "walker"]
    assert found.returns == pytest.approx([1.0] * 4)
    team = agentgym.Team("NumberLine-v0", found.best(2))
    assert team.possible_agents == ["player_0", "player_1"]


def test_agents_rate_the_messages_that_they_have_read():
    asked: list[View] = []

    def walker(view: View) -> str:
        if "rate" in view.instructions:
            asked.append(view)
            return "The scout helped. [[5, 0]]"
        return view.info["admissible"][0]

    def poet(view: View) -> str:
        return "[[1]]" if "rate" in view.instructions else "Roses are red."

    agents = {"scout": lambda view: "Go right.", "poet": poet, "walker": walker}
    found = agentgym.team_importance("NumberLine-v0", ROLES, agents, episodes=1, max_turns=3)
    # The walker passes 1 on to the scout, and the poet, whose importance is 0, nothing.
    shares = {name: shares[0] for name, shares in found.shares.items()}
    assert shares == pytest.approx({"scout": 0.5, "poet": 0.0, "walker": 0.5})
    assert "1. scout: Go right.\n2. poet: Roses are red." in asked[0].observation
    assert "as the walker: " in asked[0].observation


def test_rejected_actions_and_unfinished_turns_are_counted_by_action():
    roles = [Role("doer", "act", "Act."), Role("critic", "check", "Check.")]
    replies = iter(["reject: no", "accept"])
    agents = {
        "doer": lambda view: view.info["admissible"][0],
        "critic": lambda view: next(replies, "reject: no"),
    }
    counts: list[int] = []

    def rate(message: Message, earlier: Sequence[Message]) -> list[float]:
        counts.append(len(earlier))
        return [1.0] * len(earlier)

    found = agentgym.team_importance(
        "NumberLine-v0", roles, agents, rate=rate, episodes=1, max_turns=6, attempts=9
    )
    assert counts == [1, 2, 3]  # the action after the second attempt, and none after turns 5 and 6
    # The importance of the messages: 1 (all comes from the first one), 1/2, 1/3 + 1/6, 1.
    scores = importance([[], [1], [1 / 2] * 2, [1 / 3] * 3])
    assert scores == pytest.approx([1, 1 / 2, 1 / 3, 1])
    assert found.shares["doer"] == [pytest.approx((1 + 1 / 3) / sum(scores))]
    assert sum(shares[0] for shares in found.shares.values()) == pytest.approx(1)


def test_an_episode_without_an_action_has_no_importance():
    found = agentgym.team_importance(
        "NumberLine-v0", ROLES, "expert", rate=trusts_the_scout, episodes=1, max_turns=2
    )
    assert all(shares == [0.0] for shares in found.shares.values())


@pytest.mark.parametrize(
    ("reply", "ratings"),
    [
        ("[[5, 0]]", [1.0, 0.0]),
        ("First [[1, 1]], then [[2.5, 9]].", [0.5, 1.0]),
        ("[[3]]", [0.0, 0.0]),
        ("3, 4", [0.0, 0.0]),
        ("[[-2, 4]]", [0.0, 0.8]),
    ],
)
def test_ratings_are_read_from_replies(reply: str, ratings: list[float]):
    assert read_ratings(reply, 2) == pytest.approx(ratings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": None}, "'expert' gives no ratings: set rate"),
        ({"rate": lambda message, earlier: [2.0] * len(earlier)}, r"numbers in \[0, 1\].*got \[2"),
        ({"rate": lambda message, earlier: []}, "1 numbers .* for 1 earlier"),
        ({"agents": {"scout": "expert"}}, r"name the roles .*'walker'\], got \['scout'\]"),
        ({"roles": "poets"}, "roles must be one of"),
        ({"env": "CartPole-v1"}, "text environment"),
        ({"episodes": 0}, "at least 1"),
    ],
)
def test_errors(changes: dict[str, Any], message: str):
    arguments: dict[str, Any] = {"env": "NumberLine-v0", "roles": ROLES, "agents": "expert"}
    arguments |= {"rate": trusts_the_scout, **NUMBER_LINE, **changes}
    with pytest.raises(ConfigError, match=message):
        agentgym.team_importance(**arguments)


def test_unknown_arguments_and_impossible_teams():
    with pytest.raises(UnknownArgumentError, match="max_turns"):
        agentgym.team_importance("NumberLine-v0", ROLES, "expert", max_turn=3)
    found = agentgym.team_importance(
        "NumberLine-v0", ROLES, "expert", rate=trusts_the_scout, **NUMBER_LINE
    )
    with pytest.raises(ConfigError, match="No 1 of the roles"):
        found.best(1)
