"""`TextGame`: base class of the rules of games for several agents, played in text.

No PettingZoo here: `agentgym.multiagent.pettingzoo` makes environments of the rules.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from agentgym.core import (
    INFO_KEYS,
    TimeStep,
    UnreadableAction,
    check_limits,
    check_reward_terms,
    refused,
    step_info,
)
from agentgym.errors import ConfigError, SnapshotError
from agentgym.multiagent.episode import GameEpisode
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import match_action
from agentgym.utils.arguments import check_arguments, check_types, parameters_of
from agentgym.utils.serialization import from_json, to_json

GAME_INFO_KEYS = (*INFO_KEYS, "acting")
"""`task` may tell what is hidden: it is for who runs the game, not for who plays it."""

Rewards = Mapping[str, Mapping[str, float]]
"""Reward terms by name, by agent; what is not given is 0."""


class InvalidMove(Exception):
    """What an agent said is no move; the message tells it why. It never leaves `TextGame`."""


class TextGame:
    """The rules of a game for several agents.

    How to write one:

    1. Declare `instructions`, `tasks`, `players`, `State` and the other attributes that apply.
    2. `_start(task)` sets `self.state`; cards, roles and all chance come from `self.np_random`.
    3. `_acting()` says who moves now: one agent (turn-based), several (at the same time), or nobody
       (the game has ended). Who is busy with a longer action is left out until it is done.
    4. `_look(agent)` is what that agent sees: text, admissible actions, success, progress.
    5. `_read(agent, said)` makes a move of what was said or raises `InvalidMove`; the default takes
       the admissible actions, or anything where there are none.
    6. `_advance(moves)` applies the moves of all who act, calls `_tell` for what somebody hears,
       and returns the rewards.
    7. `_present()` drops who is out of the game for good; `_script(level, ...)` plays a seat.
    8. The file ends with `env, raw_env, parallel_env = make_pettingzoo(MyGame)`.

    The rest is done here. A turn asks everybody in `acting` once. Who says nothing valid loses
    `invalid_penalty` and is asked again in the next turn, while the valid moves of others are held;
    at the `max_invalid`-th time in a row the move `_fallback(agent)` is made in its place.

    Args:
        num_players: how many agents play, one of `players`; None: the fewest.
        split: tasks that `reset` draws from: "train" or "test".
        max_turns: turns after which the episode is truncated for all; None: no limit.
        invalid_penalty: what an invalid action costs: subtracted from the reward (term "invalid").
        max_invalid: how many invalid actions in a row lead to the fallback move (at least 1).
    """

    instructions: str
    """Rules and action format: the system prompt of whoever plays, the same for all."""
    tasks: Tasks
    """The tasks, split into training and test tasks."""
    players: ClassVar[range] = range(2, 3)
    """Possible numbers of players."""
    State: ClassVar[type]
    """The dataclass of `self.state`."""
    reward_names: ClassVar[tuple[str, ...]] = ("task",)
    """The reward terms the rules may return; "invalid" is added."""
    zero_sum: ClassVar[bool] = False
    """Whether the rewards of all agents, penalties aside, sum to 0 in every turn."""
    levels: ClassVar[tuple[str, ...]] = ("random",)
    """The scripted players that `script` knows. The first is always "random"."""
    expert_level: ClassVar[str | None] = None
    """The strongest of them, where it may be called an expert."""
    default_opponents: ClassVar[str] = "random"
    """The level of a single seat's opponents by default: a game with scripted levels names one."""

    actions: tuple[str, ...] = ()
    """All admissible actions there can ever be; empty where the set is open."""
    opponents: Mapping[str, str]
    """Which scripted player has a seat, where that is known: `expert` may play against it."""
    state: Any
    episode: GameEpisode | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Checks the types of the arguments, also of those that a subclass adds."""
        check_types(cls.__name__, parameters_of(cls), kwargs)
        return super().__new__(cls)

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
        check_arguments(type(self).__name__, parameters_of(type(self)), unknown)
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

    # What an author writes.

    def _start(self, task: str) -> None:
        """Sets `self.state` to the start of the task."""
        raise NotImplementedError

    def _acting(self) -> tuple[str, ...]:
        """Returns who moves now; nobody: the game has ended."""
        raise NotImplementedError

    def _look(self, agent: str) -> TimeStep:
        """Returns what the agent sees of the state; rewards, ends and validity are filled in.

        It is called when somebody looks, if anybody does, and changes nothing.
        """
        raise NotImplementedError

    def _advance(self, moves: dict[str, str]) -> Rewards:
        """Applies the moves of all who act to `self.state` and returns the rewards."""
        raise NotImplementedError

    def _read(self, agent: str, said: str) -> str:
        """Returns the move that an action matches, or raises `InvalidMove`."""
        admissible = self.seen(agent).admissible
        if not admissible:
            return said
        action = match_action(said, admissible)
        if action is not None:
            return action
        known = ", ".join(admissible[:20]) + " and others" * (len(admissible) > 20)
        raise InvalidMove(f"{said[:40]!r} is not possible now. Say one of: {known}.")

    def _fallback(self, agent: str) -> str:
        """Returns the move made for an agent that was not understood `max_invalid` times."""
        return self.script("random", agent, self.np_random)

    def _present(self) -> tuple[str, ...]:
        """Returns the agents still in play; who is not is done for good."""
        return self.possible_agents

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        """Returns the next action of a scripted player (all `levels` but "random").

        It plays fair: it uses of `self.state` only what the agent may know.
        """
        raise NotImplementedError

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        """Returns a random action; where the set is open, by default silence."""
        admissible = self.seen(agent).admissible
        return admissible[int(rng.integers(len(admissible)))] if admissible else ""

    def picture(self) -> str:
        """Returns what a spectator sees; by default what every agent sees."""
        return "\n\n".join(f"[{agent}]\n{step.observation}" for agent, step in self.steps.items())

    def _pay(self, gains: Iterable[float]) -> Rewards:
        """Returns what the agents get, in their order, as the term "task"."""
        pairs = zip(self.possible_agents, gains, strict=True)
        return {agent: {"task": gain} for agent, gain in pairs}

    def _tell(self, text: str, to: Iterable[str] | None = None) -> None:
        """Shows a line above the next observation of some agents; None: of all."""
        for agent in self.possible_agents if to is None else to:
            self._episode.news[agent].append(text)

    # What the environments call.

    @property
    def _episode(self) -> GameEpisode:
        if self.episode is None:
            raise ResetNeeded("Call reset() first: no episode is under way.")
        return self.episode

    @property
    def acting(self) -> tuple[str, ...]:
        """Who must say something in the next turn; nobody once the episode is over."""
        return self._episode.acting

    @property
    def steps(self) -> dict[str, TimeStep]:
        """What each agent got at the last turn."""
        return {agent: self.seen(agent) for agent in self.possible_agents}

    def seen(self, agent: str) -> TimeStep:
        """Returns what the agent got at the last turn, put into words when first asked for."""
        episode = self._episode
        if agent in self._unseen:
            look, got = self._look(agent), episode.steps[agent]
            news = [*episode.news[agent], look.feedback]
            episode.steps[agent] = replace(
                look,
                rewards=got.rewards,
                terminated=got.terminated,
                valid=got.valid,
                admissible=look.admissible if agent in episode.acting else (),
                feedback="\n".join(line for line in news if line),
            )
            self._unseen.remove(agent)
        return episode.steps[agent]

    def outcome(self, agent: str) -> TimeStep:
        """Returns rewards, end and validity of the agent's last turn; the rest may be missing."""
        return self._episode.steps[agent]

    def terminated(self, agent: str) -> bool:
        """Returns whether the game is over for the agent by its rules."""
        return self.outcome(agent).terminated

    def truncated(self, agent: str) -> bool:
        """Returns whether the limit of turns ended the game for the agent."""
        return self._episode.truncated and not self.terminated(agent)

    def over(self, agent: str) -> bool:
        """Returns whether the agent has nothing more to do or get."""
        return self._episode.truncated or self.terminated(agent)

    def reset(self, seed: int | None = None, task: str | None = None) -> None:
        """Starts an episode.

        Args:
            seed: seeds `self.np_random`; None continues its stream.
            task: the task to play; None: one of the split is drawn.

        Raises:
            UnknownTaskError: if the game has no such task.
        """
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        tasks = self.tasks.split(self.split)
        # Drawn even if a task is given: the rest of the stream must not depend on who chose it.
        drawn = int(self.np_random.integers(len(tasks)))
        self.begin(tasks[drawn] if task is None else self.tasks.check(task))

    def begin(self, task: str) -> None:
        """Starts an episode of a task with `self.np_random` as it is."""
        agents = self.possible_agents
        episode = GameEpisode(task, failures=dict.fromkeys(agents, 0), news={a: [] for a in agents})
        self.episode = episode
        self._start(task)
        episode.acting = self._acting()
        assert episode.acting, "somebody must act at the start"
        self._observe({})

    def play(self, said: Mapping[str, str]) -> None:
        """Plays one turn.

        Args:
            said: what each agent in `acting` says, any string; others are not heard.

        Raises:
            ValueError: if an agent in `acting` says nothing.
            gymnasium.error.ResetNeeded: if no episode is under way.
        """
        episode = self._episode
        if not episode.acting:
            raise ResetNeeded("Call reset() first: the episode is over.")
        for agent in episode.acting:
            if agent not in said:
                raise ValueError(f"{agent} must act now, but has no action.")
        episode.turn += 1
        misunderstood = {name for name in episode.acting if not self._hear(name, said[name])}
        waiting = tuple(name for name in episode.acting if name not in episode.moves)
        rewards: Rewards = {}
        if not waiting:
            moves, episode.moves = episode.moves, {}
            rewards = self._advance(moves)
        acting = waiting or self._acting()
        episode.truncated = bool(acting) and episode.turn == self.max_turns
        episode.acting = () if episode.truncated else acting
        self._observe(rewards, misunderstood, ended=not acting)

    def _hear(self, agent: str, said: str) -> bool:
        """Holds the agent's move, and returns whether what it said was one."""
        episode = self._episode
        episode.news[agent] = []
        try:
            if isinstance(said, UnreadableAction):
                raise InvalidMove(said.feedback)
            episode.moves[agent] = self._read(agent, str(said))
        except InvalidMove as error:
            self._tell(str(error), [agent])
            episode.failures[agent] += 1
            if episode.failures[agent] == self.max_invalid:
                episode.failures[agent] = 0
                move = episode.moves[agent] = self._fallback(agent)
                self._tell(f"This was your last chance; your move is now: {move}", [agent])
            return False
        episode.failures[agent] = 0
        return True

    def _observe(
        self, rewards: Rewards, misunderstood: Iterable[str] = (), *, ended: bool = False
    ) -> None:
        """Shows the outcome of the turn to every agent that was still in play."""
        episode = self._episode
        playing = () if ended else self._present()
        self._check_author(playing, rewards)
        for agent in self.possible_agents:
            if agent in episode.steps and self.terminated(agent):
                continue
            episode.steps[agent] = TimeStep(
                "",
                rewards={name: float(x) for name, x in rewards.get(agent, {}).items()},
                terminated=agent not in playing,
                valid=agent not in misunderstood,
            )
            self._unseen.add(agent)
            if playing and agent not in playing:
                self.seen(agent)  # now: the game goes on without it

    def _check_author(self, playing: tuple[str, ...], rewards: Rewards) -> None:
        """Says at once, and by name, what the rules got wrong."""
        name, episode = type(self).__name__, self._episode
        if not isinstance(getattr(self, "state", None), self.State):
            raise TypeError(f"{name} must leave a {self.State.__name__} in self.state.")
        if not set(episode.acting) <= set(playing):
            raise ValueError(f"{name}._acting() {episode.acting} must be in _present() {playing}.")
        for agent, terms in rewards.items():
            if agent not in self.possible_agents or (episode.steps and self.terminated(agent)):
                raise ValueError(f"{name}._advance rewarded {agent!r}, which does not play.")
            check_reward_terms(f"{name}._advance", terms, self.reward_names)

    def reward(self, agent: str) -> float:
        """Returns the agent's reward of the last turn."""
        return float(sum(self.info(agent)["reward_terms"].values()))

    def info(self, agent: str) -> dict[str, Any]:
        """Returns the agent's info (see `GAME_INFO_KEYS`): fresh objects at every call."""
        episode, step = self._episode, self.seen(agent)
        info = step_info(step, episode.task, episode.turn, self.reward_names, self.invalid_penalty)
        return {**info, "acting": agent in episode.acting}

    def script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        """Returns what a scripted player of a level (one of `levels`) says now as the agent."""
        if level not in self.levels:
            raise ValueError(f"Unknown level {level!r}; this game has: {', '.join(self.levels)}.")
        if level == "random":
            return self._random(agent, rng)
        return self._script(level, agent, rng)

    def expert(self, agent: str) -> str | None:
        """Returns the scripted expert's next action, if there is one; changes nothing."""
        if self.expert_level is None or agent not in self.acting:
            return None
        return self.script(self.expert_level, agent, self._aside(agent))

    def _aside(self, agent: str) -> np.random.Generator:
        """Returns a generator for what an agent may leave to chance without changing anything.

        It shares no draws with `self.np_random`, which would foretell what the others do.
        """
        state = self.np_random.bit_generator.state["state"]["state"]
        place = self.possible_agents.index(agent)
        return np.random.default_rng((state, self._episode.turn, place))

    def snapshot(self) -> dict[str, Any]:
        """Returns everything the rest of the episode depends on, as a JSON-able dictionary."""
        return {
            "env": type(self).__name__,
            "episode": to_json(replace(self._episode, steps=self.steps)),
            "state": to_json(self.state),
            "rng": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continues from a snapshot of a game made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged.
        """
        name = type(self).__name__
        other = snapshot.get("env") if isinstance(snapshot, Mapping) else None
        if name != other:
            got = reprlib.repr(other)
            raise SnapshotError(f"Expected a snapshot of {name}, got one of {got}.")
        before = dict(vars(self))
        try:
            generator = np.random.PCG64()
            generator.state = snapshot["rng"]
            episode = from_json(GameEpisode, snapshot["episode"])
            self.state = from_json(self.State, snapshot["state"])
            self.episode, self._unseen = episode, set()
            self.np_random = np.random.Generator(generator)
            self._check_episode(episode)
        except Exception as error:
            vars(self).clear()
            vars(self).update(before)
            raise refused(error) from error

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
