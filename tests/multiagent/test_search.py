"""Monte-Carlo tree search in the seats of games."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from agentgym.errors import AgentGymError
from agentgym.evaluation import cross_play
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.search import GameSearch
from agentgym.multiagent.seats import game_agent, seat_view
from agentgym.registration.games import make_parallel
from agentgym.registration.making import make_env


def started(id: str, task: str | None = None, **kwargs: Any) -> TextGame:
    game = make_parallel(f"AgentGym/{id}", **kwargs).game
    game.reset(seed=0, task=task)
    return game


def choice(game: TextGame, simulations: int, agent: str = "player_0") -> str:
    view = seat_view(game, agent, np.random.default_rng(0))
    before = game.snapshot()
    [action] = GameSearch(budget=simulations).act([view])
    assert game.snapshot() == before
    assert view.costs["search_steps"] >= simulations and view.costs["searches"] == 1
    return action


@pytest.mark.parametrize(
    ("moves", "expected"), [("1524", "3"), ("15246", "3"), ("1", "5"), ("159", "2468")]
)
def test_it_wins_blocks_and_sees_threats_of_two_lines(moves: str, expected: str):
    game = started("TicTacToe-v0", "opening/")
    for ply, cell in enumerate(moves):
        game.play({f"player_{ply % 2}": cell})
    assert choice(game, 250, game.acting[0]) in expected


def test_agents_that_act_at_once_seek_their_own_return():
    """Defection dominates in the prisoner's dilemma; stag or hare are both equilibria."""
    game = started("PrisonersDilemma-v0", "rounds/4")
    assert {choice(game, 60, agent) for agent in game.acting} == {"defect"}


def test_more_than_two_players_and_chance_are_searched():
    game = started("LiarsDice-Four-v0")
    assert choice(game, 3, game.acting[0]) in game.seen(game.acting[0]).admissible


@pytest.mark.parametrize("id", ["TicTacToe-v0", "LiarsDice-Four-v0", "Werewolf-Menu-v0"])
def test_admissible_actions_are_those_of_the_observation(id: str):
    game, rng = started(id), np.random.default_rng(0)
    while game.acting:
        for agent in game.possible_agents:
            assert game.copy().admissible(agent) == game.copy().seen(agent).admissible
        before, twin = game.snapshot(), game.copy()
        actions = {agent: game.script("random", agent, rng) for agent in game.acting}
        twin.play(actions)
        assert game.snapshot()["state"] == before["state"] != twin.snapshot()["state"]
        game.play(actions)


def test_it_beats_random_and_is_an_opponent():
    search = "search:mcts,budget=100"
    players, tasks = [search, "random"], ["opening/"] * 3
    result = cross_play("TicTacToe-v0", players, episodes=tasks, self_play=False)
    returns = [match.returns[match.lineup.index(0)] for match in result.matches]
    assert len(returns) == 6 and sum(returns) >= 4 and min(returns) >= 0
    env = make_env("TicTacToe-v0", opponents=search, seat="player_1")
    env.reset(seed=0, options={"task": "opening/"})
    assert env.unwrapped.opponents["player_0"] == search  # type: ignore[attr-defined]


def test_a_state_has_one_search_and_one_action_with_per_state():
    def played(search: GameSearch, seed: int, task: str, moves: str = "") -> tuple[str, float]:
        game = started("TicTacToe-v0", task)
        for ply, cell in enumerate(moves):
            game.play({f"player_{ply % 2}": cell})
        view = seat_view(game, game.acting[0], np.random.default_rng(seed))
        [action] = search.act([view])
        return action, view.costs["search_steps"]

    search = GameSearch(budget=8, per_state=True)
    first, cost = played(search, 0, "opening/5-1")
    assert cost > 0
    # Another episode, other random numbers, the same board: the same action without a search.
    assert played(search, 1, "opening/", "51") == (first, 0)
    assert played(search, 0, "opening/5-2")[1] > 0
    # A new object repeats the search exactly, so that a resumed run goes on as before.
    assert played(GameSearch(budget=8, per_state=True), 2, "opening/5-1") == (first, cost)
    # Without the option, the random numbers decide.
    plain = {played(GameSearch(budget=8), seed, "opening/5-1")[0] for seed in range(12)}
    assert len(plain) > 1


