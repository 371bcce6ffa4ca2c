"""The environments of a run: from an id, an object or a function, and a reward function."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.making import make_env
from agentgym.textify.text_actions import TextActionEnv, as_text_env
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.rollout.thoughts import span_finder
from agentgym.wrappers import RewardFunction
from agentgym.wrappers.reward_function import RewardFn
from agentgym.wrappers.wrapping import wrap_env

__all__ = ["MakeEnv", "RewardFn", "environment_factory"]

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


def environment_factory(
    config: TrainConfig, env: Any, reward: RewardFn | None
) -> tuple[MakeEnv, TrainConfig]:
    """Returns a function that makes one environment, and the settings with its name.

    A plain Gymnasium environment with `Text` spaces is adapted (`agentgym.textify`).

    Args:
        config: the settings. `env_id` and `env_kwargs` are used if `env` is None, `wrap` always.
        env: an environment, of which every slot plays a copy, or a function that makes a new one
            at each call.
        reward: replaces the reward of every step.

    Raises:
        ConfigError: if `env` is neither, or given together with `env_kwargs`. The function raises
            it if `env` returns no environment, or the same one again.
    """
    make = _factory(config, env)
    if env is not None:
        example = make()
        name = example.spec.id if example.spec else _class_name(example)
        example.close()
        config = config.with_changes(env_id=name)
    if reward is None:
        return make, config
    return lambda: RewardFunction(make(), reward), config


def check_constraint(config: TrainConfig, env: gymnasium.Env[Any, Any]) -> None:
    """Raises ConfigError if actions are constrained in an environment that reads whole replies."""
    if config.rollout.constrain and span_finder(env) is not None:
        raise ConfigError(
            "constrain samples an admissible action as the whole reply, but ExtractAction reads "
            "the action from a longer one: leave out constrain or the wrapper."
        )


def _factory(config: TrainConfig, env: Any) -> MakeEnv:
    chosen = config.environment
    if "wrap" in chosen.env_kwargs:
        raise ConfigError("Wrappers are a setting of their own: use wrap, not env_kwargs.")
    if env is None:
        return lambda: make_env(chosen.env_id, wrap=chosen.wrap, **chosen.env_kwargs)
    if isinstance(env, str):
        raise ConfigError(f"env must be an environment or a function: use env_id={env!r}.")
    if chosen.env_kwargs:
        raise ConfigError("env_kwargs need env_id: pass them to the constructor of env instead.")
    if isinstance(env, gymnasium.Env):
        return lambda: wrap_env(as_text_env(copy.deepcopy(env)), chosen.wrap)
    if callable(env):
        make = _checked(env)
        return lambda: wrap_env(make(), chosen.wrap)
    raise ConfigError(
        f"env must be an environment or a function that makes one, got {env!r:.80} "
        f"({type(env).__name__})."
    )


def _checked(make: Callable[[], Any]) -> MakeEnv:
    """Returns a function that also checks that it makes an environment, each time a new one."""
    made: weakref.WeakSet[gymnasium.Env[Any, Any]] = weakref.WeakSet()

    def make_checked() -> gymnasium.Env[Any, Any]:
        env = make()
        if not isinstance(env, gymnasium.Env):
            raise ConfigError(
                f"The function env must return a gymnasium.Env, got {env!r:.80} "
                f"({type(env).__name__})."
            )
        if env in made:
            raise ConfigError(
                "The function env must return a new environment at each call: it returned the same "
                "object twice."
            )
        made.add(env)
        return as_text_env(env)

    return make_checked


def _class_name(env: gymnasium.Env[Any, Any]) -> str:
    inner = env.unwrapped
    if isinstance(inner, TextActionEnv):
        inner = inner.env.unwrapped
    return type(inner).__name__
