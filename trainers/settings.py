"""Groups of settings shared by all recipes.

Each group is a dataclass. `TrainConfig` nests the groups, and their flags on the command line are
flat. Bounds of numbers are annotations of the fields (`annotated_types`). Choices are `Literal`s.
The docstring of a field is its help text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Optional,
    TypeVar,
    get_type_hints,
)

import tyro
from annotated_types import Ge, Gt, Interval, Lt

from agentgym.errors import ConfigError
from agentgym.making import short_id
from agentgym.trainers.opponents import POOLS, Opponent, parse_opponents
from agentgym.trainers.policy.sampling import Normalization
from agentgym.trainers.rollout.context import Mode, Overflow
from agentgym.utils.arguments import parse_arguments

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


def _one_or_more(metavar: str) -> Any:
    """Returns how the command line reads one word as a str, and several as a tuple."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{metavar} [{metavar} ...]",
        instance_from_str=lambda words: words[0] if len(words) == 1 else tuple(words),
        is_instance=lambda value: isinstance(value, str | tuple),
        str_from_instance=lambda value: [value] if isinstance(value, str) else list(value),
    )


EnvIds = Annotated[str | tuple[str, ...], _one_or_more("ID")]
"""One id, or several."""
Opponents = Annotated[str | tuple[str, ...], _one_or_more("OPPONENT")]
"""One kind of opponents, or a mixture of several (`agentgym.trainers.opponents`)."""
Count = Annotated[int, Ge(0)]
"""An integer of at least 0."""
Positive = Annotated[int, Ge(1)]
"""An integer of at least 1."""
NonNegative = Annotated[float, Ge(0.0)]
"""A number of at least 0."""
Fraction = Annotated[float, Interval(ge=0.0, le=1.0)]
"""A number in [0, 1]."""
Seed = Annotated[int, Ge(0), Lt(2**63)]
"""An integer of at least 0 and below 2^63."""
Normalize = Literal["batch", "env", "task", "agent", "group", "none"]

T = TypeVar("T")
if TYPE_CHECKING:
    ByModel = Annotated[T, None]
else:
    ByModel = Optional
"""A setting whose default depends on the kind of model. None stands for that default until
`TrainConfig` replaces it by the value in `model_defaults`."""
BY_MODEL: Any = None


@dataclass
class EnvironmentConfig:
    """The environment and its training tasks."""

    env_id: EnvIds = "AgentGym/NumberLine-v0"
    """Environment id (see `agentgym list`), or your_module:YourEnv-v0. Several ids are trained in
    one run. ID:arg=value,... has arguments of its own, as in KG-QA-v0:hops=1 KG-QA-v0:hops=2."""
    mix: tuple[int, ...] = ()
    """How often each environment is played, if there are several, for example 2 1 1 (empty: equally
    often)."""
    env_kwargs: KeyValues = field(default_factory=dict)
    """Arguments of the environments, such as max_turns=20."""
    wrap: tuple[str, ...] = ()
    """Wrappers of the environment, the first one innermost: names of agentgym.wrappers or
    module:Class, with arguments as in ExtractAction:format=tags. Evaluations use them too."""
    train_tasks: Positive | None = None
    """Number of training tasks to use, from the first (None: all)."""
    curriculum: str = "uniform"
    """Sampling of training tasks: uniform, tasks with a medium success rate ("window"), failed
    tasks again ("failures"), tasks with the largest regret again ("regret"), tasks with the
    largest learning progress ("progress"), or the environments of several ids one after another
    ("levels"). module:function proposes tasks from success rates."""
    horizons: tuple[int, ...] = ()
    """Turn limits of successive stages, for example 5 10 20. Empty: the environment's limit."""
    horizon_every: Positive = 100
    """Iterations per stage of `horizons`."""
    env_workers: Count = 0
    """Threads that step slow environments (0: the main thread). Which of them act together then
    depends on their speed, and with it the last bits of a run."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the environments."""
        return (self.env_id,) if isinstance(self.env_id, str) else tuple(self.env_id)

    @property
    def label(self) -> str:
        """The ids without namespaces, joined by "+"."""
        return "+".join(short_id(id) for id in self.ids)


