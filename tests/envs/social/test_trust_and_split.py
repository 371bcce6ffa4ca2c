"""TrustAndSplit: earnings by hand, scripted players, credible promises, the expert."""

from __future__ import annotations

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.envs.social.trust import (
    GAMES,
    Round,
    earnings,
    kept_word,
    kind_of,
    move,
    shown,
)
from agentgym.envs.social.trust_and_split import TrustAndSplit

ID = "TrustAndSplit-v0"
QUIET = [-1, -1]
BOTH = ("player_0", "player_1")


def play(levels: tuple[str, str], task: str, **kwargs) -> tuple[TrustAndSplit, list[float]]:
    """Plays an episode of scripted players. Returns the game and both returns."""
    game = TrustAndSplit(**kwargs)
    game.reset(0, task)
    totals = [0.0, 0.0]
    while game.acting:
        pairs = zip(BOTH, levels, strict=True)
        game.play({a: game.script(x, a, game.np_random) for a, x in pairs if a in game.acting})
        totals = [t + game.reward(a) for t, a in zip(totals, BOTH, strict=True)]
    return game, totals


@pytest.mark.parametrize(
    ("game", "one", "expected"),
    [
        ("trust", Round(0, QUIET, 10, 15), [15, 15]),
        ("trust", Round(1, QUIET, 4, 0), [12, 6]),
        ("ultimatum", Round(0, QUIET, 3, 1), [7, 3]),
        ("ultimatum", Round(1, QUIET, 3, 0), [0, 0]),
        ("dictator", Round(1, QUIET, 2), [2, 8]),
    ],
)
def test_earnings_by_hand(game: str, one: Round, expected: list[int]):
    assert earnings(game, one) == expected


@given(st.integers(0, 10), st.integers(0, 30), st.integers(0, 1))
def test_tokens_are_neither_lost_nor_made(sent: int, answer: int, leader: int):
    returned = min(answer, 3 * sent)
    assert sum(earnings("trust", Round(leader, QUIET, sent, returned))) == 10 + 2 * sent
    assert min(earnings("trust", Round(leader, QUIET, sent, returned))) >= 0
    assert sum(earnings("ultimatum", Round(leader, QUIET, sent, 1))) == 10


@pytest.mark.parametrize(
    ("levels", "task", "returns"),
    [
        (("fair", "fair"), "trust/4", [1, 1]),
        (("fair", "fair"), "ultimatum/4", [1, 1]),
        (("fair", "fair"), "dictator/4", [1, 1]),
        (("selfish", "selfish"), "trust/4", [1 / 3, 1 / 3]),
        (("selfish", "fair"), "trust/4", [4 / 3, 0]),
        (("selfish", "fair"), "ultimatum/4", [0.5, 0.5]),
        (("selfish", "fair"), "dictator/4", [1.5, 0.5]),
        (("reciprocal", "selfish"), "trust/2", [0, 4 / 3]),
    ],
)
def test_returns_of_whole_games(levels: tuple[str, str], task: str, returns: list[float]):
    game, totals = play(levels, task)
    assert totals == pytest.approx(returns)
    assert [game.steps[agent].success for agent in BOTH] == [x >= 1 for x in returns]


@pytest.mark.parametrize(("asks", "wins"), [("", False), ("Give me 5.", True)])
def test_a_dictator_that_keeps_everything_has_no_success_alone(asks: str, wins: bool):
    game = TrustAndSplit()
    game.reset(0, "dictator/4")
    while game.acting:
        mine = "0" if game.steps["player_0"].admissible else asks
        theirs = game.script("persuadable", "player_1", game.np_random)
        game.play({a: w for a, w in zip(BOTH, (mine, theirs), strict=True) if a in game.acting})
    assert game.state.earned[0] >= 20 and game.steps["player_0"].success == wins


@pytest.mark.parametrize(
    ("level", "game", "one", "me", "expected"),
    [
        ("selfish", "ultimatum", Round(0, QUIET), 0, 1),
        ("selfish", "ultimatum", Round(0, QUIET, 0), 1, 0),
        ("selfish", "ultimatum", Round(0, QUIET, 1), 1, 1),
        ("fair", "ultimatum", Round(0, QUIET, 2), 1, 0),
        ("fair", "ultimatum", Round(0, QUIET, 3), 1, 1),
        ("fair", "trust", Round(0, QUIET, 6), 1, 9),
        ("persuadable", "trust", Round(0, [-1, 15]), 0, 10),
        ("persuadable", "trust", Round(0, [-1, 9]), 0, 0),
        ("persuadable", "trust", Round(0, [15, -1]), 0, 0),
        ("persuadable", "ultimatum", Round(0, [-1, 4]), 0, 4),
        ("persuadable", "ultimatum", Round(0, [-1, 9]), 0, 5),
        ("persuadable", "ultimatum", Round(0, [4, -1], 3), 1, 0),
        ("persuadable", "dictator", Round(0, [-1, 2]), 0, 2),
        ("reciprocal", "trust", Round(0, QUIET, 4), 1, 2),
    ],
)
def test_what_scripted_players_do(level: str, game: str, one: Round, me: int, expected: int):
    assert move(level, game, [one], me) == expected


