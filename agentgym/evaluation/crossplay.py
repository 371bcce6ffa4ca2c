"""Cross-play: every agent plays every other one in all seats of a game, with the same deals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import Agent
from agentgym.errors import ConfigError
from agentgym.evaluation.ratings import elo
from agentgym.evaluation.report import Estimate, mean_interval
from agentgym.evaluation.runner import check_no_split, plan_episodes
from agentgym.evaluation.tables import Lineup, Match, Table, play_tables
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import GameAgent, game_agent
from agentgym.registration.games import make_parallel
from agentgym.registration.registry import find
from agentgym.utils.masking import masked

NO_ESTIMATE = Estimate(math.nan, None, None)
"""The return of agents that did not play each other."""


@dataclass(frozen=True)
class CrossPlay:
    """The result of `cross_play`.

    Attributes:
        env: the id of the game.
        agents: the names of the agents.
        split: the split of the tasks.
        seed: the seed of the evaluation.
        zero_sum: whether the game is zero-sum.
        env_kwargs: the arguments of the game.
        matches: the finished games.
    """

    env: str
    agents: tuple[str, ...]
    split: str
    seed: int
    zero_sum: bool
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    matches: list[Match] = field(default_factory=list)

    def returns(self, row: int, column: int, seat: int | None = None) -> list[float]:
        """Returns the mean returns of one agent against another in all other seats, one per deal.

        Games of one deal are dependent, so that intervals are computed over deals.

        Args:
            row: number of the agent.
            column: number of the agent in all other seats. Equal to `row`: self-play.
            seat: the seat of the first agent. None: all seats.
        """
        found: dict[int, list[float]] = {}
        for match in self.matches:
            for place, gain in enumerate(match.returns):
                others = match.lineup[:place] + match.lineup[place + 1 :]
                if match.lineup[place] == row and {*others} == {column} and seat in (None, place):
                    found.setdefault(match.deal, []).append(gain)
        return [statistics.fmean(gains) for gains in found.values()]

    def matrix(self, seat: int | None = None) -> list[list[Estimate]]:
        """Returns the mean return of each agent (rows) against each agent (columns).

        Without self-play, the means of the diagonal are NaN.

        Args:
            seat: the seat of the row's agent. None: all seats, equally often.
        """
        agents = range(len(self.agents))
        cells = [[self.returns(i, j, seat) for j in agents] for i in agents]
        return [[mean_interval(gains) if gains else NO_ESTIMATE for gains in row] for row in cells]

    def ratings(self) -> list[Estimate]:
        """Returns the Elo rating of each agent, with a bootstrap interval. Needs two agents.

        A game is won by the agent with the higher return (mean over its seats). Ratings of a
        single deal have no interval.
        """
        n = len(self.agents)
        deals = {deal: place for place, deal in enumerate(sorted({m.deal for m in self.matches}))}
        wins = np.zeros((len(deals), n, n))
        for match in self.matches:
            gains: dict[int, list[float]] = {}
            for agent, gain in zip(match.lineup, match.returns, strict=True):
                gains.setdefault(agent, []).append(gain)
            if len(gains) == 2:
                (i, mine), (j, theirs) = gains.items()
                difference = statistics.fmean(mine) - statistics.fmean(theirs)
                share = 0.5 + 0.5 * np.sign(difference) * (abs(difference) > 1e-9)
                wins[deals[match.deal], i, j] += share
                wins[deals[match.deal], j, i] += 1 - share
        if len(deals) == 1:
            return [Estimate(float(rating), None, None) for rating in elo(wins)[0]]
        return [Estimate(*map(float, each)) for each in zip(*elo(wins), strict=True)]

    def self_play_gap(self) -> float | None:
        """Returns the mean return of self-play minus that of cross-play between different agents.

        None for zero-sum games, a single agent, and without self-play. In a cooperative game it
        measures conventions that other agents do not share.
        """
        n = len(self.agents)
        if self.zero_sum or n < 2:
            return None
        means = np.array([[cell.mean for cell in row] for row in self.matrix()])
        gap = float(means.trace() / n - (means.sum() - means.trace()) / (n * n - n))
        return None if np.isnan(gap) else gap

    def dilemma(self) -> list[tuple[float, float]] | None:
        """Returns cooperation and exploitation rate of each agent. None if it is no dilemma.

        The exploitation rate is the mean of (1 - own cooperation) x mean cooperation of the others:
        in two-player games the share of choices in which only the co-player cooperates. Games
        without a finished round are left out. Rates of an agent without other games are NaN.
        """
        found: list[list[tuple[float, float]]] = [[] for _ in self.agents]
        for match in self.matches:
            if match.cooperation is None or match.exploitation is None:
                continue
            rows = zip(match.lineup, match.cooperation, match.exploitation, strict=True)
            for agent, mine, taken in rows:
                found[agent].append((mine, taken))
        if not any(found):
            return None
        means = [np.mean(rates or [(np.nan, np.nan)], axis=0) for rates in found]
        return [(float(a), float(b)) for a, b in means]

    def to_json(self) -> dict[str, Any]:
        """Returns everything as JSON values. Those that are NaN are None."""
        seats = range(len(self.matches[0].returns))
        several = len(self.agents) > 1
        rates = self.dilemma()
        return {
            **asdict(self),
            "matrix": [
                [None if cell is NO_ESTIMATE else asdict(cell) for cell in row]
                for row in self.matrix()
            ],
            "matrix_by_seat": [
                [[_json(cell.mean) for cell in row] for row in self.matrix(seat)] for seat in seats
            ],
            "elo": [asdict(rating) for rating in self.ratings()] if several else None,
            "self_play_gap": self.self_play_gap(),
            "cooperation": rates and [_json(mine) for mine, _ in rates],
            "exploitation": rates and [_json(taken) for _, taken in rates],
        }


def _json(number: float) -> float | None:
    return None if math.isnan(number) else number


def cross_play(
    env: str,
    agents: Sequence[GameAgent],
    *,
    episodes: int | Sequence[str] = 100,
    split: str = "test",
    num_games: int = 16,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    self_play: bool = True,
    save: str | Path | None = None,
    on_match: Callable[[], None] | None = None,
) -> CrossPlay:
    """Lets every agent play every other agent, and itself, in each seat of a game.

    An error, and Ctrl-C, has an attribute `result`: the `CrossPlay` of the finished games.

    All line-ups play the same tasks with the same seeds, so that no agent has better deals. With
    more than two seats, one agent has one seat and the other agent all others.

    Args:
        env: id of the game.
        agents: agents, functions of a `View`, levels of the game's scripted players, "expert" or
            other words for `make_agent`.
        episodes: number of deals, each played by all line-ups, or the task of each deal.
        split: "train" or "test".
        num_games: number of games played at the same time.
        seed: seed of the deals.
        env_kwargs: arguments of the game.
        self_play: whether agents play themselves too.
        save: a file to which every seat of each finished game is appended, as one line of JSON with
            the transcript, as `evaluate` does.
        on_match: called after each game.

    Raises:
        ConfigError: for an unknown game, agent or level, or a number that is out of range.
    """
    if isinstance(agents, str) or not agents:
        raise ConfigError(f"Expected a sequence of at least one agent, got {agents!r}.")
    if not self_play and len(agents) == 1:
        raise ConfigError("self_play=False needs at least two agents, got 1.")
    env, kwargs = find(env).id, dict(env_kwargs or {})
    check_no_split(kwargs)
    game: TextGame = make_parallel(env, **kwargs).game
    players = [game_agent(game, agent) for agent in agents]
    plan = plan_episodes(game.tasks, episodes, split, seed)
    lineups = line_ups(len(players), len(game.possible_agents))
    lineups = [lineup for lineup in lineups if self_play or len({*lineup}) > 1]
    names = _names(players)
    result = CrossPlay(env, names, split, seed, game.zero_sum, masked(kwargs))

    def finish(table: Table) -> None:
        result.matches.append(table.match())
        if save is not None:
            table.save(Path(save), env, names)
        if on_match is not None:
            on_match()

    waiting = (
        Table(make_parallel(env, **kwargs).game, lineup, deal, task, number)
        for deal, (task, number) in enumerate(plan)
        for lineup in lineups
    )
    try:
        play_tables(waiting, players, num_games, finish)
    except (Exception, KeyboardInterrupt) as error:
        error.result = result  # type: ignore[union-attr]
        raise
    finally:
        result.matches.sort(key=lambda match: (match.deal, match.lineup))
    return result


def line_ups(agents: int, seats: int) -> list[Lineup]:
    """Returns the line-ups in which one agent has one seat and one agent all other seats."""
    found: dict[Lineup, None] = {}
    for i in range(agents):
        for j in range(agents):
            for seat in range(seats):
                found[tuple(i if place == seat else j for place in range(seats))] = None
    return list(found)


def _names(players: Sequence[Agent]) -> tuple[str, ...]:
    """Returns the names of agents, numbered where they are equal."""
    names = [agent.name for agent in players]
    return tuple(
        f"{name} #{names[: i + 1].count(name)}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    )
