"""Environments for the client of MCP, and MCP servers as tools, both over stdio."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.tools import FunctionToolEnv, ToolError, read_call

mcp = pytest.importorskip("mcp", reason="needs the extra `mcp`")

import anyio  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402  # pyright: ignore
from mcp.shared.memory import create_client_server_memory_streams  # noqa: E402  # pyright: ignore

from agentgym.integrations.mcp_server import Played, make_server  # noqa: E402
from agentgym.integrations.mcp_tools import MCPServer, MCPServerError, by_alias  # noqa: E402

ROOT = str(Path(agentgym.__file__).parents[1])
AGENTGYM = [sys.executable, "-m", "agentgym", "mcp"]
ENV = {"PYTHONPATH": ROOT}
OWN_SERVER = """
try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # mcp 1
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

server = MCPServer("shop")

@server.tool()
def price(item: str, count: int = 1) -> str:
    "Returns the price of an item."
    if item != "pen":
        raise ToolError(f"There is no {item}.")
    return str(3 * count)

@server.tool()
def order(item: str) -> str:
    "Orders an item."
    return f"Ordered {item}."

server.run()
"""


def told(result: Any) -> dict[str, Any]:
    """Returns the structured content of a result."""
    return by_alias(result)["structuredContent"]


def with_client(words: list[str], talk: Any) -> Any:
    """Runs a conversation of the client of MCP with `agentgym mcp`."""

    async def run() -> Any:
        command, *args = [*AGENTGYM, *words]
        parameters = mcp.StdioServerParameters(command=command, args=args, env=ENV)
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            return await talk(client)

    return asyncio.run(run())


def test_a_client_plays_an_environment_by_the_tool_act():
    env = make_env("NumberLine-v0", size=6)

    async def talk(client: Any) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["reset", "act"]
        early = await client.call_tool("act", {"action": "+"})
        assert by_alias(early)["isError"] and "Call reset" in early.content[0].text
        wrong = await client.call_tool("reset", {"task": "none"})
        assert by_alias(wrong)["isError"] and "Unknown task" in wrong.content[0].text
        text, _ = env.reset(seed=2, options={"task": "test/1"})
        result = await client.call_tool("reset", {"task": "test/1", "seed": 2})
        instructions = env.get_wrapper_attr("instructions")
        assert result.content[0].text == f"{instructions}\n\n{text}"
        while not told(result)["done"]:
            action = env.get_wrapper_attr("expert")()
            text, reward, *_ = env.step(action)
            result = await client.call_tool("act", {"action": action})
            assert told(result)["reward"] == reward
            assert result.content[0].text.startswith(text)
        assert told(result)["success"] and "solved" in result.content[0].text

    with_client(["NumberLine-v0", "--env-kwargs", "size=6"], talk)


def test_a_client_calls_the_tools_of_a_tool_environment():
    env = make_env("Todo-v0")

    async def talk(client: Any) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed.keys() == {"reset", *env.get_wrapper_attr("tools")}
        for name, tool in env.get_wrapper_attr("tools").items():
            assert by_alias(listed[name])["inputSchema"] == tool.parameters
        env.reset(seed=1, options={"task": "train/0"})
        result = await client.call_tool("reset", {"task": "train/0", "seed": 1})
        while not told(result)["done"]:
            action = env.get_wrapper_attr("expert")()
            call = read_call(action)
            assert call is not None
            text, reward, *_ = env.step(action)
            result = await client.call_tool(call.name, call.arguments)
            assert result.content[0].text.startswith(text)
            assert told(result)["reward"] == reward
        assert told(result)["success"]

    with_client(["Todo-v0"], talk)


def test_a_seed_may_be_written_with_a_point():
    played = Played(make_env("NumberLine-v0"))
    whole, pointed = (played.call("reset", {"task": "train/0", "seed": s}) for s in (3, 3.0))
    assert not by_alias(pointed)["isError"] and pointed.content == whole.content


def test_an_agent_can_talk_where_messages_are_read():
    played = Played(make_env("Retail-v0"))
    names = [tool.name for tool in played.tools]
    assert {"reset", "act", "find_user_id_by_email"} < {*names}
    played.call("reset", {"task": "train/0", "seed": 0})
    said = played.call("act", {"action": "Hello, how can I help you?"})
    assert told(said)["valid"] and said.content[0].text
    todo = Played(make_env("Todo-v0"))
    refused = todo.call("act", {"action": "Hello"})
    assert by_alias(refused)["isError"] and "no tool 'act'" in refused.content[0].text


@pytest.mark.parametrize(
    ("wrap", "action"),
    [
        ("ExtractAction:format=tags", "<action>{}</action>"),
        ("Compose:n=2,ids=NumberLine-v0", "{}"),
    ],
)
def test_a_wrapper_that_reads_actions_is_played_by_the_tool_act(wrap: str, action: str):
    played = Played(make_env("Todo-v0", wrap=[wrap]))
    assert [tool.name for tool in played.tools] == ["reset", "act"]
    played.call("reset", {"task": "train/0", "seed": 0})
    call = '{"name": "list_projects", "arguments": {}}'
    assert told(played.call("act", {"action": action.format(call)}))["valid"]


def test_a_wrapper_that_passes_calls_on_leaves_the_tools_and_has_act():
    played = Played(make_env("Todo-v0", wrap=["Memory"]))
    assert {"act", "list_projects"} <= {tool.name for tool in played.tools}
    played.call("reset", {"task": "train/0", "seed": 0})
    assert told(played.call("list_projects", {}))["valid"]
    assert "buy milk" in str(played.call("act", {"action": "remember: buy milk"}).content)


def test_a_wrapper_of_observations_leaves_the_tools():
    played = Played(make_env("Todo-v0", wrap=["HistoryObservation:k=1"]))
    assert "list_projects" in [tool.name for tool in played.tools]
    played.call("reset", {"task": "train/0", "seed": 0})
    assert told(played.call("list_projects", {}))["valid"]


def test_calls_at_the_same_time_are_played_one_after_another():
    env = make_env("NumberLine-v0", size=50)
    env.reset(seed=0)  # the next task is drawn from it, and needs more than four steps
    under_way, most, step = [0], [0], env.step

    def slow(action: str) -> Any:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.02)
        under_way[0] -= 1
        return step(action)

    env.step = slow  # type: ignore[method-assign]

    async def talk() -> None:
        server = make_server(env)
        async with (
            create_client_server_memory_streams() as (ours, its),
            anyio.create_task_group() as group,
        ):
            group.start_soon(server.run, *its, server.create_initialization_options())
            async with mcp.ClientSession(*ours) as client:
                await client.initialize()
                await client.call_tool("reset", {})
                calls = [client.call_tool("act", {"action": "+"}) for _ in range(5)]
                assert not any(by_alias(each)["isError"] for each in await asyncio.gather(*calls))
            group.cancel_scope.cancel()

    asyncio.run(talk())
    assert most == [1]


def test_the_tools_of_a_server_make_an_environment(tmp_path):
    (tmp_path / "server.py").write_text(OWN_SERVER)
    with MCPServer([sys.executable, str(tmp_path / "server.py")]) as server:
        with pytest.raises(ConfigError, match=r"no tool 'orde'\. Did you mean: order"):
            server.tools(final=["orde"])
        with pytest.raises(ConfigError, match="no tool 'orde'"):
            server.tools(costs={"orde": 1.0})
        env = FunctionToolEnv(
            server.tools(final=["order"], costs={"price": 0.25}),
            start=lambda task: ("Order a pen.", {}),
            reward=lambda state: 1.0,
        )
        assert "price(item: string, count?: integer): Returns the price" in env.instructions
        env.reset(seed=0)
        text, reward, _, _, info = env.step(
            '{"name": "price", "arguments": {"item": "pen", "count": 2}}'
        )
        assert (text, reward, info["valid"]) == ("6", -0.25, True)
        for wrong, message in {
            '{"name": "price", "arguments": {"item": "cup"}}': "There is no cup",
            '{"name": "price", "arguments": {}}': "needs the argument 'item'",
            '{"name": "price", "arguments": {"item": "pen", "count": "x"}}': "count",
        }.items():
            text, _, _, _, info = env.step(wrong)
            assert message in text and not info["valid"]
        text, reward, terminated, _, info = env.step(
            '{"name": "order", "arguments": {"item": "pen"}}'
        )
        assert (text, reward, terminated, info["success"]) == ("Ordered pen.", 1.0, True, True)


def test_a_command_that_is_no_server_is_refused():
    with pytest.raises(MCPServerError, match="did not start"):
        MCPServer([sys.executable, "-c", "pass"], timeout=30)


def test_a_server_that_ends_while_it_is_closed_is_refused(monkeypatch):
    run = MCPServer._run

    def run_slowly(server: MCPServer) -> None:
        run(server)
        time.sleep(0.5)  # the thread lives, its loop is closed

    monkeypatch.setattr(MCPServer, "_run", run_slowly)
    with pytest.raises(MCPServerError, match="did not start"):
        MCPServer([sys.executable, "-c", "pass"], timeout=30)


def test_a_call_after_the_end_of_a_server_is_an_error_of_the_tool(tmp_path):
    (tmp_path / "server.py").write_text(OWN_SERVER)
    with MCPServer([sys.executable, str(tmp_path / "server.py")]) as server:
        pass
    with pytest.raises(ToolError, match="has ended"):
        server.call("price", {"item": "pen"})
    server.close()


def test_a_command_that_never_answers_is_ended(tmp_path):
    script = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    (tmp_path / "script.py").write_text(script.replace("'pid'", repr(str(tmp_path / "pid"))))
    with pytest.raises(MCPServerError, match="no answer in 3 s"):
        MCPServer([sys.executable, str(tmp_path / "script.py")], timeout=3)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
