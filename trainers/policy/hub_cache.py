"""Models of the Hugging Face hub: those in the local cache are opened without the network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentgym.errors import ConfigError

Options = ParamSpec("Options")
Model = TypeVar("Model")


def cache_first(
    load: Callable[Concatenate[str, Options], Model],
) -> Callable[Concatenate[str, Options], Model]:
    """Lets a function that opens a model by its name look into the local cache first.

    Without internet, the hub's client would try for minutes to find out whether its files are the
    newest. A model that is in the cache is therefore not renewed. Before the network is used, a
    hint is printed.

    Args:
        load: opens a model. It raises ConfigError if files are missing.
    """

    @wraps(load)
    def opened(name: str, *args: Options.args, **kwargs: Options.kwargs) -> Model:
        if Path(name).is_dir():
            return load(name, *args, **kwargs)
        if _is_cached(name):
            try:
                with _offline():
                    return load(name, *args, **kwargs)
            except ConfigError:
                state = "has not all of its files"
        else:
            state = "does not have it"
        print(f"{name}: the local cache {state}, asking the Hugging Face hub.", file=sys.stderr)
        return load(name, *args, **kwargs)

    return opened


def _is_cached(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # not a name of the hub
        return False


@contextmanager
def _offline() -> Iterator[None]:
    """Context manager in which the hub's client and transformers use the local cache alone."""
    from huggingface_hub import constants

    settings: Any = constants
    before = settings.HF_HUB_OFFLINE
    settings.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE = before
