"""Rows without a gradient, such as those of groups with equal returns, get no backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.trainers.credit.group import members_of
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.recipes import grpo, turn
from agentgym.trainers.run.setup import build_updater
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.objective import UpdateData
from agentgym.trainers.update.rows import Rows

SHARED = [HealthCheck.function_scoped_fixture]
ROWS = 6


@pytest.fixture(scope="module")
def batch(make_policy: Any, as_batch: Any) -> Batch:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (9, 3, 12, 4, 7, 5)]
    requests = [Request(p, np.random.default_rng(i)) for i, p in enumerate(prompts)]
    batch = as_batch(prompts, make_policy().act(requests, Sampling(max_new_tokens=4)))
    for trajectory in batch.trajectories:
        trajectory.bootstrap = None
    return batch


def advantages(batch: Batch, equal: list[bool]) -> np.ndarray:
    """Returns the advantages of tokens [K], 0 in the trajectories that are `equal`."""
    each = np.where(equal, 0.0, np.linspace(-1, 1.6, len(equal)))
    return each[batch.turn_trajectory][batch.token_turn].astype(np.float32)


def learn(
    policy: Any, batch: Batch, *updates: list[bool], reference: bool = False, **changes: Any
) -> tuple[Any, ...]:
    """Returns the weights after each update, the scalars and the rows with a gradient.

    The epsilon of Adam makes the steps about as long as the gradients.
    """
    options = {"epochs": 1, "minibatches": 1, "max_new_tokens": 4, "adam_eps": 1.0, "lr": 1.0}
    config = (turn if "critic_warmup" in changes else grpo).Config.of(**options | changes)
    updater = build_updater(Accelerator(cpu=True), config, policy, None, None)
    learned: list[int] = []

    def count(_: Any, args: Any, output: Any) -> None:
        if output.logprobs.requires_grad:
            learned.append(len(args[0].tokens))

    updater.trained.register_forward_hook(count)
    scalars, weights = [], []
    for step, equal in enumerate(updates):
        credit = Credit(advantages(batch, equal))
        forward = updater.evaluate_actions(batch, True) if reference else None
        scalars.append(updater.update(batch, credit, forward, step))
        named = updater.trained.named_parameters()
        weights.append({name: weight.detach().clone() for name, weight in named})
    return weights, scalars, sum(learned)


@pytest.mark.parametrize("ratio", ["token", "trajectory"])
@settings(deadline=None, max_examples=5, suppress_health_check=SHARED)
@given(equal=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS))
def test_weights_and_scalars_are_those_of_a_backward_pass_of_all_rows(
    make_policy: Any, batch: Batch, ratio: str, equal: list[bool]
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UpdateData, "idle", lambda data, rows, _: np.zeros(len(rows.rows), bool))
        [expected], [all_scalars], learned = learn(make_policy(), batch, equal, ratio=ratio)
        assert learned == ROWS
    [weights], [scalars], learned = learn(make_policy(), batch, equal, ratio=ratio)
    assert learned == ROWS - sum(equal)
    steps = float(not all(equal))
    assert scalars == pytest.approx(all_scalars | {"steps": steps}, rel=1e-3, abs=1e-6)
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, atol=1e-5, rtol=1e-4)


def test_without_a_gradient_there_is_no_step(make_policy: Any, batch: Batch):
    """Adam would go on in the direction of earlier gradients, and forget how long they were."""
    some, none = [True] * (ROWS - 1) + [False], [True] * ROWS
    weights, scalars, _ = learn(make_policy(), batch, some, none, none, some)
    again, _, _ = learn(make_policy(), batch, some, some)
    assert [each["steps"] for each in scalars] == [1, 0, 0, 1]
    for name, weight in weights[0].items():
        assert torch.equal(weights[2][name], weight)
        assert torch.equal(weights[3][name], again[1][name])


def test_a_policy_that_equals_its_reference_takes_no_step_on_rounding_errors(
    make_policy: Any, batch: Batch
):
    """The KL has no gradient there. After a step it has one, in the same update and later."""
    policy, some, none = make_policy(), [True] * (ROWS - 1) + [False], [True] * ROWS
    policy.freeze_reference()
    settings: dict[str, Any] = {"kl_coef": 0.1, "adam_eps": 1e-8, "lr": 1e-3, "minibatches": 2}
    before = {f"policy.{name}": weight.clone() for name, weight in policy.named_parameters()}
    found = learn(policy, batch, none, some, none, reference=True, epochs=2, **settings)
    weights, scalars, learned = found
    assert all(torch.equal(weights[0][name], weight) for name, weight in before.items())
    steps = [int(each["steps"]) for each in scalars]
    assert steps[0] == 0 and steps[1] in (3, 4) and steps[2] == 4
    # One row makes the first step. Half of all rows make every later one.
    assert learned == 1 + (steps[1] - 1 + steps[2]) * ROWS // 2


def test_without_a_critic_nothing_learns_in_the_warm_up(make_policy: Any, batch: Batch):
    """A critic with a separate backbone has its own optimiser."""
    policy, some = make_policy(), [False] * ROWS
    before = {f"policy.{name}": weight.clone() for name, weight in policy.named_parameters()}
    weights, scalars, learned = learn(policy, batch, some, some, critic_warmup=1)
    assert all(torch.equal(weights[0][name], weight) for name, weight in before.items())
    assert any(not torch.equal(weights[1][name], weight) for name, weight in before.items())
    assert [each["steps"] for each in scalars] == [0, 1]
    assert learned == ROWS  # no gradients of the first update
    for name in ("policy_loss", "entropy", "kl"):
        assert scalars[0][name] == pytest.approx(scalars[1][name], abs=1e-6)


def test_a_gradient_scaler_outlives_the_warm_up(make_policy: Any, batch: Batch):
    """That of fp16, which cannot step without a gradient."""
    config = turn.Config.of(epochs=1, minibatches=1, max_new_tokens=4, critic_warmup=1)
    accelerator = Accelerator(cpu=True)
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    updater = build_updater(accelerator, config, make_policy(), None, None)
    accelerator.native_amp = True  # not before: the model itself stays in float32
    for step in range(2):
        credit = Credit(advantages(batch, [False] * ROWS))
        found = updater.update(batch, credit, None, step)
        assert found["steps"] == step


def test_the_minibatch_that_ends_an_update_is_logged(make_policy: Any, batch: Batch):
    """Its KL is above `target_kl`."""
    some = [False] * ROWS
    changes: dict[str, Any] = {"epochs": 2, "lr": 0.1}
    _, [free], _ = learn(make_policy(), batch, some, **changes)
    assert free["kl"] > 0 and free["steps"] == 2
    _, [scalars], _ = learn(make_policy(), batch, some, target_kl=free["kl"], **changes)
    assert (scalars["steps"], scalars["kl_stopped"]) == (1, 1)
    for name in ("kl", "policy_loss", "entropy"):
        assert scalars[name] == pytest.approx(free[name])


@pytest.mark.parametrize(
    ("changes", "forward", "some"),
    [
        ({}, {}, True),
        ({"entropy_coef": 0.1}, {}, False),
        ({"kl_coef": 0.1}, {"reference": 1e-3}, False),
        ({"kl_coef": 0.1}, {"reference": 1e-6}, True),  # rounding
        ({"kl_coef": 0.1}, {"reference": np.nan}, False),
        ({"kl_coef": 0.1, "kl_in": "reward"}, {"reference": 1e-3}, True),
        ({}, {"values": 0.0}, False),
    ],
)
def test_a_term_for_all_tokens_needs_every_row(
    batch: Batch, changes: Any, forward: dict[str, float], some: bool
):
    zeros = np.zeros(batch.num_tokens, np.float32)
    values = Values(zeros, zeros[: batch.num_turns], zeros[:ROWS]) if "values" in forward else None
    reference = None
    if "reference" in forward:
        reference = zeros.copy()
        reference[np.flatnonzero(batch.free)[-1]] = forward["reference"]
    loss = grpo.Config.of(**changes).loss
    data = UpdateData.of(
        batch, Credit(zeros, zeros), ForwardPass(zeros, values, reference, zeros), loss,
        length=4, device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    rows = Rows.of(batch, bootstrap=False)
    idle = data.idle(rows, loss)
    assert idle.any() == idle.all() == some
    if loss.penalises_rewards:
        assert not data.idle(rows, replace(loss, surrogate="squared")).any()


def test_equal_returns_have_no_advantage_whatever_the_group_size():
    returns = np.array([0.1, 0.1, 0.1, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 1.0, 2.0])
    members = members_of(np.array([0] * 3 + [1] * 6 + [2] * 2))
    compared = members.compare(returns, scale=True, epsilon=1e-6)
    assert np.flatnonzero(compared).tolist() == [9, 10]
