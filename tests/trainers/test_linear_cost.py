"""The work of rollouts and updates is linear in the turns of an episode and in the episodes.

Work is counted in tokens, passes, multiplications and bytes. Attention, which is quadratic in the
context by its nature, is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.prefix_cache import BLOCK, PrefixCache
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec

from ..helpers.echo import Echo
from ..helpers.short_of_memory import learn, updater_of

LENGTH = 6
"""Maximum length of an action in tokens."""


class Work(NamedTuple):
    """The work of a rollout: tokens of all contexts, fed and padded ones, passes, bytes kept."""

    context: int
    fed: int
    padded: int
    passes: int
    cached: int


class Multiplications(TorchDispatchMode):
    """Counts the multiplications of products of two matrices, which those with weights are."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            one, other = args[-2:]
            self.count += one.shape[0] * other.numel()
        return func(*args, **(kwargs or {}))


def play(policy: Any, episodes: int, turns: int) -> tuple[list[Trajectory], Work]:
    """Plays episodes whose observations are as long as their actions."""
    session = PrefixCache()
    policy.session = lambda **_: session
    policy.stats.reset()
    specs = [EpisodeSpec(f"train/{i}", i, (0, i), max_turns=turns) for i in range(episodes)]
    context = make_context(policy, ContextSettings())
    pool = EnvPool(Echo, episodes)
    played = collect(policy, pool, specs, context, Sampling(max_new_tokens=LENGTH))
    pool.close()
    stats = policy.stats
    tokens = sum(len(segment.tokens) for each in played for segment in each.segments)
    return played, Work(
        tokens, stats.fed_tokens, stats.padded_tokens, stats.forward_passes, session.bytes
    )


@pytest.mark.parametrize(("episodes", "turns"), [(2, 4), (8, 4), (4, 12)])
def test_a_rollout_feeds_every_token_once(make_policy: Any, episodes: int, turns: int):
    policy = make_policy()
    played, work = play(policy, episodes, turns)
    assert {len(each.turns) for each in played} == {turns}
    assert 0.8 * work.context < work.fed < work.context
    assert work.padded < 0.2 * work.context
    # All episodes act together, so there are as many passes as for one.
    assert work.passes <= turns * LENGTH
    longest = max(len(each.segments[0].tokens) for each in played) + LENGTH
    columns = -(-longest // BLOCK) * BLOCK
    assert work.cached <= episodes * columns * sum(shape.bytes for shape in policy.layer_shapes)


def test_an_update_multiplies_the_same_for_every_token(make_policy: Any):
    """The weights of all layers and of the head, in the passes before and in the update."""
    per_token = []
    for episodes, turns in [(2, 4), (8, 4), (4, 12)]:
        policy = make_policy()
        batch = Batch.of(play(policy, episodes, turns)[0])
        with Multiplications() as counter:
            learn(updater_of(policy), batch)
        tokens = sum(len(each.segments[0].tokens) for each in batch.trajectories)
        per_token.append(counter.count / tokens)
    print(per_token)
    assert max(per_token) < 1.1 * min(per_token)
