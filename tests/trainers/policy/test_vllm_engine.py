"""Tests that need vLLM, which pins other releases than the project: `make test-vllm` runs them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer, train
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.request_state import Ending
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import grpo
from agentgym.trainers.rollout.ray_executor import Weights
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.run.setup import build_updater
from agentgym.trainers.run.workers import WorkerSetup
from agentgym.trainers.update.mismatch import staleness

from ...helpers.chat_models import chat_tokenizer
from ...helpers.launch import finish, launch

pytest.importorskip("vllm")
from agentgym.trainers.policy.vllm.engine import VLLMEngine
from agentgym.trainers.policy.vllm.server import COMMAND, VLLMServer

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

CANDIDATES = ["go", "go north", "go south", "take the red key", "look\ngo"]
KINDS = [None, CANDIDATES, ["go north"]]


def random_policy(kind: str = "qwen3", adapter: bool = False, **changes: Any) -> Policy:
    """Returns a policy of random weights, whose actions end with the line."""
    tokenizer = chat_tokenizer("base")
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,  # the smallest that vLLM supports on a CPU
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        **changes,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        if adapter:
            model = add_adapter(model, LoraSettings(rank=4, alpha=8.0))
        return Policy(model, tokenizer)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a vLLM server with other random weights."""
    folder = tmp_path_factory.mktemp("served")
    policy = random_policy()
    change_weights(policy, 99)
    policy.save(folder / "model")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = [word for word in COMMAND.split() if word != "\\"]
    start = flags.index("serve")
    flags[start : start + 2], flags[-1] = ["--model", str(folder / "model")], "8"
    variables = dict(word.split("=") for word in flags[: start - 1])
    variables |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    extra = f"--port {port} --dtype float32 --enforce-eager --kv-cache-memory-bytes 100000000"
    # The command `vllm` does not start in the package for CPUs.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    process = subprocess.Popen(
        [*command, *flags[start:], *extra.split()],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    printed = []
    try:
        for line in process.stdout:
            printed.append(line)
            if "Application startup complete" in line:
                break
        else:
            raise AssertionError("".join(printed)[-3000:])
        # A full pipe would stop the server.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        wait_for(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_for(process: subprocess.Popen[str], port: int) -> None:
    """Waits until a process listens, which it does after its message of a complete start."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            assert process.returncode is None, f"The server ended with code {process.returncode}."


@pytest.fixture(
    scope="module", params=["full", "adapter", "served full", "served adapter"], ids=str
)
def policy(request: pytest.FixtureRequest) -> Policy:
    """A policy with a vLLM engine, in this process or served."""
    policy = random_policy(adapter="adapter" in request.param)
    if "served" in request.param:
        policy.use(VLLMServer(policy, request.getfixturevalue("server")))
    else:
        policy.use(VLLMEngine(policy))
    return policy


def requests(policy: Policy, number: int, candidates: Any = None, text: str = "") -> list[Request]:
    prompt = np.array(policy.encode(f"{text}You are in a room.\n>"), np.int32)
    return [Request(prompt, np.random.default_rng(i), candidates) for i in range(number)]


def change_weights(policy: Policy, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            if weight.requires_grad and weight.dim() >= 2:
                noise = torch.randn(weight.shape, generator=generator)
                weight.mul_(0.8).add_(noise, alpha=0.04)  # their size stays the same


@pytest.fixture
def trained_logprobs(as_batch: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Returns a function that computes the log-probs of samples as training does."""

    def score(policy: Policy, asked: Sequence[Request], samples: Sequence[Sample], temperature=1.0):
        batch = as_batch([request.prompt for request in asked], samples)
        collated = collate(batch, segment_rows(batch), policy.pad_token, temperature)
        with torch.no_grad():
            scores = policy(collated)
        return scores.logprobs[torch.argsort(torch.as_tensor(collated.index))]

    return score


@pytest.mark.parametrize("candidates", KINDS)
@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(0.6), Sampling(top_k=3), Sampling(0.8, top_k=20, top_p=0.5)]
)
def test_log_probabilities_are_those_of_training(policy, trained_logprobs, candidates, sampling):
    change_weights(policy, 1)
    asked = requests(policy, 16, candidates)
    samples = policy.act(asked, sampling)
    found = np.concatenate([sample.logprobs for sample in samples])
    expected = trained_logprobs(policy, asked, samples, sampling.temperature).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("candidates", [None, CANDIDATES])
