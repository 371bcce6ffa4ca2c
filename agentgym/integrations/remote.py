"""`RemoteEnv`: an environment on a server, of `agentgym serve` or of OpenEnv."""

from __future__ import annotations

import base64
import http.client
import json
import os
import reprlib
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from agentgym.errors import AgentGymError, ConfigError, needs_extra
from agentgym.spaces import UnicodeText
from agentgym.tasks import NumberedTasks, Tasks, task_rng
from agentgym.time_limits import TIMED_OUT
from agentgym.time_step import INFO_KEYS, LARGEST_REWARD, state_digest
from agentgym.utils.masking import MASK, masked_text


class RemoteError(AgentGymError, RuntimeError):
    """A server does not answer, or answers with an error."""


class RemoteEnv(gymnasium.Env[str, str]):
    """An environment on a server that speaks OpenEnv's protocol, over a WebSocket.

    With a server of `agentgym serve`, tasks, instructions, observations and info are those of the
    environment itself. With another OpenEnv server, the tasks are `train/0`, ... and `test/0`, ...,
    which reset it with a seed derived from their name.

    The connection is opened by the first reset, so an environment that was not yet reset can be
    pickled. `expert` returns None: servers do not show solutions.

        gymnasium.make("AgentGym/Remote-v0", url="http://localhost:8000/WebShop-v0")

    Args:
        url: address of the server, with the name of the environment if it serves several.
        token: the server's token. "": that of the environment variable AGENTGYM_TOKEN, if it is
            set.
        action_field: name of the text in an action.
        observation_field: name of the text in an observation.
        instructions: rules and action format, for servers that send none.
        timeout: maximum seconds to wait for a reply.

    Raises:
        MissingExtraError: without the package websockets.
        RemoteError: if the server does not answer.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        action_field: str = "text",
        observation_field: str = "text",
        instructions: str = "",
        timeout: float = 60.0,
    ):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
            shown = masked_text(url)
            raise ConfigError(f"url must be such as http://localhost:8000, got {shown!r}.")
        if parts.query or parts.fragment:
            shown = masked_text(url)
            raise ConfigError(f"url must end with its path, without ? and #, got {shown!r}.")
        secure = parts.scheme in ("https", "wss")
        user, _, host = parts.netloc.rpartition("@")
        self._http = f"http{'s' * secure}://{host}{parts.path.rstrip('/')}"
        self._socket_url = f"ws{'s' * secure}://{host}{parts.path.rstrip('/')}/ws"
        self._headers = _authorization(token, user)
        self._action, self._observation = action_field, observation_field
        self._timeout, self.instructions = timeout, instructions
        self.observation_space = self.action_space = UnicodeText()
        self._socket: Any = None
        tasks = self._tasks()
        self._own = tasks is not None
        self.tasks = tasks or Tasks.generated()
        self._task, self._turn = "", 0

    def expert(self) -> None:
        """Returns None: a server does not show solutions."""
        return

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`.

        Raises:
            UnknownTaskError: if there is no such task.
            RemoteError: if the server cannot be reached, or refuses.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        drawn = int(self.np_random.integers(len(self.tasks.train)))
        task = options.get("task")
        self._task = self.tasks.train[drawn] if task is None else self.tasks.check(task)
        self._turn = 0
        if self._own:
            data = {"task": self._task, "seed": int(self.np_random.integers(2**31))}
            data |= {"max_turns": options["max_turns"]} if options.get("max_turns") else {}
            if seed is not None:
                data["seed"] = seed
        else:
            data = {"seed": int(task_rng(self._task, f"remote/{seed}").integers(2**31))}
        text, _, _, _, info = self._read(self._ask("reset", data))
        return text, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`.

        Raises:
            RemoteError: if the connection is lost or the server refuses, for example because there
                is no episode in progress.
        """
        if not isinstance(action, str):
            raise TypeError(f"An action must be a str, got {type(action).__name__}.")
        self._turn += 1
        return self._read(self._ask("step", {self._action: str(action)}))

    def close(self) -> None:
        """Ends the session."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the connection: a copy opens its own at its first reset."""
        return {**self.__dict__, "_socket": None}

    def _read(self, data: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Returns an observation of the server as the result of a step."""
        try:
            return self._result(data)
        except _MALFORMED as error:
            raise RemoteError(
                f"{self._http} sent no observation of OpenEnv's protocol, but "
                f"{reprlib.repr(data):.200} ({error!s:.200})."
            ) from error

    def _result(self, data: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        seen = checked(checked(data, "data", dict)["observation"], "observation", dict)
        text = seen.get(self._observation)
        if text is None:
            raise RemoteError(
                f"Observations of {self._http} have no {self._observation!r}. Set "
                f"observation_field to one of {', '.join(map(str, seen)):.300}."
            )
        text = checked(text, self._observation, str)
        self.instructions = checked(seen.get("instructions", self.instructions), "rules", str)
        reward = checked_number(data.get("reward") or 0.0, "reward")
        done = checked(data.get("done") or False, "done", bool)
        truncated = done and checked(seen.get("truncated", False), "truncated", bool)
        success = done and not truncated and reward > 0
        info: dict[str, Any] = {
            "task": self._task,
            "turn": self._turn,
            "valid": True,
            "success": success,
            "progress": float(success),
            "admissible": (),
            "state_key": state_digest(text),
            "reward_terms": {"task": reward},
        }
        if self._own:
            sent = {name: seen[name] for name in (*INFO_KEYS, TIMED_OUT) if name in seen}
            info |= {name: checked_info(name, value) for name, value in sent.items()}
        return text, reward, done and not truncated, truncated, info

    def _ask(self, kind: str, data: Mapping[str, Any]) -> Any:
        """Sends a message and returns the data of its reply."""
        known = self._socket is not None
        if not known:
            if kind != "reset":
                raise gymnasium.error.ResetNeeded("Call reset() before step().")
            self._socket = self._connect()
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            text = self._socket.recv(timeout=self._timeout)
        except Exception as error:  # of the network, or of websockets
            self.close()
            if kind == "reset" and known and not isinstance(error, TimeoutError):
                return self._ask(kind, data)  # servers end idle sessions
            raise RemoteError(f"The connection to {self._http} is lost: {error!r:.200}") from error
        try:
            reply = json.loads(text)
            answer, found = reply["type"], reply["data"]
        except _MALFORMED as error:
            self.close()
            raise RemoteError(
                f"{self._http} sent no message of OpenEnv's protocol ({error!r:.200})."
            ) from error
        if answer == "error":
            told = found if isinstance(found, dict) else {"message": found}
            if told.get("code") in ("SESSION_ERROR", "CAPACITY_REACHED"):
                self.close()
            if kind == "reset" and known and told.get("code") == "SESSION_ERROR":
                return self._ask(kind, data)
            message, code = (str(told.get(name)) for name in ("message", "code"))
            raise RemoteError(f"{self._http}: {message:.500} ({code:.50})")
        return found

    def _connect(self) -> Any:
        with needs_extra("AgentGym/Remote-v0", "serve"):
            from websockets.exceptions import InvalidStatus
            from websockets.sync.client import ClientConnection, connect

        class Connection(ClientConnection):
            def handshake(self, *args: Any, **kwargs: Any) -> None:
                try:
                    super().handshake(*args, **kwargs)
                except InvalidStatus as error:  # some versions would follow a redirect
                    raise ConnectionError(str(error)) from error

        try:
            return connect(
                self._socket_url, additional_headers=self._headers, open_timeout=self._timeout,
                max_size=_LONGEST, create_connection=Connection,
            )  # fmt: skip
        except Exception as error:
            raise RemoteError(f"{self._socket_url} does not answer: {error!r:.200}") from error

    def _tasks(self) -> Tasks | None:
        """Returns the tasks of a server of `agentgym serve`, None for another one.

        Only a server that knows no such page (404, 405) is another one.
        """
        text = self._page("/tasks")
        if text is None:
            return None
        try:
            found = checked(json.loads(text), "the answer", dict)
            return Tasks(_names(found["train"]), _names(found["test"]))
        except _MALFORMED as error:
            raise RemoteError(
                f"{self._http}/tasks sent no tasks as `agentgym serve` does ({error!r:.200})."
            ) from error

    def _page(self, path: str) -> bytes | None:
        """Returns a page of the server, None if there is no such page."""
        request = urllib.request.Request(self._http + path, headers=self._headers)
        for wait in (*RETRY_SECONDS, None):
            try:
                with _OPENER.open(request, timeout=self._timeout) as reply:
                    text = reply.read(_LONGEST + 1)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code in (404, 405):
                    return None
                if error.code in _BUSY and wait is not None:
                    time.sleep(wait)
                    continue
                raise RemoteError(self._refusal(path, error)) from error
            except (OSError, http.client.HTTPException) as error:
                raise RemoteError(f"{self._http} does not answer: {error!r:.200}") from error
            if len(text) > _LONGEST:
                raise RemoteError(f"{self._http}{path} sent more than {_LONGEST:,} bytes.")
            return text
        raise AssertionError("the last try returns or raises")

    def _refusal(self, path: str, error: urllib.error.HTTPError) -> str:
        if error.code in (401, 403):
            return f"{self._http} asks for another token, or refuses this host ({error.code})."
        if 300 <= error.code < 400:
            place = masked_text(str(error.headers.get("Location")))
            return f"{self._http}{path} points to {place:.200}: use that address as url."
        return f"{self._http}{path} answers with the status {error.code}. Try again later."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes an error of a redirect, which would carry the token to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Returns no request."""


_OPENER = urllib.request.build_opener(_NoRedirects)
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError, OverflowError)
"""What reading an answer of another form raises."""
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of servers that may answer later."""
RETRY_SECONDS = (0.5, 1.0, 2.0)
"""Waits before further tries."""
_LONGEST = 1 << 26
_MOST_TASKS = 1 << 53


def _authorization(token: str, user: str) -> dict[str, str]:
    """Returns the header for a token, or else for the user and password in an address."""
    token = os.environ.get("AGENTGYM_TOKEN", "") if token in ("", MASK) else token
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user and MASK not in user:
        words = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
        return {"Authorization": f"Basic {words}"}
    return {}


def checked(value: Any, name: str, kind: type) -> Any:
    """Returns a value of a server if it has a type. Raises TypeError otherwise."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} must be {kind.__name__}, got {reprlib.repr(value)}")
    return value


