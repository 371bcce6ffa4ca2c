"""Training and playing from Python: callbacks, rewards, environment objects, trackers, policies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from accelerate.tracking import GeneralTracker

from agentgym.core import TextEnv
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import CheckpointError, ConfigError, UnknownArgumentError
from agentgym.evaluation import evaluate
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.trainers import Callback, Trainer, load_policy, make_trainer, train
from agentgym.trainers.recipes import grpo, poad
from agentgym.trainers.run.logger import read_metrics
from agentgym.wrappers import HistoryObservation
from agentgym.wrappers.reward_function import Transition

SMALL: dict[str, Any] = {
    "model": "nano",
    "context": "current",
    "instructions": False,
    "constrain": True,
    "iterations": 2,
    "episodes_per_iteration": 4,
    "num_envs": 2,
    "eval_every": 1,
    "eval_episodes": 2,
    "device": "cpu",
    "threads": 1,
    "log_with": (),
    "quiet": True,
}
UNEVALUATED = {**SMALL, "eval_episodes": 0}
del UNEVALUATED["eval_every"]
NUMBER_LINE: dict[str, Any] = {"env_id": "NumberLine-v0", "env_kwargs": {"size": 4, "max_turns": 4}}


def number_line() -> NumberLine:
    return NumberLine(size=4, max_turns=4)


# Callbacks.


class Recorder(Callback):
    """Records every call; returns False from the n-th call of one event."""

    def __init__(self, stop_at: str = "", count: int = 1):
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.iterations: list[int] = []
        self._stop_at, self._count = stop_at, count

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _record(self, name: str, trainer: Trainer, *args: Any) -> bool | None:
        assert isinstance(trainer, Trainer)
        self.calls.append((name, args))
        self.iterations.append(trainer.state.iteration)
        return False if name == self._stop_at and self.names().count(name) == self._count else None

    def on_training_start(self, trainer: Any) -> None:
        self._record("training_start", trainer)

    def on_iteration_start(self, trainer: Any) -> bool | None:
        return self._record("iteration_start", trainer)

    def on_rollout_end(self, trainer: Any, trajectories: Any) -> bool | None:
        return self._record("rollout_end", trainer, trajectories)

    def on_update_end(self, trainer: Any, metrics: Any) -> bool | None:
        return self._record("update_end", trainer, metrics)

    def on_evaluation_end(self, trainer: Any, report: Any) -> bool | None:
        return self._record("evaluation_end", trainer, report)

    def on_training_end(self, trainer: Any) -> None:
        self._record("training_end", trainer)


ITERATION = ["iteration_start", "rollout_end", "update_end"]


def test_callbacks_are_called_in_order_with_their_arguments(tmp_path: Path):
    recorder, second = Recorder(), Recorder()
    callbacks = [recorder, second]
    reports = train("poad", **NUMBER_LINE, **SMALL, callbacks=callbacks, run_dir=str(tmp_path))
    assert recorder.names() == [
        "training_start", "evaluation_end", *ITERATION, "evaluation_end", *ITERATION,
        "evaluation_end", "training_end",
    ]  # fmt: skip
    assert recorder.iterations == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert second.names() == recorder.names()

    rows = [row for row in read_metrics(tmp_path) if "rollout/return" in row]
    evaluations = [args[0] for name, args in recorder.calls if name == "evaluation_end"]
    assert [evaluations[0], evaluations[-1]] == reports
    for row, name in zip(rows, ("rollout_end", "update_end"), strict=True):
        found = [args[0] for called, args in recorder.calls if called == name]
        assert len(found) == 2
        if name == "rollout_end":
            assert [len(trajectories) for trajectories in found] == [4, 4]
            returns = [trajectory.episode_return for trajectory in found[0]]
            assert row["rollout/return"] == pytest.approx(sum(returns) / 4)
        else:
            assert found[1].items() <= row.items()
            assert {"losses/kl", "rollout/return", "time/collect"} <= found[1].keys()


@pytest.mark.slow
@pytest.mark.parametrize("hook", [*ITERATION, "evaluation_end"])
def test_each_hook_that_may_stop_stops_training(hook: str, tmp_path: Path):
    recorder = Recorder(stop_at=hook, count=2)
    more: dict[str, Any] = SMALL | {"iterations": 9, "group_size": 2, "run_dir": str(tmp_path)}
    trainer = make_trainer("rloo", **NUMBER_LINE, **more, callbacks=[recorder])
    reports = trainer.run()
    finished = 1 if hook == "evaluation_end" else 2
    assert trainer.state.iteration == finished
    assert recorder.names().count("update_end") == finished
    # Training concludes as usual: a last evaluation, the policy, the report.
    assert recorder.names()[-2:] == ["evaluation_end", "training_end"]
    assert len(reports) == 2
    assert (tmp_path / "report.json").exists()
    load_policy(tmp_path)


def test_the_first_evaluation_can_stop_training(tmp_path: Path):
    recorder = Recorder(stop_at="evaluation_end")
    reports = train("poad", **NUMBER_LINE, **SMALL, callbacks=[recorder], run_dir=str(tmp_path))
    assert recorder.names() == ["training_start", "evaluation_end", "training_end"]
    assert len(reports) == 1
    load_policy(tmp_path)


@pytest.mark.slow
def test_a_stopped_run_continues(tmp_path: Path):
    settings: dict[str, Any] = NUMBER_LINE | SMALL | {"run_dir": str(tmp_path / "stopped")}
    train("poad", **settings, callbacks=[Recorder(stop_at="update_end")])
    recorder = Recorder()
    train("poad", **settings, resume=True, callbacks=[recorder])
    assert recorder.names().count("update_end") == 1
    settings["run_dir"] = str(tmp_path / "whole")
    train("poad", **settings)

    def losses(folder: Path) -> list[tuple[str, Any]]:
        rows = read_metrics(folder)
        return [(k, v) for row in rows for k, v in row.items() if not k.startswith("time/")]

    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")


def test_an_exception_in_a_callback_ends_training_without_a_conclusion(tmp_path: Path):
    class Failing(Recorder):
        def on_update_end(self, trainer: Any, metrics: Any) -> bool | None:
            raise RuntimeError("from the callback")

    failing = Failing()
    with pytest.raises(RuntimeError, match="from the callback"):
        train("poad", **NUMBER_LINE, **SMALL, callbacks=[failing], run_dir=str(tmp_path))
    assert "training_end" not in failing.names()
    train("poad", **NUMBER_LINE, **SMALL, resume=True, run_dir=str(tmp_path))  # not locked


def test_a_callback_of_another_type_is_refused(tmp_path: Path):
    for wrong in (Recorder, print, None):
        with pytest.raises(TypeError, match=r"instance of agentgym\.trainers\.Callback"):
            train("poad", **NUMBER_LINE, **SMALL, callbacks=[wrong], run_dir=str(tmp_path))
    with pytest.raises(TypeError, match=r"write callbacks=\[\.\.\.\] around"):
        train("poad", **NUMBER_LINE, **SMALL, callbacks=Recorder(), run_dir=str(tmp_path))


# Rewards.


def test_a_reward_function_replaces_the_reward(tmp_path: Path):
    seen: list[Transition] = []

    def reward(transition: Transition) -> dict[str, float]:
        seen.append(transition)
        return {"up": float(transition.action == "+"), "cost": -0.25}

    recorder = Recorder()
    options: dict[str, Any] = {"reward": reward, "callbacks": [recorder], "run_dir": str(tmp_path)}
    reports = train("poad", **NUMBER_LINE, **SMALL, **options)
    [trajectories, _] = [args[0] for name, args in recorder.calls if name == "rollout_end"]
    for trajectory in trajectories:
        for turn in trajectory.turns:
            assert turn.reward == float(turn.action == "+") - 0.25
            assert turn.reward_terms == {"up": float(turn.action == "+"), "cost": -0.25}
    assert reports[-1].episodes[0].reward_terms.keys() == {"up", "cost"}  # evaluations too
    for transition in seen:
        assert transition.observation.startswith("You are at ")
        assert transition.action in ("+", "-")
        assert transition.reward == float(transition.info["success"])  # the environment's own


def test_a_reward_that_is_not_finite_is_refused(tmp_path: Path):
    options: dict[str, Any] = {"reward": lambda transition: float("nan"), "run_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match="finite numbers"):
        train("poad", **NUMBER_LINE, **SMALL, **options)
    with pytest.raises(ConfigError, match=r"Callable or str; got 1\.0"):
        train("poad", **NUMBER_LINE, **SMALL, reward=1.0, run_dir=str(tmp_path / "other"))


# Environments.


@dataclass
class Word:
    """State of `Copycat`."""

    word: str


class Copycat(TextEnv):
    """Repeat the word."""

    instructions = "Repeat the word."
    State = Word
    tasks = Tasks(train=["red", "blue"], test=["green"])

    def _start(self, task: str) -> TimeStep:
        self.state = Word(task)
        return TimeStep(f"Say {task}.", admissible=("red", "blue", "green"))

    def _advance(self, action: str) -> TimeStep:
        right = action == self.state.word
        return TimeStep("Over.", {"task": float(right)}, terminated=True, success=right)


class Echo(gymnasium.Env[str, str]):
    """A plain Gymnasium environment: text spaces, no tasks."""

    observation_space = action_space = gymnasium.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = ("red", "blue")[int(self.np_random.integers(2))]
        return self.word, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "over", float(action == self.word), True, False, {}


def test_an_environment_object_is_copied_for_every_slot(tmp_path: Path):
    env = HistoryObservation(gymnasium.make("AgentGym/NumberLine-v0", size=4, max_turns=4), 1)
    env.reset(seed=7, options={"task": "test/3"})
    env.step("+")
    before = env.get_wrapper_attr("snapshot")()
    trainer = make_trainer("poad", **SMALL, env=env, run_dir=str(tmp_path))
    first, second = trainer.pool.env(0), trainer.pool.env(1)
    assert len({id(e.unwrapped) for e in (env, first, second)}) == 3
    assert isinstance(first, HistoryObservation)
    trainer.run()
    assert env.get_wrapper_attr("snapshot")() == before
    assert trainer.config.environment.env_id == "AgentGym/NumberLine-v0"


@pytest.mark.slow
def test_an_object_and_an_id_train_alike(tmp_path: Path):
    train("poad", **NUMBER_LINE, **SMALL, run_dir=str(tmp_path / "id"))
    train("poad", env=number_line(), **SMALL, run_dir=str(tmp_path / "object"))
    train("poad", env=number_line, **SMALL, run_dir=str(tmp_path / "function"))
    runs = [
        [
            [(k, v) for k, v in row.items() if not k.startswith("time/")]
            for row in read_metrics(tmp_path / name)
        ]
        for name in ("id", "object", "function")
    ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize(
    "env",
    [Copycat, Copycat(), Echo, Echo()],
    ids=["class", "object", "plain class", "plain object"],
)
def test_an_environment_without_an_id_trains(env: Any, tmp_path: Path):
    constrain = {} if isinstance(env, Copycat) or env is Copycat else {"constrain": False}
    few: dict[str, Any] = SMALL | {"max_new_tokens": 2} | constrain
    reports = train("poad", env=env, **few, run_dir=str(tmp_path / "{env}"))
    name = env.__name__ if isinstance(env, type) else type(env).__name__
    assert (tmp_path / name / "policy").is_dir()
    assert len(reports) == 2
    assert {e.task.partition("/")[0] for e in reports[0].episodes} <= {"test", "green"}


def test_wrong_environments_are_named(tmp_path: Path):
    same = number_line()
    for env, match in [
        ("NumberLine-v0", "use env_id='NumberLine-v0'"),
        (3, r"got 3 \(int\)"),
        (lambda: "NumberLine-v0", r"must return a gymnasium\.Env, got 'NumberLine-v0' \(str\)"),
        (lambda: same, "a new environment at each call"),
        (gymnasium.make("CartPole-v1"), "not a text environment"),
    ]:
        with pytest.raises(ConfigError, match=match):
            train("poad", env=env, **SMALL, run_dir=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="env_kwargs need env_id"):
        train("poad", env=same, env_kwargs={"size": 4}, **SMALL, run_dir=str(tmp_path / "run"))


# Trackers.


class Tracker(GeneralTracker):
    """Keeps everything in memory."""

    name = "memory"
    requires_logging_directory = False

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.rows: list[tuple[int | None, dict[str, Any]]] = []
        self.finished = 0

    @property
    def tracker(self) -> None:
        return None

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.settings |= values

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        self.rows.append((step, values))

    def finish(self) -> None:
        self.finished += 1


def test_a_tracker_receives_settings_and_scalars(tmp_path: Path):
    tracker = Tracker()
    train("poad", **NUMBER_LINE, **SMALL, lr=1e-4, trackers=[tracker], run_dir=str(tmp_path))
    assert tracker.settings["lr"] == 1e-4
    assert tracker.settings["env_id"] == "NumberLine-v0"
    rows = read_metrics(tmp_path)
    joined: dict[int | None, dict[str, Any]] = {}
    for step, values in tracker.rows:
        joined.setdefault(step, {}).update(values)
    assert list(joined) == list(dict.fromkeys(row["env_steps"] for row in rows))
    for row in rows:
        scalars = {k: v for k, v in row.items() if "/" in k}
        assert scalars.items() <= joined[row["env_steps"]].items()
    assert tracker.finished == 1
    assert not list(tmp_path.glob("**/events.*"))


@pytest.mark.parametrize(("log_with", "count"), [((), 0), (("tensorboard",), 1)])
def test_tensorboard_files_are_written_if_asked_for(log_with, count, tmp_path: Path):
    few: dict[str, Any] = UNEVALUATED | {"iterations": 1, "log_with": log_with}
    train("poad", **NUMBER_LINE, **few, run_dir=str(tmp_path))
    assert len(list(tmp_path.glob("tensorboard/events.*"))) == count
    assert read_metrics(tmp_path)


def test_an_unknown_tracker_is_named(tmp_path: Path):
    few: dict[str, Any] = SMALL | {"log_with": ("wanbd",), "run_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"unknown tracker 'wanbd'\. Did you mean: wandb"):
        train("poad", **NUMBER_LINE, **few)


def test_a_tracker_that_is_not_installed_is_named(tmp_path: Path, monkeypatch):
    from agentgym.trainers.run import setup

    monkeypatch.setattr(setup, "get_available_trackers", list)
    few: dict[str, Any] = SMALL | {"log_with": ("mlflow",), "run_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match="mlflow is not installed"):
        train("poad", **NUMBER_LINE, **few)


# Policies.


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Two runs: one with the current observation and admissible actions, one with free text."""
    found = {}
    for name, changes in {
        "constrained": {},
        "free": {"context": "full", "constrain": False, "instructions": True, "max_new_tokens": 3},
    }.items():
        found[name] = tmp_path_factory.mktemp(name) / "run"
        few: dict[str, Any] = UNEVALUATED | {"iterations": 1} | changes
        train("poad", **NUMBER_LINE, **few, run_dir=str(found[name]))
    return found


