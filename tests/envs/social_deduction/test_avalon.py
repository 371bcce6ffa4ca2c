"""Avalon: quests, votes, ends, hidden information, scripted players."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.social_deduction.avalon import Avalon
from agentgym.envs.social_deduction.avalon_minds import (
    MINDS,
    beliefs,
    clean,
    public_odds,
    sides,
    suspicion,
    view,
)
from agentgym.envs.social_deduction.avalon_rules import (
    ASSASSIN,
    EVIL_PLAYERS,
    MERLIN,
    MINION,
    MORDRED,
    MORGANA,
    OBERON,
    PERCIVAL,
    SERVANT,
    SPECIALS,
    TEAM_SIZES,
    fails_needed,
    hand,
    is_evil,
    known_evil,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove

FIVE = [MERLIN, SERVANT, SERVANT, MINION, ASSASSIN]
SEVEN = [MERLIN, PERCIVAL, SERVANT, SERVANT, MORGANA, MORDRED, ASSASSIN]


def deal(roles=FIVE, **kwargs) -> Avalon:
    """Returns a game with the given roles. The first player leads."""
    game = Avalon(num_players=len(roles), **{"talk_rounds": 0, **kwargs})
    game.begin("train/0")
    game.state.roles, game.state.leader = list(roles), 0
    game.episode.acting = game._acting()  # type: ignore[union-attr]
    game._unseen.update(game.possible_agents)
    return game


def propose(game, *team):
    game.play({game.acting[0]: ", ".join(f"player_{i}" for i in team)})


def vote(game, *against):
    game.play({a: "reject" if int(a[-1]) in against else "approve" for a in game.acting})


def quest(game, *fails):
    game.play({a: "fail" if int(a[-1]) in fails else "success" for a in game.acting})


def mission(game, team, *fails):
    propose(game, *team)
    vote(game)
    quest(game, *fails)


@pytest.mark.parametrize("players", TEAM_SIZES)
def test_sizes_of_the_rules(players):
    evil = sum(map(is_evil, hand(players, [])))
    assert evil == EVIL_PLAYERS[players] and len(hand(players, [])) == players
    assert [fails_needed(players, q) for q in range(5)] == [1, 1, 1, 1 + (players >= 7), 1]
    roles = Counter(hand(players, ["percival", "morgana"]))
    assert roles[MERLIN] == roles[PERCIVAL] == roles[ASSASSIN] == roles[MORGANA] == 1


def test_three_successful_quests_and_a_hidden_merlin_win_for_good():
    g = deal()
    mission(g, (0, 1))
    assert g.acting == ("player_1",)  # the next player leads
    mission(g, (0, 1, 2))
    mission(g, (1, 2))
    assert g.acting == ("player_4",) and not g.seen("player_0").success
    assert "The assassin names a player." in g.seen("player_1").text
    g.play({"player_4": "player_1"})
    assert [g.reward(agent) for agent in g.possible_agents] == [1, 1, 1, -1, -1]
    assert not g.acting and "who is not Merlin" in g.seen("player_0").text


def test_the_assassin_who_finds_merlin_wins():
    g = deal()
    for team in ((0, 1), (0, 1, 2), (1, 2)):
        mission(g, team)
    g.play({"player_4": "player_4"})
    assert not g.outcome("player_4").valid
    g.play({"player_4": "player_0"})
    assert [g.reward(agent) for agent in g.possible_agents] == [-1, -1, -1, 1, 1]


def test_three_failed_quests_win_for_evil():
    g = deal()
    mission(g, (0, 3), 3)
    assert "Quest 1 fails with 1 fail." in g.seen("player_1").text
    mission(g, (0, 3, 4), 3, 4)
    assert g.seen("player_3").progress == pytest.approx(2 / 3)
    mission(g, (0, 4), 4)
    assert g.state.winner == "evil" and g.seen("player_4").success
    assert "Roles: " in g.seen("player_4").text and "Roles: " not in g.seen("player_1").text


def test_five_rejected_proposals_win_for_evil():
    g = deal()
    for leader in range(5):
        assert g.acting == (f"player_{leader}",)
        propose(g, 0, 1)
        vote(g, 0, 1, 2)
    assert g.state.winner == "evil" and not g.acting


def test_half_of_the_votes_do_not_suffice():
    g = deal([MERLIN, SERVANT, SERVANT, SERVANT, MINION, ASSASSIN])
    propose(g, 0, 1)
    vote(g, 0, 1, 2)
    assert g.state.phase == "propose" and g.state.attempt == 2
    assert "Reject: player_0, player_1, player_2." in g.seen("player_3").text
    propose(g, 0, 1)
    vote(g, 0, 1)
    assert g.state.phase == "quest" and g.acting == ("player_0", "player_1")


def test_the_fourth_quest_of_seven_needs_two_fails():
    g = deal(SEVEN)
    for team, fails in (((0, 1), ()), ((0, 1, 2), ()), ((0, 1, 4), (4,))):
        mission(g, team, *fails)
    mission(g, (0, 1, 2, 6), 6)
    assert [result.success for result in g.state.results] == [True, True, False, True]
    assert "with 1 fail." in g.seen("player_0").text


def test_good_players_must_play_success():
    g = deal()
    propose(g, 0, 3)
    vote(g)
    assert g.seen("player_0").admissible == ("success",)
    assert g.seen("player_3").admissible == ("success", "fail")
    g.play({"player_0": "fail", "player_3": "fail"})
    assert g.acting == ("player_0",)
    g.play({"player_0": "success"})
    assert g.state.results[0].fails == 1


def test_who_knows_whom():
    roles = [MERLIN, PERCIVAL, SERVANT, *[SERVANT] * 3, MORGANA, MORDRED, OBERON, ASSASSIN]
    assert known_evil(roles, 0) == [6, 8, 9]
    assert known_evil(roles, 2) == known_evil(roles, 8) == []
    assert known_evil(roles, 6) == [7, 9]
    g = deal(roles, specials=[*SPECIALS])
    assert "Merlin is player_0 or player_6." in g.seen("player_1").text
    assert "Evil players you know: player_6, player_8, player_9." in g.seen("player_0").text
    assert "Other evil players: player_6, player_7." in g.seen("player_9").text
    assert all(name not in g.seen("player_2").text for name in ("Morgana", "evil"))


@pytest.mark.parametrize("team", ["player_3 player_0", "Player_0, and player_3.", "[player_0]"])
def test_teams_in_words(team):
    g = deal()
    g.play({"player_0": team})
    if team.startswith("["):
        assert not g.outcome("player_0").valid
    else:
        assert g.state.team == [0, 3]


@pytest.mark.parametrize("team", ["player_0", "player_0, player_0", "player_0, player_7", "all"])
def test_invalid_teams(team):
    g = deal()
    g.play({"player_0": team})
    assert "2 different players" in g.seen("player_0").feedback and not g.state.proposals


def test_talk_comes_before_the_vote():
    g = deal(talk_rounds=1, speech="menu")
    propose(g, 0, 3)
    assert g.state.phase == "talk" and len(g.acting) == 5
    g.play({a: "I suspect player_3." if a != "player_3" else "I trust player_0." for a in g.acting})
    assert g.state.phase == "vote" and ("trust", 3, 0) in g.state.talk
    assert "player_1: I suspect player_3." in g.seen("player_4").text


@pytest.mark.parametrize(
    ("said", "opinions"),
    [
        ("I suspect player_3.", [("suspect", 2, 3)]),
        ("I suspect player_3 and player_4, I trust player_0", [
            ("suspect", 2, 3), ("suspect", 2, 4), ("trust", 2, 0)]),
        ("I don\u2019t suspect player_3", []),
        ("Why should I trust player_3?", []),
        ("If I trust player_3, we lose", []),
        ("player_1 said: I trust player_3", []),
        ("I trust player_3 instead of player_4", [("trust", 2, 3)]),
        ("I suspect player_3 or player_4", []),
    ],
)  # fmt: skip
def test_only_stated_opinions_count(said, opinions):
    g = deal(talk_rounds=1)
    propose(g, 0, 1)
    g.play({agent: said if agent == "player_2" else "" for agent in g.acting})
    assert g.state.talk == opinions and f"player_2: {said}" in g.seen("player_0").text


def whole_game(game, levels, rng):
    while game.acting:
        game.play({a: game.script(levels[a], a, rng) for a in game.acting})
    return game


def good_wins(good, evil, games=20, **kwargs):
    game, rng, won = Avalon(**kwargs), np.random.default_rng(0), 0
    for i in range(games):
        game.begin(f"train/{i}")
        levels = {a: evil if is_evil(game.role(a)) else good for a in game.possible_agents}
        won += whole_game(game, levels, rng).state.winner == "good"
    return won / games


def test_levels_are_graded():
    assert good_wins("reasoning", "naive") > good_wins("naive", "naive") + 0.2
    assert good_wins("reasoning", "naive") >= good_wins("reasoning", "reasoning")
    assert good_wins("random", "reasoning") < good_wins("random", "random")


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(5, 10), st.sampled_from(sorted(MINDS)))
def test_games_end_and_beliefs_are_distributions(seed, players, level):
    game = Avalon(num_players=players)
    game.reset(seed=seed)
    rng = np.random.default_rng(seed)
    while game.acting:
        mine = view(game.state, 0)
        for me in range(players):
            for outside in (False, True):
                _, odds = beliefs(view(game.state, me), outside)
                assert odds.sum() == pytest.approx(1)
        assert suspicion(mine).sum() == pytest.approx(EVIL_PLAYERS[players])
        truth = [is_evil(role) for role in game.state.roles]
        odds = public_odds(players, mine.history)
        assert odds[(sides(players) == truth).all(axis=1)] > 0  # the truth stays possible
        game.play({a: game.script(level, a, rng) for a in game.acting})
    rewards = [game.reward(agent) for agent in game.possible_agents]
    assert set(rewards) <= {1.0, -1.0}


def test_a_fail_is_proof():
    g = deal()
    mission(g, (0, 3), 3)
    assert suspicion(view(g.state, 0))[3] == 1  # Merlin
    assert suspicion(view(g.state, 1))[[0, 3]].sum() >= 1
    assert clean(view(g.state, 1), (0, 3)) == 0
    mission(g, (3, 4, 0), 3, 4)
    assert suspicion(view(g.state, 1))[2] == 0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"talk_rounds": -1}, "talk_rounds must be"),
        ({"speech": "sung"}, "speech must be"),
        ({"specials": ["lancelot"]}, "specials must be"),
        ({"specials": ["morgana", "morgana"]}, "specials must be"),
        ({"specials": ["morgana", "mordred"]}, "at most 1"),
        ({"num_players": 4}, "num_players must be"),
    ],
)
def test_invalid_arguments(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        agentgym.make_parallel("Avalon-v0", **kwargs)


@pytest.mark.parametrize(
    "team",
    [
        "player_0, player_3", "[player_3, player_0]", "Team: player_0 and player_3.",
        "player\\_0, player\\_3", "My proposal: **player_0, player_3**", "Player 0, Player 3",
        "\\boxed{player_0, player_3}",
    ],
)  # fmt: skip
def test_a_team_may_have_marks_and_a_label(team: str):
    game = Avalon()
    game.reset(seed=0)
    assert game._parse(game.acting[0], team) == "player_0, player_3"


@pytest.mark.parametrize(
    "team", ["not player_0, player_3", "player_0 or player_3", "0, 3", "player_0 with player_3"]
)
def test_anything_else_is_no_team(team: str):
    game = Avalon()
    game.reset(seed=0)
    with pytest.raises(InvalidMove):
        game._parse(game.acting[0], team)