@dataclass
class GameConfig:
    """The players of a game with several agents."""

    opponents: Opponents = "scripted"
    """Players of the other seats of a game. With scripted, scripted players of the level in
    `env_kwargs`, or scripted:LEVEL. With mirror, the policy itself, and all seats are trained. With
    the others, one seat is trained, in turn: past:K (the last K snapshots of the policy), winrate:R
    (snapshots, each taken when the policy wins at rate R), league (all snapshots, preferring those
    that win), psro, psro:uniform, psro:nash or psro:alpharank (the meta-strategy of their payoff
    matrix), policy:FOLDER, chat:MODEL@URL, or an agent around another one such as
    plan_execute:chat:MODEL@URL. Several are mixed by weights, as in mirror=0.7 past:5=0.3."""
    learners: tuple[str, ...] = ()
    """Seats that are trained, such as player_0 (empty: all). With opponents mirror, scripted
    players play the other seats."""
    explorers: Literal["all", "one"] = "all"
    """Seats that explore with `epsilon`: all, or one in each episode, in turn. With "one" and a
    large `epsilon`, the policy's own actions meet random ones."""
    snapshot_every: Positive = 10
    """Iterations between the snapshots of opponents past:K, league and psro."""
    payoff_deals: Positive = 100
    """Deals that each pair of snapshots plays, in all seats, for the payoff matrix of psro."""
    roles: Literal["shared", "separate", "adapters"] = "shared"
    """Policies of the roles of a game: one for all roles ("shared"), a full policy for each role
    ("separate"), or one frozen base model with a LoRA adapter for each role ("adapters")."""
    role_lr: KeyValues = field(default_factory=dict)
    """Learning rates of roles that have a policy of their own, such as verifier=1e-5, in place of
    `lr`. 0 freezes a role: its policy, and its critic with `critic_trunk` policy."""
    alternate: Count = 0
    """Train one role at a time, for this number of iterations (0: all roles at once)."""
    exchange: Count = 0
    """Iterations after which each role takes over the policy, critic and optimiser of the role
    before it (0: never)."""

    @property
    def mixture(self) -> tuple[Opponent, ...]:
        """The components of `opponents`.

        Raises:
            ConfigError: for a kind, an argument or weights that are not known.
        """
        return parse_opponents(self.opponents)

    @property
    def scripted(self) -> bool:
        """Whether the policy plays a single seat of an environment, as a single agent."""
        return self.opponents in ("scripted", ("scripted",))

    @property
    def pool(self) -> Opponent | None:
        """The opponent that plays members of the pool, if there is one."""
        return next((each for each in self.mixture if each.kind in POOLS), None)

    @property
    def frozen(self) -> bool:
        """Whether frozen policies play some of the seats."""
        return any(each.kind in (*POOLS, "policy") for each in self.mixture)


@dataclass
class ModelConfig:
    """The language model."""

    model: str = "tiny"
    """"tiny", "nano", "small" or "reader" (a new decoder with a tokenizer trained on the
    environment's text. "reader" can copy before it sees the text), a Hugging Face id, or a
    folder."""
    trust_remote_code: bool = False
    """Run Python code that the model folder contains. Set it only for models that you trust."""
    lora_rank: Count = 0
    """Rank of the LoRA adapter (0: train all parameters)."""
    lora_alpha: float = 32.0
    """LoRA alpha. The adapter is scaled by alpha / rank."""
    lora_targets: tuple[str, ...] | None = None
    """Modules with an adapter (None: the default of the architecture)."""
    dtype: ByModel[Literal["float32", "bfloat16", "float16", "auto"]] = BY_MODEL
    """Data type of the weights (None: bfloat16 for a loaded model on a GPU without
    `mixed_precision`, otherwise float32). Adapters, and the weights that the optimiser of full
    fine-tuning holds, are in float32."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    """Autocast of accelerate. The frozen base of a LoRA adapter is then kept in this precision."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. "auto": a GPU if available."""
    gradient_checkpointing: bool | None = None
    """Keep only the inputs of the model's layers and compute the layers again in the backward pass:
    less memory, slower updates (None: for a loaded model that supports it)."""


