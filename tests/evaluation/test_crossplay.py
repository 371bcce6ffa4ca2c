"""Cross-play of agents in games, and their ratings."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agentgym.agents import MixedAgent, RandomAgent, ScriptedAgent, View
from agentgym.cli.cross_play import agent_table, matrix_table
from agentgym.cli.viewer import render
from agentgym.errors import AgentGymError
from agentgym.evaluation import cross_play, evaluate, nashconv
from agentgym.evaluation.crossplay import CrossPlay, line_ups
from agentgym.evaluation.pictures import draw_cross_play
from agentgym.evaluation.ratings import ELO, bradley_terry, elo
from agentgym.evaluation.runner import plan_episodes
from agentgym.evaluation.tables import Match
from agentgym.registration.games import make_parallel


class Logged:
    """A random agent that keeps the seats and the sizes of its batches."""

    name = "logged"

    def __init__(self):
        self.seats, self.sizes = set(), []

    def act(self, views):
        self.sizes.append(len(views))
        self.seats |= {view.env.get_wrapper_attr("agent") for view in views}
        return RandomAgent().act(views)


def test_every_pair_plays_both_seats_with_the_same_deals():
    found = cross_play("KuhnPoker-v0", ["caller", "maniac", "tight"], episodes=5)
    lineups = set(itertools.product(range(3), repeat=2))
    assert len(found.matches) == 5 * 9
    for deal, matches in itertools.groupby(found.matches, lambda match: match.deal):
        played = list(matches)
        assert {match.lineup for match in played} == lineups
        assert len({(match.task, match.seed) for match in played}) == 1, deal
    matrix = np.array([[cell.mean for cell in row] for row in found.matrix()])
    assert matrix == pytest.approx(-matrix.T), "zero-sum"
    by_seat = [[[c.mean for c in row] for row in found.matrix(seat)] for seat in (0, 1)]
    assert matrix == pytest.approx(np.mean(by_seat, axis=0))
    plan = plan_episodes(make_parallel("KuhnPoker-v0").game.tasks, 5, "test", 0)
    assert {(match.task, match.seed) for match in found.matches} == set(plan)


def test_the_mean_approaches_the_exact_value():
    found = cross_play("KuhnPoker-v0", ["random", "maniac"], episodes=60)
    first, second = (
        nashconv("KuhnPoker-v0", pair).values
        for pair in (["random", "maniac"], ["maniac", "random"])
    )
    cell = found.matrix()[0][1]
    assert cell.low is not None and cell.high is not None
    width = cell.high - cell.low
    assert abs(cell.mean - (first[0] + second[1]) / 2) < width


def test_results_do_not_depend_on_the_number_of_parallel_games():
    agents = ["random", "greedy"]
    one, many = (
        cross_play("TicTacToe-v0", agents, episodes=4, num_games=n, seed=3) for n in (1, 7)
    )
    assert one == many
    assert one != cross_play("TicTacToe-v0", agents, episodes=4, seed=4)


def test_agents_act_in_batches_in_all_seats():
    agent = Logged()
    cross_play("LiarsDice-Four-v0", [agent, "honest"], episodes=2, num_games=8)
    assert agent.seats == {f"player_{i}" for i in range(4)}
    assert max(agent.sizes) > 4


@pytest.mark.parametrize(("agents", "seats"), [(1, 2), (2, 2), (3, 2), (2, 4), (1, 3)])
def test_line_ups_hold_every_pair_in_every_seat_once(agents, seats):
    found = line_ups(agents, seats)
    assert len(set(found)) == len(found)
    for i, j in itertools.product(range(agents), repeat=2):
        for seat in range(seats):
            assert tuple(i if place == seat else j for place in range(seats)) in found


def test_dilemmas_have_rates():
    found = cross_play("PrisonersDilemma-v0", ["cooperate", "defect", "tit_for_tat"], episodes=3)
    rates = found.dilemma()
    assert rates is not None
    assert rates[0] == (1.0, 0.0)
    cooperates, exploits = rates[1]
    assert cooperates == 0 and 0.25 < exploits < 0.45  # always, never and once per game
    assert rates[2][1] == 0 and 0.5 < rates[2][0] < 1
    assert found.ratings()[1].mean > found.ratings()[2].mean
    goods = cross_play("PublicGoods-v0", ["altruist", "free_rider"], episodes=1)
    assert goods.dilemma() == [(1.0, 0.0), (0.0, pytest.approx(0.4))]
    assert cross_play("KuhnPoker-v0", ["random"], episodes=1).dilemma() is None


def test_rounds_with_invalid_attempts_have_rates():
    def clumsy(view: View) -> str:
        return "defect" if len(view.history) % 2 else "hmm"

    def silent(view: View) -> str:
        return "hmm"

    rates = cross_play("PrisonersDilemma-v0", ["cooperate", clumsy], episodes=3).dilemma()
    assert rates == [(1.0, 0.0), (0.0, 0.5)]
    goods = cross_play("PublicGoods-v0", ["altruist", silent], episodes=1).dilemma()
    assert goods and goods[0] == (1.0, 0.0)
    assert 0.3 < goods[1][0] < 0.7, "the fallback is a random amount"
    kwargs = {"max_turns": 3, "max_invalid": 4}
    found = cross_play("PrisonersDilemma-v0", ["cooperate", silent], episodes=1, env_kwargs=kwargs)
    data = found.to_json()  # no round of the second agent is finished
    assert data["cooperation"] == [1.0, None] and data["exploitation"] == [0.0, None]
    columns = agent_table(found, []).columns
    assert [[*column.cells] for column in columns[2:]] == [["100.0", ""], ["0.0", ""]]


def test_moves_of_the_game_count_as_choices():
    game = make_parallel("PrisonersDilemma-v0", max_invalid=1).game
    game.reset(seed=0)
    assert game.cooperation("player_0") == ()
    for _ in range(3):
        game.play({"player_0": "hmm", "player_1": "cooperate"})
    moves = [first for first, _ in game.state.history]
    assert game.cooperation("player_0") == tuple(float(move == "cooperate") for move in moves)
    assert game.cooperation("player_1") == (1.0, 1.0, 1.0)
    poker = make_parallel("KuhnPoker-v0").game
    poker.reset(seed=0)
    assert poker.cooperation("player_0") is None


def test_conventions_show_as_a_gap_between_self_play_and_cross_play():
    def stag(view: View) -> str:
        return "stag"

    def hare(view: View) -> str:
        return "hare"

    found = cross_play("StagHunt-v0", [stag, hare], episodes=2)
    means = [[cell.mean for cell in row] for row in found.matrix()]
    gap = (means[0][0] + means[1][1]) / 2 - (means[0][1] + means[1][0]) / 2
    assert found.self_play_gap() == pytest.approx(gap) and gap > 0
    assert cross_play("KuhnPoker-v0", ["random"], episodes=1).self_play_gap() is None


def test_transcripts_of_all_seats_open_in_the_viewer(tmp_path):
    path = tmp_path / "games.jsonl"
    found = cross_play("KuhnPoker-v0", ["tight", "maniac"], episodes=2, save=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 2 * len(found.matches)
    assert {line["seat"] for line in lines} == {"player_0", "player_1"}
    for line in lines:
        lineup = tuple(found.agents.index(name) for name in line["players"].values())
        (match,) = [m for m in found.matches if m.lineup == lineup and m.seed == line["seed"]]
        seat = int(line["seat"][-1])
        assert line["reward"] == pytest.approx(match.returns[seat])
        assert line["agent"] == found.agents[match.lineup[seat]]
        assert sum(turn["reward"] for turn in line["transcript"]) == pytest.approx(line["reward"])
        cards = {
            turn["observation"].partition("Your card is ")[2][0] for turn in line["transcript"]
        }
        assert cards <= set("JQK")
    assert "maniac" in render(path)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_seat_of_cross_play_equals_a_single_seat():
    """The same deals give the same returns as `evaluate` in one seat against a scripted player."""
    games = cross_play("KuhnPoker-v0", ["caller", "maniac"], episodes=6)
    kwargs = {"seat": "player_0", "opponents": "maniac"}
    calls = lambda view: next(a for a in view.info["admissible"] if a in ("check", "call"))  # noqa: E731

    class Caller:
        name = "caller"

        def act(self, views):
            return [calls(view) for view in views]

    report = evaluate("KuhnPoker-v0", Caller(), tasks=6, env_kwargs=kwargs)
    assert [e.reward for e in report.episodes] == pytest.approx(
        [match.returns[0] for match in games.matches if match.lineup == (0, 1)]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": ["random", "genius"]}, "Unknown agent 'genius' for KuhnPoker"),
        ({"agents": []}, "at least one agent"),
        ({"agents": "random"}, "Expected a sequence"),
        ({"episodes": 0}, "at least 1, got 0"),
        ({"self_play": False}, "self_play=False needs at least two agents"),
        ({"num_games": 0}, "num_games must be at least 1"),
        ({"env": "NumberLine-v0"}, "single-agent environment"),
        ({"env_kwargs": {"handz": 3}}, "Did you mean: hands"),
        ({"env_kwargs": {"split": "train"}}, "leave split out of env_kwargs"),
    ],
)
def test_bad_input_is_named(arguments, message):
    call = {"env": "KuhnPoker-v0", "agents": ["random"], "episodes": 1, **arguments}
    with pytest.raises(AgentGymError, match=message):
        cross_play(**call)


def test_an_agent_must_answer_all_views():
    class Mute:
        name = "mute"

        def act(self, views):
            return []

    with pytest.raises(ValueError, match="Agent 'mute' must return"):
        cross_play("KuhnPoker-v0", [Mute()], episodes=1)


@pytest.mark.parametrize("answer", [None, 5, np.int64(4), ["5"]])
def test_an_agent_must_answer_with_a_string(answer: Any):
    """The number of an action is not read as a cell of the board with this name."""
    with pytest.raises(TypeError, match="An action must be a str, got"):
        cross_play("TicTacToe-v0", [lambda view: answer, "random"], episodes=1)


def test_the_member_of_a_mixture_that_played_is_told_of_the_end():
    class Told:
        def __init__(self, name: str):
            self.name, self.acted, self.told = name, set[Any](), set[Any]()

        def act(self, views: Sequence[View]) -> list[str]:
            self.acted |= {*views}
            return [view.info["admissible"][0] for view in views]

        def finish(self, view: View) -> None:
            self.told.add(view)

    members = Told("a"), Told("b")
    inner = MixedAgent(members, [1, 1], name="inner")
    mixed = MixedAgent([inner, ScriptedAgent("random")], [2, 1])
    cross_play("KuhnPoker-v0", [mixed, "random"], episodes=6)
    for member in members:
        assert member.told == member.acted != set()


# Ratings.


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=5))
def test_strengths_are_recovered_from_expected_wins(strengths):
    true = np.array(strengths) - np.mean(strengths)
    wins = 100 / (1 + np.exp(true[None] - true[:, None]))
    assert bradley_terry(wins, prior=0) == pytest.approx(true, abs=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=9, max_size=9), st.permutations(range(3)))
def test_ratings_follow_the_agents(numbers, order):
    wins = np.array(numbers, float).reshape(3, 3)
    shuffled = wins[np.ix_(order, order)]
    assert bradley_terry(shuffled) == pytest.approx(bradley_terry(wins)[list(order)], abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9), st.sampled_from([10, 1000, 100_000]), st.integers(0, 9))
def test_ratings_of_unequal_agents_are_at_the_maximum(agents: int, games: int, upsets: int):
    """The wins that the model expects of each agent are those that it has."""
    shape = (agents, agents)
    wins = np.triu(np.full(shape, games), 1) + np.tril(np.full(shape, upsets), -1)
    found = bradley_terry(wins.astype(float))
    expected = 1 / (1 + np.exp(found[None] - found[:, None]))
    counted = wins + (1 - np.eye(agents)) / 2  # with half a win more in both directions
    won = ((counted + counted.T) * expected).sum(1)
    assert won == pytest.approx(counted.sum(1), abs=1e-9 * games)
    assert found.mean() == pytest.approx(0, abs=1e-9)


def test_agents_that_did_not_play_have_no_strength():
    wins = np.zeros((2, 5, 5))
    wins[:, 0, 1] = wins[:, 2, 3] = 3
    half = np.log(3.5 / 0.5) / 2
    assert bradley_terry(wins) == pytest.approx(np.tile([half, -half, half, -half, 0], (2, 1)))


def test_an_agent_that_wins_every_game_has_a_finite_rating():
    wins = np.zeros((10, 2, 2))
    wins[:, 0, 1] = 1
    ratings, low, high = elo(wins)
    assert ratings == pytest.approx([ELO * np.log(10.5 / 0.5) / 2 * sign for sign in (1, -1)])
    assert (low < ratings - 100).all() and (ratings + 100 < high).all()
    chance = 1 / (1 + np.exp(-2 * low[0] / ELO))  # of a win, in the worst case
    assert chance == pytest.approx(0.78, abs=0.03)  # 10 of 10, with Jeffreys prior


def test_a_single_deal_has_no_interval():
    result = cross_play("TicTacToe-v0", ["random", "optimal"], episodes=["opening/"])
    for rating, row in zip(result.ratings(), result.matrix(), strict=True):
        assert rating.low is rating.high is row[0].low is None
    assert agent_table(result, []).row_count == 2
    assert result.ratings()[0].mean == -result.ratings()[1].mean < 0


def test_intervals_cover_the_truth_and_shrink():
    rng = np.random.default_rng(0)
    covered, widths = 0, []
    for deals in [40] * 30 + [400]:
        won = rng.random(deals) < 0.7
        wins = np.zeros((deals, 2, 2))
        wins[:, 0, 1], wins[:, 1, 0] = won, ~won
        _, low, high = elo(wins, resamples=200)
        covered += low[0] < ELO * np.log(0.7 / 0.3) / 2 < high[0]
        widths.append(high[0] - low[0])
    assert covered >= 26
    assert widths[-1] < min(widths[:-1])


def test_two_agents_can_play_each_other_alone_on_given_tasks(tmp_path):
    result = cross_play(
        "TicTacToe-v0", ["random", "optimal"], episodes=["opening/", "opening/5"], self_play=False
    )
    assert [(m.deal, m.lineup) for m in result.matches] == [
        (0, (0, 1)), (0, (1, 0)), (1, (0, 1)), (1, (1, 0))
    ]  # fmt: skip
    assert [m.task for m in result.matches[::2]] == ["opening/", "opening/5"]
    with_self = cross_play("TicTacToe-v0", ["random", "optimal"], episodes=["opening/"])
    assert result.returns(0, 1)[:1] == with_self.returns(0, 1)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["matrix"][0][0] is data["matrix_by_seat"][1][1][1] is None
    assert data["matrix"][0][1]["mean"] == -data["matrix"][1][0]["mean"]
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(matrix_table(result))
    assert "None" not in capture.get() and "nan" not in capture.get()
    draw_cross_play(result, tmp_path / "matrix.png")
    assert (tmp_path / "matrix.png").stat().st_size > 1000
    hunts = cross_play("StagHunt-v0", ["random", "stag"], episodes=1, self_play=False)
    assert hunts.self_play_gap() is None


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_the_tables_of_many_agents_fit_into_80_columns(count: int):
    agents = tuple(f"an-agent-{i}" for i in range(count))
    matches = [
        Match(deal, pair, "opening/", deal, (-1.0, 1.0))
        for deal in range(2)
        for pair in itertools.product(range(count), repeat=2)
    ]
    result = CrossPlay("AgentGym/TicTacToe-v0", agents, "test", 0, True, matches=matches)
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(matrix_table(result))
        console.print(agent_table(result, ()))
    shown = capture.get().splitlines()
    rows = [line for line in shown if re.match(r"(\d )?an-agent-\d+ +\S*\d", line)]
    assert len(rows) == 2 * count and len(shown) <= 2 * count + 7, "one line per agent"
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_finished_games_are_in_the_error_that_ends_the_others(error: type[BaseException]):
    calls = []

    def fails(view: View) -> str:
        calls.append(view)
        if len(calls) > 20:
            raise error
        return view.info["admissible"][0]

    with pytest.raises(error) as caught:
        cross_play("KuhnPoker-v0", [fails, "maniac"], episodes=30, num_games=1)
    result = caught.value.result  # type: ignore[attr-defined]
    assert 0 < len(result.matches) < 30
    assert np.isfinite(result.matrix()[0][0].mean)
    assert bool(getattr(caught.value, "__notes__", ())) == (error is KeyError)
