"""`TrainConfig`: the settings of a training run, in groups. Recipes subclass it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from agentgym.errors import ConfigError
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
    CloningConfig,
    CriticConfig,
    EndConfig,
    EnvironmentConfig,
    EvaluationConfig,
    GameConfig,
    LossConfig,
    ModelConfig,
    OptimisationConfig,
    ProgramConfig,
    RewardConfig,
    RolloutConfig,
    RunConfig,
    When,
    groups_of,
    settings_of,
)
from agentgym.trainers.settings.checks import check_config, check_fields
from agentgym.trainers.settings.effects import check_effects, idle_settings, unknown_setting
from agentgym.trainers.settings.names import with_new_names
from agentgym.trainers.settings.schema import is_set
from agentgym.utils.masking import masked

# Settings that may differ when a run is resumed: they change its length, its output or its random
# numbers (the engine), not its distribution of results.
FREE_ON_RESUME = frozenset(
    "iterations env_steps eval_every eval_episodes eval_baselines eval_exploitability save_every "
    "keep run_dir resume threads env_workers env_failures env_seconds microbatch_tokens device "
    "quiet generation_batch transcripts log_with trust_remote_code gradient_checkpointing "
    "save_minutes engine engine_url engine_memory engine_sleep continuous_batching rollout_workers "
    "worker_cpus worker_gpus ray_address".split()
)
STALE_CAP = 5.0
"""Default of `importance_cap` with older weights or `epsilon`: `behav_imp_weight_cap` of the
published configurations of AReaL (arXiv 2505.24298), which drops tokens above it instead of
truncating."""


class Absent:
    """The groups of settings that a recipe may lack, as the trainer reads them then."""

    reward: RewardConfig = RewardConfig()
    critic: CriticConfig = CriticConfig()
    ends: EndConfig = EndConfig()


@dataclass
class TrainConfig(Absent):
    """Settings of a training run.

    `TrainConfig.of(lr=1e-4, env_id="WebShop-v0")` takes the settings by their flat names, as the
    command line does. The kinds of recipes (`agentgym.trainers.settings.kinds`) add groups, and
    a recipe's subclass adds settings as fields, and other defaults with `settings.defaults`.

    Attributes:
        described: names the recipes of a kind in messages.
        lacks: settings, or groups of them, that recipes of a kind do not have.
        conditions: further conditions on settings, by their names.
        has_chunks: whether the credit of a recipe is one of chunks of turns.
        kind: the kind of model, which decides on defaults.
        by_kind: the settings that have the default of the kind of model, with their values.
    """

    described: ClassVar[str] = ""
    lacks: ClassVar[tuple[str, ...]] = ()
    conditions: ClassVar[Mapping[str, When]] = {}
    has_chunks: ClassVar[bool] = False

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    game: GameConfig = field(default_factory=GameConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    run: RunConfig = field(default_factory=RunConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    program: ProgramConfig = field(default_factory=ProgramConfig)
    optimisation: OptimisationConfig = field(default_factory=OptimisationConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    cloning: CloningConfig = field(default_factory=CloningConfig)
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
        check_effects(self)
        check_config(self)
        self.context_settings()  # raises for an invalid combination

    def _resolve(self) -> None:
        """Replaces the settings that are None by the defaults of the kind of model."""
        model = self.model
        self.kind: Kind = kind_of(model.model, model.lora_rank)
        low = model.mixed_precision == "no" and bfloat16_is_native(model.device)
        found, given = defaults_of(self.kind, low_precision=low), self.values()
        if self.samples_otherwise and "importance_cap" in self.acting():
            found["importance_cap"] = STALE_CAP
        self.by_kind = {
            name: value for name, value in found.items() if name in given and given[name] is None
        }
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
            UnknownArgumentError: for an unknown name. The message suggests the closest known one,
                or names the recipes that have the setting.
            ConfigError: for an invalid value.
        """
        own = {each.name: each for each in dataclasses.fields(cls)}
        known, groups = settings_of(cls), groups_of(cls)
        direct: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {}
        for name, value in with_new_names(settings).items():
            if name in groups and (name not in known or isinstance(value, groups[name])):
                direct[name] = value
            elif name not in known:
                raise unknown_setting(cls, name)
            elif known[name].group:
                grouped.setdefault(known[name].group, {})[name] = value
            else:
                direct[name] = value
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
        chosen = {k: v for k, v in self.values().items() if k not in self.by_kind}
        return type(self).of(**chosen | settings)

    def values(self) -> dict[str, Any]:
        """Returns all settings of the recipe by their flat names, whether they act or not."""
        return {
            name: getattr(getattr(self, each.group) if each.group else self, name)
            for name, each in settings_of(type(self)).items()
        }

    def acting(self) -> frozenset[str]:
        """Returns the names of the settings that act beside the others."""
        return frozenset(settings_of(type(self)).keys() - idle_settings(self).keys())

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings that act, by their flat names.

        A setting that is left out has no value, as by default, or belongs to another one that is
        not set. `resume` and `quiet` are options of the command, not of the run.
        """
        listed = self.acting() - {"resume", "quiet"}
        known = settings_of(type(self))
        return {
            name: value
            for name, value in self.values().items()
            if name in listed and (is_set(value) or is_set(known[name].default))
        }

    def to_json(self) -> dict[str, Any]:
        """Returns `as_dict` as JSON values, without secrets."""
        return as_json(self.as_dict())

    def fixed(self, why: str, **settings: Any) -> None:
        """Raises ConfigError if a setting differs from the only value that others leave.

        Args:
            why: the reason, for the message.
            **settings: the supported values, by flat names.
        """
        given = self.values()
        for name, value in settings.items():
            if name in given and given[name] != value:
                raise ConfigError(
                    f"This recipe supports {name} = {value!r} only, got {given[name]!r}: {why}."
                )

    def chosen_defaults(self) -> str:
        """Returns the defaults by kind of model in one line."""
        kind = {"new": "a new model", "loaded": "a loaded model", "adapter": "an adapter"}
        acting = self.acting()
        shown = (f"{name} {value}" for name, value in self.by_kind.items() if name in acting)
        listed = ", ".join(shown)
        return f"Defaults for {kind[self.kind]}: {listed or 'none, all are set'}."

    @property
    def imitates(self) -> bool:
        """Whether the run begins with behaviour cloning."""
        bc = self.cloning
        cloned = bc.data and not self.offline
        return bc.bc_demonstrations > 0 or bc.bc_share > 0 or bool(cloned)

    @property
    def clones(self) -> bool:
        """Whether episodes are cloned, before RL or offline."""
        return self.imitates or self.offline

    @property
    def offline(self) -> bool:
        """Whether the recipe learns from a fixed data set, the group of settings `dataset`."""
        return "dataset" in groups_of(type(self))

    @property
    def uses_reference(self) -> bool:
        """Whether the loss or the recipe compares the policy with a reference policy."""
        return self.loss.kl_coef > 0

    @property
    def reads_hidden_state(self) -> bool:
        """Whether anything but the policy reads the hidden state of the environment."""
        return self.critic.sees_hidden_state

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
    def credits_rewards(self) -> bool:
        """Whether credit is assigned from rewards that settings may change."""
        return "overlong_margin" in self.acting()

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
            self.ends.overflow,
            self.ends.turn_limit,
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


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as JSON values, without secrets."""
    return {
        name: masked(list(value) if isinstance(value, tuple) else value)
        for name, value in settings.items()
    }
