"""`agentgym mcp`: an environment as an MCP server."""

from __future__ import annotations

import asyncio

from agentgym.cli.command_line import Id, KeyValues, Wrappers
from agentgym.errors import needs_extra
from agentgym.registration.making import make_env
from agentgym.utils.arguments import parse_arguments


def serve_mcp(env: Id, /, *, env_kwargs: KeyValues = (), wrap: Wrappers = ()) -> int:
    """Serve an environment to a client of the Model Context Protocol, over stdio.

    A client starts this command itself, for example with {"command": "agentgym", "args": ["mcp",
    "Todo-v0"]} among its servers.

    Args:
        env: Id of the environment. The tools of a tool environment are offered as they are, the
            actions of others by the tool act.
        env_kwargs: Arguments of the environment.
        wrap: Wrappers of the environment, as in eval.
    """
    with needs_extra("agentgym mcp", "mcp"):
        from agentgym.integrations.mcp_server import serve_stdio
    wrapped = {"wrap": list(wrap)} if wrap else {}
    asyncio.run(serve_stdio(make_env(env, **parse_arguments(env_kwargs), **wrapped)))
    return 0
