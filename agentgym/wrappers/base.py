"""`TextWrapper`: base class of the wrappers."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from agentgym.errors import ConfigError
from agentgym.snapshots import check_wrapper, refused, restore_snapshot, snapshot_of
from agentgym.spaces import UnicodeText
from agentgym.time_step import state_digest
from agentgym.utils.action_parsing import check_text
from agentgym.utils.arguments import OwnNumbers, check_types, keyword_parameters


class TextWrapper(OwnNumbers, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Base class of the wrappers. A subclass transforms observations and infos in `_view`.

    The constructor arguments are recorded for `env.spec`.

    Snapshots include the state of the environment, of the `TextWrapper`s and of a `TimeLimit`
    inside them, but not the state of Gymnasium's other wrappers.

    Args:
        env: the environment.
        **arguments: the wrapper's own arguments, recorded for `env.spec`.

    Raises:
        ConfigError: if the type of an argument does not match its annotation.
    """

    own_actions: ClassVar[Literal[False, True, "also"]] = False
    """Whether the wrapper reads actions that the environment does not, in place of those of the
    environment (True) or beside them ("also")."""
    _over = True
    """Whether no episode is in progress, in wrappers that call `_check_turn`."""

    def __init__(self, env: gymnasium.Env[Any, Any], **arguments: Any):
        check_types(type(self).__name__, keyword_parameters(type(self)), arguments)
        # Not copied: tokenizers are large and never modified.
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments)
        super().__init__(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin()
        return self._view(observation, info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _given_or_sampled(self, seed: int | None) -> int:
        """Returns a seed that `reset` was given, or one sampled from `self.np_random`."""
        return int(self.np_random.integers(2**31)) if seed is None else seed

    def _reset_with(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[int, Any, dict[str, Any]]:
        """Resets the environment with a seed, see `_given_or_sampled`.

        Returns:
            The seed, the observation and the info.
        """
        rng = self.np_random  # also if `reset` seeds another one
        before = rng.bit_generator.state
        seed = self._given_or_sampled(seed)
        try:
            return seed, *self.env.reset(seed=seed, options=options)
        except Exception:  # what is refused changes nothing
            rng.bit_generator.state = before
            raise

    def _begin(self) -> None:
        """Clears the wrapper's state at the start of an episode."""

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the transformed observation and info."""
        return observation, info

    def _check_turn(self, action: Any) -> None:
        """Refuses what an environment refuses, for actions that it may not see.

        Raises:
            TypeError: if the action is not a string.
            gymnasium.error.ResetNeeded: if there is no episode in progress.
        """
        check_text(action)
        if self._over:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")

    def _kept(self, info: dict[str, Any]) -> dict[str, Any]:
        """Returns a copy of an info to keep, since a caller may change what is returned."""
        return {k: dict(value) if isinstance(value, dict) else value for k, value in info.items()}

    def _idle(self, info: dict[str, Any]) -> dict[str, Any]:
        """Returns the last info for an action that takes no turn in the environment.

        The keys that describe the last action alone have the values of one without any effect.
        """
        quiet = {
            "valid": True,
            "reward_terms": dict.fromkeys(info.get("reward_terms", {}), 0.0),
            "action": "",
            "trial_end": False,
            "trial_success": False,
            "trial_observation": "",
        }
        return {**info, **{key: value for key, value in quiet.items() if key in info}}

    def _keyed(self, info: dict[str, Any], *memory: Any) -> dict[str, Any]:
        """Returns the info with a `state_key` that tells apart states by the wrapper's memory.

        Args:
            info: the environment's info. Without a `state_key`, it stays as it is.
            *memory: JSON values, the part of the memory that makes it another state for the agent.
        """
        if "state_key" not in info:
            return info
        key = state_digest(f"{info['state_key']} {json.dumps(memory)}")
        return {**info, "state_key": key}

    def _memory(self) -> dict[str, Any]:
        """Returns the wrapper's state within an episode as JSON values.

        `_view` passes on with `_keyed` what of it makes two states different for the agent.
        """
        return {}

    def _remember(self, memory: dict[str, Any]) -> None:
        """Restores the state returned by `_memory`."""

    def snapshot(self) -> dict[str, Any]:
        """Returns a JSON-serialisable snapshot of the environment and this wrapper."""
        return {
            "wrapper": type(self).__name__,
            "memory": self._memory(),
            "env": snapshot_of(self.env),
        }

    def restore(self, snapshot: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Continues from a snapshot of an environment wrapped with the same arguments.

        Returns:
            The observation and info at the snapshot.

        Raises:
            SnapshotError: if the snapshot is damaged, or is of another wrapper or environment.
        """
        check_wrapper(snapshot, type(self).__name__)
        memory = self._memory()
        try:
            before = snapshot_of(self.env)
        except ResetNeeded:
            before = None
        observation, info = restore_snapshot(self.env, snapshot["env"])  # an error changes nothing
        try:
            self._remember(snapshot["memory"])
            return self._view(observation, info)
        except Exception as error:
            self._remember(memory)
            if before is not None:
                restore_snapshot(self.env, before)
            raise refused(error) from error

    def _need_text(self, what: str) -> None:
        """Raises ConfigError if the environment's observations or actions are not text."""
        space = self.env.observation_space if what == "observations" else self.env.action_space
        if not isinstance(space, (UnicodeText, gymnasium.spaces.Text)):
            raise ConfigError(
                f"{type(self).__name__} needs an environment whose {what} are text, got {space}. "
                "Apply wrappers that process text on the inside, and wrappers that convert text to "
                "numbers on the outside."
            )
