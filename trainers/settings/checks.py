"""Checks of settings: of each field against its annotation, and of fields that depend on others."""

from __future__ import annotations

import math
import os
from dataclasses import is_dataclass
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Interval, Le, Lt

from agentgym.errors import ConfigError, did_you_mean
from agentgym.registration.making import split_id
from agentgym.registration.mixture import check_mix
from agentgym.trainers.policy.sampling import check_bounded
from agentgym.trainers.rollout.curriculum import KINDS
from agentgym.trainers.rollout.task_sampling import MINIMUM
from agentgym.trainers.settings.credit import SAME_RETURNS
from agentgym.utils.arguments import check_types, imported

if TYPE_CHECKING:
    from agentgym.trainers.settings.config import TrainConfig


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Returns the types of the fields of a dataclass, with their bounds."""
    return get_type_hints(kind, include_extras=True)


def check_fields(settings: Any) -> None:
    """Checks types, choices and bounds of the fields of a dataclass.

    Numbers of NumPy and paths become Python's numbers and strings, which JSON can hold.

    Raises:
        ConfigError: with the name of the setting, the expected and the received value.
    """
    for name, hint in _hints(type(settings)).items():
        if is_dataclass(hint):
            continue
        value, plain, bounds = _plain(getattr(settings, name)), *_parts(hint)
        setattr(settings, name, value)
        known = tuple(choice for kind in plain for choice in _choices(kind))
        if known and value not in known:
            options = (*known, None) if type(None) in plain else known
            if value is not None or type(None) not in plain:
                suggestion = did_you_mean(str(value), [str(choice) for choice in known])
                raise ConfigError(f"{name} must be one of {options}, got {value!r}.{suggestion}")
        kind = Parameter(name, Parameter.KEYWORD_ONLY, annotation=_union(plain))
        check_types("the settings", {name: kind}, {name: value})
        if value is not None:
            _check_bounds(name, value, bounds)


def _plain(value: Any) -> Any:
    match value:
        case np.generic():
            return value.item()
        case os.PathLike():
            return os.fspath(value)
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_plain, value))
    return value


def _check_bounds(name: str, value: Any, bounds: tuple[Any, ...]) -> None:
    for bound in bounds:
        match bound:
            case Interval(ge=low, le=high) if not low <= value <= high:
                raise ConfigError(f"{name} must be in [{low:g}, {high:g}], got {value}.")
            case Ge(ge=low) if not value >= low:  # written so that NaN is refused too
                raise ConfigError(f"{name} must be at least {low:g}, got {value}.")
            case Gt(gt=low) if not value > low:
                raise ConfigError(f"{name} must be above {low:g}, got {value}.")
            case Le(le=high) if not value <= high:
                raise ConfigError(f"{name} must be at most {high:g}, got {value}.")
            case Lt(lt=high) if not value < high:
                raise ConfigError(f"{name} must be below {high:g}, got {value}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value}.")


def _parts(hint: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the plain alternatives of an annotation, and the bounds in it."""
    if get_origin(hint) is Annotated:
        plain, bounds = _parts(get_args(hint)[0])
        return plain, (*bounds, *get_args(hint)[1:])
    if get_origin(hint) in (None, Literal, dict, tuple, list):
        return (hint,), ()
    found = [_parts(each) for each in get_args(hint)]
    return tuple(p for plain, _ in found for p in plain), tuple(b for _, bs in found for b in bs)


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _union(kinds: tuple[Any, ...]) -> Any:
    union = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def check_config(config: TrainConfig) -> None:
    """Raises ConfigError for settings that contradict each other."""
    _check_optimisation(config)
    _check_rollout(config)
    _check_engine(config)
    _check_players(config)
    _check_loss(config)
    _check_reward(config)
    _check_critic(config)
    _check_environments(config)
    _check_evaluation(config)
    _check_roles(config)
    _check_cloning(config)


def _check_optimisation(config: TrainConfig) -> None:
    betas = config.optimisation.adam_betas
    if len(betas) != 2 or not all(isinstance(b, int | float) and 0 <= b < 1 for b in betas):
        raise ConfigError(f"adam_betas must be two numbers in [0, 1), got {betas}.")
    if config.model.dtype == "float16" and not config.model.lora_rank:
        raise ConfigError(
            "The gradients of float16 weights underflow in full fine-tuning: use dtype float32 "
            "(with mixed_precision fp16, which scales the loss), use bfloat16, or train an "
            "adapter (lora_rank)."
        )


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
    if rollout.epsilon:
        _check_exploration(config)


