"""Errors and messages of OpenEnv's protocol."""

from __future__ import annotations

from typing import Any

from agentgym.reading.loose_json import strict_json

INVALID_JSON, UNKNOWN_TYPE = "INVALID_JSON", "UNKNOWN_TYPE"
VALIDATION_ERROR, EXECUTION_ERROR = "VALIDATION_ERROR", "EXECUTION_ERROR"
CAPACITY_REACHED, SESSION_ERROR = "CAPACITY_REACHED", "SESSION_ERROR"


class ProtocolError(Exception):
    """A message that cannot be answered.

    Args:
        code: one of OpenEnv's error codes.
        message: description of the problem.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code

    def reply(self) -> dict[str, Any]:
        """Returns the message to send."""
        return {"type": "error", "data": {"message": str(self), "code": self.code}}


def read_message(text: str | bytes) -> dict[str, Any]:
    """Returns the JSON object in a message or a body.

    Raises:
        ProtocolError: if it is not one.
    """
    try:
        message = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(INVALID_JSON, f"Invalid JSON: {error!s:.200}") from error
    if not isinstance(message, dict):
        raise ProtocolError(
            VALIDATION_ERROR, f"Expected a JSON object, got {type(message).__name__}."
        )
    return message
