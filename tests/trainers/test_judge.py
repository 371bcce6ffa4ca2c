"""A reward model that a run leaves behind scores the actions of other policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.agents import View, make_agent
from agentgym.errors import AgentGymError
from agentgym.evaluation.runner import evaluate
from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.policy_agent.loading import load_judge
from agentgym.trainers.recipes.orm import OutcomeReward
from agentgym.trainers.rewards import shaping
from agentgym.trainers.rewards.model_judge import ModelJudge
from agentgym.trainers.rollout.env_pool import instructions_by_id

from .recipes.test_recipes import train_quickly

TINY: dict[str, Any] = {"iterations": 1, "env_kwargs": {"size": 6, "max_turns": 4}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A run with an outcome reward model, and one of a policy with another tokenizer."""
    folder = tmp_path_factory.mktemp("runs")
    train_quickly("orm", folder / "orm", **TINY)
    other = TINY | {"env_id": "Wordle-v0", "env_kwargs": {}, "constrain": False}
    train_quickly("grpo", folder / "grpo", **other, max_new_tokens=4, bc_demonstrations=4)
    return folder


@pytest.mark.slow
def test_any_policy_plays_the_actions_that_the_judge_prefers(runs: Path, monkeypatch):
    scored: list[np.ndarray] = []
    plain = Judge.read

    def score(judge: Judge, views: Any, actions: Any) -> np.ndarray:
        return judge.model.predict(Batch.of(plain(judge, views, actions)))

    def watched(judge: Judge, views: Any, actions: Any) -> list[Trajectory]:
        found = score(judge, views, actions)
        texts = [text for some in actions for text in some]
        assert np.array_equal(score(judge, views, actions), found)
        for i, (view, some) in enumerate(zip(views, actions, strict=True)):
            alone = score(judge, [view], [some])
            assert np.allclose(alone, found[i * len(some) : (i + 1) * len(some)], atol=1e-5)
        assert len(texts) == len(found)
        scored.append(found)
        return plain(judge, views, actions)

    monkeypatch.setattr(Judge, "read", watched)
    agent = make_agent(f"policy:{runs / 'grpo'}", best_of=3, judge=str(runs / "orm"))
    assert isinstance(agent, BestOf) and agent.proposing.temperature == 1
    report = evaluate("NumberLine-v0", agent, tasks=2, env_kwargs=TINY["env_kwargs"])
    assert len(report.episodes) == 2 and scored


@pytest.mark.slow
def test_a_search_of_another_policy_uses_the_judge(runs: Path):
    policy = f"policy={runs / 'grpo'}"
    spec = f"search:beam,budget=8,beams=2,width=2,value=judge:{runs / 'orm'},{policy}"
    agent = make_agent(spec)
    judge = agent.settings.judge  # type: ignore[attr-defined]
    view = View.start(make_env("NumberLine-v0", size=30), "train/3", 0)
    scores = judge.scores([view] * 2, ["+", "-"])
    best = BestOf(load_agent(str(runs / "grpo")), judge, 2)  # type: ignore[arg-type]
    assert scores == best.scores([view] * 2, ["+", "-"])
    read = judge.tokens
    assert read > 0 and agent.act([view]) and judge.tokens > read


@pytest.mark.slow
def test_the_saved_judge_is_the_trained_model(runs: Path, tmp_path: Path):
    reader = load_agent(str(runs / "orm" / "judge"))
    judge = Judge.load(runs / "orm" / "judge", reader)  # type: ignore[arg-type]
    judge.save(tmp_path / "again")
    again = Judge.load(tmp_path / "again", load_agent(str(tmp_path / "again")))  # type: ignore[arg-type]
    fresh = Judge.load(runs / "orm" / "judge", load_agent(str(runs / "orm")))  # type: ignore[arg-type]
    own, copy = (dict(each.model.state_dict()) for each in (judge, again))
    assert all((own[name] == copy[name]).all() for name in own)
    assert judge.whole and again.whole
    # Its backbone is no longer the policy's.
    assert any((own[n] != w).any() for n, w in fresh.model.state_dict().items())


