"""`RemoteEnv`: an environment on a server, of `agentgym serve` or of OpenEnv."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from agentgym.errors import AgentGymError, ConfigError, needs_extra
from agentgym.spaces import UnicodeText
from agentgym.tasks import NumberedTasks, Tasks, task_rng
from agentgym.time_step import INFO_KEYS


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
        token: the server's token. "": none.
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
            raise ConfigError(f"url must be such as http://localhost:8000, got {url!r}.")
        secure = parts.scheme in ("https", "wss")
        self._http = f"http{'s' * secure}://{parts.netloc}{parts.path.rstrip('/')}"
        self._socket_url = f"ws{'s' * secure}://{parts.netloc}{parts.path.rstrip('/')}/ws"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
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
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RemoteError(
                f"{self._http} sent no observation of OpenEnv's protocol, but {data!r:.200} "
                f"({error!r:.100})."
            ) from error

    def _result(self, data: Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        seen = data["observation"]
        text = seen.get(self._observation)
        if text is None:
            raise RemoteError(
                f"Observations have no {self._observation!r}. Set observation_field to one of "
                f"{', '.join(seen)}."
            )
        self.instructions = seen.get("instructions", self.instructions)
        reward, done = float(data.get("reward") or 0.0), bool(data.get("done"))
        if not math.isfinite(reward):
            raise ValueError(f"the reward is {reward}")
        truncated = done and bool(seen.get("truncated", False))
        success = done and not truncated and reward > 0
        info: dict[str, Any] = {
            "task": self._task,
            "turn": self._turn,
            "valid": True,
            "success": success,
            "progress": float(success),
            "admissible": (),
            "state_key": str(text),
            "reward_terms": {"task": reward},
        }
        if self._own:
            info |= {name: seen[name] for name in INFO_KEYS if name in seen}
            info["admissible"] = tuple(info["admissible"])
        return str(text), reward, done and not truncated, truncated, info

    def _ask(self, kind: str, data: Mapping[str, Any]) -> Any:
        """Sends a message and returns the data of its reply."""
        known = self._socket is not None
        if not known:
            if kind != "reset":
                raise gymnasium.error.ResetNeeded("Call reset() before step().")
            self._socket = self._connect()
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            reply = json.loads(self._socket.recv(timeout=self._timeout))
            answer, found = reply["type"], reply["data"]
        except Exception as error:  # of the network, or of websockets
            self.close()
            if kind == "reset" and known and not isinstance(error, TimeoutError):
                return self._ask(kind, data)  # servers end idle sessions
            raise RemoteError(f"The connection to {self._http} is lost: {error!r:.200}") from error
        if answer == "error":
            told = found if isinstance(found, dict) else {"message": found}
            if told.get("code") in ("SESSION_ERROR", "CAPACITY_REACHED"):
                self.close()
            if kind == "reset" and known and told.get("code") == "SESSION_ERROR":
                return self._ask(kind, data)
            raise RemoteError(f"{self._http}: {told.get('message')} ({told.get('code')})")
        return found

    def _connect(self) -> Any:
        with needs_extra("AgentGym/Remote-v0", "serve"):
            from websockets.sync.client import connect
        try:
            return connect(
                self._socket_url, additional_headers=self._headers, open_timeout=self._timeout,
                max_size=1 << 26,
            )  # fmt: skip
        except Exception as error:
            raise RemoteError(f"{self._socket_url} does not answer: {error!r:.200}") from error

    def _tasks(self) -> Tasks | None:
        """Returns the tasks of a server of `agentgym serve`, None for another one."""
        request = urllib.request.Request(f"{self._http}/tasks", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as reply:
                found = json.load(reply)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                raise RemoteError(f"{self._http} asks for another token.") from error
            return None
        except OSError as error:
            raise RemoteError(f"{self._http} does not answer: {error!r:.200}") from error
        except ValueError:
            return None
        try:
            return Tasks(_names(found["train"]), _names(found["test"]))
        except (KeyError, TypeError, ValueError):
            return None


def _names(split: Mapping[str, Any]) -> Sequence[str]:
    if "prefix" in split:
        return NumberedTasks(split["prefix"], range(*split["range"]))
    return tuple(split["names"])
