"""The seats of games in training: the players in them, and checks that an environment has any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import game_agent
from agentgym.registration.entry import UNKNOWN
from agentgym.registration.making import env_name
from agentgym.registration.mixture import Mixture
from agentgym.registration.single_seat import SingleSeat
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout.branches import samples_of, turns_before
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.opponents import POOLS, Opponent
from agentgym.wrappers import ExtractAction

TextGym = gymnasium.Env[Any, Any]
Player = tuple[str, str]
"""The player of the other seats: ("mirror", ""), ("frozen", name of its weights), or ("outside",
level or word for `game_agent`, "" for the opponents of the environment)."""

SEAT_ARGUMENTS = ("game", "seat", "opponents", "split", "invalid_penalty", "render_mode")
"""Arguments of a `SingleSeat` environment that its game does not take."""


def game_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a game, given those of its `SingleSeat` environment."""
    return {name: value for name, value in kwargs.items() if name not in SEAT_ARGUMENTS}


class Lineup:
    """Assigns players to the seats of the games in training.

    Args:
        config: the settings.
        env: an environment of the run, or a mixture.
        outcomes: the outcomes that credit compares (see `Algorithm`).

    Attributes:
        agents: the agents that are trained, by the name of the environment in the mixture (""
            without a mixture). Empty if `opponents` is "scripted".
        roles: the roles that have a policy of their own. A single "" if all share one.
        team: whether the policy plays all seats in evaluations (see `eval_partners`).

    Raises:
        ConfigError: if the settings do not fit the environment.
    """

    def __init__(self, config: TrainConfig, env: TextGym, outcomes: str = "own"):
        self.agents: dict[str, tuple[str, ...]] = {}
        self._all: dict[str, tuple[str, ...]] = {}
        self._size, self._game = config.rollout.group_size, config.game
        self._central = config.critic.critic_sees == "all"
        self._warmup = config.critic.critic_warmup
        self.roles: tuple[str, ...] = ("",)
        self.team = config.evaluation.eval_partners == "self"
        if config.game.scripted:
            return
        envs = env.envs if isinstance(env, Mixture) else {"": env}
        for name, each in envs.items():
            self._all[name], self.agents[name] = _agents(each, config, outcomes)
        self._mixture = config.game.mixture
        alone = all(each.kind in ("mirror", *POOLS) for each in self._mixture)
        if config.evaluation.eval_partners == "auto" and config.trains_whole_game and alone:
            single = env.unwrapped
            assert isinstance(single, SingleSeat)
            self.team = single.game.common_reward
        if config.game.roles != "shared":
            self.roles = tuple(dict.fromkeys(self._own_roles(envs)))
            self._check_rates(config.optimisation.lr)

    def _own_roles(self, envs: Mapping[str, TextGym]) -> Iterator[str]:
        """Yields the roles that the trained agents can have."""
        for name, env in envs.items():
            single = env.unwrapped
            assert isinstance(single, SingleSeat)
            for agent in self.agents[name]:
                yield from single.game.possible_roles(agent)

    def _check_rates(self, lr: float) -> None:
        for role in self._game.role_lr:
            if role not in self.roles:
                raise ConfigError(
                    f"role_lr must name trained roles, {self.roles}, got {role!r}."
                    f"{did_you_mean(role, self.roles)}"
                )
        if not any(self._game.role_lr.get(role, lr) for role in self.roles):
            raise ConfigError("The learning rate of every role is 0: raise lr or one of role_lr.")

    def learning(self, iteration: int) -> tuple[str, ...]:
        """Returns the roles that learn in an iteration: all, or one of them in turn.

        While `critic_warmup` lasts, the critics of all of them do.
        """
        rates, every = self._game.role_lr, self._game.alternate
        roles = tuple(role for role in self.roles if rates.get(role) != 0)
        if not every or iteration < self._warmup:
            return roles
        return (roles[iteration // every % len(roles)],)

    def seat(
        self,
        episodes: Sequence[EpisodeSpec],
        iteration: int,
        members: Mapping[str, float],
        share: float = 0.0,
    ) -> Sequence[EpisodeSpec]:
        """Returns the episodes of an iteration, with players in the seats of games.

        The episodes of a group have the same opponent. Unless the policy plays against itself, they
        train one seat, and the groups of all iterations take the seats in turn.

        Args:
            episodes: the episodes, those of a group one after another.
            iteration: the number of finished iterations.
            members: the probability of each member of the pool, by the name of its weights.
            share: the share of the pool, if it is automatic.
        """
        if not self.agents:
            return episodes
        players, earlier = self._players(members, share), iteration * len(episodes)
        return [
            self._seated(episode, (earlier + i) // self._size, self._draw(players, episodes, i))
            for i, episode in enumerate(episodes)
        ]

    def demonstration(self, episode: EpisodeSpec) -> EpisodeSpec:
        """Returns the episode of an expert, who plays all seats that are trained."""
        return self._seated(episode, 0, ("mirror", "")) if self.agents else episode

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
        seated = self._seated(EpisodeSpec(task, seed, key), 0, ("mirror", ""))
        return replace(seated, openings=openings, explorer=members[0].explorer)

    def _players(self, members: Mapping[str, float], pooled: float) -> dict[Player, float]:
        """Returns the probability of each player of the other seats."""
        total = sum(each.weight for each in self._mixture)
        rest = 1 - pooled if any(each.automatic for each in self._mixture) else 1.0
        found: dict[Player, float] = {}
        for each in self._mixture:
            share = pooled if each.automatic else rest * each.weight / total
            if each.kind in POOLS:
                found |= {("frozen", name): share * p for name, p in members.items()}
            elif each.kind == "policy":
                found["frozen", each.word] = share
            elif each.kind == "mirror":
                found["mirror", ""] = share
            else:
                found["outside", _outside(each)] = share
        return found

    def _draw(
        self, players: Mapping[Player, float], episodes: Sequence[EpisodeSpec], number: int
    ) -> Player:
        """Samples the opponent of an episode, by the first episode of its group."""
        first = episodes[number - number % self._size]
        seed, *rest = first.key
        rng = np.random.default_rng(np.random.SeedSequence(stream(seed, "opponents", *rest)))
        shares = np.array([*players.values()])
        return [*players][int(rng.choice(len(players), p=shares / shares.sum()))]

    def _seated(self, episode: EpisodeSpec, group: int, player: Player) -> GameSpec:
        name = "" if "" in self.agents else episode.task.partition(" ")[0]
        trained, (kind, word) = self.agents[name], player
        seats, one = dict.fromkeys(trained, ""), trained[group % len(trained)]
        if kind == "frozen":
            seats = dict.fromkeys(self._all[name], word) | {one: ""}
        elif kind == "outside":
            seats = {one: ""}
        return GameSpec(
            **vars(episode),
            seats=tuple(seats.items()),
            opponent=word if kind == "outside" else "",
            by_role=self.roles != ("",),
            central=self._central,
            explorer=one if self._game.explorers == "one" else "",
        )


def _agents(
    env: TextGym, config: TrainConfig, outcomes: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all agents of a game, and those that are trained."""
    name, single = env_name(env), env.unwrapped
    if not isinstance(single, SingleSeat):
        raise ConfigError(
            f"opponents {config.game.opponents!r} are players of a game, and {name} has one "
            "agent: leave opponents at 'scripted', or give all seats of a game an id with "
            "agentgym.register_game."
        )
    wrappers = [type(wrapper) for wrapper in _wrappers(env)]
    for kind in wrappers:
        if kind is not ExtractAction:
            raise ConfigError(
                f"{kind.__name__} wraps a single agent, but opponents {config.game.opponents!r} "
                f"plays all seats of {name}, whose only wrapper may be one ExtractAction: leave "
                "out other wrappers and reward, or leave opponents at 'scripted'."
            )
    pool = config.game.pool
    if wrappers and (len(wrappers) > 1 or (pool is not None and pool.kind == "psro")):
        raise ConfigError(
            f"Seats have at most one ExtractAction, and those of games for the payoff matrix of "
            f"psro none: got {len(wrappers)} and opponents {config.game.opponents!r}."
        )
    if single.seat is not None:
        raise ConfigError(
            f"seat = {single.seat!r} is a trained seat against scripted opponents: with opponents "
            f"{config.game.opponents!r}, name the trained seats in learners."
        )
    agents = single.game.possible_agents
    if pool is not None and pool.kind == "winrate" and single.game.common_reward:
        raise ConfigError(
            f"{name} has a common reward, so nobody wins, and {pool.word} would never add a "
            "member: set opponents to past:K."
        )
    for each in config.game.mixture:
        _check_outside(each, single.game, name)
    chosen = config.game.learners or agents
    for agent in chosen:
        if agent not in agents:
            hint = did_you_mean(agent, agents)
            raise ConfigError(f"learners must be agents of {name}, {agents}, got {agent!r}.{hint}")
    mirror = any(each.kind == "mirror" and each.weight > 0 for each in config.game.mixture)
    against_itself = mirror and set(chosen) == set(agents) and single.game.zero_sum
    if outcomes != "own" and against_itself:
        raise ConfigError(
            f"{name} is a zero-sum game, and the policy plays all of its seats: their mean return "
            "is 0 whatever it learns, and no baseline for a group. Use the recipe rae, with a "
            "baseline per role, or train one seat or one team (learners)."
        )
    if config.reward.splits_rewards and against_itself:
        raise ConfigError(
            f"{name} is a zero-sum game, and process_combine {config.reward.process_combine!r} "
            "would give an agent's gain to its opponent: set it to 'mean' or 'outcome', or train "
            "one seat or one team (learners)."
        )
    return agents, tuple(agent for agent in agents if agent in chosen)


def _outside(opponent: Opponent) -> str:
    """Returns the level or the word for `game_agent` of an opponent, "" if it has none."""
    if opponent.kind == "scripted":
        return opponent.argument
    return opponent.word if opponent.outside else ""


def _check_outside(opponent: Opponent, game: TextGame, name: str) -> None:
    """Raises a ConfigError for an unknown level or a malformed address."""
    levels = (*game.levels, UNKNOWN)
    if opponent.outside:
        game_agent(game, opponent.word)
    elif opponent.kind == "scripted" and opponent.argument not in ("", *levels):
        hint = did_you_mean(opponent.argument, levels)
        raise ConfigError(
            f"opponents: {name} has no level {opponent.argument!r}.{hint} Known: {list(levels)}."
        )


def _wrappers(env: TextGym) -> Iterator[TextGym]:
    """Yields the wrappers that change observations, actions or rewards."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker):
            yield env
        env = env.env
