"""`agentgym mcp`: an environment as a server of the Model Context Protocol (MCP) over stdio.

The tools of a tool environment are offered as they are. Any other environment, and one that reads
messages too, has the tool `act`, whose argument is the action or the message. `reset` starts an
episode. The result is the observation as text, with the reward and the end of the episode as
structured content.
"""

from __future__ import annotations

from typing import Any

import anyio
from gymnasium.error import ResetNeeded
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import agentgym
from agentgym.errors import UnknownTaskError
from agentgym.making import TextGym, env_name
from agentgym.tools.calls import Call, write_call
from agentgym.utils.printable import encodable

Result = tuple[list[types.ContentBlock], dict[str, Any]]
ACT = types.Tool(
    name="act",
    description="Plays one turn and returns the next observation.",
    inputSchema={
        "type": "object",
        "properties": {"action": {"type": "string", "description": "the action or message"}},
        "required": ["action"],
        "additionalProperties": False,
    },
)
SHOWN = ("valid", "success", "progress", "admissible")
"""Parts of the info that results hold."""


class Played:
    """An environment driven by calls of tools.

    Args:
        env: a text environment.
    """

    def __init__(self, env: TextGym):
        self.env = env
        try:
            own = dict(env.get_wrapper_attr("tools"))
            self._format = env.get_wrapper_attr("call_format")
        except AttributeError:
            own = {}
        self.own = own
        self.acts = not own or env.unwrapped.reads_messages  # type: ignore[attr-defined]
        self.start = "reset" if "reset" not in own else "reset_environment"

    @property
    def tools(self) -> list[types.Tool]:
        """The tools to offer."""
        listed = [
            types.Tool(name=each.name, description=each.description, inputSchema=each.parameters)
            for each in self.own.values()
        ]
        return [self._starter(), *listed, *([ACT] if self.acts else [])]

    def _starter(self) -> types.Tool:
        return types.Tool(
            name=self.start,
            description="Starts an episode and returns its rules and its first observation.",
            inputSchema={
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "name of the task (default: any)"},
                    "seed": {"type": "integer", "minimum": 0, "description": "random seed"},
                },
                "additionalProperties": False,
            },
        )

    def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """Returns the result of a call.

        Raises:
            ValueError: for an unknown tool or task, or a call without an episode in progress.
        """
        try:
            if name == self.start:
                options = {"task": arguments["task"]} if "task" in arguments else {}
                seed = arguments.get("seed")
                text, info = self.env.reset(seed=seed, options=options)
                rules = self.env.get_wrapper_attr("instructions")
                return _result(f"{rules}\n\n{text}", None, False, info)
            if name in self.own:
                action = write_call(Call(name, arguments), self._format)
            elif name == "act" and self.acts:
                action = arguments["action"]
            else:
                raise ValueError(f"There is no tool {name!r:.80}.")
            text, reward, terminated, truncated, info = self.env.step(action)
        except (ResetNeeded, UnknownTaskError) as error:
            raise ValueError(f"{error} Call {self.start} to start an episode.") from error
        return _result(text, float(reward), terminated or truncated, info)


def _result(text: str, reward: float | None, done: bool, info: dict[str, Any]) -> Result:
    facts = {name: info[name] for name in SHOWN if name in info}
    facts["admissible"] = list(facts.get("admissible", ()))
    if done:
        text += f"\n\n[The episode is over: {'solved' if info.get('success') else 'not solved'}.]"
    content = types.TextContent(type="text", text=encodable(text))
    return [content], {"reward": reward, "done": done, **facts}


def make_server(env: TextGym) -> Server[Any, Any]:
    """Returns an MCP server of one environment, for one client."""
    name = env_name(env)
    played, server = Played(env), Server(name, version=agentgym.__version__)
    one = anyio.CapacityLimiter(1)  # clients send several calls at once

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return played.tools

    @server.call_tool()
    async def call_tool(tool: str, arguments: dict[str, Any]) -> Result:
        return await anyio.to_thread.run_sync(played.call, tool, arguments, limiter=one)

    return server


async def serve_stdio(env: TextGym) -> None:
    """Serves an environment over standard input and output until the client leaves."""
    server = make_server(env)
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())
