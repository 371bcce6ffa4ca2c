from __future__ import annotations

import pytest
import torch

from agentgym.trainers.critics.heads import TokenValueHead, TurnValueHead
from agentgym.trainers.critics.utterance import UtteranceCritic


def hidden(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_head_is_float32_under_autocast_and_for_half_precision():
    head = TokenValueHead(16, (8,))
    states = hidden(5, 16)
    exact = head(states)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head(states), exact)
    rounded = head(states.bfloat16())
    assert rounded.dtype == torch.float32
    # One rounding of the input to 8 bits, through a network whose gain is below 2.
    assert (rounded - exact).abs().max() < 2 * states.norm(dim=-1).max() / 256


def test_detached_or_shared():
    for detach in (True, False):
        states = hidden(3, 16).requires_grad_()
        head = TokenValueHead(16, (8,), detach=detach)
        head(states).sum().backward()
        assert (states.grad is None) == detach
        assert all(p.grad is not None and p.grad.any() for p in head.parameters())


def test_initial_weights_come_from_the_generator_alone():
    before = torch.get_rng_state()
    one, two = (TokenValueHead(16, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    other = TokenValueHead(16, generator=torch.Generator().manual_seed(8))
    assert torch.equal(torch.get_rng_state(), before)
    states = hidden(4, 16)
    assert torch.equal(one(states), two(states))
    assert not torch.equal(one(states), other(states))


def test_values_do_not_depend_on_the_batch():
    head = TokenValueHead(16)
    states = hidden(9, 16)
    assert torch.allclose(head(states)[3:5], head(states[3:5]), atol=1e-6)
    assert head(states[:0]).shape == (0,)


def test_shape_of_poads_head():
    head = TokenValueHead(32, bias=False)
    assert [tuple(p.shape) for p in head.parameters()] == [(1024, 32), (512, 1024), (1, 512)]
    assert head(torch.zeros(2, 32)).tolist() == [0, 0]


def test_a_turn_head_reads_first_tokens():
    assert TurnValueHead.positions(torch.tensor([3, 3, 4, 7, 7, 7])).tolist() == [0, 2, 3]
    assert TurnValueHead.positions(torch.tensor([], dtype=torch.long)).tolist() == []


def test_twin_critics_differ_and_the_target_follows():
    critic = UtteranceCritic(8, (16,), generator=torch.Generator().manual_seed(0))
    observation, action = hidden(5, 8), hidden(5, 8, seed=2)
    q, v = critic.q(observation, action), critic.v(observation)
    assert q.shape == v.shape == (2, 5)
    assert not torch.allclose(q[0], q[1])
    assert torch.equal(critic.q(observation, action, target=True), q)
    with torch.no_grad():
        for parameter in critic.online.parameters():
            parameter.add_(1.0)
    critic.update_target(0.25)
    for slow, fast in zip(critic.target.parameters(), critic.online.parameters(), strict=True):
        assert torch.allclose(fast - slow, torch.full_like(fast, 0.75))
    critic.update_target(1.0)
    assert torch.equal(critic.v(observation, target=True), critic.v(observation))
    with pytest.raises(ValueError, match="tau"):
        critic.update_target(2.0)


def test_only_the_online_utterance_critic_trains():
    critic = UtteranceCritic(8, (16,))
    loss = critic.q(hidden(5, 8), hidden(5, 8)).square().sum() + critic.v(hidden(5, 8)).sum()
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in critic.online.parameters())
    assert all(p.grad is None for p in critic.target.parameters())