@dataclass
class RolloutConfig:
    """Prompts, sampling of actions, and the size of a rollout."""

    context: Mode = "full"
    """Prompt: the full history ("full"), the last `window` turns ("window"), all earlier actions
    with the current observation ("actions"), or the current observation alone ("current")."""
    window: int = 3
    """Earlier turns in the context "window"."""
    instructions: bool = True
    """Start every prompt with the environment's instructions."""
    constrain: bool = False
    """Sample from the admissible actions if the environment lists them."""
    stop: tuple[str, ...] = ()
    """Strings that end a free-form action, such as "</action>", besides the end tokens of the
    model. The action is the text before the string."""
    max_new_tokens: ByModel[Positive] = BY_MODEL
    """Maximum length of a free-form action in tokens (None: 32, for a loaded model 256)."""
    episodes_per_iteration: Positive = 64
    """Episodes per iteration."""
    group_size: Positive = 1
    """Episodes per task and seed. Group-relative credit needs at least 2."""
    adaptive_groups: bool = False
    """Play more episodes of tasks with a medium success rate in earlier iterations, and fewer, at
    least 2, of tasks that always fail or succeed. `group_size` is then the mean."""
    num_envs: Positive = 64
    """Environments stepped in parallel."""
    engine: Literal["own", "vllm"] = "own"
    """Engine that generates the actions: the trained model itself ("own"), or vLLM in the same
    process, with a copy of the weights that follows every update ("vllm")."""
    engine_url: str | None = None
    """Address of a running vLLM server that generates in place of this process, such as
    http://localhost:8000 (None: none)."""
    engine_memory: Annotated[float, Gt(0.0), Lt(1.0)] = 0.3
    """Share of a GPU's memory that vLLM takes for its copy of the weights and its cache."""
    engine_sleep: bool = False
    """Free that memory while the model is trained: vLLM's weights wait in the CPU's memory."""
    rollout_workers: Count = 0
    """Processes of Ray that play the episodes, each with a copy of the model and its share of
    `num_envs` (0: this process plays them)."""
    worker_cpus: Positive = 1
    """CPU cores of a rollout worker."""
    worker_gpus: NonNegative = 0.0
    """GPUs of a rollout worker, for example 0.5 for two workers on one."""
    ray_address: str | None = None
    """Address of the Ray cluster with the rollout workers, "auto" for the one that runs on this
    machine (None: start Ray on this machine)."""
    max_staleness: Count = 0
    """Maximum age of the weights that play an episode, in iterations. Above 0, rollout workers
    play while the policy is updated (0: they wait for the new weights)."""
    cross_policy: Fraction = 0.0
    """Share of the turns that an older copy of the policy samples (cross-policy sampling, arXiv
    2510.04206). Episodes then reach states that the policy alone no longer visits."""
    cross_policy_every: Positive = 10
    """Iterations after which the older copy is renewed."""
    generation_batch: Positive | None = None
    """Maximum number of actions generated together (None: as their keys and values allow)."""
    continuous_batching: bool = False
    """Step environments and begin their next actions while other actions are still generated. Meant
    for slow environments (env_workers): with fast ones on a CPU it gains nothing."""
    temperature: float = 1.0
    """Sampling temperature."""
    top_k: Count = 0
    """Top-k sampling: sample from the k most probable tokens (0: all)."""
    top_p: float = 1.0
    """Nucleus sampling: sample from the most probable tokens with this total probability."""
    normalization: Normalization | None = None
    """Sampling of admissible actions. None: token by token. Otherwise a softmax over the
    log-probabilities of whole actions: their sum ("sum"), or the sum divided by the number of
    tokens ("token") or words ("word")."""
    epsilon: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0
    """Epsilon-greedy exploration: probability of a uniform choice among the admissible actions, in
    place of the policy's (with `constrain`). Behaviour log-probabilities are those of the mixture,
    and `importance_cap` corrects for them. Frozen opponents explore too. Evaluations do not."""
    max_tokens: int | None = None
    """Maximum length of prompt plus action in tokens (None: the limit of the model)."""
    template_kwargs: KeyValues = field(default_factory=dict)
    """Arguments of the model's chat template, such as enable_thinking=false. An argument that the
    template never reads is refused."""
    overflow: Overflow = "truncate"
    """End of an episode whose prompt exceeds the context: truncated, so that a critic bootstraps
    its last value, or terminal ("terminate"), so that no reward is expected after it."""


