from __future__ import annotations

import socket
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.trainers import train
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.engine import OwnEngine
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy.vllm.engine import VLLMEngine
from agentgym.trainers.policy.vllm.server import ServerError, VLLMServer
from agentgym.trainers.recipes import load
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.updater import Updater


class Recorder:
    """An engine that records its calls and leaves generation to the policy's own."""

    def __init__(self, policy):
        self.own, self.calls = OwnEngine(policy), []

    def session(self, **prompts):
        return self.own.session(**prompts)

    def sync(self, policy):
        self.calls.append("sync")

    def sleep(self):
        self.calls.append("sleep")

    def generate(self, requests, sampling, session=None):
        self.calls.append("generate" if session is None else "generate in a session")
        return self.own.generate(requests, sampling, session)


def spy(function, before):
    def called(*args, **kwargs):
        before()
        return function(*args, **kwargs)

    return called


def requests():
    prompt = np.arange(5, 25, dtype=np.int32)
    return [Request(prompt, np.random.default_rng(i), slot=i) for i in range(3)]


def test_an_engine_is_synced_once_after_each_change_of_the_weights(make_policy):
    policy = make_policy()
    expected = policy.act(requests(), Sampling())
    engine = Recorder(policy)
    policy.use(engine)
    found = policy.act(requests(), Sampling())
    assert [s.tokens.tolist() for s in found] == [s.tokens.tolist() for s in expected]
    policy.act(requests(), Sampling(), policy.session())
    assert engine.calls == ["sync", "generate", "generate in a session"]
    engine.calls.clear()
    for _ in range(2):
        with torch.no_grad():
            next(policy.parameters()).add_(0.1)
        policy.act(requests(), Sampling())
        policy.act(requests(), Sampling())
    assert engine.calls == ["sync", "generate", "generate"] * 2
    policy.use(None)
    policy.act(requests(), Sampling())
    assert len(engine.calls) == 6


def test_samples_of_any_engine_have_the_version_of_the_weights(make_policy, monkeypatch):
    policy = make_policy()
    [sample] = policy.act(requests()[:1], Sampling(max_new_tokens=2))
    engine = Recorder(policy)
    unversioned = [replace(sample, version=None)]  # as of an engine of one's own
    monkeypatch.setattr(engine, "generate", lambda *_: unversioned)
    for version in (3, 4):
        policy.version = version
        [own] = policy.act(requests()[:1], Sampling(max_new_tokens=2))
        policy.use(engine)
        [other] = policy.act(requests()[:1], Sampling())
        policy.use(None)
        assert own.version == other.version == version


def test_a_copy_generates_with_its_own_weights(make_policy):
    policy = make_policy()
    policy.use(Recorder(policy))
    copied = policy.clone()
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert isinstance(copied.engine, OwnEngine)
    [sample] = copied.act(requests()[:1], Sampling(max_new_tokens=1))
    uniform = -np.log(copied.model.config.vocab_size)
    assert abs(sample.logprobs[0] - uniform) < 1e-4


def test_a_steered_policy_generates_with_its_own_engine_only(make_policy):
    policy = make_policy()
    policy.use(Recorder(policy))
    policy.steer(torch.nn.Identity())
    with pytest.raises(ConfigError, match=r"Recorder.*is steered"):
        policy.act(requests(), Sampling())
    policy.steer(None)
    assert len(policy.act(requests(), Sampling())) == 3


@pytest.mark.parametrize("setting", [{"top_p": 0.9}, {"normalization": "token", "constrain": True}])
def test_settings_that_vllm_cannot_follow_are_refused(setting):
    TrainConfig.of(**setting)
    with pytest.raises(ConfigError, match="set engine to 'own'"):
        TrainConfig.of(engine="vllm", **setting)
    with pytest.raises(ConfigError, match="has no engine"):
        load("ilql").Config.of(engine="vllm")
    assert TrainConfig.of(engine="vllm", top_k=50, top_p=0.9).rollout.top_k == 50


