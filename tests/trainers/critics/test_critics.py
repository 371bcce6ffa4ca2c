from __future__ import annotations

import pytest
import torch

from agentgym.trainers.critics.backbone import BackboneCritic
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
    head = TokenValueHead(32, bias=False, norm=False)
    assert [tuple(p.shape) for p in head.parameters()] == [(1024, 32), (512, 1024), (1, 512)]
    assert head(torch.zeros(2, 32)).tolist() == [0, 0]


def test_a_turn_head_reads_first_tokens():
    assert TurnValueHead.positions(torch.tensor([3, 3, 4, 7, 7, 7])).tolist() == [0, 2, 3]
    assert TurnValueHead.positions(torch.tensor([], dtype=torch.long)).tolist() == []


def small(seed: int = 0) -> BackboneCritic:
    return BackboneCritic.small(
        50, hidden_size=32, layers=2, heads=2, generator=torch.Generator().manual_seed(seed)
    )


def padded(segments: list[list[int]], side: str, width: int):
    """Tokens, mask, and where each segment begins."""
    tokens = torch.full((len(segments), width), 49)
    mask = torch.zeros_like(tokens)
    starts = []
    for row, segment in enumerate(segments):
        start = width - len(segment) if side == "left" else 0
        tokens[row, start : start + len(segment)] = torch.tensor(segment)
        mask[row, start : start + len(segment)] = 1
        starts.append(start)
    return tokens, mask, torch.tensor(starts)


SEGMENTS = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11]]
ROW, PLACE = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([2, 4, 1, 0, 3])


@pytest.mark.parametrize(("side", "width"), [("left", 5), ("left", 12), ("right", 9)])
def test_backbone_values_do_not_depend_on_padding_or_batch(side, width):
    critic = small().eval()
    tokens, mask, starts = padded(SEGMENTS, side, width)
    together = critic(tokens, mask, ROW, PLACE + starts[ROW])
    for i in range(len(ROW)):
        alone = torch.tensor([SEGMENTS[ROW[i]]])
        value = critic(alone, torch.ones_like(alone), torch.tensor([0]), PLACE[i : i + 1])
        assert torch.allclose(value, together[i : i + 1], atol=1e-5)


def test_a_backbone_critic_reads_only_what_came_before():
    critic = small().eval()
    tokens = torch.tensor([[1, 2, 3, 4]])
    other = torch.tensor([[1, 2, 9, 9]])
    ones, row = torch.ones_like(tokens), torch.tensor([0, 0])
    column = torch.tensor([1, 3])
    one, two = critic(tokens, ones, row, column), critic(other, ones, row, column)
    assert torch.allclose(one[0], two[0], atol=1e-6)
    assert not torch.allclose(one[1], two[1])


def test_a_backbone_critic_trains_everywhere_and_draws_from_its_generator():
    before = torch.get_rng_state()
    one, two, other = small(1), small(1), small(2)
    assert torch.equal(torch.get_rng_state(), before)
    tokens = torch.arange(1, 50).repeat(2, 1)
    at = torch.tensor([0, 1]), torch.tensor([48, 30])
    values = one(tokens, torch.ones_like(tokens), *at)
    assert torch.equal(values, two(tokens, torch.ones_like(tokens), *at))
    assert not torch.equal(values, other(tokens, torch.ones_like(tokens), *at))
    values.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in one.parameters())
    with pytest.raises(ValueError, match="untrained"):
        BackboneCritic(one.backbone, TokenValueHead(32))


def test_bfloat16_backbone_agrees_with_float32():
    critic = small().eval()
    tokens, mask, starts = padded(SEGMENTS, "right", 6)
    exact = critic(tokens, mask, ROW, PLACE + starts[ROW])
    with torch.autocast("cpu", torch.bfloat16):
        half = critic(tokens, mask, ROW, PLACE + starts[ROW])
    # Two layers round each state to 8 bits a few times; 5 % of the values' spread covers it.
    assert half.dtype == torch.float32
    assert 0 < (half - exact).abs().max() < 0.05 * exact.abs().max() + 0.02


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
