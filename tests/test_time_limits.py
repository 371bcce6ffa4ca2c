from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from agentgym import evaluate
from agentgym.errors import ConfigError
from agentgym.time_limits import TIMED_OUT, BoundedCalls, BoundedEnv, CallTimeout

from .helpers.hanging import Hanging, hang

KINDS = ("python", "asleep", "library")
ENV = "tests.helpers.hanging:Hanging-v0"
ROOT = Path(__file__).parents[1]


def command(*words: str, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentgym", *words],
        capture_output=True, text=True, timeout=seconds, cwd=ROOT,
    )  # fmt: skip


def forked(*words: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """Does as `command`, in a fork of a process that has imported the trainer."""
    from .helpers.launch import Child

    child = Child(["-m", "agentgym", *words])
    return subprocess.CompletedProcess(words, child.wait(seconds), child.output, child.errors)


def test_calls_return_their_results_and_raise_their_errors():
    calls = BoundedCalls(60.0)
    assert [calls(lambda i=i: i * i) for i in range(3)] == [0, 1, 4]
    with pytest.raises(KeyError):
        calls(lambda: {}["a"])
    names = {calls(threading.get_ident) for _ in range(3)}
    assert len(names) == 1 and threading.get_ident() not in names
    calls.close()


@pytest.mark.parametrize("how", KINDS)
def test_a_call_that_hangs_is_abandoned(how: str):
    calls = BoundedCalls(0.2)
    with pytest.raises(CallTimeout, match=r"took more than 0\.2 s"):
        calls(lambda: hang(how))
    assert calls(lambda: "next") == "next"


def test_a_loop_in_python_ends_when_it_is_abandoned():
    calls, seen = BoundedCalls(0.2), []

    def loop() -> None:
        seen.append(threading.current_thread())
        while True:
            pass

    with pytest.raises(CallTimeout):
        calls(loop)
    seen[0].join(60)
    assert not seen[0].is_alive()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_limit_is_above_0(seconds: float):
    with pytest.raises(ConfigError, match="env_seconds must be above 0"):
        BoundedCalls(seconds)


@pytest.mark.parametrize("how", KINDS)
def test_a_step_that_hangs_truncates_the_episode(how: str):
    env = BoundedEnv(lambda: Hanging(how=how), 0.5)
    env.reset(seed=0, options={"task": "test/b"})
    env.step("go")
    with pytest.warns(RuntimeWarning, match=r"Hanging: step in task 'test/b' .* action 'hang'"):
        text, reward, terminated, truncated, info = env.step("hang")
    assert (text, reward, terminated, truncated) == ("Turn 1.", 0.0, False, True)
    assert (info["turn"], info["success"], info[TIMED_OUT]) == (2, False, True)
    assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0}
    text, info = env.reset(seed=0, options={"task": "test/c"})
    assert text == "Task test/c." and TIMED_OUT not in info
    assert env.step("go")[:4] == ("Turn 1.", 1.0, False, False)
    env.close()


def test_a_reset_that_hangs_gives_an_episode_of_one_turn():
    env = BoundedEnv(lambda: Hanging(at_reset="a"), 0.5)
    with pytest.warns(RuntimeWarning, match="reset of task 'test/a' with seed 3"):
        text, info = env.reset(seed=3, options={"task": "test/a"})
    assert text == "(The environment did not start in time.)" and info["task"] == "test/a"
    assert env.step("go")[1:4] == (0.0, False, True)
    assert env.reset(seed=3, options={"task": "test/b"})[0] == "Task test/b."


def test_copies_have_threads_of_their_own():
    env = BoundedEnv(Hanging, 60.0)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    assert twin.step("go")[0] == env.step("go")[0] == "Turn 1."


def test_a_limit_that_is_not_reached_changes_nothing():
    reports = [
        evaluate(lambda: Hanging(), "random", tasks=8, num_envs=3, env_seconds=seconds)
        for seconds in (None, 60.0)
    ]
    assert reports[0] == reports[1]


def test_evaluations_count_slow_calls_and_go_on():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = evaluate(
            lambda: Hanging(at_reset="c", at_step="ae"), "random", split="test", tasks=None,
            num_envs=3, env_seconds=0.5,
        )  # fmt: skip
    failures = {record.task: record.failure for record in report.episodes}
    assert len(failures) == 8
    assert {task for task, kind in failures.items() if kind == "timeout"} == {
        "test/a", "test/c", "test/e",
    }  # fmt: skip
    assert all(not record.terminated and record.truncated for record in report.episodes
               if record.failure == "timeout")  # fmt: skip
    assert report.aggregate()["failure/timeout"].mean == 3 / 8
    assert sum("test/a" in str(w.message) for w in caught) == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["asleep", "library"])
def test_the_command_eval_ends_although_a_call_hangs(how: str, tmp_path: Path):
    file = tmp_path / "report.json"
    done = command(
        "eval", ENV, "--agent", "random", "--episodes", "8", "--env-seconds", "1", "--json",
        str(file), "--env-kwargs", f"how={how}", "at_step=ab",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "task 'test/a'" in done.stderr and "environment too slow 25 %" in done.stdout
    assert sum(r["failure"] == "timeout" for r in json.loads(file.read_text())[0]["episodes"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_command_train_ends_although_calls_hang(workers: str, tmp_path: Path):
    run = command if workers == "0" else forked  # one of both ends an interpreter of its own
    done = run(
        "train", "rloo", "--env-id", ENV, "--env-kwargs", "how=library", "at_step=b",
        "--env-seconds", "0.25", "--iterations", "1", "--episodes-per-iteration", "4",
        "--group-size", "4", "--num-envs", "4", "--eval-episodes", "4", "--train-tasks", "2",
        "--bc-demonstrations", "2",
        "--env-workers", workers, "--run-dir", str(tmp_path / "run"), "--device", "cpu",
        seconds=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Hanging-v0, task 'train/" in done.stderr + done.stdout
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert sum(json.loads(line).get("rollout/timeouts", 0) for line in lines) > 0


@pytest.mark.parametrize("method", ["snapshot", "restore"])
def test_a_snapshot_that_hangs_is_abandoned(method: str, monkeypatch: pytest.MonkeyPatch):
    env = BoundedEnv(Hanging, 0.5)
    env.reset(seed=0)
    saved = json.loads(json.dumps(env.snapshot()))
    monkeypatch.setattr(env.unwrapped, method, lambda *_: hang("asleep"), raising=True)
    with (
        pytest.warns(RuntimeWarning, match=f"Hanging: {method} took more than"),
        pytest.raises(CallTimeout),
    ):
        env.snapshot() if method == "snapshot" else env.restore(saved)
    _, info = env.restore(saved)
    assert env.step("go")[4]["turn"] == info["turn"] + 1