def checked_number(value: Any, name: str) -> float:
    """Returns a number of a server if it is finite. Raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {reprlib.repr(value)}")
    if not abs(value) <= LARGEST_REWARD:
        raise ValueError(f"{name} must be finite, got {reprlib.repr(value)}")
    return float(value)


def checked_info(name: str, value: Any) -> Any:
    """Returns a value of `info` that a server sent. Raises an error for another type or range."""
    match name:
        case "task" | "state_key":
            return checked(value, name, str)
        case "valid" | "success" | "timed_out":
            return checked(value, name, bool)
        case "turn":
            if not 0 <= checked(value, name, int) < 2**53:
                raise ValueError(f"turn must be at least 0, got {reprlib.repr(value)}")
            return value
        case "progress":
            if not 0 <= checked_number(value, name) <= 1:
                raise ValueError(f"progress must be in [0, 1], got {value}")
            return float(value)
        case "admissible":
            return tuple(checked(each, "an admissible action", str) for each in
                         checked(value, name, list))  # fmt: skip
    terms = checked(value, name, dict).items()
    return {term: checked_number(each, f"reward term {term!r:.50}") for term, each in terms}


def _names(split: Any) -> Sequence[str]:
    split = checked(split, "a split", dict)
    if "prefix" not in split:
        return tuple(
            checked(name, "a task", str) for name in checked(split["names"], "names", list)
        )
    bounds = [checked(bound, "a bound", int) for bound in checked(split["range"], "range", list)]
    if any(abs(bound) > _MOST_TASKS for bound in bounds):
        raise ValueError(f"a range has bounds of at most 2**53, got {reprlib.repr(bounds)}")
    return NumberedTasks(checked(split["prefix"], "prefix", str), range(*bounds))
