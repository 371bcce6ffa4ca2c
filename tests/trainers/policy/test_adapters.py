"""Adapters: the layers that they change, and those that were made elsewhere."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from agentgym.errors import CheckpointError, ConfigError
from agentgym.trainers.policy.adapters import add_adapter, reference_adapter
from agentgym.trainers.policy.empty_model import empty_model
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.roles import load_sibling
from agentgym.trainers.run.setup import load_dtype
from agentgym.trainers.settings import ModelConfig
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.optimizer import hidden_matrices

from ...helpers.architectures import small_model

TOKENS = torch.arange(2, 12)[None]
ATTENTION = ["q_proj", "v_proj"]


@torch.no_grad()
def logits(policy: Policy) -> torch.Tensor:
    return outputs(policy.model)


def outputs(model: Any) -> torch.Tensor:
    return model(input_ids=TOKENS, use_cache=False).logits


@torch.no_grad()
def move(model: torch.nn.Module, seed: int = 0) -> None:
    """Adds noise to all trained weights."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


@pytest.fixture
def base(make_policy, tmp_path) -> Path:
    """A folder with a model without an adapter."""
    make_policy("qwen2").save(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def made(base, tmp_path):
    """Makes a folder with an adapter of this project, and returns it."""

    def make(name: str, seed: int = 0, alpha: float = 16.0) -> Path:
        policy = Policy.load(base, lora=LoraSettings(rank=2, alpha=alpha))
        move(policy, seed)
        policy.save(tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture
def made_elsewhere(base, tokenizer, tmp_path):
    """Makes a folder with an adapter of `peft`, and returns it."""

    def make(settings: Any) -> Path:
        policy = Policy.load(base)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model: Any = peft.get_peft_model(policy.model, copy.deepcopy(settings))
            move(model)
        model.save_pretrained(str(tmp_path / "elsewhere"))
        return tmp_path / "elsewhere"

    return make


# Layers.


@pytest.mark.parametrize("kind", ["falcon_mamba", "jamba", "mamba", "zamba2"])
def test_every_default_layer_learns_and_can_be_merged(kind):
    """`transformers` reads weights of layers itself, and Zamba2 ties layers."""
    adapted = add_adapter(small_model(kind), LoraSettings(rank=2)).eval()
    move(adapted)
    expected = outputs(adapted)
    expected.square().mean().backward()
    for name, parameter in adapted.named_parameters():
        assert not parameter.requires_grad or (
            parameter.grad is not None and parameter.grad.any()
        ), name
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(outputs(merged), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "target"), [("jamba", "dt_proj"), ("jamba", "conv1d"), ("zamba2", "q_proj")]
)
def test_layers_that_cannot_have_an_adapter_are_refused_by_name(kind, target):
    with pytest.raises(ConfigError, match=rf"--lora-targets: '{target}' cannot.*Leave it out"):
        add_adapter(small_model(kind), LoraSettings(targets=(target, "in_proj")))


def test_a_name_of_weights_is_no_layer(make_model):
    with pytest.raises(ConfigError, match="'weight' was not found"):
        add_adapter(make_model(), LoraSettings(targets=("q_proj", "weight")))


def test_muon_leaves_adapters_of_embeddings_and_head_alone(make_model, tokenizer):
    targets = ("embed_tokens", "lm_head", "q_proj")
    model = add_adapter(make_model(tie_word_embeddings=False), LoraSettings(2, targets=targets))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    hidden = hidden_matrices(Policy(model, tokenizer), trained.values())
    names = [name for number, name in enumerate(trained) if number in hidden]
    assert names == [name for name in trained if "q_proj" in name] != []


# Settings.


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"rank": -1}, "rank .* at least 1, got -1"),
        ({"rank": 2.5}, r"rank .* got 2\.5"),
        ({"alpha": 0.0}, r"alpha .* above 0, got 0\.0"),
        ({"alpha": -1.0}, r"alpha .* above 0, got -1\.0"),
        ({"alpha": float("nan")}, "alpha .* got nan"),
        ({"targets": ()}, "targets .* None"),
        ({"targets": "q_proj"}, r"targets .* \('q_proj',\)"),
    ],
)
def test_settings_that_train_nothing_are_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        LoraSettings(**settings)


def test_a_rank_beyond_all_memory_is_named(make_model):
    with pytest.raises(ConfigError, match=r"rank 1000000000000000\b.*memory"):
        add_adapter(make_model(), LoraSettings(rank=10**15))


def test_an_adapter_in_float16_may_be_trained_on(made):
    folder = made("adapter")
    assert TrainConfig.of(model=str(folder), dtype="float16").model.dtype == "float16"
    with pytest.raises(ConfigError, match="float16 weights underflow"):
        TrainConfig.of(model=str(folder.parent / "base"), dtype="float16")


def test_the_base_of_adapters_by_role_is_loaded_in_half_precision(made):
    for folder in (made("adapter"), made("team/roles/player_0").parents[1]):
        settings = ModelConfig(str(folder), dtype="float32", mixed_precision="bf16")
        assert load_dtype(settings, None) == "bfloat16"


# Folders.


def test_an_adapter_that_names_no_base(made):
    folder = made("adapter")
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": None}))
    for open_it in (Policy.load, lambda name: empty_model(str(name), None, "float32")):
        with pytest.raises(ConfigError, match=r"no base model.*base_model_name_or_path"):
            open_it(folder)


