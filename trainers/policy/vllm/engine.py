"""`VLLMEngine`: generation by vLLM in the trainer's process, on the trainer's device."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.vllm.base import LORA_RANKS, VLLM, Step, weights

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy

CPU_CACHE = 1 << 30
"""Bytes of keys and values on a CPU."""


class VLLMEngine(VLLM):
    """Generates with vLLM in the trainer's process.

    Of several processes, each has an engine with all weights on its own device.

    Args:
        policy: the policy. All its weights are copied, or those of its adapter.
        dtype: dtype of the copy, such as "bfloat16". If None, that of the policy's weights.
        max_length: maximum length of a prompt with its action in tokens. If None, the policy's.
        memory: share of the GPU's memory for vLLM's copy of the weights and its prefix cache.
        sleep: whether `sleep` frees that memory.

    Raises:
        MissingExtraError: if vLLM is not installed.
        ConfigError: if vLLM does not support the model, the rank of the adapter is above 512, or
            `sleep` is asked for on a CPU.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        dtype: str | None = None,
        max_length: int | None = None,
        memory: float = 0.3,
        sleep: bool = False,
    ):
        if sleep and policy.device.type == "cpu":
            raise ConfigError("engine_sleep frees a GPU's memory, but the device is a CPU.")
        # Weights and tries are handed over as objects, so vLLM may not start processes.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        # On a CPU, vLLM would tie the trainer's threads to cores.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        self._vllm = _import_vllm()
        from agentgym.trainers.policy.vllm.worker import SupportProcessor

        super().__init__(policy)
        self._adapter: Any = None
        self._sleeps, self._asleep = sleep, False
        base = base_model(policy.model)
        config = copy.deepcopy(base.config)
        config.architectures = [type(base).__name__]  # as save_pretrained of a model sets it
        config.save_pretrained(self._folder)
        policy.tokenizer.save_pretrained(self._folder)
        options = {
            "load_format": "dummy",  # `sync` loads the weights
            "dtype": dtype or str(base.dtype).removeprefix("torch."),
            "max_model_len": max_length or policy.max_length,
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": -1,
            "logits_processors": [SupportProcessor],
            "disable_log_stats": True,
            "seed": 0,
            **_process_options(),
            **self._memory_options(memory),
            **self._adapter_options(),
        }
        try:
            self._llm = self._vllm.LLM(str(self._folder), **options)
        except (ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"vLLM does not start with {type(base).__name__}: {error}\nSet engine to 'own'."
            ) from error

    def _memory_options(self, memory: float) -> dict[str, Any]:
        if self._policy.device.type == "cpu":
            return {"kv_cache_memory_bytes": CPU_CACHE, "enforce_eager": True}
        return {"gpu_memory_utilization": memory, "enable_sleep_mode": self._sleeps}

    def _adapter_options(self) -> dict[str, Any]:
        if not self._adapted:
            return {}
        rank = self._policy.model.peft_config[self._policy.model.active_adapter].r
        fitting = [most for most in LORA_RANKS if most >= rank]
        if not fitting:
            raise ConfigError(f"vLLM supports adapters up to rank {LORA_RANKS[-1]}, got {rank}.")
        return {"enable_lora": True, "max_loras": 1, "max_lora_rank": fitting[0]}

    def sleep(self) -> None:
        """Moves vLLM's weights to the CPU and drops its cache, if `sleep` was asked for."""
        if self._sleeps and not self._asleep:
            self._llm.sleep(level=1)
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False

    def _complete(
        self, prompts: list[list[int]], parameters: list[dict[str, Any]]
    ) -> list[list[Step]]:
        self._wake()
        outputs = self._llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts],
            # A copy of the parameters would copy the trie.
            [self._vllm.SamplingParams(**each, skip_clone=True) for each in parameters],
            use_tqdm=False,
            lora_request=self._adapter,
        )
        return [
            [
                (token, {other: found.logprob for other, found in logprobs.items()})
                for token, logprobs in zip(each.token_ids, each.logprobs, strict=True)
            ]
            for each in (output.outputs[0] for output in outputs)
        ]

    @contextmanager
    def _updating(self) -> Iterator[None]:
        self._wake()
        yield
        self._llm.reset_prefix_cache()

    def _load_weights(self, model: Any) -> None:
        from agentgym.trainers.policy.vllm.worker import load_weights

        self._llm.collective_rpc(load_weights, args=(weights(model),))

    def _load_adapter(self, folder: Path) -> None:
        from vllm.lora.request import (  # pyright: ignore[reportMissingImports]
            LoRARequest,
        )

        if self._adapter is not None:
            self._llm.llm_engine.remove_lora(self._adapter.lora_int_id)
            shutil.rmtree(self._adapter.lora_path)
        self._adapter = LoRARequest(folder.name, self._syncs, str(folder))


def _process_options() -> dict[str, Any]:
    """Returns the option for several processes, which vLLM has to share its groups with."""
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        return {"distributed_executor_backend": "external_launcher"}
    return {}


def _import_vllm() -> Any:
    try:
        import vllm  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("The engine 'vllm'", "vllm") from error
    return vllm
