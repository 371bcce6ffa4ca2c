"""A teacher on a server, which is a stand-in for vLLM with a model of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.agents import ChatError
from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.hooks.served_teacher import ServedTeacher
from agentgym.trainers.hooks.teacher import Teacher
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes.distill import Config
from agentgym.trainers.run.logger import read_metrics

from ...helpers.chat_server import JsonServer, running
from ...helpers.worlds import trajectory

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 3}, "model": "nano",
    "context": "full", "instructions": False, "max_new_tokens": 4, "max_tokens": 256,
    "eval_episodes": 0, "episodes_per_iteration": 4, "group_size": 2, "device": "cpu", "threads": 1,
    "quiet": True, "log_with": (), "transcripts": 0, "iterations": 1,
}  # fmt: skip


class Server(JsonServer):
    """Answers as vLLM does.

    Attributes:
        policy: the served model.
        room: its `max_model_len`.
        without: fields of a completion that are left out, as by other servers.
        requests: the paths and bodies of requests.
    """

    def __init__(self, policy: Policy):
        super().__init__()
        self.policy, self.room, self.without = policy, 4096, ""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.source = f"chat:teacher@{self.url}"

    @torch.no_grad()
    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert body["model"] == "teacher"
        self.requests.append((path, body))
        if path == "/tokenize":
            special = {"add_special_tokens": body["add_special_tokens"]}
            tokens = self.policy.tokenizer(body["prompt"], **special)["input_ids"]
            return {"count": len(tokens), "max_model_len": self.room, "tokens": tokens}
        assert path == "/v1/completions" and body["prompt_logprobs"] == 0
        tokens = body["prompt"]
        logprobs = self.policy.model(torch.tensor([tokens])).logits[0].float().log_softmax(-1)
        found = [
            {str(token): {"logprob": float(row[token]), "rank": 1, "decoded_token": "?"}}
            for token, row in zip(tokens[1:], logprobs, strict=False)
        ]
        choice = {"text": "", "prompt_logprobs": [None, *found]}
        choice.pop(self.without, None)
        return {"choices": [choice]}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """Another model with the tokenizer of the runs."""
    folder = str(tmp_path_factory.mktemp("runs") / "run")
    trainer = make_trainer("grpo", **FEW, run_dir=folder)
    policy = trainer.policy.clone()
    for part in (trainer.pool, trainer.log, trainer.folder):
        part.close()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return policy.eval()


@pytest.fixture
def server(teacher: Policy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running(Server(teacher)) as found:
        yield found


@pytest.mark.parametrize("sees", ["own", "hint:Go to the left."])
def test_a_served_teacher_scores_as_its_folder(
    server: Server, teacher: Policy, tmp_path: Path, sees: str
):
    teacher.save(tmp_path / "teacher")
    settings: dict[str, Any] = FEW | {"teacher": server.source, "teacher_sees": sees}
    trainer = make_trainer("distill", **settings, run_dir=str(tmp_path / "run"))
    batch = Batch.of(trainer.rollouts.collect(0))
    served = Teacher.of(trainer, server.source, sees).logprobs(batch)
    folder = Teacher.of(trainer, str(tmp_path / "teacher"), sees).logprobs(batch)
    assert served.shape == (batch.num_tokens,) and np.allclose(served, folder, atol=1e-4)
    assert np.abs(served - batch.logprobs).mean() > 1e-3
    trainer.run()
    assert read_metrics(tmp_path / "run")[-1]["credit/teacher_kl"] != 0
    asked = [body["prompt"] for path, body in server.requests if path != "/tokenize"]
    assert len(asked) == 2 * (1 + 4)  # a check, and one request an episode


def test_processes_share_the_requests(
    server: Server, teacher: Policy, monkeypatch: pytest.MonkeyPatch
):
    batch = Batch.of([trajectory([2], [0], padding=2) for _ in range(5)])
    expected = ServedTeacher(server.source, teacher, None).logprobs(batch)
    second: Any = SimpleNamespace(process_index=1, num_processes=2)
    served = ServedTeacher(server.source, teacher, None, second)

    def gather(mine: list[Any]) -> list[Any]:
        return [(None, [mine[0][1][0]] * 3), *mine]  # all segments are equal

    monkeypatch.setattr("agentgym.trainers.system.processes.gather_object", gather)
    server.requests.clear()
    assert np.array_equal(served.logprobs(batch), expected) and len(server.requests) == 2


def test_what_cannot_teach_is_refused(server: Server, teacher: Policy):
    server.room = 256
    with pytest.raises(ConfigError, match=r"reads 256 tokens .* --max-model-len 257"):
        ServedTeacher(server.source, teacher, 256)
    other = tiny_policy("TicTacToe-v0", seed=0, size="nano")
    with pytest.raises(ConfigError, match="another tokenizer than the policy"):
        ServedTeacher(server.source, other, None)
    server.without = "prompt_logprobs"
    with pytest.raises(ConfigError, match=r"did not reply as vLLM does.*vllm serve MODEL"):
        ServedTeacher(server.source, teacher, None)
    with pytest.raises(ConfigError, match="is written chat:MODEL@URL"):
        ServedTeacher("chat:teacher", teacher, None)


def test_a_reply_that_changes_later_is_explained(server: Server, teacher: Policy):
    served = ServedTeacher(server.source, teacher, None)
    server.without = "prompt_logprobs"
    with pytest.raises(ChatError, match="did not reply as vLLM does to"):
        served.logprobs(Batch.of([trajectory([2], [0], padding=2)]))


@pytest.mark.parametrize(
    "changes", [{"constrain": True}, {"temperature": 0.7}, {"top_k": 4}, {"top_p": 0.9}]
)
def test_the_policy_samples_as_a_server_scores(changes: dict[str, Any]):
    source = "chat:teacher@http://localhost:8000/v1"
    assert Config.of(teacher=source, teacher_sees="own").teacher == source
    [(name, value)] = changes.items()
    with pytest.raises(ConfigError, match=rf"supports {name} = .* only, got {value}"):
        Config.of(teacher=source, teacher_sees="own", **changes)