def test_a_loaded_policy_acts(runs: dict[str, Path]):
    observation = "You are at 1. Go to 3."
    for folder in (runs["constrained"], runs["constrained"] / "policy", str(runs["constrained"])):
        policy = load_policy(folder)
        action = policy.act(observation, admissible=("+", "-"))
        assert action in ("+", "-")
        assert action == policy.act(observation, admissible=("+", "-"))  # greedy
        assert policy.act(observation, admissible=("only",)) == "only"
    with pytest.raises(TypeError, match="admissible must be a sequence of actions, got 'only'"):
        policy.act(observation, admissible="only")
    with pytest.raises(TypeError, match=r"admissible must be a sequence of actions, got \(1,\)"):
        policy.act(observation, admissible=(1,))  # type: ignore[arg-type]
    for history in (["ab"], [("a", "b", "c")], [("a", 1)]):
        with pytest.raises(TypeError, match=r"history must be .* \(observation, reply\) pairs"):
            policy.act(observation, history=history)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"got .*LoadedPolicy.* Its attribute `agent` is one"):
        evaluate("NumberLine-v0", policy)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="observation must be a str, got 3"):
        policy.act(3)  # type: ignore[arg-type]


def test_a_started_episode_plays_with_its_history(tmp_path: Path):
    settings = SMALL | {"context": "full", "instructions": True, "iterations": 1}
    train("poad", **NUMBER_LINE, **settings, run_dir=str(tmp_path))
    policy, words = load_policy(tmp_path), "Walk to the target."
    episode, history = policy.start(words), []
    for observation in ("You are at 3.", "You are at 4.", "You are at 5."):
        known: dict[str, Any] = {"instructions": words, "history": history}
        expected = policy.act(observation, admissible=("+", "-"), **known)
        assert episode.act(observation, admissible=("+", "-")) == expected
        history = [*history, (observation, expected)]
    assert episode.history == history and policy.start().history == []


