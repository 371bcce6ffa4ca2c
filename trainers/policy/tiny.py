"""The default model: a small decoder with a tokenizer trained on an environment's own text.

Both are created from a seed, without any download. `Policy.save` writes them as an ordinary Hugging
Face folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from agentgym.errors import ConfigError, did_you_mean
from agentgym.registration.making import make_env
from agentgym.trainers.policy.action_format import END, PAD
from agentgym.trainers.policy.induction_heads import SLOW_ROPE, begin_inducing, practise_copying
from agentgym.trainers.policy.model_defaults import NEW_MODEL_KEY
from agentgym.trainers.policy.policy import Policy
from agentgym.utils.printable import encodable

# BPE merges within these pieces: a marker such as " [SEP]", a word, one digit, signs, white space.
PIECES = r" ?\[[A-Z_]+\]| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MOST_TURNS = 50
ALIKE = 0.9
"""Initial correlation of the embeddings of a word's variants, and of query and key weights."""


@dataclass(frozen=True)
class TinySize:
    """Size of a small Llama-style decoder (tied embeddings, no grouped queries).

    Attributes:
        layers: number of blocks. Induction heads, which copy, need at least two.
        hidden: hidden size.
        heads: number of attention heads. hidden / heads must be even.
        intermediate: width of the MLP.
        vocabulary: maximum number of tokens, including special tokens.
        positions: maximum sequence length in tokens.
        practice: number of steps in which the model learns to copy before it sees any text. Above
            0, its first two blocks begin with induction heads (see `copying.py`).
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    practice: int = 0


SIZES: dict[str, TinySize] = {
    "nano": TinySize(2, 64, 4, 128, 2048, 2048),
    "tiny": TinySize(3, 128, 4, 256, 2048, 8192),
    "small": TinySize(6, 256, 8, 768, 4096, 8192),
    "reader": TinySize(3, 64, 4, 128, 2048, 2048, practice=400),
}


def tiny_policy(
    env: str | Callable[[], gymnasium.Env[Any, Any]],
    *,
    seed: int = 0,
    size: str | TinySize = "tiny",
    folder: str | Path | None = None,
    episodes: int = 64,
    batch_size: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Policy:
    """Returns a new `Policy` whose tokenizer is trained on the environment's training tasks.

    The same arguments give the same tokenizer and weights.

    Args:
        env: the id of an environment, or a function that creates one.
        seed: seed of the weights and of the episodes.
        size: a key of `SIZES`, or a size.
        folder: folder to save the policy in. If None, it is not saved.
        episodes: number of expert episodes, and of random episodes, for the tokenizer.
        batch_size: batch size of generation. If None, it depends on the device.
        env_kwargs: keyword arguments of the environment, if `env` is an id.

    Raises:
        ConfigError: for an unknown size.
    """
    texts = played_texts(env, seed=seed, episodes=episodes, env_kwargs=env_kwargs)
    policy = Policy(*tiny_model(texts, seed=seed, size=size), batch_size=batch_size)
    if folder is not None:
        policy.save(folder)
    return policy


def tiny_model(
    texts: Sequence[str], *, seed: int = 0, size: str | TinySize = "tiny"
) -> tuple[Any, Any]:
    """Returns a new model and a tokenizer trained on texts.

    Args:
        texts: training texts of the tokenizer.
        seed: seed of the weights.
        size: a key of `SIZES`, or a size.

    Raises:
        ConfigError: for an unknown size.
    """
    from transformers import LlamaForCausalLM

    if isinstance(size, str):
        if size not in SIZES:
            raise ConfigError(f"Unknown size {size!r}.{did_you_mean(size, SIZES)} {list(SIZES)}")
        size = SIZES[size]
    tokenizer = tiny_tokenizer(texts, size.vocabulary)
    config = decoder_config(
        size,
        vocab_size=len(tokenizer),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        model: Any = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            # Residual branches are scaled down so that activations do not grow with the depth.
            last = name.endswith(("o_proj.weight", "down_proj.weight"))
            scale = 1 / math.sqrt(2 * size.layers) if last else 1.0
            std = scale / math.sqrt(size.hidden)
            parameter.data.normal_(0.0, std, generator=generator)
    _begin_alike(model.get_input_embeddings().weight.data, tokenizer)
    for layer in model.model.layers:
        _begin_copying(layer.self_attn, generator)
    if size.practice:
        begin_inducing(model, generator)
        practise_copying(model, size.practice, generator)
    return model.eval(), tokenizer


def decoder_config(size: TinySize, **tokens: Any) -> Any:
    """Returns the configuration of a new model.

    Args:
        size: its size.
        **tokens: arguments that the tokenizer decides on.
    """
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        **tokens,
    )
    if size.practice:
        config.rope_parameters = {"rope_type": "default", "rope_theta": SLOW_ROPE}
    setattr(config, NEW_MODEL_KEY, True)
    return config


@torch.no_grad()
def _begin_copying(attention: Any, generator: torch.Generator) -> None:
    """Initialises attention so that it attends to similar tokens and copies them.

    The products of output and value weights and of query and key weights start near multiples of
    the identity, as in trained models ("Mimetic Initialization of Self-Attention Layers", arXiv
    2305.09828). With tied embeddings, attending to a word then already makes it more probable.
    """
    value, size = attention.v_proj.weight, attention.v_proj.weight.shape[0]
    square = torch.empty(size, size).normal_(generator=generator)
    value.copy_(torch.linalg.qr(square)[0])
    attention.o_proj.weight.copy_(value.T)
    query, key = attention.q_proj.weight, attention.k_proj.weight
    key.copy_(ALIKE * query + (1 - ALIKE**2) ** 0.5 * key)


@torch.no_grad()
def _begin_alike(embeddings: torch.Tensor, tokenizer: Any) -> None:
    """Initialises tokens that differ only in case or a leading space with similar embeddings.

    A pretrained model has similar embeddings for "White", " white" and "white". A new model without
    them would have to learn separately for each word that prompt and action share it.
    """
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    first: dict[str, int] = {}
    for token, text in enumerate(texts):
        word = text.strip().lower()
        if word.isalpha() and (like := first.setdefault(word, token)) != token:
            embeddings[token] = ALIKE * embeddings[like] + (1 - ALIKE**2) ** 0.5 * embeddings[token]


def tiny_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Returns a byte-level BPE tokenizer. Decoding is lossless and every digit is one token.

    Args:
        texts: training texts.
        vocabulary: maximum number of tokens, at least 258 (bytes and two special tokens).

    Raises:
        ConfigError: if the vocabulary is too small.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if vocabulary < 258:
        raise ConfigError(f"A vocabulary needs 258 tokens or more, got {vocabulary}.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(encodable, texts), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )


def played_texts(
    env: str | Callable[[], gymnasium.Env[Any, Any]],
    *,
    seed: int = 0,
    episodes: int = 64,
    env_kwargs: Mapping[str, Any] | None = None,
) -> list[str]:
    """Returns observations and actions of expert and random play in an environment's tasks.

    Half of the episodes are played by the expert. If there is no expert, all actions are random.

    Args:
        env: the id of an environment, with or without the namespace, or a function that creates
            one.
        seed: seed of the episodes and of the random agent.
        episodes: number of episodes of each kind.
        env_kwargs: keyword arguments of the environment.
    """
    texts: list[str] = []
    played = make_env(env, **(env_kwargs or {})) if isinstance(env, str) else env()
    try:
        for episode in range(2 * episodes):
            seeds = np.random.SeedSequence([seed, episode])
            texts.extend(_play(played, np.random.default_rng(seeds), expert=episode % 2 == 0))
    finally:
        played.close()
    return texts


def _play(env: Any, rng: np.random.Generator, expert: bool) -> Iterator[str]:
    """Plays one episode and yields instructions, observations, admissible actions and actions."""
    yield str(env.get_wrapper_attr("instructions"))
    observation, info = env.reset(seed=int(rng.integers(2**31)))
    env.action_space.seed(int(rng.integers(2**31)))
    over = False
    turns = 0
    while not over and turns < MOST_TURNS:
        admissible = info.get("admissible", ())
        yield "\n".join((observation, *admissible))
        action = env.get_wrapper_attr("expert")() if expert else None
        if action is None and admissible:
            action = admissible[int(rng.integers(len(admissible)))]
        if action is None:
            action = env.action_space.sample()
        yield f"\n> {action}\n"
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        turns += 1
    yield observation
