"""`constrain` in environments of tools: every action that is not cut is a well-formed call."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import pytest

from agentgym import Call, FunctionToolEnv, tool
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.evaluation import evaluate
from agentgym.tools import read_call
from agentgym.trainers import train
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.scoring import score_actions
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.policy_agent.loading import load_agent
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec

LIMIT = 48
RUN: dict[str, Any] = {
    "model": "nano", "constrain": True, "max_new_tokens": LIMIT, "episodes_per_iteration": 8,
    "group_size": 4, "iterations": 1, "eval_episodes": 0, "log_with": (), "device": "cpu",
    "quiet": True,
}  # fmt: skip


@tool(final=True)
def turn(state: dict[str, Any], lamp: Literal["hall", "attic"], on: bool = True) -> None:
    """Switches a lamp."""
    state[lamp] = on


@tool
def wait(state: dict[str, Any], minutes: Literal[1, 5] = 1) -> None:
    """Lets time pass."""


def lamps() -> gymnasium.Env[Any, Any]:
    return FunctionToolEnv(
        [turn, wait],
        start=lambda task: (f"Light the attic, house {task}.", {"hall": False, "attic": False}),
        reward=lambda state: float(state["attic"] and not state["hall"]),
        expert=lambda state: Call("turn", {"lamp": "attic"}),
        max_turns=3,
    )


@pytest.fixture(scope="module")
def policy() -> Any:
    return tiny_policy(lamps, size="nano", episodes=8)


@pytest.mark.parametrize("continuous", [False, True])
def test_a_new_model_writes_well_formed_calls_only(policy, continuous):
    specs = [EpisodeSpec(f"train/{i}", i, (i,)) for i in range(6)]
    context = make_context(policy, ContextSettings())
    sampling = Sampling(max_new_tokens=LIMIT)
    with EnvPool(lamps, 3) as pool:
        played = collect(
            policy, pool, specs, context, sampling, constrain=True, continuous=continuous
        )
    turns = [turn for trajectory in played for turn in trajectory.turns]
    assert len(turns) >= len(specs)
    for each in turns:
        assert each.valid or each.stop - each.start == LIMIT
    calls = [read_call(each.action) for each in turns if each.valid]
    assert {call.name for call in calls if call is not None} == {"turn", "wait"}
    batch = Batch.of(played)
    collated = collate(batch, segment_rows(batch), policy.pad_token)
    found = score_actions(policy, collated).logprobs.detach().numpy()
    np.testing.assert_allclose(found, batch.logprobs[collated.index.numpy()], atol=2e-5)


def test_a_run_and_its_evaluation_are_constrained(tmp_path):
    train("grpo", env=lamps, run_dir=str(tmp_path / "run"), **RUN)
    agent = load_agent(tmp_path / "run")
    report = evaluate(lamps, agent, tasks=4)
    assert all(episode.valid == 1 for episode in report.episodes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"wrap": ["AskExpert"]}, "AskExpert reads actions of its own"),
        ({"engine": "vllm", "engine_url": "http://localhost:1"}, "engine='own'"),
    ],
)
def test_what_cannot_be_constrained_is_refused_at_the_start(changes, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        train("grpo", env=lamps, run_dir=str(tmp_path / "run"), **{**RUN, **changes})
    assert not (tmp_path / "run").exists()


def test_the_extra_is_named_at_the_start(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[grammar\]"):
        train("grpo", env=lamps, run_dir=str(tmp_path / "run"), **RUN)