def test_three_updates_leave_nothing_of_the_old_weights(policy, trained_logprobs, candidates):
    """The prompts share a prefix of over 300 tokens, which vLLM keeps in its prefix cache."""
    prefix = "go north, go south; take the red key 17 times\n" * 20
    before = None
    for update in range(3):
        change_weights(policy, 10 + update)
        for text in ("", "The door is locked.\n"):
            asked = requests(policy, 4, candidates, prefix + text)
            assert len(asked[0].prompt) > 300
            samples = policy.act(asked, Sampling())
            found = np.concatenate([sample.logprobs for sample in samples])
            expected = trained_logprobs(policy, asked, samples).numpy()
            np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
        if before is not None:  # the weights of the last update would have been noticed
            old = np.concatenate([sample.logprobs for sample in before[1]])
            assert np.abs(trained_logprobs(policy, *before).numpy() - old).max() > 1e-2
        before = asked, samples


def test_a_free_action_ends_with_an_end_token_or_a_stop_string(policy):
    sampling = Sampling(max_new_tokens=24, stop=("o", "ke"))
    ending = Ending(policy, sampling.stop)
    samples = policy.act(requests(policy, 64), sampling)
    assert {sample.finished for sample in samples} == {False, True}
    for sample in samples:
        tokens = sample.tokens.tolist()
        reached = [ending.reached(tokens[: stop + 1]) for stop in range(len(tokens))]
        assert reached == [False] * (len(tokens) - 1) + [sample.finished]
        assert sample.finished or len(tokens) == sampling.max_new_tokens
        assert sample.text == ending.text(tokens)
        assert not any(string in sample.text for string in sampling.stop)
        assert sample.support is None and sample.logprobs.shape == sample.tokens.shape


def test_actions_are_sampled_with_their_probabilities(policy):
    """Among them one that contains the end token, after which it goes on."""
    samples = policy.act(requests(policy, 2000, CANDIDATES), Sampling())
    probability = {s.text: float(np.exp(s.logprobs.sum())) for s in samples}
    assert sum(probability.values()) == pytest.approx(1, abs=1e-4) and len(probability) == 5
    for sample in samples:
        assert sample.finished and sample.tokens.tolist() == policy.encode_action(sample.text)
    for text, p in probability.items():
        found = np.mean([sample.text == text for sample in samples])
        assert abs(found - p) < 4 * np.sqrt(p * (1 - p) / len(samples))


@pytest.mark.parametrize("candidates", KINDS)
def test_greedy_decoding_and_counters_are_those_of_the_own_engine(policy, candidates):
    own, sampling = policy.clone(), Sampling(temperature=0, max_new_tokens=12)
    for each in (policy, own):
        each.stats.reset()
    found = policy.act(requests(policy, 2, candidates), sampling)
    expected = own.act(requests(policy, 2, candidates), sampling)
    for a, b in zip(found, expected, strict=True):
        assert (a.text, a.finished, a.tokens.tolist()) == (b.text, b.finished, b.tokens.tolist())
        np.testing.assert_array_equal(a.logprobs, b.logprobs)
        np.testing.assert_array_equal(a.support.offsets, b.support.offsets)
        np.testing.assert_array_equal(a.support.ids, b.support.ids)
    for name in ("requests", "prompt_tokens", "new_tokens", "forced_tokens"):
        assert getattr(policy.stats, name) == getattr(own.stats, name)


@pytest.mark.parametrize("candidates", [None, CANDIDATES])
def test_the_gradient_of_a_sample_is_that_of_the_own_engine(
    policy, as_batch, trained_logprobs, candidates
):
    """The same tokens, with the log-probabilities of either engine, update the weights alike."""
    change_weights(policy, 5)
    asked = requests(policy, 16, candidates)
    samples = policy.act(asked, Sampling(max_new_tokens=12))
    expected = trained_logprobs(policy, asked, samples).numpy()
    ends = np.cumsum([len(sample.tokens) for sample in samples])[:-1]
    own = [replace(s, logprobs=x) for s, x in zip(samples, np.split(expected, ends), strict=True)]
    wrong = [replace(s, logprobs=s.logprobs - 0.1) for s in samples]
    prompts = [request.prompt for request in asked]
    steps = [update(policy, as_batch(prompts, each)) for each in (samples, own, wrong)]
    assert steps[0].abs().max() > 1e-3
    torch.testing.assert_close(steps[0], steps[1], atol=1e-6, rtol=1e-3)
    assert (steps[0] - steps[2]).abs().max() > 1e-4


