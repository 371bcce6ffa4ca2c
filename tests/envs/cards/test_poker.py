"""KuhnPoker and LeducPoker: rules, equilibria and best responses against brute force."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.envs.cards import solver
from agentgym.envs.cards.kuhn_poker import RULES as KUHN
from agentgym.envs.cards.kuhn_poker import KuhnPoker, kuhn_equilibrium
from agentgym.envs.cards.leduc_poker import RULES as LEDUC
from agentgym.envs.cards.leduc_poker import LeducPoker, leduc_equilibrium
from agentgym.envs.cards.poker import LEVELS, betting, gain, simple_strategy, tree

GAMES = [KuhnPoker, LeducPoker]
by_game = pytest.mark.parametrize("game", GAMES)
J, Q, K = 0, 1, 2


@pytest.mark.parametrize(
    ("moves", "cards", "won"),
    [
        ("kk", (K, Q), 1),
        ("kk", (J, Q), -1),
        ("bf", (J, K), 1),
        ("kbf", (K, J), -1),
        ("bc", (J, K), -2),
        ("kbc", (K, Q), 2),
    ],
)
def test_all_endings_of_kuhn(moves, cards, won):
    assert betting(KUHN, moves).moves == ""
    assert gain(KUHN, moves, cards) == won


@pytest.mark.parametrize(
    ("moves", "cards", "won"),
    [
        ("bf", (J, K, Q), 1),
        ("brf", (J, K, Q), -3),
        ("kbrf", (J, K, Q), 3),
        ("kkkk", (J, K, J), 1),
        ("kkkk", (J, K, Q), -1),
        ("kkkk", (Q, Q, K), 0),
        ("brcbrc", (Q, K, Q), 13),
        ("bckbrf", (Q, K, K), 7),
        ("bckbf", (Q, K, K), -3),
        ("kbrckbrc", (J, Q, K), -13),
    ],
)
def test_endings_of_leduc_by_hand(moves, cards, won):
    assert betting(LEDUC, moves).moves == ""
    assert gain(LEDUC, moves, cards) == won


def test_what_is_possible():
    assert betting(KUHN, "").moves == "kb" and betting(KUHN, "kb").moves == "cf"
    assert betting(LEDUC, "kb").moves == "crf" and betting(LEDUC, "kbr").moves == "cf"
    assert betting(LEDUC, "bc").moves == "kb" and betting(LEDUC, "bc").round == 1
    assert betting(LEDUC, "kbc").player == 0  # the same player acts first in both rounds
    assert betting(LEDUC, "kkbr").paid == (5, 9)


def test_the_trees_have_the_known_sizes():
    assert len([*tree(KUHN).decisions()]) * 3 == 12  # information sets
    # One card and the public moves: 3 x 6 in the first round, 3 x 3 x 30 in the second.
    assert len([*tree(LEDUC).decisions()]) * 3 == 288


def test_kuhns_solution_is_an_equilibrium_for_every_share_of_bluffs():
    for bluff in (0, 0.2, 1 / 3):
        strategy = kuhn_equilibrium(bluff)
        assert solver.exploitability(tree(KUHN), strategy, 3) == pytest.approx(0, abs=1e-12)
        assert solver.value(tree(KUHN), strategy, strategy, 3) == pytest.approx(-1 / 18)
    assert solver.exploitability(tree(KUHN), kuhn_equilibrium(0.4), 3) > 0.01


@pytest.mark.slow
def test_cfr_finds_the_known_values():
    found = solver.equilibrium(tree(KUHN), 3, 400)
    assert solver.exploitability(tree(KUHN), found, 3) < 1e-3
    assert solver.value(tree(KUHN), found, found, 3) == pytest.approx(-1 / 18, abs=1e-3)
    leduc = leduc_equilibrium()
    assert solver.exploitability(tree(LEDUC), leduc, 3) < 1e-3
    assert solver.value(tree(LEDUC), leduc, leduc, 3) == pytest.approx(-0.0856, abs=1e-3)
    for strategy in (found, leduc):
        assert all(np.allclose(rows.sum(axis=1), 1) for rows in strategy.values())


def test_best_responses_in_kuhn_against_all_pure_strategies():
    """Tries every pure strategy of one seat against every level, deal by deal."""

    def plays(first: dict, second: dict, cards: tuple[int, ...], moves: str = "") -> float:
        now = betting(KUHN, moves)
        if not now.moves:
            return gain(KUHN, moves, cards)
        rows = (first, second)[now.player][moves]
        return sum(
            p * plays(first, second, cards, moves + move)
            for p, move in zip(rows[cards[now.player]], now.moves, strict=True)
            if p
        )

    deals = [*permutations(range(3), 2)]
    for level in LEVELS:
        theirs = kuhn_equilibrium() if level == "equilibrium" else simple_strategy(KUHN, level)
        for me, keys in ((0, ("", "kb")), (1, ("k", "b"))):
            pure = []
            for picks in product((0, 1), repeat=6):
                rows = np.eye(2)[list(picks)].reshape(2, 3, 2)
                mine = dict(zip(keys, rows, strict=True))
                pair = (mine, theirs) if me == 0 else (theirs, mine)
                won = sum(plays(*pair, cards) for cards in deals) / len(deals)
                pure.append(won if me == 0 else -won)
            answer, won = solver.best_response(tree(KUHN), theirs, me, 3)
            assert won == pytest.approx(max(pure))
            pair = (answer, theirs) if me == 0 else (theirs, answer)
            assert solver.value(tree(KUHN), *pair, 3) == pytest.approx(won if me == 0 else -won)


@pytest.mark.slow
@by_game
def test_the_expert_wins_what_a_best_response_wins(game):
    """The mean over many hands is near the exact value, so solver and environment agree."""
    env: Any = gymnasium.make(
        f"AgentGym/{game.__name__}-v0", hands=4000, opponents="maniac", disable_env_checker=True
    ).unwrapped
    env.reset(seed=1)
    total, over = 0.0, False
    while not over:
        _, reward, over, _, _ = env.step(env.expert())
        total += reward
    rules = game().rules
    maniac = simple_strategy(rules, "maniac")
    exact = sum(solver.best_response(tree(rules), maniac, i, 3)[1] for i in (0, 1)) / 2
    assert total == pytest.approx(exact, abs=0.1 * max(rules.bets))


@by_game
def test_levels_play_as_their_tables_say(game):
    one = game(hands=1)
    for task in range(30):
        for level in ("caller", "maniac", "tight"):
            one.begin(f"train/{task}")
            while one.acting:
                (agent,) = one.acting
                said = one.script(level, agent, one.np_random)
                card = one.state.deals[0][one._seat(agent)]
                board = one._board()
                if level == "caller":
                    assert said in ("check", "call")
                elif level == "maniac":
                    assert said in ("bet", "raise", "call")
                else:
                    assert (said in ("bet", "raise", "call")) == (card in (K, board))
                one.play({agent: said})


@by_game
def test_hands_are_hidden_and_shown_only_at_a_showdown(game):
    env = agentgym.make_parallel(f"AgentGym/{game.__name__}-v0", hands=2)
    env.reset(seed=0, options={"task": "train/1"})
    before = env.observe("player_0")
    deals = env.game.state.deals
    second = deals[0][1]
    env.game.state.deals[0] = (deals[0][0], (second + 1) % 3, *deals[0][2:])
    assert env.game._look("player_0").text == before["text"]
    observations, rewards, *_ = env.step({"player_0": "bet"})
    assert rewards == {"player_0": 0, "player_1": 0}
    observations, rewards, _, _, _ = env.step({"player_1": "fold"})
    assert rewards == {"player_0": 0.5, "player_1": -0.5}
    assert "You win 1 chip." in observations["player_0"]["text"]
    assert "show" not in observations["player_0"]["text"]
    assert env.game.acting == ("player_1",)  # first in the second hand


@by_game
def test_the_task_fixes_the_cards(game):
    first, second = game(), game()
    first.reset(seed=1, task="test/3")
    second.reset(seed=2, task="test/3")
    assert first.state == second.state
    deck = [card for card in range(3) for _ in range(first.rules.copies)]
    for deal in first.state.deals:
        assert all(deal.count(card) <= deck.count(card) for card in range(3))
    second.reset(seed=1, task="test/4")
    assert first.state.deals != second.state.deals


def test_the_expert_answers_to_who_it_is_told_has_the_other_seat():
    """First to act with a jack, a bluff loses to a caller and is best against a tight player."""
    game = KuhnPoker(hands=1)
    for level, said in (("caller", "check"), ("tight", "bet")):
        game.reset(seed=0, task="train/0")
        game.state.deals = [(J, Q)]
        game.opponents = {"player_1": level}
        assert game.expert("player_0") == said
    game.opponents = {}
    game.state.deals = [(Q, J)]
    assert game.expert("player_0") == "check"  # as in every equilibrium


def test_who_is_not_understood_plays_at_random():
    game, moves = KuhnPoker(max_invalid=1), set()
    for seed in range(20):
        game.reset(seed=seed)
        (agent,) = game.acting
        game.play({agent: "raise"})
        moves.add(game.state.moves)
        assert not game.steps[agent].valid
    assert moves == {"k", "b"}


@by_game
def test_impossible_numbers_of_hands(game):
    for hands in (0, 100_001):
        with pytest.raises(ValueError, match="hands"):
            game(hands=hands)
