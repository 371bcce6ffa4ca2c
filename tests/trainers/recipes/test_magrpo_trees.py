"""Trees of joint actions of `magrpo`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.joint import JointReturns, returns_by_order
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.trees import Node
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import magrpo
from agentgym.trainers.recipes.magrpo import JointTrees
from agentgym.trainers.rollout.branches import episodes_of
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update import losses

from ...helpers.worlds import trajectory

HUNT: dict[str, Any] = {
    "env_id": "StagHunt-v0", "env_kwargs": {"max_turns": 2}, "opponents": "mirror",
    "context": "current", "instructions": False, "constrain": True, "iterations": 2,
    "episodes_per_iteration": 3, "group_size": 3, "num_envs": 16, "epochs": 1, "minibatches": 1,
    "eval_episodes": 0, "lr": 1e-3, "device": "cpu", "threads": 1, "quiet": True,
    "log_with": (),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def model(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("model")
    tiny_policy("StagHunt-v0", size="nano", folder=folder, episodes=8)
    HUNT["model"] = str(folder)


def tree(
    folder: Path, **changes: Any
) -> tuple[JointTrees, list[Trajectory], list[Trajectory], list[float]]:
    """The hooks, the first episodes, the outputs of their trees, and their advantages."""
    trainer = make_trainer("magrpo", run_dir=str(folder), **HUNT | changes)
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, JointTrees)
    fresh = trainer.rollouts.collect(0)
    found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0))
    trainer.folder.close()
    assert found.weights is not None
    return hooks, fresh, list(found.trajectories), np.asarray(found.weights).tolist()


def new_turns(hooks: JointTrees, fresh: list[Trajectory]) -> int:
    """Returns the number of turns that the hooks have played."""
    trainer: Any = hooks.trainer
    return trainer.rollouts.turns - sum(len(each.turns) for each in fresh)


def test_aligned_actions_of_one_state_are_compared_as_in_independent_episodes(tmp_path: Path):
    """With depth 1, the first turn of a tree is that of a group of independent episodes."""
    hooks, fresh, outputs, advantages = tree(tmp_path, depth=1, gamma=0.5)
    assert new_turns(hooks, fresh) == 0 and len(outputs) == 3 * 2
    batch = Batch.of(fresh)
    found = JointReturns(0.5)(batch).advantages
    first = [found[batch.token_offsets[m]] for m in batch.turn_offsets[:-1]]
    assert advantages == pytest.approx(first, abs=1e-6)


def test_a_tree_branches_in_every_state_and_averages_over_later_branches(tmp_path: Path):
    hooks, _, outputs, advantages = tree(tmp_path, depth=2, gamma=0.5)
    assert hooks.metrics == {"states": 1 + 3, "joint_actions": 3 + 9}
    assert len(outputs) == 2 * (3 + 9)
    states: dict[bytes, list[float]] = {}
    for each, advantage in zip(outputs, advantages, strict=True):
        prompt = each.agent.encode() + each.segments[0].tokens[: each.turns[0].start].tobytes()
        states.setdefault(prompt, []).append(advantage)
    for members in states.values():
        assert len(members) % 3 == 0  # two joint actions may lead to the same prompt
        assert sum(members) == pytest.approx(0, abs=1e-9)
    assert any(advantages[6:])


def test_crossed_actions_are_all_combinations_of_sampled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept: list[list[Node]] = []
    outputs_of = JointTrees._outputs

    def spy(self: JointTrees, family: list[Node], size: int) -> list[tuple[Trajectory, float]]:
        kept.append(family)
        return outputs_of(self, family, size)

    monkeypatch.setattr(JointTrees, "_outputs", spy)
    hooks, fresh, outputs, advantages = tree(
        tmp_path, depth=1, joint="cross", env_kwargs={"max_turns": 1}
    )
    (family,) = kept
    assert len(family) == 9 and len(outputs) == 3 * 2 and new_turns(hooks, fresh) == 0
    sampled = [[m.turns[0].action for m in members] for members in episodes_of(fresh)]
    played = [[m.turns[0].action for m in node.members] for node in family]
    assert played[:3] == sampled
    firsts, seconds = zip(*sampled, strict=True)
    assert sorted(played) == sorted(list(pair) for pair in product(firsts, seconds))
    returns = [returns_by_order(node.members, 1.0)[0] for node in family]
    for each, advantage in zip(outputs, advantages, strict=True):
        place = int(each.agent[-1])
        mine = [
            value
            for actions, value in zip(played, returns, strict=True)
            if actions[place] == each.turns[0].action
        ]  # equal actions have equal means, because the game is deterministic
        expected = np.mean(mine) - np.mean(returns)
        assert advantage == pytest.approx(expected)


def test_aligned_actions_of_many_agents_are_not_combined():
    """8 branches of 20 agents that act at once have 8^20 combinations."""
    agents = [f"player_{i}" for i in range(20)]
    family = [Node([trajectory([1], [r], agent=a) for a in agents], 0) for r in range(8)]
    hooks = JointTrees(SimpleNamespace(), magrpo.Config.of(depth=1))  # type: ignore[arg-type]
    found = [advantage for _, advantage in hooks._outputs(family, 8)]
    assert found == pytest.approx([r - 3.5 for r in range(8) for _ in agents])


def test_the_return_of_a_branch_is_its_reward_and_the_mean_of_the_next_ones():
    def episode(*rewards: float) -> list[Trajectory]:
        return [trajectory([1] * len(rewards), [*rewards], agent="a")]

    node = Node(episode(1.0, 4.0), 0, [Node(episode(1.0, 4.0), 1), Node(episode(1.0, 2.0), 1)])
    assert node.mean(lambda each: returns_by_order(each, 0.5)[0]) == 1.0 + 0.5 * (4.0 + 2.0) / 2


@pytest.mark.slow
@pytest.mark.parametrize("joint", ["aligned", "cross"])
def test_trees_train_and_resume(tmp_path: Path, joint: str):
    def rows(folder: Path, **changes: Any) -> list[dict[str, Any]]:
        make_trainer("magrpo", run_dir=str(folder), **HUNT | changes).run()
        return [{k: v for k, v in row.items() if "time/" not in k} for row in read_metrics(folder)]

    few: dict[str, Any] = {"depth": 2, "joint": joint, "group_size": 2, "episodes_per_iteration": 4}
    whole = rows(tmp_path / "a", **few)
    rows(tmp_path / "b", **few, iterations=1)
    assert rows(tmp_path / "b", **few, resume=True) == whole
    assert (
        whole[-1]["credit/joint_actions"] == {"aligned": 2 * (2 + 4), "cross": 2 * (4 + 16)}[joint]
    )


def test_a_second_epoch_has_ratios_to_the_policy_that_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without them, a second step over the same samples would be off-policy."""
    furthest: list[float] = []
    original = losses.clipped_surrogate

    def spy(logprobs: Tensor, old_logprobs: Tensor, *args: Any, **kwargs: Any) -> Any:
        assert kwargs["weighted"]
        furthest.append((logprobs.detach() - old_logprobs).abs().max().item())
        return original(logprobs, old_logprobs, *args, **kwargs)

    monkeypatch.setattr(losses, "clipped_surrogate", spy)
    assert magrpo.Config().loss.ratio == "token"
    kl = []
    for epochs in (1, 2):
        few = {"iterations": 1, "epochs": epochs, "lr": 1e-3}
        make_trainer("magrpo", run_dir=str(tmp_path / f"{epochs}"), **HUNT | few).run()
        [row] = read_metrics(tmp_path / f"{epochs}")
        kl.append(row["losses/kl"])
    first, again, second = furthest
    assert first < 1e-5 and again < 1e-5 and second > 1e-2
    assert kl[0] < 1e-6 and kl[1] > 1e-4


def test_cross_needs_a_tree():
    with pytest.raises(ConfigError, match="set depth to 1 or more, or leave out joint"):
        magrpo.Config.of(joint="cross")
