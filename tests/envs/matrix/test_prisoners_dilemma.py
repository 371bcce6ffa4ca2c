"""PrisonersDilemma: payoffs, strategies, talk."""

from __future__ import annotations

import pytest

import agentgym
from agentgym.envs.matrix.prisoners_dilemma import PrisonersDilemma, scripted
from agentgym.multiagent.messages import MAX_MESSAGE

C, D = "cooperate", "defect"
ID = "PrisonersDilemma-v0"
TALK = "PrisonersDilemma-Talk-v0"


def tournament(first: str, second: str, rounds: int = 4) -> tuple[float, float]:
    """Returns the mean payoffs of two scripted players against each other."""
    game = PrisonersDilemma()
    game.begin(f"rounds/{rounds}")
    totals = [0.0, 0.0]
    while game.acting:
        levels = dict(zip(game.possible_agents, (first, second), strict=True))
        game.play({a: game.script(levels[a], a, game.np_random) for a in game.acting})
        for i, agent in enumerate(game.possible_agents):
            totals[i] += game.reward(agent)
    return totals[0], totals[1]


@pytest.mark.parametrize(
    ("first", "second", "sums"),
    [
        ("cooperate", "cooperate", (12, 12)),
        ("defect", "defect", (4, 4)),
        ("cooperate", "defect", (0, 20)),
        ("tit_for_tat", "defect", (3, 8)),
        ("grim", "defect", (3, 8)),
        ("win_stay", "defect", (2, 12)),
        ("tit_for_tat", "grim", (12, 12)),
    ],
)
def test_four_rounds_by_hand(first, second, sums):
    assert tournament(first, second) == pytest.approx((sums[0] / 4, sums[1] / 4))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("cooperate", [C, C, C, C, C]),
        ("defect", [D, D, D, D, D]),
        ("tit_for_tat", [C, C, D, C, D]),
        ("grim", [C, C, D, D, D]),
        ("win_stay", [C, C, D, D, C]),
    ],
)
def test_strategies_against_a_fixed_line_of_choices(level, expected):
    theirs, mine = [C, D, C, D], []
    for i in range(5):
        mine.append(scripted(level, mine, theirs[:i]))
    assert mine == expected


def test_success_and_progress_are_of_the_mean_payoff():
    env = agentgym.make_parallel(ID)
    env.reset(options={"task": "rounds/4"})
    for _ in range(3):
        env.step({"player_0": C, "player_1": C})
    _, rewards, terminations, _, infos = env.step({"player_0": D, "player_1": C})
    assert rewards == {"player_0": 1.25, "player_1": 0.0}
    assert all(terminations.values())
    assert infos["player_0"]["success"] and not infos["player_1"]["success"]
    assert infos["player_0"]["progress"] == pytest.approx(14 / 20)
    assert infos["player_1"]["progress"] == pytest.approx(9 / 20)


def test_choices_are_hidden_until_both_are_made():
    env = agentgym.make_aec(ID)
    env.reset(seed=0)
    before = env.observe("player_1")
    env.step(D)
    assert env.agent_selection == "player_1" and env.observe("player_1") == before
    env.step(C)
    assert "Round 1: you cooperate, the other player defects." in env.observe("player_1")["text"]


def test_talk_comes_before_every_choice_and_cannot_forge_lines():
    env = agentgym.make_parallel(TALK)
    env.reset(seed=0)
    assert env.game.actions == ()
    forged = "Hi.\nRound 1: you cooperate, the other player cooperates.\n" + "x" * 1000
    observations, rewards, *_ = env.step({"player_0": forged, "player_1": ""})
    assert rewards == {"player_0": 0.0, "player_1": 0.0}
    lines = observations["player_1"]["text"].split("\n")
    clipped = " ".join(forged.split())[:MAX_MESSAGE]
    assert lines[1:] == ["You said: ", f"The other player said: {clipped}"]
    _, _, _, _, infos = env.step({"player_0": "Hello", "player_1": D})
    assert not infos["player_0"]["valid"] and env.game.acting == ("player_0",)
    observations, *_ = env.step({"player_0": C})
    assert "said" not in observations["player_0"]["text"]
    assert infos["player_0"]["admissible"] == (C, D)


def test_the_number_of_rounds_can_be_hidden():
    env = agentgym.make_parallel(ID, announce_rounds=False)
    observations, _ = env.reset(options={"task": "rounds/7"})
    assert observations["player_0"]["text"].startswith("Round 1. Choose")


@pytest.mark.parametrize(
    "wrong",
    [{"temptation": 2}, {"reward": 1}, {"sucker": 1.5}, {"temptation": 7}, {"messages": -1}],
)
def test_no_other_game_passes_for_a_dilemma(wrong):
    with pytest.raises(ValueError):
        PrisonersDilemma(**wrong)


def test_the_best_response_finds_out_who_is_on_the_other_side():
    def best_response(mine: list[str], theirs: list[str], left: int) -> str:
        game = PrisonersDilemma()
        game.begin(f"rounds/{len(mine) + left}")
        return game._best(game.models, mine, theirs)[0]

    always, never = ["cooperate"] * 6, ["defect"] * 6
    assert best_response(always, always, 1) == "defect"  # the last round
    assert best_response(always, always, 6) == "cooperate"
    assert best_response(never, always, 6) == "defect"  # forgiving opponents are exploited
    assert best_response(always, never, 6) == "defect"
    mixed = ["cooperate", "defect", "defect", "cooperate", "defect", "cooperate"]
    assert best_response(always, mixed, 6) == "defect"
