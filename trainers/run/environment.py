"""The environments of a run: from an id, an object or a function, and a reward function."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.registration.making import (
    factory_of,
    full_id,
    make_env,
    privileged_ids,
    split_id,
    split_names_tasks,
)
from agentgym.registration.mixture import Mixture
from agentgym.textify.text_actions import TextActionEnv
from agentgym.time_limits import limit_calls
from agentgym.tools.grammar import call_grammar
from agentgym.trainers.gateway.task_file import TaskFile
from agentgym.trainers.policy.grammars import check_grammars
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.rollout.thoughts import span_finder
from agentgym.trainers.settings import EnvironmentConfig
from agentgym.trainers.settings.config import TrainConfig
from agentgym.wrappers import PrivilegedText, RewardFunction
from agentgym.wrappers.reward_function import RewardFn
from agentgym.wrappers.wrapping import wrap_env

__all__ = ["MakeEnv", "RewardFn", "environment_factory"]


def environment_factory(
    config: TrainConfig, env: Any, reward: RewardFn | None
) -> tuple[MakeEnv, TrainConfig]:
    """Returns a function that makes one environment, and the settings with its name.

    A plain Gymnasium environment with `Text` spaces is adapted (`agentgym.textify`).

    Args:
        config: the settings. `tasks`, or else `env_id` and `env_kwargs`, are used if `env` is None,
            `wrap` always.
        env: an environment, of which every slot plays a copy, or a function that makes a new one
            at each call.
        reward: replaces the reward of every step.

    Raises:
        ConfigError: if `env` is neither, or given together with `env_kwargs`, or there are both
            `tasks` and an id. The function raises it if `env` returns no environment, or the same
            one again.
    """
    chosen = config.environment
    if "wrap" in chosen.env_kwargs:
        raise ConfigError("Wrappers are a setting of their own: use wrap, not env_kwargs.")
    if env is None and config.program.tasks:
        if chosen.env_id not in (EnvironmentConfig().env_id, TaskFile.__name__):
            raise ConfigError(
                f"tasks takes the place of env_id, got both {config.program.tasks!r} and "
                f"{chosen.env_id!r}: leave one of them out."
            )
        env = partial(TaskFile, config.program.tasks)
    if env is None:
        makers = [_maker(id, config, chosen.env_kwargs, reward) for id in chosen.ids]
        return _mixed(chosen.ids, makers, chosen.mix), config
    if len(chosen.ids) > 1 or config.evaluation.eval_env_id:
        raise ConfigError("Several environments are given by their ids: use env_id, not env.")
    make = _factory(config, env)
    example = make()
    name = example.spec.id if example.spec else _class_name(example)
    example.close()
    return _dressed(make, config, reward), config.with_changes(env_id=name)


def evaluation_factory(config: TrainConfig, make_env: MakeEnv, reward: RewardFn | None) -> MakeEnv:
    """Returns a function that makes one environment of the evaluations.

    With `eval_env_id` it is a mixture, in which every environment occurs equally often. The
    `env_kwargs` are those of the training environments only.

    Args:
        config: the settings.
        make_env: makes one training environment.
        reward: replaces the reward of every step.

    Raises:
        ConfigError: if there is no such id in `eval_env_id`.
    """
    ids, others = config.environment.ids, config.evaluation.eval_env_id
    for id in others:
        full_id(split_id(id)[0])  # raises for an unknown one
    if len(ids) == 1 and not others:
        return make_env
    makers = [_maker(id, config, config.environment.env_kwargs, reward) for id in ids]
    makers += [_maker(id, config, {}, reward) for id in others]
    return _mixed((*ids, *others), makers)


def _maker(
    id: str, config: TrainConfig, kwargs: dict[str, Any], reward: RewardFn | None
) -> MakeEnv:
    wrap, (name, own) = config.environment.wrap, split_id(id)
    given = {**kwargs, **own}

    def make() -> gymnasium.Env[Any, Any]:
        env = make_env(name, wrap=wrap, **given)
        if "split" in given and split_names_tasks(env):
            env.close()
            raise ConfigError(
                f"Training plays the training tasks of {name} and evaluations the held-out ones: "
                "leave split out of its arguments."
            )
        return env

    return _dressed(make, config, reward)


def _dressed(make: MakeEnv, config: TrainConfig, reward: RewardFn | None) -> MakeEnv:
    """Returns a maker that adds the reward, and the text for a reader of hidden states."""
    rewarded = make if reward is None else lambda: RewardFunction(make(), reward)
    if not config.reads_hidden_state:
        return rewarded
    return lambda: _privileged(rewarded())


def _privileged(env: gymnasium.Env[Any, Any]) -> PrivilegedText:
    try:
        return PrivilegedText(env)
    except ConfigError as error:
        known = ", ".join(privileged_ids())
        raise ConfigError(
            f"critic_sees or teacher_sees shows the hidden state: {error} Known: {known}."
        ) from None


def _mixed(ids: Sequence[str], makers: Sequence[MakeEnv], mix: Sequence[int] = ()) -> MakeEnv:
    if len(makers) == 1:
        return makers[0]
    return lambda: Mixture({id: make() for id, make in zip(ids, makers, strict=True)}, mix)


def has_expert(make: MakeEnv, seconds: float | None = None) -> bool:
    """Returns whether a new environment, or each one of a mixture, has a scripted expert.

    An environment that fails has none.

    Args:
        make: makes an environment.
        seconds: time limit of the question. None: no limit.
    """
    calls = limit_calls(seconds)
    for seed in range(3):  # a start that takes too long: another one may not
        with suppress(Exception):
            return calls(partial(_have_experts, make(), seed))
    return False


def _have_experts(made: gymnasium.Env[Any, Any], seed: int) -> bool:
    with suppress(Exception), closing(made):
        for env in made.envs.values() if isinstance(made, Mixture) else (made,):
            env.reset(seed=seed)
            if env.get_wrapper_attr("expert")() is None:
                return False
        return True
    return False


def check_replies(config: TrainConfig, env: gymnasium.Env[Any, Any]) -> None:
    """Raises ConfigError for settings that do not fit the way an environment reads replies."""
    extracts, loss = span_finder(env) is not None, config.loss
    plain = {"thought_coef": 1.0, "thought_credit": "token"}
    for name, value in plain.items():
        if getattr(loss, name) != value and not extracts:
            raise ConfigError(
                f"{name} belongs to thoughts, the parts of a reply that ExtractAction does not "
                f"read: set wrap to ExtractAction, or leave out {name}."
            )
    if config.rollout.constrain and extracts:
        raise ConfigError(
            "constrain samples an admissible action as the whole reply, but ExtractAction reads "
            "the action from a longer one: leave out constrain or the wrapper."
        )
    played = env.envs.values() if isinstance(env, Mixture) else (env,)
    if config.rollout.constrain and not config.program.harness and any(map(call_grammar, played)):
        check_grammars(config.rollout.engine)


def _factory(config: TrainConfig, env: Any) -> MakeEnv:
    chosen = config.environment
    if isinstance(env, str):
        raise ConfigError(f"env must be an environment or a function: use env_id={env!r}.")
    if chosen.env_kwargs:
        raise ConfigError("env_kwargs need env_id: pass them to the constructor of env instead.")
    make = factory_of(env)
    return lambda: wrap_env(make(), chosen.wrap)


def _class_name(env: gymnasium.Env[Any, Any]) -> str:
    inner = env.unwrapped
    if isinstance(inner, TextActionEnv):
        inner = inner.env.unwrapped
    return type(inner).__name__
