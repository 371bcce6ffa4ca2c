"""Small tokenizers of the kinds that are published, some with vocabularies that invite forgery."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from agentgym.trainers.policy.tiny import tiny_tokenizer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
MARKS = ("<|im_start|>", "<|im_end|>")
OTHERS = ("<eos>", "<pad>", "<s>", "</s>", "<tool_call>", "<think>", "</think>", "<unk>")
WORDS = ("system", "user", "assistant", "go", "a", "b", "see", "you", ".", ">", "<", "|", "/")
LETTERS = "abcdefghijklmnopqrstuvwxyz_|<>/.0123456789AESX "


def byte_level(**_: Any) -> Tokenizer:
    return tiny_tokenizer(["you see a door. go <a> | b"] * 3, 290).backend_tokenizer


def whole_words(**_: Any) -> Tokenizer:
    """A byte-level model that looks for whole words first, the marks among its vocabulary."""
    vocabulary = byte_level().get_vocab(with_added_tokens=False)
    for word in (*MARKS, *OTHERS):
        vocabulary.setdefault(word, len(vocabulary))
    model = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return model


def word_piece(vocabulary: dict[str, int], *, lower: bool = False) -> Tokenizer:
    for letter in LETTERS:
        vocabulary.setdefault(letter, len(vocabulary))
        vocabulary.setdefault(f"##{letter}", len(vocabulary))
    model = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    if lower:
        model.normalizer = normalizers.Lowercase()  # type: ignore[assignment]
    return model


def word_level(vocabulary: dict[str, int], **_: Any) -> Tokenizer:
    model = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    return model


def unigram(vocabulary: dict[str, int], **_: Any) -> Tokenizer:
    """A SentencePiece model whose vocabulary holds the marks and the names of bytes."""
    pieces = [(word, -1.0) for word in vocabulary]
    pieces += [(f"<0x{byte:02X}>", -2.0) for byte in range(256)]
    pieces += [(letter, -5.0) for letter in LETTERS + "▁" if letter not in vocabulary]
    unknown = list(vocabulary).index("<unk>")
    model = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace()  # type: ignore[assignment]
    model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])  # type: ignore[assignment]
    return model


def normalised(vocabulary: dict[str, int], **_: Any) -> Tokenizer:
    """A model that reads other spellings as the marks and the names of bytes."""
    model = unigram(vocabulary)
    steps = [normalizers.NFKC(), normalizers.BertNormalizer(lowercase=False), normalizers.Strip()]
    model.normalizer = normalizers.Sequence(steps)  # type: ignore[assignment]
    return model


KINDS = {
    "bpe": byte_level,
    "whole words": whole_words,
    "word piece": word_piece,
    "lower case": lambda vocabulary: word_piece(vocabulary, lower=True),
    "word level": word_level,
    "unigram": unigram,
    "normalised": normalised,
}


@cache
def tokenizer_of(kind: str, special: bool, strips: bool = False) -> Any:
    """A tokenizer with added marks of turns, special ones or not."""
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys((*OTHERS, *MARKS, *WORDS)))}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=KINDS[kind](vocabulary=vocabulary),
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    marks = [
        AddedToken(each, special=special, normalized=not special, lstrip=strips, rstrip=strips)
        for each in (*MARKS, "<think>", "</think>", "<tool_call>")
    ]
    tokenizer.add_tokens(marks, special_tokens=special)  # type: ignore[arg-type]
    tokenizer.chat_template = TEMPLATE
    return tokenizer


TEXT = [
    "[INST] You are at 3. Go to 4. [/INST] go north",
    "[INST] The door is locked.\n\nTake the red key [/INST] take red key",
    "Rules. Reply with one action\n> open door",
]
INST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}"
    "{{ eos_token }}{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)
LINES = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
WORD_STARTS = ["always", "first", "legacy", "unigram", "byte-level"]


@cache
def word_start_tokenizer(kind: str, template: str | None) -> Any:
    """Returns a tokenizer of the kinds of SentencePiece that are published."""
    space = "▁"
    special = ["<unk>", "<s>", "</s>"]
    if kind == "unigram":
        model = Tokenizer(models.Unigram())
        trainer: Any = trainers.UnigramTrainer(
            vocab_size=120, special_tokens=special, show_progress=False, unk_token="<unk>"
        )
    else:
        model = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=kind != "byte-level"))
        trainer = trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=[*special, *(f"<0x{n:02X}>" for n in range(256))],
            show_progress=False,
        )
    if kind == "byte-level":
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        model.decoder = decoders.ByteLevel()
    else:
        scheme = "first" if kind == "first" else "always"
        model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        model.decoder = decoders.Metaspace(prepend_scheme=scheme)
    model.train_from_iterator(TEXT * 5, trainer)
    if kind == "legacy":  # as in the converted files of Llama 2 and Mistral 7B
        model.normalizer = normalizers.Sequence(
            [normalizers.Prepend(space), normalizers.Replace(" ", space)]
        )
        model.pre_tokenizer = None  # type: ignore[assignment]
        model.decoder = decoders.Sequence(
            [decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    return tokenizer
