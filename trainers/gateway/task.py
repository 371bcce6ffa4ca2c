"""`Task`: an episode as the program of a user sees it. It needs no PyTorch.

A program of its own process reads it from environment variables. A function gets it as argument.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.errors import AgentGymError
from agentgym.trainers.gateway.kept_connections import post

KEPT = (
    "PATH HOME LANG LC_ALL LC_CTYPE TZ USER SHELL VIRTUAL_ENV CONDA_PREFIX PYTHONPATH "
    "LD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE SYSTEMROOT"
).split()
"""Environment variables of the trainer that programs have, too. Others may hold secrets."""
SILENT = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "ANONYMIZED_TELEMETRY": "false",
    "PYTHONUNBUFFERED": "1",
}
"""Environment variables that keep the libraries of agents from calling home."""

LONGEST = 100_000
"""Bytes of AGENTGYM_TASK. A longer task is in a file: Linux starts no program with a variable of
131,072 bytes or more."""


class TaskError(AgentGymError, RuntimeError):
    """The gateway refuses a call into the environment, for example after the end of the episode."""


class Step(NamedTuple):
    """The result of an action.

    Attributes:
        observation: the next observation.
        done: whether the episode is over.
        admissible: the admissible actions, empty if the set is open.
    """

    observation: str
    done: bool
    admissible: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """An episode to play.

    Attributes:
        env: id of the environment.
        task: name of the task.
        seed: seed of the episode.
        instructions: the instructions of the environment.
        observation: its first observation.
        admissible: the admissible actions at first, empty if the set is open.
        tools: its tools, as `tools` of a chat completion.
        data: the line of a file of tasks, without keys that begin with "_".
        model: the name under which the policy answers.
        url: address of the gateway.
        key: key of the session, a secret.
    """

    env: str
    task: str
    seed: int
    instructions: str = ""
    observation: str = ""
    admissible: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    model: str = "policy"
    url: str = ""
    key: str = ""

    @classmethod
    def of_environ(cls, environ: Mapping[str, str] | None = None) -> Task:
        """Returns the task of the process, from the environment variables of the gateway.

        Raises:
            TaskError: if the process was not started by a gateway.
        """
        given = os.environ if environ is None else environ
        text = given.get("AGENTGYM_TASK")
        if text is None and "AGENTGYM_TASK_FILE" in given:
            text = Path(given["AGENTGYM_TASK_FILE"]).read_text(encoding="utf-8")
        if text is None:
            raise TaskError(
                "AGENTGYM_TASK is not set: the program reads its task from environment variables "
                "of `agentgym train --harness` or of `session.environ`. Start it with one of them."
            )
        return replace(cls.of_json(json.loads(text)), key=given.get("AGENTGYM_KEY", ""))

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Task:
        """Returns a task from JSON values."""
        lists = {name: tuple(values.get(name, ())) for name in ("admissible", "tools")}
        return cls(**{**values, **lists})

    def to_json(self) -> dict[str, Any]:
        """Returns the task as JSON values, without the key."""
        values = asdict(self)
        del values["key"]
        return values

    @property
    def openai(self) -> dict[str, str]:
        """Arguments of `openai.OpenAI` and `openai.AsyncOpenAI`."""
        return {"base_url": f"{self.url}/v1", "api_key": self.key}

    @property
    def env_url(self) -> str:
        """Address of the environment, in the HTTP protocol of OpenEnv."""
        return f"{self.url}/e/{self.key}"

    @property
    def mcp_url(self) -> str:
        """Address of the environment as a server of the Model Context Protocol."""
        return f"{self.url}/m/{self.key}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that tell programs of the gateway."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "OPENAI_API_KEY": self.key,
            "OPENAI_MODEL": self.model,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": self.key,
            "ANTHROPIC_AUTH_TOKEN": self.key,
            "AGENTGYM_TASK": json.dumps(self.to_json()),
            "AGENTGYM_MODEL": self.model,
            "AGENTGYM_KEY": self.key,
            "AGENTGYM_ENV_URL": self.env_url,
            "AGENTGYM_MCP_URL": self.mcp_url,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def environ(self, folders: Sequence[Path] = (), place: Path | None = None) -> dict[str, str]:
        """Returns all environment variables of a program, few of them from this process.

        Args:
            folders: folders from which the program can import modules, besides PYTHONPATH.
            place: folder for the file of a task that is too long for an environment variable.
                AGENTGYM_TASK_FILE then names it in place of AGENTGYM_TASK.
        """
        variables = self.variables
        if place is not None and len(variables["AGENTGYM_TASK"]) > LONGEST:
            file = place / "task.json"
            file.write_text(variables.pop("AGENTGYM_TASK"), encoding="utf-8")
            variables["AGENTGYM_TASK_FILE"] = str(file)
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        paths = [*map(str, folders), *filter(None, [kept.get("PYTHONPATH")])]
        if paths:
            kept["PYTHONPATH"] = os.pathsep.join(paths)
        own = str(Path(sys.executable).parent)
        kept["PATH"] = os.pathsep.join(filter(None, [own, kept.get("PATH", os.defpath)]))
        return kept | SILENT | variables

    def step(self, action: str) -> Step:
        """Takes an action in the environment.

        Args:
            action: the action as text, as the policy wrote it.

        Raises:
            TaskError: if there is no environment, or the episode is over.
        """
        return self._post("step", {"action": {"text": action}})

    def call(self, name: str, arguments: Mapping[str, Any]) -> Step:
        """Calls a tool of the environment.

        Args:
            name: name of the tool.
            arguments: its arguments.

        Raises:
            TaskError: if there is no environment, or the episode is over.
        """
        return self._post("call", {"name": name, "arguments": dict(arguments)})

    def _post(self, path: str, body: Mapping[str, Any]) -> Step:
        headers = {"Content-Type": "application/json"}
        try:
            status, reply = post(f"{self.env_url}/{path}", json.dumps(body).encode(), headers)
        except OSError as error:
            raise TaskError(f"No reply from the gateway at {self.url}: {error}.") from error
        text = reply.decode("utf-8", "replace")
        if status >= HTTPStatus.BAD_REQUEST:
            raise TaskError(f"The environment refused the action: {_detail(text)}")
        found = json.loads(text)
        observation = found["observation"]
        admissible = tuple(observation.get("admissible", ()))
        return Step(observation["text"], bool(found["done"]), admissible)


def _detail(text: str) -> str:
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, LookupError, TypeError):
        return text[:300]
