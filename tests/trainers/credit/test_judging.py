"""Credit re-assignment: a judge divides rewards over the turns and agents of an episode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import View
from agentgym.agents.basic.chat import ChatAgent
from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.recipes import poad
from agentgym.trainers.rewards import shaping
from agentgym.trainers.rewards.chat_judge import UNKNOWN, ChatJudge, read_scores
from agentgym.trainers.rewards.reward_options import RewardOptions

from ...helpers.worlds import generators, random_batch
from .test_joint import agent, team

few = settings(deadline=None, max_examples=25)
JUDGE = "chat:judge@http://127.0.0.1:9/v1"


def by_agent(batch: Batch, rewards: np.ndarray) -> list[float]:
    return np.add.reduceat(rewards, batch.turn_offsets[:-1]).tolist()


@given(rng=generators, agents=st.integers(1, 3), over=st.sampled_from(["episode", "turn"]))
@few
def test_a_split_keeps_the_sum_of_each_episode(rng: np.random.Generator, agents: int, over: Any):
    members = [each for e in range(3) for each in team(rng, e, agents, int(rng.integers(1, 4)))]
    batch = Batch.of(members).with_rewards(rng.normal(size=sum(len(m.turns) for m in members)))
    scores = rng.random(batch.num_turns)
    found = shaping.split_rewards(batch, scores, over)
    episode = np.array([t.episode[1] for t in members])[batch.turn_trajectory]
    assert np.bincount(episode, found) == pytest.approx(np.bincount(episode, batch.rewards))
    # Gains grow with the score, penalties fall with it.
    gains = shaping.split_rewards(batch.with_rewards(np.abs(batch.rewards)), scores, "episode")
    for number in range(3):
        mine = episode == number
        assert np.argsort(gains[mine]).tolist() == np.argsort(scores[mine]).tolist()


@given(rng=generators)
@few
def test_a_single_agent_keeps_the_reward_of_each_turn(rng: np.random.Generator):
    batch = random_batch(rng)
    scores = rng.random(batch.num_turns)
    assert shaping.split_rewards(batch, scores, "turn") == pytest.approx(batch.rewards)


def test_progress_is_compared_with_the_agents_own_earlier_progress():
    """Each agent sees the team's progress when it acts again, after the turn of the other."""
    one, two = (
        agent("a", [0.0] * 3, [0, 1, 2], [0, 2, 4]),
        agent("b", [0.0] * 3, [0, 1, 2], [1, 3, 5]),
    )
    for each in (one, two):
        for turn, progress in zip(each.turns, [0.5, 0.5, 1.0], strict=True):
            turn.progress = progress
    scores = shaping.turn_scores(Batch.of([one, two]), "progress")
    assert scores.tolist() == [1, 0, 1] * 2


def test_equal_scores_give_equal_shares():
    one, two = agent("a", [3.0, -1.0], [0, 1], [0, 2]), agent("b", [3.0, -1.0], [0, 1], [1, 3])
    batch = Batch.of([one, two])
    for score in (0.0, 0.4, 1.0):
        same = np.full(4, score)
        assert shaping.split_rewards(batch, same, "episode") == pytest.approx([1.0] * 4)
        assert shaping.split_rewards(batch, same, "turn") == pytest.approx([3, -1, 3, -1])


def test_a_turn_is_divided_among_the_agents_that_act_in_it():
    one, two = agent("a", [3.0, -1.0], [0, 1], [0, 2]), agent("b", [3.0, -1.0], [0, 1], [1, 3])
    batch = Batch.of([one, two])
    scores = np.array([1.0, 0.25, 0.0, 0.75])
    found = shaping.split_rewards(batch, scores, "turn")
    assert found == pytest.approx([6, -2 * 0.75, 0, -2 * 0.25])
    assert sum(by_agent(batch, shaping.split_rewards(batch, scores, "episode"))) == 4


def second_agent(trajectory: Trajectory) -> list[float]:
    """Gives all credit to the agent "b"."""
    return [float(actor == "b") for actor in trajectory.actors]


