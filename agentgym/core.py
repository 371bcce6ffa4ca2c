"""`TextEnv`: base class of the text environments."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.errors import SnapshotError
from agentgym.reading.typography import without_thoughts
from agentgym.rendering import Scene, draw
from agentgym.snapshots import check_owner, generator_of, owner_of, restoring
from agentgym.spaces import UnicodeText
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep, check_step, step_info, storable
from agentgym.utils.action_parsing import check_text, match_action, text_of
from agentgym.utils.arguments import (
    PIXELS,
    CheckedArguments,
    check_arguments,
    check_limits,
    check_render_mode,
    check_reset_options,
    keyword_parameters,
    metadata_of,
)
from agentgym.utils.before_reset import BeforeReset
from agentgym.utils.printable import printable
from agentgym.utils.serialization import from_json, to_json


class UnreadableAction(str):
    """An agent's output that contains no action: an invalid action in every environment.

    Wrappers that parse or translate actions return it. It is a `str`, so that it can pass through
    other wrappers and processes.

    Attributes:
        feedback: description of the problem and of the expected format, shown to the agent.
    """

    feedback: str

    def __new__(cls, text: str, feedback: str = "No action could be read.") -> UnreadableAction:
        """Returns the text with the feedback attached.

        Args:
            text: the action as the agent wrote it.
            feedback: the reason and the expected format, shown to the agent.
        """
        action = super().__new__(cls, text_of(text))
        action.feedback = feedback
        return action


@dataclasses.dataclass
class _Snapshot:
    """A snapshot of a `TextEnv`, before its state is read."""

    task: str
    turn: int
    limit: int | None
    over: bool
    last: TimeStep
    state: object
    rng: dict[str, Any]
    seed: int | None

    def check(self) -> None:
        """Raises a ValueError if no episode can be in this state."""
        limit = self.limit
        if limit is not None and limit < 1:
            raise ValueError(f"a turn limit must be at least 1, got {limit}")
        if self.turn < 0 or (limit is not None and self.turn > limit):
            raise ValueError(f"turn {self.turn} is not possible with max_turns = {limit}")
        if self.last.terminated and not self.over:
            raise ValueError("the game has ended, but not the episode")


_DECLARED = (
    ("instructions", str, "a str"),
    ("tasks", Tasks, "an agentgym.Tasks"),
    ("reward_names", (tuple, list), "a tuple of names"),
)
"""What a subclass declares, with its type."""
TurnLimit = int | Literal["auto"] | None
"""Type of a `max_turns` argument. "auto" is a limit that depends on the size of the task."""


class TextEnv(CheckedArguments, gymnasium.Env[str, str]):
    """Base class of text environments. Actions and observations are strings.

    A subclass sets `instructions` and `tasks`, declares `State` (a dataclass that
    `agentgym.utils.serialization` can convert to JSON) and `reward_names`, and implements `_start`
    and `_advance`, which use `self.state` and `self.np_random`. The base class handles seeding,
    tasks, turn limits, `info`, invalid actions, snapshots and rendering. Pictures need `_frame`.
    The start of an episode depends on the task and the seed alone, however the task was chosen.

    Args:
        split: split that `reset` samples tasks from: "train" or "test".
        max_turns: number of turns after which the episode is truncated. None: no limit.
        invalid_penalty: penalty of an invalid action, subtracted from the reward (term "invalid").
        render_mode: None, "ansi" (`render` returns text), "human" (prints the text every turn) or
            "rgb_array" (`render` returns a picture, in environments that have them).

    Raises:
        ConfigError: for an invalid argument.
        UnknownArgumentError: for an unknown argument or render mode.
    """

    metadata: dict[str, Any] = metadata_of(pictures=False)

    instructions: str
    """Rules and action format: the system prompt of the agent."""
    tasks: Tasks
    """The training and test tasks."""
    State: ClassVar[type]
    """The dataclass of `self.state`."""
    reward_names: ClassVar[tuple[str, ...]] = ("task",)
    """The reward terms of the rules, without "invalid", which is added."""
    turn_bound: ClassVar[int | str | None] = None
    """Turns after which the rules end every episode, or the name of the argument that sets it."""
    cased: ClassVar[bool] = False
    """Whether action matching is case-sensitive."""
    declares: ClassVar[dict[str, str]] = {}
    """Findings of `agentgym certify` that are meant, by the id of the check, with the reason."""

    state: Any
    task: str
    if not TYPE_CHECKING:
        state = BeforeReset(AttributeError, "{} has no state yet: call reset() first.")

    def __init__(
        self,
        *,
        split: str = "train",
        max_turns: int | None = None,
        invalid_penalty: float = 0.0,
        render_mode: str | None = None,
        **unknown: Any,
    ):
        check_arguments(type(self).__name__, keyword_parameters(type(self)), unknown)
        check_limits(split, max_turns)
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.split = split
        self.max_turns = self.turn_limit = max_turns
        self.invalid_penalty = float(invalid_penalty)
        self.render_mode = render_mode
        self.observation_space = UnicodeText()
        self.action_space = UnicodeText()
        self._turn = 0
        self._last: TimeStep | None = None
        self._over = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls._frame is not TextEnv._frame:
            known = metadata_of(pictures=True)
            cls.metadata = known | cls.metadata | {"render_modes": known["render_modes"]}

    # Implemented by a subclass.

    def _start(self, task: str) -> TimeStep:
        """Sets `self.state` to the start of the task and returns the first step."""
        raise NotImplementedError

    def _advance(self, action: str) -> TimeStep:
        """Applies an action to `self.state` and returns the result."""
        raise NotImplementedError

    def expert(self) -> str | None:
        """Returns the scripted expert's next action, or None if there is none."""
        return None

    def privileged_text(self) -> str | None:
        """Returns a short text about the hidden state, or None if the environment has none.

        It is for critics in training (`--critic-sees hidden`, `wrappers.PrivilegedText`): facts
        that decide the return and that the observation does not show, such as a secret or the
        distance to the goal. Agents never read it. It must not change the state.
        """
        return None

    def _parse(self, action: str) -> str:
        """Returns the matching admissible action, or the action itself if there is none."""
        assert self._last is not None
        return match_action(action, self._last.admissible, cased=self.cased) or action

    def _picture(self) -> str:
        """Returns the text for `render`. Default: the observation."""
        assert self._last is not None
        return self._last.observation

    def _frame(self) -> Scene:
        """Returns the picture of the state for `render_mode="rgb_array"`."""
        raise NotImplementedError

    # The interface of Gymnasium.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: seeds `self.np_random`. None: continues its random stream.
            options: {"task": name} selects the task. By default, it is sampled from the split.
                {"max_turns": n} replaces the turn limit in this episode.

        Returns:
            Observation and info (see `INFO_KEYS`).

        Raises:
            UnknownTaskError: if the environment has no such task.
            TypeError: if the options are no mapping.
            ValueError: for an unknown option, or a turn limit below 1. An error changes nothing.
        """
        self._check_author()
        options = check_reset_options(options, self.max_turns)
        given = None if (name := options.get("task")) is None else self.tasks.check(name)
        super().reset(seed=seed)  # not before: what is refused changes nothing
        tasks = self.tasks.split(self.split)
        # Sampled even if a task is given, so that the random stream is the same in both cases.
        drawn = int(self.np_random.integers(len(tasks)))
        self.task = tasks[drawn] if given is None else given
        self.turn_limit = options["max_turns"]
        self._turn = 0
        self._over = False
        self._last = self._checked(self._start(self.task), "_start")
        if self.render_mode == "human":
            print(printable(self._picture()))
        return self._last.observation, self._info(self._last)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn.

        Args:
            action: any string, matched as described in `agentgym.utils.action_parsing`. A string
                that does not match is an invalid action. `<think>` blocks before it are left out.

        Returns:
            Observation, reward (the sum of `info["reward_terms"]`), terminated, truncated (whether
            the turn limit was reached, never with terminated) and info (see `INFO_KEYS`).

        Raises:
            TypeError: if the action is not a string.
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        check_text(action)
        if self._last is None or self._over:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        if isinstance(action, UnreadableAction):
            step = self._unreadable(action)
        else:
            step = self._advance(self._parse(without_thoughts(text_of(action))))
        step = self._checked(step, "_advance")
        self._last = step
        self._turn += 1
        truncated = not step.terminated and self._turn == self.turn_limit
        self._over = step.terminated or truncated
        if self.render_mode == "human":
            print(printable(self._picture()))
        info = self._info(step)
        reward = float(sum(info["reward_terms"].values()))
        return step.observation, reward, step.terminated, truncated, info

    def render(self) -> str | np.ndarray | None:  # type: ignore[override]
        """Returns the state: text in mode "ansi", or the picture in mode "rgb_array".

        A picture is uint8 (256, 256, 3). Mode "human" prints the text every turn instead.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
            MissingExtraError: for a picture without the extra `render`.
        """
        if self._last is None:
            raise ResetNeeded("Call reset() before render().")
        if self.render_mode == PIXELS:
            return draw(self._frame())
        return self._picture() if self.render_mode == "ansi" else None

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return step_info(step, self.task, self._turn, self.reward_names, self.invalid_penalty)

    def _invalid(self, message: str) -> TimeStep:
        """Returns the last step without rewards, with feedback on an invalid action."""
        assert self._last is not None
        return dataclasses.replace(self._last, feedback=message, rewards={}, valid=False)

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        """Plays a turn with an unreadable action. Default: an invalid action."""
        return self._invalid(action.feedback)

    # Checks of the subclass, with messages that name the error.

    def _check_author(self) -> None:
        for name in ("instructions", "tasks", "State"):
            if not hasattr(self, name):
                raise TypeError(f"{type(self).__name__} must set `{name}`: see agentgym.TextEnv.")
        for name, kind, expected in _DECLARED:
            if not isinstance(value := getattr(self, name), kind):
                wrong = f"{expected}, got {type(value).__name__}"
                raise TypeError(f"{type(self).__name__}.{name} must be {wrong}.")
        if "invalid" in self.reward_names:
            raise TypeError(
                f"{type(self).__name__}.reward_names must not list 'invalid', which is added."
            )

    def _checked(self, step: TimeStep, method: str) -> TimeStep:
        """Returns the step if the step and `self.state` satisfy the contract.

        Raises:
            TypeError: for a value of a wrong type.
            ValueError: for a value out of range.
        """
        where = f"{type(self).__name__}.{method}"
        check_step(where, step, self.reward_names)
        if not isinstance(getattr(self, "state", None), self.State):
            raise TypeError(f"{where} must leave a {self.State.__name__} in self.state.")
        return step

    # Snapshots.

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary.

        `agentgym.snapshots.snapshot_of(env)` includes the state of wrappers, such as `TimeLimit`.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
        """
        if self._last is None:
            raise ResetNeeded("Call reset() before snapshot().")
        return {
            **owner_of(self),
            "task": self.task,
            "turn": self._turn,
            "limit": self.turn_limit,
            "over": self._over,
            "last": to_json(storable(self._last)),
            "state": to_json(self.state),
            "rng": self.np_random.bit_generator.state,
            "seed": self._np_random_seed,
        }

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot of an environment made with the same arguments.

        It needs no `reset` before. For a wrapped one: `agentgym.snapshots.restore_snapshot`.

        Returns:
            The observation and info at the snapshot.

        Raises:
            SnapshotError: if the snapshot is of another environment or damaged.
        """
        self._check_author()
        check_owner(snapshot, self)
        try:
            with restoring(self):
                self._resume(from_json(_Snapshot, snapshot))
                assert self._last is not None
                return self._last.observation, self._info(self._last)
        except SnapshotError:
            if self._last is not None:
                with contextlib.suppress(Exception):
                    self._restored()
            raise

    def _resume(self, saved: _Snapshot) -> None:
        saved.check()
        self.task, self._turn, self._over = self.tasks.check(saved.task), saved.turn, saved.over
        self.turn_limit = saved.limit
        self._last, self.state = saved.last, from_json(self.State, saved.state)
        self._checked(saved.last, "restore")
        self._np_random, self._np_random_seed = generator_of(saved.rng), saved.seed
        self._restored()

    def reseed(self, seed: int) -> None:
        """Samples the chance events of the rest of the episode anew.

        A restored snapshot continues with the chance events of its episode, a reseeded one with
        others, so that a planner cannot see the future. Hidden state stays as it is.

        Args:
            seed: seed of the new random state.
        """
        # In place, because a game shares the generator of its seat.
        self.np_random.bit_generator.state = np.random.PCG64(seed).state

    def _restored(self) -> None:
        """Rebuilds everything that follows from `self.state` but is kept elsewhere.

        It is called by `restore`. An error means that the snapshot is damaged.
        """
