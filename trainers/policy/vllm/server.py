"""`VLLMServer`: generation by a running vLLM server, to which new weights are pushed."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import shutil
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file

from agentgym.errors import AgentGymError, ConfigError
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.vllm.base import VLLM, Step, weights

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy

COMMAND = """\
VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL \\
    --enable-scale-out --logprobs-mode processed_logprobs --max-logprobs -1 \\
    --logits-processors agentgym.trainers.policy.vllm.worker:SupportProcessor \\
    --worker-extension-cls agentgym.trainers.policy.vllm.worker.WeightReader \\
    --enable-lora --max-lora-rank RANK"""
"""Starts a server for training. The last line is for adapters."""
HINT = f"Start it with\n{COMMAND}"
REQUESTS = 256
"""Maximum number of requests in flight, vLLM's default number of sequences in a batch."""
TIMEOUT = 600.0
"""Seconds without an answer."""


class ServerError(AgentGymError, RuntimeError):
    """The vLLM server cannot be reached or refuses a request."""


class VLLMServer(VLLM):
    """Generates with a running vLLM server.

    New weights are written to a folder in the temporary directory, from which the server reads
    them. Requests of others that are in flight meanwhile are kept, and go on with the new weights.

    Args:
        policy: the policy. All its weights are pushed, or those of its adapter.
        url: address of the server, such as "http://localhost:8000".
        max_length: maximum length of a prompt with its action in tokens. If None, the policy's.

    Raises:
        ConfigError: if there is no such server, or it was not started as `COMMAND` does.
    """

    def __init__(self, policy: Policy, url: str, *, max_length: int | None = None):
        super().__init__(policy)
        self._url = urllib.parse.urlsplit(url)
        try:
            valid = self._url.scheme in ("http", "https") and bool(self._url.hostname)
            valid = valid and self._url.port != 0
        except ValueError:  # a port that is no number
            valid = False
        if not valid:
            raise ConfigError(f"engine_url must be such as http://localhost:8000, got {url!r}.")
        try:
            self._check(max_length or policy.max_length)
        except (ServerError, LookupError, TypeError) as error:
            raise ConfigError(
                f"The server at engine_url = {url!r} cannot be used for training: {error}\n{HINT}"
            ) from error

    def _check(self, max_length: int | None) -> None:
        """Checks how the server was started, with a request for one of two tokens.

        Raises:
            ServerError: if a setting of the server is missing.
        """
        card = self._call("GET", "/v1/models")["data"][0]
        self._base = self._model = card["id"]
        if max_length is not None and card["max_model_len"] < max_length:
            raise ServerError(
                f"its --max-model-len is {card['max_model_len']}, and a prompt with its action has "
                f"up to {max_length} tokens. Start it with more, or set max_tokens to less."
            )
        self._call("GET", "/is_paused")
        end, other = self._policy.format.end_token, self._policy.encode("a")[0]
        support = {"trie": [[end], [other]], "tokens": []}
        parameters = {"max_tokens": 1, "temperature": 0.5, "logprobs": 2, "extra_args": support}
        [[(_, logprobs)]] = self._complete([[end]], [parameters])
        total = sum(map(math.exp, logprobs.values()))
        if logprobs.keys() != {end, other} or not math.isclose(total, 1.0, abs_tol=1e-3):
            raise ServerError(
                "it does not sample from the given candidates, or does not return the "
                "log-probabilities of the distribution that it samples from."
            )

    def _trie(self, row: Row) -> list[list[int]]:
        """Returns the token sequences of a row's candidates."""
        return [self._policy.encode_action(text) for text in row.request.candidates or ()]

    def _complete(
        self, prompts: list[list[int]], parameters: list[dict[str, Any]]
    ) -> list[list[Step]]:
        with ThreadPoolExecutor(min(REQUESTS, len(prompts))) as pool:
            return list(pool.map(self._request, prompts, parameters))

    def _request(self, prompt: list[int], parameters: dict[str, Any]) -> list[Step]:
        body = {"model": self._model, "token_ids": prompt, "sampling_params": parameters}
        choice = self._call("POST", "/inference/v1/generate", body)["choices"][0]
        return [
            (
                step["token_id"],
                {each["token_id"]: each["logprob"] for each in [*step["top_logprobs"], step]},
            )
            for step in choice["logprobs"]["content"]
        ]

    def sleep(self) -> None:
        """No-op: the server runs on its own device."""

    @contextmanager
    def _updating(self) -> Iterator[None]:
        self._call("POST", "/pause?mode=keep")  # resets the prefix cache, too
        try:
            yield
        finally:
            self._call("POST", "/resume")

    def _load_weights(self, model: Any) -> None:
        file = self._folder / "model.safetensors"
        found = dict(weights(model))
        if "lm_head.weight" in found:  # may be tied, but files do not share memory
            found["lm_head.weight"] = found["lm_head.weight"].clone()
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, file)
        self._call("POST", "/collective_rpc", {"method": "read_weights", "args": [str(file)]})
        file.unlink()

    def _load_adapter(self, folder: Path) -> None:
        name = f"{self._folder.name}-{self._syncs}"
        body = {"lora_name": name, "lora_path": str(folder)}
        self._call("POST", "/v1/load_lora_adapter", body)
        if self._model != self._base:
            self._call("POST", "/v1/unload_lora_adapter", {"lora_name": self._model})
        self._model = name
        shutil.rmtree(folder)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Returns the server's answer, from JSON if it is.

        Raises:
            ServerError: if the server cannot be reached, sends no answer or refuses the request.
        """
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else None
        kind = kind or http.client.HTTPConnection
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("VLLM_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        connection = kind(self._url.hostname or "", self._url.port, timeout=TIMEOUT)
        target = self._url.path.rstrip("/") + path
        try:
            with contextlib.closing(connection):
                connection.request(method, target, json.dumps(body), headers)
                reply = connection.getresponse()
                text = reply.read().decode()
            if reply.status != 200:
                raise ServerError(f"{method} {path} returns {reply.status}: {text[:1000]}")
            return json.loads(text) if text.startswith("{") else text
        except (OSError, http.client.HTTPException, ValueError) as error:
            place = self._url.netloc.rpartition("@")[2]
            raise ServerError(
                f"The vLLM server at {place} sends no usable answer to {method} {path}: "
                f"{error!r:.300}. Is it running?"
            ) from error
