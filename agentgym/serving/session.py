"""`Session`: one client's environment, driven by the messages of OpenEnv's protocol.

A message is `{"type": "reset" | "step" | "state" | "close", "data": {...}}`. The reply is
`{"type": "observation" | "state", "data": {...}}` or
`{"type": "error", "data": {"message": ..., "code": ...}}`. The protocol is that of `openenv` 0.10,
with the further types "snapshot" and "restore".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from gymnasium.error import ResetNeeded

from agentgym.core import UnreadableAction
from agentgym.errors import AgentGymError
from agentgym.registration.making import TextGym
from agentgym.serving.protocol import (
    CAPACITY_REACHED,
    EXECUTION_ERROR,
    UNKNOWN_TYPE,
    VALIDATION_ERROR,
    ProtocolError,
)
from agentgym.serving.seal import Seal
from agentgym.snapshots import chance_probe, restore_snapshot, snapshot_of
from agentgym.time_limits import TIMED_OUT, limit_env
from agentgym.time_step import INFO_KEYS, UNJUDGED, UNREADABLE

RESET: dict[str, type] = {"seed": int, "episode_id": str, "task": str, "max_turns": int}
"""The arguments of a reset and their types. Each may be left out or null."""
RESTORE: dict[str, type] = {"snapshot": str, "seed": int}
"""The arguments of a restore and their types. The seed may be left out or null."""
LARGEST_SEED = 2**63 - 1


class Session:
    """The environment of one client. Only one call may run at a time.

    Args:
        make: makes the environment.
        seconds: time limit of a reset or a step, which truncates the episode.
        seal: makes texts of snapshots. None: the session has no snapshots.

    Attributes:
        id: a random name that cannot be guessed.
    """

    def __init__(
        self,
        make: Callable[[], TextGym],
        seconds: float | None = None,
        seal: Seal | None = None,
    ):
        self.id = secrets.token_hex(16)
        self._env = limit_env(make, seconds)()
        self._episode = ""
        self._info: Mapping[str, Any] = {}
        self._seal, self._ends = seal, (False, False)
        self._had_chance: Callable[[], bool] = lambda: False

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the reply to a message, None for "close".

        Raises:
            ProtocolError: if there is none.
        """
        kind, data = message.get("type"), message.get("data", {})
        if not isinstance(data, dict):
            raise ProtocolError(
                VALIDATION_ERROR, f"data must be an object, got {type(data).__name__}."
            )
        match kind:
            case "reset":
                return {"type": "observation", "data": self.reset(data)}
            case "step":
                return {"type": "observation", "data": self.step(data)}
            case "state":
                return {"type": "state", "data": self.state()}
            case "snapshot" if self._seal is not None:
                return {"type": "snapshot", "data": self.snapshot()}
            case "restore" if self._seal is not None:
                return {"type": "observation", "data": self.restore(data)}
            case "close":
                return None
        raise ProtocolError(UNKNOWN_TYPE, f"Unknown message type: {kind!r:.80}")

    def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Starts an episode and returns its first observation.

        Raises:
            ProtocolError: for an unknown argument, or a value that the environment refuses.
        """
        check_fields("reset", data, RESET)
        seed = data.get("seed")
        given = {name: data.get(name) for name in ("task", "max_turns")}
        options = {name: value for name, value in given.items() if value is not None}
        try:
            text, self._info = self._env.reset(seed=seed, options=options)
        except (AgentGymError, ValueError) as error:
            raise ProtocolError(VALIDATION_ERROR, f"{error!s:.500}") from error
        self._ends, self._had_chance = (False, False), lambda: False
        return self._begun(data.get("episode_id"), text)

    def step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Plays a turn. `data` is the action, with the key `text`.

        With `unreadable` in its `metadata`, it is invalid, and this text is the feedback.

        Raises:
            ProtocolError: if the action is not text, or there is no episode in progress.
        """
        text = data.get("text")
        if not isinstance(text, str) or data.keys() - {"text", "metadata"}:
            raise ProtocolError(
                VALIDATION_ERROR, f'An action is {{"text": "..."}}, got {dict(data)!r:.80}.'
            )
        metadata = data.get("metadata")
        feedback = metadata.get(UNREADABLE) if isinstance(metadata, dict) else None
        if isinstance(feedback, str):
            text = UnreadableAction(text, feedback)
        had_chance = chance_probe(self._env)
        try:
            observation, reward, terminated, truncated, self._info = self._env.step(text)
        except ResetNeeded as error:
            raise ProtocolError(EXECUTION_ERROR, str(error)) from error
        self._ends, self._had_chance = (bool(terminated), bool(truncated)), had_chance
        return self._observation(observation, float(reward), terminated, truncated, {})

    def snapshot(self) -> dict[str, Any]:
        """Returns the text of a snapshot, its length, a digest of the state and the last chance.

        `state` is equal for equal states, whatever the turn and the random state. `chance` is
        whether a chance event took part in the last turn.

        Raises:
            ProtocolError: before the first reset, or if the snapshot is too long.
        """
        assert self._seal is not None
        try:
            saved = snapshot_of(self._env)
        except ResetNeeded as error:
            raise ProtocolError(EXECUTION_ERROR, str(error)) from error
        chance = self._had_chance()
        last = {"terminated": self._ends[0], "truncated": self._ends[1], "chance": chance}
        return {**self._seal.write(saved, last), "chance": chance}

    def restore(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Continues from a snapshot of the same environment and returns its observation.

        Args:
            data: the text of the snapshot, and a seed for the chance events from now on. Without
                one, they are those of the episode of the snapshot.

        Raises:
            ProtocolError: if the text is damaged, or of another environment.
        """
        assert self._seal is not None
        check_fields("restore", data, RESTORE)
        saved, last = self._seal.read(data.get("snapshot"))
        try:
            text, self._info = restore_snapshot(self._env, saved)
            if data.get("seed") is not None:
                self._env.unwrapped.reseed(data["seed"])  # type: ignore[attr-defined]
        except (AgentGymError, ValueError) as error:
            raise ProtocolError(VALIDATION_ERROR, f"{error!s:.500}") from error
        self._ends = last["terminated"], last["truncated"]
        self._had_chance = lambda: last["chance"]
        return self._begun(None, text)

    def state(self) -> dict[str, Any]:
        """Returns the state that clients may see: the episode, its task and the turns played."""
        turn, task = self._info.get("turn", 0), self._info.get("task", "")
        return {"episode_id": self._episode, "step_count": turn, "task": task}

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def _begun(self, episode: str | None, text: str) -> dict[str, Any]:
        """Returns the first observation of an episode, with its instructions."""
        self._episode = episode or secrets.token_hex(8)
        instructions = {"instructions": self._env.get_wrapper_attr("instructions")}
        return self._observation(text, None, *self._ends, instructions)

    def _observation(
        self,
        text: str,
        reward: float | None,
        terminated: bool,
        truncated: bool,
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        names = (*INFO_KEYS, TIMED_OUT, UNJUDGED)
        info = {name: self._info[name] for name in names if name in self._info}
        ends = {"terminated": bool(terminated), "truncated": bool(truncated) and not terminated}
        return {
            "observation": {"text": text, **info, **ends, **more, "metadata": {}},
            "reward": reward,
            "done": bool(terminated or truncated),
        }


def check_fields(kind: str, data: Mapping[str, Any], known: Mapping[str, type]) -> None:
    """Checks the names, types and seed of the data of a message.

    Raises:
        ProtocolError: if one of them is wrong.
    """
    for name, value in data.items():
        if name not in known:
            names = ", ".join(known)
            raise ProtocolError(VALIDATION_ERROR, f"{kind} takes {names}, got {name!r:.80}.")
        wrong = not isinstance(value, known[name]) or isinstance(value, bool)
        if value is not None and wrong:
            raise ProtocolError(
                VALIDATION_ERROR,
                f"{name} must be {known[name].__name__} or null, got {value!r:.80}.",
            )
    check_seed(data.get("seed"))


def check_seed(seed: Any) -> None:
    """Checks a seed, which may be None.

    Raises:
        ProtocolError: unless it is a whole number from 0 to `LARGEST_SEED`.
    """
    right = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= LARGEST_SEED
    if seed is not None and not right:
        raise ProtocolError(VALIDATION_ERROR, f"seed must be in [0, 2**63), got {seed!s:.80}.")


def fork_seeds(data: Mapping[str, Any], most: int) -> list[int]:
    """Returns the seeds of the copies that a fork asks for: given ones, or new ones.

    Copies without seeds would all have the same future.

    Args:
        data: `count`, `seeds`, or both.
        most: maximum number of copies.

    Raises:
        ProtocolError: if the data are wrong, or there are too many copies.
    """
    check_fields("fork", data, {"count": int, "seeds": list})
    seeds, count = data.get("seeds"), data.get("count")
    count = len(seeds or ()) if count is None else count
    if count < 1 or (seeds is not None and len(seeds) != count):
        raise ProtocolError(
            VALIDATION_ERROR,
            f"fork takes count, at least 1, or as many seeds, got count={count!s:.80}"
            + ("." if seeds is None else f" and {len(seeds)} seeds."),
        )
    if count > most:
        raise ProtocolError(
            CAPACITY_REACHED,
            f"There are at most {most} sessions, and {count!s:.80} were asked for.",
        )
    if seeds is None:
        return [secrets.randbelow(LARGEST_SEED + 1) for _ in range(count)]
    for seed in seeds:
        if seed is None:
            raise ProtocolError(VALIDATION_ERROR, "seeds must be numbers, got null.")
        check_seed(seed)
    return list(seeds)
