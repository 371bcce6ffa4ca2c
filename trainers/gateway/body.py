"""Bodies of requests: JSON within bounds, and fields with checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NoReturn

from starlette.requests import Request

from agentgym.reading.loose_json import strict_json, too_deep
from agentgym.serving.connections import BodyError, read_body
from agentgym.tools.call_objects import MAX_DEPTH
from agentgym.trainers.gateway.wire import Message, Refused
from agentgym.utils.printable import encodable

MOST_MESSAGES, MOST_TOOLS, MOST_STOPS = 4096, 256, 4
LONGEST_NAME, LONGEST_STOP = 256, 256
"""Characters of a name and of a stop string."""
BODY_SECONDS = 30.0
"""Seconds in which a body must arrive."""
TEXT_PARTS = ("text", "input_text", "output_text")
"""Types of parts of a message that hold text."""


def refuse(message: str, param: str = "", code: str = "invalid_value") -> NoReturn:
    """Raises `Refused` with the status 400."""
    raise Refused(400, code, message, param=param)


async def bounded_body(request: Request, most: int, seconds: float = BODY_SECONDS) -> bytes:
    """Returns the body of a request.

    Raises:
        Refused: if it has more than `most` bytes, or takes longer to arrive.
    """
    try:
        return await read_body(request, most, seconds)
    except BodyError as error:
        slow = error.status == HTTPStatus.REQUEST_TIMEOUT
        code = "body_too_slow" if slow else "body_too_large"
        raise Refused(error.status, code, str(error), retry=slow) from error


def read_object(data: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body.

    Raises:
        Refused: if it is none, or is nested too deeply.
    """
    try:
        value = strict_json(data)
    except (ValueError, RecursionError) as error:
        refuse(f"The body must be a JSON object, got none: {error!s:.200}.", code="invalid_json")
    if not isinstance(value, dict):
        kind = type(value).__name__
        refuse(f"The body must be a JSON object, got a {kind}.", code="invalid_json")
    if too_deep(value, MAX_DEPTH):
        refuse(
            f"The body may have at most {MAX_DEPTH} levels of lists and objects, got more.",
            code="invalid_json",
        )
    return value


def text_of(body: Mapping[str, Any], name: str, default: str = "", where: str = "") -> str:
    """Returns a field that is a text, the default if it is absent or null."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        refuse(f"{where}{name} must be a string, got {_shown(value)}.", f"{where}{name}")
    return value


def name_of(body: Mapping[str, Any], name: str, where: str = "") -> str:
    """Returns a field that is a name: a text that is not empty and not too long."""
    value = text_of(body, name, where=where)
    if not value or len(value) > LONGEST_NAME or not value.isprintable():
        refuse(
            f"{where}{name} must have 1 to {LONGEST_NAME} printable characters, got "
            f"{_shown(body.get(name))}.",
            f"{where}{name}",
        )
    return value


def flag_of(body: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """Returns a field that is true or false, the default if it is absent or null."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        refuse(f"{name} must be true or false, got {_shown(value)}.", name)
    return value


def count_of(body: Mapping[str, Any], name: str) -> int | None:
    """Returns a field that is a positive whole number, None if it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    whole = isinstance(value, float) and math.isfinite(value) and value.is_integer()
    if isinstance(value, bool) or not (isinstance(value, int) or whole) or value < 1:
        refuse(f"{name} must be a whole number of at least 1, got {_shown(value)}.", name)
    return int(value)


def list_of(
    body: Mapping[str, Any], name: str, most: int, where: str = ""
) -> list[Mapping[str, Any]]:
    """Returns a field that is a list of objects, empty if it is absent or null."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        refuse(f"{where}{name} must be a list of objects, got {_shown(value)}.", f"{where}{name}")
    if len(value) > most:
        refuse(f"{where}{name} may have at most {most} entries, got {len(value)}.", name)
    return value


