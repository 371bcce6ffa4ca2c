"""Checks of a run before it starts, for commands that start many."""

from __future__ import annotations

from agentgym.trainers import recipes
from agentgym.trainers.players.lineup import Lineup
from agentgym.trainers.policy.model_defaults import check_model_name
from agentgym.trainers.run.checks import check_recipe, check_start
from agentgym.trainers.run.environment import environment_factory, evaluation_factory
from agentgym.trainers.settings.config import TrainConfig


def check_run(recipe: str, config: TrainConfig) -> None:
    """Raises ConfigError for settings that a run refuses before it loads its model.

    Args:
        recipe: name of the recipe.
        config: the settings.
    """
    algorithm = recipes.load(recipe).build(config)
    check_recipe(recipe, config, algorithm)
    check_model_name(config.model.model)
    make_env, config = environment_factory(config, None, None)
    make_eval_env = evaluation_factory(config, make_env, None)
    for make in dict.fromkeys((make_env, make_eval_env)):
        env = make()
        if make is make_env:
            check_start(config, env)
            Lineup(config, env, algorithm.outcomes)
        env.close()
