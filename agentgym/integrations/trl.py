"""`ToolEnvironment`: an environment whose step is a tool that a model calls."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.registration import find


class ToolEnvironment:
    """One episode after another of a text environment, played by calling `act`.

    It has the methods that TRL's `GRPOTrainer` expects of what its `environment_factory` makes:
    `reset` gets the columns of a row of the dataset and returns what is added to the prompt, `act`
    is offered to the model as a tool, `get_reward` scores the rollout.

        trainer = GRPOTrainer(
            model=model,
            train_dataset=Dataset.from_list(agentgym.tool_rows("AgentGym/Wordle-v0", 100)),
            environment_factory=lambda: agentgym.ToolEnvironment("AgentGym/Wordle-v0"),
        )

    Args:
        env: id of an environment, or of a game, of which one seat is played; or an environment, for
            one with wrappers or of your own: a new one for each `ToolEnvironment`.
        **kwargs: arguments of the environment that has the id.
    """

    def __init__(self, env: str | gymnasium.Env[str, str], **kwargs: Any):
        self._env = _made(env, kwargs)
        self._return = 0.0
        self._over = True

    def reset(self, task: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Starts an episode.

        Args:
            task: the task to play; None: one of the split is drawn.
            seed: seeds the episode; None continues the stream of random numbers.
            **_: other columns of the dataset, which are ignored.

        Returns:
            What the agent reads first.
        """
        options = None if task is None else {"task": task}
        text, _info = self._env.reset(seed=seed, options=options)
        self._return, self._over = 0.0, False
        return text

    @property
    def instructions(self) -> str:
        """The rules, for the system prompt."""
        return self._env.get_wrapper_attr("instructions")

    def act(self, action: str) -> str:
        """Play one turn: say an action, and read what comes of it.

        Args:
            action: The action, in the format that the instructions describe.

        Returns:
            What you see after the action.
        """
        if self._over:
            return "The episode is over: no action has an effect any more."
        text, reward, terminated, truncated, _info = self._env.step(_said(action))
        self._return += float(reward)
        self._over = terminated or truncated
        return f"{text}\n\nThe episode is over." if self._over else text

    def get_reward(self) -> float:
        """Returns the sum of the rewards of the episode so far."""
        return self._return


def _said(action: Any) -> str:
    """Returns an action as text: models write JSON, in which it may be anything."""
    if isinstance(action, str):
        return action
    if isinstance(action, int | float) and not isinstance(action, bool):
        return str(action)
    return UnreadableAction(repr(action), f"An action is a text, not {action!r:.80}.")


def _made(env: str | gymnasium.Env[str, str], kwargs: dict[str, Any]) -> gymnasium.Env[str, str]:
    if isinstance(env, str):
        return gymnasium.make(find(env).id, **kwargs)
    if kwargs:
        raise ConfigError(f"An environment that is made already takes no arguments, got {kwargs}.")
    if not isinstance(getattr(env, "action_space", None), gymnasium.spaces.Text):
        raise ConfigError(f"A tool needs an id or an environment of text actions, got {env!r:.80}.")
    return env


def tool_rows(
    env: str | gymnasium.Env[str, str], count: int, *, split: str = "train", **kwargs: Any
) -> list[dict[str, Any]]:
    """Returns rows of a dataset for `ToolEnvironment`: prompt with the instructions, task, seed.

    Args:
        env: the environment, as in `ToolEnvironment`.
        count: how many rows; they go through the tasks of the split in order, again and again.
        split: "train" or "test".
        **kwargs: arguments of the environment that has the id.

    Raises:
        ConfigError: for an unknown id, or a count below 1.
    """
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}.")
    made = _made(env, kwargs)
    tasks = made.get_wrapper_attr("tasks").split(split)
    rules = made.get_wrapper_attr("instructions")
    if isinstance(env, str):
        made.close()
    return [
        {
            "prompt": [{"role": "system", "content": rules}, {"role": "user", "content": ""}],
            "task": tasks[i % len(tasks)],
            "seed": i,
        }
        for i in range(count)
    ]
