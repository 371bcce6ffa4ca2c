"""`agentgym export --format hub`: folders that transformers loads and the Hub describes."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli.command_line import INTERRUPTED
from agentgym.cli.main import main
from agentgym.integrations.hub import model_card
from agentgym.utils.arguments import parse_arguments

torch = pytest.importorskip("torch")

from huggingface_hub import ModelCard  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from agentgym.trainers.policy.sampling import Sampling  # noqa: E402
from agentgym.trainers.policy.tiny import tiny_policy  # noqa: E402
from agentgym.trainers.policy_agent.agent import PolicyAgent  # noqa: E402
from agentgym.trainers.rollout.context import ContextSettings  # noqa: E402


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "policy").mkdir(parents=True)
    policy = tiny_policy("NumberLine-v0", size="nano", episodes=4)
    agent = PolicyAgent(policy, ContextSettings(mode="current"), Sampling(temperature=0))
    agent.save(folder / "policy", env_id="NumberLine-v0", env_kwargs={"size": 6}, iteration=2)
    (folder / "config.json").write_text(json.dumps({"config": {"recipe": "turn", "lr": 0.5}}))
    metrics = [
        {"iteration": i, "env_steps": 1000 * i, "eval/reward": 0.1 * i, "eval/success": 0.5}
        | {"eval/reward_low": 0.0, "eval/reward_high": 0.4}
        for i in (1, 2, 3)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    return folder


def test_transformers_and_the_hub_read_the_folder(run: Path, tmp_path: Path):
    out = tmp_path / "line-walker"
    assert main(["export", str(run), "--format", "hub", "--out", str(out)]) == 0
    model = AutoModelForCausalLM.from_pretrained(out)
    saved = AutoModelForCausalLM.from_pretrained(run / "policy")
    pairs = zip(model.parameters(), saved.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert AutoTokenizer.from_pretrained(out).encode("Go") == (
        AutoTokenizer.from_pretrained(run / "policy").encode("Go")
    )
    card: Any = ModelCard.load(out / "README.md")
    assert card.data.library_name == "transformers" and "turn" in card.data.tags
    figures = {each.metric_type: each.metric_value for each in card.data.eval_results}
    assert figures == {"reward": 0.2, "success": 0.5}, "those of the policy's own iteration"
    assert card.data.eval_results[0].dataset_name == "AgentGym/NumberLine-v0"
    assert "agentgym eval NumberLine-v0 --agent policy:FOLDER --env-kwargs size=6" in card.text
    assert "0.2 [0, 0.4]" in card.text and '"lr": 0.5' in card.text


@pytest.mark.parametrize("id", ["MyEnv", "Mine/Nim-v0"])
def test_the_environment_may_be_one_that_is_not_registered_here(id: str, run: Path, tmp_path: Path):
    file = run / "policy" / "agentgym_policy.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "env_id": id}))
    assert main(["export", str(run), "--format", "hub", "--out", str(tmp_path / "out")]) == 0
    assert f"A policy for `{id}`" in (tmp_path / "out" / "README.md").read_text()


def test_a_run_stands_for_its_best_policy(run: Path, tmp_path: Path, capsys):
    shutil.copytree(run / "policy", run / "best")
    file = run / "best" / "agentgym_policy.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "iteration": 1}))
    taken = {}
    for name in ("", "policy", "best"):
        out = tmp_path / f"out-{name}"
        assert main(["export", str(run / name), "--format", "hub", "--out", str(out)]) == 0
        taken[name] = json.loads((out / "agentgym_policy.json").read_text())["iteration"]
        said = " ".join(capsys.readouterr().out.split())
        assert f"The policy {run / (name or 'best')}" in said
        assert (f"{run / 'policy'} is the last" in said) == (name == "")
    assert taken == {"": 1, "policy": 2, "best": 1}


def test_the_folder_is_an_agent(run: Path, tmp_path: Path):
    out = tmp_path / "hub"
    assert main(["export", str(run / "policy"), "--format", "hub", "--out", str(out)]) == 0
    words = ["eval", "NumberLine-v0", "--agent", f"policy:{out}", "--episodes", "2"]
    assert main([*words, "--env-kwargs", "size=6", "max_turns=2"]) == 0


def test_an_adapter_names_its_base_and_a_run_without_figures_has_none(run: Path, tmp_path: Path):
    (run / "policy" / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    (run / "metrics.jsonl").unlink()
    assert main(["export", str(run), "--format", "hub", "--out", str(tmp_path / "x")]) == 0
    card: Any = ModelCard.load(tmp_path / "x" / "README.md")
    assert card.data.base_model == "some/base" and card.data.library_name == "peft"
    assert "AutoPeftModelForCausalLM" in card.text and "## Evaluation" not in card.text


@pytest.mark.parametrize("sources", [[], ["a", "b"], ["missing"]])
def test_wrong_sources_are_explained(sources: list[str], tmp_path: Path, capsys):
    assert main(["export", *sources, "--format", "hub", "--out", str(tmp_path / "x")]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "takes the folder of one run" in message or "holds no policy" in message
    assert not (tmp_path / "x").exists()


def test_an_export_that_is_killed_leaves_no_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    words = ["export", str(run), "--format", "hub", "--out", str(out := tmp_path / "walker")]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", killed)
        assert main(words) == INTERRUPTED
    assert not out.exists()
    assert main(words) == 0 and (out / "README.md").exists()


def test_the_command_of_a_card_can_be_pasted_into_a_shell():
    kwargs = {"roles": ["a", "b"], "text": 'it\'s "$HOME"', "table": {"x": 1.5}, "size": 6}
    card = model_card("x", {"env_id": "NumberLine-v0", "env_kwargs": kwargs}, {}, {}, None)
    [command] = [line for line in card.splitlines() if line.startswith("agentgym eval")]
    words = shlex.split(command)
    assert parse_arguments(words[words.index("--env-kwargs") + 1 :]) == kwargs
