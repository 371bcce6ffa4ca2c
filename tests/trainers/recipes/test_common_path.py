"""What recipes play and reward themselves follows the settings of the rollouts, in every recipe."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers import Callback, recipes
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.recipes import comas, cory, orm, spa
from agentgym.trainers.rewards.reward_options import RewardOptions
from agentgym.trainers.rollout.episode import Play
from agentgym.trainers.rollout.task_sampling import SolvedLengths
from agentgym.trainers.run.iteration import Iteration
from agentgym.trainers.system.signals import Interrupted

from ...helpers.worlds import trajectory
from ..credit.test_joint import agent
from .test_recipes import train_quickly

HORIZONS = [name for name in recipes.names() if "horizons" in recipes.load(name).Config().acting()]
LIMITED: dict[str, dict[str, Any]] = {
    "exit": {"teacher": "search:mcts,budget=4"},
    "agent_q": {"simulations": 1},
    "malt": {"group_size": 2, "episodes_per_iteration": 8},
}
"""Settings with which recipes play little."""
PENALTY = 0.25


@pytest.mark.slow
@pytest.mark.parametrize("recipe", HORIZONS)
@pytest.mark.usefixtures("without_files")
def test_every_episode_has_the_limit_of_its_task_and_the_arguments_of_the_run(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All tasks have the limit 2 here, below the last horizon, 6."""
    played: list[int] = []
    begun, told = Play.start, Play.trajectory

    def start(play: Play) -> None:
        inner: Any = play.env.unwrapped
        assert isinstance(inner, NumberLine)
        assert (inner.size, inner.invalid_penalty, inner.split) == (9, PENALTY, "train")
        assert play.episode.task.startswith("train/")
        begun(play)

    def finished(play: Play) -> Any:
        played.append(len(play.turns))
        return told(play)

    monkeypatch.setattr(SolvedLengths, "limit", lambda self, task, limits: 2)
    monkeypatch.setattr(Play, "start", start)
    monkeypatch.setattr(Play, "trajectory", finished)
    kwargs = {"size": 9, "max_turns": 6, "invalid_penalty": PENALTY}
    few: dict[str, Any] = {"bc_demonstrations": 0, "iterations": 2, "horizon_every": 0}
    few |= {"episodes_per_iteration": 8} | LIMITED.get(recipe, {})
    train_quickly(recipe, tmp_path, env_kwargs=kwargs, horizons=(2, 6), **few)
    assert played and max(played) <= 2


@pytest.mark.filterwarnings("ignore:An episode failed")
def test_retries_with_hints_may_fail_as_the_rollouts_may(tmp_path: Path):
    failed: list[int] = []

    class Fails(NumberLine):
        """Raises an exception in the first step after a hint, twice."""

        played = hinted = False

        def step(self, action: str) -> Any:
            if self.hinted and self.played and len(failed) < 2:
                failed.append(1)
                raise ConnectionError("the server is gone")
            return super().step(action)

        def expert(self) -> str | None:
            self.hinted = True
            return super().expert()

    class Begins(Callback):
        """Lets environments fail after the model was made."""

        def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
            Fails.played = True

    few: dict[str, Any] = {"env_kwargs": {}, "bc_demonstrations": 0, "iterations": 1}
    few |= {"env_id": "NumberLine-v0", "hinted_turns": 1, "env_failures": 0.5}
    few["callbacks"] = [Begins()]
    train_quickly("agent_rlvr", tmp_path, env=lambda: Fails(size=9, max_turns=2), **few)
    assert len(failed) == 2


def test_retries_with_hints_stop_as_the_rollouts_do(tmp_path: Path):
    after: list[int] = []
    runs: list[Any] = []

    class Hears(NumberLine):
        """Its run is told to stop by the first action after a hint."""

        def step(self, action: str) -> Any:
            if runs:
                after.append(1)
                runs[0].stop.heard = signal.SIGTERM
            return super().step(action)

    class Begins(Callback):
        def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
            runs.append(trainer)

    few: dict[str, Any] = {"env_kwargs": {}, "bc_demonstrations": 0, "iterations": 1}
    few |= {"env_id": "NumberLine-v0", "num_envs": 1, "callbacks": [Begins()]}
    with pytest.raises(Interrupted):
        train_quickly("agent_rlvr", tmp_path, env=lambda: Hears(size=9, max_turns=2), **few)
    assert len(after) == 1


def bare(kind: type[Any], **attributes: Any) -> Any:
    """Hooks with these attributes alone."""
    hooks = object.__new__(kind)
    vars(hooks).update({"metrics": {}} | attributes)
    return hooks


