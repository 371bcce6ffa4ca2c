"""`ExtractAction`: parses the action from the answer of a chat model."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.wrappers.answer_format import AnswerFormat
from agentgym.wrappers.base import TextWrapper


class ExtractAction(TextWrapper):
    """Parses the action from a longer answer, such as the output of a chat model.

    **Actions**: text. An answer without an action is an invalid action. The next observation then
    describes the format. It never raises.

    **Observations**: unchanged.

    **Rewards**: `format_penalty` is subtracted for an answer without an action. A bonus for the
    right format would instead favour long episodes.

    **Info**: `action` (str) is added: the extracted action, or "" after a reset and if the answer
    has no action. With a `format_penalty`, `reward_terms` has the term `format`.

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

    Raises:
        ConfigError: if the environment's actions are not text, or for an unknown `format` or an
            invalid `call_format` or `format_penalty`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        format: str = "thought_action",
        *,
        call_format: str = "{name}[{arguments}]",
        format_penalty: float = 0.0,
    ):
        super().__init__(env, format=format, call_format=call_format, format_penalty=format_penalty)
        self._need_text("actions")
        self.answer_format = AnswerFormat(format, call_format)
        if format_penalty < 0:
            raise ConfigError(f"format_penalty must be at least 0, got {format_penalty}.")
        self.format_penalty = float(format_penalty)

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
        unreadable = isinstance(extracted, UnreadableAction)
        if unreadable and self.format_penalty:
            reward -= self.format_penalty
            info["reward_terms"]["format"] = -self.format_penalty
        info["action"] = "" if unreadable else extracted
        return observation, reward, terminated, truncated, info

    def extract(self, answer: str) -> str:
        """Returns the action in an answer: see `AnswerFormat.extract`."""
        return self.answer_format.extract(answer)

    def action_span(self, answer: str) -> tuple[int, int] | None:
        """Returns the characters of the action in an answer: see `AnswerFormat.action_span`."""
        return self.answer_format.action_span(answer)

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        info = {**info, "action": ""}
        if self.format_penalty:
            info["reward_terms"] = {**info.get("reward_terms", {}), "format": 0.0}
        return observation, info

    def expert(self) -> str | None:
        """Returns an answer with the expert's action, or None if there is none."""
        action = self.env.get_wrapper_attr("expert")()
        return None if action is None else self.answer_format.write(action)
