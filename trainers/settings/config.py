"""`TrainConfig`: the settings of a training run, in groups. Recipes subclass it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from agentgym.errors import ConfigError, UnknownArgumentError, did_you_mean
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.model_defaults import (
    Kind,
    bfloat16_is_native,
    defaults_of,
    kind_of,
)
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.settings import (
    CriticConfig,
    EnvironmentConfig,
    EvaluationConfig,
    GameConfig,
    GroupRolloutConfig,
    ImitationConfig,
    LossConfig,
    ModelConfig,
    NonNegative,
    OptimisationConfig,
    RewardConfig,
    RolloutConfig,
    RunConfig,
    defaults,
    group_of,
    groups_of,
)
from agentgym.trainers.settings.checks import check_config, check_fields
from agentgym.trainers.settings.credit import SAME_RETURNS
from agentgym.utils.masking import masked

# Settings that may differ when a run is resumed: they change its length, its output or its random
# numbers (the engine), not its distribution of results.
FREE_ON_RESUME = frozenset(
    "iterations env_steps eval_every eval_episodes eval_baselines eval_nashconv save_every keep "
    "run_dir resume threads env_workers env_failures env_seconds microbatch_tokens device quiet "
    "generation_batch transcripts log_with trust_remote_code gradient_checkpointing save_minutes "
    "engine engine_url engine_memory engine_sleep continuous_batching rollout_workers worker_cpus "
    "worker_gpus ray_address".split()
)
STALE_CAP = 5.0
"""Default of `importance_cap` with older weights or `epsilon`: `behav_imp_weight_cap` of the
published configurations of AReaL (arXiv 2505.24298), which drops tokens above it instead of
truncating."""


class OneOf(tuple[Any, ...]):
    """Several values of a setting that a recipe supports."""

    def __new__(cls, *values: Any) -> Self:
        """Returns the values."""
        return super().__new__(cls, values)


UNCHANGED_REWARDS: dict[str, Any] = {
    "kl_in": OneOf("loss", "loss_k2"), "overlong_margin": 0, "shape_progress": 0.0, **SAME_RETURNS
}  # fmt: skip
"""Values of the settings that change rewards, for recipes whose credit does not depend on them."""
EQUAL_WEIGHTS: dict[str, Any] = {"normalize_advantages": "none", "covariance_clip": 0.0}
"""Values of the settings that weigh tokens, for recipes that imitate actions."""


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
            check_fields(group)
        check_fields(self)
        self._resolve()
        check_config(self)
        self.context_settings()  # raises for an invalid combination

    def _resolve(self) -> None:
        """Replaces the settings that are None by the defaults of the kind of model."""
        model = self.model
        self.kind: Kind = kind_of(model.model, model.lora_rank)
        low = model.mixed_precision == "no" and bfloat16_is_native(model.device)
        found, given = defaults_of(self.kind, low_precision=low), self.as_dict()
        if self.samples_otherwise and self.policy_gradient:
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
            if dataclasses.is_dataclass(base):  # anything else is refused by the constructor
                direct[name] = dataclasses.replace(base, **changes)  # type: ignore[type-var]
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
        """Returns all settings by their flat names as JSON values, without secrets."""
        return {
            key: masked(list(value) if isinstance(value, tuple) else value)
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
            supported = value if isinstance(value, OneOf) else OneOf(value)
            if given[name] not in supported:
                values = " or ".join(map(repr, supported))
                raise ConfigError(
                    f"This recipe supports {name} = {values} only, got {given[name]!r}: {why}."
                )

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
    def trains_whole_game(self) -> bool:
        """Whether the run trains all seats of one game without wrappers, and plays no other."""
        chosen = self.environment
        single = len(chosen.ids) == 1 and not (self.evaluation.eval_env_id or chosen.wrap)
        return single and not (self.game.scripted or self.game.learners)

    @property
    def score_sources(self) -> dict[str, str]:
        """The settings that name a source of process scores (see `turn_scores`), by name."""
        return {"process_reward": self.reward.process_reward}

    @property
    def compared_outcome(self) -> Literal["return", "success"]:
        """The outcome of episodes that a recipe compares in groups, for `filter_groups`."""
        return "return"

    @property
    def policy_gradient(self) -> bool:
        """Whether the loss is an expectation over the policy's actions, as in a policy gradient.

        If other weights or `epsilon` sample some of them, importance weights correct it. Actions
        that are imitated or preferred to others have the same weight wherever they come from.
        """
        return True

    @property
    def samples_otherwise(self) -> bool:
        """Whether older weights or `epsilon` sample some of the actions."""
        rollout = self.rollout
        return bool(rollout.max_staleness or rollout.cross_policy or rollout.epsilon)

    @property
    def has_ratios(self) -> bool:
        """Whether the update compares the policy with the behaviour policy."""
        return self.loss.ratio != "none" or self.loss.covariance_clip > 0

    @property
    def recompute_logprobs(self) -> bool:
        """Whether ratios start from log-probabilities of a forward pass before the update.

        In low precision, generation and training round differently. Truncated importance weights
        compare the two. With stale episodes, this is the decoupled objective of AReaL (arXiv
        2505.24298): ratios and clipping refer to a proximal policy, the one before the update, and
        the weights correct for the older policy that sampled. Without a ratio, they are not needed.
        """
        loss = self.loss
        low = self.model.dtype != "float32" or self.model.mixed_precision != "no"
        differs = low or self.samples_otherwise
        return (self.has_ratios and differs) or loss.importance_cap is not None

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
            rollout.turn_limit,
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
            rollout.epsilon,
        )

    def evaluation_sampling(self) -> Sampling:
        """Returns the decoding parameters of evaluations."""
        temperature = self.evaluation.eval_temperature
        return dataclasses.replace(self.sampling(), temperature=temperature, epsilon=0.0)

    def lora(self) -> LoraSettings | None:
        """Returns the settings of the adapter, or None without one."""
        model = self.model
        if not model.lora_rank:
            return None
        return LoraSettings(model.lora_rank, model.lora_alpha, targets=model.lora_targets)


@dataclass
class GroupConfig(TrainConfig):
    """Settings of a recipe that compares the outcomes of episodes with the same start."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    scale: bool = True
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.outcome == "success":
            self.fixed("only success is compared, not rewards", **UNCHANGED_REWARDS)

    @property
    def compared_outcome(self) -> Literal["return", "success"]:
        """The setting `outcome`."""
        return self.outcome


@dataclass
class PreferenceConfig(TrainConfig):
    """Settings of a recipe whose credit is the gradient of DPO."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1, minibatches=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", aggregation="constant")
    beta: NonNegative = 0.1
    """Temperature of the preference loss. Smaller values allow a larger KL to the reference."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed(
            "credit is the gradient of a preference loss",
            normalize_advantages="none",
            aggregation="constant",
        )

    @property
    def policy_gradient(self) -> bool:
        """False: actions are preferred to others."""
        return False
