"""`agentgym serve`: environments for clients on other machines."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import tyro

from agentgym.cli.command_line import KeyValues, Wrappers, standard_output
from agentgym.errors import ConfigError, needs_extra
from agentgym.registration.making import full_id, make_env
from agentgym.utils.arguments import parse_arguments

Ids = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="ID [ID ...]", help_behavior_hint="")]
]
LEAST_KEY_BYTES = 16
"""Size of a key that cannot be guessed."""
LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    envs: Ids,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str = "",
    max_sessions: int = 256,
    idle_seconds: float = 600.0,
    env_seconds: float = 60.0,
    threads: int = 8,
    env_kwargs: KeyValues = (),
    wrap: Wrappers = (),
) -> int:
    """Serve environments over HTTP and WebSocket, in the protocol of OpenEnv.

    Clients of openenv connect to http://HOST:PORT for the first id and to http://HOST:PORT/NAME
    for each, and gymnasium.make("AgentGym/Remote-v0", url=...) does too.

    Snapshots are sealed with a key of this server. With the environment variable
    AGENTGYM_SNAPSHOT_KEY, they are valid on every server that has the same one.

    Args:
        envs: Ids of environments, such as WebShop-v0.
        host: Address to listen at. 0.0.0.0: all of this machine, which needs a token.
        port: Port to listen at. 0: any free one.
        token: Clients must send it as "Authorization: Bearer TOKEN". By default the environment
            variable AGENTGYM_TOKEN, if it is set.
        max_sessions: Maximum number of sessions, each with an environment of its own.
        idle_seconds: Seconds without a message after which a session ends.
        env_seconds: Maximum seconds of a reset or a step of an environment, and of its start. A
            slower reset or step truncates its episode.
        threads: Threads that step environments.
        env_kwargs: Arguments of the environments.
        wrap: Wrappers of the environments, as in eval.
    """
    with needs_extra("agentgym serve", "serve"):
        import uvicorn

        from agentgym.serving.connections import server_config
        from agentgym.serving.server import Limits, make_app
    token = token or os.environ.get("AGENTGYM_TOKEN", "")
    if host not in LOCAL and not token:
        raise ConfigError(
            f"Anyone who reaches {host} could play: set --token or AGENTGYM_TOKEN, or leave out "
            "--host."
        )
    if not 0 <= port <= 65535:
        raise ConfigError(f"port must be from 0 to 65535, got {port}.")
    for name, value in {"max_sessions": max_sessions, "threads": threads}.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}.")
    for name, seconds in {"idle_seconds": idle_seconds, "env_seconds": env_seconds}.items():
        if not seconds > 0:
            raise ConfigError(f"{name} must be above 0, got {seconds}.")
    if not envs:
        raise ConfigError("Name at least one environment (see `agentgym list`).")
    key = _snapshot_key(token)
    kwargs = parse_arguments(env_kwargs) | ({"wrap": list(wrap)} if wrap else {})
    names = _names([full_id(id) for id in envs])
    makers = {name: partial(make_env, id, **kwargs) for name, id in names.items()}
    limits = Limits(max_sessions, idle_seconds, env_seconds, threads=threads)
    with _listen(host, port) as listener:
        app = make_app(makers, limits, token, [host], key)
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{listener.getsockname()[1]}"
        standard_output().print(f"Serving {', '.join(makers)} at {url}")
        server = uvicorn.Server(server_config(app, max_sessions, limits.message_bytes))
        with contextlib.suppress(KeyboardInterrupt):  # the way to end it
            server.run([listener])
    return 0


def _snapshot_key(token: str) -> bytes | None:
    """Returns the key of AGENTGYM_SNAPSHOT_KEY, None if it is not set.

    Raises:
        ConfigError: for a key that clients know or can guess.
    """
    key = os.environ.get("AGENTGYM_SNAPSHOT_KEY", "").encode()
    if key and (len(key) < LEAST_KEY_BYTES or key == token.encode()):
        fault = "is the token, which clients know" if key == token.encode() else "is too short"
        raise ConfigError(
            f"AGENTGYM_SNAPSHOT_KEY {fault}: expected a secret of at least {LEAST_KEY_BYTES} "
            "characters, such as the output of `openssl rand -hex 32`."
        )
    return key or None


def _names(ids: Sequence[str]) -> dict[str, str]:
    """Returns ids by the names under which they are served.

    Raises:
        ConfigError: if two of them would have the same name.
    """
    names: dict[str, str] = {}
    for id in ids:
        name = id.rpartition("/")[2]
        if (other := names.setdefault(name, id)) != id:
            raise ConfigError(
                f"{other} and {id} would both be served as /{name}: serve them at two ports."
            )
    return names


def _listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address.

    Raises:
        ConfigError: if that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen at port {port} of {host} ({error}): set --port to another one (0: any "
            "free one), and --host to an address of this machine."
        ) from error
