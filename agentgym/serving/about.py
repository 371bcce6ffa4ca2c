"""Constant answers of the environment server: facts about an environment, and no tools of MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.registration.making import TextGym, tasks_of
from agentgym.tasks import NumberedTasks
from agentgym.tools.env import ToolEnv
from agentgym.version import __version__

MOST_TASKS = 100_000
"""Longest list of task names that `/tasks` returns."""
PATHS = {
    "/reset": ("post", "Start an episode."),
    "/step": ("post", "Play a turn."),
    "/close": ("post", "End a session."),
    "/snapshot": ("post", "Save the state of a session as a text."),
    "/restore": ("post", "Continue from a snapshot."),
    "/fork": ("post", "Start several sessions in the state of one."),
    "/state": ("get", "State of a session."),
    "/tasks": ("get", "Names of the tasks."),
    "/health": ("get", "Whether the server runs."),
    "/metadata": ("get", "Name, description and version."),
    "/schema": ("get", "JSON schemas of actions, observations and states."),
    "/mcp": ("post", "Answers that there are no tools."),
}
"""The method and the meaning of each path."""
CAPABILITIES = ("snapshot", "restore", "fork")
"""Kinds of requests beyond OpenEnv's, where the environment has snapshots."""
INVALID_REQUEST, NO_METHOD = -32600, -32601
"""Error codes of JSON-RPC 2.0."""


def about(name: str, env: TextGym) -> dict[str, Any]:
    """Returns the answers to GET requests about an environment, by path."""
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    first = (env.unwrapped.__doc__ or "").strip().partition("\n")[0]
    can = list(CAPABILITIES) if has_snapshots(env) else []
    tasks = {split: names(tasks_of(env).split(split)) for split in ("train", "test")}
    return {
        "/health": {"status": "healthy"},
        "/metadata": {
            "name": name,
            "description": first,
            "version": __version__,
            "capabilities": can,
        },
        "/schema": {"action": text, "observation": text, "state": {"type": "object"}},
        "/tasks": tasks,
        "/openapi.json": openapi(name, first, can),
    }


def has_snapshots(env: TextGym) -> bool:
    """Returns whether snapshots of an environment hold its whole state.

    Those of one whose tools run on a server of MCP do not, and some servers have none.
    """
    inner: Any = env.unwrapped
    tools = inner.tools.values() if isinstance(inner, ToolEnv) else ()
    known = getattr(inner, "has_snapshots", hasattr(inner, "snapshot"))  # of `RemoteEnv`
    return known and not any(tool.external for tool in tools)


def openapi(name: str, description: str, capabilities: Sequence[str]) -> dict[str, Any]:
    """Returns the paths of an environment as a document of OpenAPI 3.1."""
    answer = {"200": {"description": "JSON", "content": {"application/json": {}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "description": description, "version": __version__},
        "paths": {
            path: {method: {"summary": summary, "responses": answer}}
            for path, (method, summary) in PATHS.items()
            if path[1:] in capabilities or path[1:] not in CAPABILITIES
        },
    }


def names(tasks: Sequence[str]) -> dict[str, Any]:
    """Returns task names as JSON: a range of numbers, or a list, of the first `MOST_TASKS`."""
    if isinstance(tasks, NumberedTasks):
        numbers = tasks.numbers
        return {"prefix": tasks.prefix, "range": [numbers.start, numbers.stop, numbers.step]}
    return {"names": [tasks[i] for i in range(min(len(tasks), MOST_TASKS))]}


def refusal_of_mcp(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer to a message of MCP, an error of JSON-RPC with the remedy.

    The simulation is no tool: an agent that could reset it would choose its own task.
    """
    method = message.get("method")
    if isinstance(method, str):
        code, text = NO_METHOD, f"No method {method!r:.80} here."
    else:
        code, text = INVALID_REQUEST, "Expected a request of JSON-RPC 2.0 with a method."
    remedy = "The actions of an environment are tools of `agentgym mcp ID`."
    error = {"code": code, "message": f"{text} {remedy}"}
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
