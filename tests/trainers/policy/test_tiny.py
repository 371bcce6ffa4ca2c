from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym.errors import ConfigError
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import (
    SIZES,
    TinySize,
    played_texts,
    tiny_model,
    tiny_policy,
    tiny_tokenizer,
)

NUMBERS = "AgentGym/NumberLine-v0"


def test_it_is_an_ordinary_folder(tmp_path):
    policy = tiny_policy(NUMBERS, size="nano", folder=tmp_path, episodes=4)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "You are at 3. Go to 17.\n> +"
    assert tokenizer(text)["input_ids"] == policy.encode(text)
    tokens = torch.tensor([policy.encode(text)])
    torch.testing.assert_close(model(tokens).logits, policy.model(tokens).logits)
    assert model.config.model_type == "llama"
    assert tokenizer.chat_template is None
    assert Policy.load(tmp_path).encode(text) == policy.encode(text)


def test_it_depends_on_the_seed_and_on_nothing_else(global_rng_untouched):
    state = torch.get_rng_state()
    one, same, other = (
        tiny_policy(NUMBERS, size="nano", seed=seed, episodes=4) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert one.tokenizer.get_vocab() == same.tokenizer.get_vocab()
    first, last = next(one.parameters()), next(other.parameters())
    assert first.shape != last.shape or not torch.equal(first, last)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_sizes(size):
    model, tokenizer = tiny_model(["go north"], size=replace(size, practice=0))
    assert model.config.num_hidden_layers == size.layers >= 2
    assert model.config.max_position_embeddings == size.positions >= 2048
    assert len(tokenizer) <= size.vocabulary
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    logits = model(torch.arange(40)[None]).logits
    assert 0.1 < logits.std() < 3  # neither flat nor certain


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "don't\r\n\t",
        "naïve 日本語 🎉",
        "1234 [button]",
        "<|end|><|pad|>",
        "\0\x7f",
        "  x  ",
    ],
)
def test_the_tokenizer_gives_any_text_back(text):
    tokenizer = tiny_tokenizer(["click[buy now] 1234 for 12.50 dollars"] * 9, 400)
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens, clean_up_tokenization_spaces=False) == text
    assert not {tokenizer.eos_token_id, tokenizer.pad_token_id} & set(tokens)


def test_digits_stand_alone():
    tokenizer = tiny_tokenizer(["1234 1234 $1234"] * 50, 400)
    assert len(tokenizer("1234")["input_ids"]) == 4


def test_texts_are_those_of_play():
    texts = played_texts(NUMBERS, episodes=2)
    assert any(text.startswith("You stand on a number line") for text in texts)
    assert any("Go to" in text for text in texts)
    assert "\n> +\n" in texts or "\n> -\n" in texts
    assert texts == played_texts("NumberLine-v0", episodes=2)
    assert texts != played_texts(NUMBERS, episodes=2, seed=1)


def test_what_cannot_be_made():
    with pytest.raises(ConfigError, match="tiny"):
        tiny_model([""], size="tyni")
    with pytest.raises(ConfigError, match="258"):
        tiny_model([""], size=TinySize(2, 32, 4, 32, 100, 128))
    with pytest.raises(ValueError, match="Unknown environment"):
        tiny_policy("NoSuchEnv-v0")


def test_a_fresh_model_begins_with_what_trained_ones_know():
    model, tokenizer = tiny_model(["click[white] is White, not a white [SEP] red"] * 9, size="nano")
    embeddings = torch.nn.functional.normalize(model.get_input_embeddings().weight, dim=-1)
    words = ("white", " white", " White", " [SEP]")
    tokens = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    assert all(len(ids) == 1 for ids in tokens), "a word or a marker is one token"
    white, *others, marker = (embeddings[ids[0]] for ids in tokens)
    assert all(white @ other > 0.7 for other in others)
    assert abs(white @ marker) < 0.5
    attention = model.model.layers[0].self_attn
    copied = attention.o_proj.weight @ attention.v_proj.weight
    torch.testing.assert_close(copied, torch.eye(64), atol=1e-4, rtol=0)