def _check_exploration(config: TrainConfig) -> None:
    """Raises ConfigError for settings that the mixture of `epsilon` does not work with."""
    rollout, epsilon = config.rollout, config.rollout.epsilon
    if rollout.engine != "own":
        raise ConfigError(
            f"vLLM samples from the policy alone: set engine to 'own', or epsilon = {epsilon} to 0."
        )
    config.sampling()  # raises for top_k and top_p
    if config.loss.check_logprobs is not None:
        raise ConfigError(
            f"With epsilon = {epsilon}, log-probabilities of generation are those of a mixture: "
            "set check_logprobs to None, or epsilon to 0."
        )


def _check_engine(config: TrainConfig) -> None:
    rollout = config.rollout
    if rollout.engine_url is not None and rollout.rollout_workers:
        raise ConfigError(
            "engine_url is the server of one process, and each of rollout_workers = "
            f"{rollout.rollout_workers} would load its weights: leave out one of the two."
        )
    if rollout.engine == "vllm":
        check_bounded(rollout.top_k, rollout.top_p)
        if rollout.normalization is not None:
            raise ConfigError(
                "With normalization, the trained model scores whole actions, which vLLM does not "
                "do: set engine to 'own', or leave normalization at None."
            )


def _check_players(config: TrainConfig) -> None:
    game, rollout = config.game, config.rollout
    if rollout.cross_policy and (
        rollout.rollout_workers or rollout.continuous_batching or rollout.engine != "own"
    ):
        raise ConfigError(
            "With cross_policy, two policies act in turn in this process: set rollout_workers to "
            "0, continuous_batching to False and engine to 'own', or leave it at 0."
        )
    if rollout.cross_policy and rollout.cross_policy_every == 1:
        raise ConfigError("With cross_policy_every = 1, the copy never plays: set it above 1.")
    if rollout.cross_policy and not game.scripted:
        raise ConfigError(
            f"cross_policy is for episodes of one agent, and opponents is "
            f"{game.opponents!r}: leave it at 0. Older policies play the other seats with "
            "opponents past:K."
        )
    if game.frozen and rollout.rollout_workers:
        raise ConfigError(
            f"Rollout workers hold one policy, and opponents = {game.opponents!r} plays "
            "several: set rollout_workers to 0, or opponents to 'mirror'."
        )
    in_turn = game.explorers == "one" or any(each.kind != "mirror" for each in game.mixture)
    if in_turn and not game.scripted and rollout.adaptive_groups:
        raise ConfigError(
            f"With opponents {game.opponents!r} and explorers {game.explorers!r}, groups of one "
            "size take the seats in turn: set adaptive_groups to False, or opponents to 'mirror' "
            "and explorers to 'all'."
        )
    if game.frozen and rollout.continuous_batching:
        raise ConfigError(
            f"With opponents {game.opponents!r}, several policies act in turn: set "
            "continuous_batching to False, or opponents to 'mirror'."
        )


def _check_loss(config: TrainConfig) -> None:
    loss = config.loss
    loss.reference_every  # noqa: B018  # raises for an unknown reference
    if loss.kl_in == "reward" and "overlong_margin" not in config.acting():
        raise ConfigError(
            "kl_in = 'reward' subtracts the KL penalty from the rewards, from which this recipe "
            "assigns no credit: set kl_in to loss or loss_k2."
        )
    if loss.thought_coef not in (0.0, 1.0) and loss.ratio not in ("token", "none"):
        raise ConfigError(
            f"thought_coef = {loss.thought_coef} weighs tokens, and with ratio = {loss.ratio!r} "
            "they have equal gradients: set thought_coef to 0 or 1, or ratio to 'token'."
        )
    if config.reward.overlong_margin > config.rollout.max_new_tokens:
        raise ConfigError(
            f"overlong_margin = {config.reward.overlong_margin} exceeds the maximum length of an "
            f"action, max_new_tokens = {config.rollout.max_new_tokens}."
        )
    changed = [name for name in SAME_RETURNS if getattr(config.reward, name)]
    if loss.filter_groups and changed:
        raise ConfigError(
            "filter_groups drops groups with equal returns of the environment, which may differ in "
            f"their rewards with {changed[0]}: leave out one of both."
        )


