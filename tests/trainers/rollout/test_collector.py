"""Rollouts: slots, order, bookkeeping, truncation; with a scripted policy that counts its calls."""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import TextEnv, TimeStep
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.envs.planning.blocksworld import Blocksworld
from agentgym.registration import making
from agentgym.tasks import Tasks
from agentgym.time_limits import CallTimeout
from agentgym.trainers.credit import two_clock
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import AtLimit, Context, ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.failures import Failures
from agentgym.trainers.rollout.metrics import action_coverage, rollout_metrics

from ...helpers import worlds

END = 0


class Letters:
    """A tokenizer: one character, one token."""

    chat_template = None
    bos_token_id = None
    eos_token_id = END

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(c) + 1 for c in text]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(i - 1) for i in ids]


class RandomWalk:
    """A policy that says + or - at random and remembers every prompt it was given."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.candidates: list[Any] = []

    def session(self, **_: bool) -> Any:
        return SimpleNamespace(drop=lambda slot: None)

    def encode(self, text: str) -> list[int]:
        return [ord(c) + 1 for c in text]

    def encode_action(self, text: str) -> list[int]:
        return [*self.encode(text), END]

    def act(self, requests, sampling, cache=None) -> list[Sample]:
        self.calls.append(["".join(chr(t - 1) if t else "$" for t in r.prompt) for r in requests])
        self.candidates += [r.candidates for r in requests]
        return [self.say("+-"[int(r.rng.integers(2))]) for r in requests]

    def say(self, text: str) -> Sample:
        tokens = np.array(self.encode_action(text), np.int32)
        return Sample(tokens, np.full(len(tokens), -0.5, np.float32), None, text, True)


def context(limit: int | None = None, **settings: Any) -> Context:
    return Context(
        ContextSettings(**settings),
        Letters(),
        ActionFormat(END, frozenset([END])),
        model_max_tokens=limit,
    )


def episodes(n: int) -> list[EpisodeSpec]:
    return [EpisodeSpec(f"train/{i}", i, (5, i)) for i in range(n)]


def play(policy: Any = None, n: int = 12, num_envs: int = 4, workers: int = 0, **kwargs: Any):
    make = kwargs.pop("make", lambda: NumberLine(max_turns=6))
    constrain, failures = kwargs.pop("constrain", False), kwargs.pop("failures", None)
    prompts = kwargs.pop("prompts", None) or context(**kwargs)
    with EnvPool(make, num_envs, workers) as pool:
        return collect(
            policy or RandomWalk(),  # type: ignore[arg-type]
            pool,
            episodes(n),
            prompts,
            Sampling(max_new_tokens=4),
            constrain=constrain,
            failures=failures,
        )


def facts(trajectories):
    return [
        (
            *(t.task, t.seed, t.terminated, t.truncated, t.success, t.bootstrap),
            t.final_observation,
            *(tuple(segment.tokens.tolist()) for segment in t.segments),
            *((turn.segment, turn.start, turn.stop, turn.action, turn.reward) for turn in t.turns),
        )
        for t in trajectories
    ]


def test_an_action_without_tokens_is_refused():
    nothing = Sample(np.zeros(0, np.int32), np.zeros(0, np.float32), None, "", True)
    policy = RandomWalk()
    policy.say = lambda text: nothing
    with pytest.raises(ValueError, match=r"at least one token, its end, but the engine returned"):
        play(policy)


@pytest.mark.parametrize("mode", ["full", "window", "current"])
def test_results_do_not_depend_on_the_number_of_environments(mode):
    expected = facts(play(num_envs=1, mode=mode))
    for num_envs, workers in ((8, 0), (64, 0), (5, 3)):
        assert facts(play(num_envs=num_envs, workers=workers, mode=mode)) == expected


def test_finished_episodes_never_reach_the_model_and_no_slot_idles():
    policy = RandomWalk()
    trajectories = play(policy, n=20, num_envs=4)
    turns = sum(len(t.turns) for t in trajectories)
    assert sum(len(call) for call in policy.calls) == turns
    assert not any("Done!" in prompt for call in policy.calls for prompt in call)
    # Every call is full until fewer episodes than slots are left.
    assert all(len(call) == 4 for call in policy.calls[: turns // 4 - 6])


def test_turns_carry_what_the_environment_said():
    for trajectory in play():
        env = NumberLine(max_turns=6)
        observation, info = env.reset(seed=trajectory.seed, options={"task": trajectory.task})
        terminated = truncated = False
        for turn in trajectory.turns:
            assert turn.observation == observation
            assert turn.state_key == info["state_key"]
            assert turn.admissible == info["admissible"]
            observation, reward, terminated, truncated, info = env.step(turn.action)
            assert (turn.reward, turn.progress, turn.valid) == (reward, info["progress"], True)
            assert turn.reward_terms == info["reward_terms"]
        assert (trajectory.terminated, trajectory.truncated) == (terminated, truncated)
        assert trajectory.final_observation == observation
        assert trajectory.final_state_key == info["state_key"]
        assert trajectory.success == info["success"]


def test_a_trajectory_carries_the_progress_at_its_start():
    found = play(make=lambda: Blocksworld(max_turns=2))
    for trajectory in found:
        _, info = Blocksworld().reset(seed=trajectory.seed, options={"task": trajectory.task})
        assert trajectory.start_progress == info["progress"]
    assert any(trajectory.start_progress > 0 for trajectory in found)


def letters(tokens) -> str:
    return "".join(chr(t - 1) if t else "$" for t in tokens)


def test_full_history_is_one_segment_and_windows_are_joined_where_they_grow():
    for trajectory in play(mode="full"):
        assert len(trajectory.segments) == 1
        for turn in trajectory.turns:
            span = trajectory.segments[0].tokens[turn.start : turn.stop]
            assert letters(span) == turn.action + "$"
            assert letters(trajectory.segments[0].tokens[: turn.start]).endswith(
                turn.observation + "\n> "
            )
    for trajectory in play(mode="window", window=2):
        ends = len(trajectory.turns) + trajectory.truncated
        assert len(trajectory.segments) == max(1, ends - 2)
    for trajectory in play(mode="current"):
        assert len(trajectory.segments) == len(trajectory.turns) + trajectory.truncated


@pytest.mark.parametrize("mode", ["full", "window", "current"])
def test_a_truncated_episode_keeps_the_prompt_after_its_last_observation(mode):
    trajectories = play(n=30, mode=mode)
    assert {t.truncated for t in trajectories} == {True, False}
    for trajectory in trajectories:
        if trajectory.truncated:
            assert trajectory.bootstrap == len(trajectory.segments) - 1
            prompt = letters(trajectory.segments[-1].tokens)
            assert prompt.endswith(trajectory.final_observation + "\n> ")
        else:
            assert trajectory.bootstrap is None
            assert letters(trajectory.segments[-1].tokens).endswith("$")


@pytest.mark.parametrize("mode", ["full", "current"])
def test_without_a_critic_the_last_observation_is_neither_kept_nor_tokenised(mode):
    seen: list[str] = []
    prompts: Any = context(mode=mode)
    prompts.observation_tokens = lambda text: seen.append(text) or prompts._encode_text(text)
    with EnvPool(lambda: NumberLine(size=6, max_turns=5), 4) as pool:
        asked = [replace(episode, bootstraps=False) for episode in episodes(30)]
        sampling = Sampling(max_new_tokens=4)
        trajectories = collect(RandomWalk(), pool, asked, prompts, sampling)  # type: ignore
    assert {t.truncated for t in trajectories} == {True, False}
    assert seen and len(seen) == sum(len(t.turns) for t in trajectories)
    for trajectory in trajectories:
        assert trajectory.bootstrap is None
        assert letters(trajectory.segments[-1].tokens).endswith("$")


def test_an_episode_that_outgrows_the_context_is_truncated_and_counted():
    trajectories = play(n=30, limit=200, mode="full")
    overflows = [t for t in trajectories if t.stats.overflow]
    assert overflows
    for t in overflows:
        assert t.truncated and not t.terminated and t.bootstrap == 0
        assert len(t.segments[0].tokens) <= 200
    assert rollout_metrics(trajectories)["context_overflows"] == len(overflows)
    Batch.of(trajectories)
    windows = play(n=30, limit=200, mode="window", window=9)
    assert not any(t.stats.overflow for t in windows)
    assert rollout_metrics(windows)["turns_left_out"] > 0


def test_action_coverage_is_the_share_of_listed_actions_that_were_taken():
    found = worlds.trajectory([1, 1, 1], [0.0] * 3)
    for turn, action, listed in zip(found.turns, "aac", ["ab", "abcd", ""], strict=True):
        turn.action, turn.admissible = action, tuple(listed)
    assert action_coverage(found) == 0.5
    for turn in found.turns:
        turn.admissible = ()
    assert action_coverage(found) is None


def test_an_episode_that_outgrows_the_context_may_count_as_terminal():
    """Without a bootstrap its last value is its last reward, in every estimator."""
    kinds = {kind: play(n=30, limit=200, mode="full", overflow=kind) for kind in get_args(AtLimit)}
    cut = [t.stats.overflow for t in kinds["terminate"]]
    assert any(cut) and cut == [t.stats.overflow for t in kinds["truncate"]]
    targets = {}
    for kind, trajectories in kinds.items():
        batch = Batch.of(trajectories)
        high = np.full(len(trajectories), 100, np.float32)
        zeros = np.zeros(batch.num_turns, np.float32)
        credit = two_clock.turn(0.5, 1.0)(batch, Values(None, zeros, high))
        assert credit.targets is not None
        targets[kind] = credit.targets[batch.turn_offsets[1:] - 1]
    for i, (t, old) in enumerate(zip(kinds["terminate"], kinds["truncate"], strict=True)):
        assert [turn.action for turn in t.turns] == [turn.action for turn in old.turns]
        if cut[i]:
            assert t.terminated and not t.truncated and t.bootstrap is None
            assert targets["terminate"][i] == t.turns[-1].reward
            assert targets["truncate"][i] == t.turns[-1].reward + 50
        else:
            assert targets["terminate"][i] == targets["truncate"][i]
    assert rollout_metrics(kinds["terminate"])["context_overflows"] == sum(cut)


@pytest.mark.parametrize("mode", ["full", "current"])
def test_the_turn_limit_may_count_as_terminal(mode: str):
    kinds = {kind: play(n=30, mode=mode, turn_limit=kind) for kind in get_args(AtLimit)}
    assert {t.truncated for t in kinds["truncate"]} == {True, False}
    for t, old in zip(kinds["terminate"], kinds["truncate"], strict=True):
        assert [turn.action for turn in t.turns] == [turn.action for turn in old.turns]
        assert (t.terminated, t.truncated, t.bootstrap) == (True, False, None)
        assert letters(t.segments[-1].tokens).endswith("$")
        assert t.stats.at_limit == old.stats.at_limit == old.truncated
        assert t.final_observation == old.final_observation
    shares = [rollout_metrics(each)["truncated"] for each in kinds.values()]
    assert 0 < shares[0] == shares[1] < 1


@pytest.mark.filterwarnings("ignore:.*The episode is truncated")
@pytest.mark.parametrize("turn_limit", get_args(AtLimit))
def test_an_environment_that_takes_too_long_is_at_no_limit(turn_limit: str, monkeypatch: Any):
    """Nobody has to solve a task before it hangs, so that its last state keeps its value."""
    step, taken = NumberLine.step, []

    def slow(env: NumberLine, action: str) -> Any:
        taken.append(action)
        if len(taken) == 2:
            raise CallTimeout("took more than 1 s")
        return step(env, action)

    monkeypatch.setattr(NumberLine, "step", slow)
    [found] = play(n=1, turn_limit=turn_limit)
    assert found.stats.timed_out and not found.stats.at_limit and len(found.turns) == 2
    assert found.truncated and not found.terminated and found.bootstrap is not None


@pytest.mark.parametrize("overflow", get_args(AtLimit))
@pytest.mark.parametrize("turn_limit", get_args(AtLimit))
def test_each_limit_ends_an_episode_in_its_own_way(overflow: str, turn_limit: str):
    limits = iter([2, 6, 2, 6])  # the context has no room for six turns
    played = play(
        n=30, make=lambda: NumberLine(max_turns=next(limits)), limit=260, mode="full",
        overflow=overflow, turn_limit=turn_limit,
    )  # fmt: skip
    ends = {True: overflow, False: turn_limit}
    found = [t for t in played if t.stats.at_limit]
    assert {t.stats.overflow for t in found} == {True, False}
    for t in found:
        assert t.terminated == (ends[t.stats.overflow] == "terminate") != t.truncated
    assert rollout_metrics(played)["truncated"] == len(found) / 30


def test_constraint_hands_over_the_admissible_actions_where_there_are_any():
    policy = RandomWalk()
    play(policy, constrain=True)
    assert set(policy.candidates) == {("+", "-")}
    policy = RandomWalk()
    play(policy)
    assert set(policy.candidates) == {None}


class Gate(NumberLine):
    """An environment that answers when another one has finished a number of episodes."""

    finished = threading.Semaphore(0)

    def __init__(self, slow: bool):
        super().__init__(max_turns=3)
        self.slow = slow

    def step(self, action: str):
        if self.slow:
            assert Gate.finished.acquire(timeout=60), "the slow environment stalled the others"
        result = super().step(action)
        if not self.slow and (result[2] or result[3]):
            Gate.finished.release()
        return result


def test_a_slow_environment_stalls_nobody():
    made = iter([True] + [False] * 3)
    trajectories = play(n=12, num_envs=4, workers=4, make=lambda: Gate(next(made)))
    assert [t.task for t in trajectories] == [f"train/{i}" for i in range(12)]


class Broken(TextEnv):
    """Raises at the second turn."""

    instructions = ""
    State = int
    tasks = Tasks.generated()

    def _start(self, task: str) -> TimeStep:
        self.state = 0
        return TimeStep("begin")

    def _advance(self, action: str) -> TimeStep:
        self.state += 1
        if self.state == 2:
            raise KeyError("lost")
        return TimeStep("go on")


@pytest.mark.parametrize("workers", [0, 2])
def test_what_an_environment_raises_says_where_it_happened(workers):
    with pytest.raises(KeyError) as caught:
        play(make=Broken, workers=workers)
    assert "train/" in caught.value.__notes__[0]


class Fails(NumberLine):
    """Raises in the n-th calls of `reset` and `step` of all its instances, and is then unusable."""

    calls: Iterator[int]
    failing: frozenset[int]

    def _call(self) -> None:
        self.broken = getattr(self, "broken", False) or next(self.calls) in self.failing
        if self.broken:
            raise KeyError("lost")

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        self._call()
        return super().reset(**options)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        self._call()
        return super().step(action)


def failing(*numbers: int) -> Callable[[], Fails]:
    calls = itertools.count()
    kind = type("Some", (Fails,), {"calls": calls, "failing": frozenset(numbers)})
    return lambda: kind(max_turns=6)


@pytest.mark.filterwarnings("ignore:An episode failed")
@pytest.mark.parametrize("workers", [0, 3])
@given(numbers=st.sets(st.integers(0, 60), max_size=6))
@settings(max_examples=20, deadline=None)
def test_episodes_that_fail_are_played_again_with_the_same_result(workers, numbers):
    expected, failures = facts(play()), Failures(0.5)
    assert facts(play(make=failing(*numbers), workers=workers, failures=failures)) == expected
    assert failures.take() <= len(numbers)
    assert failures.take() == 0


@pytest.mark.parametrize("workers", [0, 3])
def test_a_rollout_ends_above_the_share_of_episodes_that_may_fail(workers):
    few, many = failing(3, 20), failing(3, 20, 30)
    failures = Failures(2 / 12)
    with pytest.warns(UserWarning, match="is played again in a fresh environment"):
        play(make=few, workers=workers, failures=failures)
    assert failures.take() == 2
    with pytest.raises(KeyError) as caught, pytest.warns(UserWarning, match="lost"):
        play(make=many, workers=workers, failures=failures)
    assert "3 of 12 episodes failed" in caught.value.__notes__[-1]
    with pytest.raises(KeyError):
        play(make=failing(0), workers=workers)


def test_an_environment_that_cannot_be_made_again_counts_as_a_failure():
    made = iter([NumberLine(max_turns=6), None, NumberLine(max_turns=6)])

    def make() -> NumberLine:
        if (env := next(made)) is None:
            raise OSError("no room")
        return env

    with pytest.warns(UserWarning, match="no room"):
        found = play(n=4, num_envs=2, make=make, failures=Failures(0.5))
    assert facts(found) == facts(play(n=4, num_envs=2))


class Plain(gymnasium.Env[Any, Any]):
    """An environment that knows nothing of AgentGym: no instructions, no info keys."""

    action_space = observation_space = None  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.left = 2
        return "begin", {}

    def step(self, action: Any):
        self.left -= 1
        return "go on", 1.0, self.left == 0, False, {}


def test_any_environment_of_texts_will_do():
    for trajectory in play(make=Plain):
        assert trajectory.episode_return == 2.0
        assert [turn.reward_terms for turn in trajectory.turns] == [{"task": 1.0}] * 2


def test_what_on_progress_raises_ends_the_collection():
    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done >= 3:
            raise Stop

    with EnvPool(NumberLine, 2, 2) as pool, pytest.raises(Stop):
        collect(
            RandomWalk(),  # type: ignore[arg-type]
            pool,
            episodes(9),
            context(),
            Sampling(),
            on_progress=stop,
        )


def test_global_generators_are_untouched(global_rng_untouched):
    play()


def test_an_episode_without_an_end_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(making, "MANY_TURNS", 4)
    with pytest.warns(UserWarning, match="An episode of NumberLine goes on after 4 turns"):
        play(n=3)
