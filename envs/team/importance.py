"""Importance of the roles of a team, and smaller teams of the most important roles."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentgym.agents import Agent, ScriptedAgent, View
from agentgym.envs.team.roles import Role, as_roles
from agentgym.envs.team.team import TeamGame
from agentgym.errors import ConfigError
from agentgym.evaluation.report import Estimate, mean_interval
from agentgym.evaluation.runner import plan_episodes
from agentgym.multiagent.rules import Rewards
from agentgym.multiagent.seats import GameAgent, game_agent, refresh, seat_view
from agentgym.tasks import task_rng

HIGHEST = 5
"""The highest rating that an agent gives."""
ASK = (
    "You are a member of a team. You have sent a message, and now you rate how much each of the "
    f"messages before it helped you, from 0 (not at all) to {HIGHEST} (most).\n"
    "Reply with one number per message, in their order, in double brackets, for example: [[3, 5]]"
)


@dataclass(frozen=True)
class Message:
    """A message or proposed action of a role.

    Attributes:
        role: name of the role.
        text: the message, as the other roles read it.
        observation: the observation of the environment at that time.
    """

    role: str
    text: str
    observation: str


Rate = Callable[[Message, Sequence[Message]], Sequence[float]]
"""Rates how much each of the earlier messages contributed to a message, in [0, 1]."""


@dataclass(frozen=True)
class TeamImportance:
    """The result of `team_importance`.

    Attributes:
        roles: the roles of the team.
        shares: the importance of each role in every episode, by name. In an episode, they sum to 1,
            or to 0 if no action was played.
        returns: the return of the team in every episode.
    """

    roles: tuple[Role, ...]
    shares: Mapping[str, Sequence[float]]
    returns: Sequence[float]

    def scores(self) -> dict[str, Estimate]:
        """Returns the mean importance of each role, the most important one first."""
        found = {name: mean_interval(shares) for name, shares in self.shares.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1].mean))

    def best(self, size: int) -> tuple[Role, ...]:
        """Returns the most important roles that can form a team, in the order of the team.

        Args:
            size: number of roles.

        Raises:
            ConfigError: if no roles of this number can form a team.
        """
        scores = self.scores()
        return best_roles(self.roles, size, {name: each.mean for name, each in scores.items()})


def team_importance(
    env: str,
    roles: str | Sequence[Role | Mapping[str, Any]],
    agents: GameAgent | Mapping[str, GameAgent],
    *,
    rate: Rate | None = None,
    episodes: int | Sequence[str] = 20,
    split: str = "train",
    seed: int = 0,
    **kwargs: Any,
) -> TeamImportance:
    """Measures how much the messages of each role contribute to the actions of a team.

    The agent importance score of DyLAN ("A Dynamic LLM-Powered Agent Network for Task-Oriented
    Agent Collaboration", arXiv 2310.02170). The author of each message rates the messages before
    it. The last message before an action of the environment has the importance 1. From the last
    message to the first, each one passes its importance on to those before it, in proportion to
    their ratings. The importance of a role is the share of its messages, averaged over the actions
    of an episode. No rewards are needed.

    Differences: in DyLAN, all agents of a layer speak at the same time, and ratings are always
    divided by their sum. Here the roles speak in order, and ratings are divided by their sum only
    if it exceeds 1. Otherwise the first role would always collect all the importance.

    Args:
        env: id of the environment.
        roles: a team of `agentgym.envs.team.roles.TEAMS`, or roles (`Role` or mappings).
        agents: the agent of all roles, or of each role by its name: agents, functions of a `View`,
            levels of the team's scripted players or words for `make_agent`.
        rate: rates messages. None: the agent of the role is asked for its ratings.
        episodes: number of episodes, or the task of each one.
        split: "train" or "test".
        seed: seed of the episodes.
        **kwargs: other arguments of the team, such as `env_kwargs` and `attempts`.

    Raises:
        ConfigError: for an unknown environment, team, role or agent, or agents that give no
            ratings.
        UnknownArgumentError: for an unknown argument.
    """
    team = as_roles(roles)
    make = lambda: _Recorded(env=env, roles=list(team), **kwargs)  # noqa: E731
    game = make()
    players = _players(game, agents, asked=rate is None)
    games: list[_Recorded] = []
    for task, number in plan_episodes(game.tasks, episodes, split, seed):
        games.append(make())
        games[-1].reset(seed=number, task=task)
    returns = _play(games, players, seed)
    rate = rate or _ask(games, {game.role(seat): each for seat, each in players.items()})
    found = [_shares(game, rate) for game in games]
    shares = {role.name: [share[role.name] for share in found] for role in team}
    return TeamImportance(team, shares, returns)


def importance(weights: Sequence[Sequence[float]]) -> list[float]:
    """Returns the importance of each message for the last one, whose importance is 1.

    Args:
        weights: of each message, the weights of the messages before it.
    """
    found = [0.0] * len(weights)
    found[-1] = 1.0
    for number in reversed(range(len(weights))):
        for earlier, weight in enumerate(weights[number]):
            found[earlier] += weight * found[number]
    return found


def best_roles(roles: Sequence[Role], size: int, scores: Mapping[str, float]) -> tuple[Role, ...]:
    """Returns the roles with the highest sum of scores that can form a team of a size.

    Raises:
        ConfigError: if no roles of this number can form a team.
    """
    teams = []
    for chosen in itertools.combinations(roles, size):
        try:
            teams.append(as_roles(chosen))
        except ConfigError:
            continue
    if not teams:
        kinds = [role.kind for role in roles]
        raise ConfigError(f"No {size} of the roles of kinds {kinds} can form a team.")
    return max(teams, key=lambda team: sum(scores[role.name] for role in team))


class _Recorded(TeamGame):
    """A team that records the messages before each action of the environment."""

    def _start(self, task: str) -> None:
        super()._start(task)
        self.discussions: list[list[Message]] = [[]]

    def _advance(self, moves: dict[str, str]) -> Rewards:
        assert self.inner._last is not None
        ((agent, move),) = moves.items()
        self.discussions[-1].append(Message(self.role(agent), move, self.inner._last.observation))
        rewards = super()._advance(moves)
        if not self.state.log:  # an action was played in the environment
            self.discussions.append([])
        return rewards


def _players(
    game: TeamGame, agents: GameAgent | Mapping[str, GameAgent], asked: bool
) -> dict[str, Agent]:
    """Returns the agent of each seat."""
    names = [role.name for role in game.roles]
    if not isinstance(agents, Mapping):
        made = game_agent(game, cast(GameAgent, agents))
        players = dict.fromkeys(names, made)
    elif {*agents} != {*names}:
        raise ConfigError(f"agents must name the roles {names}, got {[*agents]}.")
    else:
        players = {name: game_agent(game, cast(GameAgent, agents[name])) for name in names}
    for player in players.values():
        if asked and isinstance(player, ScriptedAgent):
            raise ConfigError(
                f"The scripted player {player.name!r} gives no ratings: set rate to a function."
            )
    return dict(zip(game.possible_agents, players.values(), strict=True))


def _play(games: Sequence[TeamGame], players: Mapping[str, Agent], seed: int) -> list[float]:
    """Plays all games to their end. Returns the return of the team in each one."""
    first = games[0].possible_agents[0]
    views = {
        (number, seat): seat_view(game, seat, task_rng(f"{number}/{seat}", f"agent/{seed}"))
        for number, game in enumerate(games)
        for seat in players
    }
    returns = [0.0] * len(games)
    while any(game.acting for game in games):
        for seat, player in players.items():
            asked = [number for number, game in enumerate(games) if seat in game.acting]
            for number in asked:
                refresh(views[number, seat])
            actions = player.act([views[number, seat] for number in asked]) if asked else []
            for number, action in zip(asked, actions, strict=True):
                view, game = views[number, seat], games[number]
                view.history.append((view.observation, str(action)))
                game.play({seat: action})
                returns[number] += sum(game.outcome(first).rewards.values())
    return returns


def _shares(game: _Recorded, rate: Rate) -> dict[str, float]:
    """Returns the share of each role in the actions of an episode, 0 if there was none."""
    found = dict.fromkeys((role.name for role in game.roles), 0.0)
    actions = game.discussions[
        :-1
    ]  # after the last action, no message was sent or no action followed
    for messages in actions:
        weights = [_weights(messages, number, rate) for number in range(len(messages))]
        scores = importance(weights)
        for message, score in zip(messages, scores, strict=True):
            found[message.role] += score / sum(scores) / len(actions)
    return found


def _weights(messages: Sequence[Message], number: int, rate: Rate) -> list[float]:
    """Returns the weights of the messages before a message."""
    if not number:
        return []
    ratings = [float(rating) for rating in rate(messages[number], messages[:number])]
    if len(ratings) != number or not all(0 <= rating <= 1 for rating in ratings):
        raise ConfigError(
            f"rate must return {number} numbers in [0, 1] for {number} earlier messages, got "
            f"{ratings}."
        )
    return [rating / max(1.0, sum(ratings)) for rating in ratings]


def _ask(games: Sequence[_Recorded], agents: Mapping[str, Agent]) -> Rate:
    """Asks the agents of all roles for their ratings, each in one batch."""
    asked: dict[str, list[tuple[Message, int, View]]] = {name: [] for name in agents}
    for messages in (messages for game in games for messages in game.discussions[:-1]):
        for number, message in enumerate(messages[1:], 1):
            earlier = enumerate(messages[:number], 1)
            listed = "\n".join(f"{i}. {each.role}: {each.text}" for i, each in earlier)
            own = f"Your message, as the {message.role}: {message.text}"
            view = View.of_text(ASK, f"{message.observation}\n\nMessages:\n{listed}\n\n{own}")
            asked[message.role].append((message, number, view))
    ratings: dict[int, list[float]] = {}
    for role, requests in asked.items():
        replies = agents[role].act([view for _, _, view in requests]) if requests else []
        for (message, number, _), reply in zip(requests, replies, strict=True):
            ratings[id(message)] = read_ratings(str(reply), number)
    return lambda message, _: ratings[id(message)]


def read_ratings(reply: str, count: int) -> list[float]:
    """Returns the ratings in [0, 1] of the last double brackets of a reply.

    All are 0 if there are not `count` numbers.
    """
    groups = re.findall(r"\[\[(.*?)\]\]", reply)
    numbers = re.findall(r"-?\d+(?:\.\d+)?", groups[-1]) if groups else []
    if len(numbers) != count:
        return [0.0] * count
    return [min(max(float(number) / HIGHEST, 0.0), 1.0) for number in numbers]