def test_kindness_is_returned_in_kind():
    assert shown("trust", Round(0, QUIET, 10, 15), 1) == 1
    assert shown("trust", Round(0, QUIET, 0, 0), 1) is None
    assert shown("ultimatum", Round(0, QUIET, 2, 1), 0) == pytest.approx(0.4)
    past = [Round(0, QUIET, 10, 6)]  # two fifths of a fair half
    assert move("reciprocal", "trust", [*past, Round(1, QUIET, 5), Round(0, QUIET)], 0) == 5
    assert move("reciprocal", "trust", [*past, Round(0, QUIET)], 0) == 4


def test_a_broken_word_is_remembered():
    kept, broken = Round(0, [-1, 12], 10, 12), Round(0, [-1, 12], 10, 11)
    assert kept_word([kept, Round(0, [-1, 12], 2, 6)], 1)  # all it had
    assert not kept_word([kept, broken], 1)
    now = Round(0, [-1, 15])
    assert move("persuadable", "trust", [kept, now], 0) == 10
    assert move("persuadable", "trust", [kept, broken, now], 0) == 0


def test_players_are_told_apart():
    assert kind_of("trust", [Round(0, QUIET, 10, 0)], 1) == "selfish"
    assert kind_of("trust", [Round(0, QUIET, 10, 15)], 0) in ("reciprocal", "fair")
    unkind = [Round(0, QUIET, 10, 0), Round(1, QUIET, 0, 0), Round(0, QUIET, 10, 0)]
    assert kind_of("trust", unkind, 0) == "fair"


@pytest.mark.parametrize("game", GAMES)
def test_the_expert_gains_from_everybody_who_can_be_moved(game: str):
    for other in ("fair", "reciprocal", "persuadable"):
        _, (first, _) = play(("best_response", other), f"{game}/8")
        _, (_, second) = play((other, "best_response"), f"{game}/8")
        assert min(first, second) >= 1 and max(first, second) > 1
    assert play(("best_response", "selfish"), f"{game}/8")[1][0] > (0.2 if game == "trust" else 0.9)


def test_who_moves_when_and_what_is_shown():
    env = agentgym.make_parallel(ID)
    observations, _ = env.reset(seed=0, options={"task": "trust/2"})
    assert env.game.acting == BOTH
    assert observations["player_1"]["text"] == (
        "Trust game, round 1 of 2. player_0 leads. Send a message to the other player."
    )
    observations, *_ = env.step({"player_0": "", "player_1": "I return\n15"})
    assert env.game.acting == ("player_0",)
    assert observations["player_0"]["text"].endswith("player_1 said: I return 15")
    observations, _, _, _, infos = env.step({"player_0": "6"})
    assert env.game.acting == ("player_1",) and len(infos["player_1"]["admissible"]) == 19
    assert "You hold 18: how many do you return?" in observations["player_1"]["text"]
    observations, rewards, *_ = env.step({"player_1": "9"})
    assert rewards == pytest.approx({"player_0": 13 / 30, "player_1": 9 / 30})
    assert observations["player_0"]["text"].endswith(
        "Round 1: you sent 6, player_1 received 18 and returned 9."
    )
    env.step({"player_0": "hi", "player_1": "hi"})
    _, rewards, terminations, *_ = env.step({"player_1": "0"})  # nothing to return
    assert all(terminations.values()) and rewards == pytest.approx(
        {"player_0": 0, "player_1": 1 / 3}
    )


def test_offers_are_accepted_or_rejected():
    env = agentgym.make_parallel(ID, messages=0)
    env.reset(seed=0, options={"task": "ultimatum/2"})
    env.step({"player_0": "2"})
    _, _, _, _, infos = env.step({"player_1": "2"})
    assert not infos["player_1"]["valid"] and infos["player_1"]["admissible"] == (
        "accept",
        "reject",
    )
    observations, rewards, *_ = env.step({"player_1": "Reject"})
    assert not any(rewards.values()) and env.game.acting == ("player_1",)
    assert "Round 1: player_0 offered 2 of 10, you rejected." in observations["player_1"]["text"]


@pytest.mark.parametrize("said", ["11", "-1", "everything", ""])
def test_what_is_no_amount_is_asked_again(said: str):
    env = agentgym.make_parallel(ID, messages=0, max_invalid=2)
    env.reset(seed=0, options={"task": "dictator/2"})
    for _ in range(2):
        assert env.game.acting == ("player_0",)
        _, _, _, _, infos = env.step({"player_0": said})
        assert not infos["player_0"]["valid"]
    assert 0 <= env.game.state.played[0].sent <= 10 and env.game.acting == ("player_1",)


@pytest.mark.parametrize("wrong", [{"variant": "trsut"}, {"messages": -1}, {"num_players": 3}])
def test_impossible_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrustAndSplit(**wrong)


@pytest.mark.parametrize("variant", GAMES)
def test_the_variant_can_be_chosen_through_gymnasium(variant: str):
    env = gymnasium.make(f"AgentGym/{ID}", variant=variant)
    assert env.reset(seed=0)[1]["task"].startswith(f"{variant}/")
