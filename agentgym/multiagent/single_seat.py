"""`SingleSeat`: one agent of a game as a `TextEnv`, with scripted players in the other seats."""

from __future__ import annotations

import dataclasses
from typing import Any

from agentgym.core import TextEnv, TimeStep, UnreadableAction, check_reward_terms, refused
from agentgym.errors import ConfigError, UnknownArgumentError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.registration import make_parallel

UNKNOWN = "unknown"
"""Stands in `opponents` for a level that is drawn at every reset."""


@dataclasses.dataclass
class Seat:
    """Which agent the seat is, who plays the others, early rewards, and the game's snapshot.

    Attributes:
        agent: the seat.
        levels: which scripted player has each seat.
        early: rewards the seat got before it could act.
        game: the game's snapshot; filled in for a snapshot only.
    """

    agent: str
    levels: dict[str, str] = dataclasses.field(default_factory=dict)
    early: dict[str, float] = dataclasses.field(default_factory=dict)
    game: dict[str, Any] = dataclasses.field(default_factory=dict)


class SingleSeat(TextEnv):
    """One seat of a game as a `TextEnv`; scripted players have the others.

    A turn is one action of the seat; the rewards until it must act again are summed. Should it be
    out before its first action, that action is ignored and the episode ends with it.

    Args:
        game: id of the game: "AgentGym/TicTacToe-v0".
        seat: the agent to be: "player_0"; None: drawn at every reset.
        opponents: who plays the others: one of the game's `levels` for all of them, or
            {"player_1": level} (agents not named play at random); None: the game's
            `default_opponents`. The level "unknown" stands for any but "random", drawn at every
            reset: the agent must find out who it is, and so must the game's expert.
        split: tasks that `reset` draws from: "train" or "test".
        invalid_penalty: what an invalid action costs.
        render_mode: None, "ansi" or "human".
        **kwargs: the game's own arguments, such as `max_turns`, which counts the game's turns.
    """

    State = Seat
    state: Seat

    def __init__(
        self,
        *,
        game: str,
        seat: str | None = None,
        opponents: str | dict[str, str] | None = None,
        split: str = "train",
        invalid_penalty: float = 0.0,
        render_mode: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(split=split, invalid_penalty=invalid_penalty, render_mode=render_mode)
        self.game = self._make(game, split=split, **kwargs)
        self.instructions, self.tasks = self.game.instructions, self.game.tasks
        self.reward_names = self.game.reward_names  # type: ignore[misc]  # fixed by the game
        self.__doc__ = self.game.__doc__
        agents = self.game.possible_agents
        if seat is not None and seat not in agents:
            raise ConfigError(f"seat must be None or one of {agents}, got {seat!r}.")
        opponents = self.game.default_opponents if opponents is None else opponents
        named = dict.fromkeys(agents, opponents) if isinstance(opponents, str) else opponents
        for agent, level in named.items():
            if agent not in agents:
                raise ConfigError(f"opponents must name agents {agents}, got {agent!r}.")
            known = (*self.game.levels, UNKNOWN)
            if level not in known:
                hint = did_you_mean(level, known)
                raise ConfigError(f"opponents must be of {known}, got {level!r} for {agent}.{hint}")
        self.seat = seat
        self.opponents = dict.fromkeys(agents, "random") | named
        self.game.opponents = {} if UNKNOWN in self.opponents.values() else self.opponents

    @staticmethod
    def _make(id: str, **kwargs: Any) -> TextGame:
        for name in ("action_mode", "observation_size"):
            if name in kwargs:
                raise UnknownArgumentError(
                    f"A seat has no {name!r}, which is of make_aec and make_parallel: put "
                    "AdmissibleAction or EncodeObservation of agentgym.wrappers around it."
                )
        try:
            return make_parallel(id, **kwargs).game
        except UnknownArgumentError as error:
            hints = [did_you_mean(name, ("seat", "opponents")) for name in kwargs]
            raise UnknownArgumentError(
                f"{error} A seat takes 'seat' and 'opponents', too.{''.join(hints)}"
            ) from None

    def _start(self, task: str) -> TimeStep:
        agents = self.game.possible_agents
        # Drawn even if it is given, as the task is.
        drawn = agents[int(self.np_random.integers(len(agents)))]
        levels = {agent: self._drawn(level) for agent, level in self.opponents.items()}
        self.state = Seat(self.seat or drawn, levels)
        self.game.np_random = self.np_random
        self.game.begin(task)
        step = self._play_on(None)
        self.state.early = dict(step.rewards)
        return dataclasses.replace(step, rewards={}, terminated=False, success=False)

    def _drawn(self, level: str) -> str:
        """Returns the level, or any but "random" for "unknown"."""
        if level != UNKNOWN:
            return level
        levels = [name for name in self.game.levels if name != "random"]
        return levels[int(self.np_random.integers(len(levels)))]

    def _advance(self, action: str) -> TimeStep:
        self.game.np_random = self.np_random
        return self._play_on(action)

    def _read(self, action: str) -> str:
        return action  # the game reads

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._advance(action)  # the others move meanwhile

    def _play_on(self, action: str | None) -> TimeStep:
        """Plays the action, then until the seat must act again or has nothing more to get."""
        game, me = self.game, self.state.agent
        rewards = dict.fromkeys(game.reward_names, 0.0) | self.state.early
        self.state.early = {}
        valid = True
        while not game.over(me) and (action is not None or me not in game.acting):
            said = {
                agent: game.script(self.state.levels[agent], agent, self.np_random)
                for agent in game.acting
                if agent != me
            }
            if action is not None:
                said[me], action = action, None
            game.play(said)
            got = game.outcome(me)
            for name, reward in got.rewards.items():
                rewards[name] += reward
            valid = valid and got.valid
        return dataclasses.replace(game.seen(me), rewards=rewards, valid=valid)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn of the seat (see `TextEnv.step`); the game's limit of turns truncates."""
        observation, reward, terminated, truncated, info = super().step(action)
        if self.game.truncated(self.state.agent):
            truncated = self._over = True
        return observation, reward, terminated, truncated, info

    def expert(self) -> str | None:
        """Returns the game's scripted expert's next action, if it has one."""
        if self.game.expert_level and self.game.over(self.state.agent) and not self._over:
            return ""  # out before its first action, which is ignored
        return self.game.expert(self.state.agent)

    def _picture(self) -> str:
        return self.game.picture()

    def snapshot(self) -> dict[str, Any]:
        """Returns everything the rest of the episode depends on, as a JSON-able dictionary."""
        snapshot = super().snapshot()
        snapshot["state"]["game"] = self.game.snapshot()
        return snapshot

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot of an environment made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another environment or damaged.
        """
        before = dict(vars(self.game))
        try:
            self.game.restore(snapshot["state"]["game"])
            return super().restore(snapshot)
        except Exception as error:
            vars(self.game).clear()
            vars(self.game).update(before)  # a snapshot that is refused changes nothing
            raise refused(error) from error

    def _restored(self) -> None:
        seat, agents = self.state, self.game.possible_agents
        assert self.game.episode is not None
        if seat.agent not in agents or seat.agent != (self.seat or seat.agent):
            raise ValueError(f"the seat is {seat.agent!r}, expected {self.seat or agents}")
        if seat.levels.keys() != set(agents) or not set(seat.levels.values()) <= {
            *self.game.levels
        }:
            raise ValueError(f"the scripted players are {seat.levels}")
        if self.game.episode.task != self.task:
            raise ValueError("seat and game have different tasks")
        check_reward_terms("the snapshot", seat.early, self.reward_names)
