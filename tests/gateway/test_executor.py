"""`HarnessExecutor`: programs of users play the episodes of a rollout."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.time_step import TimeStep
from agentgym.trainers.data.packing import pack
from agentgym.trainers.gateway import executor as module
from agentgym.trainers.gateway.executor import HarnessExecutor, ProgramError
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.played import Played, checked_score
from agentgym.trainers.gateway.processes import TAIL, Groups
from agentgym.trainers.gateway.programs import (
    CommandProgram,
    FunctionProgram,
    ModuleProgram,
    Outcome,
    program_of,
)
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from tests.gateway import episodes as programs
from tests.helpers.chat_models import chat_model
from tests.helpers.many_files import many_files

SAMPLING = Sampling(max_new_tokens=5)
COMMAND = f"{sys.executable} {Path(programs.__file__)}"
SPECS = [EpisodeSpec(f"train/{n}", n, (7, 0, n)) for n in range(4)]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(*chat_model("base"))


def play(
    policy: Policy,
    harness: str | Callable[[Task], Any],
    specs: Sequence[EpisodeSpec] = SPECS,
    *,
    seconds: float | None = None,
    **options: Any,
) -> list[list[Any]]:
    """The trajectories of episodes that a program plays, two at once."""
    with EnvPool(lambda: NumberLine(max_turns=3), num_envs=2) as pool:
        program = program_of(harness, seconds)
        executor = HarnessExecutor(Gateway(policy, SAMPLING), program, pool, **options)
        try:
            return executor.start(specs)()
        finally:
            executor.close()


@pytest.fixture(scope="module")
def expected(policy: Policy) -> list[Any]:
    """The trajectories of a rollout."""
    context = make_context(policy, ContextSettings())
    with EnvPool(lambda: NumberLine(max_turns=3), num_envs=2) as pool:
        return collect(policy, pool, SPECS, context, SAMPLING)


@pytest.mark.parametrize(
    "harness",
    [programs.chat, programs.chat_async, "tests.gateway.episodes:chat", f"{COMMAND} chat"],
    ids=["function", "coroutine", "module", "command"],
)
def test_a_program_plays_as_a_rollout_does(
    policy: Policy, harness: Any, expected: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(Path(__file__).parents[2])
    found = [each for [each] in play(policy, harness)]
    for one, other in zip(found, expected, strict=True):
        packed = pack(other)
        for name, value in pack(one).items():
            np.testing.assert_array_equal(value, packed[name], err_msg=name)


def test_a_number_that_a_function_returns_is_the_reward(policy: Policy):
    found = play(policy, "tests.gateway.episodes:one_answer", SPECS[:2])
    for [each] in found:
        assert each.turns[-1].reward == len(each.turns[-1].action)


@pytest.fixture
def own_freeze() -> Iterator[None]:
    """Takes back the freeze of the tests, and makes it again."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()


@pytest.mark.usefixtures("own_freeze")
def test_the_collector_leaves_out_older_objects_during_a_rollout_alone(policy: Policy):
    counts = list[int]()

    def program(task: Task) -> None:
        counts.append(gc.get_freeze_count())
        programs.chat(task)

    def fail(finished: int) -> None:
        raise ZeroDivisionError

    with EnvPool(lambda: NumberLine(max_turns=3), num_envs=2) as pool:
        executor = HarnessExecutor(Gateway(policy, SAMPLING), program_of(program), pool)
        assert gc.get_freeze_count() == 0
        executor.play(SPECS[:1])
        assert counts[0] > 0 and gc.get_freeze_count() == 0
        executor.on_progress = fail
        with pytest.raises(ZeroDivisionError):
            executor.play(SPECS[:1])
        assert gc.get_freeze_count() == 0
        executor.on_progress = None
        gc.freeze()
        frozen = gc.get_freeze_count()
        executor.play(SPECS[:1])
        assert 0 < gc.get_freeze_count() <= counts[-1] <= frozen  # a freeze of the user stays
        executor.close()


SCALARS = [np.float32(0.5), np.int64(2), np.bool_(True), np.array(0.5), torch.tensor(0.5)]


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: type(value).__name__)
def test_a_scalar_of_an_array_is_a_score(value: Any):
    number = float(value)
    assert FunctionProgram(lambda _: value).run(Task("X-v0", "t", 1)).score == number
    assert checked_score(value) == number
    assert checked_score({"style": value}) == {"style": number}
    assert checked_score([value, 1]) == [number, 1.0]


@pytest.mark.parametrize("value", ["0.5", None, np.array([0.5, 1.0]), {"a": "b"}])
def test_what_is_no_number_is_no_score(value: Any):
    assert FunctionProgram(lambda _: value).run(Task("X-v0", "t", 1)).score is None
    with pytest.raises(TypeError, match="must return a number"):
        checked_score(value)


def test_a_score_sees_the_conversation(policy: Policy):
    seen: list[Played] = []

    def score(played: Played) -> dict[str, float]:
        seen.append(played)
        return {"short": 0.25, "polite": 0.5}

    [[each]] = play(policy, programs.one_answer, SPECS[:1], score=score)
    assert each.turns[-1].reward_terms["short"] == 0.25
    assert each.turns[-1].reward == pytest.approx(len(each.turns[-1].action) + 0.75)
    assert [message["role"] for message in seen[0].messages] == ["user", "assistant"]
    assert seen[0].replies == (each.turns[-1].action,)
    assert seen[0].task.key == ""


@pytest.mark.parametrize("harness", [programs.fails, f"{COMMAND} fails"])
def test_an_episode_without_outcome_is_played_again_and_then_left_out(policy: Policy, harness: Any):
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ProgramError, match=r"(?s)2 of 2 episodes.*out of order"),
    ):
        play(policy, harness, SPECS[:2])


