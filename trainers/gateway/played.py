"""`Played`: a finished episode of a program, as functions that score it see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.trainers.gateway.programs import Outcome, as_score, finite, scalar
from agentgym.trainers.gateway.record import Record
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.wire import Message
from agentgym.utils.returned_numbers import as_number


@dataclass(frozen=True)
class Played:
    """A finished episode, as the function of `harness_score` sees it.

    Attributes:
        task: the task, without the key.
        messages: the conversation of the last request, with its reply, as in a chat completion.
        replies: the texts of all replies, in order.
        reward: sum of the rewards of the environment.
        success: whether the environment says that the task is solved.
        score: the number that a function returned, or its numbers by name. None: none.
        output: the end of the program's output.
        timed_out: whether its time was up.
        data: the line of the task in a file of tasks, otherwise empty.
    """

    task: Task
    messages: tuple[dict[str, Any], ...]
    replies: tuple[str, ...]
    reward: float
    success: bool
    score: Any
    output: str
    timed_out: bool
    data: Mapping[str, Any]


def played(record: Record, task: Task, outcome: Outcome, data: Mapping[str, Any]) -> Played:
    """Returns an episode for a function that scores it."""
    turns = record.turns()
    last = turns[-1] if turns else None
    messages = [] if last is None else [_message(each) for each in last.request.messages]
    if last is not None and last.reply is not None:
        reply = last.reply
        messages.append(_message(Message("assistant", reply.text, calls=reply.calls)))
    return Played(
        task=replace(task, key=""),
        messages=tuple(messages),
        replies=tuple(turn.reply.text or "" for turn in turns if turn.reply is not None),
        reward=sum(turn.reward for turn in turns),
        success=bool(record.info.get("success", False)),
        score=outcome.score,
        output=outcome.output,
        timed_out=outcome.timed_out,
        data=data,
    )


def checked_score(found: Any) -> Any:
    """Returns a score, or rewards of turns.

    Raises:
        TypeError: if it is neither.
        ValueError: if a number is not finite.
    """
    if isinstance(found, list | tuple):
        numbers = [scalar(each) for each in found]
        if all(as_number(each) is not None for each in numbers):
            return [finite(each) for each in numbers]
    score = as_score(found)
    if score is None:
        raise TypeError(
            "harness_score must return a number, numbers by name, or a list with a number for each "
            f"turn, got {found!r:.200}."
        )
    return score


def _message(message: Message) -> dict[str, Any]:
    """Returns a message as in a chat completion."""
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.call_id:
        found["tool_call_id"] = message.call_id
    return found