def test_a_loaded_policy_acts_as_in_an_evaluation(runs: dict[str, Path]):
    """With the history, the prompt is that of an agent that has played the episode."""
    policy = load_policy(runs["free"])
    prompts: list[list[int]] = []
    model: Any = policy.agent.policy
    act = model.act

    def spy(requests: Any, *args: Any) -> Any:
        prompts.append(requests[0].prompt.tolist())
        return act(requests, *args)

    model.act = spy
    env = number_line()
    observation, _ = env.reset(seed=0)
    history: list[tuple[str, str]] = []
    for _ in range(3):
        action = policy.act(observation, instructions=env.instructions, history=history)
        assert isinstance(action, str)
        assert action == policy.act(observation, instructions=env.instructions, history=history)
        history.append((observation, action))
        observation, *_ = env.step(action)
    encode = policy.agent.policy.encode
    for shorter, longer in zip(prompts[::2], prompts[2::2], strict=False):
        assert longer[: len(shorter)] == shorter
    text = policy.agent.policy.decode(prompts[-1])
    assert env.instructions.split("\n")[0] in text
    assert all(observation in text for observation, _ in history)
    assert len(prompts[-1]) > len(encode(env.instructions))


def test_sampled_actions_vary_and_are_repeated_by_the_seed(runs: dict[str, Path]):
    def actions(seed: int) -> list[str]:
        policy = load_policy(runs["free"], seed=seed, temperature=1.0)
        return [policy.act("You are at 1. Go to 3.") for _ in range(8)]

    assert actions(0) == actions(0)
    assert actions(0) != actions(1)
    assert len(set(actions(0))) > 1


