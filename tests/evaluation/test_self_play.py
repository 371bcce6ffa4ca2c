"""One agent plays all seats of a game."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentgym.agents import ScriptedAgent
from agentgym.errors import ConfigError
from agentgym.evaluation import cross_play, self_play
from agentgym.evaluation.self_play import team_record

TEAM = {"roles": "pioneer-observer"}


def test_an_expert_team_succeeds_and_a_silent_one_fails():
    expert = self_play("Team-Countdown-v0", "expert", episodes=6, env_kwargs=TEAM)
    assert [*expert[0]] == ["player_0", "player_1"]
    assert all(record.success for game in expert for record in game.values())
    silent = self_play("Team-Countdown-v0", lambda view: "", episodes=6, env_kwargs=TEAM)
    assert not any(record.success or record.valid for game in silent for record in game.values())


@pytest.mark.parametrize("env", ["KuhnPoker-v0", "Hanabi-Small-v0"])
def test_games_do_not_depend_on_how_many_are_played_at_once(env: str):
    whole = self_play(env, "random", episodes=7, seed=3)
    assert self_play(env, "random", episodes=7, seed=3, num_games=2) == whole
    part = self_play(env, "random", episodes=7, seed=3, only=[5, 1])
    assert part == [whole[5], whole[1]]
    assert self_play(env, "random", episodes=7, seed=4) != whole


def test_games_are_those_of_cross_play_with_one_agent():
    matches = cross_play("LeducPoker-v0", ["random"], episodes=9, seed=2).matches
    games = self_play("LeducPoker-v0", "random", episodes=9, seed=2)
    assert len(games) == len(matches)
    for game, match in zip(games, matches, strict=True):
        seats = dict(zip(("player_0", "player_1"), match.returns, strict=True))
        assert {seat: record.reward for seat, record in game.items()}.items() <= seats.items()


def test_an_agent_is_told_of_the_end_in_every_seat():
    ended: list[str] = []

    class Listener(ScriptedAgent):
        def finish(self, view):
            ended.append(view.env.agent)

    self_play("KuhnPoker-v0", Listener("random"), episodes=3)
    assert sorted(ended) == ["player_0"] * 3 + ["player_1"] * 3


def test_a_team_succeeds_if_all_agents_do():
    [game] = self_play("Team-Countdown-v0", "expert", episodes=1, env_kwargs=TEAM)
    first, second = game.values()
    second = replace(
        second, reward=first.reward - 1.0, success=False, failure="turns", truncated=True,
        turns=first.turns + 2, costs={"tokens": 3.0},
    )  # fmt: skip
    first = replace(first, costs={"tokens": 2.0})
    team = team_record([first, second])
    assert team.reward == first.reward - 0.5 and team.turns == second.turns
    assert not team.success and team.failure == "turns" and team.truncated
    assert team.costs == {"tokens": 5.0}
    assert team_record([first, first]).success and not team_record([first, first]).failure


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_games": 0}, "num_games must be at least 1, got 0"),
        ({"episodes": 0}, "must be at least 1, got 0"),
        ({"env": "NumberLine-v0"}, "single-agent environment"),
        ({"agent": "expertt"}, "expertt"),
        ({"env_kwargs": {"split": "train"}}, "leave split out of env_kwargs"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], message: str):
    given: dict[str, Any] = {"env": "KuhnPoker-v0", "agent": "random"}
    with pytest.raises(ConfigError, match=message):
        self_play(**given | changes)
