"""The seats of games in training: the players in them, and checks that an environment has any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from agentgym.errors import ConfigError, did_you_mean
from agentgym.making import env_name
from agentgym.mixture import Mixture
from agentgym.multiagent.single_seat import SingleSeat
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.rollout.branches import turns_before
from agentgym.trainers.rollout.collector import EpisodeSpec, samples_of
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.settings import GroupRolloutConfig
from agentgym.trainers.trajectory import Trajectory

TextGym = gymnasium.Env[Any, Any]

OPPONENT = 1
"""Purpose of the randomness that samples an episode's opponent, derived from the episode's key."""


class Lineup:
    """Assigns players to the seats of the games in training.

    Args:
        config: the settings.
        env: an environment of the run, or a mixture.

    Attributes:
        agents: the agents that are trained, by the name of the environment in the mixture (""
            without a mixture). Empty if `opponents` is "scripted".

    Raises:
        ConfigError: if the settings do not fit the environment.
    """

    def __init__(self, config: TrainConfig, env: TextGym):
        self.agents: dict[str, tuple[str, ...]] = {}
        self._all: dict[str, tuple[str, ...]] = {}
        self._size = config.rollout.group_size
        if config.game.opponents == "scripted":
            return
        envs = env.envs if isinstance(env, Mixture) else {"": env}
        for name, each in envs.items():
            self._all[name], self.agents[name] = _agents(each, config)

    def seat(
        self, episodes: Sequence[EpisodeSpec], past: Sequence[str] = ()
    ) -> Sequence[EpisodeSpec]:
        """Returns the episodes of an iteration, with players in the seats of games.

        Args:
            episodes: the episodes, those of a group one after another. With snapshots, a group
                trains one seat, and the groups take the seats in turn.
            past: the names of the snapshots to play against. Empty: the policy plays the
                seats that are trained.
        """
        if not self.agents:
            return episodes
        return [self._seated(episode, i // self._size, past) for i, episode in enumerate(episodes)]

    def branch(
        self, members: Sequence[Trajectory], order: int, key: tuple[int, ...]
    ) -> EpisodeSpec:
        """Returns the request to play an episode again, with new actions from a turn on.

        Args:
            members: the trajectories of the episode, of all agents that acted. The policy in
                training played them.
            order: the turn of the game in which the new actions begin (see `Turn.order`).
            key: seed of the new actions.
        """
        openings = {each.agent: samples_of(each, turns_before(each, order)) for each in members}
        task, seed, agent = members[0].task, members[0].seed, members[0].agent
        if not self.agents:
            return EpisodeSpec(task, seed, key, openings[agent])
        return replace(self._seated(EpisodeSpec(task, seed, key), 0, ()), openings=openings)

    def _seated(self, episode: EpisodeSpec, group: int, past: Sequence[str]) -> GameSpec:
        name = "" if "" in self.agents else episode.task.partition(" ")[0]
        trained = self.agents[name]
        players = dict.fromkeys(trained, "")
        if past:
            rng = np.random.default_rng(np.random.SeedSequence((*episode.key, OPPONENT)))
            opponent = past[int(rng.integers(len(past)))]
            players = dict.fromkeys(self._all[name], opponent)
            players[trained[group % len(trained)]] = ""
        seats = tuple(players.items())
        return GameSpec(**vars(episode), seats=seats)


def _agents(env: TextGym, config: TrainConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all agents of a game, and those that are trained."""
    name, single = env_name(env), env.unwrapped
    if not isinstance(single, SingleSeat):
        raise ConfigError(
            f"opponents {config.game.opponents!r} are players of a game, and {name} has one "
            "agent: leave opponents at 'scripted'."
        )
    for wrapper in _wrappers(env):
        raise ConfigError(
            f"{type(wrapper).__name__} wraps a single agent, but opponents "
            f"{config.game.opponents!r} plays all seats of {name}: leave out wrap and reward, or "
            "leave opponents at 'scripted'."
        )
    if single.seat is not None:
        raise ConfigError(
            f"seat = {single.seat!r} is a trained seat against scripted opponents: with opponents "
            f"{config.game.opponents!r}, name the trained seats in learners."
        )
    agents = single.game.possible_agents
    chosen = config.game.learners or agents
    for agent in chosen:
        if agent not in agents:
            hint = did_you_mean(agent, agents)
            raise ConfigError(f"learners must be agents of {name}, {agents}, got {agent!r}.{hint}")
    grouped = isinstance(config.rollout, GroupRolloutConfig) and not config.grouped_by_agent
    several = config.game.opponents == "mirror" and len(set(chosen)) > 1
    if (grouped or config.team_credit) and several and single.game.zero_sum:
        raise ConfigError(
            f"{name} is a zero-sum game, and the policy plays several of its seats: their mean "
            "return is 0 whatever it learns, and no baseline for a group. Use the recipe rae, with "
            "a baseline per role, or train one seat (learners)."
        )
    return agents, tuple(agent for agent in agents if agent in chosen)


def _wrappers(env: TextGym) -> Iterator[TextGym]:
    """Yields the wrappers that change observations, actions or rewards."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker):
            yield env
        env = env.env
