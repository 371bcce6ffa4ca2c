"""Clusters of texts, and regret matching in the game of clusters."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.hooks.clusters import Clusters, embed
from agentgym.trainers.recipes.lspo import AbstractGame

WORDS = st.text("ab 3!", min_size=1, max_size=6)


@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(1, 14), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_equal_texts_share_a_cluster_and_few_texts_have_their_own(
    texts: list[str], size: int, seed: int
):
    clusters = Clusters(size)
    found = clusters.assign(texts, np.random.default_rng(seed))
    assert len(clusters.centres) <= size and found.max() < len(clusters.centres)
    vectors = [tuple(vector) for vector in embed(texts)]
    if len(set(vectors)) <= size:
        assert (
            len({*zip(vectors, found.tolist(), strict=True)})
            == len(set(vectors))
            == len(set(found.tolist()))
        )
    again = Clusters(size, clusters.centres).assign(texts[:1], np.random.default_rng(0))
    assert again[0] == found[0]


def test_the_order_of_words_matters():
    seen = ["You are at 3. Go to 2.", "You are at 2. Go to 3."]
    assert Clusters(4).assign(seen, np.random.default_rng(0)).tolist() == [1, 0]


def test_sentences_about_one_move_are_one_latent_action():
    moves = ["I suspect player_{}.", "player_{} is not a werewolf", "I am the seer, trust me {}"]
    said = [move.format(i) for move in moves for i in range(7)]
    found = Clusters(3).assign(said, np.random.default_rng(0)).reshape(3, 7)
    assert all(len(set(row)) == 1 for row in found.tolist()) and len(set(found[:, 0].tolist())) == 3


def play(payoffs: np.ndarray, iterations: int, samples: int) -> list[AbstractGame]:
    """Lets two roles try actions in a matrix game against the strategy of each other."""
    rng, names = np.random.default_rng(0), [str(i) for i in range(len(payoffs))]
    games = [AbstractGame(2, len(names)) for _ in range(2)]
    for game in games:
        game.latents.assign(names, rng)
    here = np.zeros(samples, np.int64)
    for _ in range(iterations):
        tried = rng.integers(len(names), size=(2, samples))
        met = [rng.choice(len(names), samples, p=game.strategy()[0]) for game in games]
        games[0].update(here, tried[0], payoffs[tried[0], met[1]])
        games[1].update(here, tried[1], -payoffs[met[0], tried[1]])
    return games


def test_averages_of_sampled_regret_matching_are_an_equilibrium():
    """In this game, the equilibrium is (0.4, 0.6) for the first player and for the second."""
    for game in play(np.array([[2.0, -1.0], [-1.0, 1.0]]), 300, 64):
        assert game.average()[0] == pytest.approx([0.4, 0.6], abs=0.06)
        assert game.average()[1].tolist() == [0.5, 0.5]  # never visited


def test_a_dominated_action_is_dropped_and_unsampled_ones_keep_their_regrets():
    game = AbstractGame(1, 3)
    game.latents.assign(["a", "b", "c"], np.random.default_rng(0))
    game.update(np.zeros(4, np.int64), np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 0.0, 0.0]))
    assert game.regrets.tolist() == [[4.0, 0.0, 0.0]]  # 4 samples, value 1 of the strategy
    game.update(np.zeros(1, np.int64), np.array([2]), np.array([-5.0]))
    assert game.regrets.tolist() == [[4.0, 0.0, 0.0]]


def test_a_restored_game_goes_on_as_the_saved_one():
    game = AbstractGame(3, 2)
    rng = np.random.default_rng(0)

    def learn(one: AbstractGame) -> AbstractGame:
        rng = np.random.default_rng(1)
        places = one.situations.assign(["x", "y z"], rng)
        one.update(places, one.latents.assign(["bet", "fold"], rng), np.array([1.0, -1.0]))
        return one

    learn(game)
    copy = AbstractGame.restored(json.loads(json.dumps(game.state_dict())))
    assert learn(copy).state_dict() == learn(game).state_dict()
    assert copy.situations.assign(["new"], rng) == [2]
