"""Faults that published models have, and models of our own making do not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.errors import BaseModelError, CheckpointError, ConfigError, LogitsError
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.gradient_checkpointing import layers_to_checkpoint
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.system import checkpoint

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = {**SMALL, "intermediate_size": 48, "max_position_embeddings": 256, "head_dim": 8}
MOE = {**LLAMA, "num_key_value_heads": 2, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
KINDS: dict[str, dict[str, Any]] = {
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 16,
        "max_position_embeddings": 256,
    },
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    "zamba2": {
        **LLAMA,
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "hybrid_layer_ids": [1, 3],
        "num_mem_blocks": 1,
        "mamba_headdim": 16,
        "n_mamba_heads": 4,
        "mamba_d_state": 8,
        "chunk_size": 16,
    },
    "opt": {**SMALL, "word_embed_proj_dim": 32, "ffn_dim": 48},
    "mixtral": {**LLAMA, "num_key_value_heads": 2, "num_local_experts": 4},
    "qwen3_moe": {**MOE, "num_experts": 4},
    "olmoe": {**MOE, "num_experts": 4},
    "gpt_oss": {**LLAMA, "num_key_value_heads": 2, "num_local_experts": 4},
    "mamba": MAMBA,
    "falcon_mamba": MAMBA,
    "bert": {**SMALL, "intermediate_size": 48},
}


SLOW = pytest.mark.filterwarnings("ignore:.*over its whole context")


@pytest.fixture(scope="session")
def build(tokenizer):
    """Returns `make(kind, **config)`: a random model with large weights."""

    def make(kind: str, **changes: Any) -> Any:
        common = {"vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 1}
        settings = {**common, "pad_token_id": 0, **KINDS[kind], **changes}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings))
            for parameter in model.parameters():
                if parameter.dim() >= 2:
                    parameter.data.normal_(0, min(parameter.shape[-2:]) ** -0.5)
        return model.eval()

    return make


def act(policy: Policy, lengths=(3, 20, 33, 47), **sampling: Any) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in lengths]
    requests = [Request(p, np.random.default_rng(i), slot=i) for i, p in enumerate(prompts)]
    return prompts, policy.act(
        requests, Sampling(**{"max_new_tokens": 5, **sampling}), policy.session()
    )


def distance(policy: Policy, prompts: list[Any], samples: list[Any]) -> float:
    """Largest difference of sampled log-probs from those of a plain forward pass."""
    worst = 0.0
    for prompt, sample in zip(prompts, samples, strict=True):
        ids = torch.from_numpy(np.concatenate([prompt, sample.tokens]).astype(np.int64))[None]
        with torch.no_grad():
            logits = policy.model(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
        at = torch.arange(len(prompt) - 1, ids.shape[1] - 1)
        plain = logits[at, ids[0, len(prompt) :]].numpy()
        worst = max(worst, float(np.abs(plain - sample.logprobs).max()))
    return worst


# Tokenizers with more tokens than the model has embeddings.


def test_an_unused_token_without_an_embedding_is_no_obstacle(
    make_model, tokenizer, tmp_path, as_batch
):
    # The last token, and a pad token that has no embedding as in Llama with an added one.
    make_model(vocab_size=len(tokenizer) - 2).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    policy = Policy.load(tmp_path)
    policy.tokenizer.pad_token = policy.tokenizer.convert_ids_to_tokens(len(tokenizer) - 1)
    policy = Policy(policy.model, policy.tokenizer)
    assert policy.pad_token == policy.end_token
    prompts, samples = act(policy)
    assert distance(policy, prompts, samples) < 1e-5
    batch = as_batch(prompts, samples)
    policy(collate(batch, segment_rows(batch), policy.pad_token)).logprobs.sum().backward()


@pytest.mark.parametrize("place", ["prompt", "training"])
def test_a_token_without_an_embedding_is_named_where_it_is_fed(
    make_model, tokenizer, as_batch, place
):
    policy = Policy(make_model(vocab_size=len(tokenizer) - 1), tokenizer)
    last = len(tokenizer) - 1
    prompts = [np.array([5, last, 7], np.int32)]

    def feed() -> None:
        if place == "prompt":
            policy.act([Request(prompts[0], np.random.default_rng(0))], Sampling())
        batch = as_batch(prompts, act(policy, (3,))[1])
        policy(collate(batch, segment_rows(batch), policy.pad_token))

    with pytest.raises(ConfigError, match=rf"id {last}\) has no embedding"):
        feed()


# Layers, masks and caches.


@SLOW
@pytest.mark.parametrize("kind", ["zamba2", "opt", "gpt_neo", "rwkv"])
def test_gradients_with_checkpointing_are_those_of_a_plain_backward_pass(
    build, tokenizer, as_batch, kind
):
    policy = Policy(build(kind), tokenizer)
    prompts, samples = act(policy)
    batch = as_batch(prompts, samples)
    collated = collate(batch, segment_rows(batch), policy.pad_token)

    def gradients() -> dict[str, torch.Tensor]:
        policy.zero_grad()
        (policy(collated).logprobs ** 2).sum().backward()
        return {n: p.grad.clone() for n, p in policy.named_parameters() if p.grad is not None}

    plain = gradients()
    policy.checkpoint_layers()
    found = gradients()
    assert found.keys() == plain.keys()
    for name, gradient in plain.items():
        difference = (found[name] - gradient).norm() / gradient.norm().clamp(min=1e-12)
        assert difference < 1e-6, name


def test_layers_inside_checkpointed_layers_are_not_checkpointed_themselves(build):
    layers = layers_to_checkpoint(build("zamba2"))
    inside = {id(m) for layer in layers for m in layer.modules() if m is not layer}
    assert layers and not inside & {id(layer) for layer in layers}


@SLOW
@pytest.mark.parametrize("kind", ["gpt_neo", "rwkv"])
def test_sampling_follows_a_plain_forward_pass(build, tokenizer, kind):
    policy = Policy(build(kind), tokenizer)
    assert distance(policy, *act(policy)) < 1e-5


def test_windows_that_a_model_counts_itself_share_no_cache(build, make_policy, tokenizer):
    assert not Policy(build("gpt_neo"), tokenizer).blocks
    assert make_policy("llama").blocks


def test_an_unknown_cache_is_not_used_and_a_warning_says_so(build, tokenizer):
    with pytest.warns(UserWarning, match="over its whole context"):
        policy = Policy(build("rwkv"), tokenizer)
    assert policy.cache_name == ""


def test_a_cache_in_the_modules_of_a_model_is_not_used(make_model, tokenizer):
    model = make_model()
    kept: list[torch.Tensor] = []

    class Stateful(type(model)):
        def forward(self, input_ids, past_key_values=None, use_cache=False, **inputs):
            before = kept.pop() if kept and use_cache else input_ids[:, :0]
            ids = torch.cat([before, input_ids], 1)  # a state that all sequences share
            if use_cache:
                kept.append(ids)
            output = super().forward(input_ids=ids, use_cache=False)
            output.logits = output.logits[:, -input_ids.shape[1] :]
            return output

    model.__class__ = Stateful
    with pytest.warns(UserWarning, match="over its whole context"):
        policy = Policy(model, tokenizer)
    assert distance(policy, *act(policy)) < 1e-5


def test_models_that_attend_to_later_tokens_are_refused(build, tokenizer):
    with pytest.raises(ConfigError, match="is_decoder"):
        Policy(build("bert"), tokenizer)
    Policy(build("bert", is_decoder=True), tokenizer)


@pytest.mark.parametrize("kind", ["qwen3_moe", "mixtral", "olmoe", "gpt_oss"])
def test_outputs_beside_the_logits_are_turned_off(build, tokenizer, as_batch, kind):
    extra = dict.fromkeys(["output_router_logits", "output_hidden_states", "use_cache"], True)
    model = build(kind, **extra, return_dict=False)
    policy = Policy(model, tokenizer)
    assert not model.config.output_router_logits
    prompts, samples = act(policy)
    assert distance(policy, prompts, samples) < 1e-4
    batch = as_batch(prompts, samples)
    policy(collate(batch, segment_rows(batch), policy.pad_token)).logprobs.sum().backward()


def test_dropout_in_a_part_of_a_configuration_is_turned_off(tokenizer, tmp_path):
    from agentgym.trainers.policy.model_config import without_dropout

    config = AutoConfig.for_model("gemma3", text_config={"attention_dropout": 0.3})
    without_dropout(config)
    assert config.text_config.attention_dropout == 0


# Files.


def renamed(folder: Path, rename) -> None:
    file = folder / "model.safetensors"
    weights = {rename(name): tensor for name, tensor in load_file(file).items()}
    save_file({k: v for k, v in weights.items() if k}, file, metadata={"format": "pt"})


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_prefixes_of_wrappers_are_stripped(make_policy, tmp_path, prefix):
    policy = make_policy()
    policy.save(tmp_path / "model")
    renamed(tmp_path / "model", lambda name: prefix + name)
    loaded = Policy.load(tmp_path / "model")
    for name, weight in policy.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight)
    loaded.save(tmp_path / "again")  # under the usual names
    assert not any("_orig_mod" in k for k in load_file(tmp_path / "again" / "model.safetensors"))


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"wrapper.{name}",
        lambda name: name if name != "lm_head.weight" else "",
        lambda name: name if "layers.1." not in name else "",
    ],
    ids=["prefix", "head", "layer"],
)
def test_missing_weights_are_refused_by_name(make_policy, tmp_path, rename):
    policy = make_policy(tie_word_embeddings=False)
    policy.save(tmp_path)
    before = load_file(tmp_path / "model.safetensors").keys()
    renamed(tmp_path, rename)
    missing = sorted(before - load_file(tmp_path / "model.safetensors").keys())
    with pytest.raises(ConfigError, match=f"missing.*{re.escape(missing[0])}"):
        Policy.load(tmp_path)


@pytest.fixture
def adapter(make_policy, tmp_path, monkeypatch) -> Path:
    """A folder with a model and an adapter that was trained from a relative path."""
    make_policy().save(tmp_path / "here" / "model")
    monkeypatch.chdir(tmp_path / "here")
    Policy.load("model", lora=LoraSettings(rank=2)).save("runs/a/policy")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here" / "runs" / "a" / "policy"


@pytest.mark.parametrize("half", ["missing", "unknown"])
def test_an_adapter_with_other_weights_is_refused(adapter, half):
    file = adapter / "adapter_model.safetensors"
    weights = load_file(file)
    if half == "missing":
        weights = dict(list(weights.items())[::2])
    else:
        name, tensor = next(iter(weights.items()))
        weights[name.replace("layers.0", "layers.7")] = tensor.clone()
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"weights are {half}"):
        Policy.load(adapter)
    sibling = Policy.load(adapter.parents[2] / "model", lora=LoraSettings(rank=2))
    with pytest.raises(CheckpointError, match=rf"weights are {half}"):
        sibling.load_reference(adapter)


def test_the_base_of_an_adapter_does_not_depend_on_the_working_directory(adapter, tmp_path):
    assert Policy.load(adapter).has_adapter
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert Path(config["base_model_name_or_path"]).is_absolute()
    (tmp_path / "here").rename(tmp_path / "there")  # moved together
    moved = tmp_path / "there" / "runs" / "a" / "policy"
    with pytest.warns(UserWarning, match=f"gone.*in {tmp_path / 'there' / 'model'} is used"):
        assert Policy.load(moved).has_adapter
    config["base_model_name_or_path"] = "model"  # as older runs have it
    (moved / "adapter_config.json").write_text(json.dumps(config))
    assert Policy.load(moved).has_adapter


def test_a_missing_base_is_no_damage_of_the_adapter(adapter, tmp_path):
    (tmp_path / "here" / "model").rename(tmp_path / "elsewhere")
    saved = tmp_path / "run" / "checkpoints" / "000002" / "policy"
    saved.parent.mkdir(parents=True)
    adapter.rename(saved)
    (tmp_path / "run" / "checkpoints" / "000001").mkdir()
    (tmp_path / "run" / "checkpoints" / "000001" / "state.json").write_text("{}")
    with pytest.raises(BaseModelError, match="intact") as error, checkpoint.loading(saved):
        Policy.load(saved)
    assert "delete" not in str(error.value)


# Numbers.


@pytest.mark.parametrize("weight", [torch.nan, torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "options",
    [{}, {"top_k": 5}, {"top_p": 0.9}, {"normalization": "sum"}],
    ids=["plain", "top_k", "top_p", "whole"],
)
@pytest.mark.parametrize("candidates", [None, ("go north", "go south", "wait")])
def test_logits_that_are_not_finite_are_never_sampled_from(
    make_policy, weight, temperature, options, candidates
):
    policy = make_policy()
    policy.model.model.layers[0].mlp.up_proj.weight.data[3, 4] = weight
    request = Request(np.array([5, 6, 7], np.int32), np.random.default_rng(0), candidates)
    with pytest.raises(LogitsError, match="logits are not finite"):
        policy.act([request], Sampling(temperature=temperature, **options))


def test_overflow_of_float16_is_named(make_policy):
    policy = make_policy(torch_dtype="float16").to(torch.float16)
    policy.model.model.embed_tokens.weight.data *= 6e4
    policy.model.model.layers[0].mlp.down_proj.weight.data *= 6e4
    with pytest.raises(LogitsError, match="bfloat16"):
        act(policy, temperature=0.0)


# Adapters.


@pytest.mark.parametrize(
    "kind", ["mixtral", "qwen3_moe", "mamba", "falcon_mamba", "zamba2", "rwkv"]
)
def test_default_targets_reach_most_layers(build, recwarn, kind):
    adapted = add_adapter(build(kind), LoraSettings(rank=2))
    names = [name for name, _ in adapted.named_parameters() if "lora_A" in name]
    layers = {match[1] for name in names if (match := re.search(r"\.(\d+)\.", name))}
    assert len(layers) == adapted.config.num_hidden_layers
    assert not any("router" in name or ".gate." in name for name in names)
    assert not [w for w in recwarn if "LoRA" in str(w.message)]


def test_default_targets_are_all_linear_layers_by_their_short_names(make_policy):
    adapted = add_adapter(make_policy().model, LoraSettings(rank=2))
    attention, mlp = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
    assert set(adapted.peft_config["default"].target_modules) == {*attention, *mlp}
    names = [name for name, _ in adapted.named_parameters() if "lora_A" in name]
    assert len(names) == 7 * adapted.config.num_hidden_layers


def test_vision_parts_have_no_adapter(tokenizer):
    vision = {**SMALL, "intermediate_size": 48, "image_size": 16, "patch_size": 8}
    config = AutoConfig.for_model(
        "gemma3",
        text_config={**LLAMA, "vocab_size": 300, "num_key_value_heads": 2},
        vision_config=vision,
        mm_tokens_per_image=1,
        image_token_index=7,
    )
    for targets in (None, ("q_proj", "v_proj")):
        model = AutoModelForCausalLM.from_config(config)
        adapted = add_adapter(model, LoraSettings(rank=2, targets=targets))
        names = [name for name, _ in adapted.named_parameters() if "lora_A" in name]
        assert names and not any("vision" in name for name in names)


def test_few_adapted_layers_are_said(build):
    one = LoraSettings(targets=("model.layers.0.self_attn.q_proj",))
    with pytest.warns(UserWarning, match=r"1 of the 3 layers.*\n?.*--lora-targets"):
        add_adapter(build("mixtral", num_hidden_layers=3), one)
    with pytest.raises(ConfigError, match=r"--lora-targets.*'q_prj'.*q_proj"):
        add_adapter(build("mixtral"), LoraSettings(targets=("q_prj",)))


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens", "model.embed_tokens"])
def test_tied_embeddings_cannot_have_an_adapter(make_model, target):
    with pytest.raises(ConfigError, match="ties its embeddings"):
        add_adapter(make_model(tie_word_embeddings=True), LoraSettings(targets=(target, "q_proj")))


@pytest.mark.parametrize("targets", [None, ("lm_head", "q_proj"), ("embed_tokens", "up_proj")])
def test_a_merged_adapter_is_the_same_policy(make_model, tokenizer, tmp_path, targets):
    Policy(make_model(tie_word_embeddings=targets is None), tokenizer).save(tmp_path / "base")
    policy = Policy.load(tmp_path / "base", lora=LoraSettings(rank=2, targets=targets))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in policy.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(0, 0.3, generator=generator)
    policy.save(tmp_path / "adapter")
    from peft import AutoPeftModelForCausalLM

    merged = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter").merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    tokenizer.save_pretrained(tmp_path / "merged")
    prompts, samples = act(policy)
    assert distance(Policy.load(tmp_path / "merged"), prompts, samples) < 1e-4
