"""Checks of settings: of each field against its annotation, and of fields that depend on others."""

from __future__ import annotations

import math
import os
from dataclasses import is_dataclass
from functools import cache, reduce
from inspect import Parameter
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from annotated_types import Ge, Gt, Interval, Le, Lt

from agentgym.agents.text_model import MODELS, text_model
from agentgym.errors import ConfigError, did_you_mean
from agentgym.registration.making import split_id
from agentgym.registration.mixture import check_mix
from agentgym.trainers.policy.model_defaults import is_adapter
from agentgym.trainers.policy.sampling import check_bounded
from agentgym.trainers.rollout.curriculum import KINDS, TASK_FILE
from agentgym.trainers.rollout.learning_progress import PROMPT
from agentgym.trainers.settings.schema import hints_of
from agentgym.utils.arguments import check_types
from agentgym.utils.importing import imported

if TYPE_CHECKING:
    from agentgym.trainers.settings.config import TrainConfig


class _Field(NamedTuple):
    """A field of a dataclass, and the parts of its annotation.

    Attributes:
        parameter: its name and its type without bounds.
        plain: the alternatives of its type.
        choices: the values among which it must be. Empty: any of its type.
        bounds: the bounds of a number, or of the numbers in a tuple or a dictionary.
    """

    parameter: Parameter
    plain: tuple[Any, ...]
    choices: tuple[Any, ...]
    bounds: tuple[Any, ...]


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    """Returns the fields of a dataclass, except for those that are dataclasses themselves."""
    found = []
    for name, hint in hints_of(kind).items():
        if is_dataclass(hint):
            continue
        plain, bounds = _parts(hint)
        parameter = Parameter(name, Parameter.KEYWORD_ONLY, annotation=reduce(or_, plain))
        choices = tuple(choice for each in plain for choice in _choices(each))
        found.append(_Field(parameter, plain, choices, bounds))
    return tuple(found)


def check_fields(settings: Any) -> None:
    """Checks types, choices and bounds of the fields of a dataclass.

    Numbers of NumPy and paths become Python's numbers and strings, which JSON can hold.

    Raises:
        ConfigError: with the name of the setting, the expected and the received value.
    """
    for parameter, plain, known, bounds in _fields(type(settings)):
        name = parameter.name
        value = _plain(getattr(settings, name))
        setattr(settings, name, value)
        if known and value not in known:
            options = (*known, None) if type(None) in plain else known
            if value is not None or type(None) not in plain:
                suggestion = did_you_mean(str(value), [str(choice) for choice in known])
                raise ConfigError(f"{name} must be one of {options}, got {value!r}.{suggestion}")
        check_types("the settings", {name: parameter}, {name: value})
        if isinstance(value, dict | list | tuple):
            _check_items(name, value, plain[0], bounds)
        elif value is not None:
            _check_bounds(name, value, bounds)


def _check_items(name: str, value: Any, kind: Any, bounds: tuple[Any, ...]) -> None:
    """Checks the number of the items of a tuple, and numbers in a tuple or a dictionary."""
    sizes = get_args(kind) if get_origin(kind) is tuple else (...,)
    if ... not in sizes and len(value) != len(sizes):
        raise ConfigError(f"{name} must be {len(sizes)} numbers, got {value}.")
    for each in (value.values() if isinstance(value, dict) else value) if bounds else ():
        if isinstance(each, bool) or not isinstance(each, int | float):
            raise ConfigError(f"{name} must be numbers, got {each!r}.")
        _check_bounds(name, each, bounds)


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


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value}.")


def _check_bounds(name: str, value: Any, bounds: tuple[Any, ...]) -> None:
    _check_finite(name, value)
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


