"""The generators of reasoning-gym as environments."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.registration.making import make_env

reasoning_gym = pytest.importorskip("reasoning_gym", reason="needs the extra `reasoning-gym`")

SOME = ["chain_sum", "leg_counting", "number_sorting", "maze", "sudoku", "propositional_logic"]


@pytest.mark.parametrize("dataset", SOME)
def test_the_reference_answer_scores_as_its_own_verifier_has_it(dataset):
    env: Any = make_env("ReasoningGym-v0", dataset=dataset)
    for task in ("train/0", "test/0"):
        question, _ = env.reset(seed=0, options={"task": task})
        assert env.reset(seed=1, options={"task": task})[0] == question
        snapshot = env.unwrapped.snapshot()
        _, reward, terminated, _, info = env.step(env.get_wrapper_attr("expert")() or "")
        entry = env.unwrapped._entry
        generator = reasoning_gym.create_dataset(dataset, seed=0, size=1)
        assert reward == generator.score_answer(entry["answer"] or "", entry)
        assert terminated and info["success"] == (reward >= 1)
        env.unwrapped.restore(snapshot)
        for wrong in ("", "\ud800", "x" * 1000):
            env.unwrapped.restore(snapshot)
            assert env.step(wrong)[1] < 1
    assert (
        question
        != make_env("ReasoningGym-v0", dataset=dataset).reset(seed=0, options={"task": "train/0"})[
            0
        ]
    )


def test_the_environment_keeps_the_contract_and_can_be_evaluated(global_rng_untouched):
    env = make_env("ReasoningGym-v0", dataset="chain_sum", settings={"max_terms": 3})
    check_env(env.unwrapped, skip_render_check=True)
    kwargs = {"dataset": "chain_sum"}
    report = evaluate("ReasoningGym-v0", "expert", tasks=8, env_kwargs=kwargs)
    assert report.aggregate()["success"].mean == 1.0


def test_names_and_settings_are_checked():
    with pytest.raises(ConfigError, match=r"no generator 'chain_sums'. Did you mean: chain_sum"):
        make_env("ReasoningGym-v0", dataset="chain_sums")
    with pytest.raises(ConfigError, match="refuses settings"):
        make_env("ReasoningGym-v0", dataset="chain_sum", settings={"max_terms": -3})