def test_with_per_state_games_with_other_rules_have_searches_of_their_own():
    teams = [
        [{"name": name, "kind": "act", "instructions": "Act."} for name in (first, "mover")]
        for first in ("adviser", "scout")
    ]
    rules: list[tuple[str, dict[str, Any]]] = [
        ("StagHunt-v0", {}),
        ("StagHunt-v0", {"stag": 100}),
        *(("Team-NumberLine-v0", {"roles": team}) for team in teams),
    ]
    for size in (6, 7):
        maze = {"env": "Maze-v0", "env_kwargs": {"size": size}}
        rules.append(("Team-NumberLine-v0", {"roles": teams[0], **maze}))
    search, searches = GameSearch(budget=4, per_state=True), []
    for id, kwargs in (*rules, *rules):
        game = started(id, make_parallel(id, **kwargs).game.tasks.train[0], **kwargs)
        view = seat_view(game, game.acting[0], np.random.default_rng(0))
        search.act([view])
        searches.append(view.costs["searches"])
    assert searches == [1] * 6 + [0] * 6


def test_with_per_state_the_state_of_an_environment_counts():
    roles = [{"name": name, "kind": "act", "instructions": "Act."} for name in ("adviser", "mover")]
    rules: dict[str, Any] = {"roles": roles, "env_kwargs": {"size": 6, "max_turns": 4}}
    search, searches = GameSearch(budget=4, per_state=True), []
    for task, seed in (("train/0", 0), ("train/1", 1), ("train/0", 0)):
        game = make_parallel("Team-NumberLine-v0", **rules).game
        game.reset(seed=seed, task=task)
        for action in ("+", "-"):
            view = seat_view(game, game.acting[0], np.random.default_rng(0))
            search.act([view])
            searches.append(view.costs["searches"])
            game.play({game.acting[0]: action})
    assert searches == [1, 1, 1, 1, 0, 0]


def test_with_a_temperature_actions_are_sampled_by_their_visits():
    def played(temperature: float, budget: int = 40) -> Counter[str]:
        search = GameSearch(budget=budget, per_state=True, temperature=temperature)
        views = [seat_view(game, "player_1", np.random.default_rng(seed)) for seed in range(300)]
        found = Counter(search.act(views))
        assert sum(view.costs["searches"] for view in views) == 1
        return found

    game = started("TicTacToe-v0", "opening/")
    game.play({"player_0": "5"})
    [best] = played(0.0)
    sampled = played(1.0)
    assert len(sampled) == 8 and sampled[best] == max(sampled.values())
    assert [*played(1e-3)] == [best]
    # 40 simulations try each of 8 actions: at a high temperature they are equally probable.
    assert all(20 <= count <= 60 for count in played(1e6).values())
    views = [seat_view(game, "player_1", np.random.default_rng(7)) for _ in range(2)]
    first, second = (GameSearch(budget=9, temperature=1.0).act([view]) for view in views)
    assert first == second


@pytest.mark.parametrize(
    ("id", "word", "message"),
    [
        ("TicTacToe-v0", "search:astar", "the search is search:mcts, got 'search:astar'"),
        ("TicTacToe-v0", "search", "the search is search:mcts, got 'search'"),
        ("TicTacToe-v0", "search:mcts,budget=0", "budget must be at least 1, got 0"),
        ("TicTacToe-v0", "search:mcts,exploration=-1", "exploration must be at least 0, got -1"),
        ("TicTacToe-v0", "search:mcts,temperature=-1", "temperature must be at least 0, got -1"),
        ("TicTacToe-v0", "search:mcts,depth=3", "unexpected keyword argument 'depth'"),
        ("TicTacToe-v0", "search:mcts,budget=many", "'budget' of .* is int"),
        ("TicTacToe-v0", "search:mcts,per_state=7", "'per_state' of .* is bool"),
        ("DealOrNoDeal-v0", "search:mcts", "lists no admissible actions for player_"),
    ],
)
def test_bad_input_is_explained(id: str, word: str, message: str):
    game = started(id)
    view = seat_view(game, game.acting[0], np.random.default_rng(0))
    with pytest.raises(AgentGymError, match=message):
        game_agent(game, word).act([view])
