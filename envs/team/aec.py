"""`Team`: a team around any single-agent environment, for PettingZoo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentgym.envs.team.roles import Role, as_roles
from agentgym.envs.team.team import TeamGame
from agentgym.multiagent.aec import AECGame
from agentgym.multiagent.pettingzoo_mixin import SHOWN


class Team(AECGame):
    """A team around a single-agent environment as an AEC (turn-by-turn) PettingZoo environment.

    Args:
        env: id of the environment, with or without the namespace.
        roles: a team of `agentgym.envs.team.roles.TEAMS`, or roles (`Role` or mappings).
        **kwargs: other arguments of `TeamGame` and of `PettingZooMixin`.

    Raises:
        ConfigError: for an unknown id or team, or an invalid argument.
        UnknownArgumentError: for an unknown argument.
    """

    def __init__(
        self,
        env: str,
        roles: str | Sequence[Role | Mapping[str, Any]] = "generator-verifier-refiner",
        **kwargs: Any,
    ):
        shown = {name: kwargs.pop(name) for name in SHOWN if name in kwargs}
        given = roles if isinstance(roles, str) else [asdict(role) for role in as_roles(roles)]
        super().__init__(TeamGame(env=env, roles=given, **kwargs), **shown)
