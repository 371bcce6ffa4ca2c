"""Registration and lookup of environment ids. The ids themselves are in `ids.py`."""

from __future__ import annotations

import gymnasium

from agentgym.errors import ConfigError, did_you_mean
from agentgym.registration.entry import NAMESPACE, SINGLE_SEAT, Entry, import_module_of
from agentgym.registration.ids import PLUGS, TABLE

REGISTRY: dict[str, Entry] = {entry.id: entry for entry in TABLE}
"""All environments by id, including the games that were registered by `register_game`."""


def register_all() -> None:
    """Registers all ids with Gymnasium. Called by `import agentgym`."""
    for name, entry_point in PLUGS.items():
        if (id := f"{NAMESPACE}/{name}") not in gymnasium.registry:
            gymnasium.register(id, entry_point=entry_point)
    for entry in TABLE:
        if entry.id in gymnasium.registry:
            continue
        if entry.multi_agent:
            gymnasium.register(
                entry.id,
                entry_point=SINGLE_SEAT,
                kwargs={"game": entry.id, **entry.kwargs, **entry.seat},
            )
        else:
            gymnasium.register(entry.id, entry_point=entry.entry_point, kwargs=entry.kwargs)


def find(id: str) -> Entry:
    """Returns the entry of an id, with or without the namespace.

    Args:
        id: an id of AgentGym or of a registered game. "module:id" imports the module first.

    Raises:
        ConfigError: if there is no such id. The message names the closest ones.
    """
    id = import_module_of(id)
    for full in (f"{NAMESPACE}/{id}", id):
        if full in REGISTRY:
            return REGISTRY[full]
    names = [known.rpartition("/")[2] for known in REGISTRY]
    hint = did_you_mean(id.rpartition("/")[2], names)
    raise ConfigError(
        f"Unknown environment {id!r}.{hint} `agentgym list` shows all. One of your own is written "
        "your_module:YourEnv-v0, so that its module is imported."
    )