def test_one_failure_costs_one_episode(policy: Policy):
    tries: list[str] = []

    def sometimes(task: Task) -> None:
        tries.append(task.task)
        if task.task == "train/1":
            programs.fails(task)
        programs.chat(task)

    with pytest.warns(UserWarning, match="train/1"):
        found = play(policy, sometimes)
    assert [len(each) for each in found] == [1, 0, 1, 1]
    assert tries.count("train/1") == module.TRIES


class Unjudged(NumberLine):
    """A judge's verdict on the task "train/1" cannot be read."""

    def _info(self, step: TimeStep) -> dict[str, Any]:
        unread = self.task == "train/1" and self._turn == 3
        return super()._info(step) | ({"unjudged": True} if unread else {})


@pytest.mark.parametrize("score", [None, lambda _: 1.0])
def test_an_episode_whose_verdict_is_unreadable_is_marked(policy: Policy, score: Any):
    with EnvPool(lambda: Unjudged(max_turns=3), num_envs=2) as pool:
        program = program_of(programs.chat, None)
        executor = HarnessExecutor(Gateway(policy, SAMPLING), program, pool, score=score)
        found = executor.start(SPECS)()
        executor.close()
    unjudged = [each.stats.unjudged for [each] in found]
    assert unjudged == [False, score is None, False, False]


def test_a_program_that_does_not_act_ends_with_the_reward_so_far(policy: Policy):
    """A model that calls no tool learns from that, unless nobody acts at all: a warning."""

    def talks(task: Task) -> None:
        programs.ask(task, [{"role": "user", "content": task.observation}])
        if task.task == "train/0":
            task.step("+")

    found = [each for [each] in play(policy, talks, SPECS[:2])]
    assert [each.terminated for each in found] == [True, True]
    assert [each.success for each in found] == [False, False]
    assert found[1].turns[0].reward == 0.0
    with pytest.warns(UserWarning, match="took no action"):
        play(policy, talks, SPECS[1:2])


@pytest.mark.parametrize(
    ("harness", "seconds"),
    [(programs.hangs, 1.0), (f"{COMMAND} hangs", 3.0)],
    ids=["function", "command"],
)
def test_a_program_that_never_ends_is_stopped_and_scored(
    policy: Policy, harness: Any, seconds: float
):
    [[each]] = play(policy, harness, SPECS[:1], seconds=seconds, score=lambda _: 1.0)
    assert each.truncated and each.stats.timed_out and each.turns[-1].reward == 1.0


def test_episodes_with_recorded_actions_are_refused(policy: Policy, expected: list[Any]):
    opening = (object(),)
    with pytest.raises(ConfigError, match="replays recorded actions"):
        play(policy, programs.chat, [replace(SPECS[0], opening=opening)])


def outcome(command: str, task: Task) -> Outcome:
    program = CommandProgram(command, 30.0)
    try:
        return program.run(task)
    finally:
        program.close()


def test_a_command_gets_few_environment_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another-secret")
    shown = outcome("env", Task("X-v0", "t", 1, url="http://h", key="k" * 32))
    variables = dict(line.split("=", 1) for line in shown.output.splitlines())
    assert "secret" not in shown.output
    assert variables["OPENAI_API_KEY"] == "k" * 32
    assert variables["OPENAI_BASE_URL"] == "http://h/v1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://h"
    assert Task.of_environ(variables).task == "t"


def test_a_task_that_is_too_long_for_a_variable_is_in_a_file():
    task = Task("X-v0", "t", 1, observation="\u20ac" * 50_000, url="http://h", key="k" * 32)
    code = (
        "from agentgym.trainers.gateway.task import Task; task = Task.of_environ(); "
        "print(task.key, len(task.observation))"
    )
    for shown in (outcome(f"python -c '{code}'", task), outcome_of_module(task)):
        assert not shown.error
        assert "k" * 32 + " 50000" in shown.output


def test_a_function_of_a_module_runs_from_a_process_with_many_files():
    with many_files():
        assert not outcome_of_module(Task("X-v0", "t", 1, url="http://h", key="k" * 32)).error


def outcome_of_module(task: Task) -> Outcome:
    program = ModuleProgram("tests.gateway.episodes:shown", 30.0)
    try:
        return program.run(task)
    finally:
        program.close()


def test_all_that_a_command_starts_ends_with_it(tmp_path: Path):
    script = tmp_path / "spawns.sh"
    script.write_text(
        f"sleep 600 & echo $! > {tmp_path / 'child'}; trap '' TERM; yes | head -c 9000000"
    )
    found = outcome(f"sh {script}", Task("X-v0", "t", 1))
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not found.timed_out and not found.error and len(found.output) < 9000
    deadline = time.monotonic() + 60  # of a busy machine: the signal takes effect later
    with suppress(FileNotFoundError, ProcessLookupError):
        while child.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_output_without_end_takes_no_memory(tmp_path: Path):
    groups, count = Groups(), 100_000_000
    tracemalloc.start()
    process, tail = groups.start(["head", "-c", str(count), "/dev/zero"], {}, tmp_path)
    try:
        assert process.wait(60) == 0
        text = tail.text()
        assert tracemalloc.get_traced_memory()[1] < count / 100
    finally:
        tracemalloc.stop()
        groups.end(process)
        tail.close()
        groups.close()
    assert text == TAIL * "\0"


@pytest.mark.parametrize("harness", ["", "no-such-program x", "'"])
def test_a_command_that_cannot_be_started_is_refused(harness: str):
    with pytest.raises(ConfigError):
        program_of(harness)
