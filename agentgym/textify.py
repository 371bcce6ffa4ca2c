"""`textify`: an environment with numbered or text actions as a text environment."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, Text

from agentgym.core import TextEnv, TimeStep
from agentgym.errors import SnapshotError
from agentgym.tasks import Tasks, task_rng
from agentgym.utils.action_parsing import plain

LISTED = 20
"""Instructions and feedback do not list more actions than this."""

Describe = Callable[[Any, Any], str]
"""(observation, environment) -> text of the observation."""
Opponent = Callable[[Any, np.ndarray, np.random.Generator], int]
"""(observation, numbers of the legal actions, generator) -> one of the numbers."""


def textify(
    env: Any,
    *,
    describe: Describe | None = None,
    actions: Sequence[str] | None = None,
    instructions: str = "",
    success: Callable[[float], bool] | None = None,
    progress: Callable[[Any, Any], float] | None = None,
    seat: str | None = None,
    opponent: Opponent | None = None,
    max_turns: int | None = None,
    **kwargs: Any,
) -> TextEnv:
    """Returns a text environment around one with numbered or text actions.

    ```python
    import gymnasium, agentgym

    cliff = gymnasium.make("CliffWalking-v1")
    moves = ["up", "right", "down", "left"]
    where = lambda at, env: f"You are in row {at // 12}, column {at % 12}. Go to row 3, column 11."
    env = agentgym.textify(cliff, describe=where, actions=moves, success=lambda reward: True)
    observation, info = env.reset(seed=0)
    ```

    A task is a level: the wrapped environment is reset with a seed derived from the name of the
    task. Its `np_random` is then seeded by the seed of the episode, which decides about chance
    events. Rewards, termination and truncation are those of the wrapped environment.

    A mask of legal actions in the observation ("action_mask"), or of a PettingZoo game, is a rule:
    an action that it excludes is invalid and is not played. A mask in the `info` of a Gymnasium
    environment, such as Taxi's, is advice: `admissible` lists the actions it includes, and the
    others are played as well.

    A Gymnasium environment whose actions are texts (a `Text` action space) needs no `actions`, and
    no `describe` if its observations are texts too: see `integrations.text_actions.TextActionEnv`.

    Snapshots hold the actions of the episode, and `restore` replays them. This works in any process
    for environments that are deterministic given their seed, and takes as long as the episode did.

    Args:
        env: a Gymnasium environment with a `Discrete` or `Text` action space, or a PettingZoo AEC
            game whose agents have `Discrete` actions.
        describe: (observation, env) -> text of the observation. The text must be complete: two
            states with the same text have the same `state_key`. Not needed for text observations.
        actions: text of each numbered action, in their order.
        instructions: the rules. The list of actions is appended.
        success: reward of the last step -> whether the task is solved. It is called when the
            environment has terminated. Default: whether the reward is positive.
        progress: (observation, env) -> progress on the task in [0, 1]. Default: 1 after success,
            else 0.
        seat: the agent of a game that acts through this environment. Default: the first one.
        opponent: (observation, numbers of the legal actions, generator) -> the action of another
            agent of a game. Default: a random legal action.
        max_turns: turns after which the episode is truncated. Default: the limit that the
            environment is registered with, if any.
        **kwargs: `split`, `invalid_penalty`, `render_mode`: see `TextEnv`.

    Raises:
        TypeError: if the environment or its action space is of another kind, or a name of an
            action is not a string.
        ValueError: if the names of the actions are not distinct, or not one per action, or there is
            no such seat.
    """
    shared = {
        "describe": describe,
        "actions": actions,
        "instructions": instructions,
        "success": success,
        "progress": progress,
        **kwargs,
    }
    if isinstance(env, gymnasium.Env):
        if seat is not None or opponent is not None:
            raise ValueError("seat and opponent are for games. This is a Gymnasium environment.")
        if max_turns is None and env.spec is not None:
            max_turns = env.spec.max_episode_steps
        if isinstance(env.action_space, Text):
            from agentgym.integrations.text_actions import TextActionEnv

            if shared.pop("actions") is not None:
                raise ValueError("actions are for numbered actions. This environment takes text.")
            return TextActionEnv(env, max_turns=max_turns, **shared)
        _need_names(describe, actions)
        return TextifiedEnv(env, env.action_space, max_turns=max_turns, **shared)
    from pettingzoo import AECEnv

    if not isinstance(env, AECEnv):
        raise TypeError(
            "textify takes a gymnasium.Env or a PettingZoo AECEnv (for a parallel game: "
            f"pettingzoo.utils.parallel_to_aec), got {type(env).__name__}."
        )
    _need_names(describe, actions)
    agent = env.possible_agents[0] if seat is None else seat
    if agent not in env.possible_agents:
        raise ValueError(f"seat must be one of {env.possible_agents}, got {agent!r}.")
    shared |= {"seat": agent, "opponent": opponent or _at_random}
    return TextifiedGame(env, env.action_space(agent), max_turns=max_turns, **shared)


def _need_names(describe: Describe | None, actions: Sequence[str] | None) -> None:
    if describe is None or actions is None:
        raise TypeError(
            "textify needs `describe` and `actions` for an environment with numbered actions."
        )


def _at_random(observation: Any, legal: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.choice(legal))


@dataclass
class State:
    """The actions of an episode, from which it is replayed.

    Attributes:
        seed: seeds the chance events of the episode.
        played: actions of the wrapped environment, including those of opponents. None for an agent
            that is out of the game.
    """

    seed: int
    played: list[int | str | None] = field(default_factory=list)


@dataclass
class Look:
    """The state of the wrapped environment as the agent sees it.

    Attributes:
        observation: its observation.
        mask: the legal or advised actions. None: all of them.
        rule: whether an action that the mask excludes is invalid.
        reward: the reward since the agent's last action.
        terminated: whether the environment has terminated.
        truncated: whether it was truncated.
        info: its info.
    """

    observation: Any
    mask: np.ndarray | None = None
    rule: bool = True
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)


class Textified(TextEnv):
    """Base class of the adapters. See `textify` for the arguments."""

    State = State
    state: State

    def __init__(
        self,
        env: Any,
        *,
        describe: Describe,
        success: Callable[[float], bool] | None = None,
        progress: Callable[[Any, Any], float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        try:
            inspect.signature(describe).bind(None, None)
        except TypeError as error:
            raise TypeError(f"describe takes (observation, environment): {error}.") from error
        except ValueError:  # a builtin without a signature
            pass
        self.env = env
        self.tasks = Tasks.generated()
        self._describe, self._success, self._progress = describe, success, progress

    @abstractmethod
    def _begin(self, level: int) -> None:
        """Resets the wrapped environment."""

    @abstractmethod
    def _move(self, action: Any) -> None:
        """Plays one action in the wrapped environment."""

    @abstractmethod
    def _seen(self) -> Look:
        """Returns the current state as the agent sees it."""

    @abstractmethod
    def _admissible(self, now: Look) -> tuple[str, ...]:
        """Returns the admissible actions."""

    def _others(self) -> None:
        """Lets other agents act until it is the agent's turn."""

    def _start(self, task: str) -> TimeStep:
        self.state = State(int(self.np_random.integers(2**31)))
        self._reset_inside()
        self._others()
        return self._look()

    def _reset_inside(self) -> None:
        self._begin(int(task_rng(self.task, "textify").integers(2**31)))
        self.env.unwrapped.np_random = np.random.default_rng(self.state.seed)

    def _play(self, action: int | str | None) -> None:
        self.state.played.append(action)
        self._move(action)

    def _look(self) -> TimeStep:
        now = self._now = self._seen()
        won = now.reward > 0 if self._success is None else self._success(now.reward)
        success = now.terminated and bool(won)
        progress = float(success)
        if self._progress is not None:
            progress = float(self._progress(now.observation, self.env))
        return TimeStep(
            text=self._describe(now.observation, self.env),
            rewards={"task": now.reward},
            terminated=now.terminated,
            success=success,
            progress=progress,
            admissible=() if now.terminated else self._admissible(now),
        )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`. Truncations of the wrapped environment count."""
        observation, reward, terminated, truncated, info = super().step(action)
        truncated = truncated or (self._now.truncated and not terminated)
        self._over = terminated or truncated
        return observation, reward, terminated, truncated, info

    def _restored(self) -> None:
        """Replays the recorded actions.

        Raises:
            SnapshotError: if the replay ends in another observation, because the snapshot is of
                another environment, or the environment is not deterministic given its seed.
        """
        assert self._last is not None
        try:
            self._replay()
            text = self._describe(self._now.observation, self.env)
        except Exception as error:  # the wrapped environment may raise anything
            raise SnapshotError(f"The snapshot's actions could not be played: {error!r}") from error
        if text != self._last.text:
            raise SnapshotError(
                "The replay of the snapshot ended in another observation: expected "
                f"{self._last.text!r:.200}, got {text!r:.200}."
            )

    def _replay(self) -> None:
        self._reset_inside()
        for action in self.state.played:
            self._move(action)
        self._now = self._seen()

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Replays the episode in a copy: `EzPickle` copies an environment as a new one."""
        self.__dict__.update(attributes)
        if self._last is not None:
            self._replay()

    def close(self) -> None:
        """Closes the wrapped environment."""
        self.env.close()


class _Numbered(Textified):
    """An environment or game with numbered actions. See `textify` for the arguments."""

    def __init__(
        self,
        env: Any,
        space: Any,
        *,
        describe: Describe,
        actions: Sequence[str],
        instructions: str,
        **kwargs: Any,
    ):
        super().__init__(env, describe=describe, **kwargs)
        if not isinstance(space, Discrete):
            raise TypeError(f"textify needs Discrete actions, got {space}.")
        self.actions = tuple(actions)
        for name in self.actions:
            if not isinstance(name, str):
                raise TypeError(f"actions must be texts, got {type(name).__name__}: {name!r:.80}.")
        self._number = {plain(name): i for i, name in enumerate(self.actions)}
        if len(self.actions) != space.n or len(self._number) != space.n:
            raise ValueError(
                f"actions must be {space.n} different texts, one for each of {space}, got "
                f"{len(self.actions)}, of which {len(self._number)} differ."
            )
        how = f"Each turn, reply with one action: {_listed(self.actions)}."
        self.instructions = f"{instructions} {how}" if instructions else how
        self._first = int(space.start)

    def _advance(self, action: str) -> TimeStep:
        number = self._number.get(plain(action))
        if number is None:
            return self._invalid(f"There is no action {action[:40]!r}. Choose {self._choices()}.")
        now = self._now
        if now.mask is not None and now.rule and not now.mask[number]:
            return self._invalid(
                f"{self.actions[number]!r} is not allowed now. Choose {self._choices()}."
            )
        self._play(self._first + number)
        self._others()
        return self._look()

    def _choices(self) -> str:
        assert self._last is not None
        return f"one of: {_listed(self._last.admissible or self.actions)}"

    def _admissible(self, now: Look) -> tuple[str, ...]:
        mask = range(len(self.actions)) if now.mask is None else np.flatnonzero(now.mask)
        return tuple(self.actions[i] for i in mask)


class TextifiedEnv(_Numbered):
    """A Gymnasium environment with `Discrete` actions as text, made by `textify`."""

    def _begin(self, level: int) -> None:
        observation, info = self.env.reset(seed=level)
        self._shown = Look(observation, *_mask(observation, info))

    def _move(self, action: int | None) -> None:
        observation, reward, terminated, truncated, info = self.env.step(action)
        mask, rule = _mask(observation, info)
        self._shown = Look(
            observation, mask, rule, float(reward), bool(terminated), bool(truncated)
        )

    def _seen(self) -> Look:
        return self._shown


class TextifiedGame(_Numbered):
    """One seat of a PettingZoo AEC game as text, made by `textify`."""

    def __init__(self, env: Any, space: Any, *, seat: str, opponent: Opponent, **kwargs: Any):
        super().__init__(env, space, **kwargs)
        self.seat = seat
        self._opponent = opponent

    def _begin(self, level: int) -> None:
        self.env.reset(seed=level)

    def _move(self, action: int | None) -> None:
        self.env.step(action)

    def _seen(self) -> Look:
        observation, reward, terminated, truncated, info = self.env.last()
        mask, _ = _mask(observation, info)
        return Look(observation, mask, True, float(reward), bool(terminated), bool(truncated))

    def _others(self) -> None:
        while self.env.agent_selection != self.seat:
            observation, _, terminated, truncated, info = self.env.last()
            if terminated or truncated:
                self._play(None)
                continue
            space = self.env.action_space(self.env.agent_selection)
            mask, _ = _mask(observation, info)
            legal = np.arange(space.n) if mask is None else np.flatnonzero(mask)
            chosen = self._opponent(observation, legal, self.np_random)
            self._play(int(space.start) + int(chosen))


def _mask(observation: Any, info: dict[str, Any]) -> tuple[np.ndarray | None, bool]:
    """Returns the mask of actions and whether it is a rule. That of the observation is."""
    if isinstance(observation, dict) and "action_mask" in observation:
        return np.array(observation["action_mask"], dtype=bool), True
    if "action_mask" in info:
        return np.array(info["action_mask"], dtype=bool), False
    return None, False


def _listed(actions: Sequence[str]) -> str:
    more = f", ... ({len(actions)} in all)" if len(actions) > LISTED else ""
    return ", ".join(actions[:LISTED]) + more