def test_a_base_that_is_an_adapter_itself(made):
    first, second = made("first"), made("second")
    file = second / "adapter_config.json"
    changed = json.loads(file.read_text()) | {"base_model_name_or_path": str(first)}
    file.write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match=r"holds no whole model"):
        Policy.load(second)


def test_an_adapter_without_its_weights(made):
    folder = made("adapter")
    whole = Policy.load(folder)
    (folder / "adapter_model.safetensors").unlink()
    for open_it in (Policy.load, whole.load_reference, lambda f: load_sibling(whole, f)):
        with pytest.raises(
            ConfigError, match=r"Cannot open.*adapter_model\.safetensors is missing"
        ):
            open_it(folder)
        (folder / "adapter_model.safetensors").write_bytes(b"damaged")
        with pytest.raises(ConfigError, match="Cannot open the adapter"):
            open_it(folder)
        (folder / "adapter_model.safetensors").unlink()


def test_a_checkpoint_is_answered_with_its_policy(made, tmp_path):
    made("000001/policy")
    with pytest.raises(ConfigError, match=f"Its model is in {tmp_path / '000001' / 'policy'}"):
        Policy.load(tmp_path / "000001")


def test_a_run_that_was_killed_is_answered_with_its_latest_policy(made, tmp_path):
    folders = [made(f"run/checkpoints/{number:06d}/policy") for number in (1, 2)]
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"Its model is in {folders[1]}"):
        Policy.load(tmp_path / "run")


def test_roles_with_other_scales_are_refused(made):
    first, second = made("first", alpha=8.0), made("second", seed=1, alpha=32.0)
    policy = Policy.load(first)
    assert torch.equal(logits(load_sibling(policy, first)), logits(policy))
    with pytest.raises(ConfigError, match=r"lora_alpha = 32\.0.*8\.0"):
        load_sibling(policy, second)


# Adapters from elsewhere.

KINDS: dict[str, Any] = {
    "bias": peft.LoraConfig(r=2, target_modules=ATTENTION, bias="all"),
    "lora_only": peft.LoraConfig(r=2, target_modules=ATTENTION, bias="lora_only"),
    "tokens": peft.LoraConfig(r=2, target_modules=ATTENTION, trainable_token_indices=[3, 5]),
    "saved": peft.LoraConfig(r=2, target_modules=ATTENTION, modules_to_save=["norm"]),
    "dora": peft.LoraConfig(r=2, target_modules=ATTENTION, use_dora=True),
    "ia3": peft.IA3Config(
        target_modules=["v_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "loha": peft.LoHaConfig(r=2, target_modules=ATTENTION),
    "vera": peft.VeraConfig(r=2, target_modules=["q_proj"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_does_not_change_with_the_policy(made_elsewhere, kind):
    policy = Policy.load(made_elsewhere(KINDS[kind]))
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert trained <= policy.own_weights().keys()
    copies = policy.clone(), policy.frozen_copy()
    before = logits(policy)
    move(policy, seed=1)
    assert not torch.allclose(logits(policy), before)
    for each in copies:
        assert torch.equal(logits(each), before)
        each.load_own_weights(policy.own_weights())
        assert torch.equal(logits(each), logits(policy))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("bias", "lora_only")])
def test_the_reference_is_the_policy_that_was_frozen(made_elsewhere, kind):
    policy = Policy.load(made_elsewhere(KINDS[kind]))
    before = logits(policy)
    policy.freeze_reference()
    move(policy, seed=1)
    with reference_adapter(policy.model):
        assert torch.equal(logits(policy), before)


@pytest.mark.filterwarnings("ignore:PiSSA")
def test_a_reference_leaves_the_base_alone(made_elsewhere):
    """The initialisation of PiSSA takes the adapter out of the base, at every loading."""
    settings = peft.LoraConfig(r=2, target_modules=ATTENTION, init_lora_weights="pissa")
    folder = made_elsewhere(settings)
    policy = Policy.load(folder)
    before = logits(policy)
    policy.load_reference(folder)
    torch.testing.assert_close(logits(policy), before)
    with reference_adapter(policy.model):
        torch.testing.assert_close(logits(policy), before)


def test_the_tokenizer_of_an_adapter_comes_first(made_elsewhere, base):
    """It has the chat template that the adapter learned, and the base may have none."""
    folder = made_elsewhere(KINDS["dora"])
    assert Policy.load(folder).tokenizer.chat_template is None
    tokenizer = Policy.load(base).tokenizer
    tokenizer.chat_template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    tokenizer.save_pretrained(str(folder))
    assert Policy.load(folder).tokenizer.chat_template == tokenizer.chat_template
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="no tokenizer that can be used"):
        Policy.load(folder)


@pytest.mark.parametrize("kind", ["tokens", "ia3", "loha", "vera", "lora_only"])
def test_every_weight_of_an_adapter_must_be_in_its_file(made_elsewhere, kind):
    folder = made_elsewhere(KINDS[kind])
    weights = load_file(folder / "adapter_model.safetensors")
    Policy.load(folder)
    last = sorted(weights)[-1]
    save_file({k: v for k, v in weights.items() if k != last}, folder / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match="1 weights are missing"):
        Policy.load(folder)