def update(policy: Policy, batch: Batch) -> torch.Tensor:
    """Returns the changes of all weights in an update.

    The epsilon of Adam makes the steps about as long as the gradients.
    """
    options: dict[str, Any] = {"epochs": 1, "minibatches": 1, "adam_eps": 1.0, "lr": 1.0}
    config = grpo.Config.of(**options, max_grad_norm=1e9)
    learning = policy.clone(share_base=False)
    before = torch.cat([weight.detach().flatten().clone() for weight in learning.parameters()])
    updater = build_updater(Accelerator(cpu=True), config, learning, None, None)
    advantages = np.linspace(-1, 1, batch.num_tokens, dtype=np.float32)
    updater.update(batch, Credit(advantages), None, 0)
    return torch.cat([weight.detach().flatten() for weight in learning.parameters()]) - before


def test_a_sample_depends_on_its_generator_only(policy):
    together = policy.act(requests(policy, 6, None), Sampling())
    alone = [policy.act([each], Sampling())[0] for each in requests(policy, 6, None)]
    assert [s.tokens.tolist() for s in together] == [s.tokens.tolist() for s in alone]
    assert len({tuple(sample.tokens) for sample in together}) == 6


def test_weights_that_vllm_does_not_take_over_are_noticed(policy, monkeypatch):
    old = {name: weight.clone() for name, weight in policy.state_dict().items()}
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(20)
    with monkeypatch.context() as patch:
        for name in ("_load_weights", "_load_adapter"):
            patch.setattr(policy.engine, name, lambda *args: None)
        patch.setattr(policy.engine, "_syncs", 0)
        with pytest.raises(ConfigError, match=r"differ by up to \d+\.\d nats.*Qwen3ForCausalLM"):
            policy.act(requests(policy, 1), Sampling())
    policy.load_state_dict(old)


def test_requests_in_flight_go_on_with_the_new_weights(server: str):
    policy = random_policy()
    engine = VLLMServer(policy, server)
    policy.use(engine)
    change_weights(policy, 1)
    policy.act(requests(policy, 1), Sampling())
    old, prompt = policy.clone(), policy.encode("go north, go south")
    asked = {"max_tokens": 800, "ignore_eos": True, "logprobs": 0, "seed": 0}
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(engine._complete, [prompt], [asked])
        running = re.compile(r"^vllm:num_requests_running\{.*\} 1\.0$", re.MULTILINE)
        while not running.search(urllib.request.urlopen(f"{server}/metrics").read().decode()):
            assert not future.done()
        change_weights(policy, 2)
        policy.act(requests(policy, 1), Sampling())
        [steps] = future.result()
    tokens = [token for token, _ in steps]
    assert len(tokens) == 800
    ids = torch.tensor([[*prompt, *tokens]])
    found = torch.tensor([logprobs[token] for token, logprobs in steps])
    by_old, by_new = (by_weights(each, ids, found) for each in (old, policy))
    # Later tokens may have the probability of the old weights by chance.
    switch = int((~by_old).int().argmax())
    assert 0 < switch < 800 and by_new[switch:].all()


