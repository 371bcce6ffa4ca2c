"""Curricula: what they prefer, that they remember it, and that every recipe can use them."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.registration.mixture import MixedTasks
from agentgym.time_step import TimeStep
from agentgym.trainers import Callback, make_trainer
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.recipes import grpo
from agentgym.trainers.rollout.curriculum import (
    KINDS,
    Failures,
    LearningProgress,
    Levels,
    Proposed,
    Regret,
    Related,
    Spread,
    SuccessWindow,
    make_curriculum,
)
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.learning_progress import read_numbers
from agentgym.trainers.rollout.task_sampling import (
    Curriculum,
    draw_tasks,
    group_sizes,
)
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.settings import EnvironmentConfig

from ...helpers.chat_server import Messages, chat_server
from ...helpers.worlds import trajectory
from ..recipes.test_recipes import train, whole_and_resumed

ADAPTIVE: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 6}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 24, "group_size": 6, "train_tasks": 4, "adaptive_groups": True,
    "device": "cpu", "threads": 1, "quiet": True, "lr": 1e-4, "log_with": (), "resume": True,
}  # fmt: skip
TASKS = [f"task/{i}" for i in range(40)]
OF_ONE = [kind for kind in KINDS if kind != "levels"]
LEVELS = MixedTasks({name: [f"train/{i}" for i in range(5)] for name in "ABC"}, (1, 1, 1))


def played(rates: dict[str, float], text: dict[str, str] | None = None) -> list[Trajectory]:
    """Four episodes of each task with this share of successes."""
    found = []
    for task, rate in rates.items():
        for i in range(4):
            one = trajectory([1], [0.0], task=task, seed=i, success=i < 4 * rate)
            one.turns[0].observation = (text or {}).get(task, task)
            found.append(one)
    return found


@pytest.mark.parametrize("kind", OF_ONE)
def test_draws_are_of_the_tasks_without_repetition_and_by_the_generator_alone(kind: str):
    for observed in (False, True):
        draws = []
        for _ in range(2):
            curriculum = KINDS[kind](TASKS[:30])
            if observed:
                curriculum.observe(played({task: i / 30 for i, task in enumerate(TASKS[:30])}))
            draws.append([curriculum.draw(8, np.random.default_rng(seed)) for seed in range(9)])
        assert draws[0] == draws[1]
        for drawn in draws[0]:
            names = [task for task, _ in drawn]
            assert len(set(names)) == 8 and set(names) <= set(TASKS[:30])


@pytest.mark.parametrize("kind", OF_ONE)
def test_more_tasks_than_there_are_can_be_drawn(kind: str):
    curriculum = KINDS[kind](TASKS[:3])
    curriculum.observe(played({task: 0.5 for task in TASKS[:3]}))
    assert {t for t, _ in curriculum.draw(7, np.random.default_rng(0))} == set(TASKS[:3])
    assert len(curriculum.draw(7, np.random.default_rng(0))) == 7


def test_the_window_leaves_out_what_is_solved_or_hopeless():
    curriculum = SuccessWindow(TASKS)
    curriculum.observe(played({task: [0.0, 0.5, 1.0][i % 3] for i, task in enumerate(TASKS)}))
    good = {task for i, task in enumerate(TASKS) if i % 3 == 1}
    drawn = Counter(
        task for seed in range(30) for task, _ in curriculum.draw(4, np.random.default_rng(seed))
    )
    inside = sum(count for task, count in drawn.items() if task in good)
    assert inside > 0.95 * drawn.total()


def test_the_spread_of_outcomes_is_the_weight():
    curriculum = Spread(TASKS)
    rates = {task: [0.0, 0.5, 1.0][i % 3] for i, task in enumerate(TASKS[:30])}
    curriculum.observe(played(rates))
    assert curriculum.weights(TASKS[:3]) == pytest.approx([0.05, 0.55, 0.05])
    assert curriculum.weights(TASKS[30:31]) == pytest.approx([0.55])  # not played
    drawn = Counter(
        task for seed in range(200) for task, _ in curriculum.draw(4, np.random.default_rng(seed))
    )
    certain = sum(count for task, count in drawn.items() if rates.get(task, 0.5) != 0.5)
    assert 0.05 < certain / drawn.total() < 0.25  # 20 x 0.05 of 12 in all, few of each draw


def test_failures_come_back():
    curriculum = Failures(TASKS)
    curriculum.observe(played({task: float(i > 4) for i, task in enumerate(TASKS)}))
    drawn = [
        task for seed in range(20) for task, _ in curriculum.draw(8, np.random.default_rng(seed))
    ]
    failed = sum(task in TASKS[:5] for task in drawn)
    assert failed > 0.45 * len(drawn)


def test_tasks_with_regret_come_back():
    curriculum = Regret(TASKS)
    later = dict.fromkeys(TASKS[3:6], 0.0) | {TASKS[0]: 0.25, TASKS[1]: 0.75}
    for rates in (dict.fromkeys(TASKS[:3], 1.0), later):
        episodes = played(rates)
        for episode in episodes:
            episode.turns[0].reward = float(episode.success)
        curriculum.observe(episodes)
    # Mastered and unsolved tasks have no regret.
    draws = [curriculum.draw(8, np.random.default_rng(seed)) for seed in range(40)]
    replayed = [{task for task, _ in draw[:4]} & {*TASKS[:2]} for draw in draws]
    assert all(found == {TASKS[0], TASKS[1]} for found in replayed)
    single = [curriculum.draw(2, np.random.default_rng(seed))[0][0] for seed in range(400)]
    assert set(single) == {TASKS[0], TASKS[1]}
    assert 0.68 < single.count(TASKS[0]) / 400 < 0.82  # 0.75 : 0.25


def test_the_regret_of_a_game_is_that_of_a_seat():
    """In a zero-sum game, the returns of both seats cancel."""
    curriculum = Regret(TASKS)
    for rate in (1.0, 0.25):  # of the first seat in the second task, which always wins the first
        for task, share in zip(TASKS, (1.0, rate), strict=False):
            for seat, sign in (("player_0", 1.0), ("player_1", -1.0)):
                episodes = played({task: share})
                for episode in episodes:
                    episode.agent = seat
                    episode.turns[0].reward = sign if episode.success else -sign
                curriculum.observe(episodes)
    drawn = [curriculum.draw(2, np.random.default_rng(seed))[0][0] for seed in range(20)]
    assert set(drawn) == {TASKS[1]}


def test_levels_join_one_after_another():
    curriculum = Levels(LEVELS)

    def drawn() -> Counter[str]:
        tasks = [task for task, _ in curriculum.draw(12, np.random.default_rng(0))]
        assert all(task in LEVELS for task in tasks)
        return Counter(task[0] for task in tasks)

    assert drawn() == {"A": 12}
    curriculum.observe(played({"A train/0": 1.0}))
    assert drawn() == {"A": 12}  # one good iteration is not enough
    curriculum.observe(played({"A train/0": 1.0}))
    assert drawn() == {"A": 3, "B": 9}
    curriculum.observe(played({"A train/0": 1.0}))  # nothing of B
    again = Levels(LEVELS)
    again.load_state_dict(curriculum.state_dict())
    curriculum = again
    for _ in range(2):
        curriculum.observe(played({"A train/1": 0.0, "B train/0": 1.0}))
    assert drawn() == {"A": 2, "B": 2, "C": 8}
    for _ in range(4):
        curriculum.observe(played({"C train/0": 1.0}))
    assert drawn() == {"A": 2, "B": 2, "C": 8}


def test_levels_sample_the_first_tasks_of_each_environment():
    curriculum = Levels(LEVELS, 2)
    assert {task for task, _ in curriculum.draw(9, np.random.default_rng(0))} == {
        "A train/0",
        "A train/1",
    }


def test_levels_need_several_environments():
    with pytest.raises(ConfigError, match="'levels' needs several environments"):
        make_curriculum("levels", TASKS)


def easiest(tasks: Sequence[str], rates: Mapping[str, float], count: int, rng: Any) -> list[str]:
    """Proposes tasks in the order of their success rates."""
    return sorted(tasks, key=lambda task: -rates.get(task, 0.0))[:count]


def test_a_function_proposes_tasks():
    curriculum = make_curriculum(f"{__name__}:easiest", TASKS, 10)
    curriculum.observe(played({TASKS[7]: 0.5, TASKS[3]: 1.0, TASKS[20]: 1.0}))
    drawn = curriculum.draw(3, np.random.default_rng(0))
    assert [task for task, _ in drawn] == [TASKS[3], TASKS[7], TASKS[0]]
    for wrong, found in (([TASKS[0]], "1 tasks"), ([TASKS[20]] * 3, "the unknown 'task/20'")):
        proposed = Proposed(lambda *_, wrong=wrong: wrong, TASKS[:10])
        with pytest.raises(ConfigError, match=f"must return 3 training tasks, got {found}"):
            proposed.draw(3, np.random.default_rng(0))


def test_a_curriculum_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"must be one of .*'regrets'\. Did you mean: regret"):
        grpo.Config.of(curriculum="regrets")
    with pytest.raises(
        ConfigError, match="curriculum must name a module:function, got 'nowhere:propose'"
    ):
        grpo.Config.of(curriculum="nowhere:propose")
    assert grpo.Config.of(curriculum=f"{__name__}:easiest").environment.curriculum


def test_progress_prefers_the_kind_of_task_that_is_being_learnt():
    text = {task: f"{'red' if i % 2 else 'blue'} door {i}" for i, task in enumerate(TASKS)}
    curriculum = LearningProgress(TASKS)
    for step in range(6):  # red doors are being learnt, blue ones stay as hard as they were
        rates = {task: min(1.0, 0.2 * step) if i % 2 else 0.5 for i, task in enumerate(TASKS)}
        curriculum.observe(played(rates, text))
    weights = curriculum.weights(TASKS)
    assert weights[1::2].mean() > 1.5 * weights[::2].mean()


COLOURS = {task: f"{('red', 'blue')[i % 2]} door {i}" for i, task in enumerate(TASKS)}


def test_a_model_chooses_new_tasks_that_are_like_the_failed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))

    def red(messages: Messages) -> str:
        failed, _, new = messages[-1]["content"].partition("New tasks:")
        assert "red door 0" in failed and "red door 2" in failed and "blue" not in failed
        assert "Choose 4." in new and not re.search(r"door [0-3]\b", new)
        return ", ".join(re.findall(r"(\d+)\. red", new))

    with chat_server(red) as server:
        curriculum = make_curriculum(f"chat:m@{server.url}", TASKS, None, COLOURS.__getitem__)
        assert curriculum.draw(8, np.random.default_rng(0)) and not server.requests
        curriculum.observe(played({TASKS[0]: 0.0, TASKS[1]: 1.0, TASKS[2]: 0.0}, COLOURS))
        curriculum.observe(played({TASKS[3]: 0.75}, COLOURS))
        drawn = [task for task, _ in curriculum.draw(8, np.random.default_rng(1))]
        assert [COLOURS[task][:3] for task in drawn[:4]] == ["red"] * 4 and len(set(drawn)) == 8
        again = make_curriculum(f"chat:m@{server.url}", TASKS, None, COLOURS.__getitem__)
        again.load_state_dict(curriculum.state_dict())
        assert [task for task, _ in again.draw(8, np.random.default_rng(1))] == drawn
        assert len(server.requests) == 1
        curriculum.observe(played({TASKS[0]: 1.0, TASKS[2]: 1.0}, COLOURS))
        assert curriculum.draw(8, np.random.default_rng(2)) and len(server.requests) == 1


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_tasks_that_are_predicted_to_be_hopeless_or_solved_are_not_shown(rate: float):
    shown: list[str] = []
    texts = dict.fromkeys(TASKS, "door")
    curriculum = Related(lambda asked: shown.extend(asked) or [""], texts.__getitem__, TASKS)
    for _ in range(60):
        curriculum.observe(played(dict.fromkeys(TASKS[1:6], rate), texts))
    curriculum.failed[TASKS[0]] = "door"
    assert len(curriculum.draw(8, np.random.default_rng(0))) == 8 and not shown
    curriculum.within = 0.0, 1.0
    assert len(curriculum.draw(8, np.random.default_rng(0))) == 8 and shown


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("3, 7, 12", [3, 7, 12]),
        ("<think>1 and 2 are easy.</think>\n3, 7", [3, 7]),
        ("Sure! Of the 9 new tasks, I would choose these 2:\n\n**3, 7**", [3, 7]),
        ("**Tasks:** 3, 7, and 12.\n\nThey are like the failed ones.", [3, 7, 12]),
        ("[3, 7, 3]", [3, 7]),
        ("Task 3 is like 7 of the failed ones: they differ in 2 details.", []),
        ("None of the 12 helps.", []),
        ("", []),
    ],
)
def test_numbers_are_read_from_replies_as_models_write_them(reply: str, numbers: list[int]):
    assert read_numbers(reply) == numbers


class Slow(NumberLine):
    """An environment that takes long to begin."""

    def _start(self, task: str) -> TimeStep:
        time.sleep(0.5)
        return super()._start(task)


def test_a_task_that_does_not_begin_in_time_is_not_shown():
    pool = EnvPool(lambda: Slow(size=5), 1, seconds=0.05)
    with pytest.warns(RuntimeWarning, match="'train/1' is left out"):
        assert pool.first_observation("train/1") == ""
    pool.close()


def test_no_more_tasks_are_begun_than_are_shown():
    begun: list[str] = []
    tasks = [f"task/{i}" for i in range(400)]
    curriculum = Related(lambda asked: ["1"], lambda task: begun.append(task) or task, tasks)
    curriculum.observe(played({tasks[0]: 0.0}))
    assert len(curriculum.draw(64, np.random.default_rng(0))) == 64
    assert len(begun) == curriculum.most


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_comes_back(kind: str):
    tasks = LEVELS if kind == "levels" else TASKS
    first, second = KINDS[kind](tasks), KINDS[kind](tasks)
    first.observe(played({task: 1 - i / len(tasks) for i, task in enumerate(tasks)}))
    second.load_state_dict(first.state_dict())
    draws = [c.draw(8, np.random.default_rng(1)) for c in (first, second)]
    assert draws[0] == draws[1]
    assert isinstance(first, Curriculum)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(2, 20))
def test_uncertain_tasks_get_more_episodes_of_the_same_total(rates: list[float], size: int):
    sizes = group_sizes(rates, size)
    assert sum(sizes) == size * len(rates) and min(sizes) >= 2
    for p, n in zip(rates, sizes, strict=True):
        for q, m in zip(rates, sizes, strict=True):
            if abs(p - 0.5) < abs(q - 0.5):
                assert n >= m - 1  # one episode by rounding
    certain = [p in (0.0, 1.0) for p in rates]
    if not all(certain):
        assert all(n <= 3 for n, known in zip(sizes, certain, strict=True) if known)


def test_group_sizes_of_known_rates():
    assert group_sizes([0.5, 0.0, 1.0, 0.5], 8) == [14, 2, 2, 14]
    assert group_sizes([0.0, 1.0], 5) == [5, 5]
    assert group_sizes([0.3] * 3, 4) == [4, 4, 4]


@pytest.mark.slow
def test_adaptive_groups_follow_the_success_and_are_resumed(tmp_path: Path):
    sizes: list[Counter[str]] = []

    class Sizes(Callback):
        def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
            sizes.append(Counter(t.task for t in trajectories))
            rates = [trainer.rollouts.success.rates.get(task, 0.5) for task in sizes[-1]]
            assert list(sizes[-1].values()) == group_sizes(rates, 6)

    def run(folder: Path, iterations: int) -> None:
        settings = ADAPTIVE | {"iterations": iterations, "run_dir": str(folder)}
        make_trainer("grpo", **settings, callbacks=[Sizes()]).run()

    run(tmp_path / "a", 4)
    whole, sizes[:] = list(sizes), []
    run(tmp_path / "b", 2)
    run(tmp_path / "b", 4)
    assert sizes == whole
    assert whole[0] == dict.fromkeys(whole[0], 6)
    assert any(len(set(each.values())) > 1 for each in whole[1:])
    assert all(each.total() == 24 for each in whole)
    with pytest.raises(ConfigError, match="set group_size to at least 3"):
        grpo.Config.of(adaptive_groups=True, group_size=2)


def test_horizons_come_in_stages():
    staged = EnvironmentConfig(horizons=(5, 10), horizon_every=2)
    assert [staged.turn_limit(i) for i in range(5)] == [5, 5, 10, 10, 10]
    assert EnvironmentConfig().turn_limit(0) is None
    assert not staged.limits_by_task


def test_each_task_has_the_horizon_of_its_successes(tmp_path: Path):
    few = {"env_kwargs": {"size": 9, "max_turns": 12}, "horizons": (2, 5, 9), "horizon_every": 0}
    trainer: Any = make_trainer("grpo", **ADAPTIVE | few, iterations=0, run_dir=str(tmp_path))
    trainer.run()
    assert trainer.rollouts.turn_limit(7) == 9
    tasks = sorted({each.task for each in trainer.rollouts.episodes(0)})
    for turns, success, task in ((2, True, 0), (3, True, 1), (1, True, 1), (1, False, 2)):
        one = trajectory([1] * turns, [0.0] * turns, task=tasks[task], success=success)
        trainer.rollouts.observe([one])
    limits = {each.task: each.max_turns for each in trainer.rollouts.episodes(1)}
    assert limits == dict(zip(tasks, (2, 5, 9, 9), strict=True))
    again = [EpisodeSpec(task, 0, (0, i)) for i, task in enumerate(tasks)]  # as a recipe does
    turns = [len(each.turns) for each in trainer.rollouts.play(again)]
    assert [limit for limit, n in zip((2, 5, 9, 9), turns, strict=True) if n > limit] == []
    lengths = trainer.rollouts.lengths
    trainer.rollouts.load_state_dict(trainer.rollouts.state_dict())
    assert lengths.turns == {tasks[0]: 2, tasks[1]: 3}
    assert lengths.limit(tasks[1], (2,)) == 2  # longer than all of them


def solution(start: EpisodeSpec) -> list[str]:
    """The actions of the expert of NumberLine."""
    env, steps, over = make_env("NumberLine-v0", size=6), list[str](), False
    env.reset(seed=start.seed, options={"task": start.task})
    while not over:
        steps.append(env.get_wrapper_attr("expert")())
        over = env.step(steps[-1])[2]
    return steps


def test_the_horizon_of_a_plan_has_room_for_its_steps(tmp_path: Path):
    few = {"wrap": ("WholePlan",), "constrain": False, "horizons": (1, 6), "horizon_every": 0}
    trainer: Any = make_trainer("grpo", **ADAPTIVE | few, iterations=0, run_dir=str(tmp_path))
    trainer.run()
    start = max(trainer.rollouts.episodes(0), key=lambda each: len(solution(each)))
    steps = solution(start)
    tokens = np.array([1], np.int32)
    plan = Sample(tokens, np.zeros(1, np.float32), None, "\n".join(steps), True)
    [found] = trainer.rollouts.play([replace(start, opening=(plan,))])
    assert found.success and len(found.turns) == 1 and found.stats.env_turns == len(steps)
    trainer.rollouts.observe([found])
    limit = trainer.rollouts.lengths.limit(start.task, (1, len(steps), 6))
    assert limit == len(steps) > 1


@pytest.mark.parametrize("recipe", ["vine", "malt", "arpo_entropy"])
def test_episodes_that_a_recipe_plays_again_have_the_horizon_of_the_iteration(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lengths: dict[int, list[int]] = {0: [], 1: []}
    play = Rollouts.play

    def seen(rollouts: Rollouts, episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        found = play(rollouts, episodes)
        lengths[trainer.state.iteration] += [len(each.turns) for each in found]
        return found

    monkeypatch.setattr(Rollouts, "play", seen)
    few = {"adaptive_groups": False, "episodes_per_iteration": 8, "group_size": 2}
    few |= {"env_kwargs": {"size": 40, "max_turns": 12}, "horizons": (3, 5), "horizon_every": 1}
    trainer = make_trainer(recipe, **ADAPTIVE | few, iterations=2, run_dir=str(tmp_path))
    trainer.run()
    assert max(lengths[0]) == 3 and max(lengths[1]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["window", "failures", "progress"])
def test_a_resumed_run_goes_on_with_its_curriculum(kind: str, tmp_path: Path):
    few: dict[str, Any] = {
        "episodes_per_iteration": 16, "eval_episodes": 4, "bc_epochs": 2, "curriculum": kind,
        "horizons": (3, 6), "horizon_every": 2,
    }  # fmt: skip
    whole, resumed = whole_and_resumed(tmp_path, partial(train, "poad", **few), 4, at=2)
    assert resumed == whole
    turns = [row["rollout/turns"] for row in whole if "rollout/turns" in row]
    assert max(turns[:2]) <= 3 < max(turns[2:])
    with pytest.raises(ConfigError, match="horizons"):
        train("poad", tmp_path / "c", horizons=(0,))


def test_without_preferences_tasks_are_drawn_as_ever():
    drawn = Curriculum(TASKS[:30]).draw(8, np.random.default_rng(5))
    assert drawn == draw_tasks(TASKS, 8, np.random.default_rng(5), 30)


def test_the_tasks_of_a_file_are_the_only_ones(tmp_path: Path):
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps(TASKS[7:11]))
    rng = np.random.default_rng(0)
    for first, wanted in ((None, TASKS[7:11]), (2, TASKS[7:9])):
        drawn = make_curriculum(str(file), TASKS, first).draw(12, rng)
        assert {task for task, _ in drawn} == {*wanted}
        assert len({seed for _, seed in drawn}) == 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "one or more different tasks"),
        ('["task/1", "task/1"]', "one or more different tasks"),
        ('{"task/1": 1}', "one or more different tasks"),
        ('["task/1", "test/2"]', "must hold training tasks, such as 'task/0', got 'test/2'"),
        ("[1]", "must hold training tasks"),
        ("task/1", "cannot be read as JSON"),
        (None, "cannot be read as JSON"),
    ],
)
def test_a_file_of_other_tasks_is_refused(text: str | None, expected: str, tmp_path: Path):
    file = tmp_path / "tasks.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        make_curriculum(str(file), TASKS)


def test_a_run_plays_the_tasks_of_a_file(tmp_path: Path):
    file = tmp_path / "tasks.json"
    file.write_text('["train/5", "train/9"]')
    few = ADAPTIVE | {"train_tasks": None, "curriculum": str(file)}
    trainer: Any = make_trainer("grpo", **few, iterations=0, run_dir=str(tmp_path))
    trainer.run()
    assert {each.task for each in trainer.rollouts.episodes(0)} == {"train/5", "train/9"}


def test_older_levels_are_played_in_equal_parts_also_in_small_iterations():
    curriculum = Levels(LEVELS)
    curriculum.joined = 3
    drawn = [curriculum.draw(2, np.random.default_rng(seed)) for seed in range(300)]
    found = Counter(task[0] for tasks in drawn for task, _ in tasks)
    assert found.total() == 600 and found["C"] > 350
    assert found["A"] > 70 and found["B"] > 70


@pytest.mark.parametrize("groups", [2, 4])
def test_the_level_of_a_game_tells_nothing_about_the_trained_seat(groups: int, tmp_path: Path):
    """Groups take the seats in turn, whatever order a curriculum has for its tasks."""
    trainer = make_trainer(
        "poad", env_id=("KuhnPoker-v0:hands=1", "KuhnPoker-v0:hands=2"), model="nano",
        opponents="scripted:random", curriculum="levels", episodes_per_iteration=2 * groups,
        group_size=2, iterations=1, eval_episodes=0, device="cpu", quiet=True, log_with=(),
        run_dir=str(tmp_path),
    )  # fmt: skip
    curriculum = trainer.rollouts.curriculum
    assert isinstance(curriculum, Levels)
    curriculum.joined = 2
    found: Counter[tuple[str, str]] = Counter()
    for iteration in range(60):
        specs = trainer.rollouts.episodes(iteration)[::2]
        assert len({spec.seats for spec in specs}) == 2  # type: ignore[attr-defined]
        for spec in specs:
            [(agent, _)] = spec.seats  # type: ignore[attr-defined]
            found[spec.task.partition(" ")[0][-1], agent] += 1
    assert len(found) == 4
    for level in "12":
        seats = [found[level, agent] for agent in ("player_0", "player_1")]
        assert min(seats) > 0.3 * sum(seats)
    trainer.log.close()
    trainer.folder.close()
