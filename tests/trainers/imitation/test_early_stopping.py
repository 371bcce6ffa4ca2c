import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers import api
from agentgym.trainers.imitation import early_stopping
from agentgym.trainers.imitation.early_stopping import EarlyStopping, split
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.sampling import Request, Sampling

from ...helpers.short_of_memory import updater_of

SETTINGS: dict[str, Any] = dict(
    env_kwargs={"size": 5, "max_turns": 6}, model="nano", context="current", bc_demonstrations=6,
    bc_epochs=12, bc_lr=1e-2, bc_batch_tokens=64, iterations=0, eval_episodes=0, device="cpu",
    threads=1, log_with=(),
)  # fmt: skip


class Weights:
    """A policy with one weight, whose loss on held-out demonstrations is this weight."""

    def __init__(self) -> None:
        self.weight = torch.zeros(())

    def own_weights(self) -> dict[str, torch.Tensor]:
        return {"weight": self.weight}

    def load_own_weights(self, weights: dict[str, torch.Tensor]) -> None:
        self.weight.copy_(weights["weight"])


def stopping(patience: int, monkeypatch: pytest.MonkeyPatch, state: Any = None) -> EarlyStopping:
    batch = SimpleNamespace(turns=[SimpleNamespace(weight=2.0)], token_turn=np.array([0]))
    monkeypatch.setattr(early_stopping, "Batch", SimpleNamespace(of=lambda _: batch))
    policy, module = Weights(), object()
    updater: Any = SimpleNamespace(
        policy=policy, module=module, trained=module, sampling=Sampling(),
        evaluate_actions=lambda *_, **__: SimpleNamespace(
            logprobs=np.array([-float(policy.weight)])
        ),
    )  # fmt: skip
    return EarlyStopping(updater, [], patience, state)


@settings(deadline=None)
@given(
    losses=st.lists(st.floats(0.125, 9.0, width=32), min_size=1, max_size=12),
    patience=st.integers(1, 4),
    resumed=st.integers(0, 12),
)
def test_the_best_epoch_before_patience_ends_is_kept(losses, patience, resumed):
    with pytest.MonkeyPatch.context() as monkeypatch:
        stop, epoch = stopping(patience, monkeypatch), 0
        policy: Any = stop._updater.policy
        while epoch < len(losses) and not stop.over(epoch):
            if epoch == resumed:
                stop = stopping(patience, monkeypatch, stop.state)
                policy = stop._updater.policy
            policy.weight.fill_(losses[epoch])
            epoch += 1
            assert stop.observe(epoch) == pytest.approx(losses[epoch - 1])
        stop.restore()
    best = int(np.argmin(losses[:epoch]))
    assert float(policy.weight) == pytest.approx(losses[best])
    assert stop.state["epoch"] == best + 1
    assert epoch in (len(losses), best + 1 + patience)


def test_weights_are_those_of_the_run_that_ends_at_the_best_epoch(tmp_path, monkeypatch, capsys):
    """An epoch that does not improve the held-out loss leaves nothing."""
    losses, observe = iter([3.0, 1.0, 2.0, 1.5]), EarlyStopping.observe
    found: list[dict[str, torch.Tensor]] = []

    def scripted(stop: EarlyStopping, epoch: int) -> float:
        assert 0 < observe(stop, epoch) < math.inf
        loss = next(losses)
        weights = {k: v.clone() for k, v in stop._updater.policy.own_weights().items()}
        found.append(weights)
        if loss < min([3.5, 3.0, 1.0, 1.0][:epoch]):
            stop.state = {"epoch": epoch, "loss": loss, "weights": weights}
        return loss

    monkeypatch.setattr(EarlyStopping, "observe", scripted)
    run = api.make_trainer("poad", **SETTINGS, bc_patience=2, run_dir=str(tmp_path / "run"))
    run.run()
    assert len(found) == 4
    kept = run.policy.own_weights()
    assert all(torch.equal(found[1][name], kept[name]) for name in kept)
    assert any(not torch.equal(found[3][name], kept[name]) for name in kept)
    assert "held_out_loss 1.5" in capsys.readouterr().out


@settings(deadline=None)
@given(count=st.integers(2, 40), seed=st.integers(0, 9))
def test_a_tenth_is_held_out(count, seed):
    shown: list[Any] = list(range(count))
    fitted, held_out = split(shown, np.random.default_rng(seed))
    both: list[Any] = [*fitted, *held_out]
    assert sorted(both) == shown
    assert fitted and len(held_out) == max(1, round(count / 10))


def test_the_held_out_loss_is_the_one_that_is_fitted(make_policy, as_batch):
    """Whatever the temperature of the rollouts is."""
    policy = make_policy()
    prompts = [np.array(policy.encode("a room>"), np.int32)] * 3
    requests = [Request(prompt, np.random.default_rng(i)) for i, prompt in enumerate(prompts)]
    batch = as_batch(prompts, policy.act(requests, Sampling(max_new_tokens=6)))
    updater = updater_of(policy, temperature=0.5)
    found = EarlyStopping(updater, batch.trajectories, 1).observe(1)
    collated = collate(batch, segment_rows(batch), policy.pad_token)
    assert found == pytest.approx(-float(policy(collated).logprobs.mean().detach()), rel=1e-5)
    assert updater.sampling.temperature == 0.5


def test_one_demonstration_cannot_be_held_out(tmp_path):
    few: dict[str, Any] = SETTINGS | {"bc_demonstrations": 1}
    with pytest.raises(ConfigError, match=r"needs at least 2, got 1: use more demonstrations"):
        api.train("poad", **few, bc_patience=2, quiet=True, run_dir=str(tmp_path / "run"))


def test_sharded_weights_are_refused():
    updater: Any = SimpleNamespace(module=object(), trained=object())
    with pytest.raises(ConfigError, match="sharded over GPUs: leave bc_patience at None"):
        EarlyStopping(updater, [], 1)
