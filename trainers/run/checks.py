"""Checks that the settings of a run fit its recipe."""

from __future__ import annotations

from agentgym.errors import ConfigError
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import CriticConfig


def check_critic(
    recipe: str, critic: CriticConfig, *, has_critic: bool, credits_returns: bool, games: bool
) -> None:
    """Raises ConfigError for settings of a critic that the recipe does not have.

    Args:
        recipe: name of the recipe.
        critic: the settings.
        has_critic: whether the recipe has a critic.
        credits_returns: whether its credit, and with it the targets of the critic, is a function of
            trajectories and values alone.
        games: whether the policy plays in seats of games.
    """
    own = critic.critic_trunk == "own"
    if own and not has_critic:
        raise ConfigError(
            f"critic_trunk = 'own' trains a critic, and {recipe} has none: set it to 'policy', or "
            "use a recipe with a critic, such as poad or turn."
        )
    if critic.critic_head == "two_hot" and not own:
        raise ConfigError(
            "critic_head = 'two_hot' needs normalised values, which a critic with its own trunk "
            "has: set critic_trunk to 'own', or critic_head to 'scalar'."
        )
    if critic.value_clip is not None and own:
        raise ConfigError(
            f"value_clip = {critic.value_clip:g} bounds the change of a critic on the policy's "
            "hidden states: set critic_trunk to 'policy', or leave out value_clip."
        )
    if critic.critic_episodes and not (own and credits_returns):
        raise ConfigError(
            f"critic_episodes = {critic.critic_episodes} fits a critic with its own trunk to the "
            "returns before RL: set critic_trunk to 'own' with a recipe such as poad or turn, or "
            "critic_episodes to 0."
        )
    if critic.critic_sees == "all" and not (own and games):
        raise ConfigError(
            "critic_sees = 'all' shows a critic the observations of all agents of a game, beside "
            "the prompt of the policy: set critic_trunk to 'own' and opponents to 'mirror' or "
            f"another kind than 'scripted', got critic_trunk = {critic.critic_trunk!r}"
            f"{'' if games else ' and opponents = scripted'}. Or set critic_sees to 'own'."
        )
    if critic.sees_hidden_state and (games or not own):
        raise ConfigError(
            f"critic_sees = {critic.critic_sees!r} shows a critic the hidden state of an "
            "environment: set critic_trunk to 'own' and opponents to 'scripted', got "
            f"critic_trunk = {critic.critic_trunk!r}"
            f"{' and other opponents' if games else ''}. Or set critic_sees to 'own'."
        )


def check_hooks(
    recipe: str, config: TrainConfig, hooks: RecipeHooks, *, has_critic: bool, games: bool
) -> None:
    """Raises ConfigError for settings that the hooks of a recipe do not support.

    Args:
        recipe: name of the recipe.
        config: the settings.
        hooks: the hooks.
        has_critic: whether the recipe has a critic.
        games: whether the policy plays in seats of games.
    """
    if games and not (hooks.plays and hooks.games):
        raise ConfigError(
            f"{recipe} learns from episodes of one agent: leave opponents at 'scripted'."
        )
    mixed = any(each.kind != "mirror" for each in config.game.mixture)
    if games and hooks.branches and mixed:
        raise ConfigError(
            f"{recipe} repeats episodes up to a turn, which other players do not: set opponents to "
            f"'mirror', got {config.game.opponents!r}."
        )
    for name in ("max_staleness", "cross_policy"):
        if not hooks.plays and getattr(config.rollout, name):
            raise ConfigError(f"{recipe} learns from fixed data: leave {name} at 0.")
    if hooks.one_policy and config.game.roles != "shared":
        raise ConfigError(
            f"{recipe} trains models beside a single policy: leave roles at 'shared'."
        )
    loss, critic = config.loss, config.critic
    if critic.critic_warmup and not (has_critic or hooks.modules()):
        raise ConfigError(
            f"critic_warmup = {critic.critic_warmup} trains the critic alone, and {recipe} has "
            "none: leave it at 0."
        )
    if critic.critic_episodes and type(hooks).on_rewards is not RecipeHooks.on_rewards:
        raise ConfigError(
            f"critic_episodes = {critic.critic_episodes} fits the critic to the rewards of the "
            f"environment, and {recipe} changes them: leave it at 0."
        )
    if loss.reference_every and not (loss.kl_coef > 0 or hooks.needs_reference):
        raise ConfigError(
            f"kl_reference = {loss.kl_reference!r} moves the reference of the KL penalty, and "
            "there is none: set kl_coef above 0, or kl_reference to 'start'."
        )
