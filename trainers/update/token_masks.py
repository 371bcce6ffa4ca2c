"""Tokens that settings leave out of the policy loss: truncated, mismatched and certain ones."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray, IntArray
from agentgym.trainers.settings import LossConfig


def kept_tokens(
    batch: Batch,
    settings: LossConfig,
    length: int,
    end_tokens: Collection[int] = (),
    chunks: IntArray | None = None,
    entropy: FloatArray | None = None,
) -> NDArray[np.bool_]:
    """Returns True for the tokens that enter the policy loss and its denominators [K].

    Args:
        batch: the trajectories, with log-probabilities of training if a mismatch is masked.
        settings: `mask_truncated`, `importance`, `importance_cap`, `trained_turns` and
            `thought_coef`.
        length: maximum length of an action in tokens.
        end_tokens: the tokens that end an action.
        chunks: [M] index of the chunk of each turn, if the importance weights are those of chunks.
        entropy: [K] entropies of the distributions that the tokens were sampled from, if turns are
            chosen by them.
    """
    kept = np.ones(batch.num_tokens, bool)
    if settings.mask_truncated in ("answers", "all"):
        kept &= ~truncated_answers(batch, length, end_tokens)[batch.token_turn]
    if settings.mask_truncated in ("episodes", "all"):
        cut = np.array([t.truncated and not t.terminated for t in batch.trajectories], bool)
        kept &= ~cut[batch.turn_trajectory][batch.token_turn]
    if settings.trained_turns < 1:
        assert entropy is not None
        chosen = uncertain_turns(batch, entropy, settings.trained_turns, settings.thought_coef)
        kept &= chosen[batch.token_turn]
    if settings.masks_mismatch and batch.sampler_logprobs is not None:
        # Last, as the weights in the loss are products over the tokens in it.
        counted = kept & (batch.weights(settings.thought_coef) > 0)
        kept &= ~beyond_cap(batch, batch.sampler_logprobs, settings, counted, chunks)
    return kept


def uncertain_turns(
    batch: Batch, entropy: FloatArray, share: float, thought_coef: float = 1.0
) -> NDArray[np.bool_]:
    """Returns True for the turns of each group with the highest mean entropy per token [M].

    Tokens of the weight 0 in the loss do not count, such as forced ones, nor do turns without
    others, none of which is chosen. Among equal turns the earlier ones are chosen.

    Source: the selection of steps of "Efficient Multi-turn RL for GUI Agents via Decoupled Training
    and Adaptive Data Curation" (DART), arXiv 2509.23866, which trains the top 80 %.

    Args:
        batch: the trajectories.
        entropy: [K] entropies of the distributions that the tokens were sampled from.
        share: the share of the turns, above 0, rounded up to whole turns.
        thought_coef: weight of thought tokens in the loss.
    """
    learned, turns = batch.weights(thought_coef) > 0, batch.num_turns
    counts = np.bincount(batch.token_turn[learned], minlength=turns)
    sums = np.bincount(batch.token_turn[learned], entropy[learned].astype(np.float64), turns)
    means, groups = sums / np.maximum(counts, 1), batch.groups[batch.turn_trajectory]
    chosen = np.zeros(turns, bool)
    for group in np.unique(groups):
        mine = np.flatnonzero((groups == group) & (counts > 0))
        order = mine[np.argsort(-means[mine], kind="stable")]
        chosen[order[: math.ceil(share * len(mine) - 1e-9)]] = True
    return chosen


def truncated_answers(batch: Batch, length: int, end_tokens: Collection[int]) -> NDArray[np.bool_]:
    """Returns True for the turns whose action has the maximum length and does not end [M].

    Source: the overlong filtering of "DAPO: An Open-Source LLM Reinforcement Learning System at
    Scale", arXiv 2503.14476, section 3.4.
    """
    owners = batch.turn_trajectory
    return np.array(
        [
            turn.choice is None
            and turn.stop - turn.start >= length
            and int(batch.trajectories[owner].segments[turn.segment].tokens[turn.stop - 1])
            not in end_tokens
            for owner, turn in zip(owners, batch.turns, strict=True)
        ],
        bool,
    )


def beyond_cap(
    batch: Batch,
    sampled: FloatArray,
    settings: LossConfig,
    counted: NDArray[np.bool_],
    chunks: IntArray | None = None,
) -> NDArray[np.bool_]:
    """Returns True for the tokens whose importance weight exceeds the cap [K].

    The weight is that of the token, or the product over the counted tokens of its turn, chunk or
    trajectory, whose tokens are then all beyond the cap or none.

    Source: masked importance sampling of "When Speed Kills Stability: Demystifying RL Collapse from
    the Training-Inference Mismatch" (Liu et al., 2025).
    """
    assert settings.importance_cap is not None
    log_weight = batch.logprobs.astype(np.float64) - sampled
    owner = batch.token_turn
    if settings.importance_span == "trajectory":
        owner = batch.turn_trajectory[batch.token_turn]
    elif settings.importance_span == "chunk":
        assert chunks is not None
        owner = chunks[batch.token_turn]
    if settings.importance_span != "token":
        log_weight = np.bincount(owner, log_weight * counted)[owner]
    return log_weight > math.log(settings.importance_cap)