@dataclass
class GroupRolloutConfig(RolloutConfig):
    """Rollouts in groups, for recipes that compare episodes with the same start."""

    group_size: Annotated[int, Ge(2)] = 8
    """Episodes per task and seed, at least 2: an episode is compared with its group."""


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
    """Learning-rate schedule. "linear" decays to 0 at the last iteration."""
    lr_warmup: Count = 0
    """Iterations in which the learning rates increase linearly to their full values."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW)."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's averages of the gradient and of its square."""
    adam_eps: ByModel[NonNegative] = BY_MODEL
    """Added to the denominator of AdamW's step (None: 1e-5, for a loaded model 1e-8)."""
    max_grad_norm: Annotated[float, Ge(1e-12)] = 1.0
    """Gradient norm clip, for policy and critic separately."""
    microbatch_tokens: Positive | None = None
    """Tokens per forward and backward pass, padding included (None: as many as fit into the free
    memory of a GPU, 4096 on a CPU). Gradients are accumulated over a minibatch, so a lower value
    saves memory and gives the same result. It is halved if a GPU runs out of memory."""


@dataclass
class LossConfig:
    """The policy loss and the advantages that enter it."""

    clip: NonNegative = 0.2
    """PPO clip: the ratio is clipped to [1 - clip, 1 + clip_high]."""
    clip_high: NonNegative | None = None
    """Upper clip, as in clip-higher (None: the same as `clip`)."""
    clip_gradient: bool = False
    """Keep the gradient of tokens above the upper clip, with the bound as their ratio (AEPO)."""
    dual_clip: Annotated[float, Gt(1.0)] | None = None
    """Dual clip: bounds the loss of a negative advantage by this multiple (None: no bound)."""
    ratio: Literal["token", "turn", "turn_product", "trajectory", "trajectory_product", "none"] = (
        "token"
    )
    """Granularity of the importance-sampling ratio: of a token, the geometric mean over the tokens
    of a turn or trajectory, or the product over them, which is the ratio of the action or of the
    whole trajectory. none: no ratio, no clip and no KL to the behaviour policy, for the gradient of
    plain log-likelihood."""
    aggregation: Literal["token", "turn", "trajectory", "constant"] = "token"
    """Loss aggregation: mean over tokens, turns or trajectories, or a sum divided by a constant
    (Dr. GRPO)."""
    normalize_advantages: Normalize = "batch"
    """Standardise advantages over the batch, each environment, task, agent or group ("none": do
    not)."""
    entropy_coef: NonNegative = 0.0
    """Entropy bonus coefficient."""
    entropy_floor: NonNegative | None = None
    """Give the entropy bonus only to tokens with an entropy below this in nats (None: to all)."""
    kl_coef: NonNegative = 0.0
    """KL penalty coefficient with respect to the reference policy."""
    kl_reference: str = "start"
    """Reference policy: the policy before RL ("start"), the policy itself, renewed every K
    iterations ("moving:K"), or the exponential moving average of its weights, or of the weights of
    its adapter, with the coefficient TAU per iteration ("polyak:TAU"). In self-play, a penalty on
    leaving a slowly moving reference damps the cycles of the last policy."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Add the KL penalty to the loss or subtract it from the rewards."""
    target_kl: NonNegative | None = None
    """End the epochs of an iteration when the approximate KL to the behaviour policy exceeds this
    (nats/token, None: never). Without a ratio, there is no estimate, and this has no effect."""
    max_kl: NonNegative = 10.0
    """Abort the run when the approximate KL to the behaviour policy exceeds this (nats/token)."""
    importance_cap: Annotated[float, Gt(0.0)] | None = None
    """Truncated importance sampling: weight the policy loss of each token by
    min(exp(log p_training - log p_generation), cap), for generation and training that compute
    different log-probabilities, or differ in their weights (None: no weights, with
    `max_staleness`, `cross_policy` or `epsilon` 5, as AReaL publishes). Ratios then compare with
    the policy before the update."""
    check_logprobs: NonNegative | None = None
    """Abort the run when log-probabilities of generation and of training differ by more than this
    (nats, None: never). `rollout/logprob_gap` is the largest difference."""
    covariance_clip: Fraction = 0.0
    """Maximum share of tokens detached from the gradient because they lower the entropy most
    (Clip-Cov)."""
    filter_groups: bool = False
    """Drop groups whose episodes all have the same return (dynamic sampling)."""
    group_weight: Literal["none", "difficulty"] = "none"
    """Weight of a group's advantages: equal, or from 1 for a task that the whole group solves to 2
    for one that it fails ("difficulty"), divided by the mean."""
    thought_coef: NonNegative = 1.0
    """Weight of thought tokens in the policy loss (0: only the action of a reply is trained).
    Thoughts are the parts of a reply that the wrapper ExtractAction does not read."""
    thought_credit: Literal["token", "turn"] = "token"
    """Advantage of a thought token: its own, or that of its turn, the one of its first token."""
    overlong_margin: Count = 0
    """Soft overlong penalty: grows from 0 to 1 over the last tokens before `max_new_tokens`."""

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
class RewardConfig:
    """Changes of the rewards before credit assignment, for recipes that assign credit from rewards.

    Metrics of the rollout and evaluations show the environment's rewards.
    """

    shape_progress: NonNegative = 0.0
    """Weight of potential-based shaping by `info["progress"]`, which leaves optimal policies
    unchanged (0: none). The potential is 0 at the end of an episode, so undiscounted returns of
    whole episodes do not change."""
    process_reward: str = ""
    """Process reward of each turn: "progress" (1 if the turn raises the progress), "valid" (1 for a
    valid action), a reward term of the environment, module:function, which maps an episode, with
    the turns of all its agents, to scores in [0, 1], or chat:MODEL@URL, a language model that
    scores every turn (empty: none)."""
    process_weight: Fraction = 0.5
    """Weight w of the process reward: (1 - w) reward + w process reward."""
    process_iterations: Count = 0
    """Iterations in which the weight falls linearly to 0, so that outcomes decide in the end
    (Atom-Searcher, 0: a constant weight)."""
    process_combine: Literal["mean", "outcome", "gated", "episode", "turn"] = "mean"
    """Process reward of an episode: the mean score of its turns ("mean"), or scores that are moved
    by the outcome so that no turn of a success is penalised and none of a failure is rewarded
    ("outcome", ReNorm), or the mean score in a success and 0 in a failure ("gated", DeepTravel). Or
    the rewards of all agents, divided anew in proportion to the scores: over all turns of the
    episode ("episode"), or over the agents that act in a turn of the environment ("turn")."""
    reward_constraints: KeyValues = field(default_factory=dict)
    """Least means of reward terms per episode, such as format=0. The weight of a term starts at 1,
    grows while its mean is below and falls while it is above."""
    constraint_lr: NonNegative = 0.1
    """Step size of these weights."""
    novelty_bonus: NonNegative = 0.0
    """Reward of a turn that leads to a state which is new in the episode."""
    count_bonus: NonNegative = 0.0
    """Reward of an action that was rarely taken in its state: the bonus divided by the square root
    of the number of times in the run so far (MBIE-EB). States are compared by `info["state_key"]`
    within an environment, also between tasks."""

    @property
    def splits_rewards(self) -> bool:
        """Whether rewards of several agents are divided anew among them."""
        return bool(self.process_reward) and self.process_combine in ("episode", "turn")


