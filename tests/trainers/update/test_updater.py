"""What each switch makes of the loss, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import Support
from agentgym.trainers.recipes import chunk
from agentgym.trainers.recipes.poad import Config
from agentgym.trainers.update.learner import ForwardPass, Output
from agentgym.trainers.update.metrics import KL, metrics_of
from agentgym.trainers.update.mismatch import with_recomputed
from agentgym.trainers.update.objective import UpdateData, microbatch_loss
from agentgym.trainers.update.token_masks import truncated_answers, uncertain_turns

from ...helpers.worlds import trajectory

# Four tokens in the turns (0, 1), (2), (3); the first two turns are one trajectory.
RATIOS, ADVANTAGES = (1.5, 0.5, 1.5, 0.5), (1.0, 1.0, -1.0, -1.0)
ENTROPY = (0.2, 0.4, 0.6, 0.8)
# Clipped at 0.2, the tokens lose -1.2, -0.5, 1.5 and 0.8.
PLAIN = 0.15
PRODUCT = 1.5 * 0.5
LOG2 = math.log(2)
# Of log-probs -1 + log ratio, times the ratios, of which the first and third are 1.2 at most.
LIKELIHOOD = -1.2 * (math.log(1.5) - 1) * (1 - 1) - 0.5 * (math.log(0.5) - 1) * (1 - 1)
WEIGHED = -1.2 * (math.log(1.5) - 1) * (2 - 1) - 0.5 * (math.log(0.5) - 1) * (1 - 0.5)
TURN, WHOLE = math.sqrt(1.5 * 0.5), (1.5 * 0.5 * 1.5) ** (1 / 3)
TURN_MASK: dict[str, Any] = {"importance_cap": 1.5, "importance": "turn_mask"}
WHOLE_MASK: dict[str, Any] = {"importance_cap": 1.5, "importance": "trajectory_mask"}


def loss_of(changes: dict[str, Any], *args: Any, **options: Any) -> tuple[torch.Tensor, list[Any]]:
    """The loss, and the gradients of the log-probs and entropies that it depends on."""
    return update_of(changes, *args, **options)[:2]


def update_of(
    changes: dict[str, Any],
    logprobs: Any = -1.0,
    thought: Any = None,
    seed: int = 0,
    chunks: tuple[int, int, int] | None = None,
) -> tuple[torch.Tensor, list[Any], dict[str, float]]:
    """The loss, the gradients, and the scalars of the update. `chunks` are those of the turns."""
    first = trajectory([2, 1], [0, 0])
    first.turns[0].thought = thought
    batch = Batch.of([first, trajectory([1], [0], terminated=False)])
    old = np.array(np.broadcast_to(logprobs, 4), np.float32)
    # Generation reported log-probs of which the first is too low, and the last too high, by log 2.
    sampled = old + np.log([0.5, 1, 1, 2]).astype(np.float32)
    batch = replace(batch, logprobs=old, sampler_logprobs=sampled)
    new = torch.from_numpy(old + np.log(RATIOS).astype(np.float32)).requires_grad_()
    entropy = torch.tensor(ENTROPY, requires_grad=True)
    reference = new.detach().numpy() - np.float32(math.log(2))
    entropies = np.array(ENTROPY, np.float32)
    forward = ForwardPass(old, None, reference if "kl_coef" in changes else None, entropies)
    kind = Config if chunks is None else chunk.Config
    config, every = kind.of(**{"ratio": "token"} | changes), torch.arange(4)
    of_turns = None if chunks is None else np.array(chunks)
    credit = Credit(np.array(ADVANTAGES, np.float32), chunks=of_turns)
    data = UpdateData.of(
        batch, credit, forward, config.loss, length=config.sampling().max_new_tokens,
        device=torch.device("cpu"), seed=1_000_003 * seed,
    )  # fmt: skip
    output = Output(new, entropy, None, every, None)
    counts = data.counts(np.arange(4))
    loss, sums = microbatch_loss(every, output, data, counts, config.loss, config.critic)
    loss.backward()
    numbers = metrics_of(sums.numpy(), np.zeros(2), 1, False, counts.policy)
    return loss.detach(), [new.grad, entropy.grad], numbers


@pytest.mark.parametrize(
    ("place", "slope"),
    # Of exp(x) - 1 - x and of x^2 / 2 with x = log reference - log policy = -log 2.
    [("loss", 1 - 0.5), ("loss_k2", math.log(2)), ("reward", 0.0)],
)
def test_the_place_of_the_penalty_chooses_its_gradient(place: str, slope: float):
    _, (gradient, _), numbers = update_of({"kl_coef": 0.3, "kl_in": place})
    _, (plain, _), _ = update_of({})
    assert torch.allclose(gradient - plain, torch.full((4,), 0.3 * slope / 4), atol=1e-6)
    assert numbers["reference_kl"] == pytest.approx(0.5 - 1 + math.log(2), abs=1e-6)


@pytest.mark.parametrize("aggregation", ["token", "turn", "trajectory", "constant"])
@pytest.mark.parametrize("thoughts", [0.0, 0.5, 1.0])
def test_entropy_and_kl_are_logged_per_token(aggregation: str, thoughts: float):
    """Whatever the weights of the tokens in the loss are."""
    changes = {"aggregation": aggregation, "max_new_tokens": 10, "kl_coef": 0.3}
    changes |= {"thought_coef": thoughts, "entropy_coef": 0.1}
    *_, numbers = update_of(changes, thought=np.array([True, False]))
    learned = ENTROPY if thoughts else ENTROPY[1:]
    assert numbers["entropy"] == pytest.approx(np.mean(learned))
    assert numbers["reference_kl"] == pytest.approx(0.5 - 1 + math.log(2), abs=1e-6)


def test_a_seed_of_63_bits():
    assert float(loss_of({}, seed=2**63 - 1)[0]) == pytest.approx(PLAIN)


def test_without_a_ratio_the_gradient_is_that_of_the_log_likelihood():
    """However far the probabilities have moved, as in imitation of foreign actions."""
    _, [gradient, _] = loss_of({"ratio": "none"})
    torch.testing.assert_close(gradient, -torch.tensor(ADVANTAGES) / 4)
    _, [clipped, _] = loss_of({"clip": 0.2})
    assert clipped[0] == 0  # a likely token is not imitated further


def test_without_a_ratio_no_kl_is_estimated_and_none_ends_the_run():
    """An action of a teacher may become a thousand times as probable in an iteration."""
    batch = Batch.of([trajectory([1], [0])])
    old = torch.full((1,), -7.0)
    for ratio, kl in (("none", 0.0), ("token", math.expm1(6.9) - 6.9)):
        config = Config.of(ratio=ratio)
        forward = ForwardPass(old.numpy(), None, None, old.numpy())
        credit, every = Credit(np.ones(1, np.float32)), torch.arange(1)
        data = UpdateData.of(
            with_recomputed(batch, old.numpy()), credit, forward, config.loss, length=1,
            device=torch.device("cpu"), seed=0,
        )  # fmt: skip
        output = Output(torch.full((1,), -0.1), torch.zeros(1), None, every, None)
        counts = data.counts(np.arange(1))
        _, sums = microbatch_loss(every, output, data, counts, config.loss, config.critic)
        assert float(sums[KL]) == pytest.approx(kl)


@pytest.mark.parametrize("clip", [{"clip": 0.1}, {"clip_high": 0.3}, {"dual_clip": 3.0}])
def test_without_a_ratio_there_is_nothing_to_clip(clip: dict[str, float]):
    with pytest.raises(ConfigError, match=f"{next(iter(clip))} belongs to a probability ratio"):
        Config.of(ratio="none", **clip)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PLAIN),
        ({"clip": 0.4}, (-1.4 - 0.5 + 1.5 + 0.6) / 4),
        ({"clip_high": 0.4}, (-1.4 - 0.5 + 1.5 + 0.8) / 4),
        ({"dual_clip": 1.2}, (-1.2 - 0.5 + 1.2 + 0.8) / 4),
        ({"surrogate": "aepo"}, PLAIN),
        ({"surrogate": "cispo"}, LIKELIHOOD / 4),
        ({"surrogate": "cispo", "importance_cap": 3.0}, WEIGHED / 4),
        ({"entropy_coef": 0.1}, PLAIN - 0.1 * 0.5),
        ({"entropy_coef": 0.1, "entropy_floor": 0.5}, PLAIN - 0.1 * (0.2 + 0.4 + 0.5 + 0.5) / 4),
        ({"kl_coef": 0.3}, PLAIN + 0.3 * (0.5 - 1 + math.log(2))),
        ({"kl_coef": 0.3, "kl_in": "loss_k2"}, PLAIN + 0.3 * math.log(2) ** 2 / 2),
        ({"kl_coef": 0.3, "kl_in": "reward"}, PLAIN),
        # All log-ratios to the reference are log 2, and the advantages 1, 1 | -1, -1.
        ({"surrogate": "squared", "kl_coef": 0.5}, 1 + (LOG2 / 2) ** 2),
        (
            {"surrogate": "squared", "kl_coef": 0.5, "ratio": "turn_product"},
            (2 * (LOG2 - 1) ** 2 + 2 * (LOG2 / 2 + 1) ** 2) / 4,
        ),
        ({"ratio": "turn"}, (-2 * TURN + 1.5 + 0.8) / 4),
        ({"ratio": "turn_product"}, (-2 * PRODUCT + 1.5 + 0.8) / 4),
        ({"importance_cap": 3.0}, (-1.2 * 2 - 0.5 + 1.5 + 0.8 / 2) / 4),
        ({"importance_cap": 1.5}, (-1.2 * 1.5 - 0.5 + 1.5 + 0.8 / 2) / 4),
        # The weights are 2 and 1 | 1 in the first trajectory, and 1/2 in the second.
        ({"importance_cap": 3.0, "importance": "turn"}, (-1.2 * 2 - 0.5 * 2 + 1.5 + 0.4) / 4),
        ({"importance_cap": 3.0, "importance": "trajectory"}, (2 * (-1.2 - 0.5 + 1.5) + 0.4) / 4),
        ({"importance_cap": 1.5, "importance": "trajectory"}, (1.5 * -0.2 + 0.4) / 4),
        ({"importance_cap": 1.5, "importance": "token_mask"}, (-0.5 + 1.5 + 0.4) / 3),
        ({"importance_cap": 1.5, "importance": "turn_mask"}, (1.5 + 0.4) / 2),
        ({"importance_cap": 1.5, "importance": "trajectory_mask"}, 0.4),
        ({"importance_cap": 3.0, "importance": "trajectory_mask"}, (-0.4 + 0.4) / 4),
        # The first action has the largest length, and the second episode is truncated.
        ({"mask_truncated": "answers", "max_new_tokens": 2}, (1.5 + 0.8) / 2),
        ({"mask_truncated": "episodes"}, (-1.2 - 0.5 + 1.5) / 3),
        ({"mask_truncated": "all", "max_new_tokens": 2}, 1.5),
        # The mean entropies are 0.3, 0.6 and 0.8. Shares are rounded up.
        ({"trained_turns": 0.4}, (1.5 + 0.8) / 2),
        ({"trained_turns": 1 / 3}, 0.8),
        ({"ratio": "trajectory"}, (-WHOLE + 0.8) / 4),
        ({"ratio": "trajectory_product"}, (-PRODUCT * 1.5 + 0.8) / 4),
        ({"ratio": "none"}, 0.0),  # equal probabilities, opposite advantages
        ({"aggregation": "turn"}, ((-1.2 - 0.5) / 2 + 1.5 + 0.8) / 3),
        ({"aggregation": "trajectory"}, ((-1.2 - 0.5 + 1.5) / 3 + 0.8) / 2),
        ({"aggregation": "constant", "max_new_tokens": 10}, (-0.2 + 0.8) / 10 / 2),
        ({"aggregation": "turn", "entropy_coef": 1.0}, (-0.85 + 1.5 + 0.8 - 0.3 - 0.6 - 0.8) / 3),
    ],
)
def test_the_loss_of_a_switch(changes: dict[str, Any], expected: float):
    assert float(loss_of(changes)[0]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"thought_coef": 1.0}, PLAIN),
        ({"thought_coef": 0.0}, (-0.5 + 1.5 + 0.8) / 3),
        ({"thought_coef": 0.5}, (-0.6 - 0.5 + 1.5 + 0.8) / 3.5),
        ({"thought_coef": 0.5, "aggregation": "turn"}, ((-0.6 - 0.5) / 1.5 + 1.5 + 0.8) / 3),
        ({"thought_coef": 0.0, "ratio": "turn"}, (-0.5 + 1.5 + 0.8) / 3),
        ({"thought_coef": 0.0, "entropy_coef": 0.1}, (1.8 - 0.1 * (0.4 + 0.6 + 0.8)) / 3),
        (
            {"thought_coef": 0.0, "aggregation": "constant", "max_new_tokens": 10},
            ((-0.5 + 1.5) / 10 + 0.8 / 10) / 2,
        ),
        # A mask sees the weights of the tokens in the loss: 1 | 1 in the first trajectory.
        ({"thought_coef": 0.0, **TURN_MASK}, (-0.5 + 1.5 + 0.4) / 3),
        ({"thought_coef": 0.0, **WHOLE_MASK}, (-0.5 + 1.5 + 0.4) / 3),
        ({"trained_turns": 0.5, **WHOLE_MASK}, (1.5 + 0.4) / 2),
        ({"mask_truncated": "answers", "max_new_tokens": 2, **WHOLE_MASK}, (1.5 + 0.4) / 2),
    ],
)
def test_the_first_token_is_a_thought(changes: dict[str, Any], expected: float):
    thought = np.array([True, False])
    assert float(loss_of(changes, thought=thought)[0]) == pytest.approx(expected, abs=1e-6)
    assert float(loss_of({})[0]) == float(loss_of({"thought_coef": 0.5})[0])  # without thoughts


@pytest.mark.parametrize("ratio", ["turn", "turn_product", "trajectory"])
def test_tokens_that_share_a_ratio_have_no_weights_of_their_own(ratio: str):
    """Their gradients are equal, whatever `thought_coef` is."""
    with pytest.raises(ConfigError, match=r"thought_coef = 0.5 weighs tokens"):
        Config.of(ratio=ratio, thought_coef=0.5)
    for coef in (0.0, 1.0):
        Config.of(ratio=ratio, thought_coef=coef)


def test_above_the_floor_entropy_has_no_gradient():
    _, (_, entropy) = loss_of({"entropy_coef": 0.1, "entropy_floor": 0.5})
    assert entropy.tolist() == pytest.approx([-0.025, -0.025, 0, 0])


def test_tokens_that_drive_entropy_down_give_no_gradient():
    # (log mu - mean)(A - mean) is 2 for all; half of them, two, may be taken.
    _, (all_of_them, _) = loss_of({"clip": 0.9}, [0, 0, -4, -4])
    _, (some, _) = loss_of({"clip": 0.9, "covariance_clip": 0.5}, [0, 0, -4, -4])
    assert (all_of_them != 0).all()
    assert sorted((some != 0).tolist()) == [False, False, True, True]
    assert torch.equal(some[some != 0], all_of_them[some != 0])


def test_an_action_of_the_largest_length_that_ends_is_not_truncated():
    batch = Batch.of([trajectory([2, 3, 3], [0, 0, 0])])
    batch.trajectories[0].segments[0].tokens[7] = 9  # the last token of the last turn
    assert truncated_answers(batch, 3, {9}).tolist() == [False, True, False]
    assert truncated_answers(batch, 3, ()).tolist() == [False, True, True]


@pytest.mark.parametrize("ratio", ["turn", "trajectory"])
def test_a_mask_inside_of_a_ratio_is_refused(ratio: str):
    for importance in ("token_mask", "turn_mask"):
        changes = {"importance_cap": 2.0, "importance": importance, "ratio": ratio}
        if importance == f"{ratio}_mask":
            assert Config.of(**changes).loss.masks_mismatch
            continue
        with pytest.raises(ConfigError, match=f"set importance to '{ratio}_mask'"):
            Config.of(**changes)


def test_the_uncertain_turns_of_each_group_are_trained():
    """Per free token, so that forced tokens and long actions change nothing."""
    one, other = trajectory([1, 2, 1, 1], [0] * 4), trajectory([1, 1], [0] * 2, seed=1)
    one.turns[1].support = Support(np.array([0, 2, 3]), np.array([1, 2, 7]))  # the second is forced
    entropy = np.array([0.2, 0.5, 0.0, 0.4, 0.5, 9.0, 8.0], np.float32)
    chosen = uncertain_turns(Batch.of([one, other]), entropy, 0.5)
    assert chosen.tolist() == [False, True, False, True, True, False]
    assert uncertain_turns(Batch.of([one, other]), entropy, 0.51).sum() == 3 + 2
    other.turns[0].weight = 0.0  # it takes no other's place
    assert uncertain_turns(Batch.of([one, other]), entropy, 0.5)[4:].tolist() == [False, True]
    other.turns[0].weight = 1.0
    other.turns[0].thought = np.array([True])  # neither does a turn of thoughts, if none is trained
    batch = Batch.of([one, other])
    assert uncertain_turns(batch, entropy, 0.5)[4:].tolist() == [True, False]
    assert uncertain_turns(batch, entropy, 0.5, 0.0)[4:].tolist() == [False, True]


@pytest.mark.parametrize(
    ("chunks", "span"), [((0, 1, 2), "turn"), ((0, 0, 2), "trajectory")], ids=["turns", "episodes"]
)
@pytest.mark.parametrize(
    "changes",
    [
        {"ratio": "{}"},
        {"ratio": "{}_product"},
        {"importance_cap": 3.0, "importance": "{}"},
        {"importance_cap": 1.5, "importance": "{}_mask"},
        {"ratio": "{}", "importance_cap": 1.5, "importance": "{}_mask"},
    ],
)
def test_a_chunk_is_a_turn_a_trajectory_or_between(
    chunks: tuple[int, int, int], span: str, changes: dict[str, Any]
):
    def named(word: str) -> dict[str, Any]:
        return {k: v.format(word) if isinstance(v, str) else v for k, v in changes.items()}

    loss, gradients = loss_of(named("chunk"), chunks=chunks)
    expected, known = loss_of(named(span))
    assert torch.equal(loss, expected)
    assert torch.equal(gradients[0], known[0])


@pytest.mark.parametrize(
    "changes", [{"ratio": "chunk"}, {"importance_cap": 2.0, "importance": "chunk_mask"}]
)
def test_chunks_need_a_credit_with_chunks(changes: dict[str, Any]):
    assert chunk.Config.of(**changes).loss.reads_chunks
    with pytest.raises(
        ConfigError, match=r"chunk.* needs a credit of chunks of turns, as the recipe"
    ):
        Config.of(**changes)