def test_an_address_is_that_of_a_vllm_server(make_policy):
    with pytest.raises(ConfigError, match="engine_url belongs to engine vllm: set engine to vllm"):
        TrainConfig.of(engine_url="http://localhost:8000")
    with pytest.raises(ConfigError, match="got 'localhost:8000'"):
        VLLMServer(make_policy(), "localhost:8000")
    with pytest.raises(ConfigError, match="engine_url must be such as"):
        VLLMServer(make_policy(), "http://localhost:port")
    with pytest.raises(ConfigError, match=r"refused(.|\n)*vllm serve MODEL"):
        VLLMServer(make_policy(), "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "reply", ['{"data": [{"id": "model"}]}', "<html>", "{", '{"data": 3}', "é"]
)
def test_a_server_of_another_kind_is_refused(make_policy, reply):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(reply.encode("latin-1"))

        def log_message(self, format, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(ConfigError, match=r"cannot be used(.|\n)*vllm serve MODEL"):
            VLLMServer(make_policy(), f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_server_that_goes_away_is_named(make_policy, monkeypatch):
    monkeypatch.setattr(VLLMServer, "_check", lambda self, length: None)
    engine = VLLMServer(make_policy(), "http://127.0.0.1:9")
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9 .*GET /is_paused.*refused"):
        engine._call("GET", "/is_paused")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        engine = VLLMServer(make_policy(), f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ServerError, match="no usable answer"):
            engine._call("GET", "/is_paused")


def test_a_gpu_is_freed_on_a_gpu_only(make_policy):
    with pytest.raises(ConfigError, match="the device is a CPU"):
        VLLMEngine(make_policy(), sleep=True)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("grpo", {"group_size": 2}),
        ("vine", {"continuations": 1}),  # plays once more to assign credit
        ("aepo", {"group_size": 2}),  # a pass of its own, and branches before the forward pass
        ("archer", {"replayed": 4, "critic_steps": 2, "critic_warmup": 0}),  # acts again
    ],
)
def test_an_engine_sleeps_before_every_pass_of_training(
    recipe: str, changes: dict, tmp_path: Path, monkeypatch
):
    calls = []
    for owner, name in (
        *((OwnEngine, each) for each in ("sleep", "generate", "serve")),
        *((Updater, each) for each in ("evaluate_actions", "update")),
    ):
        record = partial(calls.append, name)
        monkeypatch.setattr(owner, name, spy(getattr(owner, name), record))
    train(
        recipe, env_id="NumberLine-v0", env_kwargs={"size": 4, "max_turns": 2}, model="nano",
        context="current", max_new_tokens=2, episodes_per_iteration=2, iterations=2, kl_coef=0.1,
        eval_episodes=0, bc_demonstrations=0, device="cpu", threads=1, quiet=True,
        run_dir=str(tmp_path), **changes,
    )  # fmt: skip
    awake = True
    for call in calls:
        assert not (awake and call in ("evaluate_actions", "update")), calls
        awake = call in ("generate", "serve") or (awake and call != "sleep")
    assert calls.count("update") == 2 <= calls.count("evaluate_actions")


def test_vllm_is_an_extra(make_policy, monkeypatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "vllm", None)
    message = r"needs the package 'vllm'.*agentgym-suite\[vllm\]"
    with pytest.raises(MissingExtraError, match=message):
        VLLMEngine(make_policy())
    with pytest.raises(MissingExtraError, match=message):
        train("grpo", model="nano", group_size=2, engine="vllm", run_dir=str(tmp_path), quiet=True)


LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0] * 4,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize("changes", [{}, {"rope_parameters": LONG_ROPE}])
def test_acting_leaves_no_tensor_that_training_cannot_use(make_policy, as_batch, changes):
    policy = make_policy("llama", **changes)
    assert policy.inference_mode == (not changes)
    modes: list[bool] = []
    policy.model.register_forward_pre_hook(
        lambda *_: modes.append(torch.is_inference_mode_enabled())
    )
    prompts = [request.prompt for request in requests()]
    batch = as_batch(prompts, policy.act(requests(), Sampling()))
    assert set(modes) == {policy.inference_mode}
    assert not any(tensor.is_inference() for tensor in policy.model.buffers())
    scores = policy(collate(batch, segment_rows(batch), policy.pad_token))
    scores.logprobs.sum().backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


def test_no_context_changes_how_a_model_encodes_positions(make_policy):
    changes = {"original_max_position_embeddings": 64, "rope_parameters": LONG_ROPE}
    policy = make_policy("phi3", **changes)
    prompt = np.arange(7, 7 + 60, dtype=np.int32)
    with pytest.raises(ValueError, match="maximum length of 64 tokens"):
        policy.act([Request(prompt, np.random.default_rng(0))], Sampling(max_new_tokens=5))
    assert make_policy("phi3").max_length == 512
