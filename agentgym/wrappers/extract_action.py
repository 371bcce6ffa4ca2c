"""`ExtractAction`: parses the action from the answer of a chat model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.wrappers.answer_format import AnswerFormat
from agentgym.wrappers.base import TextWrapper


class ExtractAction(TextWrapper):
    """Parses the action from a longer answer, such as the output of a chat model.

    **Actions**: text. An answer without an action, or with several, is an invalid action. The next
    observation then describes the format. It never raises. Text behind the end mark of a chat model
    is ignored. If the environment lists its actions, a blank line ends an action.

    **Observations**: unchanged.

    **Rewards**: `format_penalty` is subtracted for an answer without an action. `format_reward` is
    added for an answer that ends with its action, after any thoughts: a format reward as in
    "DeepSeek-R1", arXiv 2501.12948. Paid for each answer, it favours long episodes, and the penalty
    favours short ones, so both should be small beside the reward of the task.

    **Info**: `action` (str) is added: the extracted action, or "" after a reset and if the answer
    has no action. With a `format_penalty` or a `format_reward`, `reward_terms` has the term
    `format`.

    Args:
        env: an environment with text actions.
        format: "thought_action" (a line "Action: ..."), "tags" (`<action>...</action>`), "json"
            (any JSON object or tool call: see `read_json`), "tool_call" (Qwen and Hermes:
            `<tool_call>{"name": ..., "arguments": ...}</tool_call>`) or "llama_call" (Llama 3:
            `{"name": ..., "parameters": ...}`).
        call_format: text form of a tool call, with `{name}` and `{arguments}` (joined by commas).
            The default gives "search[red shoes]". A tool named "act", "action", "say" or "step"
            with one argument stands for this argument.
        format_penalty: penalty of an answer without an action, besides the environment's penalty of
            invalid actions. At least 0.
        format_reward: reward of an answer with an action and nothing after it. The closing tag may
            be missing, as it is with a stop string. At least 0.

    Raises:
        ConfigError: if the environment's actions are not text, or for an unknown `format` or an
            invalid `call_format`, `format_penalty` or `format_reward`.
    """

    own_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        format: str = "thought_action",
        *,
        call_format: str = "{name}[{arguments}]",
        format_penalty: float = 0.0,
        format_reward: float = 0.0,
    ):
        super().__init__(
            env,
            format=format,
            call_format=call_format,
            format_penalty=format_penalty,
            format_reward=format_reward,
        )
        self._need_text("actions")
        self.answer_format = AnswerFormat(format, call_format)
        self._seen = False
        scores = {"format_penalty": format_penalty, "format_reward": format_reward}
        for name, score in scores.items():
            if score < 0:
                raise ConfigError(f"{name} must be at least 0, got {score}.")
        self.format_penalty, self.format_reward = float(format_penalty), float(format_reward)

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by the answer format."""
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{self.answer_format.hint}"

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays the action in an answer: see `TextEnv.step`.

        Raises:
            TypeError: if the answer is not a string.
        """
        extracted = self.extract(action)
        observation, reward, terminated, truncated, info = super().step(extracted)
        if self.scores_format:
            info["reward_terms"]["format"] = self.format_score(action)
            reward += info["reward_terms"]["format"]
        info["action"] = "" if isinstance(extracted, UnreadableAction) else extracted
        return observation, reward, terminated, truncated, info

    @property
    def scores_format(self) -> bool:
        """Whether there is a penalty or a reward for the format."""
        return self.format_penalty > 0 or self.format_reward > 0

    def format_score(self, answer: str) -> float:
        """Returns the term `format` of the reward of an answer."""
        if isinstance(self.extract(answer), UnreadableAction):
            return 0.0 - self.format_penalty
        return self.format_reward if self.answer_format.ends_with_action(answer) else 0.0

    def extract(self, answer: str) -> str:
        """Returns the action in an answer: see `AnswerFormat.extract`."""
        return self.answer_format.extract(answer)

    def action_span(self, answer: str) -> tuple[int, int] | None:
        """Returns the characters of the action in an answer: see `AnswerFormat.action_span`."""
        return self.answer_format.action_span(answer)

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if not self._seen:  # once, so that spans of earlier answers stay as they are
            self._seen = True
            listed = [str(action) for action in info.get("admissible", ())]
            one_line = bool(listed) and not any("\n" in action for action in listed)
            self.answer_format = replace(self.answer_format, one_line=one_line)
        info = {**info, "action": ""}
        if self.scores_format:
            info["reward_terms"] = {**info.get("reward_terms", {}), "format": 0.0}
        return observation, info

    def expert(self) -> str | None:
        """Returns an answer with the expert's action, or None if there is none."""
        action = self.env.get_wrapper_attr("expert")()
        return None if action is None else self.answer_format.write(action)
