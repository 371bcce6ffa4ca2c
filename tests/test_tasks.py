from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import NumberedTasks, Tasks
from agentgym.errors import UnknownTaskError
from agentgym.tasks import draw_level, task_number, task_rng


@given(
    st.text(max_size=4),
    st.builds(range, st.integers(0, 9), st.integers(0, 30), st.integers(1, 4)),
)
def test_numbered_tasks_behave_like_the_list_of_their_names(prefix: str, numbers: range):
    tasks = NumberedTasks(prefix, numbers)
    names = [f"{prefix}{i}" for i in numbers]
    assert list(tasks) == names
    assert len(tasks) == len(names)
    assert all(name in tasks for name in names)
    assert list(tasks[1:5:2]) == names[1:5:2]
    assert list(reversed(tasks)) == names[::-1]
    if names:
        assert tasks[-1] == names[-1]
        assert tasks.index(names[-1]) == len(names) - 1
    with pytest.raises(IndexError):
        tasks[len(names)]


@pytest.mark.parametrize(
    "task",
    ["train/10", "train/", "train/01", "train/-1", "train/+1", "train/1.0", "train/²", "train/٣"],
)
def test_only_canonical_numbers_in_range_are_in(task: str):
    assert task not in NumberedTasks("train/", range(10))


@pytest.mark.parametrize(
    "task",
    ["train/" + "9" * 10_000, "test/1", "1", "", 1, None, b"train/1"],
    ids=lambda task: repr(task)[:20],
)
def test_only_their_own_names_are_in(task: object):
    assert task not in NumberedTasks("train/", range(10))


def test_millions_of_tasks_cost_nothing():
    tasks = Tasks.generated()
    assert len(tasks.train) == len(tasks.test) == 2**31 - 1
    assert f"train/{2**31 - 2}" in tasks
    assert f"train/{2**31 - 1}" not in tasks


def test_equality_and_hash():
    assert Tasks.generated(5) == Tasks.generated(5) != Tasks.generated(6)
    assert len({NumberedTasks("a", range(3)), NumberedTasks("a", range(3))}) == 1
    assert NumberedTasks("a", range(3)) != NumberedTasks("b", range(3))
    assert repr(NumberedTasks("a", range(3))) == "NumberedTasks('a', range(0, 3))"


def test_splits_and_their_errors():
    tasks = Tasks(["a", "b"], ["c"])
    assert list(tasks.split("train")) == ["a", "b"]
    assert list(tasks.split("test")) == ["c"]
    assert "c" in tasks
    assert tasks.check("b") == "b"
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got 'dev'"):
        tasks.split("dev")
    with pytest.raises(UnknownTaskError, match=r"'train/20'.* 10 training tasks \('train/0' .."):
        Tasks.generated(10).check("train/20")
    with pytest.raises(UnknownTaskError, match="Unknown task 7"):
        tasks.check(7)


@pytest.mark.parametrize("split", [[], "abc", None])
def test_a_split_without_tasks_is_refused(split: object):
    with pytest.raises(ValueError, match="non-empty sequence of names for 'test'"):
        Tasks(["a"], split)  # type: ignore[arg-type]


@pytest.mark.parametrize("split", [[1, 2], range(3), [None]])
def test_names_that_are_no_texts_are_refused(split: Sequence[object]):
    with pytest.raises(ValueError, match=rf"str for 'test', got {split[0]}\."):
        Tasks(["a"], split)  # type: ignore[arg-type]


def test_tasks_of_both_splits_give_a_warning():
    with pytest.warns(
        RuntimeWarning, match=r"1 of 2 test tasks .* 'b', so .* Expected other tasks"
    ):
        Tasks(["a", "b"], ("b", "c"))
    Tasks(["a", "b"], ["c"])


def test_task_number():
    assert task_number("goal/12") == 12


def test_task_rng_depends_on_the_name_and_the_salt_only(global_rng_untouched: None):
    def draw(*args: str) -> list[int]:
        return task_rng(*args).integers(10**9, size=4).tolist()

    assert draw("train/1") == draw("train/1")
    distinct = {
        tuple(draw(*args)) for args in [("a",), ("b",), ("a", "x"), ("a", "y"), ("\ud800",)]
    }
    assert len(distinct) == 5
    script = "from agentgym.tasks import task_rng; print(task_rng('a', 'x').integers(10**9))"
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert int(done.stdout) == draw("a", "x")[0]


def test_task_rng_is_pinned():
    # Levels depend on this stream: a change would silently replace all tasks.
    rng = task_rng("train/0")
    assert isinstance(rng.bit_generator, np.random.PCG64)
    assert rng.integers(1000, size=5).tolist() == [650, 201, 616, 422, 880]


def test_levels_are_drawn_that_are_of_the_split():
    def levels(split: str, size: int) -> set[tuple[int, ...]]:
        drawn = set()
        for number in range(200):
            task, rng = f"{split}/{number}", task_rng(f"{split}/{number}")
            drawn.add(draw_level(task, lambda rng=rng: tuple(rng.integers(size, size=2).tolist())))
        return drawn

    train, test = levels("train", 6), levels("test", 6)
    assert len(train | test) == 36
    assert not train & test
    assert len(test) < len(train)
    assert levels("train", 1) == levels("test", 1) == {(0, 0)}, "there is only one"