def test_a_folder_without_a_policy_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"holds no policy: agentgym_policy\.json is missing"):
        load_policy(tmp_path)
    with pytest.raises(CheckpointError, match="holds no policy: there is no such folder"):
        load_policy(tmp_path / "absent")


# Arguments.


def test_wrong_arguments_are_named():
    with pytest.raises(ConfigError, match="Did you mean: poad"):
        train("pod")
    with pytest.raises(ConfigError, match=r"such as 'poad', got None"):
        train(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"rollout is a group of settings, a RolloutConfig, got"):
        train("poad", rollout={"top_k": 3}, top_p=0.5)
    with pytest.raises(UnknownArgumentError, match=r"no setting 'iteration'\. Did you mean: it"):
        train("poad", iteration=3)
    with pytest.raises(ConfigError, match=r"poad\.Config, got a agentgym.*grpo\.Config"):
        train("poad", grpo.Config())
    with pytest.raises(ConfigError, match="in config or by name, not both"):
        train("poad", poad.Config(), lr=1e-4)
    with pytest.raises(ConfigError, match="lr must be at least 0"):
        train("poad", lr=-1.0)
    for seed, bound in ((-1, "at least 0"), (2**63, "below")):
        with pytest.raises(ConfigError, match=f"seed must be {bound}"):
            train("poad", seed=seed)
    with pytest.raises(ConfigError, match="run_dir is empty"):
        train("poad", **NUMBER_LINE, run_dir="")


def test_settings_may_be_numbers_of_numpy_and_paths():
    config = poad.Config.of(
        iterations=np.int64(3), lr=np.float32(0.5), run_dir=Path("a/b"),
        env_kwargs={"size": np.int64(7)}, adam_betas=(np.float64(0.5), 0.9),
    )  # fmt: skip
    found = config.to_json()
    assert json.loads(json.dumps(found)) == found
    chosen = [found[name] for name in ("iterations", "lr", "run_dir", "env_kwargs", "adam_betas")]
    assert chosen == [3, 0.5, str(Path("a/b")), {"size": 7}, [0.5, 0.9]]


def test_a_config_object_trains(tmp_path: Path):
    config = poad.Config.of(**NUMBER_LINE, **SMALL, run_dir=str(tmp_path))
    recorder = Recorder()
    assert len(train("poad", config, callbacks=[recorder])) == 2
    assert recorder.names().count("update_end") == 2
