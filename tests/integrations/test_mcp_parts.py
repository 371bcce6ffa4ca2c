"""Parts of the MCP integrations that need no client, with a stub in place of `mcp`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentgym.errors import ConfigError
from agentgym.making import make_env


class Stub(ModuleType):
    """A module with any name, whose classes hold their arguments."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace


@pytest.fixture(params=["mcp_server", "mcp_tools"])
def module(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ("", ".types", ".server", ".server.lowlevel", ".server.stdio", ".client.stdio")
    for name in (*names, ".client"):
        monkeypatch.setitem(sys.modules, f"mcp{name}", Stub(f"mcp{name}"))
    monkeypatch.setattr(sys.modules["mcp"], "types", sys.modules["mcp.types"], raising=False)
    name = f"agentgym.integrations.{request.param}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name)


@pytest.mark.parametrize("module", ["mcp_server"], indirect=True)
def test_an_agent_can_talk_where_messages_are_read(module: Any):
    played = module.Played(make_env("Retail-v0"))
    names = [tool.name for tool in played.tools]
    assert names[0] == "reset" and names[-1] == "act" and "find_user_id_by_email" in names
    played.call("reset", {"task": "train/0", "seed": 0})
    [said], facts = played.call("act", {"action": "Hello, how can I help you?"})
    assert facts["valid"] and said.text
    todo = module.Played(make_env("Todo-v0"))
    assert "act" not in [tool.name for tool in todo.tools]
    with pytest.raises(ValueError, match="There is no tool 'act'"):
        todo.call("act", {"action": "Hello"})


@pytest.mark.parametrize("module", ["mcp_tools"], indirect=True)
@pytest.mark.parametrize("options", [{"final": ["oder"]}, {"costs": {"oder": 1.0}}])
def test_a_name_that_is_no_tool_of_the_server_is_refused(module: Any, options: Any):
    server = module.MCPServer.__new__(module.MCPServer)
    schema = {"type": "object", "properties": {}}
    server._listed = [SimpleNamespace(name="order", description="", inputSchema=schema)]
    with pytest.raises(ConfigError, match=r"no tool 'oder'\. Did you mean: order"):
        server.tools(**options)
    assert server.tools(final=["order"], costs={"order": 1.0})[0].final
