"""Settings of learning: the optimiser, the policy loss, and behaviour cloning before RL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from agentgym.errors import ConfigError
from agentgym.trainers.settings.fields import (
    BY_MODEL,
    ByModel,
    Count,
    Fraction,
    NonNegative,
    Normalize,
    Positive,
)
from agentgym.trainers.settings.schema import When, needs

Decay = Annotated[float, Ge(0.0), Lt(1.0)]
RATIO = When("ratio", but=("none",), of="a probability ratio", remedy="ratio to token")
CLIPPED = When("surrogate", but=("cispo", "squared"), remedy="surrogate to ppo")
BOUNDED = When("surrogate", but=("squared",), remedy="surrogate to ppo")
GROUPED = When("group_size", but=(1,), of="groups of episodes", remedy="group_size above 1")
PENALISED = When("kl_coef", remedy="kl_coef above 0")
CLONED = When(
    "imitates",
    of="behaviour cloning before RL",
    remedy="bc_demonstrations, bc_share, or data of a recipe that does not learn offline",
)

CREDITED = needs(
    "the penalty is subtracted from the rewards, from which this recipe assigns no credit",
    "kl_in to loss or loss_k2", of=("reward",), credits_rewards=True,
)  # fmt: skip
SAME_RETURNS = needs(
    "groups are dropped for equal returns of the environment, which may differ in rewards",
    process_reward="", reward_constraints={}, novelty_bonus=0.0, count_bonus=0.0,
)  # fmt: skip
SHARED_BUDGET = needs(
    "demonstrations and rollouts share the budget of env_steps", bc_demonstrations=0, data=()
)
REPLACED = "its episodes replace demonstrations of the expert"


@dataclass
class OptimisationConfig:
    """The optimiser and its schedule."""

    lr: ByModel[NonNegative] = BY_MODEL
    """Learning rate of the policy (None: 3e-4, for a loaded model 1e-6, for an adapter 1e-5)."""
    epochs: Positive = 2
    """Epochs over each rollout."""
    minibatches: Positive = 4
    """Optimiser steps per epoch."""
    lr_schedule: Literal["constant", "linear"] = "constant"
    """Learning-rate schedule of policies and critics on their hidden states. "linear" decays to 0
    over `iterations`. A critic with a separate backbone keeps `critic_lr`: to the end, it is fitted
    to the returns of a policy that changes."""
    lr_warmup: Count = 0
    """Iterations in which the learning rates of policies and critics on their hidden states
    increase linearly to their full values."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay (AdamW)."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Optimiser of the policy in RL. "muon": Muon for the matrices between hidden states, with the
    learning rate of AdamW, which updates embeddings, the output head, norms and the critic. The
    step of Muon does not depend on the size of the gradient, so `max_grad_norm` does not bound
    it."""
    adam_betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay rates of AdamW's averages of the gradient and of its square."""
    adam_eps: ByModel[NonNegative] = BY_MODEL
    """Added to the denominator of AdamW's step (None: 1e-5, for a loaded model 1e-8)."""
    max_grad_norm: Annotated[float, Ge(1e-12)] = 1.0
    """Gradient norm clip, for policy, critic and the models of recipes separately."""
    microbatch_tokens: Positive | None = None
    """Tokens per forward and backward pass, with padding and, with `normalization`, all admissible
    actions (None: as many as fit into the free memory of a GPU, 4096 on a CPU). Gradients are
    accumulated over a minibatch, so a lower value saves memory and gives the same result. It is
    halved if a GPU runs out of memory."""


