"""`Table`: a game in progress with agents in all seats. Many tables are played at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import Agent, View
from agentgym.agents.basic.view import actions_for
from agentgym.errors import ConfigError, naming
from agentgym.evaluation.report import Record
from agentgym.evaluation.transcripts import EpisodeLog, append_episode
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import refresh, seat_view
from agentgym.tasks import task_rng
from agentgym.utils.action_parsing import text_of

Lineup = tuple[int, ...]
"""The number of the agent in each seat."""


@dataclass(frozen=True)
class Match:
    """One finished game.

    Attributes:
        deal: number of the task and seed, shared by the games of all line-ups.
        lineup: number of the agent in each seat.
        task: the task's name.
        seed: the seed of the game.
        returns: sum of the rewards of each seat.
        cooperation: mean cooperation of each seat's choices, in [0, 1]. None if it is no dilemma or
            no round was finished.
        exploitation: mean of (1 - own cooperation) x mean cooperation of the others, per seat.
    """

    deal: int
    lineup: Lineup
    task: str
    seed: int
    returns: tuple[float, ...]
    cooperation: tuple[float, ...] | None = None
    exploitation: tuple[float, ...] | None = None


def play_tables(
    waiting: Iterable[Table],
    players: Sequence[Agent],
    number: int,
    finish: Callable[[Table], None],
) -> None:
    """Plays games, many at once. The next one begins when one ends.

    Args:
        waiting: the games.
        players: the agents, by their numbers in `Table.lineup`.
        number: number of games played at the same time.
        finish: called with each finished game.

    Raises:
        ConfigError: if `number` is below 1.
    """
    if number < 1:
        raise ConfigError(f"num_games must be at least 1, got {number}.")
    waiting = iter(waiting)
    active = list(itertools.islice(waiting, number))
    while active:
        _turn(active, players)
        for table in [table for table in active if not table.game.acting]:
            finish(table)
            for seat, player in zip(table.logs, table.lineup, strict=True):
                if (finished := getattr(players[player], "finish", None)) is not None:
                    finished(table.view(seat))
            active.remove(table)
            active += itertools.islice(waiting, 1)


def _turn(tables: Sequence[Table], players: Sequence[Agent]) -> None:
    """Plays one turn of several games. Every agent acts in one batch."""
    actions: list[dict[str, str]] = [{} for _ in tables]
    for number, player in enumerate(players):
        asked = [
            (place, agent) for place, table in enumerate(tables) for agent in table.acting(number)
        ]
        if not asked:
            continue
        views = [tables[place].view(agent) for place, agent in asked]
        found = actions_for(player, views, [tables[place].task for place, _ in asked])
        for (place, agent), action in zip(asked, found, strict=True):
            actions[place][agent] = action
    for table, chosen in zip(tables, actions, strict=True):
        table.play(chosen)


class SeatLog(EpisodeLog):
    """The turns of one seat. The reward of a turn includes those until the seat acts again."""

    _terms: Mapping[str, float] = {}  # of the turn in progress, never changed

    def act(self, action: str) -> None:
        """Begins a turn. Rewards before the first action belong to the first turn."""
        if self.infos:
            self._terms = {}
        view = self.view
        self.admissible.append(tuple(view.info["admissible"]))
        view.history.append((view.observation, text_of(action)))
        self.rewards.append(0.0)
        self.infos.append({"valid": True})

    def observe(self, info: dict[str, Any], acted: bool) -> None:
        """Adds the rewards of a turn of the game, in which the seat may have acted."""
        terms = info["reward_terms"]
        self._terms = {name: self._terms.get(name, 0.0) + gain for name, gain in terms.items()}
        if self.infos:
            valid = info["valid"] if acted else self.infos[-1]["valid"]
            self.infos[-1] = {**info, "reward_terms": self._terms, "valid": valid}
            self.rewards[-1] = sum(self._terms.values())

    @property
    def total(self) -> float:
        """The sum of the rewards."""
        return sum(self.rewards) if self.infos else sum(self._terms.values())


class Table:
    """A game in progress with agents in all seats."""

    def __init__(self, game: TextGame, lineup: Lineup, deal: int, task: str, seed: int):
        self.game, self.lineup = game, lineup
        self.deal, self.task, self.seed = deal, task, seed
        game.reset(seed=seed, task=task)
        self.logs = {
            agent: SeatLog(
                seat_view(game, agent, task_rng(task, f"agent/{seed}/{agent}")), task, seed
            )
            for agent in game.possible_agents
        }

    def acting(self, number: int) -> list[str]:
        """Returns the seats of an agent that act now."""
        seats = zip(self.game.possible_agents, self.lineup, strict=True)
        return [seat for seat, agent in seats if agent == number and seat in self.game.acting]

    def view(self, seat: str) -> View:
        """Returns the current view of a seat."""
        refresh(self.logs[seat].view)
        return self.logs[seat].view

    def play(self, actions: Mapping[str, str]) -> None:
        """Plays one turn."""
        game = self.game
        for seat, action in actions.items():
            self.logs[seat].act(action)
        playing = [seat for seat in game.possible_agents if not game.over(seat)]
        place = f"Raised by the game in task {self.task!r} with seed {self.seed}"
        with naming(lambda: f"{place}, after {dict(actions)!s:.300}."):
            game.play(actions)
        for seat in playing:
            self.logs[seat].observe(game.info(seat), seat in actions)

    def match(self) -> Match:
        """Returns the result of the finished game."""
        cooperation = exploitation = None
        chosen = [self.game.cooperation(seat) for seat in self.logs]
        if all(chosen):
            shares = np.array(chosen).T
            others = (shares.sum(1, keepdims=True) - shares) / (shares.shape[1] - 1)
            cooperation = tuple(shares.mean(0).tolist())
            exploitation = tuple(((1 - shares) * others).mean(0).tolist())
        returns = tuple(float(log.total) for log in self.logs.values())
        return Match(
            self.deal, self.lineup, self.task, self.seed, returns, cooperation, exploitation
        )

    def records(self) -> dict[str, Record]:
        """Returns the records of all seats that have acted in the finished game."""
        found = {}
        for seat, log in self.logs.items():
            if log.infos:
                log.terminated = self.game.terminated(seat)
                log.truncated = self.game.truncated(seat)
                refresh(log.view)
                found[seat] = log.record()
        return found

    def save(self, path: Path, env: str, names: Sequence[str]) -> None:
        """Appends the transcripts of all seats that have acted to a file."""
        players = {seat: names[i] for seat, i in zip(self.logs, self.lineup, strict=True)}
        for seat, record in self.records().items():
            header = {"env": env, "agent": players[seat], "seat": seat, "players": players}
            append_episode(path, header, record, self.logs[seat])
