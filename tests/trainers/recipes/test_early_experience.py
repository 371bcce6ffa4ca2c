"""Early experience: its data, its two stages, and the world model that is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.agents import RandomAgent, View
from agentgym.agents.basic.world_model import Outcome
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.trainers.recipes import load
from agentgym.trainers.recipes.early_experience import Explorer, by_outcomes, outcomes

from ...helpers.learning import learn, token_weights

LINE: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 4, "max_turns": 6}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "threads": 1, "device": "cpu", "quiet": True, "log_with": (), "transcripts": 0,
    "bc_demonstrations": 0, "episodes_per_iteration": 8,
}  # fmt: skip


def trained(folder: Path, **changes: Any) -> Any:
    """Returns a trainer after a few iterations."""
    small: dict[str, Any] = {
        "iterations": 0, "world_iterations": 1, "demonstrations": 4, "transitions": 8,
        "own_actions": 2, "held_out": 1, "max_new_tokens": 4,
    }  # fmt: skip
    trainer = make_trainer("early_experience", **LINE | small | changes, run_dir=str(folder))
    trainer.run()
    return trainer


def state_of(env: Any) -> Any:
    return env.get_wrapper_attr("snapshot")()


def test_own_actions_leave_the_episode_as_it_was():
    env = make_env("NumberLine-v0", size=8)
    explorer = Explorer(RandomAgent(), 3)
    episode = EpisodeRunner(env, "train/1", 1)
    over, states = False, []
    while not over:
        before = state_of(env)
        [action] = explorer.act([episode.view])
        assert state_of(env) == before and action == env.get_wrapper_attr("expert")()
        states.append(episode.view.observation)
        over = episode.play(action)
    assert episode.record().success
    assert list(dict.fromkeys(each.observation for each in explorer.found)) == states
    for each in explorer.found:  # every outcome is the one of the action
        again = make_env("NumberLine-v0", size=8)
        again.reset(seed=1, options={"task": "train/1"})
        for _, action in each.history:
            again.step(action)
        observation, reward, terminated, truncated, info = again.step(each.action)
        assert each.outcome == Outcome(
            observation, float(reward), info["progress"], terminated or truncated, info["success"],
            tuple(info["admissible"]),
        )  # fmt: skip


def test_transitions_come_first_and_demonstrations_after_them(tmp_path: Path):
    hooks = (trainer := trained(tmp_path)).hooks
    first = learn(hooks, []).trajectories
    assert hooks.env_steps == sum(len(t.turns) for t in kept(hooks, False)) + len(kept(hooks, True))
    assert len(first) == min(8, len(kept(hooks, True)))
    for each in first:
        [turn] = each.turns
        [segment] = each.segments
        prompt = trainer.policy.decode(segment.tokens[: turn.start])
        assert "Predict the outcome." in prompt and "> " in prompt
        assert trainer.policy.decode(segment.tokens[turn.start : turn.stop]) == turn.action
        assert Outcome.read(turn.action).write() == turn.action
    then = learn(hooks, [], 1).trajectories
    assert len(then) == 4 and hooks.env_steps == 0
    assert all(each.success for each in then)
    assert 0 <= hooks.metrics["world_exact"] <= 1
    assert set(token_weights(learn(hooks, []))) == set(token_weights(learn(hooks, [], 1))) == {1.0}


def kept(hooks: Any, predicts: bool) -> list[Any]:
    """Returns the data of a stage."""
    return (hooks.predictions if predicts else hooks.kept).since(0)


def test_earlier_turns_are_read_but_not_learned(tmp_path: Path):
    trainer = trained(tmp_path, context="full", env_kwargs={"size": 9})
    trainer.hooks.on_rollout_end([], 0, np.random.default_rng(0))
    long = [t for t in kept(trainer.hooks, True) if t.segments[0].tokens.size > 150]
    for each in long:
        [turn] = each.turns
        text = trainer.policy.decode(each.segments[0].tokens[: turn.start])
        assert text.count("You are at") > 1 and text.count("Predict") == 1
    assert long


def test_reflections_compare_outcomes(tmp_path: Path):
    view = View.start(make_env("NumberLine-v0"), "train/1", 1)
    view.observation = "You are here."
    tried = list(zip("+-", outcomes(view, "+-"), strict=True))
    one, other = by_outcomes(view, tried).splitlines()
    assert one == f"- leads to: {tried[1][1].observation}"
    assert other == f"+ leads to: {tried[0][1].observation}"
    wrapped = {"wrap": ("ExtractAction",), "constrain": False, "reflection": "outcomes"}
    with pytest.raises(ConfigError, match="add the wrapper ExtractAction"):
        trained(tmp_path / "bare", constrain=False, reflection="outcomes")
    trainer = trained(tmp_path / "run", **wrapped)
    hooks, size = trainer.hooks, dict(LINE["env_kwargs"])
    explorer = Explorer(RandomAgent(), 6, by_outcomes)
    env = make_env("NumberLine-v0", wrap=["ExtractAction"], **size)
    [answer] = explorer.act([View.start(env, "train/1", 1)])
    other, best, action = answer.splitlines()
    assert " leads to: You are at " in other and " leads to: You are at " in best
    assert action == f"Action: {best[0]}" != f"Action: {other[0]}"
    hooks.on_rollout_end([], 0, np.random.default_rng(0))
    shown = kept(hooks, False)
    assert shown and all(each.success for each in shown)  # the answers are the expert's


def test_what_cannot_be_learned_is_refused():
    kind = load("early_experience").Config
    with pytest.raises(ConfigError, match="leave out reflection"):
        kind.of(reflection="outcomes", constrain=True)
    with pytest.raises(ConfigError, match="early_experience has no data"):
        kind.of(data=("episodes.jsonl",))
    with pytest.raises(ConfigError, match="nowhere"):
        kind.of(reflection="nowhere:function")
