"""`ServedTeacher`: log-probabilities of given tokens under a model on a vLLM server."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentgym.agents import ChatAgent, ChatError, make_agent
from agentgym.agents.basic.chat import hide_userinfo
from agentgym.agents.basic.http_client import UnusableReply
from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy.collate import segment_rows
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.system.processes import map_across_processes

if TYPE_CHECKING:
    from accelerate import Accelerator

T = TypeVar("T")
SERVED = "chat:"
"""Beginning of the source of a served teacher."""
REQUESTS = 32
"""Maximum number of requests in flight."""


class ServedTeacher:
    """Scores the tokens of segments with a model on a vLLM server (`vllm serve MODEL`).

    A request has the token ids of a segment, and its reply the log-probability of each of them
    (`prompt_logprobs`), over the whole vocabulary and at temperature 1.

    Args:
        source: chat:MODEL@URL.
        policy: the policy, whose tokens are scored.
        longest: maximum number of tokens of a segment. None: unlimited.
        accelerator: whose processes share the requests. None: this one sends all.

    Raises:
        ConfigError: if the server cannot score tokens, has another tokenizer, or a shorter context.
    """

    def __init__(
        self,
        source: str,
        policy: Policy,
        longest: int | None,
        accelerator: Accelerator | None = None,
    ):
        agent, self._accelerator = make_agent(source), accelerator
        assert isinstance(agent, ChatAgent)
        self._server, self._url = agent, agent.url.removesuffix("/chat/completions")
        name = f"The teacher {hide_userinfo(source)!r}"
        try:
            tokens, room = self._tokenized(text := _vocabulary(policy))
            if tokens != policy.tokenizer(text, add_special_tokens=False)["input_ids"]:
                raise ConfigError(
                    f"{name} has another tokenizer than the policy, whose tokens it scores: serve "
                    "a teacher of the same family."
                )
            if longest is not None and room <= longest:
                raise ConfigError(
                    f"{name} reads {room} tokens and writes one of them, and a prompt with its "
                    f"action has up to {longest}: serve it with --max-model-len {longest + 1}, or "
                    "set max_tokens to less."
                )
            self._scored(tokens[:2])
        except ChatError as error:
            raise ConfigError(
                f"{name} cannot score tokens: {error} A server of vLLM can (vllm serve MODEL)."
            ) from error

    def logprobs(self, batch: Batch) -> FloatArray:
        """Returns the log-probabilities of the action tokens under the teacher [K].

        Raises:
            ChatError: if the server sends no usable reply.
        """
        rows = segment_rows(batch, bootstrap=False)
        segments = [batch.trajectories[n].segments[s].tokens.tolist() for n, s in rows]
        accelerator = self._accelerator
        found = (
            self._all_scored(segments)
            if accelerator is None
            else map_across_processes(accelerator, segments, self._all_scored)
        )
        scored = dict(zip(rows, found, strict=True))
        owners = batch.turn_trajectory.tolist()
        spans = [
            scored[n, turn.segment][turn.start : turn.stop]
            for n, turn in zip(owners, batch.turns, strict=True)
        ]
        return np.concatenate([np.zeros(0, np.float32), *spans])

    def _all_scored(self, segments: Sequence[list[int]]) -> list[FloatArray]:
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(self._scored, segments))

    def _scored(self, tokens: list[int]) -> FloatArray:
        """Returns the log-probability of each token after those before it [S], 0 for the first."""

        def read(reply: Any) -> FloatArray:
            found = reply["choices"][0]["prompt_logprobs"][1:]
            pairs = zip(found, tokens[1:], strict=True)
            logprobs = np.array([0.0, *(each[str(t)]["logprob"] for each, t in pairs)], np.float32)
            if not (np.isfinite(logprobs).all() and logprobs.max() < 1e-3):
                raise ValueError("no log-probabilities")
            return logprobs

        body = {"prompt": tokens, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        return self._ask(f"{self._url}/completions", body, read)

    def _tokenized(self, text: str) -> tuple[list[int], int]:
        """Returns the tokens of a text, and the length of the context."""

        def read(reply: Any) -> tuple[list[int], int]:
            return reply["tokens"], int(reply["max_model_len"])

        url = f"{self._url.removesuffix('/v1')}/tokenize"
        return self._ask(url, {"prompt": text, "add_special_tokens": False}, read)

    def _ask(self, url: str, body: dict[str, Any], read: Callable[[Any], T]) -> T:
        """Returns what is read from the JSON values of a reply."""

        def contents(data: bytes) -> T:
            try:
                reply = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise UnusableReply(f"{url} did not reply with JSON values.") from error
            try:
                return read(reply)
            except (LookupError, TypeError, ValueError) as error:
                shown = data[:200].decode("utf-8", "replace")
                raise ChatError(
                    f"{url} did not reply as vLLM does to {sorted(body)}, but with {shown!r}."
                ) from error

        return self._server.post(url, {"model": self._server.model, **body}, contents)


def _vocabulary(policy: Policy) -> str:
    """Returns a text with all tokens of a vocabulary."""
    tokens = [[number] for number in range(len(policy.tokenizer))]
    return "\n".join(policy.tokenizer.batch_decode(tokens, clean_up_tokenization_spaces=False))
