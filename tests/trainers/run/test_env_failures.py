"""A run goes on after an episode whose environment failed, as if it had not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback, CallbackList
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.run import evaluation, iteration
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.updater import Diverged


def trainer_of(folder: Path, *failing: int, **changes: Any) -> Trainer:
    """Returns a trainer, of whose steps in rollouts those with these numbers fail."""
    steps: Iterator[int] = itertools.repeat(-1)  # while the model is made

    class Fails(NumberLine):
        def step(self, action: str) -> Any:
            if next(steps) in failing:
                raise ConnectionError("the server is gone")
            return super().step(action)

    trainer = make_trainer(
        "grpo", env=lambda: Fails(size=5, max_turns=4), model="nano", group_size=2, num_envs=4,
        episodes_per_iteration=8, iterations=3, eval_episodes=0, max_new_tokens=2, device="cpu",
        threads=1, quiet=True, lr=1e-2, run_dir=str(folder), **changes,
    )  # fmt: skip
    steps = itertools.count()
    return trainer


@pytest.mark.filterwarnings("ignore:An episode failed")
def test_a_run_learns_the_same_after_failures_and_counts_them(tmp_path, monkeypatch):
    counts: list[float] = []
    plain = trainer_of(tmp_path / "plain")
    plain.run()
    trainer = trainer_of(tmp_path / "failing", 25, 40, 41, env_failures=0.25)
    metrics = trainer.rollouts.metrics

    def counted() -> dict[str, float]:
        numbers = metrics()
        counts.append(numbers["rollout/env_failures"])
        return numbers

    monkeypatch.setattr(trainer.rollouts, "metrics", counted)
    trainer.run()
    assert sum(counts) == 3
    weights = trainer.policy.state_dict()
    for name, weight in plain.policy.state_dict().items():
        assert torch.allclose(weight, weights[name], atol=1e-5), name
    assert not any("env_failures" in name for name in plain.rollouts.metrics())


@pytest.mark.filterwarnings("ignore:An episode failed")
@pytest.mark.parametrize(("recipe", "failing"), [("grpo", (3, 9)), ("exit", (40, 60))])
def test_a_teacher_whose_environment_fails_plays_the_episode_again(tmp_path, recipe, failing):
    """Behaviour cloning, and the search of `exit`, whose steps fail in copies of environments."""
    steps = itertools.count()
    numbers: frozenset[int] = frozenset()

    class Fails(NumberLine):
        def step(self, action: str) -> Any:
            if next(steps) in numbers:
                raise ConnectionError("the server is gone")
            return super().step(action)

    def run(name: str, *failing: int, share: float) -> tuple[Trainer, list[dict[str, Any]]]:
        nonlocal steps, numbers
        options: dict[str, Any] = {"teacher": "search:mcts,budget=8"}
        if recipe == "grpo":
            options = {"group_size": 2, "bc_demonstrations": 8, "bc_epochs": 1}
        trainer = make_trainer(
            recipe, env=lambda: Fails(size=5, max_turns=4), model="nano", num_envs=4,
            episodes_per_iteration=8, iterations=1, eval_episodes=0, max_new_tokens=2,
            device="cpu", threads=1, quiet=True, run_dir=str(tmp_path / name),
            env_failures=share, **options,
        )  # fmt: skip
        steps, numbers = itertools.count(), frozenset(failing)
        trainer.run()
        return trainer, read_metrics(tmp_path / name)

    plain, _ = run("plain", share=0.0)
    trainer, rows = run("failing", *failing, share=0.25)
    assert sum(row.get("rollout/env_failures", 0.0) for row in rows) == 2
    weights = trainer.policy.state_dict()
    for name, weight in plain.policy.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    with pytest.raises(ConnectionError):
        run("without", *failing, share=0.0)


def test_without_a_share_the_first_failure_ends_a_run_that_goes_on_with_one(tmp_path):
    with pytest.raises(ConnectionError, match="the server is gone"):
        trainer_of(tmp_path, 25).run()
    resumed = trainer_of(tmp_path, env_failures=0.5, resume=True)
    resumed.run()
    assert resumed.state.iteration == 3


def test_a_failure_loses_no_finished_iteration(tmp_path):
    with pytest.raises(ConnectionError) as found:
        trainer_of(tmp_path / "failing", 70, save_every=100).run()
    assert "Saved after iteration 2. --resume continues the run." in found.value.__notes__
    resumed = trainer_of(tmp_path / "failing", save_every=100, resume=True)
    assert resumed.state.iteration == 2
    resumed.run()
    plain = trainer_of(tmp_path / "plain", save_every=100)
    plain.run()
    weights = resumed.policy.state_dict()
    for name, weight in plain.policy.state_dict().items():
        assert torch.equal(weight, weights[name]), name


def test_what_fails_between_updates_loses_no_finished_iteration(tmp_path):
    """An evaluation, and callbacks of a user, in each of their places."""

    class Fails(Callback):
        def __init__(self, name: str):
            setattr(self, name, self.fail)
            self.calls = 0

        def fail(self, *args: Any) -> None:
            self.calls += 1
            if self.calls == 2:
                raise KeyError("room")

    names = ("on_evaluation_end", "on_iteration_start", "on_update_end")
    for name, at in zip(names, (1, 1, 2), strict=True):
        trainer = trainer_of(tmp_path / name, save_every=100)
        trainer.callbacks = CallbackList([Fails(name)])
        changed = trainer.config.with_changes(eval_episodes=2, eval_every=1, eval_baselines=False)
        trainer.config = changed
        with pytest.raises(KeyError) as found:
            trainer.run()
        assert f"Saved after iteration {at}. --resume continues the run." in found.value.__notes__
        resumed = trainer_of(tmp_path / name, save_every=100, resume=True)
        assert resumed.state.iteration == at, name
        resumed.run()


def test_what_fails_in_an_iteration_before_the_update_loses_no_finished_one(tmp_path):
    """A hook of a recipe, and a callback that reads the episodes."""

    def fails(*args: Any) -> None:
        if trainer.state.iteration == 2:
            raise KeyError("room")

    class Reads(Callback):
        def on_rollout_end(self, trainer: Any, trajectories: Any) -> None:
            fails()

    for name in ("on_rollout_end", "on_rewards", "on_advantages", "callback"):
        trainer = trainer_of(tmp_path / name, save_every=100)
        if name == "callback":
            trainer.callbacks = CallbackList([Reads()])
        else:
            hooks, usual = RecipeHooks(), getattr(RecipeHooks, name)
            setattr(hooks, name, lambda *args, of=hooks, do=usual: fails() or do(of, *args))
            trainer.algorithm = replace(trainer.algorithm, hooks=lambda _, made=hooks: made)
        with pytest.raises(KeyError) as found:
            trainer.run()
        assert "Saved after iteration 2. --resume continues the run." in found.value.__notes__
        assert trainer.saver.saved is not None and trainer.saver.saved[0] == 2, name


def test_a_run_goes_on_exactly_after_an_error_behind_hooks_that_have_a_state(tmp_path):
    """The iteration is repeated, and what it adds to a state must not be there twice."""

    class Counts(RecipeHooks):
        def __init__(self, fails: bool):
            super().__init__()
            self.seen, self.fails = 0, fails

        def on_rollout_end(self, fresh: Any, iteration: int, rng: Any) -> Any:
            self.seen += len(fresh)
            return super().on_rollout_end(fresh, iteration, rng)

        def on_advantages(self, batch: Any, credit: Any, iteration: int) -> Any:
            if self.fails and iteration == 2:
                raise KeyError("room")
            return credit

        def state_dict(self) -> dict[str, Any]:
            return {"seen": self.seen}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.seen = state["seen"]

    class Stateless(Counts):
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    def run(name: str, kind: type[Counts], fails: bool, **changes: Any) -> Trainer:
        trainer = trainer_of(tmp_path / name, save_every=100, **changes)
        make = lambda _: kind(fails)  # noqa: E731
        trainer.algorithm = replace(trainer.algorithm, hooks=make)
        if changes.get("resume"):  # with the hooks of this test
            start = trainer.folder.latest()
            assert start is not None
            trainer.saver.restore(start)
        trainer.run()
        return trainer

    cases: list[tuple[str, type[Counts], dict[str, Any]]] = [
        ("state", Counts, {}),
        ("counts", Stateless, {"count_bonus": 0.5}),
        ("none", Stateless, {}),
    ]
    for name, kind, changes in cases:
        plain = run(f"plain-{name}", kind, False, **changes)
        with pytest.raises(KeyError):
            run(name, kind, True, **changes)
        resumed = run(name, kind, False, resume=True, **changes)
        assert resumed.hooks.state_dict() == plain.hooks.state_dict(), name
        assert resumed.rewards.counts == plain.rewards.counts, name
        weights = resumed.policy.state_dict()
        for key, weight in plain.policy.state_dict().items():
            assert torch.equal(weight, weights[key]), (name, key)


def test_a_run_that_diverges_before_an_update_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(iteration, "logprob_gap", lambda _, __, number: float(number == 2))
    trainer = trainer_of(tmp_path, save_every=100, check_logprobs=0.5)
    with pytest.raises(Diverged) as found:
        trainer.run()
    assert "The last good checkpoint is of iteration 0" in found.value.__notes__[-1]


def test_a_best_policy_that_could_not_be_written_is_not_recorded(tmp_path, monkeypatch):
    """Else a run that goes on would name an iteration whose policy nobody has."""

    def fails(*args: Any, **options: Any) -> None:
        raise OSError("the disk is gone")

    trainer = trainer_of(tmp_path, save_every=100)
    changed = trainer.config.with_changes(eval_episodes=2, eval_baselines=False)
    trainer.config = changed
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "replace_folder", fails)
        with pytest.raises(OSError, match="the disk is gone"):
            trainer.run()
    resumed = trainer_of(tmp_path, save_every=100, resume=True)
    assert (resumed.state.best_iteration, resumed.state.evaluated) == (-1, -1)
    assert resumed.state.best_reward is None and resumed.state.first is None
    resumed.config = changed
    resumed.run()
    assert resumed.state.best_iteration >= 0 and (tmp_path / "best").is_dir()
