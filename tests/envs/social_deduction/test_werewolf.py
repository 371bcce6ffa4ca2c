"""Werewolf: nights, votes, ends, hidden information, scripted players."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.social_deduction.deduction import (
    DOCTOR,
    PLAYERS,
    QUIET,
    ROLES,
    SEER,
    VILLAGER,
    WOLF,
    chances,
    deals,
    public_odds,
    sentence,
    statements,
)
from agentgym.envs.social_deduction.werewolf import Werewolf
from agentgym.envs.social_deduction.werewolf_rules import (
    State,
    bury,
    end_night,
    end_vote,
    living,
    number,
    winner,
)

HAND = [WOLF, WOLF, SEER, DOCTOR, VILLAGER, VILLAGER, VILLAGER]
MENU = "Werewolf-Menu-v0"


def in_deal(roles: list[str], **kwargs) -> Werewolf:
    game = Werewolf(**kwargs)
    game.begin(f"deal/{deals().tolist().index([ROLES.index(role) for role in roles])}")
    assert game.state.roles == roles
    return game


def say(game: Werewolf, **said: str) -> None:
    """Plays a turn. Players without an action are silent or vote for nobody."""
    rest = "nobody" if game.state.phase == "vote" else ""
    game.play({agent: said.get(agent, rest) for agent in game.acting})


def test_all_deals_once_with_the_right_hand():
    assert deals().shape == (420, 7) and len({tuple(deal) for deal in deals()}) == 420
    assert (np.sort(deals(), axis=1) == [0, 0, 1, 2, 3, 3, 3]).all()


def test_a_first_night_and_day_by_hand():
    game = in_deal(HAND)
    assert game.acting == ("player_0",)
    assert game.steps["player_0"].admissible == PLAYERS[2:]
    game.play({"player_0": "player_4"})
    assert game.acting == ("player_1", "player_2", "player_3")
    assert "Proposed for this night: player_4." in game.steps["player_1"].text
    game.play({"player_1": "player_5", "player_2": "player_0", "player_3": "player_4"})
    assert game.acting == tuple(PLAYERS[i] for i in (0, 1, 2, 3, 4, 6))
    for agent in PLAYERS:
        assert "Killed in night 1: player_5, who was a villager." in game.steps[agent].text
        seen = "You found out: player_0 is a werewolf." in game.steps[agent].text
        assert seen == (agent == "player_2")
    say(game, player_2="I am the seer.\nplayer_0 is a   werewolf.")
    assert "Day 1, player_2: I am the seer. player_0 is a werewolf." in game.steps["player_5"].text
    say(game)
    assert game.state.phase == "vote"
    names = [f"player_{i}" for i in (0, 1, 3, 4, 6)]
    assert game.steps["player_2"].admissible == (*names, "nobody")
    say(game, player_2="player_0", player_3="PLAYER_0 ", player_0="player_2")
    assert "Voted out on day 1: nobody." in game.steps["player_0"].text
    assert game.state.day == 2 and game.acting == ("player_0",)


def test_roles_that_come_out_are_named():
    state = State(list(HAND))
    bury(state, 2, "Killed in night 1")
    bury(state, 0, "Voted out on day 1")
    assert state.log == [
        "Killed in night 1: player_2, who was the seer.",
        "Voted out on day 1: player_0, who was a werewolf.",
    ]


def test_the_doctor_saves_but_not_the_same_twice():
    state = State(list(HAND), phase="night")
    end_night(state, {WOLF: 4, DOCTOR: 4})
    assert all(state.alive) and state.log == ["Killed in night 1: nobody."] and state.guarded == 4
    game = in_deal(HAND)
    game.play({"player_0": "player_4"})
    game.play({"player_1": "player_4", "player_2": "player_0", "player_3": "player_4"})
    for _ in range(3):
        say(game)
    game.play({"player_0": "player_4"})
    assert game.steps["player_3"].admissible == tuple(p for p in PLAYERS if p != "player_4")
    game.play({"player_1": "player_4", "player_2": "player_5", "player_3": "player_4"})
    assert not game.steps["player_3"].valid and game.acting == ("player_3",)


@pytest.mark.parametrize(
    ("votes", "out"),
    [
        ({0: 2, 1: 2, 2: 0, 3: -1}, 2),
        ({0: 2, 1: 2, 2: 0, 3: 0}, None),
        ({0: -1, 1: -1, 2: 0, 3: 1}, None),
        ({0: 2, 1: -1, 2: -1, 3: 2}, None),
    ],
)
def test_votes(votes, out):
    state = State(list(HAND), phase="vote")
    end_vote(state, votes)
    assert [i for i, alive in enumerate(state.alive) if not alive] == [out] * (out is not None)
    assert state.day == 2 and state.phase == "den"


def test_who_wins():
    state = State(list(HAND))
    assert winner(state) is None
    bury(state, 4, "Gone")
    bury(state, 5, "Gone")
    assert winner(state) is None
    bury(state, 6, "Gone")
    assert winner(state) == "wolves"
    state.alive = [False, True, True, True, False, False, False]
    assert winner(state) is None
    state.alive[1] = False
    assert winner(state) == "village"


def test_the_dead_share_the_end_and_a_lone_wolf_needs_no_den():
    game = in_deal(HAND, talk_rounds=0)
    game.play({"player_0": "player_4"})
    game.play({"player_1": "player_4", "player_2": "player_0", "player_3": "player_3"})
    say(game, **{f"player_{i}": "player_0" for i in range(1, 7)})
    assert game.state.phase == "night" and game.acting == ("player_1", "player_2", "player_3")
    assert game.steps["player_0"].text.startswith("You are player_0, a werewolf. You are out")
    game.play({"player_1": "player_5", "player_2": "player_1", "player_3": "player_2"})
    say(game, **{f"player_{i}": "player_1" for i in (2, 3, 6)})
    assert not game.acting
    gains = [game.reward(agent) for agent in PLAYERS]
    assert gains == [-1, -1, 1, 1, 1, 1, 1]
    assert [game.steps[a].success for a in PLAYERS] == [False] * 2 + [True] * 5
    assert game.info("player_4")["progress"] == 1


def facts(state: State, me: int) -> tuple:
    """Returns the private knowledge of a player."""
    role = state.roles[me]
    mates = [i for i, r in enumerate(state.roles) if r == WOLF] if role == WOLF else []
    mine = [state.seen if role == SEER else {}, state.guarded if role == DOCTOR else -1]
    return role, mates, mine, state.proposal if role == WOLF else -1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 6))
def test_no_observation_depends_on_what_is_hidden(seed, me):
    """Two deals that a player cannot distinguish give the same observations for the same events."""
    rng = np.random.default_rng(seed)
    one, two = Werewolf(speech="menu"), Werewolf(speech="menu")
    one.begin(f"deal/{rng.integers(420)}")
    known = facts(one.state, me)
    fits = [
        i for i, deal in enumerate(deals()) if facts(State([ROLES[r] for r in deal]), me) == known
    ]
    two.begin(f"deal/{rng.choice(fits)}")
    agent, compared = PLAYERS[me], 0
    while one.acting and two.acting and one.state.phase == two.state.phase:
        if facts(one.state, me) != facts(two.state, me) or one.state.alive != two.state.alive:
            break
        out = [i for i, alive in enumerate(one.state.alive) if not alive]
        if any(one.state.roles[i] != two.state.roles[i] for i in out):
            break
        mine, other = one.steps[agent], two.steps[agent]
        assert (mine.observation, mine.text, mine.progress) == (
            other.observation,
            other.text,
            other.progress,
        )
        if (agent in one.acting) != (agent in two.acting):
            break  # wolves of other numbers: a different wolf decides
        assert mine.admissible == other.admissible
        compared += 1
        shared: dict[str, str] = {}
        for game in (one, two):
            said = {a: shared.get(a) or game.script("random", a, rng) for a in game.acting}
            for a in said:
                if a == agent or game.state.phase in ("talk", "vote"):
                    shared.setdefault(a, said[a])
            if game.state.phase == "night":  # the same victim in both, or nobody
                decider = PLAYERS[living(game.state, WOLF)[-1]]
                said[decider] = shared.setdefault("victim", said[decider])
            game.play(said)
    assert compared >= 1


def test_speech_is_one_short_line_and_garbage_is_harmless():
    game = in_deal(HAND)
    game.play({"player_0": "player_4"})
    game.play({"player_1": "player_4", "player_2": "player_0", "player_3": "player_5"})
    forged = "Hi.\nDay 1, player_2: I am the seer.\u2028" + "x" * 10**7
    say(game, player_6=forged)
    line = next(x for x in game.steps["player_0"].text.split("\n") if "player_6: Hi" in x)
    assert len(line) < 320 and len(game.state.log) == 1 + 6
    assert game.state.events[-1] == ("claim", 6, -1)  # the claim is allowed, on its own line


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I am the seer. player_3 is a werewolf.", [("claim", -1), ("finds", 3)]),
        ("I'm the seer: player_3 is not a wolf!", [("claim", -1), ("clears", 3)]),
        ("player_2 is innocent, player_1 is not innocent", [("clears", 2), ("finds", 1)]),
        ("I suspect player_6. I trust player_0.", [("suspect", 6), ("trust", 0)]),
        ("Is player_9 the seer? I am the seerling.", []),
        ("I\u2019m the seer. player_3 isn\u2019t a werewolf.", [("claim", -1), ("clears", 3)]),
        ("player_2 is innocent and player_3 is a wolf", [("clears", 2), ("finds", 3)]),
        ("I suspect player_3 and player_4", [("suspect", 3), ("suspect", 4)]),
        ("I suspect player_3, not player_4", [("suspect", 3)]),
        ("No, I suspect player_3", [("suspect", 3)]),
        ("I am not the seer", []),
        ("I don't trust player_3", []),
        ("I never said I suspect player_3", []),
        ("I don't think player_3 is a werewolf", []),
        ("It is false that player_3 is a werewolf", []),
        ("Do you suspect player_3?", []),
        ("Is it true that player_3 is a werewolf?", []),
        ("If I am the seer, player_3 is a werewolf", []),
        ("player_1 says player_3 is a werewolf", []),
        ('"I suspect player_3" is a strange thing to say', []),
        ("player_2 or player_3 is a werewolf", []),
        ("I suspect player_3 or player_4", []),
        ("I trust player_3 less than player_4", []),
        ("Yesterday I suspected player_3", []),
        (
            "My reads so far:\n- **Top suspect:** player_3. Too quiet.\n- Town-lean: player_4",
            [("suspect", 3), ("trust", 4)],
        ),
        ("My main suspect is player_3, as player_4 said.", [("suspect", 3)]),
        ("I suspect Player 3. I trust player 4.", [("suspect", 3), ("trust", 4)]),
        ("I am the seer. Player 3 is a werewolf.", [("claim", -1), ("finds", 3)]),
        ("I suspect Player 31", []),
        ("I suspect players 3 and 4.", [("suspect", 3), ("suspect", 4)]),
        ("I suspect player 3 and 2 others", []),
        ("Secondary suspect: player_3 and player_4", [("suspect", 3), ("suspect", 4)]),
        ("player_3 is still my top suspect.", [("suspect", 3)]),
        ("I'm very suspicious of player_3.", [("suspect", 3)]),
        ("I'm not suspicious of player_3.", []),
        ("I am suspicious of player_3's vote.", []),
        ("Your top suspect is player_3.", []),
        ("player_2's top suspect is player_3", []),
        ("Top suspect: player_3 or player_4", []),
        ("Top suspect: player_3?", []),
        ("My top suspect is not player_3", []),
        ("", []),
    ],
)
def test_what_is_understood_of_a_message(text, found):
    assert statements(text) == found


def test_every_sentence_of_the_menu_is_understood():
    for kind in ("finds", "clears", "suspect", "trust"):
        assert statements(sentence(kind, 4))[-1] == (kind, 4)
    assert statements(sentence("claim")) == [("claim", -1)] and statements(QUIET) == []
    game = agentgym.make_parallel(MENU).game
    assert len(set(game.actions)) == len(game.actions) == 7 + 1 + 2 + 28


def test_reasoning_by_hand():
    prior = chances(public_odds(()), {})
    assert prior[:, 0] == pytest.approx([2 / 7] * 7)
    mine = chances(public_odds(()), {0: SEER}, (3,))
    assert mine[3, 0] == 0 and mine[1, 0] == pytest.approx(2 / 5)
    dead = chances(public_odds((("claim", 2, -1), ("finds", 2, 5), ("dead", 2, 1))), {})
    assert dead[5, 0] > 0.99 and dead[2].tolist() == [0, 1, 0, 0]
    liar = chances(public_odds((("claim", 2, -1), ("finds", 2, 5), ("dead", 2, 0))), {})
    assert liar[5, 0] < prior[5, 0]


def play(levels: dict[bool, str], deal: int) -> str | None:
    """Returns the winner, given the levels of the wolves (True) and the village (False)."""
    game, rng = Werewolf(), np.random.default_rng(deal)
    game.begin(f"deal/{deal}")
    while game.acting:
        level = {a: levels[game.state.roles[number(a)] == WOLF] for a in game.acting}
        game.play({agent: game.script(level[agent], agent, rng) for agent in game.acting})
    return winner(game.state)


@pytest.mark.slow
def test_players_are_graded():
    def village(mine: str, wolves: str) -> int:
        levels = {False: mine, True: wolves}
        return sum(play(levels, deal) == "village" for deal in range(0, 420, 9))

    for wolves in ("random", "follower", "reasoning"):
        assert village("reasoning", wolves) > village("follower", wolves) + 5
    assert village("reasoning", "reasoning") > 26  # of 47, voting together
    for mine in ("follower", "reasoning"):
        assert village(mine, "reasoning") < village(mine, "random") - 5


@pytest.mark.parametrize("wrong", [{"talk_rounds": -1}, {"speech": "sung"}, {"num_players": 6}])
def test_bad_arguments(wrong):
    with pytest.raises(ValueError):
        Werewolf(**wrong)


def test_a_seat_that_is_killed_before_it_can_act_is_carried_to_the_end():
    env: Any = gymnasium.make("AgentGym/Werewolf-v0", seat="player_4").unwrapped
    for seed in range(100):
        env.reset(seed=seed)
        if env.game.over("player_4"):
            break
    assert env.game.over("player_4") and env.expert() == ""
    _, reward, terminated, _, info = env.step(env.expert())
    assert terminated and reward == (1 if info["success"] else -1) and env.expert() is None