@dataclass
class LossConfig:
    """The policy loss and the advantages that enter it."""

    clip: Annotated[NonNegative, RATIO, BOUNDED] = 0.2
    """PPO clip: the ratio is clipped to [1 - clip, 1 + clip_high]."""
    clip_high: Annotated[NonNegative | None, RATIO, BOUNDED] = None
    """Upper clip, as in clip-higher (None: the same as `clip`)."""
    surrogate: Annotated[Literal["ppo", "aepo", "cispo", "squared"], RATIO] = "ppo"
    """Form of the policy loss: tokens beyond a clip have no gradient ("ppo"), those above the upper
    clip keep theirs, with the bound as their ratio ("aepo"), or all tokens keep theirs, weighted by
    min(ratio, 1 + clip_high) without a lower clip ("cispo", often with a `clip_high` of 1 to 5).
    "squared": (beta log(policy / reference) - advantage)^2 / (2 beta) with beta = `kl_coef`, in
    place of a clip and of the penalty (WebRL, with `ratio` turn_product)."""
    dual_clip: Annotated[Annotated[float, Gt(1.0)] | None, RATIO, CLIPPED] = None
    """Dual clip: bounds the loss of a negative advantage by this multiple (None: no bound)."""
    ratio: Literal[
        "token", "turn", "turn_product", "chunk", "chunk_product", "trajectory",
        "trajectory_product", "none",
    ] = "token"  # fmt: skip
    """Granularity of the importance-sampling ratio: of a token, the geometric mean over the tokens
    of a turn, a chunk of turns (recipe `chunk`) or a trajectory, or the product over them, which is
    the ratio of the action or of the whole trajectory. A mean stays near 1 where single tokens move
    far: over long actions, the same clip allows larger steps (GSPO, arXiv 2507.18071, clips at
    3e-4). none: no ratio, no clip and no KL to the behaviour policy, for the gradient of plain
    log-likelihood."""
    aggregation: Literal["token", "turn", "trajectory", "constant"] = "token"
    """Loss aggregation: mean over tokens, turns or trajectories, or a sum divided by a constant
    (Dr. GRPO)."""
    normalize_advantages: Normalize = "batch"
    """Standardise advantages over the batch, each environment, task, agent or group ("none": do
    not)."""
    entropy_coef: NonNegative = 0.0
    """Entropy bonus coefficient."""
    entropy_floor: Annotated[
        NonNegative | None, When("entropy_coef", remedy="entropy_coef above 0")
    ] = None
    """Give the entropy bonus only to tokens with an entropy below this in nats (None: to all)."""
    kl_coef: NonNegative = 0.0
    """KL penalty coefficient with respect to the reference policy."""
    kl_reference: Annotated[
        str, When("uses_reference", of="a KL penalty", remedy="kl_coef above 0")
    ] = "start"
    """Reference policy: the policy before RL ("start"), the policy itself, renewed every K
    iterations ("moving:K"), or the exponential moving average of its weights, or of the weights of
    its adapter, with the coefficient TAU per iteration ("polyak:TAU"). In self-play, a penalty on
    leaving a slowly moving reference damps the cycles of the last policy."""
    kl_in: Annotated[Literal["loss", "loss_k2", "reward"], PENALISED, BOUNDED, CREDITED] = "loss"
    """Where the KL penalty is: in the loss, as in GRPO (the estimator k3, whose gradient is that of
    KL(reference, policy)), in the loss with the gradient of KL(policy, reference) ("loss_k2"), or
    subtracted from the rewards, which has that gradient too, with credit assigned over turns."""
    target_kl: Annotated[NonNegative | None, RATIO] = None
    """End the epochs of an iteration when the approximate KL to the behaviour policy exceeds this
    (nats/token, None: never)."""
    max_kl: Annotated[NonNegative, RATIO] = 10.0
    """Abort the run when the approximate KL to the behaviour policy exceeds this (nats/token)."""
    importance_cap: Annotated[float, Gt(0.0)] | None = None
    """Truncated importance sampling: weight the policy loss of each token by
    min(exp(log p_training - log p_generation), cap), for generation and training that compute
    different log-probabilities, or differ in their weights. Ratios then compare with the policy
    before the update (None: 5 with `max_staleness`, `cross_policy` or `epsilon`, as AReaL
    publishes, otherwise no weights). Recipes that imitate or prefer actions have no weights."""
    importance: Annotated[
        Literal[
            "token", "turn", "chunk", "trajectory",
            "token_mask", "turn_mask", "chunk_mask", "trajectory_mask",
        ],
        When("importance_cap"),
    ] = "token"  # fmt: skip
    """Granularity of the importance weights of `importance_cap`: of a token, or the product over
    the tokens of a turn, a chunk of turns (recipe `chunk`) or a trajectory. The weights are at most
    the cap, or, with a mask, tokens above the cap are left out of the policy loss."""
    mask_truncated: Literal["none", "answers", "episodes", "all"] = "none"
    """Leave out of the policy loss: actions that reach `max_new_tokens` without an end ("answers"),
    episodes that are truncated ("episodes"), or both ("all"). Their outcomes still count in the
    comparison of a group, and their values in the critic's loss (DAPO)."""
    trained_turns: Annotated[Fraction, Gt(0.0)] = 1.0
    """Share of the turns of each group, those with the highest mean entropy per token, that enter
    the policy loss (1: all, DART: 0.8). Groups are episodes with the same start."""
    check_logprobs: NonNegative | None = None
    """Abort the run when log-probabilities of generation and of training differ by more than this
    (nats, None: never). `rollout/logprob_gap` is the largest difference."""
    covariance_clip: Fraction = 0.0
    """Maximum share of tokens detached from the gradient because they lower the entropy most
    (Clip-Cov)."""
    filter_groups: Annotated[bool, GROUPED, SAME_RETURNS] = False
    """Drop groups whose episodes all have the same return of the environment, or the same success
    in a recipe that compares successes (dynamic sampling). If no group would remain, none is
    dropped."""
    thought_coef: NonNegative = 1.0
    """Weight of thought tokens in the policy loss (0: only the action of a reply is trained).
    Thoughts are the parts of a reply that the wrapper ExtractAction does not read. With a ratio of
    turns or trajectories it is 0 or 1, since tokens that share a ratio have one gradient."""
    thought_credit: Literal["token", "turn"] = "token"
    """Advantage of a thought token: its own, or that of its turn, the one of its first token."""

    @property
    def importance_span(self) -> str:
        """The tokens whose importance weights are multiplied, such as those of a turn."""
        return self.importance.removesuffix("_mask")

    @property
    def masks_mismatch(self) -> bool:
        """Whether tokens with an importance weight above the cap are left out of the loss."""
        return self.importance_cap is not None and self.importance.endswith("_mask")

    @property
    def masks_tokens(self) -> bool:
        """Whether tokens are left out of the policy loss."""
        masked = self.masks_mismatch or self.mask_truncated != "none"
        return masked or self.trained_turns < 1

    @property
    def penalises_rewards(self) -> bool:
        """Whether the KL penalty is subtracted from rewards, which the squared loss replaces."""
        return bool(self.kl_coef) and self.kl_in == "reward" and self.surrogate != "squared"

    @property
    def joins_trajectories(self) -> bool:
        """Whether the loss of a token depends on all tokens of its trajectory."""
        weighed = self.importance_cap is not None
        joined = weighed and self.importance_span in ("chunk", "trajectory")
        return joined or self.ratio.startswith(("chunk", "trajectory"))

    @property
    def reads_chunks(self) -> bool:
        """Whether the loss depends on the chunks of a credit."""
        return self.ratio.startswith("chunk") or self.importance_span == "chunk"

    @property
    def reference_every(self) -> int:
        """The number of iterations after which the reference policy moves, 0 if it never does.

        Raises:
            ConfigError: if `kl_reference` is unknown.
        """
        kind, _, number = self.kl_reference.partition(":")
        if self.kl_reference == "start":
            return 0
        if kind == "moving" and number.isdecimal() and int(number) > 0:
            return int(number)
        if kind == "polyak" and re.fullmatch(r"\d*\.?\d+", number) and 0 < float(number) <= 1:
            return 1
        raise ConfigError(
            "kl_reference must be 'start', 'moving:K' with a number K of iterations, or "
            f"'polyak:TAU' with a coefficient TAU in (0, 1], got {self.kl_reference!r}."
        )

    @property
    def reference_tau(self) -> float:
        """The coefficient with which the reference policy moves towards the policy."""
        kind, _, number = self.kl_reference.partition(":")
        return float(number) if kind == "polyak" else 1.0


