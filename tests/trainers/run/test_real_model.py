"""A small model of a real architecture: it thinks, has an adapter, is killed and resumed."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.evaluation.runner import evaluate
from agentgym.trainers import load_policy
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.run.logger import read_metrics
from tests.helpers.chat_models import chat_model
from tests.helpers.launch import Child, finish

pytestmark = pytest.mark.xdist_group("processes")

TRAIN = ("-m", "agentgym.trainers")
FLAGS = (
    "grpo --env-id NumberLine-v0 --env-kwargs size=5 max_turns=3 --context window --lora-rank 4 "
    "--wrap ExtractAction:format=tags,format_reward=0.1 --stop </action> --thought-coef 0.5 "
    "--template-kwargs enable_thinking=true --kl-coef 0.1 --max-new-tokens 12 --iterations 2 "
    "--bc-demonstrations 2 --bc-epochs 1 --group-size 2 --episodes-per-iteration 4 "
    "--eval-every 0 --eval-episodes 2 --device cpu --threads 1 --lr 1e-2"
).split()

# A child that is killed when it has played half of the second iteration.
KILL = """
import os, signal, sys
from agentgym.trainers.run.rollouts import Rollouts
collect = Rollouts.collect
def killed(rollouts, iteration):
    if iteration == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return collect(rollouts, iteration)
Rollouts.collect = killed
from agentgym.trainers.cli.train import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen")
    for part in chat_model("qwen3"):
        part.save_pretrained(folder)
    return folder


def run(program: Sequence[str], model: Path, folder: Path, *flags: str, code: int = 0) -> str:
    """Returns the output of a run."""
    command = [*program, *FLAGS, "--model", str(model), "--run-dir", str(folder), *flags]
    child = Child(command)
    finish([child], code)
    return child.output


@pytest.mark.slow
def test_a_thinking_model_with_an_adapter_survives_a_kill(model: Path, tmp_path: Path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(TRAIN, model, whole)
    run(["-c", KILL], model, killed, code=-signal.SIGKILL)
    assert len([row for row in read_metrics(killed) if "losses/kl" in row]) == 1
    # A loaded model is saved every 10 minutes: the killed run had the checkpoint after cloning.
    assert "Resumed after iteration 0." in run(TRAIN, model, killed, "--resume")
    rows = [
        [
            {k: v for k, v in row.items() if not k.startswith("time/")}
            for row in read_metrics(folder)
        ]
        for folder in (whole, killed)
    ]
    assert rows[0] == rows[1]
    first = next(row for row in rows[0] if "losses/reference_kl" in row)
    # Nothing but rounding, which Adam scales up: all returns of the iteration are equal.
    assert first["losses/reference_kl"] == pytest.approx(0, abs=1e-3)
    assert first["rollout/logprob_gap"] < 1e-5

    transcript = (whole / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    prompt = json.loads(transcript[0])["turns"][0]["prompt"]["text"]
    assert prompt.endswith("assistant\n")
    assert "<action>" in prompt  # the wrapper explains its format

    loaded = load_policy(whole)
    assert loaded.act("You are at 1. Go to 3.") in loaded.reply("You are at 1. Go to 3.")
    agent = load_agent(str(whole / "policy"))
    report = evaluate("NumberLine-v0", agent, tasks=2, num_envs=2)
    assert len(report.episodes) == 2
