"""Dream: episodes in a world model, and a policy that learns in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agentgym.agents import Outcome, View
from agentgym.core import UnreadableAction
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import Dream

from ..helpers.chat_server import Messages, chat_server

SIZE = 6


def line(view: View, action: str) -> Outcome:
    """Predicts `NumberLine` without an error."""
    position, target = map(int, re.findall(r"\d+", view.observation)[:2])
    position = min(max(position + {"+": 1, "-": -1}.get(action, 0), 0), SIZE - 1)
    done = position == target
    text = f"You are at {position}. Go to {target}." + " Done!" * done
    return Outcome(text, float(done), float(done), done, done, () if done else ("+", "-"))


def rich(view: View, action: str) -> Outcome:
    return Outcome("Gold.", reward=99.0, progress=7.0, success=True)


def make(world: str = "line", **kwargs: Any) -> Dream:
    return Dream(NumberLine(size=SIZE), f"{__name__}:{world}", **kwargs)


def test_a_right_world_model_gives_the_episodes_of_the_environment():
    dream, real = make(), NumberLine(size=SIZE)
    for task in ("train/0", "train/1", "train/2"):
        start = dream.reset(seed=0, options={"task": task})
        assert start[0] == real.reset(seed=0, options={"task": task})[0]
        assert start[1]["dreamed"] and dream.expert() is None
        ended = False
        while not ended:
            action = str(real.expert())
            text, reward, ended, truncated, info = dream.step(action)
            other = real.step(action)
            assert (text, reward, ended, truncated) == other[:4]
            assert info["success"] == other[4]["success"] and info["turn"] == other[4]["turn"]
            assert info["admissible"] == other[4]["admissible"]
            assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0, "dream": reward}
        with pytest.raises(ResetNeeded):
            dream.step("+")


def test_test_tasks_and_a_share_of_the_others_are_real():
    env = make(share=0.5)
    env.reset(seed=0, options={"task": "test/0"})
    info = env.step("+")[4]
    assert not info["dreamed"] and env.expert() in ("+", "-")
    drawn = [env.reset(seed=s, options={"task": "train/0"})[1]["dreamed"] for s in range(60)]
    assert 15 < sum(drawn) < 45
    assert not make(share=0.0).reset(seed=0)[1]["dreamed"]


def test_predictions_are_bounded_and_success_needs_an_end():
    env = make("rich", max_turns=2)
    env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step("dig")
    assert (text, reward, terminated, truncated) == ("Gold.", 1.0, False, False)
    assert info["progress"] == 1 and not info["success"] and info["valid"]
    assert env.step("dig")[3] and not env._now.over
    with pytest.raises(ResetNeeded):
        env.step("dig")
    with pytest.raises(TypeError):
        make().step(3)  # type: ignore[arg-type]


def test_an_unreadable_action_is_invalid_and_nobody_predicts():
    env = make(max_turns=3)
    start, _ = env.reset(seed=0, options={"task": "train/0"})
    for turn in (1, 2):
        text, reward, terminated, truncated, info = env.step(UnreadableAction("+", "Write + or -."))
        assert text == f"Write + or -.\n\n{start}" and reward == 0 and not info["valid"]
        assert info["turn"] == turn and not (terminated or truncated)
    twin = make(max_turns=3)
    again, restored = twin.restore(env.snapshot())
    assert again == text and restored["valid"] is False
    for each in (env, twin):
        text, _, terminated, truncated, info = each.step("+")
        assert info["valid"] and "Write" not in text and truncated != terminated


def test_arguments_are_checked():
    cases: list[dict[str, Any]] = [{"share": 2.0}, {"max_turns": 0}]
    for wrong in cases:
        with pytest.raises(ConfigError):
            make(**wrong)
    for world in ("expert", f"{__name__}:nobody", "chat:m"):
        with pytest.raises(ConfigError):
            Dream(NumberLine(), world)


def test_a_served_model_predicts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def reply(messages: Messages) -> str:
        asked = messages[-1]["content"]
        assert asked.endswith("> +\n\nPredict the outcome.")
        return 'You are at 5.\n{"reward": 1, "progress": 1, "over": true, "success": true}'

    with chat_server(reply) as server:
        env = Dream(NumberLine(size=SIZE), f"chat:m@{server.url}")
        env.reset(seed=0)
        text, reward, terminated, _, info = env.step("+")
        assert (text, reward, terminated) == ("You are at 5.", 1.0, True) and info["success"]


@pytest.mark.slow
def test_a_policy_that_learns_in_dreams_acts_in_the_environment(tmp_path: Path):
    pytest.importorskip("torch")
    from agentgym.trainers import train

    from ..helpers.until_solved import UntilSolved

    before, after = train(
        "poad", env_id="NumberLine-v0", env_kwargs={"size": SIZE, "max_turns": 8},
        wrap=(f"Dream:world={__name__}:line,max_turns=8",), model="nano", context="current",
        instructions=False, constrain=True, iterations=120, episodes_per_iteration=96, num_envs=96,
        entropy_coef=0.02, lr=1e-3, eval_every=0, eval_episodes=60, seed=1, threads=1, device="cpu",
        quiet=True, log_with=(), run_dir=str(tmp_path / "run"), callbacks=[UntilSolved(0.95)],
    )  # fmt: skip
    successes = [each.aggregate()["success"].mean for each in (before, after)]
    assert successes[0] < 0.7 and successes[1] > 0.9
