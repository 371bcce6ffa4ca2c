"""`agentgym gateway`: serves a model to programs and records their episodes, without training."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.text import Text

from agentgym.cli.command_line import standard_output
from agentgym.cli.out_files import check_new_file
from agentgym.errors import ConfigError, needs_extra
from agentgym.registration.making import full_id, make_env
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.served_model import NEW_TOKENS, load_served
from agentgym.utils.arguments import parse_arguments
from agentgym.utils.files import shown

LOCAL = ("127.0.0.1", "localhost", "::1")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command."""
    found = argparse.ArgumentParser(
        prog="agentgym gateway",
        usage="agentgym gateway --model MODEL [OPTIONS]",
        description="Serve a model to programs that speak to OpenAI or Anthropic, without "
        "training. POST /sessions begins an episode and returns its key, DELETE /sessions/KEY ends "
        "it, as does an hour without a request. Ctrl-C ends the server and all episodes.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = found.add_argument
    add("--model", required=True, help="folder of a run, or a Hugging Face id or folder")
    add("--env-id", help="environment that each episode has")
    add("--env-kwargs", nargs="*", default=[], metavar="KEY=VALUE", help="its arguments")
    add("--record", type=Path, metavar="FILE", help="new file for the traces of episodes (JSONL), "
        "which agentgym view, export and train bc --data read")  # fmt: skip
    add("--host", default=LOCAL[0], help="address to listen at. Others than this machine need a "
        "token")  # fmt: skip
    add("--port", type=int, default=8100, help="port to listen at. 0: any free one")
    add("--token", default="", help="clients of /sessions must send it as Authorization: Bearer "
        "TOKEN. By default AGENTGYM_TOKEN, if it is set")  # fmt: skip
    add("--temperature", type=float, default=1.0, help="sampling temperature. 0: greedy decoding")
    add("--max-new-tokens", type=int, help="maximum length of a reply in tokens. By default that "
        f"of the run, and {NEW_TOKENS} for other models")  # fmt: skip
    add("--device", default="cpu", help="device of the model")
    return found


def main(argv: Sequence[str]) -> int:
    """Serves until it is interrupted. Returns the exit status."""
    given = parser().parse_args(list(argv))
    token = given.token or os.environ.get("AGENTGYM_TOKEN", "")
    if given.host not in LOCAL and not token:
        raise ConfigError(
            f"Anyone who reaches {given.host} could use the model: set --token or AGENTGYM_TOKEN, "
            "or leave out --host."
        )
    if not 0 <= given.port <= 65535:
        raise ConfigError(f"port must be from 0 to 65535, got {given.port}.")
    if given.env_kwargs and given.env_id is None:
        raise ConfigError("--env-kwargs are those of an environment: set --env-id, too.")
    make = None
    if given.env_id is not None:
        make = partial(make_env, full_id(given.env_id), **parse_arguments(given.env_kwargs))
        make().close()  # an error now rather than at the first episode
    if given.record is not None:  # before the model is loaded
        check_new_file(given.record)
    with needs_extra("agentgym gateway", "serve"):
        from agentgym.trainers.gateway.service import SessionService, session_routes
    agent = load_served(
        given.model,
        temperature=given.temperature,
        max_new_tokens=given.max_new_tokens,
        device=given.device,
    )
    services: list[SessionService] = []

    def routes(gateway: Gateway) -> list[Any]:
        services.append(SessionService(gateway, make))
        return session_routes(services[0], token, [given.host])

    gateway = Gateway(
        agent.policy, agent.sampling, batching="continuous", model=agent.name, host=given.host,
        port=given.port, record=given.record, routes=routes,
    )  # fmt: skip
    output = standard_output()
    output.print(Text(f"Serving {agent.name} at {gateway.url}/v1"), soft_wrap=True)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        gateway.sessions.run(lambda: False, services[0].expire)
    except KeyboardInterrupt:  # the way to end it
        pass
    finally:
        services[0].close()
        gateway.close()
        signal.signal(signal.SIGTERM, before)
    if (traces := gateway.traces) is not None:
        output.print(Text(f"{traces.count} traces in {shown(traces.path)}."), soft_wrap=True)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
