"""`TextifiedSeats`: all seats of a PettingZoo or OpenSpiel game as a `TextGame`."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, Self

from agentgym.errors import ConfigError, SnapshotError
from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.rules import Rewards
from agentgym.textify.base import State
from agentgym.textify.numbered import TextifiedGame
from agentgym.textify.open_spiel import TextifiedSpiel
from agentgym.time_step import TimeStep

STARTS = 1000
"""Starts that are sampled until one has an agent that acts."""


class TextifiedSeats(TextGame):
    """All seats of a game that `textify` adapts. `agentgym.register_game` makes a subclass of it.

    Agents, turns, rewards, texts and actions are those of the game. Agents of OpenSpiel that act at
    once do so here, and those of PettingZoo act one by one. Starts that leave no agent an action
    are sampled anew.

    Snapshots hold the actions of the episode, and `restore` replays them, as for a single seat. A
    copy of the game replays them too and has the same chance events to come: `search:mcts`, which
    plays copies, knows them.

    Args:
        zero_sum: whether the rewards sum to 0 in every turn. None: whether OpenSpiel declares it.
        common_reward: whether all agents have the same reward in every turn. None: see `zero_sum`.
        max_turns: turns of the game after which the episode is truncated. None: the `max_turns` of
            `textify`.
        **kwargs: see `TextGame`.

    Raises:
        ConfigError: if the function does not return a game of `textify`, or agents have different
            actions.
    """

    State = State
    state: State
    inner: Any
    """The game, a `TextifiedGame` or a `TextifiedSpiel`."""

    def __init__(
        self,
        *,
        zero_sum: bool | None = None,
        common_reward: bool | None = None,
        max_turns: int | None = None,
        **kwargs: Any,
    ):
        inner = type(self).make()
        if not isinstance(inner, TextifiedGame | TextifiedSpiel):
            raise ConfigError(
                f"{type(self).__name__}: expected a function that returns agentgym.textify(game) "
                "for a PettingZoo AEC game or a game of OpenSpiel, got "
                f"{type(inner).__name__}: {inner!r:.80}."
            )
        self.inner = inner
        agents = inner.agents
        self.players = range(len(agents), len(agents) + 1)  # type: ignore[misc]  # of this game
        limit = inner.max_turns if max_turns is None else max_turns
        super().__init__(max_turns=limit, **kwargs)
        self.possible_agents = agents
        self.instructions, self.tasks, self.actions = inner.instructions, inner.tasks, inner.actions
        declared = inner.zero_sum if zero_sum is None else zero_sum
        self.zero_sum = declared  # type: ignore[misc]  # of this game
        declared = inner.common_reward if common_reward is None else common_reward
        self.common_reward = declared  # type: ignore[misc]  # of this game

    @staticmethod
    def make() -> Any:
        """Returns `textify(game)`. Its `seat` and `opponent` have no effect here."""
        raise NotImplementedError

    def _start(self, task: str) -> None:
        for _ in range(STARTS):
            self.state = State(int(self.np_random.integers(2**31)))
            self._replay(task)
            if self._acting():
                return
        raise ConfigError(f"{type(self).__name__}: all of {STARTS} starts are over.")

    def _replay(self, task: str) -> None:
        """Plays the actions in `self.state` in the game."""
        self.inner.task, self.inner.state = task, self.state
        self._gained = dict.fromkeys(self.possible_agents, 0.0)
        self.inner._reset_inside()
        for action in self.state.played:
            self._move(action)

    def _move(self, action: Any) -> dict[str, float]:
        """Plays an action of the game and returns the gain of each agent.

        `self._gained` has the gain of each agent since its last action.
        """
        if action is not None:  # None: an agent of PettingZoo that is out
            self._gained[self.inner.mover] = 0.0
        gains = self.inner.gains(action)
        for agent, gain in gains.items():
            self._gained[agent] += gain
        return gains

    def _acting(self) -> tuple[str, ...]:
        return self._present()[:1] if self.inner.cut else self.inner.acting

    def _present(self) -> tuple[str, ...]:
        return self.inner.present

    def terminated(self, agent: str) -> bool:
        """Returns whether the game has terminated for the agent."""
        return super().terminated(agent) and agent not in self.inner.cut_off

    def truncated(self, agent: str) -> bool:
        """Returns whether the game was truncated, for all agents or for this one."""
        return agent in self.inner.cut_off or super().truncated(agent)

    def _look(self, agent: str) -> TimeStep:
        ended = agent not in (*self._present(), *self.inner.cut_off) or not self._acting()
        return self.inner._time_step(self.inner._seen_by(agent, self._gained[agent], ended))

    def _advance(self, moves: dict[str, str]) -> Rewards:
        numbers = {agent: self.inner.number(agent, name) for agent, name in moves.items()}
        total = dict.fromkeys(self.possible_agents, 0.0)
        while numbers or self.inner.idle:
            action = numbers.pop(self.inner.mover, self.inner.idle_action)
            self.state.played.append(action)
            for agent, gain in self._move(action).items():
                total[agent] += gain
        return {agent: {"task": gain} for agent, gain in total.items() if gain}

    def play(self, actions: Mapping[str, str]) -> None:
        """Plays one turn: see `TextGame.play`. A truncation of the game counts."""
        super().play(actions)
        if self.inner.cut:
            self._episode.truncated, self._episode.acting = True, ()

    def reseed(self, seed: int) -> None:
        """Refuses, as the adapter of a single seat does: see `Textified.reseed`.

        Raises:
            ConfigError: always.
        """
        self.inner.reseed(seed)

    def copy(self) -> Self:
        """Returns a copy of the game: see `TextGame.copy`. It replays the episode."""
        twin = super().copy()
        twin.inner = copy.deepcopy(self.inner)
        twin._replay(twin._episode.task)
        return twin

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continues from a snapshot of a game made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged, or the game is not
                deterministic given its seed.
        """
        try:
            super().restore(snapshot)
        except SnapshotError:
            if self.episode is not None:
                with contextlib.suppress(Exception):  # the game may raise anything
                    self._replay(self._episode.task)
            raise

    def _check_episode(self, episode: GameEpisode) -> None:
        self._replay(self.tasks.check(episode.task))
        super()._check_episode(episode)
        for agent in self._present():
            text, saved = self._look(agent).text, episode.steps[agent].text
            if text != saved:
                raise ValueError(
                    f"its replay ended in another observation of {agent}: expected {saved!r:.200}, "
                    f"got {text!r:.200}"
                )

    def __reduce__(self) -> Any:
        return _blank, (type(self).make, type(self).__name__, type(self).__doc__), vars(self)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Replays the episode in a copy: `EzPickle` copies a PettingZoo game as a new one."""
        self.__dict__.update(attributes)
        if self.episode is not None:
            self._replay(self._episode.task)


@functools.cache
def all_seats(make: Callable[[], Any], name: str, doc: str | None = None) -> type[TextifiedSeats]:
    """Returns the class of a game with all seats.

    Args:
        make: returns `textify(game)`, a new one at each call.
        name: name of the class.
        doc: docstring of the class. None: that of `TextifiedSeats`.
    """
    namespace = {"make": staticmethod(make), "__doc__": doc or TextifiedSeats.__doc__}
    return type(name, (TextifiedSeats,), namespace | {"__module__": make.__module__})


def _blank(make: Callable[[], Any], name: str, doc: str | None) -> TextifiedSeats:
    cls = all_seats(make, name, doc)
    return cls.__new__(cls)
