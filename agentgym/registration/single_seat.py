"""`SingleSeat`: one seat of a game as a `TextEnv`, with other players in the other seats."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.agents import Agent, ScriptedAgent, View
from agentgym.agents.basic.view import actions_for
from agentgym.core import TextEnv, UnreadableAction
from agentgym.errors import ConfigError, UnknownArgumentError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import GameAgent, refresh, seat_view
from agentgym.multiagent.table import Table
from agentgym.registration.entry import UNKNOWN
from agentgym.registration.games import make_parallel
from agentgym.registration.shared_agents import shared_agent
from agentgym.rendering import Scene
from agentgym.snapshots import restoring
from agentgym.time_step import TimeStep, check_reward_terms
from agentgym.utils.arguments import check_render_mode, metadata_of
from agentgym.utils.serialization import ADDED


@dataclasses.dataclass
class Seat:
    """The state of a `SingleSeat` environment.

    Attributes:
        agent: the agent that acts through this environment.
        levels: level of the scripted player in each seat, or the name of the agent there.
        histories: (observation, action) of the earlier turns of each agent in another seat.
        memories: the `View.memory` of each of them.
        early: reward terms that the agent received before its first action.
        game: the game's snapshot. It is set only in snapshots of this environment.
    """

    agent: str
    levels: dict[str, str] = dataclasses.field(default_factory=dict)
    histories: dict[str, list[tuple[str, str]]] = dataclasses.field(default_factory=dict)
    memories: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict, metadata=ADDED)
    early: dict[str, float] = dataclasses.field(default_factory=dict)
    game: dict[str, Any] = dataclasses.field(default_factory=dict)


class SingleSeat(TextEnv):
    """One seat of a game as a single-agent environment, against scripted players or agents.

    A step is one action of the seat. Its reward is the sum of the rewards until the seat acts
    again. If the agent is out before its first action, that action is ignored and ends the episode.

    Args:
        game: id of the game, such as "AgentGym/TicTacToe-v0".
        seat: the agent that acts through this environment, such as "player_0". None: sampled at
            every reset.
        opponents: players in the other seats, or {"player_1": player} (agents that are not named
            play at random). None: the game's `default_opponents`. A player is one of the game's
            `levels`, an agent, a function from a `View` to an action, or a word such as
            "policy:FOLDER" (see `make_agent`). The level "unknown" is sampled at every reset from
            all levels but "random". Levels are hidden from the agent, and "unknown" ones from the
            game's expert too. Snapshots and `spec` hold the names of agents only.
        split: split that `reset` samples tasks from: "train" or "test".
        invalid_penalty: penalty of an invalid action, subtracted from the reward.
        render_mode: None, "ansi" or "human", as in `TextEnv`, or, in a game with pictures,
            "rgb_array": the picture shows only what the agent may see.
        **kwargs: arguments of the game, such as `max_turns`, which counts turns of the game.

    Raises:
        ConfigError: for an unknown game or seat, or an invalid argument.
        UnknownArgumentError: for an unknown argument.
    """

    State = Seat
    state: Seat
    _spec: EnvSpec | None = None
    _views: dict[str, View]

    def __init__(
        self,
        *,
        game: str,
        seat: str | None = None,
        opponents: GameAgent | Mapping[str, GameAgent] | None = None,
        split: str = "train",
        invalid_penalty: float = 0.0,
        render_mode: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(split=split, invalid_penalty=invalid_penalty, render_mode=render_mode)
        self.game = self._make(game, split=split, **kwargs)
        self.metadata = metadata_of(pictures=self.game.has_pictures())
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.instructions, self.tasks = self.game.instructions, self.game.tasks
        self.reward_names = self.game.reward_names  # type: ignore[misc]  # fixed by the game
        self.__doc__ = self.game.__doc__
        agents = self.game.possible_agents
        if seat is not None and seat not in agents:
            raise ConfigError(f"seat must be None or one of {agents}, got {seat!r}.")
        self.seat = seat
        if seat is not None:
            self.instructions = self.game.instructions_for(seat)
        self._own_opponents = opponents
        self._met: dict[str | None, tuple[dict[str, str], dict[str, Agent]]] = {}
        self._opponent: str | None = ""  # none yet
        self._meet(None)

    def _meet(self, player: str | None) -> None:
        """Puts a player into the other seats. None: the `opponents` of the constructor."""
        if player == self._opponent:
            return
        if player not in self._met:
            levels, players = self._lineup(self._own_opponents if player is None else player)
            self._met[player] = dict.fromkeys(self.game.possible_agents, "random") | levels, players
        self.opponents, self.players = self._met[player]
        self._opponent = player
        self._inform_expert()

    @property
    def samples_opponents(self) -> bool:
        """Whether levels of opponents are sampled at every reset."""
        return UNKNOWN in self.opponents.values()

    def _inform_expert(self, seats: int = 1) -> None:
        """Shows the game's expert the levels of the opponents, if all of them are scripted.

        Args:
            seats: number of externally controlled seats.
        """
        hidden = self.players or self.samples_opponents or seats > 1
        self.game.opponents = {} if hidden else self.opponents

    def _lineup(
        self, opponents: GameAgent | Mapping[str, GameAgent] | None
    ) -> tuple[dict[str, str], dict[str, Agent]]:
        """Returns the level or the name of the player in each seat, and the agents among them."""
        game = self.game
        if opponents is None:
            opponents = game.default_opponents
        if not isinstance(opponents, Mapping):
            opponents = dict.fromkeys(game.possible_agents, opponents)
        levels: dict[str, str] = {}
        players: dict[str, Agent] = {}
        for agent, player in opponents.items():
            if agent not in game.possible_agents:
                raise ConfigError(
                    f"opponents must name agents {game.possible_agents}, got {agent!r}."
                )
            if isinstance(player, str) and player in (*game.levels, UNKNOWN):
                levels[agent] = player
                continue
            made = shared_agent(game, player)
            levels[agent] = made.name
            if isinstance(made, ScriptedAgent):
                levels[agent] = made.level
            else:
                players[agent] = made
        return levels, players

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The specification, in which agents in other seats are replaced by their names."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:  # type: ignore[override]
        if spec is not None and self.players:
            spec = copy.copy(spec)
            spec.kwargs = {**spec.kwargs, "opponents": dict(self.opponents)}
        self._spec = spec

    @property
    def agent(self) -> str:
        """The agent that acts through this environment in the current episode."""
        return self.state.agent

    @property
    def role(self) -> str:
        """The role of this agent."""
        return self.game.role(self.agent)

    @staticmethod
    def _make(id: str, **kwargs: Any) -> TextGame:
        for name in ("action_mode", "observation_size"):
            if name in kwargs:
                raise UnknownArgumentError(
                    f"{name!r} is an argument of make_aec and make_parallel only. For a single "
                    "seat, use the wrappers AdmissibleAction or EncodeObservation of "
                    "agentgym.wrappers."
                )
        try:
            return make_parallel(id, **kwargs).game
        except UnknownArgumentError as error:
            hints = [did_you_mean(name, ("seat", "opponents")) for name in kwargs]
            raise UnknownArgumentError(
                f"{error} A single seat also takes 'seat' and 'opponents'.{''.join(hints)}"
            ) from None

    def _start(self, task: str) -> TimeStep:
        self._meet(None)
        self._inform_expert()
        self.state = self._deal(task)
        step = self._play_on(None)
        self.state.early = dict(step.rewards)
        return TimeStep(
            step.text,
            progress=step.progress,
            admissible=step.admissible,
            state_key=step.state_key,
            feedback=step.feedback,
        )

    def _deal(self, task: str) -> Seat:
        """Begins an episode of the game, with a sampled seat and sampled levels."""
        agents = self.game.possible_agents
        # Sampled even if a seat is given, so that the random stream is the same in both cases.
        drawn = agents[int(self.np_random.integers(len(agents)))]
        levels = {agent: self._drawn(level) for agent, level in self.opponents.items()}
        self._views = {}
        self.game.np_random = self.np_random
        self.game.begin(task)
        seat = self.seat or drawn
        self.instructions = self.game.instructions_for(seat)
        return Seat(seat, levels)

    def open_table(
        self, task: str, seed: int, seats: Sequence[str], opponent: str | None = None
    ) -> Table:
        """Starts an episode with several externally controlled seats.

        With a single seat, it is the episode of `reset` with this seat. With several, the game's
        expert does not know the levels of the opponents. The environment itself must be reset
        before its next step.

        Args:
            task: the task.
            seed: the seed of the episode.
            seats: the externally controlled agents.
            opponent: the player of the other seats, a level or a word for `game_agent`. None: the
                `opponents`.

        Raises:
            ConfigError: for an unknown opponent.
            UnknownTaskError: if the game has no such task.
        """
        self._meet(opponent)
        self._inform_expert(len(seats))
        gymnasium.Env.reset(self, seed=seed)
        self.np_random.integers(len(self.tasks.split(self.split)))  # as `reset` samples a task
        self.state = self._deal(self.tasks.check(task))
        self._over = True
        table = Table(self.game, seats, self._choice)
        table.play({})
        return table

    def _drawn(self, level: str) -> str:
        """Returns the level. For "unknown", samples one of the levels except "random"."""
        if level != UNKNOWN:
            return level
        levels = [name for name in self.game.levels if name != "random"]
        return levels[int(self.np_random.integers(len(levels)))]

    def _advance(self, action: str) -> TimeStep:
        self.game.np_random = self.np_random
        return self._play_on(action)

    def _parse(self, action: str) -> str:
        return action  # parsed by the game

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._advance(action)  # the other agents still move

    def _play_on(self, action: str | None) -> TimeStep:
        """Plays the action, then the other agents until the seat acts again or is out."""
        me = self.state.agent
        table = Table(self.game, (me,), self._choice)
        table.rewards[me] |= self.state.early
        self.state.early = {}
        table.play({} if action is None else {me: action})
        return table.take(me)

    def _choice(self, agent: str) -> str:
        """Returns the next action of the player in another seat."""
        player = self.players.get(agent)
        if player is None:
            return self.game.script(self.state.levels[agent], agent, self.np_random)
        if agent not in self._views:
            self._views[agent] = seat_view(self.game, agent, self.np_random)
            self._views[agent].history = self.state.histories.setdefault(agent, [])
            self._views[agent].memory = self.state.memories.setdefault(agent, {})
        view = self._views[agent]
        view.rng = self.np_random
        refresh(view)
        found = actions_for(player, [view])
        if not isinstance(found[0], str):
            raise TypeError(
                f"Opponent {player.name!r} must return one action, a string, got {found!r:.80}."
            )
        view.history.append((view.observation, str(found[0])))
        return found[0]

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), **self.game.measures(self.state.agent)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn of the seat: see `TextEnv.step`. The game's turn limit truncates."""
        observation, reward, terminated, truncated, info = super().step(action)
        if self.game.truncated(self.state.agent):
            terminated, truncated, self._over = False, True, True
        return observation, reward, terminated, truncated, info

    def expert(self) -> str | None:
        """Returns the next action of the game's scripted expert, or None if it has none."""
        if self.game.expert_level and self.game.over(self.state.agent) and not self._over:
            return ""  # out before its first action, which is ignored
        return self.game.expert(self.state.agent)

    def privileged_text(self) -> str | None:
        """Returns the game's text about facts that the agent does not see, None without one.

        The levels of sampled opponents follow it, or the observation if the game has no text.
        """
        me = self.state.agent
        text = self.game.privileged_text(me)
        sampled = ", ".join(
            f"{agent} {level}"
            for agent, level in self.state.levels.items()
            if agent != me and self.opponents[agent] == UNKNOWN
        )
        if not sampled or self._last is None:
            return text
        return f"{text or ' '.join(self._last.observation.split())} Opponents: {sampled}."

    def _picture(self) -> str:
        return self.game.picture()

    def _frame(self) -> Scene:
        return self.game._frame(self.agent)

    def reseed(self, seed: int) -> None:
        """Samples the chance events of the rest of the episode anew: see `TextEnv.reseed`.

        Raises:
            ConfigError: if those of the game follow from what has happened.
        """
        self.game.reseed(seed)
        super().reseed(seed)

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary."""
        snapshot = super().snapshot()
        snapshot["state"]["game"] = self.game.snapshot()
        return snapshot

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot of an environment made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another environment or damaged.
        """
        with restoring(self.game):
            self.game.restore(snapshot["state"]["game"])
            return super().restore(snapshot)

    def _restored(self) -> None:
        self._meet(None)
        self._inform_expert()
        seat, agents = self.state, self.game.possible_agents
        assert self.game.episode is not None
        if seat.agent not in agents or seat.agent != (self.seat or seat.agent):
            raise ValueError(f"the seat is {seat.agent!r}, expected {self.seat or agents}")
        names = {agent: player.name for agent, player in self.players.items()}
        scripted = [level for agent, level in seat.levels.items() if agent not in names]
        if seat.levels.keys() != set(agents) or not set(scripted) <= {*self.game.levels}:
            raise ValueError(f"the scripted players are {seat.levels}")
        if names != {agent: seat.levels[agent] for agent in names}:
            raise ValueError(f"the opponents are {seat.levels}, expected {names}")
        self._views = {}
        if self.game.episode.task != self.task:
            raise ValueError("seat and game have different tasks")
        self.instructions = self.game.instructions_for(seat.agent)
        check_reward_terms("the snapshot", seat.early, self.reward_names)
