"""Recipes that learn from preferences between episodes: pairs, means and settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import recipes
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit import given
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.learn import Pair
from agentgym.trainers.recipes import eto, optima, trpa
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.learning import learn
from ...helpers.worlds import trajectory


def test_eto_pairs_episodes_with_the_experts_alone():
    returns = [0.0, 0.5, 1.0, 2.0]
    own = [trajectory([1], [r], seed=1) for r in returns] + [trajectory([1], [3.0], seed=2)]
    expert = trajectory([1], [1.0], seed=1)
    # The expert is better than the first two, and worse than the fourth.
    found = sorted(pair[:2] for pair in eto.expert_pairs(own, [expert]))
    assert found == [(3, 5), (5, 0), (5, 1)]


@pytest.mark.parametrize("recipe", ["eto", "inverse_prm"])
def test_an_expert_has_the_turn_limit_of_the_rollout(recipe: str, tmp_path: Path):
    settings: dict[str, Any] = dict(
        env_id="NumberLine-v0", env_kwargs={"size": 30}, model="nano", context="current",
        constrain=True, horizons=(2,), group_size=2, episodes_per_iteration=4, iterations=0,
        eval_episodes=0, device="cpu", threads=1, log_with=(), quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    trainer = make_trainer(recipe, **settings)
    trainer.run()
    own = [trajectory([1], [0.0], task=f"train/{i}", seed=i) for i in range(4)]
    trainer.hooks.on_rollout_end(own, 0, np.random.default_rng(0))
    assert trainer.hooks.env_steps == 4 * 2


def trpa_credit(batch: Batch, forward: ForwardPass, **changes: Any) -> Credit:
    """The credit of episodes by TRPA."""
    algorithm = recipes.load("trpa").build(trpa.Config.of(beta=1.0, anisotropy=1.0, **changes))
    assert algorithm.hooks is not None
    hooks = algorithm.hooks(cast(Any, None))
    pairs = learn(hooks, list(batch.trajectories)).pairs
    shown = replace(batch, pairs=pairs)
    vars(shown).update({k: v for k, v in vars(batch).items() if k in ("free", "thought")})
    return algorithm.signal.assign(shown, forward)


def test_forced_tokens_are_no_part_of_the_means_of_trpa(monkeypatch: pytest.MonkeyPatch):
    """The loss has none of them either: the score is a mean over the tokens that it weighs."""
    batch = Batch.of([trajectory([4], [1.0], success=True), trajectory([1], [0.0])])
    monkeypatch.setitem(vars(batch), "free", np.array([1, 0, 0, 0, 1], bool))
    forward = ForwardPass(
        logprobs=np.array([4, 0, 0, 0, 0], np.float32), reference=np.zeros(5, np.float32)
    )
    credit = trpa_credit(batch, forward)
    # Two episodes and one pair: 2 sigmoid(-(4 - 0)), not 2 sigmoid(-(1 - 0)).
    assert credit.advantages[0] == pytest.approx(2 / (1 + np.exp(4)))
    assert credit.advantages[4] == pytest.approx(-2 / (1 + np.exp(4)))


@pytest.mark.parametrize(("coef", "score"), [(0.0, 4.0), (0.5, 3.0), (1.0, 2.5)])
def test_the_means_of_trpa_weigh_thoughts_as_the_loss_does(
    coef: float, score: float, monkeypatch: pytest.MonkeyPatch
):
    batch = Batch.of([trajectory([2], [1.0], success=True), trajectory([1], [0.0])])
    monkeypatch.setitem(vars(batch), "thought", np.array([1, 0, 0], bool))
    forward = ForwardPass(
        logprobs=np.array([1, 4, 0], np.float32), reference=np.zeros(3, np.float32)
    )
    credit = trpa_credit(batch, forward, thought_coef=coef)
    assert credit.advantages[0] == pytest.approx(2 / (1 + np.exp(score)))


GRADIENTS = ("dpo", "eto", "agent_q", "trpa", "malt", "lspo")
"""Recipes whose credit is the gradient of a preference loss."""


@pytest.mark.parametrize(
    ("recipe", "setting"),
    [
        *((name, {"aggregation": "turn"}) for name in GRADIENTS),
        *((name, {"covariance_clip": 0.1}) for name in GRADIENTS),
        *(
            ("optima", {"update": update, "aggregation": how})
            for update in ("dpo", "sft_dpo")
            for how in ("turn", "trajectory", "constant")
        ),
        (
            "agentprm",
            {"update": "dpo", "normalize_advantages": "none", "aggregation": "trajectory"},
        ),
        (
            "agentprm",
            {"update": "dpo", "normalize_advantages": "none", "covariance_clip": 0.1},
        ),
        ("trpa", {"filter_groups": True}),
    ],
)
def test_settings_that_would_change_the_gradient_of_the_loss(recipe: str, setting: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"This recipe supports|has no |belongs to "):
        recipes.load(recipe).Config.of(**setting)


def test_optima_clones_with_any_aggregation():
    assert optima.Config.of(aggregation="trajectory").loss.aggregation == "trajectory"


CHANGES: dict[str, dict[str, Any]] = {
    "agentprm": {"update": "dpo", "normalize_advantages": "none"},
    "optima": {"update": "dpo"},
}


@pytest.mark.parametrize(("coef", "score"), [(0.0, 4.0), (0.5, 4.5), (1.0, 5.0)])
@pytest.mark.parametrize("recipe", ["dpo", "eto", "agent_q", "lspo", "malt", "optima", "agentprm"])
def test_sums_of_log_ratios_weigh_thoughts_as_the_loss_does(
    recipe: str, coef: float, score: float, monkeypatch: pytest.MonkeyPatch
):
    """The credit is then the gradient of the loss that they define."""
    seen: list[np.ndarray] = []

    def weights(scores: np.ndarray, *_: Any) -> tuple[np.ndarray, float]:
        seen.append(scores)
        return np.zeros(len(scores)), 1.0

    monkeypatch.setattr(given, "preference_weights", weights)
    module = recipes.load(recipe)
    config = module.Config.of(thought_coef=coef, **CHANGES.get(recipe, {}))
    batch = Batch.of([trajectory([2], [1.0]), trajectory([1], [0.0])])
    zeros = np.zeros(3, np.float32)
    # The log-probabilities of the policy that sampled are the reference of agent_q.
    batch = replace(batch, pairs=[Pair(0, 1)], sampler_logprobs=zeros)
    monkeypatch.setitem(vars(batch), "thought", np.array([1, 0, 0], bool))
    forward = ForwardPass(logprobs=np.array([1, 4, 0], np.float32), reference=zeros)
    module.build(config).signal.assign(batch, forward)
    assert seen[0].tolist() == [score, 0.0]
