"""`TextActionEnv`: a plain Gymnasium environment with text actions as a text environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import gymnasium
from gymnasium.spaces import Text
from gymnasium.spaces.text import alphanumeric

from agentgym.spaces import UnicodeText
from agentgym.textify.base import Describe, Look, Textified
from agentgym.time_step import TimeStep


def as_text_env(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Returns the environment itself if it has tasks, a `TextActionEnv` if its spaces are texts.

    Any other environment is returned unchanged.
    """
    try:
        env.get_wrapper_attr("tasks")
    except AttributeError:
        texts = isinstance(env.observation_space, Text) and isinstance(env.action_space, Text)
        if not texts:
            return env
        limit = None if env.spec is None else env.spec.max_episode_steps
        return TextActionEnv(env, max_turns=limit)
    return env


class TextActionEnv(Textified):
    """A Gymnasium environment with a `Text` action space as a text environment.

    `make_env`, `evaluate`, `agentgym eval`, `agentgym play` and the trainer adapt such environments
    automatically.

    **Tasks**: `train/0`, `train/1`, ... and `test/0`, `test/1`, ...: the environment is reset with
    a seed derived from the name of the task. Its `np_random` is then seeded by the episode's seed.

    **Actions**: text, passed on unchanged. An action that is longer or shorter than the action
    space allows is invalid and is not played. So is one with characters outside the space's
    character set, unless that is Gymnasium's default of letters and digits, which excludes blanks.

    **Observations, rewards, endings**: those of the environment.

    **Info**: `success`, `progress`, `valid` and `admissible` are taken from the environment's own
    info if it has them, and they are not None. By default, `success` is whether the last reward of
    a terminated episode is positive, `progress` is 1 after success and 0 before, and actions are
    valid.

    **Instructions**: the argument, or the environment's attribute `instructions`, or "".

    Snapshots replay the actions, as those of `textify` do.

    Args:
        env: the environment.
        describe: (observation, env) -> text of the observation. Not needed for text observations.
        instructions: rules and action format.
        **kwargs: `success`, `progress`, `max_turns`, `split`, `invalid_penalty`, `render_mode`: see
            `textify`.

    Raises:
        TypeError: if the actions are not texts, or observations are not and `describe` is missing.
    """

    cased = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        describe: Describe | None = None,
        instructions: str = "",
        **kwargs: Any,
    ):
        kwargs.setdefault("render_mode", "ansi")
        super().__init__(env, describe=self._text if describe is None else describe, **kwargs)
        if not isinstance(env.action_space, Text):
            raise TypeError(f"TextActionEnv needs Text actions, got {env.action_space}.")
        if describe is None and not isinstance(env.observation_space, Text):
            raise TypeError(f"`describe` is needed for observations in {env.observation_space}.")
        self.instructions = instructions or str(_attribute(env, "instructions") or "")
        self._space: Text = env.action_space
        if not _is_free(self._space):
            self.action_space = self._space  # of which the random agent's actions are samples
        self.spec = env.spec

    def _text(self, observation: Any, env: Any) -> str:
        if not isinstance(observation, str):
            raise TypeError(
                f"{env.unwrapped} has a Text observation space but returned an observation of type "
                f"{type(observation).__name__}: {observation!r:.80}."
            )
        return observation

    def _begin(self, level: int) -> None:
        observation, info = self.env.reset(seed=level)
        self._shown = Look(observation, info=info)

    def _move(self, action: str) -> None:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._shown = Look(
            observation,
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=info,
        )

    def _seen(self) -> Look:
        return self._shown

    def _admissible(self, now: Look) -> tuple[str, ...]:
        actions = _told(now.info, "admissible", ())
        if isinstance(actions, str) or not isinstance(actions, Iterable):
            raise TypeError(
                f"{self.env.unwrapped}: the info key 'admissible' must list actions, got "
                f"{actions!r:.80}."
            )
        return tuple(map(str, actions))

    def _take(self, action: str) -> TimeStep:
        problem = _problem(self._space, action)
        if problem:
            return self._invalid(problem)
        self._play(action)
        return self._look()

    def _look(self) -> TimeStep:
        step = super()._look()
        info = self._now.info
        success = bool(_told(info, "success", step.success))
        progress = float(_told(info, "progress", max(step.progress, float(success))))
        valid = bool(_told(info, "valid", step.valid))
        return dataclasses.replace(step, success=success, progress=progress, valid=valid)

    def expert(self) -> str | None:
        """Returns the action of the environment's own `expert()`, if it has one."""
        expert = _attribute(self.env, "expert")
        action = expert() if callable(expert) else None
        return None if action is None else str(action)

    def _picture(self) -> str:
        if self.env.render_mode == "ansi":
            return str(self.env.render())
        return super()._picture()


def _problem(space: Text, action: str) -> str:
    """Returns why the action is not in the action space, "" if it is."""
    if len(action) > space.max_length:
        return f"The action is too long: at most {space.max_length} characters are allowed."
    if len(action) < space.min_length:
        return f"The action is too short: at least {space.min_length} characters are needed."
    if not _is_free(space) and not set(action) <= space.character_set:
        wrong = "".join(sorted(set(action) - space.character_set))
        return f"The action has characters that are not allowed: {wrong[:40]!r}."
    return ""


def _is_free(space: Text) -> bool:
    """Returns whether all characters are allowed."""
    return isinstance(space, UnicodeText) or space.character_set == alphanumeric


def _told(info: dict[str, Any], name: str, default: Any) -> Any:
    """Returns a value of the environment's own info. None stands for an unknown one."""
    value = info.get(name)
    return default if value is None else value


def _attribute(env: gymnasium.Env[Any, Any], name: str) -> Any:
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return None