class TotalModel:
    """Stands for a model of episodes that has learnt what it was fitted to."""

    def fit(self, batch: Batch, targets: np.ndarray, rng: Any) -> list[float]:
        self.targets = np.array(targets, np.float64)
        return [0.0]

    def predict(self, batch: Batch) -> np.ndarray:
        if len(self.targets) == batch.num_turns:
            return self.targets
        return np.repeat(self.targets / 2, 2)


MAKERS: dict[str, Callable[[], RecipeHooks]] = {
    "cory": cory.CommonReward,
    "comas": lambda: comas.InteractionRewards(1.0),
    "orm": lambda: bare(orm.OutcomeReward, label_every=1, model=TotalModel()),
    "spa": lambda: bare(spa.ProgressEstimator, model=TotalModel(), valid_bonus=0.0),
}
"""Hooks that make other rewards of those of the environment."""
REFUSING = ("istar", "inverse_prm", "spear")
"""Recipes whose credit has other rewards, or those of earlier iterations."""


def changing(recipe: str) -> bool:
    """Whether the module of a recipe with constraints changes rewards before credit."""
    module = recipes.load(recipe)
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    own = [each for each in classes if each.__module__ == module.__name__]
    return issubclass(module.Config, recipes.load("orm").Config.__mro__[1]) and any(
        "on_rewards" in vars(each) for each in own
    )


def test_all_recipes_that_change_rewards_are_known():
    known = {*MAKERS, *REFUSING}
    assert {name for name in recipes.names() if changing(name)} == known
    for recipe in REFUSING:
        with pytest.raises(ConfigError, match="has no reward_constraints"):
            recipes.load(recipe).Config.of(reward_constraints={"task": 0.5})
    with pytest.raises(ConfigError, match="reward_constraints belongs to task_coef"):
        comas.Config.of(reward_constraints={"task": 0.5})
    assert comas.Config.of(reward_constraints={"task": 0.5}, task_coef=1.0).reward


def credited(recipe: str, batch: Batch, weight: float) -> Batch:
    """The rewards of an iteration, in the order of its steps, with a weight of the term format."""
    config = recipes.load("poad").Config.of(reward_constraints={"format": 0.0})
    options = RewardOptions(config)
    options.weights["format"] = weight
    seen: list[Batch] = []
    signal = SimpleNamespace(assign=lambda rewarded, forward: seen.append(rewarded))
    algorithm = SimpleNamespace(signal=signal)
    trainer = SimpleNamespace(
        rewards=options, algorithm=algorithm, accelerator=None, hooks=MAKERS[recipe]()
    )
    held = SimpleNamespace(
        _trainer=trainer, _config=config, _number=0, _rng=np.random.default_rng(0)
    )
    with pytest.raises((AttributeError, TypeError, ValueError)):  # there is no credit
        Iteration._assign_credit(held, batch, None)  # type: ignore[arg-type]
    return seen[0]


def totals(batch: Batch) -> list[float]:
    return np.add.reduceat(batch.rewards, batch.turn_offsets[:-1]).tolist()


@pytest.mark.parametrize("recipe", [name for name in MAKERS if name not in ("cory", "comas")])
def test_the_weight_of_a_term_scales_it_in_the_rewards_of_the_recipe(recipe: str):
    found = []
    for weight in (0.0, 1.0, 3.0):
        episodes = [trajectory([1, 1], [1.0 + form, 2.0]) for form in (0.0, 0.5)]
        for each, form in zip(episodes, (0.0, 0.5), strict=True):
            each.turns[0].reward_terms = {"task": 1.0, "format": form}
            each.turns[1].reward_terms = {"task": 2.0, "format": 0.0}
        found.append(totals(credited(recipe, Batch.of(episodes), weight)))
    assert np.array(found) == pytest.approx(np.array([[3, 3], [3, 3.5], [3, 4.5]]))


@pytest.mark.parametrize("recipe", ["cory", "comas"])
def test_the_weight_of_a_term_counts_for_all_agents_of_a_team(recipe: str):
    found = []
    for weight in (1.0, 3.0):
        one, two = agent("a", [1.5], [0], [0]), agent("b", [1.0], [0], [1])
        one.role, two.role = "solver", "scorer"
        one.turns[0].reward_terms = {"task": 1.0, "format": 0.5}
        two.turns[0].reward_terms = {"task": 1.0, "format": 0.0}
        batch = Batch.of([one, two])
        rewards = credited(recipe, batch, weight).rewards
        found.append(rewards)
        if recipe == "cory":
            terms = np.array([turn.reward_terms["format"] for turn in batch.turns])
            weighed = batch.with_rewards(batch.rewards + (weight - 1) * terms)
            assert rewards == pytest.approx(Joint.of(weighed).common_rewards())
    expected = [0.5, 0.5] if recipe == "cory" else [1.0, 0.0]
    assert found[1] - found[0] == pytest.approx(expected)
