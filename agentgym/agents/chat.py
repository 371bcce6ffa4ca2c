"""`ChatAgent`: plays with a language model on an OpenAI-compatible chat server."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import IO, Any

from agentgym.agents.view import View
from agentgym.errors import AgentGymError, ConfigError

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
LONGEST_WAIT = 60.0
# A server that was never reached and is not there now is a mistake in the address, not an outage.
NOT_THERE = (ConnectionRefusedError, socket.gaierror, ssl.SSLError)


class ChatError(AgentGymError, RuntimeError):
    """The chat server cannot be reached, refuses the request, or sends no chat completion."""


class ChatAgent:
    """Requests each action from a chat model with `POST {base_url}/chat/completions`.

    The messages are the instructions (system), the observations (user) and the model's earlier
    actions (assistant). The action is the reply without surrounding whitespace. The requests for
    the views of one call are sent concurrently.

    Args:
        model: name of the model on the server.
        base_url: such as "http://localhost:8000/v1" (vLLM), "http://localhost:11434/v1" (Ollama).
        api_key_env: environment variable with the API key. If it is unset, no key is sent.
        system: the system prompt. Default: the environment's instructions.
        history: number of earlier turns in the messages. None: all.
        temperature: sampling temperature. None: the server's default.
        extra: further fields of the request, such as {"max_tokens": 256}.
        retries: further attempts after a failed connection, an overload or a server error.
        backoff: seconds before the first retry; doubled for each one after it.
        timeout: seconds to wait for a reply.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        system: str | None = None,
        history: int | None = None,
        temperature: float | None = 0.0,
        extra: Mapping[str, Any] | None = None,
        retries: int = 5,
        backoff: float = 1.0,
        timeout: float = 120.0,
    ):
        _check_url(base_url)
        if history is not None and history < 0:
            raise ConfigError(f"history must be None or at least 0, got {history}.")
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, got {retries}.")
        self.name = f"chat:{model}"
        self.model = model
        self.url = base_url.rstrip("/") + "/chat/completions"
        self.api_key_env = api_key_env
        self.system = system
        self.history = history
        self.temperature = temperature
        self.extra = dict(extra or {})
        self.retries = retries
        self.backoff = backoff
        self.timeout = timeout
        self._reached = False
        self._opener = urllib.request.build_opener(_NoRedirect)

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns the model's action for each view.

        Raises:
            ChatError: if the server sends no usable reply.
        """
        replies: list[str | BaseException] = [""] * len(views)

        def ask(index: int) -> None:
            try:
                replies[index] = self._ask(self.messages(views[index]))
            except BaseException as error:
                replies[index] = error

        # Daemon threads instead of a pool, so that Ctrl-C does not wait for pending replies.
        threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(len(views))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return [str(reply) for reply in replies]

    def messages(self, view: View) -> list[dict[str, str]]:
        """Returns the messages of the request for the view's next action."""
        shown = len(view.history) if self.history is None else self.history
        system = view.instructions if self.system is None else self.system
        messages = [{"role": "system", "content": system}]
        for observation, action in view.history[len(view.history) - shown :] if shown else []:
            messages.append({"role": "user", "content": observation})
            messages.append({"role": "assistant", "content": action})
        messages.append({"role": "user", "content": view.observation})
        return messages

    def _ask(self, messages: list[dict[str, str]]) -> str:
        body: dict[str, Any] = {"model": self.model, "messages": messages, **self.extra}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.api_key_env):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        problem, asked = "", ""
        for attempt in range(self.retries + 1):
            if attempt:
                wait = float(asked) if asked.isdigit() else self.backoff * 2 ** (attempt - 1)
                time.sleep(min(wait, LONGEST_WAIT))
            try:
                with self._opener.open(request, timeout=self.timeout) as reply:
                    self._reached = True
                    return self._action(reply.read())
            except urllib.error.HTTPError as error:
                self._reached = True
                problem, asked = self._explain(error), error.headers.get("Retry-After", "")
                if error.code not in RETRIED:
                    raise ChatError(problem) from error
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                problem, asked = f"No reply from {self.url}: {reason}.", ""
                if isinstance(reason, NOT_THERE) and not self._reached:
                    raise ChatError(
                        f"{problem} Is the server running, and base_url right?"
                    ) from error
        raise ChatError(f"{problem} Gave up after {self.retries + 1} attempts.")

    def _action(self, reply: bytes) -> str:
        try:
            content = json.loads(reply)["choices"][0]["message"]["content"]
            if content is None:  # a reply of only reasoning or tool calls: the model said nothing
                content = ""
            return content.strip()
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ChatError(
                f"{self.url} did not reply with a chat completion (choices[0].message.content); "
                f"it said: {reply.decode('utf-8', 'replace')[:200]!r}. Is base_url right?"
            ) from error

    def _explain(self, error: urllib.error.HTTPError) -> str:
        said = ""
        try:
            said = error.read().decode("utf-8", "replace")
            said = json.loads(said)["error"]["message"]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            pass  # then the text itself, or nothing
        problem = f"{self.url} replied {error.code} {error.reason}: {str(said).strip()[:300]}"
        if error.code in (401, 403):
            has = "refused" if os.environ.get(self.api_key_env) else "not set"
            problem += f" (the key in the environment variable {self.api_key_env} is {has})"
        elif error.code == 404:
            problem += f" (is there a model {self.model!r}, and is base_url right?)"
        elif 300 <= error.code < 400:
            problem += f" (it points to {error.headers.get('Location')}: use that as base_url)"
        return problem.rstrip(".") + "."


def _check_url(base_url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        valid = False
    if not valid or any(c.isspace() for c in base_url):
        raise ConfigError(f"base_url must be like http://localhost:8000/v1, got {base_url!r}.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET and take the key to another host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        return None