def _parts(hint: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the plain alternatives of an annotation, and the bounds in it."""
    if get_origin(hint) is Annotated:
        plain, bounds = _parts(get_args(hint)[0])
        return plain, (*bounds, *filter(_is_bound, get_args(hint)[1:]))
    if get_origin(hint) is tuple:
        return (hint,), _parts(get_args(hint)[0])[1]
    if get_origin(hint) in (None, Literal, dict, list):
        return (hint,), ()
    found = [_parts(each) for each in get_args(hint)]
    return tuple(p for plain, _ in found for p in plain), tuple(b for _, bs in found for b in bs)


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _is_bound(extra: Any) -> bool:
    return isinstance(extra, Interval | Ge | Gt | Le | Lt)


def check_config(config: TrainConfig) -> None:
    """Raises ConfigError for settings that contradict each other."""
    _check_environments(config)
    _check_sizes(config)
    _check_opponents(config)
    config.loss.reference_every  # noqa: B018  # raises for an unknown reference
    if config.rollout.epsilon:
        config.sampling()  # raises for top_k and top_p
    if config.rollout.engine == "vllm":
        check_bounded(config.rollout.top_k, config.rollout.top_p)
    adapted = config.model.lora_rank or is_adapter(config.model.model)
    if config.model.dtype == "float16" and not adapted:
        raise ConfigError(
            "The gradients of float16 weights underflow in full fine-tuning: use dtype float32 "
            "(with mixed_precision fp16, which scales the loss), use bfloat16, or train an "
            "adapter (lora_rank)."
        )
    loss = config.loss
    if loss.thought_coef not in (0.0, 1.0) and loss.ratio not in ("token", "none"):
        raise ConfigError(
            f"thought_coef = {loss.thought_coef} weighs tokens, and with ratio = {loss.ratio!r} "
            "they have equal gradients: set thought_coef to 0 or 1, or ratio to 'token'."
        )
    if loss.surrogate == "squared" and not loss.kl_coef:
        raise ConfigError(
            "surrogate = 'squared' compares the advantage with kl_coef times the log-ratio to the "
            "reference: set kl_coef above 0, such as 0.1, or surrogate to 'ppo'."
        )
    if loss.reads_chunks and not config.has_chunks:
        name = "ratio" if "chunk" in loss.ratio else "importance"
        raise ConfigError(
            f"{name} = {getattr(loss, name)!r} needs a credit of chunks of turns, as the recipe "
            f"chunk assigns it: set {name} to turn or trajectory, or train with chunk."
        )
    spans = ("none", "token", "turn", "chunk", "trajectory")
    ratio = spans.index(loss.ratio.removesuffix("_product"))
    if loss.masks_mismatch and spans.index(loss.importance_span) < ratio:
        raise ConfigError(
            f"importance = {loss.importance!r} masks parts of a {spans[ratio]}, and with ratio = "
            f"{loss.ratio!r} all of it has one ratio: set importance to '{spans[ratio]}_mask', or "
            "ratio to 'token'."
        )


def _check_opponents(config: TrainConfig) -> None:
    evaluation = config.evaluation
    measured = evaluation.eval_exploitability and evaluation.eval_every
    if config.game.automatic and not (measured and evaluation.eval_episodes):
        raise ConfigError(
            f"opponents = {config.game.opponents!r}: alarms of evaluations set the share of the "
            "pool. Set eval_exploitability, eval_every and eval_episodes above 0, or give the pool "
            "a number as weight."
        )


def _check_sizes(config: TrainConfig) -> None:
    rollout, margin = config.rollout, config.reward.overlong_margin
    if rollout.episodes_per_iteration % rollout.group_size:
        raise ConfigError(
            f"episodes_per_iteration = {rollout.episodes_per_iteration} does not divide into "
            f"groups of group_size = {rollout.group_size}."
        )
    if margin > rollout.max_new_tokens:
        raise ConfigError(
            f"overlong_margin = {margin} exceeds the maximum length of an action, "
            f"max_new_tokens = {rollout.max_new_tokens}."
        )


def _check_environments(config: TrainConfig) -> None:
    chosen, others = config.environment, config.evaluation.eval_env_id
    check_mix([*chosen.ids, *others], (*(chosen.mix or [1] * len(chosen.ids)), *[1] * len(others)))
    own = [id for id in (*chosen.ids, *others) if split_id(id)[1]]  # raises for wrong arguments
    if len(chosen.ids) == 1 and chosen.ids[0] in own:
        raise ConfigError(f"Arguments of a single environment are env_kwargs, got {own[0]!r}.")
    if chosen.curriculum.startswith(MODELS):
        text_model(chosen.curriculum, PROMPT)
    elif chosen.curriculum not in KINDS and not chosen.curriculum.endswith(TASK_FILE):
        if ":" not in chosen.curriculum:
            raise ConfigError(
                f"curriculum must be one of {', '.join(KINDS)}, FILE.json, module:function or "
                f"chat:MODEL@URL, got {chosen.curriculum!r}."
                f"{did_you_mean(chosen.curriculum, KINDS)}"
            )
        imported(chosen.curriculum, "curriculum")  # raises for a function that does not exist