def test_a_rule_reads_the_turns_of_all_agents_in_order_of_acting():
    one, two = agent("a", [1.0, 1.0], [0, 1], [0, 2]), agent("b", [1.0, 1.0], [0, 1], [1, 3])
    alone = agent("a", [2.0], [0], episode=1)
    two.role = "b"
    batch = Batch.of([two, alone, one])
    source = f"{__name__}:second_agent"
    assert shaping.turn_scores(batch, source).tolist() == [1, 1, 0, 0, 0]
    config = poad.Config.of(process_reward=source, process_combine="episode", process_weight=1.0)
    found = RewardOptions(config)(batch, 0).rewards
    assert by_agent(batch, found) == [4, 2, 0]
    half = RewardOptions(config.with_changes(process_weight=0.5))(batch, 0)
    assert by_agent(batch, half.rewards) == [3, 2, 1]


def test_a_language_model_scores_the_turns_of_an_episode(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def act(self: ChatAgent, views: list[View]) -> list[str]:
        asked.extend(view.observation for view in views)
        scores = ("1: 7/10\nTurn 2: 3", "I cannot tell.")
        return [scores["Turn 3" in view.observation] for view in views]

    monkeypatch.setattr(ChatAgent, "act", act)
    one, two = agent("a", [1.0], [0], [0]), agent("b", [1.0], [0], [1])
    one.turns[0].action, one.turns[0].observation, two.role = "left", "x" * 5000, "pilot"
    same = [agent(name, [1.0], [0], [i], episode=1) for i, name in enumerate("ab")]
    same[0].turns[0].action, same[0].turns[0].observation, same[1].role = (
        "left",
        "x" * 5000,
        "pilot",
    )
    silent = agent("a", [0.0] * 3, [0, 1, 2], episode=2)
    batch = Batch.of([one, two, *same, silent])
    judge = ChatJudge(JUDGE, {"env": "The rules."})
    assert shaping.turn_scores(batch, JUDGE, judge).tolist() == [0.7, 0.3] * 2 + [UNKNOWN] * 3
    assert judge.unread == pytest.approx(1 / 3)
    assert len(asked) == 2  # equal episodes are judged once
    assert asked[0].startswith("The rules.\n\nTurn 1 (a)\n\nObservation: x")
    assert "Action: left" in asked[0] and "Turn 2 (pilot)" in asked[0] and len(asked[0]) < 2500
    assert asked[0].endswith("Outcome: the task was not solved, the sum of all rewards is 2.")


def test_processes_share_the_requests_to_a_language_model(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def act(self: ChatAgent, views: list[View]) -> list[str]:
        asked.extend(view.observation for view in views)
        return ["1: 7" for _ in views]

    def gather(mine: list[Any]) -> list[Any]:
        return [(None, ["1: 2"] * 3), *mine]

    state = SimpleNamespace(process_index=1, num_processes=2)
    monkeypatch.setattr("accelerate.PartialState", lambda: state)
    monkeypatch.setattr("agentgym.trainers.system.processes.gather_object", gather)
    monkeypatch.setattr(ChatAgent, "act", act)
    episodes = [agent("a", [float(i)], [0], [0], episode=i) for i in range(5)]
    assert ChatJudge(JUDGE, {})(episodes) == [[0.2], [0.7], [0.2], [0.7], [0.2]]
    assert len(asked) == 2


@given(st.lists(st.integers(0, 100), min_size=1, max_size=9), st.sampled_from([":", ".", ")", "="]))
@few
def test_scores_are_read_from_lines(tenths: list[int], mark: str):
    lines = [f"{i}{mark} {x / 10:g}" for i, x in enumerate(tenths, 1)]
    expected = pytest.approx([x / 100 for x in tenths])
    assert read_scores("\n".join(lines), len(tenths)) == expected
    assert read_scores("Scores:\n- " + "\n- ".join(reversed(lines)), len(tenths)) == expected
    assert read_scores("\n".join(lines), len(tenths) + 1) is None


@pytest.mark.parametrize(
    "reply", ["", "7", "1: high", "1: 11", "1: -3", "2: 5", "9" * 5000 + ": 1"]
)
def test_a_reply_without_all_scores_is_not_read(reply: str):
    assert read_scores(reply, 1) is None


def test_malformed_judges_and_zero_sum_games_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="chat:MODEL@URL"):
        make_trainer("turn", process_reward="chat:judge", run_dir=str(tmp_path))
    split: dict[str, Any] = {"process_reward": "valid", "process_combine": "episode"}
    with pytest.raises(ConfigError, match="give an agent's gain to its opponent"):
        make_trainer(
            "turn", env_id="KuhnPoker-v0", opponents="mirror", run_dir=str(tmp_path), **split
        )
