"""Rollouts of games: every seat that a policy plays is an agent with its own prompt and trajectory.

`GamePlay` is an episode of a game in a slot of `play_episodes`, as `Play` is one of an environment.
All seats that act in a turn are asked in the same batch. Seats with other weights than those in
training leave no trajectory, and seats that are not in `GameSpec.seats` are played by scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import gymnasium

from agentgym.errors import ConfigError, naming
from agentgym.multiagent.table import Table
from agentgym.registration.mixture import Mixture, id_in_play
from agentgym.registration.single_seat import SingleSeat
from agentgym.time_limits import BoundedCalls, CallTimeout
from agentgym.time_step import TimeStep, step_info
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.sampling import Request, Sample
from agentgym.trainers.rollout.action_room import Room
from agentgym.trainers.rollout.context import AtLimit, Context
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.wrappers import ExtractAction

if TYPE_CHECKING:
    from agentgym.trainers.policy.engine import Session
    from agentgym.trainers.policy.policy import Policy

SELF = "self"
"""The opponent with the weights in training, in `Trajectory.opponent`."""

TIE = 1e-9
"""Returns that differ by less are equal."""


@dataclass(frozen=True)
class GameSpec(EpisodeSpec):
    """A request to play an episode of a game, with the attributes of an `EpisodeSpec`.

    The environment is the game as a single seat (`SingleSeat`), of which the tasks and the levels
    of the scripted players are used. A seat's actions are sampled with the episode's key and the
    place of the seat. If it is the only one, they are those of the single-seat environment. If a
    seat has taken `max_turns` turns, the episode is truncated for all seats.

    Attributes:
        seats: the agents that are not played by scripts, each with the name of its weights. The
            weights in training have the name "".
        opponent: the player of all other seats, a level or a word for `game_agent`. "": those of
            the environment.
        by_role: whether each role has weights of its own in training, with the name of the role.
        openings: the recorded actions of each seat that are replayed first, in place of `opening`.
        central: whether to record what the other agents see, for a critic that sees all.
        explorer: the only agent that explores with `epsilon`. "": all of them.
    """

    seats: tuple[tuple[str, str], ...] = ()
    opponent: str = ""
    by_role: bool = False
    openings: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    central: bool = False
    explorer: str = ""

    @property
    def recorded(self) -> list[Sample]:
        """The recorded actions that are replayed first, of all seats."""
        return [sample for opening in self.openings.values() for sample in opening]

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
        self._key = spec.key
        key = spec.key if len(spec.seats) == 1 else (*spec.key, place)
        opening = spec.openings.get(agent, ())
        own = EpisodeSpec(
            spec.task, spec.seed, key, opening, spec.max_turns, bootstraps=spec.bootstraps
        )
        super().__init__(game.index, own, game.slot, game.env)
        self.cache_key = f"{game.index}/{agent}"
        self.agent = agent
        self._weights = dict(spec.seats)
        self.weights = self._weights[agent]
        self._single, self._table = single, game.table
        self._role, self._by_role = single.game.role(agent), spec.by_role
        self._central = spec.central
        self._explorer = spec.explorer
        self._explores = spec.explorer in ("", agent)
        possible = single.game.possible_roles(agent)
        if spec.by_role and self._role not in possible:
            raise ConfigError(
                f"{type(single.game).__name__}.possible_roles({agent!r}) must list all roles of "
                f"the agent, and it is {possible}, without {self._role!r}."
            )
        self._clocks: dict[tuple[int, str], float] = {}
        self._wrapper = game.wrapper
        self._format_score = 0.0

    def request(self, constrain: bool) -> Request:
        """Returns the generation request of this turn, for the weights of the seat."""
        own = self._role if self._by_role and not self.weights else self.weights
        return replace(super().request(constrain), weights=own, explores=self._explores)

    def action(self) -> str:
        """Returns the action for the game: the reply, or the part that `ExtractAction` reads."""
        assert self.sample is not None
        said = self.sample.text
        if self._wrapper is None:
            return said
        self._format_score = self._wrapper.format_score(said)
        return self._wrapper.extract(said)

    def receive(self) -> None:
        """Takes the result of the seat's last step, or its first observation, from the table."""
        table = self._table
        first = self.sample is None
        self._clocks = table.clocks[self.agent]
        step = table.game.seen(self.agent) if first else table.take(self.agent)
        self.observation, self.info = step.observation, self._info(step)
        self._reward = float(sum(self.info["reward_terms"].values()))
        self.terminated = table.game.terminated(self.agent)
        self.truncated = table.game.truncated(self.agent)
        limit = self.episode.max_turns
        if limit is not None and not self.over and len(self.turns) == limit:
            self.truncated = True

    @property
    def _env_turns(self) -> int:
        return len(self.turns)  # as the turn limit of a seat does

    def stop(self) -> None:
        """Truncates the episode without another look at the table, which may still change."""
        super().stop()
        self._clocks, self._central = {}, False

    def _instructions(self) -> str:
        # Wrappers around the environment add to its instructions, so it shows those of the seat.
        self._single.instructions = self._single.game.instructions_for(self.agent)
        return super()._instructions()

    def record(self, sample: Sample, policy: Policy | Ensemble | None = None) -> None:
        """Records the action, and when it is taken."""
        super().record(sample, policy)
        game, turn = self._table.game, self.turns[-1]
        turn.order, turn.clock = game.turn, game.clock()

    def _complete_turn(self) -> None:
        super()._complete_turn()
        turn = self.turns[-1]
        turn.delayed = tuple(
            (clock, reward, term)
            for (clock, term), reward in self._clocks.items()
            if clock != turn.clock
        )

    def _info(self, step: TimeStep) -> dict[str, Any]:
        names, penalty = self._table.game.reward_names, self._single.invalid_penalty
        info = step_info(step, self.episode.task, len(self.turns), names, penalty)
        if self._wrapper is not None and self._wrapper.scores_format:
            info["reward_terms"]["format"] = self._format_score
        return info

    def trajectory(self) -> Trajectory:
        """Returns the trajectory of the seat, which has at least one turn."""
        found = super().trajectory()
        found.agent, found.role, found.opponent = self.agent, self._role, self._opponent()
        found.episode = self._key
        found.explorer = self._explorer
        return found

    @property
    def total(self) -> float:
        """The sum of the game's rewards so far, without penalties and scores of a format."""
        terms = [turn.reward_terms for turn in self.turns] or [self._table.rewards[self.agent]]
        return sum(each[name] for each in terms for name in self._table.game.reward_names)

    def _privileged(self) -> str:
        """Returns the observations of the other agents in the game, if they are to be recorded."""
        game = self._table.game
        names = game.possible_agents if self._central else ()
        others = [agent for agent in names if agent != self.agent and not game.terminated(agent)]
        return "\n".join(f"{agent} sees: {game.seen(agent).observation}" for agent in others)

    def _opponent(self) -> str:
        players = {agent: name or SELF for agent, name in self._weights.items()}
        names = {**self._single.state.levels, **players}
        return "+".join(dict.fromkeys(names[a] for a in sorted(names) if a != self.agent))


