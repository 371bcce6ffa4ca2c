"""`TrainConfig`: the settings that all recipes share; a recipe adds its own in a subclass."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from agentgym.arguments import parse_arguments
from agentgym.errors import ConfigError, did_you_mean
from agentgym.trainers.context import ContextSettings, Mode
from agentgym.trainers.generation import Normalization, Sampling
from agentgym.trainers.policy import LoraSettings

KeyValues = Annotated[
    dict[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="KEY=VALUE",
        instance_from_str=parse_arguments,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{key}={item}" for key, item in value.items()],
    ),
]

Normalize = Literal["batch", "task", "agent", "group", "none"]

# What may differ when a run is continued: it changes how long or how closely one looks, not what
# is computed.
FREE_ON_RESUME = frozenset(
    "iterations env_steps eval_every eval_episodes eval_baselines save_every keep run_dir resume "
    "threads env_workers microbatch_tokens device quiet transcripts trust_remote_code".split()
)


@dataclass
class TrainConfig:
    """Settings of a training run."""

    env_id: str = "AgentGym/NumberLine-v0"
    """Environment to train in: an id of `agentgym list`, or your_module:YourEnv-v0."""
    env_kwargs: KeyValues = field(default_factory=dict)
    """Arguments of the environment, such as max_turns=20."""
    train_tasks: int | None = None
    """Train on the first so many training tasks only; None: on all."""
    curriculum: Literal["uniform", "window", "failures", "progress"] = "uniform"
    """Which tasks a round is played in: any, those with a middling success rate, failed ones again,
    or those on which competence changes fastest."""
    horizons: tuple[int, ...] = ()
    """Longest episodes in turns, in stages; (): the environment's own limit throughout."""
    horizon_every: int = 100
    """Rounds of a stage."""
    env_workers: int = 0
    """Threads that step environments; for slow ones. 0: step them in the main thread."""

    model: str = "tiny"
    """"tiny", "nano" or "small" (made from the environment's own text), a Hugging Face id, or a
    folder."""
    trust_remote_code: bool = False
    """Run Python code that the model folder contains. Set it only for models that you trust."""
    lora_rank: int = 0
    """Rank of a LoRA adapter; 0 trains all parameters."""
    lora_alpha: float = 32.0
    """The adapter is scaled by alpha / rank."""
    lora_targets: tuple[str, ...] | None = None
    """Modules with an adapter; None: chosen by the architecture."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Type of the weights."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    """Type of the arithmetic, by accelerate."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """"auto" (a GPU if there is one), "cpu" or "cuda"."""

    context: Mode = "full"
    """What the model reads: everything, the last `window` turns, the current observation and all
    earlier actions, or the current observation alone."""
    window: int = 3
    """Earlier turns in the context "window"."""
    instructions: bool = True
    """Whether the environment's instructions open every prompt."""
    max_tokens: int | None = None
    """Limit of prompt plus action; None: the model's own."""
    constrain: bool = False
    """Choose among the admissible actions wherever the environment lists them."""
    normalization: Normalization | None = None
    """How they are drawn: token by token (None), or as a whole by a softmax over the sums of their
    log-probs ("sum"), divided by their tokens ("token") or words ("word")."""
    temperature: float = 1.0
    """Divides the logits when actions are sampled."""
    top_k: int = 0
    """Sample among the k most probable tokens; 0: among all."""
    top_p: float = 1.0
    """Sample among the most probable tokens that hold this much probability."""
    max_new_tokens: int = 32
    """Length at which a free-form action is cut off."""

    iterations: int = 100
    """Rounds of collecting and updating."""
    env_steps: int | None = None
    """Stop after so many turns, if that comes first."""
    episodes_per_iteration: int = 64
    """Episodes collected in a round."""
    group_size: int = 1
    """Episodes with the same start; group-relative credit needs at least 2."""
    num_envs: int = 64
    """Episodes played at once."""

    lr: float = 3e-4
    """Learning rate of the policy."""
    critic_lr: float = 1e-3
    """Learning rate of the critic."""
    lr_schedule: Literal["constant", "linear"] = "constant"
    """"linear" goes to 0 at the last iteration."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW)."""
    epochs: int = 2
    """Passes over what was collected."""
    minibatches: int = 4
    """Optimiser steps in a pass."""
    microbatch_tokens: int = 16384
    """Tokens, padding included, in one forward and backward pass; gradients are accumulated over a
    minibatch. Lower it if memory runs out: the result stays the same."""
    max_grad_norm: float = 1.0
    """Gradients of policy and critic are clipped to this norm, each by itself."""
    clip: float = 0.2
    """The ratio is clipped to [1 - clip, 1 + clip_high]."""
    clip_high: float | None = None
    """Upper clip; None: the same as `clip`."""
    dual_clip: float | None = None
    """Bounds the loss of a bad action by this many times its advantage; above 1. None: no bound."""
    covariance_clip: float = 0.0
    """Largest share of tokens that give no gradient because they drive the entropy down."""
    ratio: Literal["token", "turn", "trajectory"] = "token"
    """What has a probability ratio of its own."""
    aggregation: Literal["token", "turn", "trajectory", "constant"] = "token"
    """What counts the same in the loss: every token, turn or trajectory."""
    normalize_advantages: Normalize = "batch"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    filter_groups: bool = False
    """Leave out groups whose episodes all have the same return."""
    overlong_margin: int = 0
    """Charge for actions that come closer to max_new_tokens than this, up to 1 at the limit."""
    entropy_coef: float = 0.0
    """Weight of an entropy bonus."""
    entropy_floor: float | None = None
    """Give the bonus only to tokens whose entropy (in nats) is below this; None: to all."""
    kl_coef: float = 0.0
    """Weight of the divergence from the starting policy."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Whether the divergence is part of the loss or is taken off the rewards."""
    target_kl: float | None = None
    """End the passes of a round when the policy has moved this far (nats per token)."""
    max_kl: float = 10.0
    """Stop the run when it has moved this far: something is wrong."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    value_clip: float | None = None
    """Clip of the change of a value in a round; None: no clip."""
    critic_layers: tuple[int, ...] = (256,)
    """Widths of the critic's hidden layers."""
    critic_detach: bool = False
    """Whether the critic only reads the model's hidden states and does not train them."""
    critic_warmup: int = 0
    """Rounds at the start in which only the critic learns."""

    bc_demonstrations: int = 0
    """Expert demonstrations of training tasks to imitate first; 0: no warm start."""
    bc_share: float = 0.0
    """Share of `env_steps` that demonstrations take instead; their turns then count as steps."""
    bc_epochs: int = 10
    """Passes over the demonstrations."""
    bc_lr: float = 1e-3
    """Learning rate of imitation."""
    bc_batch_tokens: int = 8192
    """Tokens, padding included, in a step of imitation."""
    bc_lm_coef: float = 0.0
    """Weight of predicting the observations too: teaches a fresh model to read."""

    eval_every: int = 10
    """Evaluate on held-out tasks every so many rounds; 0: only before and after."""
    eval_episodes: int = 200
    """Held-out tasks played in an evaluation; 0: no evaluation at all."""
    eval_temperature: float = 0.0
    """Temperature of evaluations; 0: always the most probable action."""
    eval_baselines: bool = False
    """Also show the random agent and the scripted expert in the final table."""

    seed: int = 0
    """Everything random is derived from it."""
    run_dir: str = "runs/{recipe}-{env}-{seed}"
    """Where logs, checkpoints and the policy go."""
    save_every: int = 1
    """Write a checkpoint every so many rounds."""
    keep: int = 2
    """Latest checkpoints to keep, besides the best."""
    resume: bool = False
    """Continue the run in run_dir, if there is one."""
    transcripts: int = 4
    """Trajectories of every round written to trajectories.jsonl."""
    threads: int | None = None
    """Threads of PyTorch; None: its own choice."""
    quiet: bool = False
    """Show nothing but the final table."""

    def __post_init__(self) -> None:
        """Checks what can be checked before anything is loaded."""
        for name, lowest in _AT_LEAST.items():
            value = getattr(self, name, None)
            if value is not None and not value >= lowest:  # so, not-a-number is refused too
                raise ConfigError(f"{name} must be at least {lowest}, got {value}.")
        for name in _FRACTIONS:
            value = getattr(self, name, None)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} must be in [0, 1], got {value}.")
        for name, kind in get_type_hints(type(self)).items():
            known, value = _listed(kind), getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{name} must be finite, got {value}.")
            if known and value not in known:
                hint = did_you_mean(str(value), [str(x) for x in known])
                raise ConfigError(f"{name} must be one of {known}, got {value!r}.{hint}")
        if self.episodes_per_iteration % self.group_size:
            raise ConfigError(
                f"episodes_per_iteration = {self.episodes_per_iteration} does not divide into "
                f"groups of group_size = {self.group_size}."
            )
        if self.temperature <= 0:
            raise ConfigError(
                f"temperature must be above 0 in training, got {self.temperature}: an agent that "
                "never tries anything else learns nothing. eval_temperature may be 0."
            )
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be in (0, 1], got {self.top_p}.")
        if any(turns < 1 for turns in self.horizons):
            raise ConfigError(f"horizons are turns, at least 1 each; got {self.horizons}.")
        if self.overlong_margin > self.max_new_tokens:
            raise ConfigError(
                f"overlong_margin = {self.overlong_margin} is more than an action can have: "
                f"max_new_tokens = {self.max_new_tokens}."
            )
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise ConfigError(
                f"dual_clip bounds a ratio that has left the clip and is above 1; got "
                f"{self.dual_clip}."
            )
        if self.entropy_floor is not None and not self.entropy_coef:
            raise ConfigError(
                "entropy_floor says which tokens get the entropy bonus: set entropy_coef above 0."
            )
        if self.filter_groups and self.group_size < 2:
            raise ConfigError("filter_groups compares a group's episodes: set group_size above 1.")
        if self.bc_share and (self.env_steps is None or self.bc_demonstrations):
            raise ConfigError(
                "bc_share divides a budget of env_steps between demonstrations and play: set "
                "env_steps, and leave bc_demonstrations at 0."
            )
        if self.lora_rank and self.model in ("tiny", "nano", "small"):
            raise ConfigError(
                f"A freshly made {self.model!r} model has nothing to adapt: leave lora_rank at 0, "
                "or name a trained model."
            )
        if self.dtype == "float16" and not self.lora_rank:
            raise ConfigError(
                "float16 weights cannot take the small steps of full fine-tuning: use dtype "
                "bfloat16 or float32 (with mixed_precision fp16), or train an adapter (lora_rank)."
            )
        self.context_settings()  # raises for settings that cannot work

    def fixed(self, why: str, **settings: Any) -> None:
        """Raises ConfigError where a recipe cannot heed a setting and it has another value."""
        for name, value in settings.items():
            if (got := getattr(self, name)) != value:
                raise ConfigError(f"{name} must be {value!r} here, got {got!r}: {why}.")

    @property
    def imitates(self) -> bool:
        """Whether the run begins with demonstrations."""
        return self.bc_demonstrations > 0 or self.bc_share > 0

    def context_settings(self) -> ContextSettings:
        """Returns what the model reads."""
        return ContextSettings(self.context, self.window, self.instructions, self.max_tokens)

    def sampling(self) -> Sampling:
        """Returns how actions are drawn in training."""
        return Sampling(
            self.temperature, self.top_k, self.top_p, self.max_new_tokens, self.normalization
        )

    @property
    def recompute_logprobs(self) -> bool:
        """Whether ratios start from training's own forward pass rather than from what was sampled.

        Arithmetic of low precision differs between generation and training.
        """
        return self.dtype != "float32" or self.mixed_precision != "no"

    def evaluation_sampling(self) -> Sampling:
        """Returns how actions are drawn in evaluations."""
        return dataclasses.replace(self.sampling(), temperature=self.eval_temperature)

    def lora(self) -> LoraSettings | None:
        """Returns the adapter's settings, if there is to be one."""
        if not self.lora_rank:
            return None
        return LoraSettings(self.lora_rank, self.lora_alpha, targets=self.lora_targets)

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in dataclasses.asdict(self).items()
        }


