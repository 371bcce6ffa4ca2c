"""`MCPServer`: the tools of an MCP server, for a `FunctionToolEnv`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import ClientSession, StdioServerParameters, types  # pyright: ignore[reportMissingImports]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]

from agentgym.errors import AgentGymError, ConfigError, did_you_mean
from agentgym.tools.decorator import Tool, ToolError


def by_alias(model: Any) -> dict[str, Any]:
    """Returns the fields of a message of mcp 1 or 2 by their names in the protocol."""
    return model.model_dump(by_alias=True)


class MCPServerError(AgentGymError, RuntimeError):
    """An MCP server cannot be started, or does not answer."""


class MCPTool(Tool):
    """A tool of an MCP server. The server checks the types of arguments."""

    external = True

    def __init__(self, server: MCPServer, listed: types.Tool, *, cost: float, final: bool):
        self.function = lambda **arguments: server.call(listed.name, arguments)
        self.name, self.cost, self.final, self.context = listed.name, float(cost), final, False
        self.description = " ".join((listed.description or "").split())
        self.parameters = {"properties": {}, **by_alias(listed)["inputSchema"]}
        self._required = list(self.parameters.get("required", ()))

    def __reduce__(self) -> Any:
        """Refuses to be copied: the server runs in this process's session only."""
        raise TypeError(f"The tool {self.name} of an MCP server cannot be copied or pickled.")

    @property
    def signature(self) -> str:
        """The tool in one line, such as "search(query: string)"."""
        words = [
            f"{name}{'' if name in self._required else '?'}: {each.get('type', 'any')}"
            for name, each in self.parameters["properties"].items()
        ]
        return f"{self.name}({', '.join(words)})"

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments if their names match the schema.

        Raises:
            ValueError: for a missing or unknown argument.
        """
        known = self.parameters["properties"]
        for name in arguments:
            if name not in known and self.parameters.get("additionalProperties") is False:
                hint = did_you_mean(name[:40], known)
                raise ValueError(f"{self.name} has no argument {name[:40]!r}.{hint}")
        for name in self._required:
            if name not in arguments:
                raise ValueError(f"{self.name} needs the argument {name!r}.")
        return arguments


class MCPServer:
    """A running MCP server, to which this process is connected over stdio.

        with MCPServer(["python", "my_server.py"]) as server:
            env = FunctionToolEnv(server.tools(), start=start, reward=reward)

    The state of the server is not part of the snapshots of an environment.

    Args:
        command: command line of the server.
        env: environment variables of its process.
        timeout: maximum seconds of the start and of a call.

    Raises:
        MCPServerError: if it does not start.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ):
        self._command, self._timeout = list(command), timeout
        self._env = None if env is None else dict(env)
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._error: BaseException | None = None
        self._session: ClientSession | None = None
        self._listed: list[types.Tool] = []
        self._task = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._ready.wait(timeout) or self._session is None:
            problem = repr(self._error) if self._error else f"no answer in {timeout:g} s"
            self.close()
            raise MCPServerError(f"{command} did not start as an MCP server: {problem:.200}")

    def tools(
        self, *, final: Sequence[str] = (), costs: Mapping[str, float] | None = None
    ) -> list[Tool]:
        """Returns the tools of the server.

        Args:
            final: names of tools that end an episode.
            costs: amounts subtracted from the reward for a call, by name.

        Raises:
            ConfigError: if the server has no tool of such a name.
        """
        costs, known = costs or {}, [each.name for each in self._listed]
        for name in (*final, *costs):
            if name not in known:
                raise ConfigError(f"The server has no tool {name!r}.{did_you_mean(name, known)}")
        return [
            MCPTool(self, each, cost=costs.get(each.name, 0.0), final=each.name in final)
            for each in self._listed
        ]

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Returns the text of the result of a call.

        Raises:
            ToolError: if the tool returns an error, or the server does not answer in time.
        """
        assert self._session is not None
        called = self._session.call_tool(name, arguments)
        try:
            waiting = asyncio.run_coroutine_threadsafe(called, self._loop)
        except RuntimeError as error:  # the loop is closed
            called.close()
            raise ToolError("The server has ended.") from error
        try:
            result = waiting.result(self._timeout)
        except Exception as error:
            waiting.cancel()
            raise ToolError(f"The server does not answer: {error!r:.200}") from error
        texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
        if by_alias(result).get("isError"):
            raise ToolError("\n".join(texts))
        return "\n".join(texts)

    def close(self) -> None:
        """Ends the server."""
        if self._thread.is_alive():
            end = self._task.cancel if self._session is None else self._stop.set
            with contextlib.suppress(RuntimeError):  # it has just ended by itself
                self._loop.call_soon_threadsafe(end)
            self._thread.join(10)

    def __enter__(self) -> MCPServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except BaseException as error:  # shown by the constructor
            self._error = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        command, *words = self._command
        parameters = StdioServerParameters(command=command, args=words, env=self._env)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            cursor = None
            while True:
                asked = types.PaginatedRequestParams(cursor=cursor)
                page = await session.list_tools(params=asked)
                self._listed += page.tools
                if (cursor := by_alias(page).get("nextCursor")) is None:
                    break
            self._session = session
            self._ready.set()
            await self._stop.wait()