@dataclass
class CriticConfig:
    """The critic, for recipes that have one."""

    critic_lr: ByModel[NonNegative] = BY_MODEL
    """Learning rate of the critic (None: 1e-3, for a loaded model 1e-4)."""
    value_coef: NonNegative = 0.5
    """Value loss coefficient."""
    value_clip: NonNegative | None = None
    """Clip of the value change per iteration (None: no clip)."""
    critic_layers: tuple[int, ...] = (256,)
    """Widths of the critic's hidden layers."""
    critic_detach: bool = False
    """Stop the gradient of the value loss at the model's hidden states."""
    critic_warmup: Count = 0
    """Number of first iterations in which only the critic is trained."""
    lr_by_reliability: bool = True
    """Multiply the policy's learning rate by the reliability of the advantages: the standard
    deviation of returns divided by that of the advantages, at most 1. Advantages that vary more
    than returns are the critic's error, and a batch of equal returns takes no step."""
    critic_trunk: Literal["policy", "own"] = "policy"
    """The language model that the critic reads with: the policy, or a copy that only the value loss
    trains (an adapter's base is shared). Values of the copy are normalised. Roles with policies of
    their own share one such critic."""
    critic_sees: Literal["own", "all", "hidden", "state"] = "own"
    """Input of a critic with its own trunk: the prompt of the agent ("own"), or a text that the
    policy never reads. "hidden": the hidden state (`TextEnv.privileged_text`) beside the prompt
    (asymmetric actor-critic). "state": the same in place of the prompt, with less computation.
    "all": beside the prompt, the observations of all other agents of a game at that time, as for
    the central critic of MAPPO."""
    critic_head: Literal["scalar", "two_hot"] = "scalar"
    """Output of a critic with its own trunk: the value, or logits over bins whose expectation is
    the value, trained by cross-entropy (DreamerV3). The bins follow the scale of the returns."""
    critic_epochs: Positive = 2
    """Epochs per iteration of a critic with its own trunk."""
    critic_rounds: Positive = 4
    """Last iterations whose episodes a critic with its own trunk is fitted to."""
    critic_batch_tokens: Positive = 8192
    """Tokens per step of a critic with its own trunk."""
    critic_episodes: Count = 0
    """Episodes played before RL to fit a critic with its own trunk."""

    @property
    def sees_hidden_state(self) -> bool:
        """Whether the critic reads the hidden state of the environment."""
        return self.critic_sees in ("hidden", "state")


