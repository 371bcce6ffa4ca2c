"""`Seal`: snapshots of a served environment as texts, which clients keep and cannot forge."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping
from typing import Any

from agentgym.registration.making import TextGym, env_name
from agentgym.serving.protocol import EXECUTION_ERROR, VALIDATION_ERROR, ProtocolError
from agentgym.snapshots import state_key
from agentgym.version import __version__

MOST_JSON_BYTES = 1 << 24
"""Size of the JSON of a snapshot."""


class Seal:
    """Makes texts of the snapshots of one environment and reads them.

    A text is base64 of a keyed digest (HMAC-SHA256) and of the compressed JSON of a snapshot, with
    the id, the arguments and the version of the environment. The digest is compared first, so that
    texts of others are never decompressed. A text is not encrypted.

    Args:
        env: the environment.
        key: secret of the server.
        longest: maximum length of a text, in characters.
    """

    def __init__(self, env: TextGym, key: bytes, longest: int):
        self._key, self._longest = key, longest
        spec = env.spec
        wrappers = () if spec is None else spec.additional_wrappers
        arguments = [{} if spec is None else spec.kwargs, wrappers]
        words = json.dumps(arguments, sort_keys=True, default=repr)
        self._owner = {
            "id": env_name(env),
            "arguments": self._digest("arguments", words.encode()).hex(),
            "version": __version__,
        }

    def write(self, snapshot: dict[str, Any], last: Mapping[str, bool]) -> dict[str, Any]:
        """Returns the text of a snapshot, its length and a digest of the state.

        Args:
            snapshot: a snapshot of `snapshot_of`.
            last: facts about the last turn.

        Raises:
            ProtocolError: if the snapshot is too long for a message.
        """
        content = {**self._owner, "last": last, "snapshot": snapshot}
        packed = json.dumps(content, separators=(",", ":")).encode()
        data = zlib.compress(packed, 1)
        text = base64.b64encode(self._digest("snapshot", data) + data).decode()
        if len(packed) > MOST_JSON_BYTES or len(text) > self._longest:
            raise ProtocolError(
                EXECUTION_ERROR,
                f"The snapshot has {len(text):,} characters, and a message at most "
                f"{self._longest:,}: snapshots of this environment cannot be sent.",
            )
        state = self._digest("state", json.dumps([self._owner, state_key(snapshot)]).encode())
        return {"snapshot": text, "bytes": len(text), "state": state.hex()[:32]}

    def read(self, text: Any) -> tuple[Any, Mapping[str, bool]]:
        """Returns the snapshot in a text and the facts about the last turn.

        Raises:
            ProtocolError: if the text is damaged, or of another server or environment.
        """
        content = json.loads(self._unpacked(text))
        if (other := {name: content[name] for name in self._owner}) != self._owner:
            raise ProtocolError(VALIDATION_ERROR, self._difference(other))
        return content["snapshot"], content["last"]

    def _difference(self, other: Mapping[str, str]) -> str:
        """Returns the message about a snapshot of another environment."""
        id, version = self._owner["id"], self._owner["version"]
        if other["id"] != id:
            return f"Expected a snapshot of {id}, got one of {other['id']}."
        if other["version"] != version:
            return f"Expected a snapshot of AgentGym {version}, got one of {other['version']}."
        return f"The snapshot is of {id} with other arguments or wrappers than it is served with."

    def _unpacked(self, text: Any) -> bytes:
        """Returns the JSON in a text."""
        if not isinstance(text, str) or len(text) > self._longest:
            got = f"{len(text):,}" if isinstance(text, str) else type(text).__name__
            raise ProtocolError(
                VALIDATION_ERROR,
                f"snapshot must be a text of at most {self._longest:,} characters, got {got}.",
            )
        try:
            raw = base64.b64decode(text, validate=True)
        except ValueError:
            raw = b""
        given, data = raw[:32], raw[32:]
        known = hmac.compare_digest(given, self._digest("snapshot", data))
        if not known or base64.b64encode(raw).decode() != text:
            raise ProtocolError(
                VALIDATION_ERROR,
                "The snapshot is damaged, or of a server with another key: to read it after a "
                "restart or on a replica, start all of them with one AGENTGYM_SNAPSHOT_KEY.",
            )
        unpacking = zlib.decompressobj()
        packed = unpacking.decompress(data, MOST_JSON_BYTES)
        if not unpacking.eof:  # a server with the same key and a larger limit
            raise ProtocolError(VALIDATION_ERROR, "The snapshot is too large.")
        return packed

    def _digest(self, purpose: str, data: bytes) -> bytes:
        """Returns the keyed digest of data. Digests of different purposes are unrelated."""
        return hmac.digest(self._key, purpose.encode() + b"\0" + data, hashlib.sha256)
