"""On-policy distillation: a term per token, from a teacher that knows more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.hooks.teacher import Teacher
from agentgym.trainers.recipes.distill import Config, agreement, distilled
from agentgym.trainers.run.logger import read_metrics

from ...helpers.worlds import trajectory

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 6}, "model": "nano",
    "context": "full", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 16, "group_size": 4, "device": "cpu", "threads": 1, "quiet": True,
    "log_with": (), "transcripts": 0, "iterations": 1,
}  # fmt: skip
GAIN = np.array([-0.2, 0.6, -1.0, 0.0], np.float32)


def test_golden_terms_have_no_discount():
    credit = Credit(np.full(4, 1.2, np.float32))
    assert np.allclose(distilled(credit, GAIN, 0.5, 1.0).advantages, [1.1, 1.5, 0.7, 1.2])
    assert np.allclose(distilled(credit, GAIN, 0.5, 0.0).advantages, [-0.1, 0.3, -0.5, 0.0])
    far = np.array([-40.0, 40.0, 1.0, 0.0], np.float32)
    assert distilled(credit, far, 1.0, 0.0).advantages.tolist() == [-5.0, 5.0, 1.0, 0.0]


def test_the_expected_gradient_of_sampled_tokens_is_that_of_the_reverse_kl():
    """Golden: policy softmax(1, 0, -1), teacher softmax(0, 1, -1)."""
    logits = torch.tensor([1.0, 0.0, -1.0], requires_grad=True)
    student = logits.log_softmax(-1)
    teacher = torch.tensor([0.0, 1.0, -1.0]).log_softmax(-1)
    gain = (teacher - student).detach().numpy()
    terms = distilled(Credit(np.zeros(3, np.float32)), gain, 1.0, 0.0).advantages
    loss = -(student.exp().detach() * torch.from_numpy(terms) * student).sum()
    [found] = torch.autograd.grad(loss, logits)
    assert torch.allclose(found, torch.tensor([0.385499, -0.347640, -0.037859]), atol=1e-5)


def test_the_divergence_is_logged_by_the_place_in_the_episode():
    batch = Batch.of([trajectory([1, 2], [0, 0]), trajectory([1], [0])])
    assert agreement(batch, GAIN) == {
        "teacher_kl": pytest.approx(0.15),
        "teacher_kl_first": pytest.approx(0.1),
        "teacher_kl_last": pytest.approx((1.0 - 0.6) / 3),
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run, whose policy is a teacher of the same family."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    make_trainer("distill", **FEW, run_dir=str(folder), lr=0.01).run()
    return folder


def test_a_run_with_the_hidden_state_logs_the_divergence(trained: Path):
    row = read_metrics(trained)[-1]
    assert row["credit/teacher_kl"] != 0 and row["losses/steps"] > 0


def test_a_teacher_that_equals_the_policy_teaches_nothing(trained: Path, tmp_path: Path):
    model = str(trained / "policy")
    alone = {"model": model, "teacher": model, "teacher_sees": "own", "outcome_coef": 0.0}
    settings = FEW | alone | {"teacher_coef": 1.0, "lr": 1.0, "epochs": 1}
    make_trainer("distill", **settings, run_dir=str(tmp_path)).run()
    row = read_metrics(tmp_path)[-1]
    assert abs(row["credit/teacher_kl"]) < 1e-5 and row["losses/steps"] == 0


def test_a_teacher_sees_its_own_prompts_in_all_turns(trained: Path, tmp_path: Path):
    trainer = make_trainer("distill", **FEW, run_dir=str(tmp_path))
    episodes = trainer.rollouts.collect(0)
    batch = Batch.of(episodes)
    own, hidden, hint = (
        Teacher(trainer, None, sees).logprobs(batch) for sees in ("own", "hidden", "hint:left")
    )
    assert np.allclose(own, batch.logprobs, atol=1e-4)
    free = batch.free
    assert (np.abs(hidden - own)[free] > 1e-6).mean() > 0.9
    assert (np.abs(hint - hidden)[free] > 1e-6).mean() > 0.9
    assert not (hidden[~free].any() or hint[~free].any())
    other = Teacher.of(trainer, str(trained / "policy"), "own").logprobs(batch)
    assert (np.abs(other - own)[free] > 1e-6).any()
    longer = [replace(t, turns=t.turns[:1], terminated=False) for t in episodes]
    assert len(Teacher(trainer, None, "hidden").logprobs(Batch.of(longer))) > 0
    trainer.run()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"teacher_sees": "own"}, "teaches itself nothing"),
        ({"teacher_sees": "hint:"}, "'hint:TEXT' with a text, got 'hint:'"),
        ({"teacher_sees": "everything"}, "got 'everything'"),
        ({"opponents": "mirror"}, "opponents = 'scripted' only"),
    ],
)
def test_settings_that_teach_nothing_are_refused(changes: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        Config.of(**changes)