@dataclass
class CloningConfig:
    """Behaviour cloning before RL, and data from files."""

    bc_demonstrations: Count = 0
    """Demonstrations of the scripted expert on training tasks, to clone before RL (0: none). With
    opponents of a game, the expert plays all trained seats, and each of them is cloned."""
    bc_epochs: Annotated[Positive, CLONED] = 10
    """Epochs over the demonstrations, the maximum with `bc_patience`."""
    bc_patience: Annotated[Positive | None, CLONED] = None
    """Hold out a tenth of the demonstrations, stop when their loss has not fallen for this many
    epochs, and keep the weights of the best epoch (None: all epochs on all demonstrations)."""
    bc_lr: Annotated[ByModel[NonNegative], CLONED] = BY_MODEL
    """Learning rate of behaviour cloning (None: 1e-3, for a loaded model 1e-5, for an adapter
    1e-4)."""
    bc_batch_tokens: Annotated[Positive | None, CLONED] = None
    """Tokens per step of behaviour cloning, without padding (None: 8192, fewer if there would be
    fewer than 400 steps in all)."""
    bc_lm_coef: Annotated[NonNegative, CLONED] = 0.0
    """Loss coefficient of the observation tokens. Above 0, a new model learns to read them."""
    bc_share: Annotated[Fraction, When("env_steps"), SHARED_BUDGET] = 0.0
    """Share of `env_steps` spent on demonstrations, in place of `bc_demonstrations`."""
    data: Annotated[tuple[str, ...], needs(REPLACED, bc_demonstrations=0)] = ()
    """Files with episodes to learn from, in place of the scripted expert's: chats (`messages`),
    ShareGPT, AgentInstruct, `agentgym export`, or folders of runs. They are cloned before RL, and
    are the data set of a recipe that learns offline, beside its dataset_episodes."""
    data_mask: Annotated[bool, When("data")] = True
    """Leave invalid actions of `data` out of the policy loss. They stay in the prompts. Replies
    marked by `weight` 0 or `loss` false are always left out."""
    general_data: Annotated[
        tuple[str, ...], When("clones", of="cloned episodes", remedy="data or bc_demonstrations")
    ] = ()
    """Files with general text in the same formats, cloned together with the episodes."""
    general_share: Annotated[float, Ge(0.0), Lt(1.0), When("general_data")] = 0.8
    """Share of the general text in the loss of cloning (AgentTuning: 0.8)."""
