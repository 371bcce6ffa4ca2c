"""`model:NAME`: a language model as an agent, before training."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.agents import make_agent
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import evaluate
from agentgym.trainers import train
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import PolicyAgent


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("models") / "pretrained")
    tiny_policy("NumberLine-v0", size="nano", episodes=8, folder=folder)
    return folder


@pytest.mark.parametrize("constrain", [False, True])
def test_a_model_plays_as_the_trainer_evaluates_it(model: str, tmp_path: Path, constrain: bool):
    (before,) = train(
        "turn", env_id="NumberLine-v0", model=model, iterations=0, eval_episodes=6, device="cpu",
        constrain=constrain, threads=1, quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    agent = make_agent(f"model:{model}", constrain=constrain)
    assert agent.name == "pretrained"
    found = evaluate("NumberLine-v0", agent, tasks=6)
    assert found.episodes == before.episodes


def test_options_reach_the_prompt_and_the_sampling(model: str):
    agent = make_agent(
        f"model:{model}", context="window", instructions=False, temperature=0.5, max_new_tokens=7
    )
    assert isinstance(agent, PolicyAgent)
    assert (agent.settings.mode, agent.settings.instructions) == ("window", False)
    assert (agent.sampling.temperature, agent.sampling.max_new_tokens) == (0.5, 7)


def test_wrong_words_are_explained(model: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="nowhere"):
        make_agent(f"model:{tmp_path / 'nowhere'}")
    with pytest.raises(ConfigError, match="'full' or 'window'"):
        make_agent(f"model:{model}", context="whole")
    with pytest.raises(CheckpointError, match="is written model:NAME"):
        make_agent(f"policy:{model}")
