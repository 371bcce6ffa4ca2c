"""The environments of sessions over HTTP: OpenEnv's protocol, and the Model Context Protocol.

`/e/KEY` has `reset`, `step`, `call` and `state`. `/m/KEY` is an MCP server with the tools of the
environment (streamable HTTP without a stream of its own, in which each request has one reply).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentgym.serving.protocol import SESSION_ERROR, VALIDATION_ERROR, ProtocolError
from agentgym.serving.server import STATUS, message_of
from agentgym.trainers.gateway.body import BODY_SECONDS
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.utils.printable import encodable
from agentgym.version import __version__

Find = Callable[[str], HeldEnv | None]
"""Returns the environment of a session with a key, None if there is none."""
LONGEST = 1 << 20
"""Bytes of a message."""
MCP_VERSION = "2025-06-18"
"""Version of the Model Context Protocol, unless the client names another one."""
_METHOD_NOT_FOUND, _INVALID = -32601, -32600


def environment_routes(find: Find, body_seconds: float = BODY_SECONDS) -> list[BaseRoute]:
    """Returns the routes of the environments of sessions.

    Args:
        find: finds the environment of a session.
        body_seconds: maximum seconds of the arrival of a message.
    """

    async def act(request: Request) -> Response:
        try:
            held = _found(find, request)
            data = await message_of(request, LONGEST, body_seconds)
            match request.path_params["what"]:
                case "reset":
                    return _json(await run_in_threadpool(held.reset))
                case "step":
                    action = data.get("action")
                    if not isinstance(action, dict):
                        raise ProtocolError(VALIDATION_ERROR, "action must be an object.")
                    return _json(await run_in_threadpool(held.step, action))
                case "call":
                    call = data.get("name"), data.get("arguments")
                    return _json(await run_in_threadpool(held.call, *call))
                case "close":
                    return _json({})
            return _json({"detail": "There is no such call."}, 404)
        except ClientDisconnect:
            return Response(status_code=499)
        except ProtocolError as error:
            return _json({"detail": str(error), "code": error.code}, STATUS.get(error.code, 422))

    async def state(request: Request) -> Response:
        try:
            return _json(_found(find, request).state())
        except ProtocolError as error:
            return _json({"detail": str(error), "code": error.code}, STATUS.get(error.code, 422))

    async def mcp(request: Request) -> Response:
        try:
            held = _found(find, request)
            message = await message_of(request, LONGEST, body_seconds)
        except ClientDisconnect:
            return Response(status_code=499)
        except ProtocolError as error:
            return _json(_error(None, _INVALID, str(error)), STATUS.get(error.code, 400))
        if "id" not in message:  # a notification, or a reply
            return Response(status_code=202)
        return _json(await run_in_threadpool(mcp_reply, held, message))

    return [
        Route("/e/{key}/{what}", act, methods=["POST"]),
        Route("/e/{key}/state", state, methods=["GET"]),
        Route("/m/{key}", mcp, methods=["POST"]),
    ]


def mcp_reply(held: HeldEnv, message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the reply to a request of the Model Context Protocol."""
    id, parameters = message["id"], message.get("params") or {}
    if not isinstance(parameters, dict):
        return _error(id, _INVALID, "params must be an object.")
    match message.get("method"):
        case "initialize":
            asked = parameters.get("protocolVersion")
            result: dict[str, Any] = {
                "protocolVersion": asked if isinstance(asked, str) else MCP_VERSION,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": held.env_id, "version": __version__},
                "instructions": held.instructions,
            }
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": [_tool(each) for each in held.mcp_tools]}
        case "tools/call":
            result = _called(held, parameters)
        case method:
            return _error(id, _METHOD_NOT_FOUND, f"There is no method {method!r:.80}.")
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name": tool["name"], "description": tool["description"]}
    return {**described, "inputSchema": tool["parameters"]}


def _called(held: HeldEnv, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result of a tool: the observation, without the reward."""
    try:
        found = held.call(parameters.get("name"), parameters.get("arguments"))
    except ProtocolError as error:
        return {"content": _content(str(error)), "isError": True}
    text = found["observation"]["text"]
    if found["done"]:
        text += "\n\n[The episode is over.]"
    return {"content": _content(text), "isError": False}


def _content(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": encodable(text)}]


def _error(id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _found(find: Find, request: Request) -> HeldEnv:
    held = find(request.path_params["key"])
    if held is None:
        raise ProtocolError(SESSION_ERROR, "There is no session with this key and an environment.")
    return held


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")
