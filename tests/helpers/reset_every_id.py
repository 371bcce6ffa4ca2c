"""Resets every core environment without network. `make wheel` runs it on the installed wheel.

Core environments need no extra. Any attempt to open a connection fails.
"""

import socket
import sys

import gymnasium


def no_network(*_: object, **__: object) -> None:
    raise OSError("A core environment tried to use the network.")


socket.socket.connect = no_network  # type: ignore[method-assign]
socket.getaddrinfo = no_network  # type: ignore[assignment]

import agentgym  # noqa: E402  # after the network is off

for entry in agentgym.REGISTRY.values():
    if entry.extra is not None:
        continue
    env = gymnasium.make(entry.id)
    text, _ = env.reset(seed=0)
    assert isinstance(text, str)
    if entry.multi_agent:
        agentgym.make_aec(entry.id).reset(seed=0)
    env.close()
    print(f"{entry.id}: {text[:60]!r}")
print(f"{len(agentgym.REGISTRY)} ids, Python {sys.version.split()[0]}, {agentgym.__file__}")
