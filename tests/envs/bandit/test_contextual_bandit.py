"""ContextualBandit: ratings follow tastes, regret, and LinUCB against a plain implementation."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pytest

from agentgym.envs.bandit.contextual_bandit import (
    RIDGE,
    TITLES,
    WIDTH,
    ContextualBandit,
    contexts_of,
    draw_user,
    lin_ucb,
    make_world,
    ratings,
)


def test_how_a_film_is_liked_is_linear_in_the_taste_and_in_range():
    world, rng = make_world("train/1", 10), np.random.default_rng(0)
    users = [draw_user(world, rng) for _ in range(300)]
    liked = np.array([ratings(world, user) for user in users])
    assert liked.min() >= 0 and liked.max() <= 1 and liked.std() > 0.1
    tastes = contexts_of(users, taste=True)
    assert np.linalg.norm(tastes, axis=1) == pytest.approx(np.ones(300), abs=0.02)
    fitted, *_ = np.linalg.lstsq(tastes, liked - 0.5, rcond=None)
    assert tastes @ fitted == pytest.approx(liked - 0.5, abs=0.02)


def test_films_of_a_genre_and_people_of_an_occupation_are_alike():
    world, rng = make_world("train/2", 30), np.random.default_rng(0)
    alike = world.films @ world.films.T
    same = np.array([[a == b for b in world.genres] for a in world.genres])
    apart = ~np.eye(30, dtype=bool)
    assert alike[same & apart].mean() > alike[~same].mean() + 0.3
    users = [draw_user(world, rng) for _ in range(400)]
    tastes = contexts_of(users, taste=True)
    jobs = np.array([user.occupation for user in users])
    equal = jobs[:, None] == jobs
    assert (tastes @ tastes.T)[equal].mean() > (tastes @ tastes.T)[~equal].mean() + 0.1


def test_worlds_follow_from_the_task_and_users_from_the_seed():
    env, other = ContextualBandit(), ContextualBandit()
    task = {"task": "test/5"}
    assert env.reset(seed=1, options=task) == other.reset(seed=1, options=task)
    assert env.reset(seed=2, options=task) != other.reset(seed=1, options=task)
    genres = {make_world(f"train/{i}", 10).genres for i in range(20)}
    assert len(genres) == 20 and len(set(TITLES)) == 30


def test_a_critic_reads_how_the_current_user_likes_each_film():
    env = ContextualBandit()
    env.reset(seed=3)
    for left in (100, 99, 98):
        text = env.privileged_text()
        found = {title: float(x) for title, x in re.findall(r"(\w+ \w+) (\d\.\d\d)", text)}
        liked = ratings(make_world(env.task, 10), env.state.user)
        assert text.startswith(f"Rounds left: {left}.") and [*found] == [*TITLES[:10]]
        assert [*found.values()] == pytest.approx(liked.tolist(), abs=0.006)
        env.step(max(found, key=lambda title: found[title]))
    assert env.state.regret < 0.02


def plain_lin_ucb(contexts: np.ndarray, shown: list[int], paid: list[float], arms: int):
    """LinUCB as in the paper, as a loop over rounds and arms."""
    size = contexts.shape[1]
    grams = [RIDGE * np.eye(size) for _ in range(arms)]
    targets = [np.zeros(size) for _ in range(arms)]
    for x, arm, value in zip(contexts, shown, paid, strict=False):
        grams[arm] += np.outer(x, x)
        targets[arm] += (value - 0.5) * x
    x, bounds = contexts[-1], []
    for gram, target in zip(grams, targets, strict=True):
        inverse = np.linalg.inv(gram)
        bounds.append(x @ inverse @ target + WIDTH * np.sqrt(x @ inverse @ x))
    return np.array(bounds)


def test_the_expert_is_lin_ucb():
    rng = np.random.default_rng(0)
    for rounds, arms, size in [(0, 3, 5), (1, 3, 5), (40, 10, 5), (25, 4, 7)]:
        contexts = rng.standard_normal((rounds + 1, size))
        shown = [int(x) for x in rng.integers(arms, size=rounds)]
        paid = [float(x) for x in rng.random(rounds)]
        expected = plain_lin_ucb(contexts, shown, paid, arms)
        assert sum(lin_ucb(contexts, shown, paid, arms)) == pytest.approx(expected)


def play(env: ContextualBandit, seed: int, expert: bool) -> list[float]:
    """Returns the regret of each round."""
    rng, regrets = np.random.default_rng(seed), [0.0]
    _, info = env.reset(seed=seed)
    ended, total = False, 0.0
    while not ended:
        titles = info["admissible"]
        action = env.expert() if expert else titles[int(rng.integers(len(titles)))]
        _, reward, ended, truncated, info = env.step(str(action))
        total += reward
        regrets.append(env.state.regret)
        assert not truncated
    assert total == pytest.approx(sum(env.state.paid) / env.rounds)
    assert info["success"] == (env.state.regret < env.state.chance / 2)
    return [after - before for before, after in pairwise(regrets)]


def test_the_expert_learns_and_chance_does_not():
    env = ContextualBandit(rounds=80)
    for seed in range(5):
        learnt, drawn = play(env, seed, expert=True), play(env, seed, expert=False)
        assert min(learnt) >= 0 and sum(learnt) < sum(drawn) / 2
        assert np.mean(learnt[40:]) < np.mean(learnt[:20]) / 2


def test_regret_and_progress_of_one_round_by_hand():
    env = ContextualBandit(rounds=2)
    env.reset(seed=4)
    liked = ratings(make_world(env.task, 10), env.state.user)
    worst = int(liked.argmin())
    _, reward, _, _, info = env.step(env.titles[worst].upper())
    assert reward == pytest.approx(round(float(liked[worst]), 2) / 2)
    assert info["regret"] == env.state.regret == pytest.approx(liked.max() - liked[worst])
    assert info["progress"] == 0
    _, _, ended, _, info = env.step("no such film")
    assert not ended and not info["valid"] and env.state.regret == pytest.approx(np.ptp(liked))
    regret = env.state.regret
    liked = ratings(make_world(env.task, 10), env.state.user)
    _, _, ended, _, info = env.step(env.titles[int(liked.argmax())])
    assert ended and env.state.regret == pytest.approx(regret)
    assert info["progress"] == pytest.approx(max(0.0, 1 - env.state.regret / env.state.chance))


def test_what_is_shown():
    for taste in (True, False):
        for history in (True, False):
            env = ContextualBandit(taste=taste, history=history)
            env.reset(seed=0)
            person = env.state.user
            for title in ("Silent Harbour", "Golden Harbour", "Hidden Harbour"):
                text, *_ = env.step(title)
            assert text.count("rating") == (3 if history else 1)
            assert (f"{person.taste[0]:.2f} " in text) == (taste and history)
            assert f"Round 4 of 100. Now: {env.state.user.occupation}" in text
            assert text.startswith("Films: Silent Harbour (")


def test_noise_is_drawn_and_kept_in_range():
    env = ContextualBandit(noise=1.0)
    env.reset(seed=0)
    for _ in range(60):
        env.step("Silent Harbour")
    assert {0.0, 1.0} < set(env.state.paid) and json.dumps(env.snapshot())


@pytest.mark.parametrize("kwargs", [{"difficulty": "esay"}, {"rounds": 0}, {"noise": -1}])
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        ContextualBandit(**kwargs)


def test_support_shows_the_scores_that_the_expert_maximises():
    env, plain = ContextualBandit(support=True), ContextualBandit()
    text, _ = env.reset(seed=2)
    plain.reset(seed=2)
    assert env.instructions.startswith(plain.instructions)
    for _ in range(15):
        scores = {
            title: float(x) for title, x in re.findall(r"\n(.+): estimate .*score ([\d.]+)", text)
        }
        chosen = str(env.expert())
        assert scores.keys() == {*env.titles} and scores[chosen] == max(scores.values())
        text, *rest = env.step(chosen)
        assert plain.step(chosen)[1] == rest[0]  # the ratings are the same


def test_demonstrations_are_games_of_the_expert_with_other_preferences():
    plain, shown = ContextualBandit(), ContextualBandit(demonstrations=2)
    assert shown.reset(seed=1) == plain.reset(seed=1)
    examples = shown.instructions.removeprefix(plain.instructions).strip().split("\n\n")
    assert len(examples) == 2 and examples[0] != examples[1]
    for example in examples:
        paid = [float(x) for x in re.findall(r"rating ([\d.]+)", example)]
        assert len(paid) == 20 and np.mean(paid[10:]) > 0.55
    with pytest.raises(ValueError, match="demonstrations"):
        ContextualBandit(demonstrations=11)


def test_a_title_may_have_its_genre_behind_it():
    env = ContextualBandit()
    text, info = env.reset(seed=0)
    shown = text.partition("Films: ")[2].partition("\n")[0].split(", ")
    for film, title in zip(shown, info["admissible"], strict=True):
        assert env._parse(f"**{film}**") == title == env._parse(title)
        wrong = film.replace(" (", " (un")
        assert env._parse(wrong) == wrong
