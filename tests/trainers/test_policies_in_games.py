"""Trained policies in the seats of games."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.cli.main import main
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import nashconv
from agentgym.multiagent.seats import seat_view
from agentgym.registration.single_seat import SingleSeat
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.players.loading import load_league
from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.rollout.context import ContextSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("policy")
    tiny_policy("KuhnPoker-v0", size="nano", episodes=4, folder=path)
    return path


def agent_of(folder: Path, mode: Any = "current", temperature=1.0, **sampling) -> PolicyAgent:
    policy = Policy.load(folder)
    return PolicyAgent(policy, ContextSettings(mode), Sampling(temperature, **sampling))


class Recorded:
    """Passes views on to an agent and keeps them with its probabilities."""

    memoryless = False
    name = "recorded"

    def __init__(self, agent):
        self.agent, self.pairs = agent, []

    def act(self, views):
        return self.agent.act(views)

    def probabilities(self, views):
        found = self.agent.probabilities(views)
        self.pairs += zip(views, found, strict=True)
        return found


@pytest.mark.parametrize(("mode", "normalization"), [("current", "token"), ("full", None)])
def test_probabilities_are_those_of_its_samples(folder, mode, normalization):
    agent = agent_of(folder, mode, normalization=normalization)
    recorded = Recorded(agent)
    found = nashconv("KuhnPoker-v0", recorded)
    assert found.infosets == 12 and found.nashconv > 0
    agent.constrain = True
    view, given = next((v, p) for v, p in recorded.pairs if v.history)
    views = [type(view)(**{**vars(view), "rng": np.random.default_rng(i)}) for i in range(200)]
    drawn = agent.act(views)
    for action, chance in zip(view.info["admissible"], given, strict=True):
        error = 4 * math.sqrt(max(chance * (1 - chance), 1e-3) / 200)
        assert abs(drawn.count(action) / 200 - chance) < error


def test_a_greedy_policy_is_pure(folder):
    recorded = Recorded(agent_of(folder, temperature=0.0))
    found = nashconv("KuhnPoker-v0", recorded)
    assert found.nashconv > 0
    assert all(sorted(p) == [0.0, 1.0] for _, p in recorded.pairs)


def test_probabilities_leave_an_episode_in_progress_alone(folder):
    agent = agent_of(folder, "full")
    recorded = Recorded(agent)
    nashconv("KuhnPoker-v0", recorded)
    view = recorded.pairs[0][0]
    first = agent.probabilities([view])
    agent.act([view])
    np.testing.assert_array_equal(agent.probabilities([view]), first)


def test_a_policy_is_evaluated_from_its_folder(folder, tmp_path):
    agent = agent_of(folder)
    agent.save(tmp_path)
    found = nashconv("KuhnPoker-v0", [f"policy:{tmp_path}", "equilibrium"])
    assert found.values[0] <= -1 / 18 + 1e-9
    assert found.best_responses[1] >= 1 / 18
    (tmp_path / "agentgym_policy.json").write_text("{")
    with pytest.raises(CheckpointError, match="holds no policy"):
        nashconv("KuhnPoker-v0", f"policy:{tmp_path}")
    with pytest.raises(CheckpointError, match="holds no policy"):
        gymnasium.make("AgentGym/KuhnPoker-v0", opponents=f"policy:{tmp_path}")


def test_members_of_a_league_play_without_the_judge_of_the_last_policy(folder, tmp_path):
    agent = agent_of(folder, temperature=0.0)
    judged = BestOf(agent, action_model(agent.policy, seed=0), 2)
    judged.save(tmp_path / "policy")
    pool = Pool(tmp_path, agent.policy)
    pool.add(0)
    pool.write_mixture({0: 1.0})
    (member,) = load_league(str(tmp_path)).members
    assert type(member) is PolicyAgent and member.sampling == agent.sampling


def test_a_run_without_a_pool_has_no_average_policy(folder, tmp_path):
    agent_of(folder).save(tmp_path / "policy")
    with pytest.raises(CheckpointError, match=r"has no average policy.* past:5, league or psro"):
        load_league(str(tmp_path))


def test_policies_without_probabilities_name_the_remedy(folder):
    agent = agent_of(folder)
    judged = BestOf(agent, None, 2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="samples=100"):
        nashconv("KuhnPoker-v0", judged)
    agent.policy.steer(lambda states, logits: logits)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="learned critic"):
        nashconv("KuhnPoker-v0", agent)
    agent.wrap = ("HistoryObservation",)
    with pytest.raises(ConfigError, match="needs the wrappers HistoryObservation"):
        nashconv("KuhnPoker-v0", agent)


def test_a_policy_plays_the_other_seat(folder, tmp_path):
    agent_of(folder).save(tmp_path)
    kwargs: dict[str, Any] = {"seat": "player_1", "hands": 2, "opponents": f"policy:{tmp_path}"}
    one, two = (gymnasium.make("AgentGym/KuhnPoker-v0", **kwargs).unwrapped for _ in range(2))
    assert isinstance(one, SingleSeat) and isinstance(two, SingleSeat)
    assert one.players["player_0"] is two.players["player_0"], "the weights are loaded once"
    played = []
    for env in (one, two):
        env.reset(seed=0)
        done = False
        while not done:
            done = env.step(env.game.seen("player_1").admissible[0])[2]
        played.append(env.state.histories["player_0"])
    assert played[0] == played[1] != []


def test_a_policy_agent_is_not_sent_to_other_processes(folder):
    with pytest.raises(ConfigError, match="name it as 'policy:FOLDER'"):
        pickle.dumps(agent_of(folder))


@pytest.mark.parametrize("typed", ["bet", "check"])
def test_a_human_plays_against_a_policy(
    typed: str, folder: Path, tmp_path: Path, capsys, monkeypatch
):
    agent = agent_of(folder, temperature=0.0)
    agent.constrain = True
    agent.save(tmp_path / "policy")
    game = agentgym.make_parallel("KuhnPoker-v0", hands=1).game
    game.reset(task="test/3", seed=3)
    game.play({"player_0": typed})
    [answer] = agent.act([seat_view(game, "player_1", np.random.default_rng(0))])
    replies = iter([typed, "fold"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(replies))
    words = ("--opponents", f"policy:{tmp_path / 'policy'}", "--task", "test/3", "--seed", "3")
    words += ("--env-kwargs", "hands=1", "seat=player_0")
    assert main(["play", "KuhnPoker-v0", *words]) == 0
    assert f"you {typed}, your opponent {answer}s" in capsys.readouterr().out
