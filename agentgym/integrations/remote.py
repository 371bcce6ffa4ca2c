"""`RemoteEnv`: an environment on a server, of `agentgym serve` or of OpenEnv."""

from __future__ import annotations

import json
import reprlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

import gymnasium

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, SnapshotError
from agentgym.integrations.remote_pages import (
    NoSnapshotsError,
    RemoteError,
    authorization,
    open_socket,
    read_page,
)
from agentgym.integrations.remote_values import (
    checked,
    checked_info,
    checked_number,
    checked_snapshot,
    names_of,
)
from agentgym.snapshots import check_owner, generator_of, restoring
from agentgym.spaces import UnicodeText
from agentgym.tasks import Tasks, task_rng
from agentgym.time_limits import MOST_UNPLAYED, TIMED_OUT
from agentgym.time_step import INFO_KEYS, UNJUDGED, UNREADABLE, state_digest
from agentgym.utils.action_parsing import check_text, text_of
from agentgym.utils.arguments import check_reset_options
from agentgym.utils.masking import masked_text


class RemoteEnv(gymnasium.Env[str, str]):
    """An environment on a server that speaks OpenEnv's protocol, over a WebSocket.

    With a server of `agentgym serve`, tasks, instructions, observations and info are those of the
    environment itself. With another OpenEnv server, the tasks are `train/0`, ... and `test/0`, ...,
    which reset it with a seed derived from their name, and an action that a wrapper cannot read is
    not sent. The option `max_turns` truncates an episode, and without it, 100 such actions do.

    The connection is opened by the first reset or restore, so an environment without one can be
    pickled. `expert` returns None: servers do not show solutions.

    Snapshots hold a text of the server (see `agentgym serve`), so they continue in any process.
    Servers of others have none.

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
        self._headers = authorization(token, user)
        self._action, self._observation = action_field, observation_field
        self._timeout, self.instructions = timeout, instructions
        self.observation_space = self.action_space = UnicodeText()
        self._socket: Any = None
        tasks = self._tasks()
        self._own = tasks is not None
        self.tasks = tasks or Tasks.generated()
        self._task, self._turn = "", 0
        self._unread, self._most = 0, None  # of a server of others
        self._can_save: bool | None = None  # unknown before the first snapshot
        self._shown: str | None = None  # the last observation of an episode in progress
        self._here: dict[str, Any] | None = None  # the server's snapshot of the current state
        self._seed: int | None = None  # of `reseed`, not yet sent

    def expert(self) -> None:
        """Returns None: a server does not show solutions."""
        return

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`.

        Raises:
            UnknownTaskError: if there is no such task.
            TypeError, ValueError: for options that `TextEnv.reset` refuses.
            RemoteError: if the server cannot be reached, or refuses.
        """
        options = check_reset_options(options, None)
        given = None if (name := options.get("task")) is None else self.tasks.check(name)
        super().reset(seed=seed)  # not before: what is refused changes nothing
        drawn = int(self.np_random.integers(len(self.tasks.train)))
        self._task = self.tasks.train[drawn] if given is None else given
        self._turn, self._unread, self._shown = 0, 0, None
        self._most = options["max_turns"]
        if self._own:
            data = {"task": self._task, "seed": int(self.np_random.integers(2**31))}
            data |= {} if options["max_turns"] is None else {"max_turns": options["max_turns"]}
            if seed is not None:
                data["seed"] = seed
        else:
            data = {"seed": int(task_rng(self._task, f"remote/{seed}").integers(2**31))}
        self._here = self._seed = None
        text, _, _, _, info = self._read(self._ask("reset", data))
        return text, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`.

        Raises:
            RemoteError: if the connection is lost or the server refuses, for example because there
                is no episode in progress.
        """
        check_text(action)
        if self._seed is not None:
            self._continue(self._saved(), self._seed)
        self._here = None
        data: dict[str, Any] = {self._action: text_of(action)}
        if not self._own:
            return self._of_others(action, data)
        if isinstance(action, UnreadableAction):
            data["metadata"] = {UNREADABLE: action.feedback}
        self._turn += 1
        return self._read(self._ask("step", data))

    def _of_others(
        self, action: str, data: Mapping[str, Any]
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays a turn on a server of others, which knows no unreadable action and no limit."""
        if self._socket is None or self._shown is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step().")
        self._turn += 1
        if isinstance(action, UnreadableAction):
            self._unread += 1
            seen = {"observation": {self._observation: self._shown}}
            text, reward, terminated, truncated, info = self._read(seen)
            text, info["valid"] = f"{action.feedback}\n\n{text}", False
        else:
            text, reward, terminated, truncated, info = self._read(self._ask("step", data))
        stuck = self._most is None and self._unread == MOST_UNPLAYED
        if not terminated and (self._turn == self._most or stuck):
            truncated, self._shown = True, None
        return text, reward, terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary.

        Its `snapshot` is the text of the server, its `state` is equal for equal states.

        Raises:
            NoSnapshotsError: if the environment of the server has none.
            RemoteError: if the connection is lost.
        """
        if self._seed is not None:
            self._continue(self._saved(), self._seed)
        rng = self.np_random.bit_generator.state
        return {"env": type(self).__name__, "task": self._task, **self._saved(), "rng": rng}

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot of the same environment, on this server or one of its key.

        It needs no `reset` before.

        Returns:
            The observation and info at the snapshot.

        Raises:
            SnapshotError: if the snapshot is of another environment or damaged.
            RemoteError: if the server cannot be reached.
        """
        check_owner(snapshot, self)
        self._check_capability()
        with restoring():
            saved, generator = checked_snapshot(snapshot), generator_of(snapshot["rng"])
        found = self._continue(saved, None)
        self._np_random = generator
        return found

    def reseed(self, seed: int) -> None:
        """Samples the chance events of the rest of the episode anew: see `TextEnv.reseed`.

        The server is told with the next step or snapshot.
        """
        self._seed = seed

    @property
    def chance_in_last_step(self) -> bool:
        """Whether a chance event took part in the last step. It needs a snapshot."""
        return self._saved()["chance"]

    def _saved(self) -> dict[str, Any]:
        """Returns the server's snapshot of the current state: its text, `state` and `chance`."""
        if self._here is None:
            self._check_capability()
            try:
                self._here = checked_snapshot(self._ask("snapshot", {}))
            except _MALFORMED as error:
                raise RemoteError(f"{self._http} sent no snapshot ({error!s:.200}).") from error
        return self._here

    def _continue(self, saved: dict[str, Any], seed: int | None) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot of the server. With a seed, chance events are sampled anew."""
        data = {"snapshot": saved["snapshot"], "seed": seed}
        try:
            text, _, _, _, info = self._read(self._ask("restore", data))
        except RemoteError as error:
            if error.code == "VALIDATION_ERROR":
                raise SnapshotError(str(error)) from error
            raise
        self._here, self._seed = (saved if seed is None else None), None
        self._task, self._turn = info["task"], info["turn"]
        return text, info

    @property
    def has_snapshots(self) -> bool:
        """Whether the `/metadata` of the server lists the capabilities."""
        if self._can_save is None:
            known = self.about_server().get("capabilities")
            named = map(str, known) if isinstance(known, list) else ()
            self._can_save = {"snapshot", "restore"} <= {*named}
        return self._can_save

    def about_server(self) -> dict[str, Any]:
        """Returns the `/metadata` of the server: its name and version. Empty if it sends none.

        Raises:
            RemoteError: if the server does not answer.
        """
        page = read_page(self._http, self._headers, self._timeout, "/metadata")
        try:
            found = json.loads(page or b"{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _check_capability(self) -> None:
        """Checks that the environment of the server has snapshots.

        Raises:
            NoSnapshotsError: if it has none.
        """
        if not self.has_snapshots:
            raise NoSnapshotsError(
                f"{self._http} has no snapshots: its /metadata does not list the capability "
                "`snapshot`. Serve the environment with `agentgym serve`."
            )

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
        if (rules := seen.get("instructions")) is not None:
            self.instructions = checked(rules, "rules", str)
        reward = checked_number(data.get("reward") or 0.0, "reward")
        done = checked(data.get("done") or False, "done", bool)
        cut = seen.get("truncated")
        truncated = done and cut is not None and checked(cut, "truncated", bool)
        success = done and not truncated and reward > 0
        self._shown = None if done else text
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
            sent = {name: seen[name] for name in (*INFO_KEYS, TIMED_OUT, UNJUDGED) if name in seen}
            info |= {name: checked_info(name, value) for name, value in sent.items()}
        return text, reward, done and not truncated, truncated, info

    def _ask(self, kind: str, data: Mapping[str, Any]) -> Any:
        """Sends a message and returns the data of its reply."""
        known = self._socket is not None
        if not known:
            if kind not in _OPENING:
                raise gymnasium.error.ResetNeeded("Call reset() before step().")
            self._socket = self._connect()
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            text = self._socket.recv(timeout=self._timeout)
        except Exception as error:  # of the network, or of websockets
            self.close()
            if kind in _OPENING and known and not isinstance(error, TimeoutError):
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
            if kind in _OPENING and known and told.get("code") == "SESSION_ERROR":
                return self._ask(kind, data)
            message, code = (str(told.get(name)) for name in ("message", "code"))
            raise RemoteError(f"{self._http}: {message:.500} ({code:.50})", code)
        return found

    def _connect(self) -> Any:
        return open_socket(self._socket_url, self._headers, self._timeout)

    def _tasks(self) -> Tasks | None:
        """Returns the tasks of a server of `agentgym serve`, None for another one.

        Only a server that knows no such page (404, 405) is another one.
        """
        text = read_page(self._http, self._headers, self._timeout, "/tasks")
        if text is None:
            return None
        try:
            found = checked(json.loads(text), "the answer", dict)
            return Tasks(names_of(found["train"]), names_of(found["test"]))
        except _MALFORMED as error:
            raise RemoteError(
                f"{self._http}/tasks sent no tasks as `agentgym serve` does ({error!r:.200})."
            ) from error


_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError, OverflowError)
"""What reading an answer of another form raises."""
_OPENING = frozenset({"reset", "restore"})
"""Messages that start an episode, so that they may open a connection."""
