"""No setting without effect: settings that a recipe lacks, or that others switch off, are errors.

Both are declared: `lacks` of a configuration class, and `When` in the annotation of a setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentgym.errors import ConfigError, UnknownArgumentError
from agentgym.trainers.policy.model_defaults import DEFAULTS
from agentgym.trainers.settings.names import FAMILIAR, suggestion, with_new_names
from agentgym.trainers.settings.schema import (
    Needs,
    Setting,
    When,
    groups_of,
    lacking_settings,
    settings_of,
)

if TYPE_CHECKING:
    from agentgym.trainers.settings.config import TrainConfig


class IdleSettingError(ConfigError):
    """A setting that belongs to another one, which is not set.

    Args:
        setting: its name.
        message: names the remedy.
    """

    def __init__(self, setting: str, message: str):
        super().__init__(message)
        self.setting = setting


def idle_settings(config: TrainConfig) -> dict[str, When]:
    """Returns the settings that do not act beside the others, each with its unmet condition."""
    idle: dict[str, When] = {}
    known = settings_of(type(config))
    for name, setting in known.items():
        for when in setting.conditions:
            if not when.holds(_value(config, when.setting)):
                idle[name] = when
                break
    while True:  # a setting beside one that does not act does not act either
        more = {
            name: next(w for w in setting.conditions if w.setting in idle)
            for name, setting in known.items()
            if name not in idle and any(when.setting in idle for when in setting.conditions)
        }
        if not more:
            return idle
        idle |= more


def _value(config: TrainConfig, name: str) -> Any:
    """Returns the value of a setting, or of a property of the configuration or of a group."""
    value = getattr(_owner(config, name), name)
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _owner(config: TrainConfig, name: str) -> Any:
    """Returns the configuration or the group with a setting or a property, None without one."""
    groups = (getattr(config, group) for group in groups_of(type(config)))
    return next((each for each in (*groups, config) if hasattr(each, name)), None)


def _unmet(config: TrainConfig, need: Needs) -> dict[str, Any]:
    """Returns the values that others must have and have not. A recipe may lack some of them."""
    lacking = lacking_settings(type(config))
    return {
        name: value
        for name, value in need.others.items()
        if name not in lacking and _owner(config, name) and _value(config, name) != value
    }


def check_effects(config: TrainConfig) -> None:
    """Raises ConfigError for a setting without effect, or one that others contradict."""
    for name, when in idle_settings(config).items():
        setting = settings_of(type(config))[name]
        value = _of(config, setting)
        if not (_is_default(value, setting) or _is_off(value)):
            raise IdleSettingError(name, when.advice(name))
    for name, setting in settings_of(type(config)).items():
        value = _of(config, setting)
        for need in setting.needs:
            if need.concerns(value) and (unmet := _unmet(config, need)):
                raise ConfigError(need.advice(name, value, setting.default, unmet))
    for name, setting in lacking_settings(type(config)).items():
        if _of(config, setting) != setting.default:
            raise unknown_setting(type(config), name)


def _of(config: TrainConfig, setting: Setting) -> Any:
    return getattr(getattr(config, setting.group) if setting.group else config, setting.name)


def _is_off(value: Any) -> bool:
    """Returns whether a value is a count of 0, which asks for nothing, as `eval_every` 0."""
    return type(value) is int and value == 0


def _is_default(value: Any, setting: Setting) -> bool:
    """Returns whether a value is a default of a setting: its own, or that of a kind of model."""
    value = tuple(value) if isinstance(value, list) else value
    flag = isinstance(value, bool)
    declared = getattr(setting.owner, setting.name, None)
    values = (setting.default, declared, *DEFAULTS.get(setting.name, {}).values())
    return any(flag == isinstance(each, bool) and value == each for each in values)


def is_default(kind: type[TrainConfig], name: str, value: Any) -> bool:
    """Returns whether a value of a setting that a class lacks is a default, as in older files."""
    everywhere = (_declared_in(each, name) for each in (kind, *_kinds(kind)))
    return any(_is_default(value, setting) for setting in everywhere if setting is not None)


def settings_of_file(kind: type[TrainConfig], found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a file by their new names, without defaults that a class lacks.

    Args:
        kind: the configuration class.
        found: the settings of the file, which may be of an older version.
    """
    known = settings_of(kind)
    return {
        name: value
        for name, value in with_new_names(found).items()
        if name in known or not is_default(kind, name, value)
    }


def settings_of_run(config: TrainConfig, found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in the file of a run, without defaults that are not listed now.

    Args:
        config: the settings with which the run continues.
        found: the settings of the file, which may be of an older version.
    """
    listed, kind = config.as_dict(), type(config)
    return {
        name: value
        for name, value in with_new_names(found).items()
        if name == "recipe" or name in listed or not is_default(kind, name, value)
    }


def _declared_in(kind: type[TrainConfig], name: str) -> Setting | None:
    return settings_of(kind).get(name) or lacking_settings(kind).get(name)


def _kinds(kind: type[TrainConfig]) -> Iterator[type[TrainConfig]]:
    """Yields the kinds of recipes, the base classes first."""
    classes = [next(base for base in reversed(kind.__mro__) if "described" in vars(base))]
    for each in classes:
        classes += each.__subclasses__()
    yield from (each for each in dict.fromkeys(classes) if "described" in vars(each))


def unknown_setting(kind: type[TrainConfig], name: str) -> UnknownArgumentError:
    """Returns the error for a setting that a configuration class does not have."""
    recipe = kind.__module__.rpartition(".")[2] if kind.__name__ == "Config" else kind.__name__
    known = settings_of(kind)
    for each in _kinds(kind):
        if each.described and name in settings_of(each):
            other = "other " if issubclass(kind, each) else ""
            meant = suggestion(name, known) if name in FAMILIAR else ""
            return UnknownArgumentError(
                f"{recipe} has no {name}: it is a setting of {other}{each.described}.{meant}"
            )
    return UnknownArgumentError(f"There is no setting {name!r}.{suggestion(name, known)}")
