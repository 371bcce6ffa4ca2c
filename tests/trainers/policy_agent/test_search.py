"""Search with a trained policy: its proposals, its critic, its judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.agents import View, make_agent
from agentgym.agents.search.agent import tokens_of
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import evaluate
from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.trainers.critics.state_values import state_values
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.rollout.episode import EpisodeSpec

from ...helpers.quick import quicken


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trainer of `turn` after an iteration."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch.setattr)
        trainer = make_trainer(
            "turn", env_id="NumberLine-v0", model="nano", context="current", constrain=True,
            instructions=False, iterations=1, episodes_per_iteration=4, eval_episodes=0, threads=1,
            critic_lr=1e-2, device="cpu", quiet=True, run_dir=str(folder),
        )  # fmt: skip
        trainer.run()
    return trainer, folder


def checkpoint(folder: Path) -> Path:
    return max((folder / "checkpoints").iterdir())


def test_the_critic_of_a_checkpoint_has_the_values_of_training(trained: Any):
    trainer, folder = trained
    played = Batch.of(trainer.play([EpisodeSpec("train/5", 3, (1, 2))]))
    found = trainer.updater.evaluate_actions(played, reference=False).values.turns
    agent = load_agent(str(checkpoint(folder)))
    assert isinstance(agent, PolicyAgent) and agent.critic is not None
    prompts = [
        played.trajectories[0].segments[turn.segment].tokens[: turn.start] for turn in played.turns
    ]
    values = state_values(agent.policy, agent.critic, prompts, tokens=64)
    np.testing.assert_allclose(values, found, atol=1e-5)
    view = View.start(make_env("NumberLine-v0"), "train/5", 3)
    np.testing.assert_allclose(agent.values([view]), found[:1], atol=1e-5)


@pytest.mark.parametrize("value", ["critic", "policy"])
def test_a_policy_folder_leads_a_search_and_counts_its_tokens(trained: Any, value: str):
    spec = f"search:mcts,policy={checkpoint(trained[1])},value={value},budget=6,width=2"
    agent = make_agent(spec)
    report = evaluate("NumberLine-v0", agent, tasks=2)
    policy: Any = agent.settings.policy  # type: ignore[attr-defined]
    assert all(0 < e.costs["search_steps"] <= 6 * e.costs["searches"] for e in report.episodes)
    assert sum(e.costs["search_tokens"] for e in report.episodes) == tokens_of(policy) > 100


def test_a_judge_scores_the_actions_that_led_to_a_state(trained: Any):
    plain = load_agent(str(trained[1]))
    assert isinstance(plain, PolicyAgent)
    judged = BestOf(plain, action_model(plain.policy, seed=0), 2)
    view = View.start(make_env("NumberLine-v0"), "train/5", 3)
    scores = judged.scores([view, view], list(view.info["admissible"]))
    assert len(set(scores)) == 2
    one = [judged.scores([view], [action])[0] for action in view.info["admissible"]]
    np.testing.assert_allclose(scores, one, atol=1e-5)
    search = make_agent("search:best_first,value=judge,budget=2,width=12", policy=judged)
    assert search.act([view]) == [view.info["admissible"][int(np.argmax(scores))]]


def test_the_tokens_of_a_judge_with_a_model_of_its_own_count(trained: Any):
    plain, reader = load_agent(str(trained[1])), load_agent(str(trained[1]))
    assert isinstance(plain, PolicyAgent) and isinstance(reader, PolicyAgent)
    shared = BestOf(plain, action_model(plain.policy, seed=0), 2)
    own = BestOf(plain, Judge(action_model(reader.policy, seed=0), reader, whole=True), 2)
    view = View.start(make_env("NumberLine-v0"), "train/5", 3)
    actions = list(view.info["admissible"])
    for judged in (shared, own):  # the same prompt and tokenizer
        judged.scores([view] * len(actions), actions)
    assert tokens_of(own) == tokens_of(shared) > len(actions)
    before = tokens_of(own)
    PolicyAgent.act(own, [view])
    once = tokens_of(own) - before
    own.act([view])
    assert tokens_of(own) - before > 3 * once  # two actions, generated and judged


def test_policies_without_a_critic_name_the_remedy(trained: Any, tmp_path: Path):
    with pytest.raises(ConfigError, match="has no critic"):
        evaluate("NumberLine-v0", f"search:mcts,policy={trained[1]},value=critic", tasks=1)
    agent = load_agent(str(trained[1]))
    agent.save(tmp_path / "policy")
    torch.save({"strange": torch.zeros(2)}, tmp_path / "critic.pt")
    with pytest.raises(CheckpointError, match="not a critic"):
        load_agent(str(tmp_path))
