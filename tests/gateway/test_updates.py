"""Episodes of a program in lockstep update a policy as those of a rollout do, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from agentgym import make_env
from agentgym.trainers.credit.group import GiGPO, anchor_groups
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.gateway.executor import HarnessExecutor
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.programs import FunctionProgram
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from tests.gateway import episodes as programs
from tests.helpers.chat_models import chat_model
from tests.helpers.short_of_memory import updater_of

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

SAMPLING = Sampling(max_new_tokens=5)


def pairs(
    policy: Policy, env: str, specs: list[EpisodeSpec], **kwargs: Any
) -> list[list[Trajectory]]:
    """The trajectories of a rollout and those of a program, all episodes at once."""
    with EnvPool(lambda: make_env(env, **kwargs), num_envs=len(specs)) as pool:
        context = make_context(policy, ContextSettings())
        own = collect(policy, pool, specs, context, SAMPLING, constrain=True)
        program = FunctionProgram(programs.chat)
        executor = HarnessExecutor(Gateway(policy, SAMPLING), program, pool, constrain=True)
        try:
            return [own, [each for [each] in executor.play(specs)]]
        finally:
            executor.close()


def gradients(trajectories: list[Trajectory]) -> list[Tensor]:
    """The gradients of an update with an advantage per token."""
    updater, found = updater_of(Policy(*chat_model("base")), minibatches=1), list[Tensor]()
    step = updater.optimizer.step

    def watched(*args: Any) -> Any:
        for group in updater.optimizer.param_groups:
            found.extend(p.grad.clone() for p in group["params"] if p.grad is not None)
        return step(*args)

    updater.optimizer.step = watched
    batch = Batch.of(trajectories)
    forward = updater.evaluate_actions(batch, reference=False)
    assert forward.values is not None and forward.values.tokens is not None
    credit = np.linspace(-1, 1, batch.num_tokens, dtype=np.float32)
    updater.update(batch, Credit(credit, forward.values.tokens + 1), forward, 0)
    return found


def test_the_gradients_of_eight_episodes_in_lockstep_are_those_of_a_rollout():
    specs = [EpisodeSpec(f"train/{n}", n, (7, 0, n)) for n in range(8)]
    own, other = pairs(Policy(*chat_model("base")), "NumberLine-v0", specs, max_turns=3)
    assert len({len(each.turns) for each in own}) > 1, "some end before others"
    expected, found = gradients(own), gradients(other)
    assert sum(each.abs().sum() for each in expected) > 0
    assert len(expected) == len(found) > 10
    assert all(one.equal(two) for one, two in zip(expected, found, strict=True))
    assert not all(one.equal(two) for one, two in zip(expected, gradients(own[:7]), strict=True))


def test_gigpo_groups_the_states_of_a_program_as_those_of_a_rollout():
    specs = [EpisodeSpec(f"train/{n // 4}", n // 4, (7, 0, n)) for n in range(8)]
    policy = tiny_policy("Blackjack-v0", size="nano", episodes=8)
    own, other = (Batch.of(each) for each in pairs(policy, "Blackjack-v0", specs))
    keys = [turn.state_key for turn in own.turns]
    assert [turn.state_key for turn in other.turns] == keys
    assert all(turn.state_key and turn.state_key != turn.observation for turn in other.turns)
    groups = anchor_groups(other)
    assert 2 < groups.max() + 1 < len(groups), "several states, and several turns in one"
    np.testing.assert_array_equal(groups, anchor_groups(own))
    found, expected = GiGPO()(other), GiGPO()(own)
    assert np.abs(found.advantages).sum() > 0 and found.metrics == expected.metrics
    np.testing.assert_array_equal(found.advantages, expected.advantages)
