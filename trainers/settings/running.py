"""Settings of a run: the model, evaluations, budget, seed and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt

from agentgym.trainers.policy.model_defaults import NEW_MODELS
from agentgym.trainers.settings.fields import (
    BY_MODEL,
    ByModel,
    Count,
    NonNegative,
    Positive,
    Seed,
)
from agentgym.trainers.settings.schema import When, needs

AUTOCAST = {"bf16": "bfloat16", "fp16": "float16"}
"""Data types of `mixed_precision`."""
LOADED = When(
    "model",
    but=NEW_MODELS,
    of="a pre-trained model",
    remedy="model to a Hub id or a folder",
)
PRETRAINED = When(
    "kind",
    but=("new",),
    of="a model that was pre-trained elsewhere",
    remedy="model to its Hub id or folder",
)
ADAPTER = When("lora_rank", remedy="lora_rank above 0")
SELF_PLAY = When(
    "opponents", but=("scripted", ("scripted",)), of="self-play", remedy="opponents, as in mirror"
)
EVALUATED = When("eval_episodes", remedy="eval_episodes above 0")

TEAM = needs(
    "the policy plays all seats of one game without wrappers, and all of them are trained",
    "opponents to mirror, and leave learners, wrap and eval_env_id empty",
    of=("self",), trains_whole_game=True,
)  # fmt: skip
ALL_PLAYED = "the policy plays in all seats"
NO_WRAPPERS = "the seats of the game have no wrappers"


@dataclass
class ModelConfig:
    """The language model."""

    model: str = "tiny"
    """"tiny", "nano", "small" or "reader" (a new decoder with a tokenizer trained on the
    environment's text), a Hugging Face id (the local cache comes first), or a folder. "reader"
    learns to copy from its prompt before the run. With `roles`, the folder may hold a policy for
    each of them."""
    trust_remote_code: Annotated[bool, LOADED] = False
    """Run Python code that the model folder contains. Set it only for models that you trust."""
    lora_rank: Annotated[Count, LOADED] = 0
    """Rank of the LoRA adapter (0: train all parameters)."""
    lora_alpha: Annotated[float, Gt(0.0), ADAPTER] = 32.0
    """LoRA alpha. The adapter is scaled by alpha / rank."""
    lora_targets: Annotated[tuple[str, ...] | None, ADAPTER] = None
    """Modules with an adapter (None: all linear layers of the decoder)."""
    dtype: ByModel[Literal["float32", "bfloat16", "float16", "auto"]] = BY_MODEL
    """Data type of the weights (None: bfloat16 for a loaded model on a GPU without
    `mixed_precision`, otherwise float32). Adapters, and the weights that the optimiser of full
    fine-tuning holds, are in float32."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    """Autocast of accelerate. The frozen base of a LoRA adapter is then kept in this precision."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. "auto": a GPU if available."""
    gradient_checkpointing: Annotated[bool, PRETRAINED] = True
    """Keep only the inputs of the model's layers and compute the layers again in the backward pass:
    less memory, slower updates. For loaded models that support it. On a GPU whose memory holds
    enough tokens without, the layers are kept."""


@dataclass
class EvaluationConfig:
    """Evaluation on held-out tasks."""

    eval_every: Annotated[Count, EVALUATED] = 10
    """Iterations between evaluations (0: only before and after training)."""
    eval_episodes: Count = 200
    """Held-out tasks per evaluation, in equal parts for all environments and trained seats of games
    (0: no evaluation)."""
    eval_temperature: NonNegative = 0.0
    """Sampling temperature of evaluations (0: greedy)."""
    eval_env_id: Annotated[tuple[str, ...], EVALUATED] = ()
    """Further environments of the evaluations, which are not trained on. `env_kwargs` are not
    theirs: ID:arg=value,... has arguments of its own."""
    eval_partners: Annotated[Literal["auto", "scripted", "self"], EVALUATED, SELF_PLAY, TEAM] = (
        "auto"
    )
    """Players of the other seats of a game in evaluations. scripted: scripted players. self: the
    policy, which then plays all seats as a team. eval/reward is the mean over the agents, and a
    success is one of all agents. auto: self in a game with a common reward whose seats are all
    played and trained by the policy and its snapshots, otherwise scripted."""
    eval_exploitability: Annotated[
        Count, EVALUATED, needs(ALL_PLAYED, learners=()), needs(NO_WRAPPERS, wrap=())
    ] = 0
    """Games from which each evaluation estimates a lower bound of the exploitability of the policy
    (0: none). A small game is evaluated exactly instead. In a zero-sum game, the folder best then
    holds the least exploitable policy. With `eval_temperature` 1, the policy is evaluated as it
    plays in training."""
    eval_baselines: Annotated[bool, EVALUATED] = False
    """Also evaluate the random agent and the scripted expert at the end."""


@dataclass
class RunConfig:
    """Budget, seed and output of a run."""

    iterations: Count = 100
    """Number of iterations, each a rollout and an update."""
    env_steps: Positive | None = None
    """Stop after this many environment steps if that comes first (None: no limit)."""
    seed: Seed = 0
    """Random seed."""
    run_dir: str = "runs/{recipe}-{env}-{seed}"
    """Folder for logs, checkpoints and the policy."""
    resume: bool = False
    """Continue the run in `run_dir` if there is one."""
    save_every: Positive = 1
    """Iterations, or epochs of behaviour cloning, between checkpoints."""
    save_minutes: ByModel[NonNegative] = BY_MODEL
    """Least minutes between checkpoints (None: 0, for a loaded model 10). A run that ends or is
    interrupted always saves."""
    keep: Positive = 2
    """Number of latest checkpoints to keep, besides the best policy."""
    log_with: tuple[str, ...] = ("tensorboard",)
    """Experiment trackers of accelerate: tensorboard, wandb, trackio, mlflow, ..."""
    transcripts: Count = 4
    """Trajectories per iteration written to trajectories.jsonl."""
    threads: Positive | None = None
    """Threads of PyTorch (None: its default)."""
    quiet: bool = False
    """Print only the final table."""