def _check_reward(config: TrainConfig) -> None:
    for name, least in config.reward.reward_constraints.items():
        number = isinstance(least, int | float) and not isinstance(least, bool)
        if not number or not math.isfinite(least):
            raise ConfigError(
                f"reward_constraints must be numbers, such as {name}=0.5, got {name}={least!r}."
            )


def _check_critic(config: TrainConfig) -> None:
    critic, scripted = config.critic, config.game.scripted
    if any(width < 1 for width in critic.critic_layers):
        raise ConfigError(
            f"critic_layers must be widths of at least 1, got {critic.critic_layers}."
        )
    if critic.critic_sees == "all" and scripted:
        raise ConfigError(
            "critic_sees = 'all' shows a critic the observations of all agents of a game, beside "
            "the prompt of the policy: set opponents to mirror or another kind than scripted, or "
            "critic_sees to 'own'."
        )
    if critic.sees_hidden_state and not scripted:
        raise ConfigError(
            f"critic_sees = {critic.critic_sees!r} shows a critic the hidden state of an "
            "environment of a single agent: set opponents to scripted, or critic_sees to 'own'."
        )


def _check_environments(config: TrainConfig) -> None:
    chosen, others = config.environment, config.evaluation.eval_env_id
    check_mix([*chosen.ids, *others], (*(chosen.mix or [1] * len(chosen.ids)), *[1] * len(others)))
    own = [id for id in (*chosen.ids, *others) if split_id(id)[1]]  # raises for wrong arguments
    if len(chosen.ids) == 1 and chosen.ids[0] in own:
        raise ConfigError(f"Arguments of a single environment are env_kwargs, got {own[0]!r}.")
    if any(turns < 1 for turns in chosen.horizons):
        raise ConfigError(f"horizons must be numbers of turns, at least 1, got {chosen.horizons}.")
    if chosen.curriculum not in KINDS:
        if ":" not in chosen.curriculum:
            raise ConfigError(
                f"curriculum must be one of {', '.join(KINDS)}, or module:function, got "
                f"{chosen.curriculum!r}.{did_you_mean(chosen.curriculum, KINDS)}"
            )
        imported(chosen.curriculum, "curriculum")  # raises for a function that does not exist


def _check_evaluation(config: TrainConfig) -> None:
    if config.evaluation.eval_partners == "self" and not config.trains_whole_game:
        raise ConfigError(
            "eval_partners 'self' needs one game without wrappers in which all seats are trained: "
            "set opponents to mirror, and leave learners, wrap and eval_env_id empty."
        )
    if config.evaluation.eval_nashconv and config.game.learners:
        raise ConfigError("eval_nashconv plays the policy in all seats: leave learners empty.")


def _check_roles(config: TrainConfig) -> None:
    game = config.game
    if game.roles == "shared":
        return
    given = config.values() | {"opponents": " ".join(each.kind for each in game.mixture)}
    needed = {
        "opponents": "mirror", "engine": "own", "rollout_workers": 0,
        "continuous_batching": False,
    }  # fmt: skip
    if game.exchange:  # a reference that moves follows one policy
        needed["kl_reference"] = "start"
    for name, value in needed.items():
        if name in given and given[name] != value:
            raise ConfigError(
                f"With roles = {game.roles!r}, several policies act and learn in one process, "
                f"which needs {name} = {value!r}, got {given[name]!r}. Or set roles to 'shared'."
            )
    for role, rate in game.role_lr.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
            raise ConfigError(
                f"role_lr must be numbers of at least 0, such as {role}=1e-5, got {role}={rate!r}."
            )


def _check_cloning(config: TrainConfig) -> None:
    bc = config.cloning
    if bc.bc_share and bc.bc_demonstrations:
        raise ConfigError(
            "bc_share divides a budget of env_steps between demonstrations and rollouts: leave "
            "bc_demonstrations at 0."
        )
    if bc.data and (bc.bc_share or bc.bc_demonstrations):
        raise ConfigError(
            "The episodes of data replace demonstrations of the expert: leave "
            "bc_demonstrations and bc_share at 0, or leave out data."
        )