def object_in(body: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    """Returns a field that is an object, an empty one if it is absent or null."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse(f"{where}{name} must be an object, got {_shown(value)}.", f"{where}{name}")
    return value


def stops_of(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Returns a field that is a stop string or a list of them."""
    value = body.get(name)
    given = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        refuse(f"{name} must be a string or a list of strings, got {_shown(value)}.", name)
    found = tuple(dict.fromkeys(each for each in given if each))
    if len(found) > MOST_STOPS or any(len(each) > LONGEST_STOP for each in found):
        refuse(f"{name} may have at most {MOST_STOPS} strings of {LONGEST_STOP} characters.", name)
    if any(each != encodable(each) for each in found):
        refuse(f"{name} must be text, got half of a surrogate pair: {_shown(value)}.", name)
    return found


def joined_text(content: Any, where: str) -> str | None:
    """Returns the text of a message: a string, null, or a list of parts, which are joined.

    Raises:
        Refused: for an image, audio, a file, or anything else.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        refuse(f"{where} must be a string or a list of parts, got {_shown(content)}.", where)
    return "".join(_part(part, f"{where}[{i}]") for i, part in enumerate(content))


def _part(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in TEXT_PARTS:
        return text_of(part, "text", where=f"{where}.")
    if kind == "refusal":
        return text_of(part, "refusal", where=f"{where}.")
    refuse(
        f"{where} is a part of the type {kind!r:.80}. The model reads text only: leave it out.",
        where,
        "unsupported_content",
    )


def function_tool(
    function: Mapping[str, Any], where: str, schema: str = "parameters"
) -> dict[str, Any]:
    """Returns a tool in the form of chat templates.

    Args:
        function: an object with name, description and a JSON schema.
        where: its place in the body.
        schema: the field with the schema.
    """
    place = f"{where}.{schema}"
    given = _schema(dict(object_in(function, schema, f"{where}.")), place, where, _OF_TOOL)
    parameters = {"type": "object", "properties": {}, **given}
    parameters["properties"] = {
        name: _schema(each, f"{place}.properties.{name:.80}", where, _OF_ARGUMENT)
        for name, each in parameters["properties"].items()
    }
    return {
        "type": "function",
        "function": {
            "name": name_of(function, "name", f"{where}."),
            "description": text_of(function, "description", where=f"{where}."),
            "parameters": parameters,
        },
    }


def _schema(schema: Any, place: str, tool: str, words: Words) -> Any:
    """Returns a JSON schema without the words that are null, as clients send absent ones.

    Args:
        schema: the schema.
        place: where it stands.
        tool: where its tool stands.
        words: words that prompts and readers of calls go by.

    Raises:
        Refused: if one of them is not what JSON schemas have there.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        refuse(f"{place} must be a schema, which is an object, got {_shown(schema)}.", tool)
    found: dict[str, Any] = {
        word: each for word, each in schema.items() if each is not None or word not in words
    }
    for word, (fits, expected) in words.items():
        if word in found and not fits(found[word]):
            refuse(f"{place}.{word} must be {expected}, got {_shown(found[word])}.", tool)
    if "anyOf" in words and "anyOf" in found:
        some = enumerate(found["anyOf"])
        found["anyOf"] = [_schema(each, f"{place}.anyOf[{i}]", tool, words) for i, each in some]
    return found


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


Words = Mapping[str, tuple[Callable[[Any], bool], str]]
"""Words of a JSON schema -> whether a value is one that they can have, and what it must be."""
_OF_TOOL: Words = {
    "properties": (lambda value: isinstance(value, dict), "an object of schemas"),
    "required": (_are_texts, "a list of names"),
}
_OF_ARGUMENT: Words = {
    "type": (lambda value: isinstance(value, str) or _are_texts(value), "a type or a list of them"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "anyOf": (lambda value: isinstance(value, list), "a list of schemas"),
}


def distinct(tools: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Returns tools, no two of which may have the same name."""
    names = [tool["function"]["name"] for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        refuse(f"tools has two tools with the name {twice!r:.80}: give one another name.", "tools")
    return tuple(tools)


def check_messages(messages: Sequence[Message], name: str = "messages") -> tuple[Message, ...]:
    """Returns messages of a field, at least one of which there must be."""
    if not messages:
        refuse(f"{name} must have at least one message, got none.", name)
    return tuple(messages)


def _shown(value: Any) -> str:
    """Returns the beginning of a value, as a client can read it."""
    return f"{value!r:.80}"
