"""Rollouts of games: every seat that a policy plays is an agent with its own prompt and trajectory.

`GamePlay` is an episode of a game in a slot of `play_episodes`, as `Play` is one of an environment.
All seats that act in a turn are asked in the same batch. Seats with other weights than those in
training leave no trajectory, and seats that are not in `GameSpec.seats` are played by scripts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gymnasium

from agentgym.core import TimeStep, step_info
from agentgym.errors import ConfigError
from agentgym.mixture import Mixture
from agentgym.multiagent.single_seat import SingleSeat
from agentgym.multiagent.table import Table
from agentgym.trainers.policy.engine import Session
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.policy import Policy, Request
from agentgym.trainers.rollout.collector import EpisodeSpec, Play, Room
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.trajectory import Trajectory

SELF = "self"
"""The opponent with the weights in training, in `Trajectory.opponent`."""


@dataclass(frozen=True)
class GameSpec(EpisodeSpec):
    """A request to play an episode of a game, with `task`, `seed` and `key` of an `EpisodeSpec`.

    The environment is the game as a single seat (`SingleSeat`), of which the tasks and the levels
    of the scripted players are used. A seat's actions are sampled with the episode's key and the
    place of the seat. If it is the only one, they are those of the single-seat environment.

    Attributes:
        seats: the agents that are not played by scripts, each with the name of its weights. The
            weights in training have the name "".
        by_role: whether each role has weights of its own in training, with the name of the role.
    """

    seats: tuple[tuple[str, str], ...] = ()
    by_role: bool = False

    def begin(self, index: int, slot: int, env: gymnasium.Env[Any, Any]) -> GamePlay:
        """Returns the episode, to be started."""
        return GamePlay(index, self, slot, env)


class SeatPlay(Play):
    """A seat of a game in progress, whose steps are those of its table.

    Args:
        game: the started episode of the game.
        agent: the agent in this seat.
    """

    def __init__(self, game: GamePlay, agent: str):
        spec, single = game.episode, game.single
        place = single.game.possible_agents.index(agent)
        key = spec.key if len(spec.seats) == 1 else (*spec.key, place)
        super().__init__(game.index, EpisodeSpec(spec.task, spec.seed, key), game.slot, game.env)
        self.cache_key = f"{game.index}/{agent}"
        self.agent = agent
        self._weights = dict(spec.seats)
        self.weights = self._weights[agent]
        self._single, self._table = single, game.table
        self._role, self._by_role = single.game.role(agent), spec.by_role
        possible = single.game.possible_roles(agent)
        if spec.by_role and self._role not in possible:
            raise ConfigError(
                f"{type(single.game).__name__}.possible_roles({agent!r}) must list all roles of "
                f"the agent, and it is {possible}, without {self._role!r}."
            )

    def request(self, constrain: bool) -> Request:
        """Returns the generation request of this turn, for the weights of the seat."""
        own = self._role if self._by_role and not self.weights else self.weights
        return replace(super().request(constrain), weights=own)

    def receive(self) -> None:
        """Takes the result of the seat's last step, or its first observation, from the table."""
        table = self._table
        first = self.sample is None
        step = table.game.seen(self.agent) if first else table.take(self.agent)
        self.observation, self.info = step.observation, self._info(step)
        self._reward = float(sum(self.info["reward_terms"].values()))
        self.terminated = step.terminated
        self.truncated = table.game.truncated(self.agent)

    def _info(self, step: TimeStep) -> dict[str, Any]:
        names, penalty = self._table.game.reward_names, self._single.invalid_penalty
        return step_info(step, self.episode.task, len(self.turns), names, penalty)

    def trajectory(self) -> Trajectory:
        """Returns the trajectory of the seat, which has at least one turn."""
        found = super().trajectory()
        found.agent, found.role, found.opponent = self.agent, self._role, self._opponent()
        return found

    def _opponent(self) -> str:
        players = {agent: name or SELF for agent, name in self._weights.items()}
        names = {**self._single.state.levels, **players}
        return "+".join(dict.fromkeys(names[a] for a in sorted(names) if a != self.agent))


class GamePlay:
    """An episode of a game in progress in a slot: `start`, then `read` and `step` in a loop.

    A seat that is out of the game before its first action has no trajectory. If the prompt of a
    seat exceeds the context, the episode ends for all seats.

    Attributes:
        asked: the seats that act in the next turn.
    """

    def __init__(self, index: int, episode: GameSpec, slot: int, env: gymnasium.Env[Any, Any]):
        self.index, self.episode, self.slot, self.env = index, episode, slot, env
        self.seats: list[SeatPlay] = []
        self.asked: list[SeatPlay] = []

    def start(self) -> None:
        """Starts the episode of the game (may run on a worker)."""
        episode, env = self.episode, self.env
        task = env.select(episode.task) if isinstance(env, Mixture) else episode.task
        self.single: SingleSeat = env.unwrapped  # type: ignore[assignment]
        agents = [agent for agent, _ in episode.seats]
        self.table: Table = self.single.open_table(task, episode.seed, agents)
        self.seats = [SeatPlay(self, agent) for agent in agents]

    def read(self, context: Context, room: Room) -> None:
        """Processes the result of `start` or `step`, for the seats that act or are out."""
        acting, over = self.table.acting, self.table.game.over
        for seat in self.seats:
            if not seat.over and (seat.agent in acting or over(seat.agent)):
                seat.receive()
                if seat.turns or not seat.over:
                    seat.read(context, room)
        if any(seat.overflow for seat in self.seats):
            self._end(context, room)
        self.asked = [seat for seat in self.seats if not seat.over and seat.agent in acting]

    def _end(self, context: Context, room: Room) -> None:
        """Ends the episode for the seats that are still in the game."""
        terminated = context.settings.overflow == "terminate"
        for seat in self.seats:
            if seat.over:
                continue
            waits = seat.agent not in self.table.acting and bool(seat.turns)
            if waits:
                seat.receive()
            seat.terminated, seat.truncated = terminated, not terminated
            if waits:
                seat.read(context, room)

    @property
    def over(self) -> bool:
        """Whether the episode has ended for all seats."""
        return all(seat.over for seat in self.seats)

    def follow_opening(self, policy: Policy | Ensemble) -> bool:
        """Returns False: the episode of a game has no opening."""
        return False

    def step(self) -> None:
        """Plays the turn (may run on a worker)."""
        actions = {seat.agent: seat.sample.text for seat in self.asked if seat.sample is not None}
        try:
            self.table.play(actions)
        except Exception as error:
            error.add_note(
                f"Raised by the game in task {self.episode.task!r} with seed {self.episode.seed}, "
                f"after the actions {actions}."
            )
            raise

    def trajectories(self) -> list[Trajectory]:
        """Returns the trajectories of the seats with the weights in training."""
        return [seat.trajectory() for seat in self.seats if seat.turns and not seat.weights]

    def drop(self, cache: Session) -> None:
        """Removes the prompts of all seats from a cache."""
        for seat in self.seats:
            seat.drop(cache)
