"""Arguments of calls by value: capitals, white space, dates and whole numbers in any form.

Only the generated worlds read arguments in this way. With original data, they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentgym.envs.service.database import plain_key
from agentgym.reading.dates import find_dates
from agentgym.reading.typography import normalized, plain_operators

DATES = ("date", "dob", "date_of_birth")
"""Names of arguments and keys that are dates."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
Keys = Mapping[str, Mapping[str, str]]
"""Name of an argument -> `plain_key` of each known value -> the value."""


def read_value(value: Any, schema: Mapping[str, Any], name: str, keys: Keys) -> Any:
    """Returns an argument in the form of the database.

    A value without such a form stays as it is, so that checks and tools can refuse it.

    Args:
        value: a JSON value.
        schema: the JSON schema of the argument.
        name: name of the argument, or of the key in an object.
        keys: the known values of keys, such as those of orders.

    Raises:
        ValueError: for a date that cannot be read. The message is a sentence for the agent.
    """
    if isinstance(value, list):
        entry = schema.get("items", {})
        return [read_value(each, entry, name, keys) for each in value]
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        return {key: read_value(v, fields.get(key, {}), key, keys) for key, v in value.items()}
    if "enum" in schema:
        return _option(value, schema["enum"])
    if isinstance(value, float) and value.is_integer():
        kinds = [schema, *schema.get("anyOf", ())]
        return int(value) if any(kind.get("type") == "integer" for kind in kinds) else value
    if name in keys and (isinstance(value, str) or type(value) is int):
        return keys[name].get(plain_key(str(value)), value)
    if isinstance(value, str) and name in DATES:
        return _date(value, name)
    if isinstance(value, str) and name == "expression":
        return plain_operators(value)
    return value.strip() if isinstance(value, str) else value


def _option(value: Any, options: list[Any]) -> Any:
    """Returns the option that a value names, such as "basic_economy" for "Basic Economy"."""
    named = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    if not isinstance(named, str):
        return value
    return {plain_key(option): option for option in options}.get(plain_key(named), value)


def _date(text: str, name: str) -> str:
    """Returns a date as YYYY-MM-DD.

    Raises:
        ValueError: if the text is not one date with its year.
    """
    plain = normalized(text).strip()
    if _ISO.fullmatch(plain):  # also a day that does not exist, which the tool refuses
        return plain
    for date in find_dates(plain):
        if date.year and (date.start, date.stop) == (0, len(plain)):
            return f"{date.year}-{date.month:02}-{date.day:02}"
    raise ValueError(
        f"{name} must be a date with its year, such as '2024-05-20', got {text!r:.80}."
    )
