"""`Monologue`: thoughts before actions."""

from __future__ import annotations

import pytest

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.wrappers import EncodeObservation, Monologue

from ..helpers.echo import Echo


def test_a_thought_precedes_each_action_and_takes_no_turn():
    env = Monologue(Echo(max_turns=2, invalid_penalty=0.5), length=8)
    start, info = env.reset(seed=1)
    assert start.endswith("\nWrite one line that you will read before you act.")
    assert "at most 8 characters" in env.instructions and info["admissible"] == ()
    observation, reward, terminated, truncated, info = env.step("go\nleft, then right")
    assert observation.endswith("\nYour thought: go left,\nNow act.")
    assert (reward, terminated, truncated, info["turn"], info["valid"]) == (
        0,
        False,
        False,
        0,
        True,
    )
    assert set(info["reward_terms"].values()) == {0.0}
    observation, reward, *_, info = env.step("hello")
    assert (reward, info["turn"]) == (5.0, 1)
    assert observation == "hello\nWrite one line that you will read before you act."
    assert "Your thought: (none)" in env.step(" ")[0]
    observation, reward, _, truncated, info = env.step("end")
    assert (observation, reward, truncated) == ("end", 3.0, True)


def test_admissible_actions_are_those_of_the_environment_when_it_acts():
    env = Monologue(make_env("NumberLine-v0"))
    assert env.reset(seed=0)[1]["admissible"] == ()
    assert env.step("up?")[4]["admissible"] == ("+", "-")


def test_bad_arguments():
    with pytest.raises(ConfigError, match="length must be at least 1, got 0"):
        Monologue(make_env("NumberLine-v0"), 0)
    with pytest.raises(ConfigError, match="observations are text"):
        Monologue(EncodeObservation(make_env("NumberLine-v0"), size=8))


def test_thoughts_are_turns_of_a_trajectory(tmp_path):
    trainer = make_trainer(
        "turn",
        env_id="NumberLine-v0",
        env_kwargs={"size": 4, "max_turns": 2},
        wrap=("Monologue:length=10",),
        context="current",
        model="nano",
        max_new_tokens=4,
        episodes_per_iteration=4,
        iterations=1,
        eval_episodes=0,
        threads=1,
        device="cpu",
        quiet=True,
        log_with=(),
        run_dir=str(tmp_path),
    )
    found = trainer.rollouts.collect(0)
    trainer.folder.close()
    for each in found:
        assert len(each.turns) % 2 == 0 and all(t.reward == 0 for t in each.turns[::2])
        assert all("Your thought: " in turn.observation for turn in each.turns[1::2])
