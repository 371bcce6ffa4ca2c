"""`ToolEnvironment`: a text environment as a tool for TRL's `GRPOTrainer`."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env, starts_of
from agentgym.textify.text_actions import as_text_env


class ToolEnvironment:
    """A text environment whose step is the tool `act`.

    It implements the interface of environments of TRL's `GRPOTrainer` (`environment_factory`):
    `reset` receives the columns of a dataset row and returns text that is appended to the prompt,
    `act` is offered to the model as a tool, and `get_reward` returns the reward of the rollout.

        trainer = GRPOTrainer(
            model=model,
            train_dataset=Dataset.from_list(agentgym.tool_rows("AgentGym/Wordle-v0", 100)),
            environment_factory=partial(agentgym.ToolEnvironment, "AgentGym/Wordle-v0"),
        )

    Args:
        env: id of an environment or game (of which the model plays one seat), or an environment
            object, such as a wrapped one. Each `ToolEnvironment` needs an object of its own.
        **kwargs: arguments of the environment, as in `make_env`. Only with an id.

    Raises:
        ConfigError: for an unknown id, an environment without text actions, or arguments with an
            environment object.
    """

    def __init__(self, env: str | gymnasium.Env[str, str], **kwargs: Any):
        self._env = _made(env, kwargs)
        self._return = 0.0
        self._over = True

    def reset(self, task: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Starts an episode.

        Args:
            task: the task. None: sampled from the split.
            seed: seed of the episode. None: continues the random stream of the environment.
            **_: other columns of the dataset, which are ignored.

        Returns:
            The first observation.
        """
        options = None if task is None else {"task": task}
        text, _info = self._env.reset(seed=seed, options=options)
        self._return, self._over = 0.0, False
        return text

    @property
    def env(self) -> gymnasium.Env[str, str]:
        """The environment, for example for its snapshots. A property is no tool of the model."""
        return self._env

    @property
    def over(self) -> bool:
        """Whether the episode is over."""
        return self._over

    @property
    def instructions(self) -> str:
        """Rules and action format, for the system prompt."""
        return self._env.get_wrapper_attr("instructions")

    def act(self, action: str) -> str:
        """Take one action in the environment.

        Args:
            action: The action, in the format that the instructions describe.

        Returns:
            The observation after the action.
        """
        if self._over:
            return "The episode is over. Actions have no effect."
        text, reward, terminated, truncated, _info = self._env.step(_text(action))
        self._return += float(reward)
        self._over = terminated or truncated
        return f"{text}\n\nThe episode is over." if self._over else text

    def get_reward(self) -> float:
        """Returns the undiscounted return of the episode so far."""
        return self._return


def _text(action: Any) -> str:
    """Returns an action as text. In a tool call it may be any JSON value."""
    if isinstance(action, str):
        return action
    if isinstance(action, int | float) and not isinstance(action, bool):
        return str(action)
    return UnreadableAction(repr(action), f"An action must be a string, got {action!r:.80}.")


def _made(env: str | gymnasium.Env[str, str], kwargs: dict[str, Any]) -> gymnasium.Env[str, str]:
    if isinstance(env, str):
        made = make_env(env, **kwargs)
    elif kwargs:
        raise ConfigError(f"Arguments need an id, but env is an environment. Got {kwargs}.")
    else:
        made = as_text_env(env) if isinstance(env, gymnasium.Env) else env
    if not isinstance(getattr(made, "action_space", None), gymnasium.spaces.Text):
        raise ConfigError(f"Expected an id or an environment with text actions, got {env!r:.80}.")
    return made


def tool_rows(
    env: str | gymnasium.Env[str, str], count: int, *, split: str = "train", **kwargs: Any
) -> list[dict[str, Any]]:
    """Returns dataset rows for `ToolEnvironment`: prompt (with the instructions), task and seed.

    Args:
        env: the environment, as in `ToolEnvironment`.
        count: number of rows. They cycle through the tasks of the split in order.
        split: "train" or "test".
        **kwargs: arguments of the environment. Only with an id.

    Raises:
        ConfigError: for an unknown id, or a count below 1.
    """
    made = _made(env, kwargs)
    starts = starts_of(made, count, split)
    if isinstance(env, str):
        made.close()
    return [
        {
            "prompt": [{"role": "system", "content": rules}, {"role": "user", "content": ""}],
            "task": task,
            "seed": seed,
        }
        for task, seed, rules in starts
    ]
