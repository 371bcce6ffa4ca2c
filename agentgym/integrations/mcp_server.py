"""`agentgym mcp`: an environment as a server of the Model Context Protocol (MCP) over stdio.

The tools of a tool environment are offered as they are. Any other environment, one that reads
messages too, and one in a wrapper that reads actions of its own, has the tool `act`, whose argument
is the action or the message. A wrapper that does not pass calls on hides the tools. `reset` starts
an episode. The result is the observation as text, with the reward and the end of the episode as
structured content.
"""

from __future__ import annotations

from typing import Any

import anyio
import jsonschema
from gymnasium.error import ResetNeeded
from mcp import types  # pyright: ignore[reportMissingImports]
from mcp.server.lowlevel import Server  # pyright: ignore[reportMissingImports]
from mcp.server.stdio import stdio_server  # pyright: ignore[reportMissingImports]

from agentgym.errors import UnknownTaskError
from agentgym.registration.making import TextGym, env_name
from agentgym.tools.calls import Call, write_call
from agentgym.tools.env import callable_tools
from agentgym.utils.printable import encodable
from agentgym.version import __version__

START = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "name of the task (default: any)"},
        "seed": {"type": "integer", "minimum": 0, "description": "random seed"},
    },
    "additionalProperties": False,
}
"""Arguments of the tool that starts an episode."""
ACT = {
    "type": "object",
    "properties": {"action": {"type": "string", "description": "the action or message"}},
    "required": ["action"],
    "additionalProperties": False,
}
"""Arguments of the tool `act`."""
SHOWN = ("valid", "success", "progress", "admissible")
"""Parts of the info that results hold."""


class Played:
    """An environment driven by calls of tools.

    Args:
        env: a text environment.
    """

    def __init__(self, env: TextGym):
        self.env = env
        own, self._format, texts = callable_tools(env)
        self.own = own
        self.start = "reset" if "reset" not in own else "reset_environment"
        begins = "Starts an episode and returns its rules and its first observation."
        plays = "Plays one turn and returns the next observation."
        described = {name: (each.description, each.parameters) for name, each in own.items()}
        acts = {"act": (plays, ACT)} if texts else {}
        self._tools = {self.start: (begins, START), **acts, **described}

    @property
    def tools(self) -> list[types.Tool]:
        """The tools to offer."""
        return [
            types.Tool(name=name, description=description, inputSchema=schema)
            for name, (description, schema) in self._tools.items()
        ]

    def call(self, name: str, arguments: dict[str, Any] | None) -> types.CallToolResult:
        """Returns the result of a call.

        It is an error for an unknown tool or task, arguments that do not match the tool's schema,
        and a call without an episode in progress.
        """
        if name not in self._tools:
            return _error(f"There is no tool {name!r:.80}.")
        try:
            jsonschema.validate(arguments or {}, self._tools[name][1])
            return self._play(name, arguments or {})
        except (ResetNeeded, UnknownTaskError) as error:
            return _error(f"{error} Call {self.start} to start an episode.")
        except jsonschema.ValidationError as error:
            return _error(f"{name}: {error.message}")
        except ValueError as error:
            return _error(str(error))

    def _play(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if name == self.start:
            options = {"task": arguments["task"]} if "task" in arguments else {}
            seed = int(arguments["seed"]) if "seed" in arguments else None  # 1.0 is one in JSON
            text, info = self.env.reset(seed=seed, options=options)
            rules = self.env.get_wrapper_attr("instructions")
            return _result(f"{rules}\n\n{text}", None, False, info)
        own = name in self.own
        action = write_call(Call(name, arguments), self._format) if own else arguments["action"]
        text, reward, terminated, truncated, info = self.env.step(action)
        return _result(text, float(reward), terminated or truncated, info)


def _result(
    text: str, reward: float | None, done: bool, info: dict[str, Any]
) -> types.CallToolResult:
    facts = {name: info[name] for name in SHOWN if name in info}
    facts["admissible"] = list(facts.get("admissible", ()))
    if done:
        text += f"\n\n[The episode is over: {'solved' if info.get('success') else 'not solved'}.]"
    told = {"reward": reward, "done": done, **facts}
    return types.CallToolResult(content=_text(text), structuredContent=told)


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=_text(text), isError=True)


def _text(text: str) -> list[types.ContentBlock]:
    return [types.TextContent(type="text", text=encodable(text))]


def make_server(env: TextGym) -> Any:
    """Returns an MCP server of one environment, for one client, a `Server` of mcp 1 or 2."""
    played, about = Played(env), {"name": env_name(env), "version": __version__}
    one = anyio.CapacityLimiter(1)  # clients send several calls at once

    async def list_tools() -> list[types.Tool]:
        return played.tools

    async def call_tool(tool: str, arguments: dict[str, Any] | None) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(played.call, tool, arguments, limiter=one)

    if hasattr(Server, "call_tool"):  # mcp 1
        server: Any = Server(**about)
        server.list_tools()(list_tools)
        server.call_tool(validate_input=False)(call_tool)
        return server

    async def on_list(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await list_tools())

    async def on_call(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        return await call_tool(asked.name, asked.arguments)

    return Server(**about, on_list_tools=on_list, on_call_tool=on_call)  # type: ignore[call-arg]


async def serve_stdio(env: TextGym) -> None:
    """Serves an environment over standard input and output until the client leaves."""
    server = make_server(env)
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())
