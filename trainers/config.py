"""`TrainConfig`: the settings of a training run, in groups. Recipes subclass it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Self

from agentgym.errors import ConfigError, UnknownArgumentError, did_you_mean
from agentgym.mixture import check_mix
from agentgym.trainers.credit.shaping import score_function
from agentgym.trainers.model_defaults import (
    NEW_MODELS,
    Kind,
    bfloat16_is_native,
    defaults_of,
    kind_of,
)
from agentgym.trainers.policy.policy import LoraSettings
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.vllm_base import check_bounded
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.curriculum import MINIMUM
from agentgym.trainers.settings import (
    CriticConfig,
    EnvironmentConfig,
    EvaluationConfig,
    GameConfig,
    ImitationConfig,
    LossConfig,
    ModelConfig,
    OptimisationConfig,
    RewardConfig,
    RolloutConfig,
    RunConfig,
    check,
    group_of,
    groups_of,
)

# Settings that may differ when a run is resumed: they change its length, its output or its random
# numbers (the engine), not its distribution of results.
FREE_ON_RESUME = frozenset(
    "iterations env_steps eval_every eval_episodes eval_baselines eval_nashconv save_every keep "
    "run_dir resume threads env_workers microbatch_tokens generation_batch device quiet "
    "transcripts log_with trust_remote_code gradient_checkpointing save_minutes engine "
    "engine_url engine_memory engine_sleep continuous_batching rollout_workers worker_cpus "
    "worker_gpus ray_address".split()
)
STALE_CAP = 5.0
"""Default of `importance_cap` with older weights: `behav_imp_weight_cap` of the published
configurations of AReaL (arXiv 2505.24298), which drops tokens above it instead of truncating."""
UNCHANGED_REWARDS: dict[str, Any] = {
    "kl_in": "loss", "overlong_margin": 0, "shape_progress": 0.0, "process_reward": "",
    "novelty_bonus": 0.0, "reward_constraints": {},
}  # fmt: skip
"""Values of the settings that change rewards, for recipes whose credit does not depend on them."""


@dataclass
class TrainConfig:
    """Settings of a training run.

    `TrainConfig.of(lr=1e-4, env_id="WebShop-v0")` takes the settings by their flat names, as the
    command line does. A recipe's subclass adds settings as fields, and other defaults with
    `settings.defaults`.

    Attributes:
        kind: the kind of model, which decides on defaults.
        by_kind: the settings that have the default of the kind of model, with their values.
    """

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    game: GameConfig = field(default_factory=GameConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    run: RunConfig = field(default_factory=RunConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    optimisation: OptimisationConfig = field(default_factory=OptimisationConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        """Checks everything that can be checked before anything is loaded."""
        for name, kind in groups_of(type(self)).items():
            group = getattr(self, name)
            if not isinstance(group, kind):
                raise ConfigError(
                    f"{name} is a group of settings, a {kind.__name__}, got {group!r:.80}. "
                    f"{type(self).__name__}.of(...) takes the settings by their flat names."
                )
            check(group)
        check(self)
        self._resolve()
        _check_optimisation(self)
        _check_rollout(self)
        _check_loss(self)
        _check_reward(self)
        _check_environments(self)
        _check_roles(self)
        self.game.mixture  # noqa: B018  # raises for unknown opponents
        if self.game.learners and self.game.scripted:
            raise ConfigError(
                "learners names seats of self-play, so it needs opponents such as mirror or "
                "past:5. Against scripted opponents, use env_kwargs seat=player_0."
            )
        if self.evaluation.eval_nashconv and not self.evaluation.eval_episodes:
            raise ConfigError(
                "eval_nashconv is part of the evaluations: set eval_episodes above 0."
            )
        if any(turns < 1 for turns in self.environment.horizons):
            raise ConfigError(
                f"horizons must be numbers of turns, at least 1, got {self.environment.horizons}."
            )
        bc = self.imitation
        if bc.bc_share and (self.run.env_steps is None or bc.bc_demonstrations):
            raise ConfigError(
                "bc_share divides a budget of env_steps between demonstrations and rollouts: set "
                "env_steps, and leave bc_demonstrations at 0."
            )
        if bc.data and (bc.bc_share or bc.bc_demonstrations):
            raise ConfigError(
                "The episodes of data replace demonstrations of the expert: leave "
                "bc_demonstrations and bc_share at 0, or leave out data."
            )
        if bc.general_data and not (self.imitates or self.offline):
            raise ConfigError(
                "general_data is cloned together with episodes: set data or bc_demonstrations."
            )
        model = self.model
        if model.lora_rank and model.model in NEW_MODELS:
            raise ConfigError(
                f"LoRA needs a pretrained model, and {model.model!r} is a new one: leave lora_rank "
                "at 0, or set model to a trained model."
            )
        if model.dtype == "float16" and not model.lora_rank:
            raise ConfigError(
                "The gradients of float16 weights underflow in full fine-tuning: use dtype float32 "
                "(with mixed_precision fp16, which scales the loss), use bfloat16, or train an "
                "adapter (lora_rank)."
            )
        self.context_settings()  # raises for an invalid combination

    def _resolve(self) -> None:
        """Replaces the settings that are None by the defaults of the kind of model."""
        model = self.model
        self.kind: Kind = kind_of(model.model, model.lora_rank)
        low = model.mixed_precision == "no" and bfloat16_is_native(model.device)
        found, given = defaults_of(self.kind, low_precision=low), self.as_dict()
        if self.rollout.max_staleness or self.rollout.cross_policy:
            found["importance_cap"] = STALE_CAP
        self.by_kind = {name: value for name, value in found.items() if given[name] is None}
        for name in groups_of(type(self)):
            group = getattr(self, name)
            new = {key: self.by_kind[key] for key in vars(group).keys() & self.by_kind.keys()}
            setattr(self, name, dataclasses.replace(group, **new))

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Returns the configuration with some settings changed, by their flat names.

        Args:
            **settings: shared settings such as `lr=1e-4`, the recipe's own, or whole groups.

        Raises:
            UnknownArgumentError: for an unknown name. The message suggests the closest known one.
            ConfigError: for an invalid value.
        """
        own = {each.name: each for each in dataclasses.fields(cls)}
        groups, group = groups_of(cls), group_of(cls)
        direct: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            if name in group and not isinstance(value, groups.get(name, ())):
                grouped.setdefault(group[name], {})[name] = value
            elif name in own:
                direct[name] = value
            else:
                known = [*(own.keys() - groups.keys()), *group]
                raise UnknownArgumentError(
                    f"There is no setting {name!r}.{did_you_mean(name, known)}"
                )
        for name, changes in grouped.items():
            factory = own[name].default_factory
            base = direct[name] if name in direct else factory()  # type: ignore[misc]
            direct[name] = dataclasses.replace(base, **changes)
        return cls(**direct)

    def with_changes(self, **settings: Any) -> Self:
        """Returns a copy with some settings changed, by their flat names.

        Defaults by kind of model follow the model of the copy.
        """
        chosen = {k: v for k, v in self.as_dict().items() if k not in self.by_kind}
        return type(self).of(**chosen | settings)

    def as_dict(self) -> dict[str, Any]:
        """Returns all settings by their flat names."""
        flat: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            flat |= vars(value) if each.name in groups_of(type(self)) else {each.name: value}
        return flat

    def to_json(self) -> dict[str, Any]:
        """Returns all settings by their flat names as JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in self.as_dict().items()
        }

    def fixed(self, why: str, **settings: Any) -> None:
        """Raises ConfigError if a setting differs from the only value that a recipe supports.

        Args:
            why: the reason, for the message.
            **settings: the supported values, by flat names.
        """
        given = self.as_dict()
        for name, value in settings.items():
            if given[name] != value:
                raise ConfigError(
                    f"This recipe supports {name} = {value!r} only, got {given[name]!r}: {why}."
                )

    def check_outcome(self, outcome: str) -> None:
        """Raises ConfigError for a setting that changes rewards if only success is compared.

        Args:
            outcome: the outcome of an episode that a recipe compares: "return" or "success".
        """
        if outcome == "success":
            self.fixed("only success is compared, not rewards", **UNCHANGED_REWARDS)

    def chosen_defaults(self) -> str:
        """Returns the defaults by kind of model in one line."""
        kind = {"new": "a new model", "loaded": "a loaded model", "adapter": "an adapter"}
        listed = ", ".join(f"{name} {value}" for name, value in self.by_kind.items())
        return f"Defaults for {kind[self.kind]}: {listed or 'none, all are set'}."

    @property
    def imitates(self) -> bool:
        """Whether the run begins with behaviour cloning."""
        bc = self.imitation
        cloned = bc.data and not self.offline
        return bc.bc_demonstrations > 0 or bc.bc_share > 0 or bool(cloned)

    @property
    def offline(self) -> bool:
        """Whether the recipe learns from a fixed data set, the group of settings `dataset`."""
        return "dataset" in groups_of(type(self))

    @property
    def grouped_by_agent(self) -> bool:
        """Whether a recipe with groups may train several seats of a zero-sum game."""
        return False

    @property
    def team_credit(self) -> bool:
        """Whether a recipe credits the seats of a game with the mean of their rewards."""
        return False

    @property
    def recompute_logprobs(self) -> bool:
        """Whether ratios start from log-probabilities of a forward pass before the update.

        In low precision, generation and training round differently. Truncated importance weights
        compare the two. With stale episodes, this is the decoupled objective of AReaL (arXiv
        2505.24298): ratios and clipping refer to a proximal policy, the one before the update, and
        the weights correct for the older policy that sampled.
        """
        low = self.model.dtype != "float32" or self.model.mixed_precision != "no"
        return low or self.loss.importance_cap is not None

    def context_settings(self) -> ContextSettings:
        """Returns the settings of the prompt."""
        rollout = self.rollout
        return ContextSettings(
            rollout.context,
            rollout.window,
            rollout.instructions,
            rollout.max_tokens,
            rollout.template_kwargs,
            rollout.overflow,
        )

    def sampling(self) -> Sampling:
        """Returns the decoding parameters of training."""
        rollout = self.rollout
        return Sampling(
            rollout.temperature,
            rollout.top_k,
            rollout.top_p,
            rollout.max_new_tokens,
            rollout.normalization,
            rollout.stop,
        )

    def evaluation_sampling(self) -> Sampling:
        """Returns the decoding parameters of evaluations."""
        return dataclasses.replace(self.sampling(), temperature=self.evaluation.eval_temperature)

    def lora(self) -> LoraSettings | None:
        """Returns the settings of the adapter, or None without one."""
        model = self.model
        if not model.lora_rank:
            return None
        return LoraSettings(model.lora_rank, model.lora_alpha, targets=model.lora_targets)


def _check_optimisation(config: TrainConfig) -> None:
    betas = config.optimisation.adam_betas
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ConfigError(f"adam_betas must be two numbers in [0, 1), got {betas}.")


def _check_environments(config: TrainConfig) -> None:
    chosen, others = config.environment, config.evaluation.eval_env_id
    check_mix([*chosen.ids, *others], (*(chosen.mix or [1] * len(chosen.ids)), *[1] * len(others)))


def _check_rollout(config: TrainConfig) -> None:
    rollout = config.rollout
    if rollout.episodes_per_iteration % rollout.group_size:
        raise ConfigError(
            f"episodes_per_iteration = {rollout.episodes_per_iteration} does not divide into "
            f"groups of group_size = {rollout.group_size}."
        )
    if rollout.adaptive_groups and rollout.group_size <= MINIMUM:
        raise ConfigError(
            f"adaptive_groups divides the episodes beyond {MINIMUM} per task, and group_size is "
            f"{rollout.group_size}: set group_size to at least {MINIMUM + 1}."
        )
    if not rollout.temperature > 0:
        raise ConfigError(
            f"temperature must be above 0 in training, got {rollout.temperature}: greedy rollouts "
            "never explore. eval_temperature may be 0."
        )
    if not 0 < rollout.top_p <= 1:
        raise ConfigError(f"top_p must be in (0, 1], got {rollout.top_p}.")
    if rollout.max_staleness and not rollout.rollout_workers:
        raise ConfigError(
            f"max_staleness = {rollout.max_staleness} lets rollout workers play during updates, "
            "and there are none: set rollout_workers to at least 1, or max_staleness to 0."
        )
    if rollout.cross_policy and (
        rollout.rollout_workers or rollout.continuous_batching or rollout.engine != "own"
    ):
        raise ConfigError(
            "With cross_policy, two policies act in turn in this process: set rollout_workers to "
            "0, continuous_batching to False and engine to 'own', or leave it at 0."
        )
    if rollout.cross_policy and not config.game.scripted:
        raise ConfigError(
            f"cross_policy is for episodes of one agent, and opponents is "
            f"{config.game.opponents!r}: leave it at 0. Older policies play the other seats with "
            "opponents past:K."
        )
    if rollout.engine_url is not None and rollout.rollout_workers:
        raise ConfigError(
            "engine_url is the server of one process, and each of rollout_workers = "
            f"{rollout.rollout_workers} would load its weights: leave out one of the two."
        )
    if config.game.frozen and rollout.rollout_workers:
        raise ConfigError(
            f"Rollout workers hold one policy, and opponents = {config.game.opponents!r} plays "
            "several: set rollout_workers to 0, or opponents to 'mirror'."
        )
    in_turn = any(each.kind != "mirror" for each in config.game.mixture)
    if in_turn and not config.game.scripted and rollout.adaptive_groups:
        raise ConfigError(
            f"With opponents {config.game.opponents!r}, groups of one size take the seats in turn: "
            "set adaptive_groups to False, or opponents to 'mirror'."
        )
    if config.game.frozen and rollout.continuous_batching:
        raise ConfigError(
            f"With opponents {config.game.opponents!r}, several policies act in turn: set "
            "continuous_batching to False, or opponents to 'mirror'."
        )
    if rollout.engine == "vllm":
        check_bounded(rollout.top_k, rollout.top_p)
        if rollout.normalization is not None:
            raise ConfigError(
                "With normalization, the trained model scores whole actions, which vLLM does not "
                "do: set engine to 'own', or leave normalization at None."
            )
    elif rollout.engine_url is not None:
        raise ConfigError(
            f"engine_url = {rollout.engine_url!r} is the address of a vLLM server: set engine to "
            f"'vllm', or leave it out. Got engine = {rollout.engine!r}."
        )


def _check_roles(config: TrainConfig) -> None:
    game = config.game
    given = config.as_dict() | {"opponents": " ".join(each.kind for each in game.mixture)}
    if game.roles == "shared":
        for name in ("role_lr", "alternate", "exchange"):
            if given[name]:
                raise ConfigError(
                    f"{name} is for roles with policies of their own, and roles is 'shared': set "
                    f"roles to 'separate' or 'adapters', or leave out {name}."
                )
        return
    needed = {
        "opponents": "mirror", "engine": "own", "rollout_workers": 0,
        "continuous_batching": False, "kl_reference": "start",
    }  # fmt: skip
    for name, value in needed.items():
        if given[name] != value:
            raise ConfigError(
                f"With roles = {game.roles!r}, several policies act and learn in one process, "
                f"which needs {name} = {value!r}, got {given[name]!r}. Or set roles to 'shared'."
            )
    for role, rate in game.role_lr.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
            raise ConfigError(
                f"role_lr must be numbers of at least 0, such as {role}=1e-5, got {role}={rate!r}."
            )


def _check_loss(config: TrainConfig) -> None:
    loss = config.loss
    loss.reference_every  # noqa: B018  # raises for an unknown reference
    if loss.overlong_margin > config.rollout.max_new_tokens:
        raise ConfigError(
            f"overlong_margin = {loss.overlong_margin} exceeds the maximum length of an action, "
            f"max_new_tokens = {config.rollout.max_new_tokens}."
        )
    if loss.entropy_floor is not None and not loss.entropy_coef:
        raise ConfigError(
            "entropy_floor selects the tokens that get the entropy bonus: set entropy_coef above 0."
        )
    if loss.filter_groups and config.rollout.group_size < 2:
        raise ConfigError("filter_groups compares the episodes of a group: set group_size above 1.")
    if loss.group_weight != "none" and config.rollout.group_size < 2:
        raise ConfigError("group_weight counts the successes of a group: set group_size above 1.")


def _check_reward(config: TrainConfig) -> None:
    if config.reward.process_reward:
        score_function(config.reward.process_reward)  # raises for a function that does not exist
    for name, least in config.reward.reward_constraints.items():
        number = isinstance(least, int | float) and not isinstance(least, bool)
        if not number or not math.isfinite(least):
            raise ConfigError(
                f"reward_constraints must be numbers, such as {name}=0.5, got {name}={least!r}."
            )
