"""A bandit over roles: which of many candidates form the most helpful team."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.team.importance import Rate, best_roles, team_importance
from agentgym.envs.team.roles import Role
from agentgym.errors import ConfigError
from agentgym.multiagent.seats import GameAgent

UNPLAYED = 1e6
"""Bound of a candidate that has not played: above all others, and finite so that two exceed one."""


@dataclass(frozen=True)
class TeamSearch:
    """The result of `search_team`.

    Attributes:
        roles: the roles of the best team found.
        helpfulness: the mean importance of each candidate in the episodes that it played, by name.
            0 for a candidate that has not played.
        plays: the number of rounds in which each candidate played.
        returns: the mean return of the team of every round.
    """

    roles: tuple[Role, ...]
    helpfulness: Mapping[str, float]
    plays: Mapping[str, int]
    returns: Sequence[float]


def search_team(
    env: str,
    candidates: Sequence[Role],
    size: int,
    agents: GameAgent | Mapping[str, GameAgent],
    *,
    rate: Rate | None = None,
    rounds: int = 20,
    episodes: int = 4,
    split: str = "train",
    seed: int = 0,
    **kwargs: Any,
) -> TeamSearch:
    """Finds the most helpful roles among candidates, with a bandit.

    The search of BOAD ("Discovering Hierarchical Software Engineering Agents via Bandit
    Optimization", arXiv 2512.23631). Every candidate is an arm. In each round, the candidates with
    the highest upper confidence bounds, mean + sqrt(2 ln(round) / plays), play as a team. Each of
    them is rewarded by its own helpfulness and not by the success of the team, so that no role
    profits from the work of the others.

    Differences: helpfulness is the importance of a role (see `team_importance`), not the verdict of
    a judge, and no new candidates are generated during the search.

    Args:
        env: id of the environment.
        candidates: roles with different names, in the order in which they would act in a team.
        size: number of roles of a team.
        agents: the agent of all candidates, or of each one by its name, as in `team_importance`.
        rate: rates messages. None: the agent of the role is asked for its ratings.
        rounds: number of rounds.
        episodes: number of episodes per round.
        split: "train" or "test".
        seed: seed of the episodes.
        **kwargs: other arguments of the team, such as `env_kwargs` and `attempts`.

    Raises:
        ConfigError: for candidates that can form no team of this size, a number that is out of
            range, or an error of `team_importance`.
    """
    names = [role.name for role in candidates]
    if len({*names}) < len(names):
        raise ConfigError(f"Candidates need different names, got {names}.")
    if rounds < 1:
        raise ConfigError(f"rounds must be at least 1, got {rounds}.")
    plays, sums = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    returns = []
    for number in range(1, rounds + 1):
        bounds = {name: _bound(sums[name], plays[name], number) for name in names}
        team = best_roles(candidates, size, bounds)
        chosen = agents
        if isinstance(agents, Mapping):
            chosen = {role.name: agents[role.name] for role in team if role.name in agents}
        found = team_importance(
            env,
            team,
            chosen,
            rate=rate,
            episodes=episodes,
            split=split,
            seed=seed + number,
            **kwargs,
        )
        for name, score in found.scores().items():
            plays[name] += 1
            sums[name] += score.mean
        returns.append(sum(found.returns) / len(found.returns))
    helpfulness = {name: sums[name] / max(1, plays[name]) for name in names}
    return TeamSearch(best_roles(candidates, size, helpfulness), helpfulness, plays, returns)


def _bound(total: float, plays: int, number: int) -> float:
    """Returns the upper confidence bound of a candidate."""
    return total / plays + math.sqrt(2 * math.log(number) / plays) if plays else UNPLAYED
