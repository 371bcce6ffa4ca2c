"""`agentgym eval --agent harness:COMMAND`: a program in the same table as other agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from agentgym.cli.main import main
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import evaluate
from agentgym.trainers.gateway.executor import ProgramError
from agentgym.trainers.gateway.harness_agent import HarnessAgent
from agentgym.trainers.gateway.programs import FunctionProgram
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.rollout.context import ContextSettings
from tests.gateway import episodes as programs
from tests.helpers.chat_models import chat_model

GREEDY = Sampling(temperature=0.0, max_new_tokens=3)


@pytest.fixture(scope="module")
def policy() -> PolicyAgent:
    model = Policy(*chat_model("base"))
    return PolicyAgent(model, ContextSettings(), GREEDY, constrain=True)


def stops(task: Task) -> None:
    """Takes one action and ends."""
    programs.ask(task, [{"role": "user", "content": "hello"}])
    task.step("stay where you are")


def test_episodes_of_a_program_are_played_as_those_of_other_agents(policy: PolicyAgent):
    reports = [
        evaluate(
            "NumberLine-v0",
            HarnessAgent(FunctionProgram(programs.chat), policy, "harness:chat"),
            tasks=5, num_envs=num_envs, env_kwargs={"size": 3, "max_turns": 2},
        )
        for num_envs in (1, 3)
    ]  # fmt: skip
    one, three = (report.episodes for report in reports)
    assert [each.reward for each in one] == [each.reward for each in three]
    assert [each.turns for each in one] == [each.turns for each in three]
    assert all(each.valid == 1.0 and each.costs["prompt_tokens"] > 0 for each in one)


def test_an_episode_goes_on_without_a_program_that_has_ended(policy: PolicyAgent):
    agent = HarnessAgent(FunctionProgram(stops), policy, "harness:stops")
    report = evaluate("NumberLine-v0", agent, tasks=2, env_kwargs={"size": 9, "max_turns": 3})
    assert [each.turns for each in report.episodes] == [3, 3]


def test_programs_that_all_fail_end_the_evaluation(policy: PolicyAgent):
    agent = HarnessAgent(FunctionProgram(programs.fails), policy, "harness:fails")
    with pytest.raises(ProgramError, match="out of order"):
        evaluate("NumberLine-v0", agent, tasks=4, env_kwargs={"max_turns": 3})


def test_more_episodes_than_programs_can_play_at_once_are_refused(policy: PolicyAgent):
    agent = HarnessAgent(FunctionProgram(programs.chat), policy, "harness:chat")
    with pytest.raises(ConfigError, match="--num-envs 32"):
        evaluate("NumberLine-v0", agent, tasks=33, num_envs=33)


def test_a_program_on_the_command_line(policy: PolicyAgent, tmp_path: Path):
    policy.save(tmp_path / "policy")
    words = ["--agent", "random", "harness:tests.gateway.episodes:chat", "--episodes", "2"]
    words += ["--env-kwargs", "size=3", "max_turns=2", "--json", str(tmp_path / "table.json")]
    assert main(["eval", "NumberLine-v0", *words, "--model", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "table.json").read_text("utf-8"))
    found = rows if isinstance(rows, list) else rows["reports"]
    assert [row["agent"] for row in found] == ["random", "harness:tests.gateway.episodes:chat"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agent", "random", "--model", "runs/a"], "harness:COMMAND"),
        (["--agent", "harness:true"], "--model"),
        (["--agent", "harness:no-such-program", "--model", "nano"], "no-such-program"),
    ],
)
def test_a_program_and_its_model_need_each_other(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["eval", "NumberLine-v0", *words]) == 2
    assert message in capsys.readouterr().err
