"""`TextGame`: base class of multi-agent text games.

It does not depend on PettingZoo. `agentgym.multiagent.pettingzoo` makes environments of games.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.rules import GameRules, InvalidMove, Rewards
from agentgym.reading.typography import without_thoughts
from agentgym.snapshots import check_owner, generator_of, owner_of, restoring
from agentgym.time_step import INFO_KEYS, TimeStep, check_reward_terms, check_step, step_info
from agentgym.utils.action_parsing import check_text, text_of
from agentgym.utils.arguments import (
    CheckedArguments,
    check_arguments,
    check_limits,
    keyword_parameters,
)
from agentgym.utils.before_reset import BeforeReset
from agentgym.utils.serialization import from_json, to_json

GAME_INFO_KEYS = (*INFO_KEYS, "acting")
"""The keys of a game's info. `task` may reveal hidden information: agents must not see it."""

IMMUTABLE = (str, int, float, bool, NoneType)
"""Types of values that the copies of a state share."""

QUIET = TimeStep("")
"""The outcome of a turn without rewards and invalid actions for an agent that plays on."""


class TextGame(CheckedArguments, GameRules):
    """The rules of a multi-agent game, and its episodes.

    To implement a game:

    1. Declare `instructions`, `tasks`, `players`, `State` and the other attributes that apply.
    2. `_start(task)` sets `self.state`. All random events use `self.np_random`.
    3. `_acting()` returns the agents that move now: one agent (turn-based), several agents
       (simultaneous moves), or none (the game has ended). An agent that is busy with an action of
       several turns is omitted until it is done.
    4. `_look(agent)` returns the agent's observation: text, admissible actions, success, progress.
    5. `_read(agent, said)` parses an action to a move or raises `InvalidMove`. By default it
       matches the admissible actions. If there are none, every action is valid.
    6. `_advance(moves)` applies the moves of all acting agents, calls `_tell` for messages to
       agents, and returns the rewards.
    7. `_present()` omits agents that are permanently out. `_script(level, ...)` implements the
       scripted players. `role(agent)` and `possible_roles(agent)` name roles, if there are any.
    8. `agentgym.register_game("Mine/MyGame-v0", MyGame)` gives the game an id. In the suite, the
       module ends with `env, raw_env, parallel_env = make_pettingzoo(MyGame)` instead, and has a
       line in the table of ids.

    In every turn, each agent in `acting` chooses one action. An agent whose action is invalid is
    charged `invalid_penalty` and acts again in the next turn, while the valid moves of the others
    are held. After `max_invalid` consecutive invalid actions, the move `_fallback(agent)` is made
    for the agent.

    Args:
        num_players: number of agents, one of `players`. None: the smallest number.
        split: split that `reset` samples tasks from: "train" or "test".
        max_turns: number of turns after which the episode is truncated. None: no limit.
        invalid_penalty: penalty of an invalid action, subtracted from the reward (term "invalid").
        max_invalid: consecutive invalid actions that lead to the fallback move (at least 1).

    Raises:
        ConfigError: for an invalid argument.
        UnknownArgumentError: for an unknown argument.
    """

    _episode: GameEpisode
    """The episode in progress."""
    if not TYPE_CHECKING:
        _episode = BeforeReset(ResetNeeded, "Call reset() first: there is no episode in progress.")

    def __init__(
        self,
        *,
        num_players: int | None = None,
        split: str = "train",
        max_turns: int | None = None,
        invalid_penalty: float = 0.0,
        max_invalid: int = 3,
        **unknown: Any,
    ):
        check_arguments(type(self).__name__, keyword_parameters(type(self)), unknown)
        count = self.players.start if num_players is None else num_players
        if count not in self.players:
            raise ConfigError(f"num_players must be one of {[*self.players]}, got {num_players!r}.")
        check_limits(split, max_turns)
        if max_invalid < 1:
            raise ConfigError(f"max_invalid must be at least 1, got {max_invalid}.")
        self.possible_agents = tuple(f"player_{i}" for i in range(count))
        self.opponents = {}
        self._unseen: set[str] = set()
        self.split = split
        self.max_turns = max_turns
        self.invalid_penalty = float(invalid_penalty)
        self.max_invalid = max_invalid
        self.np_random, _ = seeding.np_random()

    def clock(self) -> int:
        """Returns the number of turns of the environment played so far, by default of the game.

        Within a turn of the environment, agents act without a discount between them in training.
        """
        return self._episode.turn

    def copy(self) -> Self:
        """Returns a copy of the game that continues independently from the same state.

        Both share one random generator, so that it is for games without further random events.
        """
        twin = copy.copy(self)
        flat = all(isinstance(value, IMMUTABLE) for value in vars(self.state).values())
        twin.state = (copy.copy if flat else copy.deepcopy)(self.state)
        twin._episode = self._episode.copy()
        twin._unseen = set(self._unseen)
        return twin

    def _tell(self, text: str, to: Iterable[str] | None = None) -> None:
        """Shows a line above the next observation of some agents. None: of all agents."""
        for agent in self.possible_agents if to is None else to:
            self._episode.news[agent].append(text)

    @property
    def episode(self) -> GameEpisode | None:
        """The episode in progress, or None before the first reset."""
        return self.__dict__.get("_episode")

    @property
    def turn(self) -> int:
        """The number of turns played."""
        return self._episode.turn

    @property
    def acting(self) -> tuple[str, ...]:
        """The agents that act in the next turn. Empty after the end of the episode."""
        return self._episode.acting

    @property
    def steps(self) -> dict[str, TimeStep]:
        """The last `TimeStep` of each agent."""
        return {agent: self.seen(agent) for agent in self.possible_agents}

    def seen(self, agent: str) -> TimeStep:
        """Returns the agent's last `TimeStep`. Its observation is computed on first access."""
        episode = self._episode
        if agent in self._unseen:
            look, got = self._look(agent), episode.steps[agent]
            if not episode.turn or got.terminated:  # a check of every turn is slow
                check_step(f"{type(self).__name__}._look", look, self.reward_names)
            # Not `replace`, which takes several times as long.
            episode.steps[agent] = TimeStep(
                look.text,
                got.rewards,
                got.terminated,
                got.valid,
                look.success,
                look.progress,
                look.admissible if agent in episode.acting else (),
                look.state_key,
                "\n".join([line for line in (*episode.news[agent], look.feedback) if line]),
            )
            self._unseen.remove(agent)
        return episode.steps[agent]

    def admissible(self, agent: str) -> tuple[str, ...]:
        """Returns the agent's admissible actions, without computing its observation if possible."""
        return self._admissible_actions(agent) if agent in self._episode.acting else ()

    def outcome(self, agent: str) -> TimeStep:
        """Returns the agent's last `TimeStep`, of which the observation may be missing."""
        return self._episode.steps[agent]

    def terminated(self, agent: str) -> bool:
        """Returns whether the game has terminated for the agent."""
        return self.outcome(agent).terminated

    def truncated(self, agent: str) -> bool:
        """Returns whether the turn limit truncated the game for the agent."""
        return self._episode.truncated and not self.terminated(agent)

    def over(self, agent: str) -> bool:
        """Returns whether the episode is over for the agent."""
        episode = self._episode
        return episode.truncated or episode.steps[agent].terminated

    def reset(self, seed: int | None = None, task: str | None = None) -> None:
        """Starts an episode.

        Args:
            seed: seeds `self.np_random`; None continues its stream.
            task: the task to play. None: sampled from the split.

        Raises:
            UnknownTaskError: if the game has no such task. The episode in progress stays.
        """
        given = None if task is None else self.tasks.check(task)
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        tasks = self.tasks.split(self.split)
        # Sampled even if a task is given, so that the random stream is the same in both cases.
        drawn = int(self.np_random.integers(len(tasks)))
        self.begin(tasks[drawn] if given is None else given)

    def begin(self, task: str, state: Any = None) -> None:
        """Starts an episode of a task without seeding `self.np_random`.

        Args:
            task: the task to play.
            state: a state to start from, of `starts`. None: the start of the task.
        """
        agents = self.possible_agents
        episode = GameEpisode(task, failures=dict.fromkeys(agents, 0), news={a: [] for a in agents})
        self._episode, self._unseen = episode, set()
        if state is None:
            self._start(task)
        else:
            self.state = state
        episode.acting = self._acting()
        assert episode.acting, "somebody must act at the start"
        self._observe({})

    def play(self, actions: Mapping[str, str]) -> None:
        """Plays one turn.

        Args:
            actions: the action of each agent in `acting`, any string. Other agents are ignored.

        Raises:
            TypeError: if an action is not a string.
            ValueError: if an agent in `acting` has no action.
            gymnasium.error.ResetNeeded: if there is no episode in progress.
        """
        episode = self._episode
        if not episode.acting:
            raise ResetNeeded("Call reset() first: the episode is over.")
        for agent in episode.acting:
            if agent not in actions:
                raise ValueError(f"{agent} must act now, but its action is missing.")
            check_text(actions[agent])
        episode.turn += 1
        invalid = [name for name in episode.acting if not self._receive_action(name, actions[name])]
        waiting = tuple([name for name in episode.acting if name not in episode.moves])
        rewards: Rewards = {}
        if not waiting:
            moves, episode.moves = episode.moves, {}
            rewards = self._advance(moves)
        acting = waiting or self._acting()
        episode.truncated = bool(acting) and episode.turn == self.max_turns
        episode.acting = () if episode.truncated else acting
        self._observe(rewards, invalid, ended=not acting)

    def _receive_action(self, agent: str, action: str) -> bool:
        """Stores the agent's move and returns whether its action was valid."""
        episode = self._episode
        episode.news[agent] = []
        try:
            if isinstance(action, UnreadableAction):
                raise InvalidMove(action.feedback)
            episode.moves[agent] = self._parse(agent, without_thoughts(text_of(action)))
        except InvalidMove as error:
            self._tell(str(error), [agent])
            episode.failures[agent] += 1
            if episode.failures[agent] == self.max_invalid:
                episode.failures[agent] = 0
                move = episode.moves[agent] = self._fallback(agent)
                self._tell(f"This was your last attempt. Your move is now: {move}", [agent])
            return False
        episode.failures[agent] = 0
        return True

    def _observe(
        self, rewards: Rewards, invalid: Collection[str] = (), *, ended: bool = False
    ) -> None:
        """Sets the `TimeStep` of every agent that was still in the game."""
        episode = self._episode
        playing = () if ended else self._present()
        self._check_author(playing, rewards)
        steps = episode.steps
        if len(playing) == len(self.possible_agents) and not rewards and not invalid:
            steps.update(dict.fromkeys(playing, QUIET))  # as below, for all at once
            self._unseen.update(playing)
            return
        for agent in self.possible_agents:
            if agent in steps and steps[agent].terminated:
                continue
            if agent in playing and not rewards and not invalid:
                steps[agent] = QUIET
            else:
                steps[agent] = TimeStep(
                    "",
                    rewards={name: float(x) for name, x in rewards.get(agent, {}).items()},
                    terminated=agent not in playing,
                    valid=agent not in invalid,
                )
            self._unseen.add(agent)
            if playing and agent not in playing:
                self.seen(agent)  # the agent is out: its last observation is of this state

    def _check_author(self, playing: tuple[str, ...], rewards: Rewards) -> None:
        """Raises an error if the rules of the game violate the contract of `TextGame`."""
        name, episode = type(self).__name__, self._episode
        if not isinstance(getattr(self, "state", None), self.State):
            raise TypeError(f"{name} must leave a {self.State.__name__} in self.state.")
        if absent := [agent for agent in episode.acting if agent not in playing]:
            raise ValueError(f"{name}._acting() names {absent[0]}, _present() does not: {playing}.")
        if not isinstance(rewards, (dict, Mapping)):
            raise TypeError(f"{name}._advance must return rewards by agent, got {rewards!r:.80}.")
        for agent, terms in rewards.items():
            if agent not in self.possible_agents or (episode.steps and self.terminated(agent)):
                raise ValueError(f"{name}._advance rewarded {agent!r}, which is not in the game.")
            check_reward_terms(f"{name}._advance", terms, self.reward_names)

    def reward(self, agent: str) -> float:
        """Returns the agent's reward of the last turn."""
        return float(sum(self.info(agent)["reward_terms"].values()))

    def info(self, agent: str) -> dict[str, Any]:
        """Returns a new dictionary with the agent's info: `GAME_INFO_KEYS` and `measures`."""
        episode, step = self._episode, self.seen(agent)
        info = step_info(step, episode.task, episode.turn, self.reward_names, self.invalid_penalty)
        return {**info, "acting": agent in episode.acting, **self.measures(agent)}

    def measures(self, agent: str) -> dict[str, float]:
        """Returns numbers that the agent's info holds too, such as its regret. Default: none."""
        return {}

    def expert(self, agent: str) -> str | None:
        """Returns the scripted expert's next action, or None. Does not change the game."""
        if self.expert_level is None or agent not in self.acting:
            return None
        return self.script(self.expert_level, agent, self._aside(agent))

    def _aside(self, agent: str) -> np.random.Generator:
        """Returns a random generator for choices outside of the episode's random stream.

        It is independent of `self.np_random`, whose samples would reveal the co-players' actions.
        """
        state = self.np_random.bit_generator.state["state"]["state"]
        place = self.possible_agents.index(agent)
        return np.random.default_rng((state, self._episode.turn, place))

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary."""
        return {
            **owner_of(self),
            "episode": to_json(replace(self._episode, steps=self.steps)),
            "state": to_json(self.state),
            "rng": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continues from a snapshot of a game made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged.
        """
        check_owner(snapshot, self)
        with restoring(self):
            episode = from_json(GameEpisode, snapshot["episode"])
            self.state = from_json(self.State, snapshot["state"])
            self._episode, self._unseen = episode, set()
            self.np_random = generator_of(snapshot["rng"])
            self._check_episode(episode)

    def _check_episode(self, episode: GameEpisode) -> None:
        """Raises an error if an episode cannot be one of this game in its state."""
        agents, limit = set(self.possible_agents), self.max_turns
        self.tasks.check(episode.task)
        for kept in (episode.steps, episode.failures, episode.news):
            if kept.keys() != agents:
                raise ValueError(f"it is of {len(kept)} players")
        if episode.turn < 0 or (limit is not None and episode.turn > limit):
            raise ValueError(f"turn {episode.turn} is not possible with max_turns = {limit}")
        if not all(0 <= count < self.max_invalid for count in episode.failures.values()):
            raise ValueError("an agent has more invalid actions than are possible")
        acting = () if episode.truncated else self._acting()
        if not (set(episode.acting) <= set(acting) and bool(episode.acting) == bool(acting)):
            raise ValueError(f"{episode.acting} act, but by the rules {acting}")
        if not episode.moves.keys() <= agents - set(episode.acting):
            raise ValueError("it holds moves of agents that have not made one")
        for step in episode.steps.values():
            if not 0 <= step.progress <= 1:
                raise ValueError(f"progress must lie in [0, 1], got {step.progress}")
            check_reward_terms("the snapshot", step.rewards, self.reward_names)