def by_weights(policy: Policy, ids: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Returns which of the last tokens have the log-probabilities of a policy."""
    with torch.no_grad():
        logits = policy.model(ids).logits[0, -len(found) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, ids[0, -len(found) :, None])[:, 0]
    return (found - expected).abs() < 1e-4


RUN: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 4}, "lr": 3e-3, "epochs": 1,
    "engine": "vllm", "check_logprobs": 1e-4, "max_new_tokens": 4, "episodes_per_iteration": 16,
    "group_size": 4, "eval_episodes": 4, "device": "cpu", "threads": 1, "quiet": True,
}  # fmt: skip


def launch_run(folder: Path, settings: dict[str, Any], processes: int) -> None:
    """Trains in new processes."""
    folder.mkdir(exist_ok=True)
    (folder / "settings.yaml").write_text(json.dumps({**settings, "run_dir": str(folder)}))
    command = ["-m", "agentgym.trainers", "grpo", "--config", str(folder / "settings.yaml")]
    finish(launch(command, processes))


def check_gaps(run: Path, iterations: int, bound: float = 1e-4) -> None:
    """Checks the largest difference of log-probabilities in each iteration of a run."""
    rows = read_metrics(run)
    gaps = [row["rollout/logprob_gap"] for row in rows if "rollout/logprob_gap" in row]
    assert len(gaps) == iterations and all(0 < gap < bound for gap in gaps)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny_policy("AgentGym/NumberLine-v0", folder=folder, episodes=8)
    return folder


def test_a_recipe_learns_as_with_the_own_engine(tmp_path: Path, model: Path):
    """The mean returns of the last iterations lie within 4 standard errors over four seeds.

    The reward is the share of the action "+" in the turns of an episode. It rises from 0.5.
    """
    changes = {"engine": "own", "check_logprobs": None}
    more: dict[str, Any] = {
        "constrain": True, "episodes_per_iteration": 32, "eval_episodes": 0, "iterations": 6,
        "context": "current", "instructions": False, "lr": 3e-4, "minibatches": 2,
    }  # fmt: skip
    first, last = (np.zeros((2, 4)) for _ in range(2))
    for engine, settings in enumerate((RUN, RUN | changes)):
        for seed in range(4):
            folder = tmp_path / f"{engine}-{seed}"
            train(
                "grpo", **settings | more, model=str(model), seed=seed, run_dir=str(folder),
                reward=lambda transition: float(transition.action == "+") / 4,
            )  # fmt: skip
            returns = [row["rollout/return"] for row in read_metrics(folder)]
            first[engine, seed], last[engine, seed] = returns[0], np.mean(returns[-3:])
    bound = 4 * np.sqrt(last.var(axis=1, ddof=1).sum() / 4)
    assert abs(last[0].mean() - last[1].mean()) < bound < 0.2
    assert min(last.mean(axis=1) - first.mean(axis=1)) > 0.2


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 5}, {"constrain": True}, {"constrain": True, "lora_rank": 4}],
)
def test_a_run_generates_with_the_weights_of_every_update(
    tmp_path: Path, model: Path, settings: dict[str, Any]
):
    train("grpo", **RUN, **settings, model=str(model), iterations=3, run_dir=str(tmp_path))
    check_gaps(tmp_path, 3)


def test_two_processes_generate_as_one(tmp_path: Path, model: Path):
    """Each process has an engine. A sample depends on its generator only, so returns are equal."""
    settings = RUN | {"model": str(model), "iterations": 2, "constrain": True, "eval_episodes": 0}
    train("grpo", **settings, run_dir=str(tmp_path / "one"))
    launch_run(tmp_path / "two", settings, processes=2)
    one, two = (read_metrics(tmp_path / name) for name in ("one", "two"))
    assert len(one) == 2
    for alone, shared in zip(one, two, strict=True):
        assert alone["rollout/return"] == shared["rollout/return"]


def test_a_rollout_worker_plays_a_turn_with_one_version(tmp_path: Path, model: Path):
    """Its vLLM takes over weights between two calls, so no turn has tokens of two versions."""
    few = {"engine": "own", "check_logprobs": None, "iterations": 0, "eval_episodes": 0}
    settings = RUN | few | {"model": str(model), "constrain": True, "run_dir": str(tmp_path)}
    trainer = make_trainer("grpo", **settings)
    trainer.run()
    config = trainer.config.with_changes(engine="vllm", rollout_workers=1)
    newer: list[Weights] = []  # taken over before the first and the second turn

    def take_over(_: int) -> None:
        if newer:
            assert isinstance(worker.policy, Policy)
            newer.pop(0).load_into(worker.policy)

    worker = WorkerSetup.of(config, None, None, trainer.policy)(take_over)
    policies = []
    for version in range(2):
        change_weights(trainer.policy, version)
        trainer.policy.version = version
        policies.append(trainer.policy.clone(share_base=False))
    newer += [Weights.of(policy, version) for version, policy in enumerate(policies)]
    batch = Batch.of([t for (t,) in worker.play(trainer.rollouts.episodes(0))])
    assert all(turn.token_versions is None for turn in batch.turns)
    versions = -staleness(batch, 0)
    assert set(versions.tolist()) == {0, 1}
    for version, policy in enumerate(policies):
        trainer.policy.load_own_weights(policy.own_weights())
        scored = trainer.updater.evaluate_actions(batch, reference=False).logprobs
        assert scored is not None
        same = versions == version
        np.testing.assert_allclose(batch.logprobs[same], scored[same], atol=1e-5)


def test_experts_are_taken_over(tmp_path: Path):
    """vLLM and `transformers` fuse the weights of experts in different ways.

    In a process of its own, because vLLM prepares for experts only with its first model.
    """
    sizes: dict[str, Any] = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }
    policy = random_policy("qwen3_moe", **sizes)
    change_weights(policy, 0)
    policy.save(tmp_path / "model")
    settings = RUN | {"model": str(tmp_path / "model"), "iterations": 2, "eval_episodes": 0}
    launch_run(tmp_path, settings, processes=1)
    check_gaps(tmp_path, 2, bound=1e-5)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_run_pushes_every_update_to_a_server(server: str, tmp_path: Path, lora_rank: int):
    random_policy().save(tmp_path / "model")
    train(
        "grpo", **RUN, engine_url=server, model=str(tmp_path / "model"), lora_rank=lora_rank,
        constrain=True, iterations=3, max_tokens=1000, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    check_gaps(tmp_path / "run", 3)