class GamePlay:
    """An episode of a game in progress in a slot: `start`, then `read` and `step` in a loop.

    With the wrapper `ExtractAction`, the action of every seat is read from its reply.

    A seat that is out of the game before its first action has no trajectory. If the prompt of a
    seat exceeds the context, the episode ends for all seats.

    Attributes:
        asked: the seats whose actions in the next turn are to be generated.
        playing: all seats that act in it.
        calls: runs the calls into the game with a time limit. None: there is no limit.
        timed_out: description of the call that took too long, "" if there is none.
    """

    calls: BoundedCalls | None = None
    timed_out = ""

    def __init__(self, index: int, episode: GameSpec, slot: int, env: gymnasium.Env[Any, Any]):
        self.index, self.episode, self.slot, self.env = index, episode, slot, env
        self.seats: list[SeatPlay] = []
        self.asked: list[SeatPlay] = []
        self.playing: list[SeatPlay] = []

    def start(self) -> None:
        """Starts the episode of the game (may run on a worker)."""
        episode, env = self.episode, self.env
        task = env.select(episode.task) if isinstance(env, Mixture) else episode.task
        self.single: SingleSeat = env.unwrapped  # type: ignore[assignment]
        self.wrapper = extract_action(env)
        agents = [agent for agent, _ in episode.seats]
        opponent = episode.opponent or None
        try:
            self.table: Table = self._call(
                lambda: self.single.open_table(task, episode.seed, agents, opponent)
            )
        except CallTimeout as error:  # no seat has a turn, so that there is no trajectory
            self._time_out(f"the start {error}.")
            return
        self.seats = [SeatPlay(self, agent) for agent in agents]

    def read(self, context: Context, room: Room) -> None:
        """Processes the result of `start` or `step`, for the seats that act or are out."""
        if self.timed_out:  # the table may still change
            for seat in self.seats:
                if not seat.over:
                    seat.stop()
                    if seat.turns:
                        seat.read(context, room)
            return
        acting, over = self.table.acting, self.table.game.over
        for seat in self.seats:
            if not seat.over and (seat.agent in acting or over(seat.agent)):
                seat.receive()
                if seat.turns or not seat.over:
                    seat.read(context, room)
        if any(seat.overflow for seat in self.seats):
            self._end(context, room, context.settings.overflow)
        elif any(seat.at_limit and not over(seat.agent) for seat in self.seats):
            self._end(context, room, context.settings.turn_limit)
        self.asked = [seat for seat in self.seats if not seat.over and seat.agent in acting]
        self.playing = self.asked

    def _end(self, context: Context, room: Room, end: AtLimit) -> None:
        """Ends the episode at a limit for the seats that are still in the game."""
        for seat in self.seats:
            if seat.over:
                continue
            waits = seat.agent not in self.table.acting and bool(seat.turns)
            if waits:
                seat.receive()
            seat.end_at_limit(end)
            if waits:
                seat.read(context, room)

    @property
    def over(self) -> bool:
        """Whether the episode has ended for all seats."""
        return all(seat.over for seat in self.seats)

    def follow_opening(self, policy: Policy | Ensemble) -> bool:
        """Records the next actions of the openings, and returns whether no other seat acts."""
        self.asked = [seat for seat in self.asked if not seat.follow_opening(policy)]
        return not self.asked

    def step(self) -> None:
        """Plays the turn (may run on a worker)."""
        actions = {seat.agent: seat.action() for seat in self.playing}
        task, seed = self.episode.task, self.episode.seed
        try:
            with naming(lambda: f"Raised by the game in {task=} with {seed=}, after {actions}."):
                self._call(lambda: self.table.play(actions))
        except CallTimeout as error:
            self._time_out(f"a turn {error}, after the actions {actions!r:.300}.")

    def _call(self, call: Callable[[], Any]) -> Any:
        return call() if self.calls is None else self.calls(call)

    def _time_out(self, problem: str) -> None:
        name = id_in_play(self.env)
        self.timed_out = f"{name}, task {self.episode.task!r}, seed {self.episode.seed}: {problem}"

    def trajectories(self) -> list[Trajectory]:
        """Returns the trajectories of the seats with the weights in training."""
        found = [seat for seat in self.seats if seat.turns and not seat.weights]
        trajectories = [seat.trajectory() for seat in found]
        frozen = [seat.total for seat in self.seats if seat.weights]
        for seat, trajectory in zip(found, trajectories, strict=True):
            if frozen:
                ahead = seat.total - sum(frozen) / len(frozen)
                won = 0.5 + 0.5 * (ahead > TIE) - 0.5 * (ahead < -TIE)
                trajectory.result = won
        return trajectories

    def drop(self, cache: Session) -> None:
        """Removes the prompts of all seats from a cache."""
        for seat in self.seats:
            seat.drop(cache)


def extract_action(env: gymnasium.Env[Any, Any]) -> ExtractAction | None:
    """Returns the `ExtractAction` around the environment of an episode, or None without one."""
    try:
        return env.get_wrapper_attr("extract").__self__
    except AttributeError:
        return None