@dataclass
class ImitationConfig:
    """Behaviour cloning before RL, and data from files."""

    bc_demonstrations: Count = 0
    """Expert demonstrations on training tasks (0: no behaviour cloning). With opponents of a game,
    the expert plays all trained seats, and each of them is cloned."""
    bc_epochs: Positive = 10
    """Epochs over the demonstrations, the maximum with `bc_patience`."""
    bc_patience: Positive | None = None
    """Hold out a tenth of the demonstrations, stop when their loss has not fallen for this many
    epochs, and keep the weights of the best epoch (None: all epochs on all demonstrations)."""
    bc_lr: ByModel[float] = BY_MODEL
    """Learning rate of behaviour cloning (None: 1e-3, for a loaded model 1e-5, for an adapter
    1e-4)."""
    bc_batch_tokens: Positive = 8192
    """Tokens per step of behaviour cloning, without padding. There are at least four steps per
    epoch."""
    bc_lm_coef: NonNegative = 0.0
    """Loss coefficient of the observation tokens. Above 0, a new model learns to read them."""
    bc_share: Fraction = 0.0
    """Share of `env_steps` spent on demonstrations, in place of `bc_demonstrations`."""
    data: tuple[str, ...] = ()
    """Files with episodes to learn from, in place of the scripted expert's: chats (`messages`),
    ShareGPT, AgentInstruct, `agentgym export`, or folders of runs. They are cloned before RL, and
    are the data set of a recipe that learns offline."""
    data_mask: bool = True
    """Leave invalid actions of `data` out of the policy loss. They stay in the prompts. Replies
    marked by `weight` 0 or `loss` false are always left out."""
    general_data: tuple[str, ...] = ()
    """Files with general text in the same formats, cloned together with the episodes."""
    general_share: Annotated[float, Ge(0.0), Lt(1.0)] = 0.8
    """Share of the general text in the loss of cloning (AgentTuning: 0.8)."""


@dataclass
class EvaluationConfig:
    """Evaluation on held-out tasks."""

    eval_every: Count = 10
    """Iterations between evaluations (0: only before and after training)."""
    eval_episodes: Count = 200
    """Held-out tasks per evaluation (0: no evaluation)."""
    eval_temperature: NonNegative = 0.0
    """Sampling temperature of evaluations (0: greedy)."""
    eval_env_id: tuple[str, ...] = ()
    """Further environments of the evaluations, which are not trained on."""
    eval_nashconv: bool = False
    """Also compute NashConv of the policy in each evaluation, exactly, in a small game. It is
    logged as eval/nashconv and drawn in curve.png. With `eval_temperature` 1, the policy is
    evaluated as it plays in training."""
    eval_baselines: bool = False
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
    """Iterations between checkpoints."""
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


@cache
def groups_of(kind: type) -> dict[str, type]:
    """Returns the groups of settings of a configuration class: its fields that are dataclasses."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if is_dataclass(hints[each.name])}


@cache
def group_of(kind: type) -> dict[str, str]:
    """Returns the group of each grouped setting of a configuration class."""
    return {each.name: name for name, group in groups_of(kind).items() for each in fields(group)}


def defaults(group: type, **changes: Any) -> Any:
    """Returns a dataclass field for a group of settings with other defaults.

    Args:
        group: the dataclass of the group.
        **changes: the settings that differ, by name.
    """
    group(**changes)  # an unknown name fails where the recipe is defined
    return field(default_factory=lambda: group(**changes))