@pytest.mark.slow
def test_a_judge_knows_whether_it_predicts_the_whole_return(runs: Path, tmp_path: Path):
    folder = tmp_path / "run" / "judge"
    reader: Any = load_agent(str(runs / "orm" / "judge"))
    model = Judge.load(runs / "orm" / "judge", reader).model
    for whole in (True, False):
        folder.mkdir(parents=True, exist_ok=True)
        Judge(model, reader, whole=whole).save(folder)
        assert BestOf(reader, Judge.load(folder, reader), 2).whole == whole
    saved = torch.load(folder / "head.pt")
    del saved["whole"]  # as older versions saved it
    torch.save(saved, folder / "head.pt")
    assert Judge.load(folder, reader).whole  # its run is unknown
    for recipe, whole in {"orm": True, "agentprm": True, "read": False, "spa": False}.items():
        (folder.parent / "config.json").write_text(json.dumps({"recipe": recipe}))
        assert Judge.load(folder, reader).whole == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"best_of": 4}, "judge = None"),
        ({"judge": "orm"}, "best_of = 1"),
        ({"best_of": 4, "judge": "grpo"}, "holds no judge"),
        ({"best_of": 4, "judge": "nowhere"}, "holds no policy"),
    ],
)
def test_a_judge_needs_a_folder_and_a_number(runs: Path, options: dict[str, Any], match: str):
    if "judge" in options:
        options = options | {"judge": str(runs / options["judge"])}
    with pytest.raises(AgentGymError, match=match):
        load_agent(str(runs / "grpo"), **options)


@pytest.mark.slow
def test_a_judge_scores_the_turns_of_training_as_the_run_that_left_it(tmp_path: Path):
    found: list[tuple[Batch, Any]] = []

    def watched(self: Any, batch: Batch, *rest: Any) -> Batch:
        learnt = plain(self, batch, *rest)
        found.append((batch, self.model.predict(batch)))
        return learnt

    plain = OutcomeReward.on_rewards
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutcomeReward, "on_rewards", watched)
        train_quickly("orm", tmp_path / "orm", **TINY)
    (batch, values), source = found[-1], f"judge:{tmp_path / 'orm'}"
    instructions = instructions_by_id(make_env("NumberLine-v0"))
    scores = shaping.turn_scores(batch, source, ModelJudge(source, instructions))
    assert np.ptp(values) > 0
    assert scores == pytest.approx(1 / (1 + np.exp(-values.astype(np.float64))), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["grpo", "filtered_bc"])
def test_a_judge_takes_part_in_training(runs: Path, tmp_path: Path, recipe: str):
    source = f"judge:{runs / 'orm'}"
    chosen = {"judge": source} if recipe == "filtered_bc" else {"process_reward": source}
    rows = train_quickly(recipe, tmp_path, **TINY, **chosen)
    name = "credit/process_score" if recipe == "grpo" else "credit/lowest_score"
    assert 0 < rows[-1][name] < 1


def test_an_implicit_reward_is_a_judge(tmp_path: Path):
    """It scores an action by beta times its log-ratio under the preference model and the policy."""
    trainer: Any = make_trainer(
        "istar", env_id="NumberLine-v0", env_kwargs={"size": 6, "max_turns": 4}, model="nano",
        context="current", instructions=False, constrain=True, max_new_tokens=3, group_size=4,
        bc_demonstrations=4, bc_epochs=1, bc_batch_tokens=8192, episodes_per_iteration=16,
        iterations=1, eval_episodes=0, transcripts=0, threads=1, device="cpu", quiet=True,
        log_with=(), beta=0.5, run_dir=str(tmp_path),
    )  # fmt: skip
    trainer.run()
    assert trainer.hooks.fitted
    judge = load_judge(tmp_path)
    view = View.of_text("", "You are at 2. Go to 5.")
    actions = ["+", "-", "up"]
    read = Batch.of(judge.read([view], [actions]))
    model, policy = (trainer.hooks.logprobs(read, each) for each in (None, trainer.policy))
    ratios = np.bincount(read.token_turn, model.astype(float) - policy)
    assert np.abs(ratios).max() > 1e-3
    scores = judge.scores([view] * 3, actions)
    np.testing.assert_allclose(scores, 0.5 * ratios, atol=1e-5)
    assert not judge.whole
    judge.save(tmp_path / "again")
    assert load_judge(tmp_path / "again").scores([view] * 3, actions) == scores
    assert ModelJudge(f"judge:{tmp_path}").folder == tmp_path / "judge"
