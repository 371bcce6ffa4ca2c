"""Tokens that settings leave out of the policy loss: truncated, mismatched and certain ones.

Those that lower the entropy most are detached from its gradient (`low_entropy_tokens`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray, IntArray
from agentgym.trainers.settings import LossConfig
from agentgym.trainers.update.losses import wide


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


def covariance_clip(
    logprobs: Tensor,
    advantages: Tensor,
    *,
    fraction: float,
    generator: torch.Generator,
) -> Tensor:
    """Selects tokens to detach from the gradient against entropy collapse ("Clip-Cov").

    Tokens with a large covariance (log pi - mean)(A - mean) lower the entropy most. The selected
    tokens are sampled uniformly from those with a covariance in (1, 5).

    Source: "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models", arXiv
    2505.22617 (fraction 2e-4). SPEAR, arXiv 2509.22601, uses 0.02.

    Args:
        logprobs: [k] log-probabilities under the policy.
        advantages: [k] advantages.
        fraction: upper bound of the share of detached tokens.
        generator: generator of the sample, on the CPU.

    Returns:
        [k] True for detached tokens.
    """
    x, y = wide(logprobs.detach()), wide(advantages.detach())
    detached = torch.zeros_like(x, dtype=torch.bool)
    if x.numel() == 0:
        return detached
    covariance = (x - x.mean()) * (y - y.mean())
    candidates = ((covariance > 1.0) & (covariance < 5.0)).nonzero().squeeze(-1)
    wanted = min(int(fraction * x.numel()), len(candidates))
    chosen = torch.randperm(len(candidates), generator=generator)[:wanted].to(x.device)
    detached[candidates[chosen]] = True
    return detached


def low_entropy_tokens(
    batch: Batch, credit: Credit, free: Tensor, fraction: float, seed: int
) -> Tensor:
    """Returns the mask of the tokens that lower the entropy most (Clip-Cov).

    They are selected from the whole batch, with the log-probs of the behaviour policy, so the
    selection does not depend on the split into minibatches.
    """
    detached = torch.zeros_like(free)
    detached[free] = covariance_clip(
        torch.as_tensor(batch.logprobs)[free],
        torch.as_tensor(credit.advantages)[free],
        fraction=fraction,
        generator=torch.Generator().manual_seed(seed % 2**63),
    )
    return detached