def _listed(kind: Any) -> tuple[Any, ...]:
    """Returns the values of a `Literal`, also of one that may be None; () for any other type."""
    parts = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    found = [value for part in parts for value in get_args(part)]
    return (*found, None) if found and type(None) in get_args(kind) else tuple(found)


# Of these settings and of those that recipes add, wherever they have them.
_FRACTIONS = (
    "bc_share gamma gamma_token lambda_turn lambda_token tau expectile covariance_clip".split()
)
_AT_LEAST = {
    "train_tasks": 1,
    "env_workers": 0,
    "horizon_every": 1,
    "lora_rank": 0,
    "top_k": 0,
    "max_new_tokens": 1,
    "iterations": 0,
    "env_steps": 1,
    "episodes_per_iteration": 1,
    "group_size": 1,
    "num_envs": 1,
    "lr": 0.0,
    "critic_lr": 0.0,
    "epochs": 1,
    "minibatches": 1,
    "microbatch_tokens": 1,
    "max_grad_norm": 1e-12,
    "clip": 0.0,
    "clip_high": 0.0,
    "covariance_clip": 0.0,
    "overlong_margin": 0,
    "entropy_coef": 0.0,
    "entropy_floor": 0.0,
    "kl_coef": 0.0,
    "target_kl": 0.0,
    "max_kl": 0.0,
    "value_coef": 0.0,
    "value_clip": 0.0,
    "critic_warmup": 0,
    "bc_demonstrations": 0,
    "bc_epochs": 1,
    "bc_batch_tokens": 1,
    "bc_lm_coef": 0.0,
    "eval_every": 0,
    "eval_episodes": 0,
    "eval_temperature": 0.0,
    "save_every": 1,
    "keep": 1,
    "transcripts": 0,
    "threads": 1,
    "alpha": 0.0,
    "beta": 0.0,
    "omega": 0.0,
    "chunk_size": 1,
    "history": 0,
    "label_every": 1,
    "model_lr": 0.0,
    "model_epochs": 1,
    "trunk_lr": 0.0,
    "conservative": 0.0,
    "critic_steps": 1,
    "critic_batch": 1,
}
