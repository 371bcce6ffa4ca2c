"""Checks that the settings of a run fit its recipe, its environment and its model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium

from agentgym.data.reading import check_episodes
from agentgym.errors import ConfigError, MissingExtraError, did_you_mean
from agentgym.registration.making import env_name, tasks_of
from agentgym.registration.mixture import Mixture
from agentgym.time_limits import CallTimeout, limit_calls
from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rewards.shaping import OWN_SCORES, scorer
from agentgym.trainers.rollout.curriculum import TASK_FILE, listed_tasks
from agentgym.trainers.run.environment import check_replies
from agentgym.trainers.settings import settings_of
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.kinds import SAMPLED


def check_files(config: TrainConfig) -> None:
    """Reads the files of episodes that a new run learns from, to find wrong ones early.

    Raises:
        DataError: if one of them cannot be used.
    """
    check_episodes((*config.cloning.data, *config.cloning.general_data))


def check_start(config: TrainConfig, env: gymnasium.Env[Any, Any]) -> None:
    """Checks, before the folder of a run is made, everything that a new run would find later.

    Args:
        config: the settings.
        env: an environment of the run, or a mixture.

    Raises:
        ConfigError: if actions are constrained that are read from whole replies, or for the name of
            a reward term that the environment does not have.
        DataError: if a file of the settings cannot be used.
        MissingExtraError: if Ray or vLLM is needed and not installed.
    """
    check_replies(config, env)
    rollout = config.rollout
    if config.program.harness and find_spec("uvicorn") is None:
        raise MissingExtraError("harness", "serve")
    if rollout.rollout_workers and find_spec("ray") is None:
        raise MissingExtraError("rollout_workers", "ray")
    own = rollout.engine == "vllm" and rollout.engine_url is None and not rollout.rollout_workers
    if own and find_spec("vllm") is None:
        raise MissingExtraError("The engine 'vllm'", "vllm")
    if not config.run.resume:  # else the run may go on, and need them no more
        check_files(config)
    if config.environment.curriculum.endswith(TASK_FILE):
        listed_tasks(config.environment.curriculum, tasks_of(env).split("train"))
    constraints = [("reward_constraints", name) for name in config.reward.reward_constraints]
    if named := [*constraints, *filter(_is_term, config.score_sources.items())]:
        for each in env.envs.values() if isinstance(env, Mixture) else (env,):
            try:
                limit_calls(config.environment.env_seconds)(
                    partial(_check_terms, each, named, config.run.seed)
                )
            except CallTimeout as error:
                raise ConfigError(f"{env_name(each)}: the first turn {error}.") from error


def _is_term(source: tuple[str, str]) -> bool:
    return bool(source[1]) and ":" not in source[1] and source[1] not in OWN_SCORES


def _check_terms(env: gymnasium.Env[Any, Any], named: Sequence[tuple[str, str]], seed: int) -> None:
    """Raises a ConfigError unless a turn of an environment has the reward terms of settings."""
    _, info = env.reset(seed=seed)
    *_, info = env.step(next(iter(info.get("admissible", ())), ""))  # wrappers may add terms
    terms = tuple(info.get("reward_terms", ("task",)))
    for option, name in named:
        if name not in terms:
            known = terms if option == "reward_constraints" else (*terms, *OWN_SCORES)
            raise ConfigError(
                f"{option} names the reward term {name!r}, and {env_name(env)} has "
                f"{', '.join(terms)}.{did_you_mean(name, known)}"
            )


def check_recipe(recipe: str, config: TrainConfig, algorithm: Algorithm) -> None:
    """Raises ConfigError for settings that do not fit the declaration of the recipe.

    It is also raised for a source of process rewards that does not exist.

    Args:
        recipe: name of the recipe.
        config: the settings.
        algorithm: the declaration of the recipe.
    """
    if config.reward.process_reward:
        scorer(config.reward.process_reward)  # raises for a function that does not exist
    _check_data(recipe, config, algorithm)
    if config.program.harness and algorithm.replays:
        raise ConfigError(
            f"{recipe} plays episodes again from recorded actions, and the program of `harness` "
            "plays them from their start: choose a recipe such as grpo, gigpo, poad or turn, or "
            "leave out harness."
        )
    if not config.game.scripted:
        _check_seats(recipe, config, algorithm)


def _check_data(recipe: str, config: TrainConfig, algorithm: Algorithm) -> None:
    """Raises ConfigError for settings that need the policy's own actions."""
    if algorithm.data == "own":
        return
    explored = ("epsilon",) if isinstance(algorithm.signal, PolicyGradient) else ()
    known = settings_of(type(config))
    config.fixed(
        f"in {recipe}, the policy has not sampled some of the actions that it learns from",
        **{name: known[name].default for name in (*SAMPLED, *explored) if name in known},
    )


def _check_seats(recipe: str, config: TrainConfig, algorithm: Algorithm) -> None:
    """Raises ConfigError for seats of games that the recipe does not train."""
    game = config.game
    if algorithm.seats == "one" or algorithm.data == "fixed":
        raise ConfigError(
            f"{recipe} learns from episodes of one agent: leave opponents at 'scripted'."
        )
    if algorithm.seats == "mirror" and any(each.kind != "mirror" for each in game.mixture):
        raise ConfigError(
            f"{recipe} repeats episodes up to a turn, which other players do not: set opponents to "
            f"'mirror', got {game.opponents!r}."
        )
    if algorithm.seats == "shared" and game.roles != "shared":
        raise ConfigError(
            f"{recipe} trains models beside a single policy: leave roles at 'shared'."
        )


def check_hooks(recipe: str, config: TrainConfig, algorithm: Algorithm, hooks: RecipeHooks) -> None:
    """Raises ConfigError for settings that the hooks of a recipe do not support.

    Args:
        recipe: name of the recipe.
        config: the settings.
        algorithm: the declaration of the recipe.
        hooks: its hooks.
    """
    critic = config.critic
    if critic.critic_warmup and algorithm.critic is None and not hooks.modules():
        raise ConfigError(
            f"critic_warmup = {critic.critic_warmup} trains the critic alone, and {recipe} has "
            "none: leave it at 0."
        )
    if critic.critic_episodes and type(hooks).on_rewards is not RecipeHooks.on_rewards:
        raise ConfigError(
            f"critic_episodes = {critic.critic_episodes} fits the critic to the rewards of the "
            f"environment, and {recipe} changes them: leave it at 0."
        )
