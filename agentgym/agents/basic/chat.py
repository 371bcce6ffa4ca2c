"""`ChatAgent`: plays with a language model on an OpenAI-compatible chat server."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agentgym.agents.basic.http_client import (
    Deadline,
    UnusableReply,
    make_opener,
    read_body,
    retry_after,
)
from agentgym.agents.basic.view import View
from agentgym.errors import AgentGymError, ConfigError
from agentgym.utils.arguments import check_types, keyword_parameters

T = TypeVar("T")
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
LONGEST_WAIT = 60.0
# If the server was never reached, these errors mean a wrong address. They are not retried.
NOT_THERE = (ConnectionRefusedError, socket.gaierror, ssl.SSLError)


class ChatError(AgentGymError, RuntimeError):
    """The chat server cannot be reached, refuses the request, or sends no chat completion."""


@dataclass
class Usage:
    """Tokens that a chat server reports, summed over the replies to an agent.

    Attributes:
        requests: chat completions received.
        prompt_tokens: tokens of the prompts.
        completion_tokens: tokens of the completions.
        unreported: completions for which the server reported no usage. Both sums are too low if it
            is above 0.
        prompt_price: price per million prompt tokens. None: unknown.
        completion_price: price per million completion tokens. None: unknown.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported: int = 0
    prompt_price: float | None = None
    completion_price: float | None = None

    @property
    def cost(self) -> float | None:
        """The price of all tokens. None if a price is unknown."""
        if self.prompt_price is None or self.completion_price is None:
            return None
        cost = self.prompt_tokens * self.prompt_price
        return (cost + self.completion_tokens * self.completion_price) / 1e6

    def add(self, usage: Any, costs: Counter[str] | None = None) -> None:
        """Adds the field "usage" of a completion, and its tokens to the costs of an episode."""
        fields = usage if isinstance(usage, dict) else {}
        names = ("prompt_tokens", "completion_tokens")
        counts = [fields.get(name) for name in names]
        known = [n if type(n) is int and n >= 0 else None for n in counts]
        self.requests += 1
        self.unreported += None in known
        self.prompt_tokens += known[0] or 0
        self.completion_tokens += known[1] or 0
        if costs is not None:
            costs.update({name: n for name, n in zip(names, known, strict=True) if n})


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
        retries: further attempts after a failed connection, an overload, a server error or a reply
            without a chat completion.
        backoff: seconds before the first retry. The delay doubles with every retry.
        timeout: seconds to wait for a complete reply to one attempt.
        prompt_price: price per million prompt tokens, for `usage.cost`.
        completion_price: price per million completion tokens.

    Attributes:
        usage: the tokens used so far.
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
        prompt_price: float | None = None,
        completion_price: float | None = None,
    ):
        numbers = {"history": history, "retries": retries, "backoff": backoff, "timeout": timeout}
        check_types("ChatAgent", keyword_parameters(ChatAgent), numbers)
        _check_url(base_url)
        if history is not None and history < 0:
            raise ConfigError(f"history must be None or at least 0, got {history}.")
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, got {retries}.")
        if not 0 <= backoff < math.inf:
            raise ConfigError(f"backoff must be finite and at least 0, got {backoff}.")
        if not 0 < timeout < math.inf:
            raise ConfigError(f"timeout must be finite and above 0, got {timeout}.")
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
        self.usage = Usage(prompt_price=prompt_price, completion_price=completion_price)
        self._counting = threading.Lock()
        self._reached = False
        self._opener = make_opener()

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns the model's action for each view.

        Raises:
            ChatError: if the server sends no usable reply.
        """
        replies: list[str | BaseException] = [""] * len(views)

        def ask(index: int) -> None:
            try:
                replies[index] = self._ask(self.messages(views[index]), views[index].costs)
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
        known = len(view.history)
        shown = known if self.history is None else min(self.history, known)
        system = view.instructions if self.system is None else self.system
        messages = [{"role": "system", "content": system}]
        for observation, action in view.history[known - shown :]:
            messages.append({"role": "user", "content": observation})
            messages.append({"role": "assistant", "content": action})
        messages.append({"role": "user", "content": view.observation})
        return messages

    def _ask(self, messages: list[dict[str, str]], costs: Counter[str]) -> str:
        body: dict[str, Any] = {"model": self.model, "messages": messages, **self.extra}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        return self.post(self.url, body, lambda data: self._action(data, costs))

    def post(self, url: str, body: Mapping[str, Any], read: Callable[[bytes], T]) -> T:
        """Returns the contents of the reply to a request, which is repeated if it fails.

        Args:
            url: address on the server.
            body: JSON values.
            read: returns the contents of a reply, or raises `UnusableReply`.

        Raises:
            ChatError: if the server sends no usable reply.
        """
        headers = {"Content-Type": "application/json"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        problem, asked = "", None
        for attempt in range(self.retries + 1):
            if attempt:
                wait = self.backoff * 2 ** (attempt - 1) if asked is None else asked
                time.sleep(min(wait, LONGEST_WAIT))
            asked = None
            deadline = Deadline(self.timeout)
            request.deadline = deadline  # type: ignore[attr-defined]
            try:
                with deadline, self._opener.open(request, timeout=self.timeout) as reply:
                    self._reached = True
                    data = read_body(reply)
                    deadline.check()
                    return read(data)
            except urllib.error.HTTPError as error:
                self._reached = True
                problem = self._hidden(self._explain(error, url))
                asked = retry_after(error.headers.get("Retry-After", ""), time.time())
                if error.code not in RETRIED:
                    raise ChatError(problem) from error
            except UnusableReply as error:
                problem = self._hidden(str(error))
                # An HTML page as the first reply is a mistake in the address, not an overload.
                if error.page and not self.usage.requests:
                    raise ChatError(f"{problem} Is base_url right?") from error
            except (OSError, http.client.HTTPException) as error:
                reason: Any = getattr(error, "reason", None) or error
                if deadline.expired:
                    reason = f"it took more than {self.timeout:g} s"
                problem = self._hidden(f"No reply from {url}: {reason}.")
                if isinstance(reason, NOT_THERE) and not self._reached:
                    raise ChatError(
                        f"{problem} Is the server running, and base_url right?"
                    ) from error
        raise ChatError(f"{problem} Gave up after {self.retries + 1} attempts.")

    def _key(self) -> str:
        """Returns the key, or "" if there is none."""
        key = os.environ.get(self.api_key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ChatError(
                f"The key in the environment variable {self.api_key_env} holds characters that an "
                "HTTP header must not have."
            )
        return key

    def _hidden(self, text: str) -> str:
        """Returns the text without the key and without passwords of addresses."""
        if key := os.environ.get(self.api_key_env, "").strip():
            text = text.replace(key, "***")
        return hide_userinfo(text)

    def _action(self, reply: bytes, costs: Counter[str]) -> str:
        if not reply.strip():
            raise UnusableReply(f"{self.url} sent an empty reply.")
        try:
            completion = json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise self._unusable(reply) from error
        try:
            content = completion["choices"][0]["message"]["content"]
            if content is None:  # only reasoning or tool calls
                content = ""
            if isinstance(content, list):
                content = "".join(part["text"] for part in content if part["type"] == "text")
            action = content.strip()
        except (LookupError, TypeError, AttributeError) as error:
            raise self._unusable(reply) from error
        with self._counting:
            self.usage.add(completion.get("usage"), costs)
        return action

    def _unusable(self, reply: bytes) -> UnusableReply:
        return UnusableReply(
            f"{self.url} did not reply with a chat completion (choices[0].message.content), but "
            f"with {reply[:1000].decode('utf-8', 'replace')[:200]!r}.",
            page=not reply.lstrip().startswith(b"{"),
        )

    def _explain(self, error: urllib.error.HTTPError, url: str) -> str:
        said = ""
        try:
            said = read_body(error).decode("utf-8", "replace")
            said = json.loads(said)["error"]["message"]
        except (OSError, http.client.HTTPException, UnusableReply):
            pass  # then nothing
        except (ValueError, LookupError, TypeError, RecursionError):
            pass  # then the text itself
        problem = f"{url} replied {error.code} {error.reason}: {str(said).strip()[:300]}"
        if error.code in (401, 403):
            has = "refused" if self._key() else "not set"
            problem += f" (the key in the environment variable {self.api_key_env} is {has})"
        elif error.code == 404:
            problem += f" (is there a model {self.model!r}, and is base_url right?)"
        elif 300 <= error.code < 400:
            problem += f" (it points to {error.headers.get('Location')}: use that as base_url)"
        return problem.rstrip(".") + "."


def hide_userinfo(text: str) -> str:
    """Returns a text in which `user:password@` of addresses is replaced by `***@`."""
    return re.sub(r"(?<=://)[^/?#\s]*@", "***@", text)


def _check_url(base_url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        valid = valid and "@" not in parts.netloc
        (parts.hostname or "").encode("idna")
    except ValueError:  # a port that is no number, a name that is no host's
        valid = False
    if not valid or any(c.isspace() for c in base_url):
        raise ConfigError(
            "base_url must be like http://localhost:8000/v1, without user and password, got "
            f"{hide_userinfo(base_url)!r}."
        )
