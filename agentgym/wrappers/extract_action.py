"""`ExtractAction`: parses the action from the answer of a chat model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, did_you_mean
from agentgym.utils.action_parsing import labelled, unfenced
from agentgym.wrappers.base import TextWrapper

_TAG = re.compile(r"<action>(.*?)(?:</action>|\Z)", re.IGNORECASE | re.DOTALL)
_PLAIN_NAMES = ("act", "action", "say", "step")
_MAX_BRACES = 64


class Format(NamedTuple):
    """An answer format.

    Attributes:
        read: (answer, call_format) -> the action in an answer, or "" if there is none.
        write: action -> an answer with this action.
        hint: description of the format for the agent.
    """

    read: Callable[[str, str], str]
    write: Callable[[str], str]
    hint: str


def without_thinking(answer: str) -> str:
    """Returns the answer of a reasoning model without its `<think>...</think>` block."""
    answer = answer.rpartition("</think>")[2]
    return answer.partition("<think>")[0]


def read_labelled(answer: str, call_format: str = "") -> str:
    """Returns the text after the first label "Action:" (see `action_parsing.labelled`)."""
    return _bare(labelled(answer))


def read_tagged(answer: str, call_format: str = "") -> str:
    """Returns the content of the first `<action>...</action>`. The closing tag may be missing."""
    tag = _TAG.search(answer)
    return _bare(tag[1]) if tag else ""


def read_json(answer: str, call_format: str) -> str:
    """Returns the action in the first JSON object that is an action or a tool call, else "".

    Actions have the form `{"action": "text"}`. A number is converted to text. Tool calls have a
    name and arguments. They may be in a list or nested as chat servers do (`tool_calls`,
    `function`). A tool call is converted to text by `call_format`, but a tool named "act",
    "action", "say" or "step" with one argument stands for this argument.

    Args:
        answer: the answer of the model.
        call_format: format string with `{name}` and `{arguments}`.
    """
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(_MAX_BRACES):
        start = answer.find("{", start + 1)
        if start < 0:
            break
        try:
            action = _read_call(decoder.raw_decode(answer, start)[0], call_format)
        except (ValueError, RecursionError):
            continue
        if action:
            return action
    return ""


def _read_call(value: Any, call_format: str) -> str:
    if isinstance(value, list):
        return _read_call(value[0], call_format) if value else ""
    if not isinstance(value, dict):
        return ""
    for key in ("tool_calls", "function_call", "function", "tool_call", "action"):
        if isinstance(value.get(key), (dict, list)):
            return _read_call(value[key], call_format)
    arguments = next(
        (value[key] for key in ("arguments", "parameters", "args", "input") if key in value), None
    )
    action = value.get("action")
    plain = isinstance(action, str | int | float) and not isinstance(action, bool)
    if plain and arguments is None:
        return str(action).strip()
    name = next((value[key] for key in ("name", "tool", "action") if key in value), None)
    if not isinstance(name, str) or not name.strip():
        return ""
    return _write_call(name.strip(), _values(arguments), call_format)


def _values(arguments: Any) -> list[str]:
    if isinstance(arguments, str):
        try:
            nested = json.loads(arguments)
        except (ValueError, RecursionError):
            return [arguments]
        if not isinstance(nested, (dict, list)):
            return [arguments]
        arguments = nested
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    elif not isinstance(arguments, list):
        arguments = [] if arguments is None else [arguments]
    return [value if isinstance(value, str) else json.dumps(value) for value in arguments]


def _write_call(name: str, values: list[str], call_format: str) -> str:
    if len(values) == 1 and name in _PLAIN_NAMES:
        return values[0].strip()
    return call_format.format(name=name, arguments=", ".join(values)) if values else name


def _bare(text: str) -> str:
    """Returns the text without enclosing code marks."""
    text = unfenced(text.strip())
    if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]:
        return text[1:-1].strip()
    return text


FORMATS: dict[str, Format] = {
    "thought_action": Format(
        read_labelled,
        lambda action: f"Action: {action}",
        'Answer with a line "Thought: ..." and then a line "Action: ...".',
    ),
    "tags": Format(
        read_tagged,
        lambda action: f"<action>{action}</action>",
        "Write your action as <action>...</action>.",
    ),
    "json": Format(
        read_json,
        lambda action: json.dumps({"action": action}, ensure_ascii=False),
        'Answer with a JSON object {"action": "..."} or a tool call.',
    ),
}
"""The formats by name."""


class ExtractAction(TextWrapper):
    """Parses the action from a longer answer, such as the output of a chat model.

    **Actions**: text. An answer without an action is an invalid action. The next observation then
    describes the format. It never raises.

    **Observations**, **rewards**: unchanged.

    **Info**: `action` (str) is added: the extracted action, or "" after a reset and if the answer
    has no action.

    Args:
        env: an environment with text actions.
        format: "thought_action" (a line "Action: ..."), "tags" (`<action>...</action>`) or "json"
            (a JSON object or tool call: see `read_json`).
        call_format: text form of a JSON tool call, with `{name}` and `{arguments}` (joined by
            commas). The default gives "search[red shoes]".

    Raises:
        ConfigError: if the environment's actions are not text, or for an unknown `format` or an
            invalid `call_format`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        format: str = "thought_action",
        *,
        call_format: str = "{name}[{arguments}]",
    ):
        super().__init__(env, format=format, call_format=call_format)
        self._need_text("actions")
        if format not in FORMATS:
            raise ConfigError(
                f"format must be one of {list(FORMATS)}, got {format!r}."
                f"{did_you_mean(format, FORMATS)}"
            )
        try:
            call_format.format(name="", arguments="")
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(
                f"call_format may only contain {{name}} and {{arguments}}, got {call_format!r}."
            ) from error
        self.format = format
        self.call_format = call_format

    @property
    def instructions(self) -> str:
        """The environment's instructions, followed by the answer format."""
        return f"{self.env.get_wrapper_attr('instructions')}\n\n{FORMATS[self.format].hint}"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "action": ""}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays the action in an answer: see `TextEnv.step`.

        Raises:
            TypeError: if the answer is not a string.
        """
        extracted = self.extract(action)
        observation, reward, terminated, truncated, info = super().step(extracted)
        played = "" if isinstance(extracted, UnreadableAction) else extracted
        return observation, reward, terminated, truncated, {**info, "action": played}

    def extract(self, answer: str) -> str:
        """Returns the action in an answer, or an `UnreadableAction` if there is none.

        Raises:
            TypeError: if the answer is not a string.
        """
        if not isinstance(answer, str):
            raise TypeError(f"An answer is a str, got {type(answer).__name__}: {answer!r:.80}.")
        if isinstance(answer, UnreadableAction):
            return answer
        form = FORMATS[self.format]
        action = form.read(without_thinking(answer), self.call_format)
        return action or UnreadableAction(answer, f"No action was found. {form.hint}")

    def expert(self) -> str | None:
        """Returns an answer with the expert's action, or None if there is none."""
        action = self.env.get_wrapper_attr("expert")()
        return None if action is None else FORMATS[self.format].write(action)
