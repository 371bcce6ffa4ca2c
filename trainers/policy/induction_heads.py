"""Copying: a new decoder that finds and copies tokens of its prompt before it sees any text.

Acting on text is for a large part copying: words of a goal into a query, the name of an object into
a command. Demonstrations teach this slowly, because few of their tokens are actions. So the decoder
begins with induction heads, and practises for some seconds on sequences of random tokens. Neither
depends on text: any tokenizer will do, and no weights are loaded.
"""

from __future__ import annotations

import math
from typing import Any

import torch

SLOW_ROPE = 1e6
"""Base of the rotary embedding with induction heads: most of its dimensions hardly turn within a
prompt, so that content can be compared over any distance."""
WORDS, COMMON, REPEATED = 192, 8, 12
"""Different tokens in a step of practice, those that occur in most sequences, and the number of
tokens that are repeated."""


@torch.no_grad()
def begin_inducing(model: Any, generator: torch.Generator) -> None:
    """Initialises the first two blocks with induction heads.

    An induction head finds the earlier occurrence of a token and copies its successor ("In-context
    Learning and Induction Heads", arXiv 2209.11895). It takes two blocks: half of the heads of the
    first attend to the previous token and write a part of its embedding beside the embedding of the
    current one. Half of the heads of the second compare this part with the current token. Other
    weights take millions of tokens to become such a pair, these some hundred thousand.

    The hidden dimensions are divided into a constant, which lets queries and keys depend on the
    position alone, the embedding of the token, and the part of that of the previous token.
    """
    embeddings = model.get_input_embeddings().weight
    hidden = embeddings.shape[1]
    earlier = hidden * 5 // 16
    width = hidden - 1 - earlier
    own, previous = slice(1, 1 + width), slice(1 + width, hidden)
    embeddings[:, 0] = 0.5
    embeddings[:, own] *= math.sqrt(hidden / width)
    embeddings[:, previous] = 0.0
    part = _orthogonal(width, generator)[:earlier]
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    _attend_previous(first, part)
    _attend_successors(second, part, generator)


def _attend_previous(attention: Any, part: torch.Tensor) -> None:
    """Lets half of the heads write a part [P, W] of the previous token's embedding beside it."""
    hidden, size = attention.o_proj.weight.shape[0], attention.head_dim
    count, half = hidden // size // 2, attention.head_dim // 2
    speeds, fast, scale, unit = _rotary(hidden, size)
    # A head has a sharp maximum at the previous token if the key is turned by one position.
    strength = math.sqrt(12.0) * unit * scale / 0.5
    to = 1 + part.shape[1]
    for head, rows in enumerate(part.chunk(count)):
        query, key, value, output = _empty_head(attention, head)
        query[:half, 0] = strength * fast
        key[:half, 0] = strength * fast * speeds.cos()
        key[half:, 0] = strength * fast * speeds.sin()
        value[: len(rows), 1 : 1 + part.shape[1]] = rows
        output[to : to + len(rows), : len(rows)] = 1.5 * scale * torch.eye(len(rows))
        to += len(rows)


def _attend_successors(attention: Any, part: torch.Tensor, generator: torch.Generator) -> None:
    """Lets half of the heads attend to successors of the current token and copy their embeddings.

    Args:
        attention: the attention of the second block.
        part: the part [P, W] of the previous token's embedding that the first block writes.
        generator: random generator of the weights.
    """
    hidden, size = attention.o_proj.weight.shape[0], attention.head_dim
    earlier, width = part.shape
    _, fast, scale, unit = _rotary(hidden, size)
    slow = torch.cat([~fast, ~fast]).nonzero().squeeze(1)
    own, previous = slice(1, 1 + width), slice(1 + width, hidden)
    copied = _orthogonal(width, generator).split(size)
    for head in range(hidden // size // 2):
        rows, mixed = copied[head], _orthogonal(earlier, generator)[: len(slow)]
        query, key, value, output = _empty_head(attention, head)
        query[slow, own] = math.sqrt(2.0) * unit * mixed @ part
        key[slow, previous] = math.sqrt(2.0) * unit / 1.5 * mixed
        value[: len(rows), own] = rows
        output[own, : len(rows)] = 4.0 * scale * rows.T


def _rotary(hidden: int, size: int) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    """Returns constants of heads of a size.

    These are the angle per position of each pair of dimensions (radians), which pairs are fast, the
    scale of the first hidden states, and the scale of queries and keys whose products are 1.
    """
    speeds = SLOW_ROPE ** (-torch.arange(size // 2) / (size // 2))
    return speeds, speeds > 0.02, math.sqrt(1.25 / hidden), size**0.25


def _empty_head(attention: Any, head: int) -> tuple[torch.Tensor, ...]:
    """Sets the weights of a head to 0.

    Returns:
        Views of the weights of query, key and value, [D, H] each, and of the output [H, D].
    """
    lines = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    views = *(each.weight[lines] for each in projections), attention.o_proj.weight[:, lines]
    for view in views:
        view.zero_()
    return views


def _orthogonal(size: int, generator: torch.Generator) -> torch.Tensor:
    """Returns a random orthogonal matrix."""
    return torch.linalg.qr(torch.empty(size, size).normal_(generator=generator))[0]


def practise_copying(
    model: Any, steps: int, generator: torch.Generator, *, rows: int = 48, lr: float = 3e-3
) -> None:
    """Trains a model to continue a repeated part of a sequence of random tokens.

    A sequence is 12 to 60 tokens from a few words, some of which are common, and then 12 tokens of
    it again. The loss is the cross-entropy of the repeated tokens among the words of the step, as
    in "In-context Learning and Induction Heads" (arXiv 2209.11895), where repeated random tokens
    measure this ability.

    Args:
        model: a `transformers` Llama model. Its first two tokens are special and never appear.
        steps: number of steps. The learning rate rises for 50 steps, then decays to a tenth.
        generator: random generator of the sequences.
        rows: sequences per step.
        lr: highest learning rate.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    vocabulary = model.get_input_embeddings().num_embeddings
    for step in range(steps):
        rate = min(1.0, (step + 1) / 50) * max(0.1, 1 - step / steps)
        optimizer.param_groups[0]["lr"] = lr * rate
        words = 2 + torch.randperm(vocabulary - 2, generator=generator)[:WORDS]
        tokens = _repeated(rows, len(words), generator)
        hidden = model.model(input_ids=words[tokens], use_cache=False).last_hidden_state
        logits = hidden[:, -REPEATED:-1] @ model.lm_head.weight[words].T
        targets = tokens[:, 1 - REPEATED :]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad(set_to_none=True)


def _repeated(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    """Returns sequences of random tokens below `words` whose last ones repeat earlier ones."""
    length = int(torch.randint(REPEATED, 61, (), generator=generator))
    rare = torch.rand(rows, words - COMMON, generator=generator).argsort(1)[:, :length] + COMMON
    common = torch.randint(COMMON, (rows, length), generator=generator)
    tokens = torch.where(torch.rand(rows, length, generator=generator) < 0.2, common, rare)
    start = torch.randint(length - REPEATED + 1, (rows, 1), generator=generator)
    return torch.cat([tokens, tokens.gather(1, start + torch.arange(REPEATED))], 1)
