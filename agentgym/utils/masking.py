"""Secrets in settings: `masked` replaces them before anything is written or shown.

An argument is a secret if its name says so, such as `token` or `api_key`, at any depth. The user
and password of an address are secrets too, and so are arguments of such names in its query.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from agentgym.errors import ConfigError

MASK = "***"
"""Written in place of a secret."""
_DEEPEST = 50
"""Values in values that are looked at."""
_WORDS = frozenset(
    "token key apikey password passwd passphrase pwd secret credential authorization auth bearer "
    "cookie accesstoken accesskey secretkey authtoken".split()
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ADDRESS = re.compile(
    r"(?P<scheme>\b[A-Za-z][\w+.-]*://)(?P<user>[^\s/?#@\"']*(?:@[^\s/?#@\"']*)*)@"
)
_QUERY = re.compile(r"(?P<name>[\w.%~-]+)=(?P<value>[^\s&;#\"',}]+)")
_BEARER = re.compile(r"\b(?P<kind>Bearer|Basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Returns whether the name of an argument is that of a secret.

    `api_key_env` names a variable, and `max_new_tokens` counts.
    """
    parts = [part.lower() for part in _PARTS.findall(name)]
    return parts[-1:] != ["env"] and any(p in _WORDS or p[:-1] in _WORDS for p in parts)


def masked(value: Any, name: str = "", depth: int = 0) -> Any:
    """Returns JSON values with `***` in place of secrets. Empty ones stay.

    Args:
        value: a value, a list or a mapping.
        name: its name.
        depth: number of values around it. Too deep ones are masked as a whole.
    """
    if depth > _DEEPEST or (name and is_secret(name) and _may_be_secret(value, name)):
        return MASK
    if isinstance(value, Mapping):
        return {k: masked(v, k if isinstance(k, str) else "", depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        kept = [masked(each, "", depth + 1) for each in value]
        return kept if isinstance(value, list) else tuple(kept)
    return masked_text(value) if isinstance(value, str) else value


def masked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with `***` in place of the secrets in their values.

    Their own names are those of numbers of tokens, and the like.
    """
    return {name: masked(value) for name, value in dict(settings).items()}


def masked_text(text: str) -> str:
    """Returns a text with `***` in place of the secrets in addresses and in `name=value` words."""
    if "=" in text:
        text = _QUERY.sub(_masked_word, text)
    if "://" in text:
        text = _ADDRESS.sub(rf"\g<scheme>{MASK}@", text)
    return _BEARER.sub(rf"\g<kind> {MASK}", text)


def _masked_word(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    return f"{name}={MASK}" if is_secret(name) and _may_be_secret(value, name) else match[0]


def _may_be_secret(value: Any, name: str) -> bool:
    """Returns whether a value can be a secret. Flags, nothing and numbers of things cannot."""
    if isinstance(value, list | tuple | Mapping):
        return len(value) > 0
    if value is None or isinstance(value, bool) or str(value).lower() in ("", *_FLAGS):
        return False
    if isinstance(value, float):
        return False
    return not (name.endswith("s") and str(value).isdigit())


_FLAGS = ("true", "false", "null", "none")


def filled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with each `***` at the top replaced by an environment variable.

    `token` is read from AGENTGYM_TOKEN, `api_key` from AGENTGYM_API_KEY, and so on.

    Raises:
        ConfigError: if it is not set, or a secret is missing deeper in a value.
    """
    found = dict(arguments)
    for name, value in arguments.items():
        if value == MASK and is_secret(name):
            variable = f"AGENTGYM_{name.upper()}"
            found[name] = os.environ.get(variable, "")
            if not found[name]:
                raise ConfigError(
                    f"{name} is a secret, which is not saved with the other settings: set the "
                    f"environment variable {variable}, or give {name}=... again (--env-kwargs)."
                )
        elif _has_mask(value, name):
            raise ConfigError(
                f"{name} holds a secret, which is not saved with the other settings: give "
                f"{name}=... again (--env-kwargs), got {value!r:.200}."
            )
    return found


def _has_mask(value: Any, name: str) -> bool:
    left = [(name, value)]
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):
            left += [(str(key), each) for key, each in value.items()]
        elif isinstance(value, list | tuple):
            left += [(name, each) for each in value]
        elif isinstance(value, str) and MASK in value:
            whole = value == MASK and is_secret(name)
            if whole or f"{MASK}@" in value or f"={MASK}" in value:
                return True
    return False
