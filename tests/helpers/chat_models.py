"""Small random models of real architectures with real chat templates and trained tokenizers."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

TEXT = (
    "You are in a room. go north, go south; take the red key 17 times\n> "
    "> go north\nThe door is locked.\n\n> take the red key\nsystem\nuser\nassistant\nmodel\n"
    "You play a game. Answer with one action\n\nYou are in a hall\n\n"
)
# As in the tokenizers of Llama 3 and Qwen: words with the space before them, line breaks apart.
PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class Family(NamedTuple):
    """A family of chat models.

    Attributes:
        kind: the architecture.
        template: name of the chat template, or None for a base model.
        special: special tokens.
        eos: the tokenizer's end of sequence.
        ends: the end-of-sequence tokens of the generation config.
        turn: the token that ends a turn in the template.
    """

    kind: str
    template: str | None
    special: tuple[str, ...]
    eos: str
    ends: tuple[str, ...]
    turn: str


FAMILIES = {
    "qwen3": Family(
        "qwen3",
        "qwen3",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
        ("<|im_end|>", "<|endoftext|>"),
        "<|im_end|>",
    ),
    "llama3": Family(
        "llama",
        "llama3",
        (
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|eot_id|>",
            "<|eom_id|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
        ),
        "<|end_of_text|>",
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    "gemma": Family(
        "gemma",
        "gemma",
        ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        "<eos>",
        ("<eos>", "<end_of_turn>"),
        "<end_of_turn>",
    ),
    "phi3": Family(
        "phi3",
        "phi3",
        ("<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"),
        "<|endoftext|>",
        ("<|endoftext|>", "<|end|>", "<|user|>"),
        "<|end|>",
    ),
    "gptoss": Family(
        "llama",
        "gptoss",
        ("<|return|>", "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"),
        "<|return|>",
        ("<|return|>", "<|call|>"),
        "<|end|>",
    ),
    "base": Family("llama", None, ("<|endoftext|>",), "<|endoftext|>", ("<|endoftext|>",), "\n"),
}
BOS = {"llama3": "<|begin_of_text|>", "gemma": "<bos>"}
CHAT = [name for name, family in FAMILIES.items() if family.template]


@cache
def chat_tokenizer(name: str) -> Any:
    """Returns a byte-level tokenizer with the special tokens and the template of a family."""
    family = FAMILIES[name]
    bpe = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])  # type: ignore[assignment]
    bpe.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(family.special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([TEXT] * 9, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=family.eos, bos_token=BOS.get(name)
    )
    if family.template:
        (folder,) = find_spec("trl").submodule_search_locations  # type: ignore[union-attr]
        file = Path(folder) / "chat_templates" / f"{family.template}.jinja"
        tokenizer.chat_template = file.read_text(encoding="utf-8")
    return tokenizer


def chat_model(name: str, seed: int = 0) -> tuple[Any, Any]:
    """Returns a small random model of a family and its tokenizer."""
    family, tokenizer = FAMILIES[name], chat_tokenizer(name)
    config = AutoConfig.for_model(
        family.kind,
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(list(family.ends))
    return model.eval(), tokenizer
